"""Which file of a level goes down first (leveled compaction): the one that overlaps least for its size.

Of equal ones that with the oldest rows, then the first in key order. Names are no part of that: a replay of
the same changes has other ones. The files of a run are looked through for each question, unless a `Ranking`
of them has followed what changed (`follow`): the same answer, at the cost of the change. Pure, but for
rankings, which belong to whoever makes the levels: the simulator, whose runs have thousands of files. Used
by `leveled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any

from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.lsm.levels.sorted_run import KeyOrder, Levels, SortedRun

FEW = 32  # files of a run that are looked through as fast as a ranking follows
_KEPT = "_ranking"  # under which a run has its ranking
Rank = tuple[float, int, Any]  # bytes overlapped for each of its own, newest row, smallest key
ByLevel = Mapping[int, Sequence[DataFileMeta]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file of one level and what it overlaps in the next; the one with the smallest rank goes first."""

    position: int
    file: DataFileMeta
    overlapped: slice
    overlap: int

    @property
    def rank(self) -> tuple[float, int, int]:
        """What decides: the share that it overlaps, its age, its place."""
        return self.overlap / max(self.file.file_size, 1), self.file.max_sequence, self.position

    def meets_nothing_else(self, other: Candidate) -> bool:
        """Whether `other` lies among the files that this one overlaps, so that taking it adds none."""
        first, end = self.overlapped.start, self.overlapped.stop
        low, high = other.overlapped.start, other.overlapped.stop
        return first <= low < end and first < high <= end


def first(levels: Levels, level: int) -> Candidate:
    """The file of a level above 0 that goes first."""
    run, below = levels.upper[level - 1], levels.upper[level]
    ranking = Ranking.known(run, below)
    if ranking is None:
        return min(candidates(levels, level), key=attrgetter("rank"))
    lowest = ranking.first()
    position, _ = run.span(lowest, lowest, levels.key)
    return _candidate(run, below, position, levels.key)


def candidates(levels: Levels, level: int) -> Iterator[Candidate]:
    """Each file of a level above 0 with the files of the next one that it meets."""
    run, below = levels.upper[level - 1], levels.upper[level]
    return (_candidate(run, below, position, levels.key) for position in range(len(run.files)))


def expanded(levels: Levels, level: int, chosen: Candidate, *, target_bytes: int) -> tuple[DataFileMeta, ...]:
    """The chosen file with those on both sides that add nothing to what is read below, in key order; of files
    that overlap nothing at all as many as make a file of `target_bytes`."""
    run, below = levels.upper[level - 1], levels.upper[level]
    moves, left = chosen.overlapped.start == chosen.overlapped.stop, target_bytes - chosen.file.file_size

    def comes_along(position: int) -> bool:
        nonlocal left
        if not 0 <= position < len(run.files):
            return False
        other = _candidate(run, below, position, levels.key)
        if not moves:
            return chosen.meets_nothing_else(other)
        left -= other.file.file_size
        return left >= 0 and other.overlapped == chosen.overlapped

    low = high = chosen.position
    while comes_along(high + 1):
        high += 1
    while comes_along(low - 1):
        low -= 1
    return run.files[low : high + 1]


def _candidate(run: SortedRun, below: SortedRun, position: int, key: KeyOrder) -> Candidate:
    met = below.span(*run.ends(position, key), key)
    return Candidate(position, run.files[position], slice(*met), _size(below, *met))


def _size(run: SortedRun, start: int, stop: int) -> int:
    return sum([f.file_size for f in run.files[start:stop]]) if stop > start else 0


class Ranking:
    """The files of one run in the order in which they go, over one run below. Not thread-safe; it is handed
    on from the runs before a change to those after it, which alone may ask it."""

    __slots__ = ("_below", "_heap", "_key", "_live")

    def __init__(self, run: SortedRun, below: SortedRun, key: KeyOrder) -> None:
        self._below, self._key = below, key
        self._live: dict[Any, Rank] = {}  # those in force, by smallest key
        self._heap: list[Rank] = []
        self._enter(run.files)

    @staticmethod
    def known(run: SortedRun, below: SortedRun) -> Ranking | None:
        """The ranking of these very runs, if there is one."""
        found: Ranking | None = vars(run).get(_KEPT)
        return found if found is not None and found._below is below else None

    def first(self) -> Any:
        """The smallest key of the file that goes first."""
        heap, live = self._heap, self._live
        while live.get(heap[0][2]) is not heap[0]:
            heappop(heap)
        return heap[0][2]

    def follow(self, run: SortedRun, below: SortedRun, gone: ByLevel, come: ByLevel) -> None:
        """Go on with runs without the files that are `gone` and with those that have `come`."""
        self._below, key = below, self._key
        for file in gone.get(run.level, ()):
            del self._live[key(file.min_key)]
        self._enter(come.get(run.level, ()))
        for file in (*gone.get(below.level, ()), *come.get(below.level, ())):
            start, stop = run.span(key(file.min_key), key(file.max_key), key)
            if stop > start:
                self._enter(run.files[start:stop])

    def _enter(self, files: Iterable[DataFileMeta]) -> None:
        """Rank files, anew those that were ranked; forget old ranks when most are."""
        below, key, live, heap = self._below, self._key, self._live, self._heap
        for file in files:
            low = key(file.min_key)
            overlap = _size(below, *below.span(low, key(file.max_key), key))
            live[low] = rank = (overlap / max(file.file_size, 1), file.max_sequence, low)
            heappush(heap, rank)
        if len(heap) > 2 * len(live) + FEW:
            heap[:] = live.values()
            heapify(heap)


def follow(before: Levels, after: Levels, gone: ByLevel, come: ByLevel) -> None:
    """Hand rankings on from levels to those without the files that are `gone` and with those that have
    `come`; long runs that have none get one."""
    for level in range(1, after.oldest_level):
        run, below = after.upper[level - 1], after.upper[level]
        old, under = before.upper[level - 1], before.upper[level]
        if run is old and below is under:
            continue
        ranking = Ranking.known(old, under)
        vars(old).pop(_KEPT, None)
        if ranking is not None:
            ranking.follow(run, below, gone, come)
        elif len(run.files) > FEW:
            ranking = Ranking(run, below, after.key)
        if ranking is not None and run.files:
            vars(run)[_KEPT] = ranking
