"""What a compaction makes of simulated levels: a run in which files change costs what changes, and its copy.

Keys are comparable as they lie, so files are found by search, and sizes are kept, where `Levels.apply` looks
at every file. Pure. Used by `SimBucket`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any

from tablestore.lsm.compaction import leveled
from tablestore.lsm.compaction.leveled import Candidate
from tablestore.lsm.levels.sorted_run import KeyOrder, Levels, SortedRun, byte_order

ByLevel = Mapping[int, Sequence[Any]]  # files
_smallest, _greatest = attrgetter("min_key"), attrgetter("max_key")


class SimRun(SortedRun):
    """A run of simulated files, found by search in the files themselves: no list of their keys is made."""

    @classmethod
    def sized(cls, files: tuple[Any, ...], level: int, size: int) -> SimRun:
        """The run whose files have `size` bytes, which need not be added up."""
        run = cls(files, level)
        run.__dict__["size"] = size
        return run

    def ends(self, position: int, key: KeyOrder) -> tuple[Any, Any]:
        """Smallest and greatest key of one file."""
        file = self.files[position]
        return file.min_key, file.max_key

    def span(self, low: Any, high: Any, key: KeyOrder) -> tuple[int, int]:
        """From where to where the files lie that share a key with `low`..`high`."""
        if self.files and low > self.files[-1].max_key:
            return len(self.files), len(self.files)
        start = bisect_left(self.files, low, key=_greatest)
        return start, bisect_right(self.files, high, lo=start, key=_smallest)


def applied(levels: Levels, gone: ByLevel, come: ByLevel) -> Levels:
    """The levels without the files that are `gone` and with those that have `come`, none of them to level 0:
    what `Levels.apply` gives."""
    level0, upper = levels.level0, list(levels.upper)
    for level in gone.keys() | come.keys():
        if level:
            upper[level - 1] = _changed(upper[level - 1], gone.get(level, ()), come.get(level, ()))
    if 0 in gone:
        names = {f.file_name for f in gone[0]}
        level0 = tuple([f for f in level0 if f.file_name not in names]) if len(names) < len(level0) else ()
    return Levels(level0, tuple(upper), levels.key)


def _changed(run: SortedRun, gone: Sequence[Any], come: Sequence[Any]) -> SortedRun:
    """The run without some files and with others, which stay disjoint."""
    files = run.files
    if len(gone) == len(files):
        start, stop = 0, len(files)
    elif len(gone) + len(come) == 1:
        (file,) = (*gone, *come)
        start, stop = run.span(file.min_key, file.max_key, byte_order)
    else:
        low = min([f.min_key for f in gone] + [f.min_key for f in come])
        high = max([f.max_key for f in gone] + [f.max_key for f in come])
        start, stop = run.span(low, high, byte_order)
    inside = _exchanged(files[start:stop], gone, come, run.level)
    size = run.size + sum([f.file_size for f in come]) - sum([f.file_size for f in gone])
    return SimRun.sized(
        files[:start] + tuple(inside) + files[stop:], run.level, size
    )  # one copy of a long run


def _exchanged(files: Sequence[Any], gone: Sequence[Any], come: Sequence[Any], level: int) -> Sequence[Any]:
    """Files in key order without some, which must be among them, and with others."""
    exchanged: list[Any] = []
    if len(files) > len(gone):
        names = {f.file_name for f in gone}
        exchanged += [f for f in files if f.file_name not in names]
    assert len(exchanged) == len(files) - len(gone), f"I6: not all of {len(gone)} files are live at L{level}"
    exchanged += come
    if len(exchanged) > 1:
        exchanged.sort(key=attrgetter("min_key"))
    return exchanged


FEW = 32  # files of a run that are looked through as fast as a ranking follows
Rank = tuple[float, int, Any]  # bytes overlapped for each of its own, newest row, smallest key


class Rankings:
    """The rankings of a bucket's levels, as far as they are long: which file goes first, as `leveled.first`
    finds by a search of all of them. A level has thousands of files, and each compaction changes a few:
    `follow` gives the same answer at the cost of the change. Not thread-safe."""

    def __init__(self) -> None:
        self._by_level: dict[int, Ranking] = {}

    def known(self, run: SortedRun, below: SortedRun) -> Ranking | None:
        """The ranking of these very runs, if there is one."""
        ranking = self._by_level.get(run.level)
        return ranking if ranking is not None and ranking.run is run and ranking.below is below else None

    def first(self, levels: Levels, level: int) -> Candidate:
        """The file of a level above 0 that goes first."""
        run = levels.upper[level - 1]
        ranking = self.known(run, levels.upper[level])
        if ranking is None:
            return leveled.first(levels, level)
        lowest = ranking.first()
        position, _ = run.span(lowest, lowest, levels.key)
        return leveled.candidate_at(levels, level, position)

    def follow(self, before: Levels, after: Levels, gone: ByLevel, come: ByLevel) -> None:
        """Bring rankings from levels to those without the files that are `gone` and with those that have
        `come`; long runs that have none get one."""
        for level in range(1, len(after.upper)):
            run, below = after.upper[level - 1], after.upper[level]
            old, old_below = before.upper[level - 1], before.upper[level]
            if run is old and below is old_below:
                continue
            ranking = self.known(old, old_below)
            self._by_level.pop(level, None)
            if ranking is not None:
                ranking.follow(run, below, gone, come)
            elif len(run.files) > FEW:
                ranking = Ranking(run, below, after.key)
            if ranking is not None and run.files:
                self._by_level[level] = ranking


class Ranking:
    """The files of one run in the order in which they go, over one run below. Not thread-safe."""

    __slots__ = ("_heap", "_key", "_ranks", "below", "run")

    def __init__(self, run: SortedRun, below: SortedRun, key: KeyOrder) -> None:
        self.run, self.below, self._key = run, below, key
        self._ranks: dict[Any, Rank] = {}  # those in force, by smallest key
        self._heap: list[Rank] = []
        self._enter(run.files)

    def first(self) -> Any:
        """The smallest key of the file that goes first."""
        heap, ranks = self._heap, self._ranks
        while ranks.get(heap[0][2]) is not heap[0]:
            heappop(heap)
        return heap[0][2]

    def follow(self, run: SortedRun, below: SortedRun, gone: ByLevel, come: ByLevel) -> None:
        """Go on with runs without the files that are `gone` and with those that have `come`."""
        self.run, self.below, key = run, below, self._key
        for file in gone.get(run.level, ()):
            del self._ranks[key(file.min_key)]
        self._enter(come.get(run.level, ()))
        for file in (*gone.get(below.level, ()), *come.get(below.level, ())):
            start, stop = run.span(key(file.min_key), key(file.max_key), key)
            if stop > start:
                self._enter(run.files[start:stop])

    def _enter(self, files: Iterable[Any]) -> None:
        """Rank files, anew those that were ranked; forget old ranks when most are."""
        below, key, ranks, heap = self.below, self._key, self._ranks, self._heap
        for file in files:
            low = key(file.min_key)
            start, stop = below.span(low, key(file.max_key), key)
            overlapped = sum([f.file_size for f in below.files[start:stop]]) if stop > start else 0
            ranks[low] = rank = (overlapped / max(file.file_size, 1), file.max_sequence, low)
            heappush(heap, rank)
        if len(heap) > 2 * len(ranks) + FEW:
            heap[:] = ranks.values()
            heapify(heap)
