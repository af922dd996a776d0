"""Physical columns of Parquet data files: table schema → Arrow schema with field ids (format facts 3 and 9).

    _KEY_<trimmed key…> | _SEQUENCE_NUMBER int64 | _VALUE_KIND int8 | every table column

Ids are written for other engines and never trusted: files are opened by the names of their schema.
Used by datafile and by those who build kv batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tablestore.format.schema import TableSchema
from tablestore.format.types import DataField

SEQUENCE, KIND, KEY_PREFIX = "_SEQUENCE_NUMBER", "_VALUE_KIND", "_KEY_"
SYSTEM_FIELDS = (pa.field(SEQUENCE, pa.int64(), nullable=False), pa.field(KIND, pa.int8(), nullable=False))
_SYSTEM_IDS = {SEQUENCE: 2147483646, KIND: 2147483645}
_KEY_ID_BASE = 1073741823


def physical_schema(schema: TableSchema, *, thin: bool = False) -> pa.Schema:
    """Columns of a primary-key table's data file in order; `thin` leaves the `_KEY_` columns out."""
    keys = [] if thin else [_column(f, key=True) for f in schema.key_fields]
    system = [_with_id(f, _SYSTEM_IDS[f.name]) for f in SYSTEM_FIELDS]
    return pa.schema([*keys, *system, *(_column(f) for f in schema.fields)])


def kv_schema(schema: TableSchema, columns: Sequence[str] | None = None) -> pa.Schema:
    """Arrow schema of kv batches: the system columns, then value columns (all, or those named)."""
    fields = schema.fields if columns is None else schema.columns(tuple(columns))
    return pa.schema([*SYSTEM_FIELDS, *(f.arrow for f in fields)])


def source_names(physical: pa.Schema) -> list[str]:
    """For each physical column the column of a kv batch it is taken from."""
    return [n.removeprefix(KEY_PREFIX) for n in physical.names]


def _column(field: DataField, *, key: bool = False) -> pa.Field:
    name = KEY_PREFIX + field.name if key else field.name
    return _with_id(field.arrow.with_name(name), field.id + (_KEY_ID_BASE if key else 0))


def _with_id(field: pa.Field, field_id: int) -> pa.Field:
    return field.with_metadata({"PARQUET:field_id": str(field_id)})
