"""LevelLookup: the rows of keys in older levels, with their files and positions (FORMAT.md 13.3).

Keys come in ascending order. Of each level only files whose key range includes some of the keys are read; a
key's row is that of the newest level that has it, and rows in deletion vectors do not count. What was read of
a file stays in the process's lookup cache, so that many small commits on a large table do not read it again
and again. Memory beyond the cache: one row group's keys, and the rows found in one window. Belongs to one
thread. Used by compaction of level 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.lsm.compaction.deletions import BucketDeletions
from tablestore.lsm.levels.bucket import BucketFiles
from tablestore.lsm.levels.sorted_run import Levels, SortedRun
from tablestore.lsm.lookup.cache import CacheBounds
from tablestore.lsm.lookup.keyed_file import KeyedFile, file_bounds
from tablestore.lsm.merge import keys as key_columns
from tablestore.lsm.merge.groups import joined
from tablestore.lsm.merge.keys import Component


@dataclass(frozen=True)
class Hits:
    """The keys that were found: key `asked[i]` of the lookup is row `positions[i]` of `files[numbers[i]]`.
    `rows` are those rows, None if only positions were wanted. In ascending order of `asked`."""

    asked: np.ndarray
    files: tuple[str, ...]
    numbers: np.ndarray
    positions: np.ndarray
    rows: pa.RecordBatch | None

    def by_file(self) -> Iterator[tuple[str, np.ndarray]]:
        """Each file with the positions found in it."""
        for number in np.unique(self.numbers):
            yield self.files[number], self.positions[self.numbers == number]


Found = tuple[
    np.ndarray, str, np.ndarray, pa.RecordBatch | None
]  # positions of keys, file, positions of rows


class LevelLookup:
    """Lookups in the levels older than `older_than`. `rows`: whole rows are wanted, not only positions."""

    def __init__(
        self,
        files: BucketFiles,
        levels: Levels,
        *,
        older_than: int,
        deletions: BucketDeletions | None,
        rows: bool,
    ) -> None:
        self._rows = rows
        self._levels = [
            _Level(files, run, rows, deletions)
            for run in levels.upper
            if run.level > older_than and run.files
        ]

    @property
    def empty(self) -> bool:
        """Whether no older level has files."""
        return not self._levels

    def find(self, parts: Sequence[Component]) -> Hits:
        """The rows of these keys, given as components of strictly increasing keys."""
        left = np.arange(len(parts[0]))  # positions of keys not found yet
        located: list[Found] = []
        for level in self._levels:
            if not len(left):
                break
            wanted = list(parts) if len(left) == len(parts[0]) else key_columns.taken(parts, left)
            gone = np.zeros(len(left), dtype=bool)
            for matched, file, positions, rows in level.find(wanted):
                located.append((left[matched], file, positions, rows))
                gone[matched] = True
            left = left[~gone]
        return self._hits(located)

    def _hits(self, hits: Sequence[Found]) -> Hits:
        none = np.zeros(0, dtype=np.int64)
        if not hits:
            return Hits(none, (), none, none, None)
        files = tuple(dict.fromkeys(file for _, file, _, _ in hits))
        asked = np.concatenate([a for a, _, _, _ in hits])
        numbers = np.repeat([files.index(f) for _, f, _, _ in hits], [len(a) for a, _, _, _ in hits])
        positions = np.concatenate([p for _, _, p, _ in hits])
        order = np.argsort(asked)
        parts = [r for _, _, _, r in hits if r is not None]
        rows = joined(parts).take(pa.array(order)) if self._rows else None
        return Hits(asked[order], files, numbers[order], positions[order], rows)


class _Level:
    """One level: its files in key order, disjoint in keys (I4)."""

    def __init__(
        self, files: BucketFiles, run: SortedRun, rows: bool, deletions: BucketDeletions | None
    ) -> None:
        self._files, self._run, self._rows, self._deletions = files, run.files, rows, deletions
        bounds = file_bounds(run.files, files.bucket.schema.key_fields)
        count = 2 * len(run.files)
        self._lows = key_columns.taken(bounds, np.arange(0, count, 2))
        self._highs = key_columns.taken(bounds, np.arange(1, count, 2))
        self._keep = CacheBounds.of(files.bucket.options)
        self._keyed: dict[int, KeyedFile] = {}

    def find(self, wanted: Sequence[Component]) -> Iterator[Found]:
        """The rows found in this level, file by file."""
        start, count = 0, len(wanted[0])
        first, last = key_columns.key_at(wanted, 0), key_columns.key_at(wanted, -1)
        begin = key_columns.rows_before(self._highs, first)
        end = key_columns.rows_up_to(self._lows, last)
        for number in range(begin, end):
            low, high = key_columns.key_at(self._lows, number), key_columns.key_at(self._highs, number)
            start = max(start, key_columns.rows_before(wanted, low))
            stop = key_columns.rows_up_to(wanted, high, start)
            if start < stop:
                yield from self._find(number, key_columns.sliced(wanted, start, stop), start)
            start = stop
            if start == count:
                return

    def _find(self, number: int, wanted: Sequence[Component], start: int) -> Iterator[Found]:
        file = self._run[number]
        keyed = self._keyed.get(number)
        if keyed is None:
            keyed = self._keyed[number] = self._opened(file)
        matched, positions = keyed.find(wanted)
        gone = self._deletions.vector(file.file_name) if self._deletions is not None else None
        if gone is not None and len(matched):
            alive = ~np.isin(positions, gone.positions, assume_unique=True)
            matched, positions = matched[alive], positions[alive]
        if len(matched):
            rows = keyed.rows(positions, self._files.bucket.schema.names) if self._rows else None
            yield matched + start, file.file_name, positions, rows

    def _opened(self, file: DataFileMeta) -> KeyedFile:
        files, bucket = self._files, self._files.bucket
        own = bucket.schema_of(file.schema_id)
        if self._rows:
            files.require_known(own)
        return KeyedFile(
            bucket.io,
            files.path(file),
            file,
            own,
            bucket.schema,
            bounds=self._keep,
            checksums_dir=files.checksums_dir,
        )
