"""The part of Arrow that the simulator and the pictures use, on lists: a browser has no other.

What is not here is an AttributeError that names it. Values are plain Python; a column is one piece.
"""

from __future__ import annotations

import operator
from typing import Any

from pyarrow import compute as compute
from pyarrow.table_ import (
    Array,
    Scalar,
    Table,
    array,
    concat_arrays,
    concat_tables,
    nulls,
    repeat,
    scalar,
    table,
)
from pyarrow.types_ import (
    DataType,
    Field,
    Schema,
    decimal128,
    dictionary,
    list_,
    map_,
    schema,
    struct,
    timestamp,
)

RecordBatch, ChunkedArray, concat_batches = Table, Array, concat_tables
chunked_array = concat_arrays
large_list, decimal256, field = list_, decimal128, Field


class ArrowException(Exception):
    """What Arrow raises."""


class ArrowInvalid(ArrowException, ValueError):
    """A value that cannot be."""


class ArrowTypeError(ArrowException, TypeError):
    """A type that cannot be."""


class _Kind(DataType):
    """A family of types; nothing here is one of them but by its text."""


BooleanArray = StructArray = ListArray = MapArray = StringArray = Array
ListType, LargeListType, FixedSizeListType, StructType, MapType = (
    type(name, (_Kind,), {})
    for name in ("ListType", "LargeListType", "FixedSizeListType", "StructType", "MapType")
)


def _plain(text: str) -> Any:
    type_ = DataType(text)
    return lambda: type_


bool_, null, string, large_string, date32 = map(_plain, ("bool", "null", "string", "string", "date32[day]"))
int8, int16, int32, int64 = map(_plain, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(_plain, ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64 = map(_plain, ("halffloat", "float", "double"))
utf8 = string


def binary(length: int = -1) -> DataType:
    """Bytes."""
    return DataType("binary")


large_binary = binary


def time32(unit: str) -> DataType:
    """Times of a day."""
    return DataType(f"time32[{unit}]", unit=unit)


def unify_schemas(schemas: Any, promote_options: str = "default") -> Schema:
    """The fields of all, NULL columns as the type that another has."""
    fields: dict[str, Field] = {}
    for field in (f for each in schemas for f in each):
        if field.name not in fields or str(fields[field.name].type) == "null":
            fields[field.name] = field
        elif str(field.type) not in ("null", str(fields[field.name].type)):
            raise ArrowTypeError(f"{field} and {fields[field.name]}")
    return Schema(fields.values())


_FAMILIES = {
    "boolean": ("bool",),
    "integer": ("int", "uint"),
    "floating": ("double", "float", "halffloat"),
    "float64": ("double",),
    "float32": ("float",),
    "float16": ("halffloat",),
    "unicode": ("string",),
    "string": ("string",),
    "binary": ("binary",),
    "date": ("date",),
    "time": ("time32", "time64"),
    "timestamp": ("timestamp",),
    "temporal": ("timestamp", "date", "time"),
    "decimal": ("decimal",),
    "nested": ("list", "struct", "map"),
    "signed_integer": ("int",),
}


class types:
    """Questions about a type."""


def _question(name: str) -> Any:
    begins = _FAMILIES.get(name, (name,))
    exact = name in ("float32", "string", "binary", "boolean") or name[-1:].isdigit()
    if exact:
        return staticmethod(lambda t: str(t) in begins)
    return staticmethod(
        lambda t: str(t).startswith(begins) and not (name == "time" and str(t).startswith("timestamp"))
    )


for _name in (
    "boolean int8 int16 int32 int64 uint8 uint16 uint32 uint64 integer "
    "signed_integer floating float16 float32 float64 "
    "string large_string string_view unicode binary large_binary binary_view "
    "fixed_size_binary date time timestamp temporal "
    "date32 time32 decimal decimal128 null nested list large_list fixed_size_list struct map dictionary"
).split():
    setattr(types, f"is_{_name}", _question(_name))


def __getattr__(name: str) -> Any:
    if name[0].isupper():  # classes are named in annotations and asked for by isinstance
        return type(name, (_Kind,), {})
    raise AttributeError(f"a page without a kernel has no pyarrow.{name}: open the table in JupyterLab")
