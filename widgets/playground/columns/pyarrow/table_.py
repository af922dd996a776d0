"""Columns and tables of plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pyarrow.types_ import DataType, Field, Schema, infer, schema as schema_of


class Scalar:
    """One value with its type."""

    def __init__(self, value: Any, type: DataType) -> None:
        self._value, self.type = value, type

    def as_py(self) -> Any:
        """The plain value."""
        return self._value

    @property
    def is_valid(self) -> bool:
        """Whether it is not NULL."""
        return self._value is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __str__(self) -> str:
        return str(self._value)

    def __getitem__(self, key: Any) -> Any:
        return Scalar(self._value[key], infer([self._value[key]]))


class Array:
    """A column. `values` is the list behind it, never changed."""

    def __init__(self, values: list[Any], type: DataType) -> None:
        self.values, self.type = values, type

    @property
    def null_count(self) -> int:
        """How many values are NULL."""
        return self.values.count(None)

    @property
    def num_chunks(self) -> int:
        """Always one piece."""
        return 1

    @property
    def chunks(self) -> list[Array]:
        """The one piece."""
        return [self]

    def chunk(self, at: int) -> Array:
        """The one piece."""
        return self

    def combine_chunks(self) -> Array:
        """One piece."""
        return self

    def unify_dictionaries(self) -> Array:
        """Values are not named by numbers here."""
        return self

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Scalar]:
        return (Scalar(v, self.type) for v in self.values)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return Array(self.values[key], self.type)
        return Scalar(self.values[key], self.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and other.values == self.values

    def __hash__(self) -> int:
        return id(self)

    def equals(self, other: Any) -> bool:
        """Whether both hold the same values."""
        return self == other

    def to_pylist(self) -> list[Any]:
        """The values."""
        return list(self.values)

    def to_numpy(self, zero_copy_only: bool = False) -> np.ndarray:
        """The values for sums."""
        text = self.type.text
        if text.startswith(("int", "uint")):
            kind = "int64" if None not in self.values else "float64"
            numbers = (
                self.values if kind == "int64" else [np.nan if v is None else float(v) for v in self.values]
            )
        elif text in ("double", "float"):
            kind, numbers = "float64", [np.nan if v is None else v for v in self.values]
        else:
            kind, numbers = ("bool" if text == "bool" and None not in self.values else "object"), self.values
        return np.ndarray(list(numbers), (len(numbers),), np.dtype(kind))

    def __array__(self) -> np.ndarray:
        return self.to_numpy()

    def slice(self, offset: int = 0, length: int | None = None) -> Array:
        """Some values behind each other."""
        return Array(self.values[offset : None if length is None else offset + length], self.type)

    def take(self, places: Any) -> Array:
        """The values at places, NULL at NULL."""
        at = _plain(places)
        return Array([None if i is None else self.values[i] for i in at], self.type)

    def filter(self, mask: Any) -> Array:
        """The values where the mask is true."""
        return Array([v for v, m in zip(self.values, _plain(mask), strict=True) if m], self.type)

    def cast(self, type: Any, safe: bool = True) -> Array:
        """The values as another type."""
        to = named(type)
        if to == self.type:
            return self
        text = to.text in ("string", "large_string")
        convert: Callable[[Any], Any] = _text if text else to.convert
        return Array([None if v is None else convert(v) for v in self.values], to)

    def is_null(self) -> Array:
        """Which values are NULL."""
        return Array([v is None for v in self.values], DataType("bool"))

    def is_valid(self) -> Array:
        """Which values are there."""
        return Array([v is not None for v in self.values], DataType("bool"))

    def fill_null(self, value: Any) -> Array:
        """Another value for NULL."""
        other = value.as_py() if isinstance(value, Scalar) else value
        return Array([other if v is None else v for v in self.values], self.type)

    def unique(self) -> Array:
        """Each value once, as they come."""
        return Array(list(dict.fromkeys(self.values)), self.type)

    def field(self, key: Any) -> Array:
        """A field of records."""
        part = (
            self.type.parts[key]
            if isinstance(key, int)
            else next(f for f in self.type.parts if f.name == key)
        )
        return Array([None if v is None else v[part.name] for v in self.values], part.type)

    def dictionary_encode(self) -> Array:
        """Values are not named by numbers here."""
        return self

    def value_counts(self) -> Array:
        """How often each value comes."""
        counts: dict[Any, int] = {}
        for v in self.values:
            counts[v] = counts.get(v, 0) + 1
        kind = DataType("struct", Field("values", self.type), Field("counts", DataType("int64")))
        return Array([{"values": k, "counts": n} for k, n in counts.items()], kind)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.decode() if isinstance(value, bytes) else str(value)


def _plain(values: Any) -> list[Any]:
    if isinstance(values, Array):
        return values.values
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def named(type: Any) -> DataType:
    """A type, or the one of a name."""
    return (
        type
        if isinstance(type, DataType)
        else DataType({"float64": "double", "float32": "float"}.get(type, type))
    )


def array(
    values: Any, type: Any = None, mask: Any = None, size: int | None = None, from_pandas: bool = False
) -> Array:
    """Plain values as a column."""
    if isinstance(values, Array):
        return values if type is None else values.cast(type)
    plain = _plain(values)
    if mask is not None:
        plain = [None if m else v for v, m in zip(plain, _plain(mask), strict=True)]
    to = infer(plain) if type is None else named(type)
    if type is None and not plain and isinstance(values, np.ndarray):
        to = named(values.dtype.name)
    return Array([None if v is None else to.convert(v) for v in plain], to)


class Table:
    """Columns of one length."""

    def __init__(self, columns: Sequence[Array], schema: Schema) -> None:
        self.columns, self.schema = list(columns), schema
        self.num_rows = len(columns[0]) if columns else 0

    @classmethod
    def from_pylist(cls, rows: Iterable[Mapping[str, Any]], schema: Schema | None = None) -> Table:
        """Dicts as rows."""
        listed = list(rows)
        names = schema.names if schema else list(dict.fromkeys(n for row in listed for n in row))
        return table({n: [row.get(n) for row in listed] for n in names}, schema=schema)

    @classmethod
    def from_pydict(cls, columns: Mapping[str, Any], schema: Schema | None = None) -> Table:
        """Lists by name."""
        return table(columns, schema=schema)

    @classmethod
    def from_arrays(
        cls, arrays: Sequence[Any], names: Sequence[str] | None = None, schema: Schema | None = None
    ) -> Table:
        """Columns in order."""
        return table(list(arrays), names=names, schema=schema)

    @classmethod
    def from_batches(cls, batches: Iterable[Table], schema: Schema | None = None) -> Table:
        """Pieces behind each other."""
        pieces = list(batches)
        return concat_tables(pieces) if pieces else schema.empty_table()

    @property
    def column_names(self) -> list[str]:
        """The names."""
        return self.schema.names

    @property
    def num_columns(self) -> int:
        """How many columns."""
        return len(self.columns)

    @property
    def nbytes(self) -> int:
        """Not known here."""
        return 0

    def column(self, key: Any) -> Array:
        """The column of a name or a place."""
        if isinstance(key, int):
            return self.columns[key]
        if key not in self.schema.names:
            raise KeyError(f'Field "{key}" does not exist in schema')
        return self.columns[self.schema.names.index(key)]

    def field(self, key: Any) -> Field:
        """The field of a name or a place."""
        return self.schema.field(key)

    def __getitem__(self, key: Any) -> Any:
        return self.slice(*_span(key, self.num_rows)) if isinstance(key, slice) else self.column(key)

    def __len__(self) -> int:
        return self.num_rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.schema == other.schema and self.columns == other.columns

    def __hash__(self) -> int:
        return id(self)

    def equals(self, other: Any) -> bool:
        """Whether both hold the same values."""
        return self == other

    def itercolumns(self) -> Iterator[Array]:
        """The columns."""
        return iter(self.columns)

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dicts."""
        names = self.schema.names
        return [
            dict(zip(names, row, strict=True)) for row in zip(*(c.values for c in self.columns), strict=True)
        ]

    def to_pydict(self) -> dict[str, list[Any]]:
        """The columns as lists."""
        return {n: c.to_pylist() for n, c in zip(self.schema.names, self.columns, strict=True)}

    def to_batches(self, max_chunksize: int | None = None) -> list[Table]:
        """One piece."""
        return [self]

    def combine_chunks(self) -> Table:
        """One piece."""
        return self

    def _each(self, change: Callable[[Array], Array]) -> Table:
        return Table([change(c) for c in self.columns], self.schema)

    def slice(self, offset: int = 0, length: int | None = None) -> Table:
        """Some rows behind each other."""
        return self._each(lambda c: c.slice(offset, length))

    def take(self, places: Any) -> Table:
        """The rows at places."""
        at = _plain(places)
        return self._each(lambda c: c.take(at))

    def filter(self, mask: Any) -> Table:
        """The rows where a mask is true, or an expression."""
        kept = _plain(mask(self)) if callable(mask) else _plain(mask)
        return self._each(lambda c: c.filter(kept))

    def select(self, keys: Sequence[Any]) -> Table:
        """Some columns."""
        return Table([self.column(k) for k in keys], Schema([self.schema.field(k) for k in keys]))

    def drop_columns(self, names: Any) -> Table:
        """All columns but some."""
        gone = [names] if isinstance(names, str) else names
        return self.select([n for n in self.column_names if n not in gone])

    drop = drop_columns

    def append_column(self, field: Any, values: Any) -> Table:
        """One column more."""
        return self.add_column(self.num_columns, field, values)

    def add_column(self, at: int, field: Any, values: Any) -> Table:
        """One column more, at a place."""
        column_field = _field(field, values)
        column = array(values, column_field.type)
        return Table([*self.columns[:at], column, *self.columns[at:]], self.schema.insert(at, column_field))

    def set_column(self, at: int, field: Any, values: Any) -> Table:
        """Another column at a place."""
        column_field = _field(field, values)
        columns = [*self.columns[:at], array(values, column_field.type), *self.columns[at + 1 :]]
        return Table(columns, self.schema.set(at, column_field))

    def rename_columns(self, names: Sequence[str]) -> Table:
        """The same under other names."""
        return Table(self.columns, Schema([f.with_name(n) for f, n in zip(self.schema, names, strict=True)]))

    def cast(self, schema: Schema) -> Table:
        """The columns as other types."""
        return Table([c.cast(f.type) for c, f in zip(self.columns, schema, strict=True)], schema)

    def sort_by(self, keys: Any) -> Table:
        """The rows in order."""
        from pyarrow.compute import sort_indices

        wanted = [(keys, "ascending")] if isinstance(keys, str) else keys
        return self.take(sort_indices(self, sort_keys=wanted))

    def group_by(self, keys: Any, use_threads: bool = True) -> Groups:
        """Rows by values."""
        return Groups(self, [keys] if isinstance(keys, str) else list(keys))


class Groups:
    """Rows by the values of some columns."""

    def __init__(self, table: Table, keys: list[str]) -> None:
        self._table, self._keys = table, keys

    def aggregate(self, wanted: Sequence[Any]) -> Table:
        """One row a group: its key, and what functions give of its rows."""
        groups: dict[Any, list[int]] = {}
        for i, key in enumerate(zip(*(self._table[k].values for k in self._keys), strict=True)):
            groups.setdefault(key, []).append(i)
        columns: dict[str, Any] = {
            k: array([key[i] for key in groups], self._table[k].type) for i, k in enumerate(self._keys)
        }
        for name, function, *_ in wanted:
            if name == [] or function == "count_all":
                columns["count_all"] = array([len(at) for at in groups.values()], "int64")
                continue
            source = self._table[name].values
            parts = [[source[i] for i in at if source[i] is not None] for at in groups.values()]
            columns[f"{name}_{function}"] = array([_AGGREGATES[function](part) for part in parts])
        return table(columns)


_AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "sum": lambda v: sum(v) if v else None,
    "min": lambda v: min(v, default=None),
    "max": lambda v: max(v, default=None),
    "count": len,
    "mean": lambda v: sum(v) / len(v) if v else None,
    "count_distinct": lambda v: len(set(v)),
    "list": list,
}


def _span(key: slice, rows: int) -> tuple[int, int]:
    start, stop, _ = key.indices(rows)
    return start, max(stop - start, 0)


def _field(field: Any, values: Any) -> Field:
    if isinstance(field, Field):
        return field
    return Field(field, values.type if isinstance(values, Array) else infer(_plain(values)))


def table(columns: Any, names: Sequence[str] | None = None, schema: Any = None) -> Table:
    """Lists, arrays or numpy's as a table."""
    if schema is not None and not isinstance(schema, Schema):
        schema = schema_of(schema)
    if isinstance(columns, Mapping):
        names = schema.names if schema else list(columns)
        columns = [columns[n] for n in names]
    elif schema is not None:
        names = schema.names
    types = schema.types if schema else [None] * len(columns)
    arrays = [array(c, t) for c, t in zip(columns, types, strict=True)]
    if schema is None:
        schema = Schema([Field(n, c.type) for n, c in zip(names or (), arrays, strict=True)])
    return Table(arrays, schema)


def concat_tables(tables: Iterable[Table], promote_options: str = "none", **_: Any) -> Table:
    """Tables behind each other."""
    pieces = list(tables)
    first = pieces[0]
    columns = [
        Array([v for t in pieces for v in t.columns[i].values], c.type) for i, c in enumerate(first.columns)
    ]
    return Table(columns, first.schema)


def concat_arrays(arrays: Iterable[Array]) -> Array:
    """Columns behind each other."""
    pieces = list(arrays)
    return Array([v for a in pieces for v in a.values], pieces[0].type)


def nulls(size: int, type: Any = None) -> Array:
    """A column of NULLs."""
    return Array([None] * size, DataType("null") if type is None else named(type))


def repeat(value: Any, size: int) -> Array:
    """A column of one value."""
    plain = value.as_py() if isinstance(value, Scalar) else value
    return array([plain] * size, value.type if isinstance(value, Scalar) else None)


def scalar(value: Any, type: Any = None) -> Scalar:
    """One value."""
    return Scalar(value, infer([value]) if type is None else named(type))
