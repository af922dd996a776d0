"""Rows of texts or plain values → rows of the columns' types. Used by all formats."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch
from tablestore.format.messages.encodings import Encoding, typed
from tablestore.format.messages.images import Changes
from tablestore.format.types.data_type import DataField


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
