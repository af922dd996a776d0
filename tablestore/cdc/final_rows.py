"""Changes folded into the rows that are there in the end.

With a primary key the newest image of a key counts, and a delete of a key that is not there is nothing.
Without one rows come and go by their whole value. Memory: the rows so far, and one batch of changes. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.format.messages.messages import Changes
from tablestore.format.rowkind import DELETE, UPDATE_BEFORE

_N = "__n"  # no column: added and taken away below
_GATHERED = 65_536  # changes that are folded at once


class FinalRows:
    """The rows that changes lead to, in the order in which keys came; not thread-safe."""

    def __init__(self, schema: pa.Schema, primary_key: Sequence[str]) -> None:
        if not primary_key:
            nested = [f.name for f in schema if pa.types.is_nested(f.type)]
            if nested:
                raise Unsupported(
                    f"changes of rows with {nested[0]!r} and no primary key", "rows are compared"
                )
        self._key = list(primary_key)
        self._names = schema.names
        self._rows = schema.empty_table()
        self._counts = np.zeros(0, np.int64)  # how often each row is there; without a key
        self._parts: list[pa.RecordBatch] = []
        self._kinds: list[np.ndarray] = []
        self._waiting = 0

    def add(self, changes: Changes) -> None:
        """Take changes that come after those before."""
        self._parts.append(changes.rows)
        self._kinds.append(changes.kinds.to_numpy())
        self._waiting += changes.num_rows
        if self._waiting > max(_GATHERED, self._rows.num_rows):
            self._fold()

    def rows(self) -> pa.Table:
        """The rows that are there now. Raises InvalidRequest where more were deleted than there were."""
        self._fold()
        if self._key:
            return self._rows
        if (self._counts < 0).any():
            raise InvalidRequest("a row is deleted that was never there; a primary key makes deletes plain")
        return self._rows.take(pa.array(np.repeat(np.arange(len(self._counts)), self._counts)))

    def _fold(self) -> None:
        if not self._parts:
            return
        kinds = np.concatenate(self._kinds)
        taken = (kinds == DELETE) | (kinds == UPDATE_BEFORE)
        every = pa.concat_tables([self._rows, pa.Table.from_batches(self._parts, schema=self._rows.schema)])
        self._parts, self._kinds, self._waiting = [], [], 0
        if self._key:
            self._fold_keys(every, taken)
        else:
            self._fold_counts(every, taken)

    def _fold_keys(self, every: pa.Table, taken: np.ndarray) -> None:
        numbered = every.select(self._key).append_column(_N, pa.array(np.arange(every.num_rows)))
        groups = numbered.group_by(self._key, use_threads=False).aggregate([(_N, "max"), (_N, "min")])
        newest, first = (groups.column(f"{_N}_{name}").to_numpy() for name in ("max", "min"))
        there = np.concatenate([np.zeros(self._rows.num_rows, bool), taken])
        kept = ~there[newest]
        order = np.argsort(first[kept], kind="stable")
        self._rows = every.take(pa.array(newest[kept][order])).combine_chunks()

    def _fold_counts(self, every: pa.Table, taken: np.ndarray) -> None:
        counts = np.concatenate([self._counts, np.where(taken, -1, 1)])
        numbered = every.append_column(_N, pa.array(counts)).append_column(
            f"{_N}0", pa.array(np.arange(every.num_rows))
        )
        groups = numbered.group_by(self._names, use_threads=False).aggregate([(_N, "sum"), (f"{_N}0", "min")])
        groups = groups.filter(pc.not_equal(groups.column(f"{_N}_sum"), 0)).sort_by(f"{_N}0_min")
        self._counts = groups.column(f"{_N}_sum").to_numpy()
        self._rows = every.take(groups.column(f"{_N}0_min")).combine_chunks()
