"""Catalog: what `Lake` asks of a catalog, and what all catalogs share.

Names come checked (`io.paths.checked_name`). A catalog holds no table state: every call asks its files or its
server. The truth about a table is in its files; a registry (SQL, Hive) says that it exists and where.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tablestore.core.errors import AlreadyExists, Corrupt, InvalidRequest, NotFound
from tablestore.format import schema as schema_format
from tablestore.format.schema import TableSchema
from tablestore.io.confined import confined
from tablestore.io.fileio import FileIO
from tablestore.io.guarded import GuardedFileIO
from tablestore.io.paths import DROPPED, TablePaths, checked_name, join
from tablestore.meta.schemas import SchemaStore


class Catalog(Protocol):
    """Databases and tables. Safe to share between threads; picklable."""

    @property
    def warehouse(self) -> str:
        """Location of the databases, as a URI string."""

    @property
    def io(self) -> FileIO:
        """The FileIO of the warehouse."""

    def databases(self) -> list[str]:
        """Names, sorted."""

    def create_database(self, name: str) -> None:
        """Raises AlreadyExists."""

    def drop_database(self, name: str) -> None:
        """Remove a database that holds no tables, with its directory."""

    def tables(self, database: str) -> list[str]:
        """Names of one database, sorted; raises NotFound for an unknown database."""

    def holds(self, database: str, table: str) -> bool:
        """Whether the catalog knows the table."""

    def location(self, database: str, table: str) -> str:
        """Directory of the table, or where it would be made."""

    def file_io(self, database: str, table: str) -> FileIO:
        """The FileIO to open the table with: the catalog's locks come with it."""

    def create_table(self, database: str, table: str, schema: TableSchema) -> None:
        """Make it known, with `schema` as its first; exactly one of several creators succeeds.

        Raises AlreadyExists; nothing of the loser's stays.
        """

    def drop_table(self, database: str, table: str) -> None:
        """Forget the table and remove its files (an external table keeps them). A kill leaves it whole, or
        none."""

    def finish_drop(self, database: str, table: str) -> bool:
        """End a drop of a table that is not known any more; whether there was one."""

    def rename_table(self, database: str, table: str, onto: tuple[str, str]) -> None:
        """Give a table another name, its files included; raises AlreadyExists."""

    def repair_table(self, database: str, table: str) -> None:
        """Make a table known whose files are in place but which the registry does not hold."""


class Registry(Protocol):
    """What a guard needs of a catalog with locks or a registry."""

    def hold(self, database: str, table: str) -> AbstractContextManager[None]: ...

    def schema_added(
        self, database: str, table: str, schema: TableSchema, old: TableSchema | None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class TableGuard:
    """Locks and schema news of one table (see `io.guarded`)."""

    registry: Registry
    database: str
    table: str
    root: str

    def hold(self, path: str) -> AbstractContextManager[None]:
        """The lock of the table, or of the branch that `path` belongs to; nothing if the catalog has none."""
        branches = f"{TablePaths(self.root).branch_dir}/branch-"
        if not path.startswith(branches):
            return self.registry.hold(self.database, self.table)
        branch = path.removeprefix(branches).partition("/")[0]
        return self.registry.hold(self.database, f"{self.table}$branch_{branch}")

    def created(self, io: FileIO, path: str, data: bytes) -> None:
        """Pass a new schema of the main branch on; if the registry refuses it, it is taken back."""
        paths = TablePaths(self.root)
        if path.rpartition("/")[0] != paths.schema_dir:
            return
        schema = schema_format.from_json(data, path)
        old = SchemaStore(io, paths).get(schema.id - 1) if schema.id else None
        try:
            self.registry.schema_added(self.database, self.table, schema, old)
        except BaseException:
            io.delete(path)
            raise


def guarded(io: FileIO, registry: Registry, database: str, table: str, root: str) -> FileIO:
    """`io` for one table of a catalog with a registry."""
    return GuardedFileIO(io, root, TableGuard(registry, database, table, root))


def database_dir(warehouse: str, database: str) -> str:
    """Where Paimon keeps a database."""
    return join(warehouse, f"{checked_name(database, 'database')}.db")


def table_dir(database_location: str, table: str) -> str:
    """Where a table of a database is, unless it was put elsewhere."""
    return join(database_location, checked_name(table, "table"))


def schemas_at(io: FileIO, root: str) -> SchemaStore:
    """The schemas of the table in a directory."""
    return SchemaStore(confined(io, root), TablePaths(root))


def is_table(io: FileIO, root: str) -> bool:
    """Whether a directory holds a table: it has a schema, or what stands in the place of its schemas."""
    try:
        return bool(schemas_at(io, root).ids())
    except Corrupt:
        return True


def make_first_schema(io: FileIO, root: str, schema: TableSchema, name: str) -> None:
    """Put schema-0 if the place is free; raises AlreadyExists, InvalidRequest where something else lies."""
    left = _left_over(confined(io, root), root)  # looked for first: what a faster creator puts there is none
    schemas = schemas_at(io, root)
    if schemas.ids():
        raise AlreadyExists(f"table {name} exists")
    if DROPPED in [s.name for s in io.list(TablePaths(root).schema_dir, hidden=True)]:
        raise AlreadyExists(f"a drop of {name} was cut short: drop_table({name!r}) ends it")
    if left:
        named = ", ".join(left[:5]) + (", …" if len(left) > 5 else "")
        text = f"{root} is no table but holds {named}: what is left of a table, or something else"
        raise InvalidRequest(f"{text}; move or remove it, or choose another name")
    if not schemas.commit(schema):
        raise AlreadyExists(f"table {name} exists")


def _left_over(io: FileIO, root: str) -> list[str]:
    """Names of what a directory holds; directories with nothing in them are nothing."""

    def holds_something(directory: str) -> bool:
        try:
            return bool(io.list(directory))
        except Corrupt:  # a link
            return True

    return [s.name for s in io.list(root) if not s.is_dir or holds_something(join(root, s.name))]


def table_properties(schema: TableSchema) -> dict[str, str]:
    """What a registry shows of a table: its options and keys."""
    keys = {
        "primary-key": schema.primary_keys,
        "partition": schema.partition_keys,
        "bucket-key": schema.bucket_keys,
    }
    return {**schema.options, **{k: ",".join(names) for k, names in keys.items() if names}}


def known_table(catalog: Catalog, database: str, table: str) -> None:
    """Raises NotFound, naming the nearest table, where the catalog does not know this one."""
    if not catalog.holds(database, table):
        there = (
            [f"{database}.{t}" for t in catalog.tables(database)] if database in catalog.databases() else []
        )
        raise NotFound.among("table", f"{database}.{table}", there)


@contextlib.contextmanager
def no_lock() -> Iterator[None]:
    """What `hold` gives where locks are off."""
    yield
