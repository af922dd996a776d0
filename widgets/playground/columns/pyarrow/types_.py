"""Types, fields and schemas of the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


class DataType:
    """A type by its text, with the fields that it is made of."""

    def __init__(self, text: str, *parts: Any, **more: Any) -> None:
        self.text, self.parts = text, parts
        self.tz = self.unit = None
        self.__dict__.update(more)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def equals(self, other: Any) -> bool:
        """Whether both are one type."""
        return self == other

    @property
    def fields(self) -> list[Field]:
        """The fields of a struct."""
        return list(self.parts)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.parts)

    @property
    def num_fields(self) -> int:
        """How many fields."""
        return len(self.parts)

    @property
    def value_type(self) -> Any:
        """The type of a list's values."""
        return self.parts[0].type if isinstance(self.parts[0], Field) else self.parts[0]

    def to_pandas_dtype(self) -> Any:
        """What numpy calls it."""
        return {"double": "float64", "float": "float32"}.get(self.text, self.text)

    @property
    def convert(self) -> Callable[[Any], Any]:
        """How a value that is not None becomes one of this type."""
        if self.text.startswith(("int", "uint")):
            return int
        if self.text.startswith("timestamp"):
            return self._moment
        if self.text.startswith(("list", "large_list")):
            return list
        if self.text.startswith("struct"):
            return self._record
        plain: dict[str, Callable[[Any], Any]] = {
            "double": float,
            "float": float,
            "bool": bool,
            "binary": bytes,
        }
        return plain.get(self.text, lambda v: v)

    def _record(self, value: Any) -> Any:
        return {
            f.name: None if value.get(f.name) is None else f.type.convert(value[f.name]) for f in self.parts
        }

    def _moment(self, value: Any) -> Any:
        if not isinstance(value, int):
            return value
        begin = datetime(1970, 1, 1, tzinfo=UTC if self.tz else None)
        return begin + timedelta(microseconds=value * 1_000_000 // _PER_SECOND[self.unit or "ms"])


class Field:
    """A name with its type."""

    def __init__(self, name: str, type: DataType, nullable: bool = True, metadata: Any = None) -> None:
        self.name, self.type, self.nullable, self.metadata = name, type, nullable, metadata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and (self.name, self.type) == (other.name, other.type)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"

    __repr__ = __str__

    def with_name(self, name: str) -> Field:
        """The field under another name."""
        return Field(name, self.type, self.nullable, self.metadata)

    def with_type(self, type: DataType) -> Field:
        """The field with another type."""
        return Field(self.name, type, self.nullable, self.metadata)

    def with_nullable(self, nullable: bool) -> Field:
        """The field with NULLs, or without."""
        return Field(self.name, self.type, nullable, self.metadata)


class Schema:
    """Fields in order."""

    def __init__(self, fields: Iterable[Any], metadata: Any = None) -> None:
        self._fields = [f if isinstance(f, Field) else Field(*f) for f in fields]
        self.metadata = metadata

    @property
    def names(self) -> list[str]:
        """The names."""
        return [f.name for f in self._fields]

    @property
    def types(self) -> list[DataType]:
        """The types."""
        return [f.type for f in self._fields]

    def field(self, key: Any) -> Field:
        """The field of a name or a place."""
        return self._fields[key if isinstance(key, int) else self.names.index(key)]

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getitem__(self, at: int) -> Field:
        return self._fields[at]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    def equals(self, other: Any) -> bool:
        """Whether both have the same fields."""
        return self == other

    def get_field_index(self, name: str) -> int:
        """The place of a name, −1 if there is none."""
        return self.names.index(name) if name in self.names else -1

    def append(self, field: Field) -> Schema:
        """One field more."""
        return Schema([*self._fields, field])

    def insert(self, at: int, field: Field) -> Schema:
        """One field more, at a place."""
        return Schema([*self._fields[:at], field, *self._fields[at:]])

    def remove(self, at: int) -> Schema:
        """One field less."""
        return Schema([*self._fields[:at], *self._fields[at + 1 :]])

    def set(self, at: int, field: Field) -> Schema:
        """Another field at a place."""
        return Schema([*self._fields[:at], field, *self._fields[at + 1 :]])

    def empty_table(self) -> Any:
        """A table without rows."""
        from pyarrow.table_ import Table

        return Table.from_pylist([], schema=self)

    def with_metadata(self, metadata: Any) -> Schema:
        """The same with other metadata."""
        return Schema(self._fields, metadata)


def timestamp(unit: str, tz: str | None = None) -> DataType:
    """Moments."""
    return DataType(f"timestamp[{unit}{f', tz={tz}' if tz else ''}]", unit=unit, tz=tz)


def decimal128(precision: int, scale: int = 0) -> DataType:
    """Decimals."""
    return DataType(f"decimal128({precision}, {scale})", precision=precision, scale=scale)


def list_(value: Any) -> DataType:
    """Lists."""
    return DataType(f"list<{value if isinstance(value, Field) else f'item: {value}'}>", value)


def struct(fields: Any) -> DataType:
    """Records."""
    pairs = fields.items() if isinstance(fields, Mapping) else fields
    struct_fields = [f if isinstance(f, Field) else Field(*f) for f in pairs]
    return DataType(f"struct<{', '.join(map(str, struct_fields))}>", *struct_fields)


def map_(key: Any, item: Any) -> DataType:
    """Pairs."""
    return DataType(f"map<{key}, {item}>", key, item, key_type=key, item_type=item)


def dictionary(index: DataType, value: DataType) -> DataType:
    """Values named by numbers; here they are the values."""
    return value


def schema(fields: Any, metadata: Any = None) -> Schema:
    """Fields, pairs or a mapping as a schema."""
    return Schema(fields.items() if isinstance(fields, Mapping) else fields, metadata)


def infer(values: Iterable[Any]) -> DataType:
    """The type of plain values."""
    types = {type(v) for v in values if v is not None}
    for kinds, text in (({bool}, "bool"), ({int}, "int64"), ({int, float}, "double"), ({bytes}, "binary")):
        if types and types <= kinds:
            return DataType(text)
    if types == {str}:
        return DataType("string")
    first = next((v for v in values if v is not None), None)
    if isinstance(first, datetime):
        return timestamp("us", "UTC" if first.tzinfo else None)
    if isinstance(first, list | tuple):
        return list_(infer([v for each in values if each for v in each]))
    if isinstance(first, dict):
        return struct({k: infer([v[k] for v in values if v]) for k in first})
    return DataType("null")
