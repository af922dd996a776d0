"""Shapes of tables: what one of the lake is to be, for one table of the source or for several, how one
grows with what messages say, and shapes as JSON, in files by their digest.

The common type of two columns: of whole numbers the longer one · with decimals a DECIMAL with room for both ·
with floats DOUBLE · of texts and bytes the longer one, varying where one of them is · of times the finer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import ShapeColumn, TableShape
from tablestore.core.errors import SchemaMismatch
from tablestore.flow.journal import ContentFiles, JournalFiles
from tablestore.format.types import arrow_types as t
from tablestore.format.types import casts
from tablestore.format.types.data_type import DataType
from tablestore.format.types.type_text import parse_type

_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_MOST_DIGITS = 38


@dataclass(frozen=True)
class TargetShape:
    """Columns of a table of the lake in their order, its primary key and partitions."""

    columns: tuple[ShapeColumn, ...]
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    comment: str = ""

    @property
    def types(self) -> dict[str, DataType]:
        return {column.name: column.type for column in self.columns}

    @property
    def schema(self) -> list[tuple[str, DataType]]:
        """The columns as `Lake.create_table` takes them."""
        return list(self.types.items())

    @property
    def comments(self) -> dict[str, str]:
        return {column.name: column.comment for column in self.columns if column.comment}


def united(target: str, shapes: Mapping[SourceName, TargetShape]) -> TargetShape:
    """The shape of a table with the rows of all these: columns that one of them lacks are nullable, types
    the common ones. Raises SchemaMismatch, with names and the remedy, for tables that cannot be one."""
    (first, shape_of_all), *others = shapes.items()
    for name, shape in others:
        shape_of_all = _united(target, first, shape_of_all, name, shape)
    return shape_of_all


def _united(
    target: str, first: SourceName, union: TargetShape, name: SourceName, shape: TargetShape
) -> TargetShape:
    for what, ours, theirs in (
        ("primary key", union.primary_key, shape.primary_key),
        ("partitions", union.partition_by, shape.partition_by),
    ):
        if ours != theirs:
            raise SchemaMismatch(
                f"{first} and {name} cannot be one table {target}: {what} ({', '.join(ours)}) and "
                f"({', '.join(theirs)}) differ; give both the same"
            )
    mine = {column.name: column for column in shape.columns}
    columns = []
    for column in union.columns:
        other = mine.pop(column.name, None)
        if other is None:
            columns.append(replace(column, type=column.type.as_nullable()))
            continue
        both = common_type(column.type, other.type)
        if both is None:
            raise SchemaMismatch(
                f"{first} and {name} cannot be one table {target}: column {column.name!r} is {column.type} "
                f"and {other.type}, and only STRING holds both; capture one of them into another table, "
                "or take type_mapping='to-string'"
            )
        columns.append(replace(column, type=both, comment=column.comment or other.comment))
    columns += [replace(column, type=column.type.as_nullable()) for column in mine.values()]
    return replace(union, columns=tuple(columns), comment=union.comment or shape.comment)


def common_type(here: DataType, there: DataType) -> DataType | None:
    """The narrowest type that holds the values of both (BIGINT as DOUBLE may lose digits), nullable where one
    of them is; None where only text does. The order does not count."""
    common = _common(here, there)
    if common is None:
        return None
    return common.as_nullable() if here.nullable or there.nullable else common.not_null()


def widened(here: DataType, there: DataType) -> DataType | None:
    """The type that a column of the type `here` must have for values of both: itself if it is wide enough.
    None where a table does not allow the change."""
    common = common_type(here.as_nullable(), there.as_nullable())
    if common is None or common == here.as_nullable():
        return common and here
    return replace(common, nullable=here.nullable) if casts.allowed(here, common, explicit=False) else None


def _common(here: DataType, there: DataType) -> DataType | None:
    roots = {here.root, there.root}
    if here.as_nullable() == there.as_nullable():
        return here
    if roots <= set(_DIGITS):
        return max(here, there, key=lambda t: _DIGITS[t.root])
    if roots <= {*_DIGITS, "DECIMAL"}:
        return _decimal(here, there)
    if roots <= set(casts.NUMBERS):
        return DataType("DOUBLE")
    if roots <= set(casts.TEXTS) or roots <= {"BINARY", "VARBINARY"}:
        longer = max(here.precision, there.precision)
        varying = "VARCHAR" if here.is_string else "VARBINARY"
        return DataType(here.root if len(roots) == 1 else varying, precision=longer)
    if len(roots) == 1 and here.root in (*casts.TIMES, "TIME"):
        return max(here, there, key=lambda t: t.precision)
    return None


def _decimal(here: DataType, there: DataType) -> DataType | None:
    whole = max(_DIGITS.get(t.root, t.precision - t.scale) for t in (here, there))
    scale = max(t.scale for t in (here, there))
    if whole + scale > _MOST_DIGITS:
        return None
    return DataType("DECIMAL", precision=whole + scale, scale=scale)


VERSION = 1
FOLDER = "tablestore-source"


def to_json(shape: TableShape) -> dict[str, Any]:
    """A shape as a JSON object."""
    columns = [
        {"name": c.name, "type": str(c.type), "spelled": c.spelled, "comment": c.comment}
        for c in shape.columns
    ]
    return {
        "v": VERSION,
        "columns": columns,
        "primary_key": list(shape.primary_key),
        "comment": shape.comment,
        "partial": shape.partial,
    }


def of_json(item: Mapping[str, Any]) -> TableShape:
    """The shape of a JSON object."""
    columns = tuple(
        ShapeColumn(c["name"], parse_type(c["type"]), c["spelled"], c["comment"]) for c in item["columns"]
    )
    return TableShape(columns, tuple(item["primary_key"]), item["comment"], item["partial"])


@dataclass(frozen=True, slots=True)
class ShapeFiles:
    """Shapes of a capture beside its checkpoint: a file each, named by its digest, never changed."""

    checkpoint: str

    def put(self, shape: TableShape) -> str:
        """Keep a shape; gives its digest."""
        return self._files.put(to_json(shape))

    def get(self, digest: str) -> TableShape | None:
        """The shape of a digest; None where its file is lost."""
        item = self._files.fields(digest)
        return None if item is None else of_json(item)

    def path(self, digest: str) -> str:
        """Where the shape of a digest is."""
        return self._files.place(digest)

    @property
    def _files(self) -> ContentFiles:
        return ContentFiles(JournalFiles.at(self.checkpoint), FOLDER, 32)


def grown(before: TableShape, after: tuple[ShapeColumn, ...], *, inferred: bool = False) -> TableShape:
    """The shape that takes rows of both: no column goes and none is renamed, new ones come last and may be
    NULL, types widen, and what has no common type becomes STRING. `inferred`: types are
    guesses from values, and one that does not widen is none."""
    new = {c.name: c for c in after}
    columns = tuple(
        _grown(c, new.get(c.name), c.name in before.primary_key, inferred) for c in before.columns
    )
    there = {c.name for c in before.columns}
    added = tuple(replace(c, type=c.type.as_nullable()) for c in after if c.name not in there)
    return replace(before, columns=(*columns, *added))


def _grown(before: ShapeColumn, after: ShapeColumn | None, in_key: bool, inferred: bool) -> ShapeColumn:
    if after is None:
        return before if in_key else replace(before, type=before.type.as_nullable())
    both = _of_guesses if inferred else _of_both
    kind = both(before.type.as_nullable(), after.type.as_nullable())
    if in_key or not (before.type.nullable or after.type.nullable):
        kind = kind.not_null()
    if kind == before.type:
        return before
    return replace(before, type=kind, spelled=after.spelled)


def _of_both(before: DataType, after: DataType) -> DataType:
    return common_type(before, after) or t.STRING


def _of_guesses(before: DataType, after: DataType) -> DataType:
    return t.DOUBLE if {before.root, after.root} == {"BIGINT", "DOUBLE"} else before
