"""Tables of few rows that functions return: their schemas as text, and rows as columns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

_TYPES: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "string": pa.string(),
        "strings": pa.list_(pa.string()),
        "bool": pa.bool_(),
        "int8": pa.int8(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "double": pa.float64(),
        "ms": pa.timestamp("ms"),
        "ms_utc": pa.timestamp("ms", tz="UTC"),
        "large_string": pa.large_string(),
        "large_binary": pa.large_binary(),
    }
)


def result_schema(text: str, **types: pa.DataType) -> pa.Schema:
    """The schema of a text: names and types in turn, `!` behind a type for a column without NULL. `types`:
    those that have no name here (`ms`: a timestamp of milliseconds).

    >>> result_schema("name string!, keys pair", pair=pa.list_(pa.int64(), 2)).names
    ['name', 'keys']
    """
    fields = []
    for column in text.split(","):
        name, kind = column.rsplit(maxsplit=1)
        plain = kind.removesuffix("!")
        named = types[plain] if plain in types else _TYPES[plain]
        fields.append(pa.field(name.strip(), named, nullable=plain == kind))
    return pa.schema(fields)


def table_of(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """A table of these rows."""
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(v, f.type) for v, f in zip(values, schema, strict=True)], schema=schema)
