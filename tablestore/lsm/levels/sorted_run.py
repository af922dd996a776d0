"""Sorted runs, levels and sections: files of one bucket by age and by key (FORMAT.md 12.1, 12.3).

Every level-0 file is a run of its own, newest first; each level from 1 on is one run of files with disjoint
keys (I4). For one key, an earlier run of `Levels.runs` is newer (I5). Sections do not overlap in keys, so
they can be merged one after another; inside one the files are packed into as few runs as possible. Pure
values: readers may keep an old `Levels`, nothing mutates it.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tablestore.format.manifests.data_file import DataFileMeta

MIXED = -1  # level of a run packed from files of several levels
KeyOrder = Callable[[bytes], Any]
Section = tuple["SortedRun", ...]


def byte_order(key: bytes) -> bytes:
    """The key itself, for keys that are comparable as bytes."""
    return key


@dataclass(frozen=True)
class SortedRun:
    """Files ordered by key with disjoint key ranges (I4). `level` is MIXED for a packed run of a section."""

    files: tuple[DataFileMeta, ...]
    level: int = MIXED

    @classmethod
    def single(cls, file: DataFileMeta) -> SortedRun:
        """The run of one file."""
        return cls((file,), file.level)

    @cached_property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(f.file_size for f in self.files)

    @property
    def rows(self) -> int:
        """Rows of all files, deletes included."""
        return sum(f.row_count for f in self.files)

    def bounds(self, key: KeyOrder) -> tuple[list[Any], list[Any]]:
        """(smallest, greatest) comparable keys of the files; cached for the same `key`."""
        cached = self.__dict__.get("_bounds")
        if cached is None or cached[0] is not key:
            lows, highs = [key(f.min_key) for f in self.files], [key(f.max_key) for f in self.files]
            cached = self.__dict__["_bounds"] = (key, lows, highs)
        return cached[1], cached[2]

    def ends(self, position: int, key: KeyOrder) -> tuple[Any, Any]:
        """Smallest and greatest key of one file, comparable."""
        lows, highs = self.bounds(key)
        return lows[position], highs[position]

    def span(self, low: Any, high: Any, key: KeyOrder) -> tuple[int, int]:
        """(start, stop) of the files whose key range overlaps `low`..`high`, both comparable keys; an empty
        range at their position if there are none."""
        lows, highs = self.bounds(key)
        start = bisect_left(highs, low)
        return start, bisect_right(lows, high, lo=start)

    def overlapping(self, low: Any, high: Any, key: KeyOrder) -> tuple[DataFileMeta, ...]:
        """The files whose key range overlaps `low`..`high`, both comparable keys."""
        start, stop = self.span(low, high, key)
        return self.files[start:stop]

    def __getstate__(self) -> dict[str, Any]:
        return {"files": self.files, "level": self.level}


@dataclass(frozen=True, slots=True)
class Levels:
    """All files of one bucket."""

    level0: tuple[DataFileMeta, ...]  # newest first
    upper: tuple[SortedRun, ...]  # upper[i] is level i + 1, maybe without files
    key: KeyOrder = field(default=byte_order, compare=False, repr=False)  # makes serialized keys comparable

    @classmethod
    def of(cls, files: Iterable[DataFileMeta], num_levels: int, key: KeyOrder = byte_order) -> Levels:
        """The levels of these live files: `num_levels`, or more if a file is at an older level.

        `key` makes serialized keys comparable (`binary_row.comparable_keys`); without it files of a level are
        in byte order.
        """
        by_level: dict[int, list[DataFileMeta]] = {}
        for file in files:
            by_level.setdefault(file.level, []).append(file)
        count = max(num_levels, max(by_level, default=0) + 1)
        upper = []
        for level in range(1, count):
            level_files = by_level.get(level, [])
            if len(level_files) > 1:
                level_files = sorted(level_files, key=lambda f: key(f.min_key))
            upper.append(SortedRun(tuple(level_files), level))
        return cls(tuple(sorted(by_level.get(0, ()), key=newest_first)), tuple(upper), key)

    @property
    def num_levels(self) -> int:
        """Levels, level 0 included."""
        return len(self.upper) + 1

    @property
    def oldest_level(self) -> int:
        """The number of the oldest level, whether it holds files or not; Paimon's maximum level."""
        return len(self.upper)

    @property
    def runs(self) -> tuple[SortedRun, ...]:
        """All runs, newest first: those of level 0, then the levels that hold files."""
        return tuple(SortedRun.single(f) for f in self.level0) + tuple(r for r in self.upper if r.files)

    @property
    def run_count(self) -> int:
        """The number of sorted runs."""
        count = len(self.level0)
        for run in self.upper:
            if run.files:
                count += 1
        return count

    @property
    def oldest_nonempty_level(self) -> int:
        """The oldest level that holds a file; 0 when only level 0 does, -1 when none does."""
        for run in reversed(self.upper):
            if run.files:
                return run.level
        return 0 if self.level0 else -1

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """Every file, in the order of `runs`."""
        return self.level0 + tuple(f for r in self.upper for f in r.files)

    def apply(
        self, before: Iterable[DataFileMeta], after: Iterable[DataFileMeta], key: KeyOrder | None = None
    ) -> Levels:
        """The levels without `before` and with `after`; every file of `before` must be live. Unchanged levels
        stay the same objects."""
        order = key or self.key
        gone: dict[int, set[str]] = {}
        come: dict[int, list[DataFileMeta]] = {}
        for file in before:
            gone.setdefault(file.level, set()).add(file.file_name)
        for file in after:
            come.setdefault(file.level, []).append(file)
        upper = list(self.upper)
        upper += (SortedRun((), level) for level in range(len(upper) + 1, max(come, default=0) + 1))
        level0 = self.level0
        for level in gone.keys() | come.keys():
            files = level0 if level == 0 else upper[level - 1].files
            names = gone.get(level, ())
            kept = [f for f in files if f.file_name not in names]
            assert len(kept) == len(files) - len(names), f"I6: {sorted(names)} are not all live at L{level}"
            new = come.get(level, ())
            if level == 0:
                level0 = tuple(sorted([*kept, *new], key=newest_first))
            else:
                if order != self.key:
                    kept.sort(key=lambda f: order(f.min_key))
                for file in new:
                    insort(kept, file, key=lambda f: order(f.min_key))
                upper[level - 1] = SortedRun(tuple(kept), level)
        return Levels(level0, tuple(upper), order)


def newest_first(file: DataFileMeta) -> tuple[int, int, int, str]:
    """Sort key of level 0: largest sequence first, then smallest first one, creation time, name."""
    return -file.max_sequence, file.min_sequence, file.creation_time_ms or 0, file.file_name


def old_to_new(runs: Iterable[SortedRun]) -> list[SortedRun]:
    """Runs from old to new, the reverse of `Levels.runs`, as a merge expects them.

    This order decides between rows of equal sequence numbers, which two writers that started from one
    snapshot may have assigned: the same row wins before and after any compaction (I12).
    """
    return sorted(runs, key=lambda run: min((f.level, *newest_first(f)) for f in run.files), reverse=True)


def key_sections(files: Iterable[DataFileMeta], key: KeyOrder) -> list[Section]:
    """Sections in key order; `key` makes `min_key` and `max_key` comparable."""
    order = enumerate(sorted(files, key=newest_first))  # equal key ranges: by age
    spans = [(key(f.min_key), key(f.max_key), i, f) for i, f in order]
    spans.sort()  # positions differ, so files are never compared
    sections: list[Section] = []
    section: list[tuple[Any, Any, int, DataFileMeta]] = []
    bound: Any = None
    for span in spans:
        if section and span[0] > bound:
            sections.append(_pack(section))
            section = []
        bound = span[1] if not section else max(bound, span[1])
        section.append(span)
    if section:
        sections.append(_pack(section))
    return sections


def _pack(spans: list[tuple[Any, Any, int, DataFileMeta]]) -> Section:
    """Greedy packing: each file goes to the run that ends first, if it begins after that end."""
    runs: list[list[DataFileMeta]] = []
    ends: list[tuple[Any, int]] = []  # heap of (last max key, run)
    for low, high, _, file in spans:
        if ends and low > ends[0][0]:
            run = ends[0][1]
            heapq.heapreplace(ends, (high, run))
            runs[run].append(file)
        else:
            heapq.heappush(ends, (high, len(runs)))
            runs.append([file])
    return tuple(SortedRun(tuple(files), _level(files)) for files in runs)


def _level(files: list[DataFileMeta]) -> int:
    levels = {f.level for f in files}
    return levels.pop() if len(levels) == 1 else MIXED
