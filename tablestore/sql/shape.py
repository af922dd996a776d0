"""Shape: what a table is, whoever keeps it: columns, keys, options, as DESCRIBE and SHOW CREATE show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tablestore.core.errors import InvalidRequest
from tablestore.core.options.secrets import hidden
from tablestore.format.computed_columns import (
    ComputedColumn,
    Watermark,
    computed_columns,
    in_order,
    other_options,
    watermark,
)
from tablestore.format.schema import TableSchema
from tablestore.format.types.data_type import DataField
from tablestore.sql.scope import Scope
from tablestore.sql.temporary import RecordMetadata, TemporaryTable
from tablestore.sql.text import Name
from tablestore.table.table import Table


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table's definition. `options` show no secrets and hold none of computed columns."""

    columns: tuple[DataField, ...]
    computed: tuple[ComputedColumn, ...] = ()
    watermark: Watermark | None = None
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    temporary: bool = False
    metadata: tuple[RecordMetadata, ...] = ()

    @staticmethod
    def of_schema(schema: TableSchema) -> TableDefinition:
        """Of a table of a catalog, as its users see it."""
        schema = schema.shown
        return TableDefinition(
            schema.fields,
            computed_columns(schema.options, schema.names),
            watermark(schema.options),
            schema.primary_keys,
            schema.partition_keys,
            hidden(other_options(schema.options, schema.names)),
            schema.comment,
        )

    @staticmethod
    def of_temporary(table: TemporaryTable) -> TableDefinition:
        return TableDefinition(
            table.columns,
            table.computed,
            table.watermark,
            table.primary_key,
            table.partition_by,
            table.shown_options,
            table.comment,
            temporary=True,
            metadata=table.metadata,
        )

    @property
    def names(self) -> list[str]:
        """All columns in order, computed ones at their positions."""
        return in_order([f.name for f in self.columns], self.computed)


def shape_of(scope: Scope, name: Name) -> TableDefinition:
    """The definition of a table, temporary or of a catalog. Raises NotFound, InvalidRequest for system
    tables, which have none."""
    temporary = scope.temporary_table(name)
    if temporary is not None:
        return TableDefinition.of_temporary(temporary)
    return TableDefinition.of_schema(stored_table(scope, name).store.schema)


def stored_table(scope: Scope, name: Name) -> Table:
    """A table of a catalog; raises InvalidRequest for a system table."""
    table = scope.table(name)
    if not isinstance(table, Table):
        raise InvalidRequest(f"{name} is a system table: it can be read only")
    return table


def exists(scope: Scope, name: Name) -> bool:
    """Whether a catalog has a table of this name."""
    lake, full = scope.resolved(name)
    return full in lake
