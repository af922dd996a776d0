"""Paimon data types: type string ⇄ value ⇄ Arrow type (format facts section 3).

A `DataType` is one frozen value; `DataField` adds id and name. Only scalar types so far: nested and special
ones parse (so that a
schema can be read and shown) but `to_arrow` raises `Unsupported` by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tablestore.errors import InvalidRequest, SchemaMismatch, Unsupported

MAX_LENGTH = 2147483647
_ALIASES = {
    "INTEGER": "INT",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "DOUBLE PRECISION": "DOUBLE",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIMESTAMP_LTZ": "TIMESTAMP_LTZ",
}
_PLAIN = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE")
_LENGTHS = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_TIMES = {"TIME": 0, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}
_NOT_YET = ("ARRAY", "MAP", "MULTISET", "ROW", "VECTOR", "VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY")
_PATTERN = re.compile(
    r"\s*(?P<root>[A-Z_]+(?: PRECISION)?)\s*(?:\(\s*(?P<p>\d+)\s*(?:,\s*(?P<s>\d+)\s*)?\))?"
    r"(?P<zone>\s+WITH LOCAL TIME ZONE|\s+WITHOUT TIME ZONE)?(?P<null>\s+NOT NULL|\s+NULL)?\s*"
)


@dataclass(frozen=True, slots=True)
class DataType:
    """One type. `precision` is p of DECIMAL/TIME/TIMESTAMP or n of CHAR/VARCHAR/BINARY/VARBINARY; `nested`
    keeps the JSON."""

    root: str
    nullable: bool = True
    precision: int = 0
    scale: int = 0
    nested: str | None = None

    def not_null(self) -> DataType:
        """The same type without NULL."""
        return replace(self, nullable=False)

    def as_nullable(self) -> DataType:
        """The same type with NULL allowed."""
        return replace(self, nullable=True)

    def __str__(self) -> str:
        root, p = self.root, self.precision
        if root in ("VARCHAR", "VARBINARY") and p == MAX_LENGTH:
            text = "STRING" if root == "VARCHAR" else "BYTES"
        elif root in _LENGTHS or root == "TIME":
            text = f"{root}({p})"
        elif root == "TIMESTAMP":
            text = f"TIMESTAMP({p})"
        elif root == "TIMESTAMP_LTZ":
            text = f"TIMESTAMP({p}) WITH LOCAL TIME ZONE"
        elif root == "DECIMAL":
            text = f"DECIMAL({p}, {self.scale})"
        else:
            text = root
        return text if self.nullable else f"{text} NOT NULL"

    def to_json(self) -> Any:
        """The form inside a schema file: text, or the object kept for nested types."""
        if self.nested is not None:
            raise Unsupported(f"{self.root} columns")
        return str(self)

    @property
    def is_string(self) -> bool:
        return self.root in ("CHAR", "VARCHAR")

    @property
    def is_binary(self) -> bool:
        return self.root in ("BINARY", "VARBINARY")


def parse_type(text: Any) -> DataType:
    """The type a schema file's `type` value means; raises InvalidRequest for one that is not a type."""
    if isinstance(text, dict):
        root = str(text.get("type", "")).upper()
        name = root.removesuffix(" NOT NULL").strip()
        if name not in _NOT_YET:
            raise InvalidRequest(f"{text!r} is not a Paimon type")
        return DataType(name, not root.endswith(" NOT NULL"), nested=repr(text))
    match = _PATTERN.fullmatch(str(text).upper())
    if match is None:
        return _unknown(str(text))
    root = _ALIASES.get(match["root"], match["root"])
    nullable = (match["null"] or "").strip() != "NOT NULL"
    p = int(match["p"]) if match["p"] else None
    if root == "TIMESTAMP" and (match["zone"] or "").strip().startswith("WITH LOCAL"):
        root = "TIMESTAMP_LTZ"
    if root in _PLAIN:
        return DataType(root, nullable)
    if root in ("STRING", "BYTES"):
        return DataType("VARCHAR" if root == "STRING" else "VARBINARY", nullable, MAX_LENGTH)
    if root in _LENGTHS:
        return DataType(root, nullable, 1 if p is None else p)
    if root in _TIMES:
        return _ranged(DataType(root, nullable, _TIMES[root] if p is None else p), 0, 9)
    if root == "DECIMAL":
        return _ranged(DataType(root, nullable, 10 if p is None else p, int(match["s"] or 0)), 1, 38)
    return _unknown(str(text))


def _ranged(t: DataType, low: int, high: int) -> DataType:
    if not low <= t.precision <= high or t.scale > t.precision:
        raise InvalidRequest(
            f"{t} is not a type: precision must be {low}..{high}, scale at most the precision"
        )
    return t


def _unknown(text: str) -> DataType:
    upper = text.upper()
    for name in _NOT_YET:
        if re.match(rf"(\w+ )?{name}\b", upper):
            return DataType(name, not upper.endswith("NOT NULL"), nested=repr(text))
    raise InvalidRequest(f"{text!r} is not a Paimon type")


BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DATE = (DataType(r) for r in _PLAIN)
STRING = DataType("VARCHAR", precision=MAX_LENGTH)
BYTES = DataType("VARBINARY", precision=MAX_LENGTH)


def CHAR(n: int) -> DataType:
    """Text of at most n characters (not padded)."""
    return DataType("CHAR", precision=n)


def VARCHAR(n: int) -> DataType:
    """Text of at most n characters."""
    return DataType("VARCHAR", precision=n)


def BINARY(n: int) -> DataType:
    """At most n bytes."""
    return DataType("BINARY", precision=n)


def VARBINARY(n: int) -> DataType:
    """At most n bytes."""
    return DataType("VARBINARY", precision=n)


def DECIMAL(p: int = 10, s: int = 0) -> DataType:
    """Exact number of p digits, s of them after the point; p ≤ 38."""
    return _ranged(DataType("DECIMAL", precision=p, scale=s), 1, 38)


def TIME(p: int = 0) -> DataType:
    """Time of day, kept in milliseconds whatever p."""
    return _ranged(DataType("TIME", precision=p), 0, 9)


def TIMESTAMP(p: int = 6) -> DataType:
    """Date and time without a zone, p fraction digits."""
    return _ranged(DataType("TIMESTAMP", precision=p), 0, 9)


def TIMESTAMP_LTZ(p: int = 6) -> DataType:
    """An instant, p fraction digits."""
    return _ranged(DataType("TIMESTAMP_LTZ", precision=p), 0, 9)


_SIMPLE_ARROW = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
}


def time_unit(precision: int) -> str:
    """Arrow's unit for a TIMESTAMP of that precision: the coarsest of ms, us, ns that holds it."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def to_arrow(t: DataType) -> pa.DataType:
    """The Arrow type in which columns of `t` travel through the engine."""
    if t.root in _SIMPLE_ARROW:
        return _SIMPLE_ARROW[t.root]
    if t.root == "DECIMAL":
        return pa.decimal128(t.precision, t.scale)
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return pa.timestamp(time_unit(t.precision), tz="UTC" if t.root == "TIMESTAMP_LTZ" else None)
    raise Unsupported(f"{t.root} columns")


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
    """The Paimon type for an Arrow type; raises Unsupported for types that have none here."""
    if pa.types.is_dictionary(t):
        return from_arrow(t.value_type, nullable=nullable)
    found = next((p for test, p in _FROM_ARROW if test(t)), None)
    if found is None and pa.types.is_decimal(t) and 0 <= t.scale <= t.precision <= 38:
        found = DECIMAL(t.precision, t.scale)
    if found is None and pa.types.is_timestamp(t):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[t.unit]
        found = TIMESTAMP_LTZ(precision) if t.tz else TIMESTAMP(precision)
    if found is None and pa.types.is_fixed_size_binary(t):
        found = BINARY(t.byte_width)
    if found is None:
        raise Unsupported(f"Arrow type {t} as a column")
    return found if nullable else found.not_null()


@dataclass(frozen=True, slots=True)
class DataField:
    """A column: `id` never changes and is never reused (I9)."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None

    @property
    def arrow(self) -> pa.Field:
        """The Arrow field of this column."""
        return pa.field(self.name, to_arrow(self.type), nullable=self.type.nullable)


def arrow_schema(fields: tuple[DataField, ...]) -> pa.Schema:
    """The Arrow schema in which rows of these columns travel."""
    return pa.schema([f.arrow for f in fields])


def require_known(names: list[str], fields: tuple[DataField, ...], what: str) -> None:
    """Raise SchemaMismatch for a name that is no column, naming the nearest."""
    from_fields = [f.name for f in fields]
    for name in names:
        if name not in from_fields:
            raise SchemaMismatch(f"{what} {name!r} is not a column; columns: {', '.join(from_fields)}")
