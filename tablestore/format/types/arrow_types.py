"""Paimon data types for users, their Arrow types (FORMAT.md 3.1), and Arrow columns as numpy.

    ts.INT · ts.DECIMAL(15, 2) · ts.ARRAY(ts.STRING) · ts.MAP(ts.STRING, ts.INT) · ts.ROW(x=ts.INT, y=ts.DATE)

The values are `DataType` (data_type.py); text and JSON are read by `parse_type` (type_text.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tablestore.core.arguments import checked
from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format.types.data_type import MAX_LENGTH, DataField, DataType, nested, time_unit, to_arrow
from tablestore.format.types.type_text import PLAIN, parse_type, ranged, sized

__all__ = [
    "ARRAY",
    "BIGINT",
    "BINARY",
    "BOOLEAN",
    "BYTES",
    "CHAR",
    "DATE",
    "DECIMAL",
    "DOUBLE",
    "FLOAT",
    "INT",
    "MAP",
    "MAX_LENGTH",
    "MULTISET",
    "ROW",
    "SMALLINT",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
    "TINYINT",
    "VARBINARY",
    "VARCHAR",
    "VARIANT",
    "DataField",
    "DataType",
    "arrow_schema",
    "as_type",
    "from_arrow",
    "parse_type",
    "require_known",
    "time_unit",
    "to_arrow",
]

BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DATE, VARIANT = (DataType(r) for r in PLAIN[:9])
STRING = DataType("VARCHAR", precision=MAX_LENGTH)
BYTES = DataType("VARBINARY", precision=MAX_LENGTH)
TypeLike: TypeAlias = DataType | str | pa.DataType


@checked
def CHAR(n: int) -> DataType:
    """Text of up to n characters (not padded)."""
    return sized("CHAR", n)


@checked
def VARCHAR(n: int) -> DataType:
    """Text of up to n characters."""
    return sized("VARCHAR", n)


@checked
def BINARY(n: int) -> DataType:
    """Up to n bytes."""
    return sized("BINARY", n)


@checked
def VARBINARY(n: int) -> DataType:
    """Up to n bytes."""
    return sized("VARBINARY", n)


@checked
def DECIMAL(p: int = 10, s: int = 0) -> DataType:
    """Exact number of p digits, s of them after the point; p ≤ 38."""
    return ranged(DataType("DECIMAL", precision=p, scale=s), 1, 38)


@checked
def TIME(p: int = 0) -> DataType:
    """Time of day, stored in milliseconds whatever p is."""
    return ranged(DataType("TIME", precision=p), 0, 9)


@checked
def TIMESTAMP(p: int = 6) -> DataType:
    """Date and time without a zone, p fraction digits."""
    return ranged(DataType("TIMESTAMP", precision=p), 0, 9)


@checked
def TIMESTAMP_LTZ(p: int = 6) -> DataType:
    """An instant, p fraction digits."""
    return ranged(DataType("TIMESTAMP_LTZ", precision=p), 0, 9)


@checked
def ARRAY(element: TypeLike) -> DataType:
    """Many values of one type, in order."""
    return nested("ARRAY", as_type(element, "ARRAY"))


@checked
def MAP(key: TypeLike, value: TypeLike) -> DataType:
    """Values by key; keys are distinct and never NULL."""
    return nested("MAP", as_type(key, "MAP"), as_type(value, "MAP"))


@checked
def MULTISET(element: TypeLike) -> DataType:
    """Values with their counts."""
    return nested("MULTISET", as_type(element, "MULTISET"))


@checked
def ROW(fields: Mapping[str, TypeLike] | None = None, /, **named: TypeLike) -> DataType:
    """Named fields: `ROW(x=INT, y=STRING)` or `ROW({"a b": INT})`. Ids are assigned with the column's."""
    pairs = {**(fields or {}), **named}
    children = tuple(
        DataField(i, n, as_type(t, f"ROW field {n!r}")) for i, (n, t) in enumerate(pairs.items())
    )
    return DataType("ROW", children=children)


def as_type(t: Any, what: str) -> DataType:
    """The type that a user means by a DataType, a text or an Arrow type; raises SchemaMismatch for others."""
    if isinstance(t, pa.DataType):
        return from_arrow(t)
    if isinstance(t, str):
        return parse_type(t)
    if not isinstance(t, DataType):
        raise SchemaMismatch(f"{what}: {t!r} is not a type; write ts.INT, 'DECIMAL(15, 2)' or an Arrow type")
    return t


_FROM_ARROW = (
    (pa.types.is_boolean, BOOLEAN),
    (pa.types.is_int8, TINYINT),
    (pa.types.is_int16, SMALLINT),
    (pa.types.is_uint8, SMALLINT),
    (pa.types.is_int32, INT),
    (pa.types.is_uint16, INT),
    (pa.types.is_int64, BIGINT),
    (pa.types.is_uint32, BIGINT),
    (pa.types.is_uint64, DataType("DECIMAL", precision=20)),
    (pa.types.is_float16, FLOAT),
    (pa.types.is_float32, FLOAT),
    (pa.types.is_float64, DOUBLE),
    (pa.types.is_string, STRING),
    (pa.types.is_large_string, STRING),
    (pa.types.is_string_view, STRING),
    (pa.types.is_binary, BYTES),
    (pa.types.is_large_binary, BYTES),
    (pa.types.is_binary_view, BYTES),
    (pa.types.is_date, DATE),
    (pa.types.is_time, TIME(3)),
)


def from_arrow(t: pa.DataType, *, nullable: bool = True) -> DataType:
    """The Paimon type for an Arrow type; raises Unsupported for Arrow types without one."""
    if pa.types.is_dictionary(t):
        return from_arrow(t.value_type, nullable=nullable)
    mapped = next((p for test, p in _FROM_ARROW if test(t)), None)
    if mapped is None and pa.types.is_decimal(t) and 0 <= t.scale <= t.precision <= 38:
        mapped = DECIMAL(t.precision, t.scale)
    if mapped is None and pa.types.is_timestamp(t):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[t.unit]
        mapped = TIMESTAMP_LTZ(precision) if t.tz else TIMESTAMP(precision)
    if mapped is None and pa.types.is_fixed_size_binary(t):
        mapped = BINARY(t.byte_width)
    if mapped is None and pa.types.is_nested(t):
        mapped = _nested_from_arrow(t)
    if mapped is None:
        raise Unsupported(f"Arrow type {t} as a column")
    return mapped if nullable else mapped.not_null()


def _nested_from_arrow(t: pa.DataType) -> DataType | None:
    """The type of a nested Arrow type: a struct is a ROW and a map a MAP, never a VARIANT or MULTISET."""
    if pa.types.is_map(t):
        key, item = t.key_field, t.item_field
        return nested(
            "MAP", from_arrow(key.type, nullable=False), from_arrow(item.type, nullable=item.nullable)
        )
    if pa.types.is_struct(t):
        named = enumerate(t.field(i) for i in range(t.num_fields))
        fields = (DataField(i, f.name, from_arrow(f.type, nullable=f.nullable)) for i, f in named)
        return DataType("ROW", children=tuple(fields))
    if isinstance(t, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        return nested("ARRAY", from_arrow(t.value_type, nullable=t.value_field.nullable))
    return None


def arrow_schema(fields: tuple[DataField, ...]) -> pa.Schema:
    """The Arrow schema of rows of these columns."""
    return pa.schema([f.arrow for f in fields])


def require_known(names: list[str], fields: tuple[DataField, ...], what: str) -> None:
    """Raise SchemaMismatch for a name that is not a column, naming the nearest."""
    from_fields = [f.name for f in fields]
    for name in names:
        if name not in from_fields:
            raise SchemaMismatch(f"{what} {name!r} is not a column; columns: {', '.join(from_fields)}")


def is_number(kind: pa.DataType) -> bool:
    """Whether values of the type are integers, decimals or floats."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def filled(array: pa.Array) -> np.ndarray:
    """The values, 0 for NULL."""
    if array.null_count:
        array = array.fill_null(pa.scalar(0, array.type))
    return array.to_numpy(zero_copy_only=False)


def valid_mask(array: pa.Array) -> np.ndarray:
    """A bool a row: whether it has a value."""
    return array.is_valid().to_numpy(zero_copy_only=False)


def null_mask(array: pa.Array) -> np.ndarray | None:
    """A bool a row: whether it is NULL; None where none is."""
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
