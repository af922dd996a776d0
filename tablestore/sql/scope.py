"""Scope: what the words of a statement mean: its catalogs, settings, temporary tables and views, and who
computes its queries. A query is handed this much of a session."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from tablestore.core.arguments import checked
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.io.confined import Roots
from tablestore.sql.confinement import require_inside
from tablestore.sql.settings import Settings
from tablestore.sql.temporary import NamedQuery, TemporaryTable
from tablestore.sql.text import Name, of_name
from tablestore.table.identifier import DEFAULT_DATABASE
from tablestore.table.lake import Lake
from tablestore.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN_CATALOG = "lake"
FullName = tuple[str, str, str]  # catalog (empty where there is none yet), database, table


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
        self.temporary: dict[FullName, TemporaryTable] = {}
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

    def temporary_table(self, name: Name) -> TemporaryTable | None:
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
