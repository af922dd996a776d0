"""Rankings of the files of a level: which goes first, as `overlap.first` finds by a search of all of them.

A simulated level has thousands of files, and each compaction changes a few: a ranking follows what changed
(`Rankings.follow`) and gives the same answer at the cost of the change. Used by `SimBucket`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from tablestore.lsm.compaction import overlap
from tablestore.lsm.compaction.overlap import Candidate
from tablestore.lsm.levels.sorted_run import KeyOrder, Levels, SortedRun

FEW = 32  # files of a run that are looked through as fast as a ranking follows
Rank = tuple[float, int, Any]  # bytes overlapped for each of its own, newest row, smallest key
ByLevel = Mapping[int, Sequence[Any]]  # files


class Rankings:
    """The rankings of a bucket's levels, as far as they are long. Not thread-safe."""

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
            return overlap.first(levels, level)
        lowest = ranking.first()
        position, _ = run.span(lowest, lowest, levels.key)
        return overlap.candidate_at(levels, level, position)

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
