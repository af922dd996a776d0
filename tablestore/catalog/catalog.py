"""Catalog: the interface that `Lake` uses, and what all catalogs share; CatalogView, a named query that a
catalog keeps.

Names are already checked (`io.paths.checked_name`). A catalog caches nothing of a table: every call asks its
files or its server. The truth about a table is in its files; a registry (SQL, Hive) says that it exists and
where.

In SQL catalogs a view is JSON, as Paimon 2.0 writes it; a directory has no place for views; a Hive metastore
keeps them as entries of type VIRTUAL_VIEW (`hive.py`).

    {"fields": [{"id": 0, "name": "a", "type": "INT"}, …], "query": "SELECT …", "dialects": {},
     "comment": "…", "options": {}}
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tablestore.catalog.options import LockOptions
from tablestore.core.env import Env
from tablestore.core.errors import (
    AlreadyExists,
    Corrupt,
    InvalidRequest,
    NotFound,
    TablestoreError,
    Unavailable,
    Unsupported,
)
from tablestore.format import schema as schema_format
from tablestore.format.schema import TableSchema, numbered
from tablestore.format.types.data_type import DataField
from tablestore.format.types.type_text import parse_field
from tablestore.io.confined import GuardedFileIO, confined
from tablestore.io.fileio import FileIO
from tablestore.io.paths import DROPPED, TablePaths, checked_name, join
from tablestore.meta.schemas import SchemaStore

DIALECT = "flink"  # whose text of a query is preferred where a view has several


@dataclass(frozen=True, slots=True)
class CatalogView:
    """A query under a name; `columns` are those of its rows, under the names that the view gives them."""

    columns: tuple[DataField, ...]
    query: str
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text that a SQL catalog stores."""
        body: dict[str, Any] = {
            "fields": [f.to_json() for f in numbered(self.columns)],
            "query": self.query,
            "dialects": {},
        }
        if self.comment is not None:
            body["comment"] = self.comment
        return json.dumps({**body, "options": dict(self.options)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, name: str) -> CatalogView:
        """The view of a stored text; raises Corrupt naming the view."""
        try:
            body = json.loads(text)
            fields = tuple(parse_field(item, i) for i, item in enumerate(body["fields"]))
            query = (body.get("dialects") or {}).get(DIALECT, body["query"])
            options = {str(k): str(v) for k, v in (body.get("options") or {}).items()}
            return cls(fields, str(query), body.get("comment"), options)
        except (TablestoreError, ValueError, TypeError, KeyError, AttributeError) as e:
            raise Corrupt(f"view {name}", f"its stored text cannot be read: {e}") from None

    def with_query(self, view: CatalogView) -> CatalogView:
        """This view with the query and columns of another; comment and options stay unless that has some."""
        return replace(
            view,
            comment=self.comment if view.comment is None else view.comment,
            options={**self.options, **view.options},
        )


def no_place(what: str) -> Unsupported:
    """The error of a catalog that is a directory: it keeps tables, and names of databases."""
    return Unsupported(
        f"{what} in a catalog of files",
        "a directory has no place for it; catalogs with metastore = jdbc or hive have",
    )


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

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        """Raises AlreadyExists, Unsupported for properties where the catalog has no place for them."""

    def drop_database(self, name: str) -> None:
        """Remove a database that holds no tables and views, with its directory."""

    def database_properties(self, name: str) -> dict[str, str]:
        """Its properties, `comment` and `location` among them where the catalog keeps these; raises
        NotFound."""

    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None:
        """Set properties of a database, or (None) remove them; raises NotFound, Unsupported."""

    def tables(self, database: str) -> list[str]:
        """Names of one database, sorted; raises NotFound for an unknown database."""

    def holds(self, database: str, table: str) -> bool:
        """Whether the catalog knows the table."""

    def location(self, database: str, table: str) -> str:
        """Directory of the table, or where it would be created."""

    def file_io(self, database: str, table: str) -> FileIO:
        """The FileIO of the table, with the catalog's locks."""

    def create_table(self, database: str, table: str, schema: TableSchema) -> None:
        """Create and register the table with `schema` as its first; of concurrent creators exactly one
        succeeds.

        Raises AlreadyExists; then nothing of this call remains.
        """

    def drop_table(self, database: str, table: str) -> None:
        """Unregister the table and remove its files (an external table keeps them). After a kill the table is
        there unchanged, or gone."""

    def finish_drop(self, database: str, table: str) -> bool:
        """Complete the interrupted drop of a table that is no longer registered; whether there was one."""

    def rename_table(self, database: str, table: str, onto: tuple[str, str]) -> None:
        """Give a table another name, its files included; raises AlreadyExists."""

    def repair_table(self, database: str, table: str) -> None:
        """Register a table whose files exist but which is not in the registry."""

    @property
    def keeps_views(self) -> bool:
        """Whether the catalog has a place for views, and for properties of databases."""

    def views(self, database: str) -> list[str]:
        """Names of the views of one database, sorted; raises NotFound for an unknown database."""

    def view(self, database: str, name: str) -> CatalogView | None:
        """A view, None if there is none of this name."""

    def put_view(self, database: str, name: str, view: CatalogView, *, replace: bool) -> None:
        """Keep a view; with `replace` also in place of one of this name.

        Raises AlreadyExists where there is a table or, unless `replace`, a view; Unsupported.
        """

    def drop_view(self, database: str, name: str) -> None:
        """Forget a view; raises NotFound."""

    def rename_view(self, database: str, name: str, onto: tuple[str, str]) -> None:
        """Give a view another name; raises NotFound, AlreadyExists."""


class Registry(Protocol):
    """The part of a catalog with locks or a registry that a guard calls."""

    def hold(self, database: str, table: str) -> AbstractContextManager[None]: ...

    def schema_added(
        self, database: str, table: str, schema: TableSchema, old: TableSchema | None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class TableGuard:
    """Locks of one table, and notice of its new schemas (see `io.guarded`)."""

    registry: Registry
    database: str
    table: str
    root: str

    def hold(self, path: str) -> AbstractContextManager[None]:
        """The lock of the table, or of the branch that `path` belongs to; no lock if the catalog has none."""
        branches = f"{TablePaths(self.root).branch_dir}/branch-"
        if not path.startswith(branches):
            return self.registry.hold(self.database, self.table)
        branch = path.removeprefix(branches).partition("/")[0]
        return self.registry.hold(self.database, f"{self.table}$branch_{branch}")

    def created(self, io: FileIO, path: str, data: bytes) -> None:
        """Pass a new schema of the main branch to the registry; if that refuses, the schema is removed
        again."""
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
    """The directory of a database in Paimon's layout."""
    return join(warehouse, f"{checked_name(database, 'database')}.db")


def table_dir(database_location: str, table: str) -> str:
    """The directory of a table of a database, unless the table is external."""
    return join(database_location, checked_name(table, "table"))


def schemas_at(io: FileIO, root: str) -> SchemaStore:
    """The schemas of the table in a directory."""
    return SchemaStore(confined(io, root), TablePaths(root))


def is_table(io: FileIO, root: str) -> bool:
    """Whether a directory holds a table: it has a schema, or something in place of the schema directory."""
    try:
        return bool(schemas_at(io, root).ids())
    except Corrupt:
        return True


def make_first_schema(io: FileIO, root: str, schema: TableSchema, name: str) -> None:
    """Write schema-0 if the directory is free; raises AlreadyExists, or InvalidRequest for other content."""
    left = _left_over(confined(io, root), root)  # before schema-0: a concurrent creator's files do not count
    schemas = schemas_at(io, root)
    if schemas.ids():
        raise AlreadyExists(f"table {name} exists")
    if DROPPED in [s.name for s in io.list(TablePaths(root).schema_dir, hidden=True)]:
        raise AlreadyExists(f"a drop of {name} was interrupted: drop_table({name!r}) completes it")
    if left:
        named = ", ".join(left[:5]) + (", …" if len(left) > 5 else "")
        text = f"{root} is not a table but holds {named}: remains of a table, or something else"
        raise InvalidRequest(f"{text}; move or remove it, or choose another name")
    if not schemas.commit(schema):
        raise AlreadyExists(f"table {name} exists")


def _left_over(io: FileIO, root: str) -> list[str]:
    """Names of the entries of a directory, empty directories left out."""

    def holds_something(directory: str) -> bool:
        try:
            return bool(io.list(directory))
        except Corrupt:  # a link
            return True

    return [s.name for s in io.list(root) if not s.is_dir or holds_something(join(root, s.name))]


def table_properties(schema: TableSchema) -> dict[str, str]:
    """The properties of a table in a registry: its options and keys."""
    keys = {
        "primary-key": schema.primary_keys,
        "partition": schema.partition_keys,
        "bucket-key": schema.bucket_keys,
    }
    return {**schema.options, **{k: ",".join(names) for k, names in keys.items() if names}}


def known_table(catalog: Catalog, database: str, table: str) -> None:
    """Raise NotFound, naming the most similar table, where the catalog does not know this one."""
    if not catalog.holds(database, table):
        there = (
            [f"{database}.{t}" for t in catalog.tables(database)] if database in catalog.databases() else []
        )
        raise NotFound.among("table", f"{database}.{table}", there)


@contextlib.contextmanager
def no_lock() -> Iterator[None]:
    """The context that `hold` gives where locks are off."""
    yield


log = logging.getLogger(__name__)
_FIRST_MS = 50


def acquire(attempt: Callable[[], bool], options: LockOptions, env: Env, holder: Callable[[], str]) -> None:
    """Return once `attempt` has succeeded; raises Unavailable with `holder()` after `lock-acquire-timeout`.

    Pauses grow from 100 ms to `lock-check-max-sleep`: Paimon's schedule, with random jitter, so that waiters
    do not retry in step.
    """
    started, pause = env.monotonic(), float(_FIRST_MS)
    while not attempt():
        waited = (env.monotonic() - started) * 1000
        if waited >= options.acquire_ms:
            raise Unavailable(
                f"no lock after {waited / 1000:.1f} s: {holder()}; retry, or raise lock-acquire-timeout"
            )
        pause = min(pause * 2, options.check_max_sleep_ms)
        log.debug("waiting for a lock: %s", holder)
        env.sleep(min(pause * (0.5 + env.jitter() / 2), options.acquire_ms - waited + 1) / 1000)
