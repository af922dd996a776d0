"""Physical columns of data files: table schema → columns in order, and their Arrow schema with field ids
(FORMAT.md 3.5, 9.1).

    primary key   _KEY_<trimmed key…> | _SEQUENCE_NUMBER int64 | _VALUE_KIND int8 | every table column
    append        every table column | with row tracking: _ROW_ID int64 | _SEQUENCE_NUMBER int64

Ids are written for other engines and never trusted: files are read by the names in their schema. Used by the
writers of all formats and by builders of kv batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import BIGINT, INT, TINYINT, DataField, DataType

SEQUENCE, KIND, KEY_PREFIX, ROW_ID = "_SEQUENCE_NUMBER", "_VALUE_KIND", "_KEY_", "_ROW_ID"
SYSTEM_FIELDS = (pa.field(SEQUENCE, pa.int64(), nullable=False), pa.field(KIND, pa.int8(), nullable=False))
ROW_TRACKING = (ROW_ID, SEQUENCE)
SYSTEM_COLUMNS = {
    SEQUENCE: DataField(2147483646, SEQUENCE, BIGINT.not_null()),
    KIND: DataField(2147483645, KIND, TINYINT.not_null()),
    ROW_ID: DataField(2147483642, ROW_ID, BIGINT.not_null()),
}
_KEY_ID_BASE = 1073741823
_INNER_ID_BASE, _INNER_IDS = 536870911, 1024


def keyed_columns(schema: TableSchema, *, thin: bool = False) -> tuple[DataField, ...]:
    """Columns of a primary-key table's data file in order; `thin` leaves the `_KEY_` columns out."""
    keys = (
        []
        if thin
        else [replace(f, id=f.id + _KEY_ID_BASE, name=KEY_PREFIX + f.name) for f in schema.key_fields]
    )
    return (*keys, SYSTEM_COLUMNS[SEQUENCE], SYSTEM_COLUMNS[KIND], *schema.fields)


def append_columns(schema: TableSchema, extra: Sequence[str] = ()) -> tuple[DataField, ...]:
    """Columns of an append table's data file in order; `extra` are row-tracking columns."""
    return (*schema.fields, *(SYSTEM_COLUMNS[name] for name in extra))


@lru_cache(maxsize=64)
def arrow_with_ids(columns: tuple[DataField, ...]) -> pa.Schema:
    """The Arrow schema of columns, with Parquet field ids on every level."""
    return pa.schema([with_id(f) for f in columns])


@lru_cache(maxsize=64)
def kv_schema(schema: TableSchema, columns: tuple[str, ...] | None = None) -> pa.Schema:
    """Arrow schema of kv batches: the system columns, then value columns (all, or those named)."""
    fields = schema.fields if columns is None else schema.columns(columns)
    return pa.schema([*SYSTEM_FIELDS, *(f.arrow for f in fields)])


def with_id(field: DataField) -> pa.Field:
    """The Arrow field of a column with its Parquet field id and those of nested fields."""
    kind = _with_inner_ids(field.type, field.id, 1)
    return _tagged(pa.field(field.name, kind, nullable=field.type.nullable), field.id)


def _with_inner_ids(t: DataType, column: int, depth: int) -> pa.DataType:
    """The Arrow type in which elements, keys and values carry ids made of the column's id and their depth."""

    def inner(name: str, part: DataType, sign: int, *, nullable: bool | None = None) -> pa.Field:
        kind = _with_inner_ids(part, column, depth + 1)
        field = pa.field(name, kind, nullable=part.nullable if nullable is None else nullable)
        return _tagged(field, _INNER_ID_BASE + sign * (_INNER_IDS * column + depth))

    if t.root == "ARRAY":
        return pa.list_(inner("element", t.element, 1))
    if t.root == "MAP":
        key, value = (f.type for f in t.children)
        return pa.map_(inner("key", key, -1, nullable=False), inner("value", value, 1))
    if t.root == "MULTISET":
        return pa.map_(inner("key", t.element, -1, nullable=False), inner("value", INT.not_null(), 1))
    if t.root == "ROW":
        return pa.struct([with_id(f) for f in t.children])
    kind = DataField(column, "", t).arrow.type
    if t.root == "VARIANT":
        return pa.struct([_tagged(kind.field(i), i) for i in range(kind.num_fields)])
    return kind


def _tagged(field: pa.Field, field_id: int) -> pa.Field:
    return field.with_metadata({"PARQUET:field_id": str(field_id)})
