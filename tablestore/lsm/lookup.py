"""Looking keys up in the levels above: for these keys, which row is there, in which file and place.

Keys come in ascending order, window after window, and the levels' files are sorted, so a lookup is a merge
join: each level has a cursor that moves forward once through those files whose key range holds a key that is
asked for. A file whose range holds none is never opened. The lowest level that has a key answers; rows that
deletion vectors name are not there. Memory: one batch of each level and the rows found in one window.
Belongs to one thread. Used by compaction of level 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.format import binary_row, literal
from tablestore.format.manifest import DataFileMeta
from tablestore.lsm import keys as key_columns
from tablestore.lsm.bucket_files import BucketFiles
from tablestore.lsm.deletions import BucketDeletions
from tablestore.lsm.keys import Component
from tablestore.lsm.merge_function import joined
from tablestore.lsm.sorted_run import Levels, SortedRun


@dataclass(frozen=True)
class Hits:
    """Keys that were found: `asked[i]`, a place among the keys asked for, is row `positions[i]` of
    `files[numbers[i]]`. `rows` are those rows, None if only places were wanted. In ascending order of
    `asked`."""

    asked: np.ndarray
    files: tuple[str, ...]
    numbers: np.ndarray
    positions: np.ndarray
    rows: pa.RecordBatch | None

    def by_file(self) -> Iterator[tuple[str, np.ndarray]]:
        """Each file with the positions found in it."""
        for number in np.unique(self.numbers):
            yield self.files[number], self.positions[self.numbers == number]


class LevelLookup:
    """Lookups in `levels` above `above`. `rows`: whole rows are wanted, not only their places."""

    def __init__(
        self,
        files: BucketFiles,
        levels: Levels,
        *,
        above: int,
        deletions: BucketDeletions | None,
        rows: bool,
    ) -> None:
        keys = files.schema.key_fields
        columns = None if rows else tuple(f.name for f in keys)
        self._keys, self._rows = keys, rows
        self._cursors = [
            _Cursor(files, run, columns, deletions) for run in levels.upper if run.level > above and run.files
        ]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to look in."""
        return not self._cursors

    def find(self, parts: Sequence[Component]) -> Hits:
        """What there is of these keys: components of rows with strictly increasing keys, all greater than
        those asked for before."""
        left = np.arange(len(parts[0]))  # places of keys not found yet
        found: list[tuple[np.ndarray, str, np.ndarray, pa.RecordBatch]] = []
        for cursor in self._cursors:
            if not len(left):
                break
            wanted = list(parts) if len(left) == len(parts[0]) else _taken(parts, left)
            gone = np.zeros(len(left), dtype=bool)
            for file, matched, positions, rows in cursor.find(wanted):
                found.append((left[matched], file, positions, rows))
                gone[matched] = True
            left = left[~gone]
        return self._hits(found)

    def _hits(self, found: Sequence[tuple[np.ndarray, str, np.ndarray, pa.RecordBatch]]) -> Hits:
        none = np.zeros(0, dtype=np.int64)
        if not found:
            return Hits(none, (), none, none, None)
        files = tuple(dict.fromkeys(file for _, file, _, _ in found))
        asked = np.concatenate([a for a, _, _, _ in found])
        numbers = np.repeat([files.index(f) for _, f, _, _ in found], [len(a) for a, _, _, _ in found])
        positions = np.concatenate([p for _, _, p, _ in found])
        order = np.argsort(asked)
        rows = joined([r for _, _, _, r in found]).take(pa.array(order)) if self._rows else None
        return Hits(asked[order], files, numbers[order], positions[order], rows)


def _taken(parts: Sequence[Component], places: np.ndarray) -> list[Component]:
    return [p[places] if isinstance(p, np.ndarray) else p.take(pa.array(places)) for p in parts]


class _Cursor:
    """One level: its files in key order, and the batch of the open one that is not yet passed."""

    def __init__(
        self,
        files: BucketFiles,
        run: SortedRun,
        columns: tuple[str, ...] | None,
        deletions: BucketDeletions | None,
    ) -> None:
        self._files, self._run, self._columns, self._deletions = files, run.files, columns, deletions
        self._keys = files.schema.key_fields
        self._bounds = _bounds(run.files, self._keys)
        self._at = 0  # the file that is open or next
        self._open: Iterator[tuple[np.ndarray, pa.RecordBatch]] | None = None
        self._held: tuple[np.ndarray, pa.RecordBatch, list[Component]] | None = None

    def find(
        self, wanted: Sequence[Component]
    ) -> Iterator[tuple[str, np.ndarray, np.ndarray, pa.RecordBatch]]:
        """(file, places among the keys, positions in the file, rows) of keys that are in this level."""
        start, count = 0, len(wanted[0])
        while start < count and self._at < len(self._run):
            low, high = self._within(wanted, start)
            if low == high:
                if high == count and not self._past(wanted):
                    return  # the file may hold keys that are asked for later
                self._leave()
                start = high
                continue
            batch = self._batch(key_columns.key_at(wanted, low))
            if batch is None:
                self._leave()
                start = high
                continue
            positions, rows, parts = batch
            stop = key_columns.rows_up_to(wanted, key_columns.key_at(parts, -1), low)
            stop = min(stop, high)
            matched, at = _matches(key_columns.sliced(wanted, low, stop), parts)
            if len(matched):
                picked = rows.take(pa.array(at))
                yield self._run[self._at].file_name, matched + low, positions[at], picked
            start = stop

    def _within(self, wanted: Sequence[Component], start: int) -> tuple[int, int]:
        """Places of the keys, from `start` on, that the current file's key range holds."""
        low, high = (
            key_columns.key_at(self._bounds, 2 * self._at),
            key_columns.key_at(self._bounds, 2 * self._at + 1),
        )
        end = max(start, key_columns.rows_up_to(wanted, high, start))
        first = key_columns.rows_up_to(wanted, low, start)
        if first > start and not key_columns.less(key_columns.key_at(wanted, first - 1), low):
            first -= 1  # the file's first key itself
        return min(max(first, start), end), end

    def _past(self, wanted: Sequence[Component]) -> bool:
        """Whether the last key is at or after the end of the current file."""
        high = key_columns.key_at(self._bounds, 2 * self._at + 1)
        return not key_columns.less(key_columns.key_at(wanted, -1), high)

    def _leave(self) -> None:
        self._at, self._open, self._held = self._at + 1, None, None

    def _batch(self, key: key_columns.Key) -> tuple[np.ndarray, pa.RecordBatch, list[Component]] | None:
        """The first batch of the current file whose last key is not before `key`; None past its end."""
        if self._open is None:
            self._open = self._read(self._run[self._at])
        while self._held is None or key_columns.less(key_columns.key_at(self._held[2], -1), key):
            positions, rows = next(self._open, (None, None))
            if rows is None:
                return None
            self._held = positions, rows, key_columns.of_batch(rows, self._keys)
        return self._held

    def _read(self, file: DataFileMeta) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
        """Batches of a file with the position of each row; deleted rows are left out."""
        gone = self._deletions.of(file.file_name) if self._deletions is not None else None
        start = 0
        for batch in self._files.read(file, columns=self._columns):
            positions = np.arange(start, start + batch.num_rows)
            mask = None if gone is None else gone.alive(start, batch.num_rows)
            start += batch.num_rows
            if mask is not None:
                positions, batch = positions[mask], batch.filter(pa.array(mask))
            if batch.num_rows:
                yield positions, batch


def _bounds(files: Sequence[DataFileMeta], keys: Sequence[object]) -> list[Component]:
    """Components of min and max key of each file, in turn."""
    types = [f.type for f in keys]
    ends = [binary_row.decode(end, types) for f in files for end in (f.min_key, f.max_key)]
    arrays = [literal.array(values, t) for values, t in zip(zip(*ends, strict=True), types, strict=True)]
    return key_columns.components(arrays, types)


def _matches(wanted: Sequence[Component], parts: Sequence[Component]) -> tuple[np.ndarray, np.ndarray]:
    """(places in `wanted`, places in `parts`) of equal keys; both are strictly increasing."""
    count = len(wanted[0])
    codes = key_columns.codes(key_columns.concatenated([list(wanted), list(parts)]))
    asked, there = codes[:count], codes[count:]
    at = np.searchsorted(there, asked)
    at_most = np.minimum(at, len(there) - 1)
    hit = there[at_most] == asked
    return np.flatnonzero(hit), at_most[hit]
