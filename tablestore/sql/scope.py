"""Scope: what the words of a statement mean: its catalogs, settings, tables and views, and who computes its
queries. A query is handed this much of a session.

Temporary tables and views live as long as the session; a `TableDefinition` is what a table is, whoever keeps
it, as DESCRIBE and SHOW CREATE show it.

A session without roots may name what its process reaches. In one with roots a path is inside of them, with
links resolved, `${env:NAME}` is refused, for a statement could send what it holds elsewhere, and so are
catalogs whose server says where tables lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from tablestore.catalog.catalog import CatalogView
from tablestore.catalog.sql import Sqlite, server_of
from tablestore.core.arguments import checked
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.options.environment import ENVIRONMENT
from tablestore.core.options.names import ALIAS_FAMILIES, PASSED_ON, TABLE_DEFAULTS, of_new_tables
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
from tablestore.io.confined import Roots
from tablestore.log.kafka.cluster import names_file
from tablestore.sql.settings import Settings
from tablestore.sql.text import Name, of_name
from tablestore.table.identifier import DEFAULT_DATABASE
from tablestore.table.lake import Lake
from tablestore.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PASSED_ON = (*PASSED_ON, *ALIAS_FAMILIES)  # what options of tables for other clients begin with
_OWN_CATALOG = "lake"
FullName = tuple[str, str, str]  # catalog (empty where there is none yet), database, table


def written_inside(roots: Roots | None, key: str, written: str, *, place: bool) -> str:
    """The value of an option as a session with roots takes it: a path (`place`) is resolved. Raises
    OutsideRoots."""
    if roots is None:
        return written
    if ENVIRONMENT in written:
        raise roots.refusal(f"option {key!r} names an environment variable")
    return roots.inside(written, f"option {key!r}") if place else written


def require_inside(roots: Roots | None, options: Mapping[str, str | None]) -> None:
    """Raise OutsideRoots for an option of a table that reaches further; paths of data files have roots of
    their own, which the lake was opened with."""
    for key, value in options.items():
        if value is not None:
            passed_on = key.startswith(_PASSED_ON) and names_file(key)
            written_inside(roots, key, value, place=passed_on or key == "path")


def catalog_inside(roots: Roots, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a catalog, its places resolved. Raises OutsideRoots."""
    inside = dict(options)
    if "warehouse" in inside:
        inside["warehouse"] = roots.inside(inside["warehouse"], "option 'warehouse'")
    if inside.get("metastore") == "hive":
        raise roots.refusal("a Hive metastore says where its tables lie")
    if "uri" in inside:
        server = server_of(inside["uri"])
        if not isinstance(server, Sqlite):
            raise roots.refusal("option 'uri' names a database server")
        inside["uri"] = "sqlite:" + quote(roots.inside(server.path, "option 'uri'"))
    defaults = dict(of_new_tables(k, v) for k, v in inside.items() if k.startswith(TABLE_DEFAULTS))
    require_inside(roots, defaults)
    return inside


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """A column with what its connector knows of a record beside the row, by the connector's `key`. A
    `virtual` one is only read."""

    name: str
    key: str
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What a table is, whoever keeps it. `columns` are stored or, of a `temporary` one, those that the
    connector gives, some as `metadata`; `computed` are made of them. `options` of a temporary one are as they
    were typed, `connector` among them, and may hold secrets."""

    columns: tuple[DataField, ...]
    primary_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    computed: tuple[ComputedColumn, ...] = ()
    watermark: Watermark | None = None
    comment: str | None = None
    metadata: tuple[RecordMetadata, ...] = ()
    temporary: bool = False

    @staticmethod
    def of_schema(schema: TableSchema) -> TableDefinition:
        """Of a table of a catalog, as its users see it: options show no secrets and hold none of computed
        columns."""
        schema = schema.shown
        return TableDefinition(
            schema.fields,
            schema.primary_keys,
            schema.partition_keys,
            hidden(other_options(schema.options, schema.names)),
            computed_columns(schema.options, schema.names),
            watermark(schema.options),
            schema.comment,
        )

    @property
    def connector(self) -> str:
        """Which connector reads and writes it."""
        return self.options["connector"]

    @property
    def names(self) -> list[str]:
        """All columns in order, computed ones at their positions."""
        return in_order([f.name for f in self.columns], self.computed)

    @property
    def shown(self) -> TableDefinition:
        """The same with secrets, and what comes from the environment, as `***`."""
        shown = hidden(self.options)
        options = {k: HIDDEN if ENVIRONMENT in self.options[k] else v for k, v in shown.items()}
        return replace(self, options=options)

    def with_options(self, options: Mapping[str, str]) -> TableDefinition:
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


@checked
class Scope:
    """Catalogs, the current catalog and database, settings, temporary tables and views. `lake` is the catalog
    to begin with, named `lake`; with `roots` statements name nothing outside of them."""

    def __init__(self, lake: Lake | None, *, spark: SparkSession | None = None, roots: Roots | None = None):
        self.roots = roots
        self.spark = spark  # who computes when the engine is Spark
        self.catalogs: dict[str, Lake] = {} if lake is None else {_OWN_CATALOG: lake}
        self.catalog: str | None = None if lake is None else _OWN_CATALOG
        self.database = DEFAULT_DATABASE
        self.settings = Settings()
        if spark is not None:
            self.settings.set("execution.engine", "spark")
        self.on_progress: Callable[[float], None] | None = None  # gets percent of a query, -1 if unknown
        self.temporary: dict[FullName, TableDefinition] = {}
        self.views: dict[FullName, NamedQuery] = {}  # the temporary ones

    def lake(self, catalog: str | None = None) -> Lake:
        """A catalog by name, None: the current one. Raises NotFound, InvalidRequest where there is none."""
        name = catalog or self.catalog
        if name is None:
            raise InvalidRequest(
                "there is no catalog yet: CREATE CATALOG name WITH ('warehouse' = '…'), USE CATALOG name"
            )
        if name not in self.catalogs:
            raise NotFound.among("catalog", name, self.catalogs)
        return self.catalogs[name]

    def full_name(self, name: Name) -> FullName:
        """Catalog, database and name of what a statement names; nothing is asked of the catalog. Raises
        InvalidRequest for a name of too many parts."""
        parts = name.parts
        if len(parts) > 3:
            raise InvalidRequest(f"{name} has too many parts: catalog.database.table")
        defaults = (self.catalog or "", self.database)
        catalog, database, table = (*defaults[: 3 - len(parts)], *parts)
        return catalog, database, table

    def temporary_table(self, name: Name) -> TableDefinition | None:
        """The temporary table of a name; it hides a table of a catalog."""
        return self.temporary.get(self.full_name(name))

    def view(self, name: Name) -> NamedQuery | None:
        """The view of a name, of the session or else of a catalog; None if it is none."""
        key = self.full_name(name)
        if key in self.views or key in self.temporary:
            return self.views.get(key)
        lake = self.catalogs.get(key[0])
        stored = lake.view(self.resolved(name)[1]) if lake is not None and lake.keeps_views else None
        return None if stored is None else NamedQuery.of_catalog(stored)

    def resolved(self, name: Name) -> tuple[Lake, str]:
        """The lake of a table, and its name there: `db.table`, odd names in back-quotes. Does not ask whether
        it exists. Raises NotFound for an unknown catalog, InvalidRequest for a name of too many parts."""
        catalog, database, table = self.full_name(name)
        return self.lake(catalog), f"{quoted(database)}.{quoted(table)}"

    def table(self, name: Name, options: dict[str, Any] | None = None) -> Table:
        """The table of a name, also `t$snapshots`, `t$branch_b`. Raises NotFound naming the nearest."""
        with of_name(name):
            require_inside(self.roots, options or {})
            lake, full = self.resolved(name)
            table = lake.table(full)
        return table.with_options(options) if options else table

    def writable(self, name: Name, options: dict[str, Any] | None = None) -> Table:
        """The same, of a table that can be written; raises InvalidRequest for a system table."""
        table = self.table(name, options)
        if not isinstance(table, Table):
            raise InvalidRequest(f"{name} is a system table: it is read-only")
        return table

    def within(self, catalog: str) -> Self:
        """This scope with another current catalog. Raises NotFound."""
        self.lake(catalog)
        other = copy(self)
        other.catalog = catalog
        return other


def quoted(part: str) -> str:
    """A part of a name as `Lake` reads it."""
    if "`" in part or not part:
        raise InvalidRequest(f"{part!r} is no name of a table or database")
    return f"`{part}`"


def shape_of(scope: Scope, name: Name) -> TableDefinition:
    """The definition of a table, temporary or of a catalog. Raises NotFound, InvalidRequest for system
    tables, which have none."""
    temporary = scope.temporary_table(name)
    if temporary is not None:
        return temporary.shown
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
