"""Rows that a log removes from a table without a key: of rows that are equal in all columns, so many go.

Which of equal rows goes makes no difference. Only a writer that completes what another one began removes rows
so; memory: those rows.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format import rowkind
from tablestore.table.row_changes import ChangeSteps, RowChanges


class RowsToRemove:
    """Collects rows, then finds rows that are equal to them. `missing`: how many were not found."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._counts: Counter[tuple[Any, ...]] = Counter()

    def taken_from(self, rows: pa.RecordBatch, kinds: pa.Array) -> tuple[pa.RecordBatch, pa.Array]:
        """Collect the rows of kinds −U and −D; the others, which are insertions."""
        retracts = rowkind.retracts(kinds.to_numpy(zero_copy_only=False))
        if retracts.any():
            gone = rows.filter(pa.array(retracts))
            self._batches.append(gone)
            self._counts.update(zip(*map(_values, gone.columns), strict=True))
            rows = rows.filter(pa.array(~retracts))
        return rows, pa.array(np.full(rows.num_rows, rowkind.INSERT, np.int8))

    @property
    def missing(self) -> int:
        """How many collected rows were not found yet."""
        return self._counts.total()

    @property
    def steps(self) -> ChangeSteps:
        """The run over the table that removes them."""
        return ChangeSteps(self._removed)

    def _removed(self, batch: pa.RecordBatch) -> RowChanges:
        if not self.missing:
            return RowChanges()
        gone = []
        likely = self._likely(batch)
        chosen = batch.take(pa.array(likely)).select(self._batches[0].schema.names)
        for place, row in zip(likely, zip(*map(_values, chosen.columns), strict=True), strict=True):
            if self._counts[row] > 0:
                self._counts[row] -= 1
                gone.append(int(place))
        return RowChanges(deleted=gone)

    def _likely(self, batch: pa.RecordBatch) -> np.ndarray:
        """Positions of the rows each of whose plain values is one of those of a collected row."""
        likely = np.ones(batch.num_rows, dtype=bool)
        for name in self._batches[0].schema.names:
            column = batch.column(name)
            if pa.types.is_nested(column.type):
                continue
            wanted = pa.chunked_array([b.column(name) for b in self._batches]).cast(column.type)
            likely &= np.asarray(pc.is_in(column, wanted.combine_chunks()))
        return np.flatnonzero(likely)


def _values(column: pa.Array) -> list[Any]:
    """The values of a column such that equal ones are equal in Python: NaN is a value, too."""
    return [_value(value) for value in column]


def _value(scalar: pa.Scalar) -> Any:
    if not scalar.is_valid:
        return None
    if pa.types.is_map(scalar.type) or pa.types.is_list(scalar.type) or pa.types.is_large_list(scalar.type):
        return tuple(map(_value, scalar.values))
    if pa.types.is_struct(scalar.type):
        return tuple(map(_value, scalar.values()))
    if pa.types.is_floating(scalar.type):
        return struct.pack("<d", scalar.as_py())
    if pa.types.is_timestamp(scalar.type):
        return scalar.value
    return scalar.as_py()
