"""Row images by their keys: updates that move a row, parts of a table for tasks, and undo images.

Those are rows as they were before some changes, the first image of each key, or of a table without a key how
often each row was there. A read view is at a position of its own; with the changes between an earlier
position and the view's undone, its rows are those of the earlier position, the same whenever they are read.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest
from tablestore.format.hashing import bucket_of
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tablestore.format.types.arrow_types import from_arrow

Kinds = npt.NDArray[np.int8]


def keyed(key: Sequence[pa.Array], kinds: Kinds) -> Kinds:
    """Row kinds in which an update of the key is −D and +I: a sink by key has two rows to change."""
    before = np.flatnonzero(kinds == UPDATE_BEFORE)
    if not len(before):
        return kinds
    moved = np.zeros(len(before), np.bool_)
    for column in key:
        old, new = column.take(pa.array(before)), column.take(pa.array(before + 1))
        same = pc.fill_null(pc.equal(old, new), False)
        nulls = pc.and_(old.is_null(), new.is_null())
        moved |= ~pc.or_(same, nulls).to_numpy(zero_copy_only=False)
    changed = kinds.copy()
    changed[before[moved]] = DELETE
    changed[before[moved] + 1] = INSERT
    assert (changed[before[~moved] + 1] == UPDATE_AFTER).all(), (
        "an image before a change has the one after it next"
    )
    return changed


def part_of(key: Sequence[pa.Array], parts: int) -> npt.NDArray[np.int32]:
    """In which of so many parts each row is: a hash of its key, the same in every process."""
    return bucket_of(key, [from_arrow(column.type) for column in key], parts)


_N = "__n"  # no column: added and taken away below
_GATHERED = 65_536  # images that are folded at once


class UndoImages:
    """What changes to a keyed table undo; memory: an image of each key that they change. Not thread-safe.

    Changes come in the order of the log, an update as −U and +U or, of its key, as −D and +I.
    """

    def __init__(self, schema: pa.Schema, key: Sequence[str]) -> None:
        self._key = list(key)
        self._first = schema.append(pa.field(_N, pa.int8())).empty_table()
        self._parts: list[pa.RecordBatch] = []
        self._waiting = 0

    def add(self, rows: pa.RecordBatch, kinds: pa.Array) -> None:
        """Take changes that come after those before."""
        self._parts.append(rows.append_column(_N, kinds.cast(pa.int8())))
        self._waiting += rows.num_rows
        if self._waiting > max(_GATHERED, self._first.num_rows):
            self._fold()

    def unchanged(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows whose key no change has."""
        self._fold()
        if not self._first.num_rows:
            return rows
        changed = pc.is_in(rows.column(self._key[0]), value_set=self._first.column(self._key[0]))
        if not pc.any(changed).as_py():
            return rows
        if len(self._key) > 1:
            changed = self._changed(rows, changed)
        return rows.filter(pc.invert(changed))

    def before(self) -> list[pa.RecordBatch]:
        """The rows that were there, of the keys that changes have."""
        self._fold()
        there = self._first.filter(pc.not_equal(self._first.column(_N), pa.scalar(INSERT, pa.int8())))
        batches: list[pa.RecordBatch] = there.drop_columns([_N]).to_batches()
        return batches

    def _changed(self, rows: pa.RecordBatch, maybe: pa.Array) -> pa.Array:
        """Where the whole key is that of a change; `maybe`: where the first column of it is."""
        places = np.flatnonzero(maybe.to_numpy(zero_copy_only=False))
        wanted = pa.table(rows.select(self._key)).take(pa.array(places)).append_column(_N, pa.array(places))
        changed = self._first.select(self._key)
        matches: Any = wanted.join(changed, self._key, join_type="left semi", use_threads=False)
        mask = np.zeros(rows.num_rows, np.bool_)
        mask[matches.column(_N).to_numpy()] = True
        return pa.array(mask)

    def _fold(self) -> None:
        if not self._parts:
            return
        rows = pa.concat_tables([self._first, pa.Table.from_batches(self._parts, schema=self._first.schema)])
        self._parts, self._waiting = [], 0
        numbered = rows.select(self._key).append_column(_N, pa.array(np.arange(rows.num_rows)))
        groups = numbered.group_by(self._key, use_threads=False).aggregate([(_N, "min")])
        first = np.sort(groups.column(f"{_N}_min").to_numpy())
        self._first = rows.take(pa.array(first)).combine_chunks()


class UndoCounts:
    """What changes to a table without a key undo: of each row, how many are to come back or to go. Memory: a
    row for each that they change. Not thread-safe."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = schema.names
        self._counts = schema.append(pa.field(_N, pa.int64())).empty_table()
        self._parts: list[pa.RecordBatch] = []
        self._waiting = 0

    def add(self, rows: pa.RecordBatch, kinds: pa.Array) -> None:
        """Take changes; their order does not count."""
        back = np.isin(kinds.to_numpy(zero_copy_only=False), (DELETE, UPDATE_BEFORE))
        self._take(rows, np.where(back, 1, -1))
        if self._waiting > max(_GATHERED, self._counts.num_rows):
            self._fold()

    def unchanged(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows without those that changes have made, each as often as they made it, here or in batches
        before."""
        self._fold()
        gone = self._counts.filter(pc.less(self._counts.column(_N), 0))
        if not gone.num_rows:
            return rows
        maybe = pa.array(np.ones(rows.num_rows, np.bool_))
        for name in self._columns:
            equal = pc.is_in(rows.column(name), value_set=gone.column(name).combine_chunks())
            maybe = pc.and_(maybe, equal)
        places = np.flatnonzero(maybe.to_numpy(zero_copy_only=False))
        if not len(places):
            return rows
        dropped = places[_counted(pa.table(rows.take(pa.array(places))), gone)]
        self._take(rows.take(pa.array(dropped)), np.ones(len(dropped), np.int64))
        kept = np.ones(rows.num_rows, np.bool_)
        kept[dropped] = False
        return rows.filter(pa.array(kept))

    def before(self) -> list[pa.RecordBatch]:
        """The rows that changes took away, after `unchanged` was asked for all that are there now. Raises
        InvalidRequest where one that a change has made was not among these."""
        self._fold()
        counts = self._counts.column(_N).to_numpy()
        if (counts < 0).any():
            raise InvalidRequest("the log has rows that were made and that the table does not have")
        times = np.repeat(np.arange(len(counts)), counts)
        batches: list[pa.RecordBatch] = self._counts.drop_columns([_N]).take(pa.array(times)).to_batches()
        return batches

    def _take(self, rows: pa.RecordBatch, signs: np.ndarray) -> None:
        self._parts.append(rows.append_column(_N, pa.array(signs)))
        self._waiting += rows.num_rows

    def _fold(self) -> None:
        if not self._parts:
            return
        rows = pa.concat_tables(
            [self._counts, pa.Table.from_batches(self._parts, schema=self._counts.schema)]
        )
        self._parts, self._waiting = [], 0
        counts = rows.group_by(self._columns, use_threads=False).aggregate([(_N, "sum")])
        counts = counts.select([*self._columns, f"{_N}_sum"]).rename_columns([*self._columns, _N])
        self._counts = counts.filter(pc.not_equal(counts.column(_N), 0)).cast(self._counts.schema)


def _counted(rows: pa.Table, gone: pa.Table) -> np.ndarray:
    """Which of the rows are to go: of equal ones the first, as many as `gone` says by a count below 0."""
    columns = rows.column_names
    both = pa.concat_tables([rows, gone.select(columns)])
    numbered = both.append_column(_N, pa.array(np.arange(both.num_rows)))
    groups = numbered.group_by(columns, use_threads=False).aggregate([(_N, "list")]).column(f"{_N}_list")
    lists = groups.combine_chunks()
    numbers = lists.flatten().to_numpy()  # the place of a count comes last in its group
    sizes = lists.value_lengths().to_numpy()
    group = np.repeat(np.arange(len(sizes)), sizes)
    rank = np.arange(len(numbers)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    allowed = np.zeros(len(sizes), np.int64)
    of_counts = numbers >= rows.num_rows
    allowed[group[of_counts]] = -gone.column(_N).to_numpy()[numbers[of_counts] - rows.num_rows]
    dropped: np.ndarray = np.sort(numbers[~of_counts & (rank < allowed[group])])
    return dropped
