"""Rows before and after a change, of texts or plain values → rows of the columns' types with their kinds, in
the order of the changes. Pure. Used by all formats and by `cdc.source`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format.messages.encodings import Encoding, typed
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from tablestore.format.types.data_type import DataField

_OPS = ("c", "r", "d", "u")


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of one table in the order they happened, and the kind (int8) of each."""

    rows: pa.RecordBatch
    kinds: pa.Array

    @property
    def num_rows(self) -> int:
        """How many rows there are, before images included."""
        return self.rows.num_rows


def inserted(rows: pa.RecordBatch) -> Changes:
    """Rows that are all new."""
    return Changes(rows, pa.array(np.full(rows.num_rows, INSERT, np.int8)))


def merged(ops: pa.Array, before: pa.RecordBatch, after: pa.RecordBatch) -> Changes:
    """The images that Debezium's ops mean: `c` and `r` give +I of `after`, `d` gives −D of `before`, `u` −U
    of
    `before` and +U of `after`. Raises Unsupported for an op without rows."""
    codes = pc.index_in(ops, value_set=pa.array(_OPS)).fill_null(9).to_numpy(zero_copy_only=False)
    if (codes == 9).any():
        strange = ops[int(np.argmax(codes == 9))]
        raise Unsupported(f"change event with op {strange.as_py()!r}", why="c, r, u and d have rows")
    if (codes <= 1).all():
        return inserted(after)
    if (codes == 2).all():
        return Changes(before, pa.array(np.full(len(codes), DELETE, np.int8)))
    old, new = np.flatnonzero(codes >= 2), np.flatnonzero(codes != 2)
    order = np.argsort(np.concatenate([old * 2, new * 2 + 1]), kind="stable")
    kinds = np.concatenate(
        [np.where(codes[old] == 2, DELETE, UPDATE_BEFORE), np.where(codes[new] == 3, UPDATE_AFTER, INSERT)]
    )
    both = pa.Table.from_batches([before.take(pa.array(old)), after.take(pa.array(new))])
    rows = both.take(pa.array(order)).combine_chunks().to_batches()[0]
    return Changes(rows, pa.array(kinds[order].astype(np.int8)))


def typed_rows(changes: Changes, columns: Sequence[DataField], encodings: Sequence[Encoding]) -> Changes:
    """The changes with the columns' types. Raises SchemaMismatch naming a column that a value does not fit,
    or that is NOT NULL and has none."""
    arrays = []
    for array, f, encoding in zip(changes.rows.columns, columns, encodings, strict=True):
        arrays.append(typed(array, f, encoding))
        if not f.type.nullable and arrays[-1].null_count:
            raise SchemaMismatch(f"column {f.name!r} is NOT NULL and has no value")
    schema = pa.schema([f.arrow for f in columns])
    if not columns:
        return changes
    return Changes(pa.RecordBatch.from_arrays(arrays, schema=schema), changes.kinds)


def require_image(ops: pa.Array, of_ops: Sequence[str], image: pa.Array, side: str, hint: str = "") -> None:
    """Raise SchemaMismatch where a change of these ops lacks its row."""
    lacks = pc.and_(pc.is_in(ops, pa.array(list(of_ops))), image.is_null())
    if pc.any(lacks).as_py():
        op = ops[pc.index(lacks, True).as_py()]
        raise SchemaMismatch(f"a change with op {op.as_py()!r} has no {side!r}{hint}")
