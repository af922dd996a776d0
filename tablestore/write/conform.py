"""Record batches → batches with exactly the table's columns, or one clear error before a byte is written.

Columns match by name. Extra ones are refused with the nearest name, missing ones get their default or NULL,
an explicit NULL in a column with a default is that default; key and NOT NULL columns must hold no NULL. Every
NaN of a key becomes the same one. What a single column may hold: `column_fit.py`. Whole columns at a time;
memory: one batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch
from tablestore.format.predicates.literal import unwrapped
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField
from tablestore.write.arrow_input import from_columns
from tablestore.write.column_fit import (
    NOTHING_WRITTEN,
    absent,
    filled,
    fitted,
    require_names,
    require_present,
)


def conform(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """`batch` with exactly the table's columns, order and types; raises SchemaMismatch naming column and
    remedy."""
    given = list(batch.schema.names)
    require_names(given, schema.names, "column")
    arrays = [
        fitted(batch.column(given.index(f.name)), f.type, f"column {f.name!r}")
        if f.name in given
        else absent(f, batch.num_rows, f"column {f.name!r}")
        for f in schema.fields
    ]
    for i, f in enumerate(schema.fields):
        require_present(arrays[i], f.type, f"column {f.name!r}")
        arrays[i] = filled(arrays[i], f)
        if f.name in schema.primary_keys:
            arrays[i] = one_nan(arrays[i])
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def fitted_values(values: Mapping[str, Any], schema: TableSchema) -> dict[str, pa.Scalar]:
    """One value a column, in the type and form in which a row with it is written; raises SchemaMismatch."""
    row = from_columns({name: [unwrapped(value)] for name, value in values.items()}, schema)
    scalars = {}
    for name, array in zip(row.schema.names, row.columns, strict=True):
        field = schema.by_name[name]
        column = fitted(array, field.type, f"column {name!r}")
        require_present(column, field.type, f"column {name!r}")
        scalars[name] = filled(column, field)[0]
    return scalars


def conform_keys(batch: pa.RecordBatch, fields: Sequence[DataField]) -> pa.RecordBatch:
    """The key columns of `batch` in the form in which they are written; raises SchemaMismatch naming column
    and row."""
    missing = [f.name for f in fields if f.name not in batch.schema.names]
    if missing:
        raise SchemaMismatch(
            f"the keys lack {', '.join(missing)}; a key holds {', '.join(f.name for f in fields)}"
        )
    arrays = []
    try:
        for f in fields:
            array = fitted(batch.column(f.name), f.type, f"column {f.name!r}")
            require_present(array, f.type, f"column {f.name!r}")
            arrays.append(one_nan(array))
    except SchemaMismatch as e:
        raise SchemaMismatch(f"the keys do not fit: {str(e).removesuffix(NOTHING_WRITTEN)}") from None
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([f.arrow for f in fields]))


def one_nan(key: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A key column whose NaN all have the same bits, since they decide a key's bucket (0/0 gives others)."""
    if not pa.types.is_floating(key.type):
        return key
    return pc.if_else(pc.is_nan(key), pa.scalar(float("nan"), key.type), key)
