"""FileSystemCatalog: a warehouse directory, `<warehouse>/<db>.db/<table>`. No registry: the files are the
catalog.

Two creators cannot both succeed, since creating a table is one put-if-absent of `schema-0`. There are no
locks, so the store itself must offer put-if-absent (a local file system and S3 with conditional PUT do).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tablestore.catalog import dropping
from tablestore.catalog.catalog import (
    database_dir,
    is_table,
    known_table,
    make_first_schema,
    table_dir,
)
from tablestore.catalog.views import CatalogView, no_place
from tablestore.core.errors import AlreadyExists, NotFound, Unsupported
from tablestore.format.schema import TableSchema
from tablestore.io import outcomes
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join


@dataclass(frozen=True, slots=True)
class FileSystemCatalog:
    """See `Catalog`. Safe to share: it holds no state but its location."""

    warehouse: str
    io: FileIO

    def databases(self) -> list[str]:
        """Directories named `….db`."""
        return [s.name[:-3] for s in self.io.list(self.warehouse) if s.is_dir and s.name.endswith(".db")]

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        if properties:
            raise no_place("properties of a database")
        path = database_dir(self.warehouse, name)
        dropping.tidy(self.io, self.warehouse)
        if self.io.is_dir(path):
            raise AlreadyExists(f"database {name!r} exists")
        outcomes.make_dir(self.io, path)

    def drop_database(self, name: str) -> None:
        dropping.drop_directory(self.io, database_dir(self.warehouse, name))

    def database_properties(self, name: str) -> dict[str, str]:
        self._require_database(name)
        return {"location": database_dir(self.warehouse, name)}

    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None:
        self._require_database(name)
        raise no_place("properties of a database")

    def _require_database(self, name: str) -> None:
        if not self.io.is_dir(database_dir(self.warehouse, name)):
            raise NotFound.among("database", name, self.databases())

    def tables(self, database: str) -> list[str]:
        self._require_database(database)
        path = database_dir(self.warehouse, database)
        names = [s.name for s in self.io.list(path) if s.is_dir]
        return [n for n in names if is_table(self.io, join(path, n))]

    def holds(self, database: str, table: str) -> bool:
        return is_table(self.io, self.location(database, table))

    def location(self, database: str, table: str) -> str:
        return table_dir(database_dir(self.warehouse, database), table)

    def file_io(self, database: str, table: str) -> FileIO:
        return self.io

    def create_table(self, database: str, table: str, schema: TableSchema) -> None:
        refuse_own_path(schema, "filesystem")
        dropping.tidy(self.io, database_dir(self.warehouse, database))
        make_first_schema(self.io, self.location(database, table), schema, f"{database}.{table}")

    def drop_table(self, database: str, table: str) -> None:
        dropping.drop(self.io, self.location(database, table))

    def finish_drop(self, database: str, table: str) -> bool:
        return dropping.finish(self.io, self.location(database, table))

    def rename_table(self, database: str, table: str, onto: tuple[str, str]) -> None:
        known_table(self, database, table)
        target = self.location(*onto)
        if self.io.is_dir(target):
            raise AlreadyExists(f"table {'.'.join(onto)} exists (or something else is at {target})")
        try:
            outcomes.move(self.io, self.location(database, table), target)
        except FileExistsError:
            raise AlreadyExists(f"table {'.'.join(onto)} exists") from None

    def repair_table(self, database: str, table: str) -> None:
        """Nothing to do: a table whose files exist is known."""

    @property
    def keeps_views(self) -> bool:
        return False

    def views(self, database: str) -> list[str]:
        self._require_database(database)
        return []

    def view(self, database: str, name: str) -> CatalogView | None:
        return None

    def put_view(self, database: str, name: str, view: CatalogView, *, replace: bool) -> None:
        raise no_place("a view")

    def drop_view(self, database: str, name: str) -> None:
        raise NotFound(f"no view {database}.{name}: a catalog of files keeps none")

    def rename_view(self, database: str, name: str, onto: tuple[str, str]) -> None:
        self.drop_view(database, name)


def refuse_own_path(schema: TableSchema, metastore: str) -> None:
    """Raise Unsupported for option `path` of a table; only a Hive metastore stores locations."""
    if "path" in schema.options:
        raise Unsupported(
            f"option 'path' with metastore {metastore}", "its tables lie below the warehouse; use hive"
        )
