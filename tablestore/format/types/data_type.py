"""DataType and DataField: the type of a column, its text and its Arrow type (FORMAT.md 3.1).

    ARRAY and MULTISET have one child "element", MAP has "key" and "value", ROW its fields with their ids.
    VARIANT is struct<value: binary, metadata: binary> in Arrow.

`type_text` parses types, `arrow_types` has constructors and the conversion from Arrow. BLOB, VECTOR, GEOMETRY
and GEOGRAPHY exist, so that a schema with one can be read and shown, but have no Arrow type here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tablestore.core.errors import Unsupported

MAX_LENGTH = 2147483647
NESTED = ("ARRAY", "MAP", "MULTISET", "ROW")
LENGTHS = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_UNNAMED = -1  # id of an array's element and a map's key and value, which have none in schema files


@dataclass(frozen=True, slots=True)
class DataType:
    """One type. `precision` is p of DECIMAL/TIME/TIMESTAMP or n of CHAR/VARCHAR/BINARY/VARBINARY/VECTOR.

    `spelled` is the text of a type that is only passed on (GEOMETRY with its parentheses).
    """

    root: str
    nullable: bool = True
    precision: int = 0
    scale: int = 0
    children: tuple[DataField, ...] = ()
    spelled: str = ""

    def not_null(self) -> DataType:
        """The same type without NULL."""
        return replace(self, nullable=False)

    def as_nullable(self) -> DataType:
        """The same type with NULL allowed."""
        return self if self.nullable else replace(self, nullable=True)

    def with_children(self, *types: DataType) -> DataType:
        """The same type with other children."""
        pairs = zip(self.children, types, strict=True)
        return replace(self, children=tuple(replace(f, type=t) for f, t in pairs))

    def __str__(self) -> str:
        return self._text() if self.nullable else f"{self._text()} NOT NULL"

    def __repr__(self) -> str:
        return f"DataType({self})"

    def _text(self) -> str:
        root, p = self.root, self.precision
        if root in ("VARCHAR", "VARBINARY") and p == MAX_LENGTH:
            return "STRING" if root == "VARCHAR" else "BYTES"
        if root in (*LENGTHS, "TIME", "TIMESTAMP"):
            return f"{root}({p})"
        if root == "TIMESTAMP_LTZ":
            return f"TIMESTAMP({p}) WITH LOCAL TIME ZONE"
        if root == "DECIMAL":
            return f"DECIMAL({p}, {self.scale})"
        if root == "ROW":
            return f"ROW<{', '.join(map(_field_text, self.children))}>"
        if root == "VECTOR":
            return f"VECTOR<{self.element}, {p}>"
        if self.children:
            return f"{root}<{', '.join(str(f.type) for f in self.children)}>"
        return self.spelled or root

    def to_json(self) -> Any:
        """The type in a schema file: text, or an object for nested types."""
        if not self.children and self.root not in NESTED:
            return str(self)
        body: dict[str, Any] = {"type": self.root if self.nullable else f"{self.root} NOT NULL"}
        if self.root == "ROW":
            return body | {"fields": [f.to_json() for f in self.children]}
        body |= {f.name: f.type.to_json() for f in self.children}
        return body | ({"length": self.precision} if self.root == "VECTOR" else {})

    @property
    def element(self) -> DataType:
        """The type of the elements of an ARRAY or MULTISET."""
        return self.children[0].type

    @property
    def is_string(self) -> bool:
        return self.root in ("CHAR", "VARCHAR")

    @property
    def is_binary(self) -> bool:
        return self.root in ("BINARY", "VARBINARY")

    @property
    def is_nested(self) -> bool:
        """Whether it is ARRAY, MAP, MULTISET or ROW."""
        return self.root in NESTED

    @property
    def is_scalar(self) -> bool:
        """Whether its values can be compared, as in keys, partitions and statistics."""
        return self.root not in (*NESTED, "VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY")


@dataclass(frozen=True, slots=True)
class DataField:
    """A column, or a field of a ROW: `id` never changes and is never reused (I9)."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None

    @property
    def arrow(self) -> pa.Field:
        """The Arrow field of this column."""
        return pa.field(self.name, to_arrow(self.type), nullable=self.type.nullable)

    def to_json(self) -> dict[str, Any]:
        """The field in a schema file, without absent values."""
        item: dict[str, Any] = {"id": self.id, "name": self.name, "type": self.type.to_json()}
        if self.description is not None:
            item["description"] = self.description
        return item if self.default is None else item | {"defaultValue": self.default}


def _field_text(f: DataField) -> str:
    name = f.name.replace("`", "``")
    return f"`{name}` {f.type}" + (f" COMMENT {_quoted(f.description)}" if f.description else "")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def child(name: str, t: DataType) -> DataField:
    """A child without an id: `element`, `key` or `value`."""
    return DataField(_UNNAMED, name, t)


def nested(root: str, *types: DataType, nullable: bool = True, precision: int = 0) -> DataType:
    """An ARRAY, MULTISET, VECTOR (of one type) or MAP (of two)."""
    names = ("key", "value") if len(types) == 2 else ("element",)
    children = tuple(child(n, t) for n, t in zip(names, types, strict=True))
    return DataType(root, nullable, precision, children=children)


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
    "VARIANT": pa.struct(
        [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
    ),
}


def time_unit(precision: int) -> str:
    """Arrow's unit for a TIMESTAMP of that precision: the coarsest sufficient one of ms, us, ns."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def to_arrow(t: DataType) -> pa.DataType:
    """The Arrow type of columns of `t` in the engine; raises Unsupported for a type without one."""
    if t.root in _SIMPLE_ARROW:
        return _SIMPLE_ARROW[t.root]
    if t.root == "DECIMAL":
        return pa.decimal128(t.precision, t.scale)
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return pa.timestamp(time_unit(t.precision), tz="UTC" if t.root == "TIMESTAMP_LTZ" else None)
    children = [f.arrow for f in t.children] if t.root in NESTED else []
    if t.root == "ARRAY":
        return pa.list_(children[0])
    if t.root == "MAP":
        return pa.map_(children[0].with_nullable(False), children[1])
    if t.root == "MULTISET":
        key = children[0].with_name("key").with_nullable(False)
        return pa.map_(key, pa.field("value", pa.int32(), nullable=False))
    if t.root == "ROW":
        return pa.struct(children)
    raise Unsupported(f"{t.root} columns")


def renumbered(t: DataType, next_id: Callable[[], int]) -> DataType:
    """The type with new ids for the fields of its ROWs, children before their parent."""
    children = []
    for f in t.children:
        inner = renumbered(f.type, next_id)
        children.append(replace(f, id=next_id() if t.root == "ROW" else f.id, type=inner))
    return replace(t, children=tuple(children))


def highest_id(fields: tuple[DataField, ...]) -> int:
    """The highest id among the fields and nested fields; -1 without any."""
    return max((max(f.id, highest_id(f.type.children)) for f in fields), default=-1)
