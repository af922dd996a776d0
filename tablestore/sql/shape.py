"""Shape: what a table is, whoever keeps it: columns, keys, options, as DESCRIBE and SHOW CREATE show it; and
temporary tables and views, which live as long as the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tablestore.catalog.views import CatalogView
from tablestore.core.errors import InvalidRequest
from tablestore.core.options.environment import ENVIRONMENT
from tablestore.core.options.secrets import HIDDEN, hidden
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


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """A column with what its connector knows of a record beside the row, by the connector's `key`. A
    `virtual` one is only read."""

    name: str
    key: str
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class TemporaryTable:
    """A table of CREATE TEMPORARY TABLE. `columns` are those that the connector gives, some as `metadata`;
    `computed` are made of them. `options` are as they were typed, `connector` among them, and may hold
    secrets."""

    columns: tuple[DataField, ...]
    primary_key: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    watermark: Watermark | None = None
    computed: tuple[ComputedColumn, ...] = ()
    partition_by: tuple[str, ...] = ()
    comment: str | None = None
    metadata: tuple[RecordMetadata, ...] = ()

    @property
    def connector(self) -> str:
        """Which connector reads and writes it."""
        return self.options["connector"]

    @property
    def names(self) -> list[str]:
        """All columns in order, computed ones too."""
        return in_order([f.name for f in self.columns], self.computed)

    @property
    def shown_options(self) -> dict[str, str]:
        """The options with secrets, and what comes from the environment, as `***`."""
        shown = hidden(self.options)
        return {k: HIDDEN if ENVIRONMENT in self.options[k] else v for k, v in shown.items()}

    def with_options(self, options: Mapping[str, str]) -> TemporaryTable:
        """The same table with these options, too."""
        return replace(self, options={**self.options, **options}) if options else self


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A named query: its text, and the names of its columns where the statement gives them. `temporary`: it
    lives in the session, not in a catalog."""

    query: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    column_comments: tuple[str | None, ...] = ()
    temporary: bool = True

    @staticmethod
    def of_catalog(view: CatalogView) -> NamedQuery:
        """A view that a catalog keeps."""
        names = tuple(f.name for f in view.columns)
        comments = tuple(f.description for f in view.columns)
        return NamedQuery(view.query, names, view.comment, comments, temporary=False)
