"""The columns of a new table, from anything that has columns: names and types, Arrow, frames, another table.

Arrow has no CHAR(n), VARCHAR(n) or MULTISET, and no comments: a table's Arrow schema has them in the metadata
of its fields, so a table made from it is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa

from tablestore import doors
from tablestore.core.errors import NotFound, SchemaMismatch
from tablestore.format.types.arrow_types import DataField, DataType, as_type, from_arrow, parse_type, to_arrow
from tablestore.write.arrow_input import unnamed_index

Columns: TypeAlias = pa.Schema | Mapping[str, DataType | str | pa.DataType] | Sequence[Any]
_TYPE, _COMMENT = b"tablestore.type", b"comment"


def shown(fields: Iterable[DataField]) -> pa.Schema:
    """The Arrow schema of columns, with types that Arrow does not have in the metadata of fields."""
    return pa.schema([_annotated(f) for f in fields])


def _annotated(f: DataField) -> pa.Field:
    notes = (
        {} if from_arrow(f.arrow.type, nullable=f.type.nullable) == f.type else {_TYPE: str(f.type).encode()}
    )
    if f.description:
        notes[_COMMENT] = f.description.encode()
    return f.arrow.with_metadata(notes) if notes else f.arrow


def declared(columns: Any, comments: Mapping[str, str] | None = None) -> tuple[DataField, ...]:
    """Fields with ids 0, 1, … from any form of schema; raises SchemaMismatch for anything else.

    A DataField keeps its comment and default. `comments` by name replace comments; raises NotFound for
    unknown names.
    """
    fields = _fields(columns)
    named = {f.name for f in fields}
    for name, comment in (comments or {}).items():
        if name not in named:
            raise NotFound.among("column", name, named)
        if not isinstance(comment, str):
            raise SchemaMismatch(f"the comment of column {name!r} is text, not {comment!r}")
    said = comments or {}
    return tuple(replace(f, id=i, description=said.get(f.name, f.description)) for i, f in enumerate(fields))


def _fields(columns: Any) -> list[DataField]:
    arrow = _arrow_schema(columns)
    if arrow is not None:
        index = unnamed_index(arrow)
        return [_of_arrow(f) for f in arrow if f.name not in index]
    if isinstance(columns, str) or not isinstance(columns, Mapping | Iterable):
        raise SchemaMismatch(f"schema {columns!r} must be an Arrow schema, a frame or {{column: type}}")
    return [_field(c) for c in (columns.items() if isinstance(columns, Mapping) else columns)]


def _field(column: Any) -> DataField:
    """The field of one entry in a list of columns: a DataField, an Arrow field, or a pair."""
    if isinstance(column, DataField):
        return column
    if isinstance(column, pa.Field):
        return _of_arrow(column)
    if not isinstance(column, Sequence) or isinstance(column, str) or len(column) != 2:
        raise SchemaMismatch(f"column {column!r} must be a pair of name and type, ('id', ts.BIGINT)")
    name, t = column
    if not isinstance(name, str):
        raise SchemaMismatch(f"column {name!r}: a name is text")
    return DataField(0, name, as_type(t, f"column {name!r}"))


def _of_arrow(f: pa.Field) -> DataField:
    if pa.types.is_null(f.type):
        raise SchemaMismatch(f"column {f.name!r} holds no value that shows its type: give {{column: type}}")
    notes, t = f.metadata or {}, from_arrow(f.type, nullable=f.nullable)
    if _TYPE in notes:
        exact = parse_type(notes[_TYPE].decode()).as_nullable()
        if to_arrow(exact) == f.type:  # not if the field was cast since
            t = exact if f.nullable else exact.not_null()
    return DataField(0, f.name, t, notes[_COMMENT].decode() if _COMMENT in notes else None)


def _arrow_schema(columns: Any) -> pa.Schema | None:
    """The Arrow schema of an object that has one, of frames without their unnamed index; None for others."""
    if isinstance(columns, pa.Schema):
        return columns
    if isinstance(columns, type):  # a class of frames, not one of them
        return None
    module = type(columns).__module__.partition(".")[0]
    if module == "pyspark":
        return doors.schema_of_frame(columns)
    if module == "pandas":
        return _of_pandas(columns)
    if module == "polars" and hasattr(columns, "collect_schema"):
        return pa.schema(columns.collect_schema())
    if isinstance(getattr(columns, "schema", None), pa.Schema):  # tables, batches, readers, scans
        return columns.schema
    if hasattr(columns, "__arrow_c_schema__"):
        return pa.schema(columns)
    if hasattr(columns, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(columns).schema
    return None


def _of_pandas(frame: Any) -> pa.Schema:
    try:
        return pa.Schema.from_pandas(frame)
    except (AttributeError, ValueError, TypeError, pa.ArrowException) as e:
        raise SchemaMismatch(
            f"the pandas {type(frame).__name__} has no columns of Arrow types: {e}"
        ) from None
