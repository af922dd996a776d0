"""Rows that DuckDB gives, in the types that tables have: it widens sums, renames elements, forgets zones."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest
from tablestore.format.types.data_type import DataType, to_arrow
from tablestore.sql.query.numeric_types import FLOATS, WHOLE
from tablestore.sql.query.type_inference import Columns

_HUGE = "HUGEINT"


def sound_schema(schema: pa.Schema, types: Sequence[str], columns: Columns = ()) -> pa.Schema:
    """The schema of the result; `types` are DuckDB's own, `columns` those that the query was found to have.
    Columns of one name get numbers, as in Flink."""
    expected = [t for _, t in columns] if len(columns) == len(types) else [None] * len(types)
    fields = []
    for field, kind, wanted in zip(schema, types, expected, strict=True):
        sound = pa.int64() if kind == _HUGE else _sound(field.type)
        fields.append(sound if wanted is None else _wanted(sound, wanted))
    return pa.schema(list(zip(free_names(schema.names), fields, strict=True)))


def free_names(names: Sequence[str]) -> list[str]:
    """The names; one that was there before gets a number."""
    free: list[str] = []
    for name in names:
        numbered = (f"{name}{i}" for i in range(len(free) + 1))
        free.append(name if name not in free else next(n for n in numbered if n not in free))
    return free


def _wanted(computed: pa.DataType, wanted: DataType) -> pa.DataType:
    """The type that a column was found to have, where DuckDB only counts in more or fewer digits."""
    if wanted.root in FLOATS and pa.types.is_floating(computed):
        return to_arrow(wanted)
    if wanted.root in WHOLE and pa.types.is_integer(computed):
        return to_arrow(wanted)
    if wanted.root == "MULTISET" and pa.types.is_map(computed):
        return pa.map_(computed.key_type, pa.int32())
    if wanted.root == "DECIMAL" and (pa.types.is_decimal(computed) or pa.types.is_integer(computed)):
        return to_arrow(wanted)
    return computed


def _sound(t: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(t) and t.tz is not None:
        return pa.timestamp(t.unit, "UTC")
    if pa.types.is_time(t):
        return pa.time32("ms")
    if pa.types.is_list(t):
        return pa.list_(pa.field("element", _sound(t.value_type)))
    if pa.types.is_map(t):
        return pa.map_(_sound(t.key_type), _sound(t.item_type))
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _sound(f.type)) for f in t.fields])
    return t


def sound(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the types of the schema. Raises InvalidRequest for a sum beyond BIGINT."""
    columns = [_cast(c, f) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        return pc.cast(column, field.type, safe=not pa.types.is_time(field.type))
    except pa.ArrowInvalid:
        problem = f"{field.name} is beyond BIGINT: sum CAST(… AS DECIMAL(38, 0)) instead"
        raise InvalidRequest(problem) from None
