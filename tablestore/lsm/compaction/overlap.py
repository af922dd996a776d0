"""Which file of a level moves to the next one first (leveled compaction): the one with the least overlap for
its size.

Of equal ones that with the oldest rows, then the first in key order. File names do not matter, as they differ
in a replay of the same changes. Pure. Used by `leveled`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from tablestore.format.manifests.data_file import DataFileMeta
from tablestore.lsm.levels.sorted_run import KeyOrder, Levels, SortedRun

First = Callable[[Levels, int], "Candidate"]
"""Chooses the file of a level from 1 on that moves first."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file of one level and what it overlaps in the next; the one with the smallest rank moves first."""

    position: int
    file: DataFileMeta
    overlapped: slice
    overlap: int

    @property
    def rank(self) -> tuple[float, int, int]:
        """(overlap for its size, age, position): smaller moves first."""
        return self.overlap / max(self.file.file_size, 1), self.file.max_sequence, self.position

    def meets_nothing_else(self, other: Candidate) -> bool:
        """Whether `other` overlaps only files that this one overlaps too, so that taking it adds none."""
        first, end = self.overlapped.start, self.overlapped.stop
        low, high = other.overlapped.start, other.overlapped.stop
        return first <= low < end and first < high <= end


def first(levels: Levels, level: int) -> Candidate:
    """The file of a level from 1 on that moves first."""
    return min(candidates(levels, level), key=attrgetter("rank"))


def candidate_at(levels: Levels, level: int, position: int) -> Candidate:
    """The file at one position of a level from 1 on, with the files of the next level that it overlaps."""
    run, older = levels.upper[level - 1], levels.upper[level]
    return _candidate(run, older, position, levels.key)


def candidates(levels: Levels, level: int) -> Iterator[Candidate]:
    """Each file of a level from 1 on with the files of the next level that it overlaps."""
    run, older = levels.upper[level - 1], levels.upper[level]
    return (_candidate(run, older, position, levels.key) for position in range(len(run.files)))


def expanded(levels: Levels, level: int, chosen: Candidate, *, target_bytes: int) -> tuple[DataFileMeta, ...]:
    """The chosen file with neighbours that overlap no further files of the next level, in key order; where
    nothing is overlapped, as many neighbours as make a file of `target_bytes`."""
    run, older = levels.upper[level - 1], levels.upper[level]
    moves, left = chosen.overlapped.start == chosen.overlapped.stop, target_bytes - chosen.file.file_size

    def comes_along(position: int) -> bool:
        nonlocal left
        if not 0 <= position < len(run.files):
            return False
        other = _candidate(run, older, position, levels.key)
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


def _candidate(run: SortedRun, older: SortedRun, position: int, key: KeyOrder) -> Candidate:
    met = older.span(*run.ends(position, key), key)
    return Candidate(position, run.files[position], slice(*met), _size(older, *met))


def _size(run: SortedRun, start: int, stop: int) -> int:
    return sum([f.file_size for f in run.files[start:stop]]) if stop > start else 0
