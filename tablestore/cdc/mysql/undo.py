"""Undo images: rows as they were before some changes, the first image of each key.

A read view is at a position of its own; with the changes between an earlier position and the view's undone,
its rows are those of the earlier position, the same whenever they are read. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.rowkind import INSERT

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
        found = pc.is_in(rows.column(self._key[0]), value_set=self._first.column(self._key[0]))
        if not pc.any(found).as_py():
            return rows
        if len(self._key) > 1:
            found = self._changed(rows, found)
        return rows.filter(pc.invert(found))

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
        known = self._first.select(self._key)
        found: Any = wanted.join(known, self._key, join_type="left semi", use_threads=False)
        mask = np.zeros(rows.num_rows, np.bool_)
        mask[found.column(_N).to_numpy()] = True
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
