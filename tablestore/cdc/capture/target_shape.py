"""TargetShape: what a table of the lake is to be, for one table of the source or for several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tablestore.cdc.capture.common_type import common_type
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import ShapeColumn
from tablestore.core.errors import SchemaMismatch
from tablestore.format.types.data_type import DataType


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
    (first, found), *others = shapes.items()
    for name, shape in others:
        found = _united(target, first, found, name, shape)
    return found


def _united(
    target: str, first: SourceName, found: TargetShape, name: SourceName, shape: TargetShape
) -> TargetShape:
    for what, ours, theirs in (
        ("primary key", found.primary_key, shape.primary_key),
        ("partitions", found.partition_by, shape.partition_by),
    ):
        if ours != theirs:
            raise SchemaMismatch(
                f"{first} and {name} cannot be one table {target}: {what} ({', '.join(ours)}) and "
                f"({', '.join(theirs)}) differ; give both the same"
            )
    mine = {column.name: column for column in shape.columns}
    columns = []
    for column in found.columns:
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
    return replace(found, columns=tuple(columns), comment=found.comment or shape.comment)
