"""JdbcCatalog: databases and tables registered in SQL, in the same SQL tables as Java Paimon's catalog.

    paimon_tables               (catalog_key, database_name, table_name)
    paimon_database_properties  (…, property_key, property_value): `exists` = true, `location`
    paimon_table_properties     a copy of the newest schema's options and keys, for other tools
    paimon_distributed_locks    (lock_id, acquired_at, expire_time_seconds): a row is a lock in use

A table's files are written first and its row second, inside one lock if locks are on; `repair_table` adds the
row that a killed creator did not write. Anyone may take over a lock row that has expired, so the death of a
holder delays others by no more than `lock-acquire-timeout`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tablestore.catalog import catalog
from tablestore.catalog.catalog import (
    CatalogView,
    database_dir,
    guarded,
    is_table,
    known_table,
    make_first_schema,
    no_lock,
    schemas_at,
    table_dir,
    table_properties,
)
from tablestore.catalog.filesystem import (
    drop_directory,
    drop_table,
    finish_drop,
    refuse_own_path,
    register_moved,
    tidy,
)
from tablestore.catalog.options import CatalogOptions
from tablestore.catalog.sql import DuplicateKey, ServerSession, SqlServer
from tablestore.core.env import Env
from tablestore.core.errors import AlreadyExists, InvalidOption, InvalidRequest, NotFound, Unavailable
from tablestore.format.schema import TableSchema
from tablestore.io import outcomes
from tablestore.io.fileio import FileIO

log = logging.getLogger(__name__)
_KEY = "catalog_key VARCHAR(255) NOT NULL, database_name VARCHAR(255) NOT NULL"
_TABLES = (
    f"CREATE TABLE IF NOT EXISTS paimon_tables ({_KEY}, table_name VARCHAR(255) NOT NULL, "
    "PRIMARY KEY (catalog_key, database_name, table_name))",
    f"CREATE TABLE IF NOT EXISTS paimon_database_properties ({_KEY}, property_key VARCHAR(255), "
    "property_value VARCHAR(1000), PRIMARY KEY (catalog_key, database_name, property_key))",
    f"CREATE TABLE IF NOT EXISTS paimon_table_properties ({_KEY}, table_name VARCHAR(255) NOT NULL, "
    "property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000), "
    "PRIMARY KEY (catalog_key, database_name, table_name, property_key))",
    f"CREATE TABLE IF NOT EXISTS paimon_views ({_KEY}, view_name VARCHAR(255) NOT NULL, "
    "view_schema TEXT NOT NULL, PRIMARY KEY (catalog_key, database_name, view_name))",
)
_LOCKS = (
    "CREATE TABLE IF NOT EXISTS paimon_distributed_locks (lock_id VARCHAR({length}) NOT NULL, "
    "acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, "
    "expire_time_seconds BIGINT DEFAULT 0 NOT NULL, PRIMARY KEY (lock_id))"
)
_OF_DATABASE = "catalog_key = ? AND database_name = ?"
_OF_TABLE = f"{_OF_DATABASE} AND table_name = ?"
_OF_VIEW = f"{_OF_DATABASE} AND view_name = ?"
_VALUE_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class JdbcCatalog:
    """See `Catalog`."""

    warehouse: str
    io: FileIO
    options: CatalogOptions
    server: SqlServer
    locks: bool
    env: Env

    def prepare(self) -> JdbcCatalog:
        """Create the registry's missing tables; safe for several processes at once. Returns the catalog."""
        wanted = (*_TABLES, _LOCKS.format(length=self.options.lock_key_length)) if self.locks else _TABLES
        with self.server.session() as session:
            for statement in wanted:
                try:
                    session.run(statement)
                except (DuplicateKey, Unavailable):  # PostgreSQL: another process created it at this moment
                    session.run(statement)
        return self

    def __reduce__(self) -> Any:
        return _reopened, (self.warehouse, self.io, self.options, self.server, self.locks, self.env)

    # databases

    def databases(self) -> list[str]:
        with self.server.session() as session:
            names = {
                name
                for table in ("paimon_tables", "paimon_database_properties", "paimon_views")
                for (name,) in session.rows(
                    f"SELECT DISTINCT database_name FROM {table} WHERE catalog_key = ?", self._key
                )
            }
        return sorted(names)

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        _require_fitting(properties)
        location = database_dir(self.warehouse, name)
        tidy(self.io, self.warehouse)
        if name in self.databases():
            raise AlreadyExists(f"database {name!r} exists")
        insert = "INSERT INTO paimon_database_properties VALUES (?, ?, ?, ?)"
        try:
            with self.server.session() as session:
                for key, value in {"exists": "true", "location": location, **properties}.items():
                    session.run(insert, self._key, name, key, value)
        except DuplicateKey:
            raise AlreadyExists(f"database {name!r} exists") from None

    def drop_database(self, name: str) -> None:
        def forget() -> None:
            with self.server.session() as session:
                for table in ("tables", "table_properties", "views", "database_properties"):
                    session.run(f"DELETE FROM paimon_{table} WHERE {_OF_DATABASE}", self._key, name)

        drop_directory(self.io, database_dir(self.warehouse, name), forget)

    def database_properties(self, name: str) -> dict[str, str]:
        select = f"SELECT property_key, property_value FROM paimon_database_properties WHERE {_OF_DATABASE}"
        with self.server.session() as session:
            properties = {str(key): str(value) for key, value in session.rows(select, self._key, name)}
        if not properties:
            self._require_database(name)
        properties.pop("exists", None)
        return {"location": database_dir(self.warehouse, name), **properties}

    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None:
        self._require_database(name)
        _require_fitting({k: v for k, v in properties.items() if v is not None})
        delete = f"DELETE FROM paimon_database_properties WHERE {_OF_DATABASE} AND property_key = ?"
        insert = "INSERT INTO paimon_database_properties VALUES (?, ?, ?, ?)"
        with self.server.session() as session:
            for key, value in properties.items():
                session.run(delete, self._key, name, key)
                if value is not None:
                    session.run(insert, self._key, name, key, value)

    def _require_database(self, name: str) -> None:
        there = self.databases()
        if name not in there:
            raise NotFound.among("database", name, there)

    # tables

    def tables(self, database: str) -> list[str]:
        select = f"SELECT table_name FROM paimon_tables WHERE {_OF_DATABASE}"
        with self.server.session() as session:
            names = sorted(name for (name,) in session.rows(select, self._key, database))
        if not names:
            self._require_database(database)
        return names

    def holds(self, database: str, table: str) -> bool:
        with self.server.session() as session:
            return self._row(session, database, table)

    def location(self, database: str, table: str) -> str:
        return table_dir(database_dir(self.warehouse, database), table)

    def file_io(self, database: str, table: str) -> FileIO:
        return guarded(self.io, self, database, table, self.location(database, table))

    def create_table(self, database: str, table: str, schema: TableSchema) -> None:
        refuse_own_path(schema, "jdbc")
        root, name = self.location(database, table), f"{database}.{table}"
        tidy(self.io, database_dir(self.warehouse, database))
        with self.hold(database, table):
            if self.holds(database, table):
                raise AlreadyExists(f"table {name} exists")
            if self.view(database, table) is not None:
                raise AlreadyExists(f"{name} is a view")
            if is_table(self.io, root):
                raise AlreadyExists(
                    f"{root} holds a table that the catalog does not know: repair_table adds it"
                )
            make_first_schema(self.io, root, schema, name)
            self._register_new(database, table, schema)

    def _register_new(self, database: str, table: str, schema: TableSchema) -> None:
        """Add the row of a table whose files were just made; on failure remove them, if there surely is no
        row."""
        try:
            self._register(database, table, schema)
        except DuplicateKey:  # another process repaired this table meanwhile
            log.info("%s.%s was registered meanwhile", database, table)
        except BaseException:
            if not self.holds(database, table):
                drop_table(self.io, self.location(database, table))
            raise

    def drop_table(self, database: str, table: str) -> None:
        def forget() -> None:
            with self.server.session() as session:
                for rows in ("tables", "table_properties"):
                    session.run(f"DELETE FROM paimon_{rows} WHERE {_OF_TABLE}", self._key, database, table)

        with self.hold(database, table):
            drop_table(self.io, self.location(database, table), forget)

    def finish_drop(self, database: str, table: str) -> bool:
        with self.hold(database, table):
            return finish_drop(self.io, self.location(database, table))

    def rename_table(self, database: str, table: str, onto: tuple[str, str]) -> None:
        source, target = self.location(database, table), self.location(*onto)
        first, second = sorted({(database, table), onto}) if (database, table) != onto else (onto, None)
        with self.hold(*first), self.hold(*second) if second else no_lock():
            known_table(self, database, table)
            moved = not is_table(self.io, source) and is_table(
                self.io, target
            )  # a killed call moved the files, not the rows
            if self.view(*onto) is not None:
                raise AlreadyExists(f"{'.'.join(onto)} is a view")
            if self.holds(*onto) or (self.io.is_dir(target) and not moved):
                raise AlreadyExists(f"table {'.'.join(onto)} exists")
            if not moved:
                outcomes.move(self.io, source, target)
            register_moved(
                lambda: self._move_rows((database, table), onto),
                lambda: self.holds(*onto),
                lambda: self.io.move(target, source),
            )

    def repair_table(self, database: str, table: str) -> None:
        schema = schemas_at(self.io, self.location(database, table)).latest()
        with self.hold(database, table), contextlib.suppress(DuplicateKey):
            self._register(database, table, schema)

    def _row(self, session: ServerSession, database: str, table: str) -> bool:
        select = f"SELECT table_name FROM paimon_tables WHERE {_OF_TABLE}"
        return bool(session.rows(select, self._key, database, table))

    def _register(self, database: str, table: str, schema: TableSchema) -> None:
        with self.server.session() as session:
            session.run("INSERT INTO paimon_tables VALUES (?, ?, ?)", self._key, database, table)
        self.schema_added(database, table, schema, None)

    def _move_rows(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        with self.server.session() as session:
            session.run(f"DELETE FROM paimon_table_properties WHERE {_OF_TABLE}", self._key, *new)
            for rows in ("table_properties", "tables"):  # what says that the table has its new name is last
                update = f"UPDATE paimon_{rows} SET database_name = ?, table_name = ? WHERE {_OF_TABLE}"
                try:
                    session.run(update, *new, self._key, *old)
                except DuplicateKey:
                    raise AlreadyExists(f"table {'.'.join(new)} exists") from None

    def schema_added(self, database: str, table: str, schema: TableSchema, old: TableSchema | None) -> None:
        """Copy a new schema's options for other tools. The files are the truth, so errors are only logged."""
        if not self.options.sync_properties:
            return
        delete = f"DELETE FROM paimon_table_properties WHERE {_OF_TABLE}"
        insert = "INSERT INTO paimon_table_properties VALUES (?, ?, ?, ?, ?)"
        try:
            with self.server.session() as session:
                session.run(delete, self._key, database, table)
                for key, value in table_properties(schema).items():
                    session.run(insert, self._key, database, table, key, value[:_VALUE_LENGTH])
        except (DuplicateKey, Unavailable) as e:
            log.warning("properties of %s.%s were not copied to the catalog: %s", database, table, e)

    # views

    @property
    def keeps_views(self) -> bool:
        return True

    def views(self, database: str) -> list[str]:
        select = f"SELECT view_name FROM paimon_views WHERE {_OF_DATABASE}"
        with self.server.session() as session:
            names = sorted(str(name) for (name,) in session.rows(select, self._key, database))
        if not names:
            self._require_database(database)
        return names

    def view(self, database: str, name: str) -> CatalogView | None:
        select = f"SELECT view_schema FROM paimon_views WHERE {_OF_VIEW}"
        with self.server.session() as session:
            for (text,) in session.rows(select, self._key, database, name):
                return CatalogView.from_json(str(text), f"{database}.{name}")
        return None

    def put_view(self, database: str, name: str, view: CatalogView, *, replace: bool) -> None:
        text = view.to_json()
        with self.hold(database, name):
            if self.holds(database, name):
                raise AlreadyExists(f"{database}.{name} is a table")
            update = f"UPDATE paimon_views SET view_schema = ? WHERE {_OF_VIEW}"
            with self.server.session() as session:
                if replace and session.run(update, text, self._key, database, name):
                    return
                try:
                    insert = "INSERT INTO paimon_views VALUES (?, ?, ?, ?)"
                    session.run(insert, self._key, database, name, text)
                except DuplicateKey:
                    raise AlreadyExists(f"view {database}.{name} exists") from None

    def drop_view(self, database: str, name: str) -> None:
        with self.server.session() as session:
            if not session.run(f"DELETE FROM paimon_views WHERE {_OF_VIEW}", self._key, database, name):
                raise NotFound(f"no view {database}.{name}")

    def rename_view(self, database: str, name: str, onto: tuple[str, str]) -> None:
        update = f"UPDATE paimon_views SET database_name = ?, view_name = ? WHERE {_OF_VIEW}"
        with self.hold(*onto):
            if self.holds(*onto):
                raise AlreadyExists(f"{'.'.join(onto)} is a table")
            with self.server.session() as session:
                try:
                    if not session.run(update, *onto, self._key, database, name):
                        raise NotFound(f"no view {database}.{name}")
                except DuplicateKey:
                    raise AlreadyExists(f"view {'.'.join(onto)} exists") from None

    # locks

    def hold(self, database: str, table: str) -> AbstractContextManager[None]:
        """The table's lock while the block runs."""
        return self._locked(f"{self._key}.{database}.{table}") if self.locks else no_lock()

    @contextlib.contextmanager
    def _locked(self, lock_id: str) -> Iterator[None]:
        if len(lock_id) > self.options.lock_key_length:
            raise InvalidOption(
                f"the lock key {lock_id!r} has {len(lock_id)} characters; raise lock-key-max-length"
            )
        options = self.options.lock
        catalog.acquire(lambda: self._take(lock_id), options, self.env, lambda: self._holder(lock_id))
        with self.server.session() as session:
            select = "SELECT acquired_at FROM paimon_distributed_locks WHERE lock_id = ?"
            taken_at = session.rows(select, lock_id)
        try:
            yield
        finally:
            self._release(lock_id, taken_at)

    def _take(self, lock_id: str) -> bool:
        seconds = max(self.options.lock.acquire_ms // 1000, 1)
        insert = "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?)"
        with self.server.session() as session:
            session.run(
                f"DELETE FROM paimon_distributed_locks WHERE {self.server.expired} AND lock_id = ?", lock_id
            )
            try:
                return session.run(insert, lock_id, seconds) == 1
            except DuplicateKey:
                return False

    def _release(self, lock_id: str, taken_at: list[tuple[object, ...]]) -> None:
        """Release the lock, unless it expired and another process has taken it over."""
        delete = "DELETE FROM paimon_distributed_locks WHERE lock_id = ? AND acquired_at = ?"
        try:
            with self.server.session() as session:
                for (at,) in taken_at:
                    session.run(delete, lock_id, at)
        except Unavailable as e:
            log.warning("lock %s was not released, it expires by itself: %s", lock_id, e)

    def _holder(self, lock_id: str) -> str:
        select = "SELECT acquired_at, expire_time_seconds FROM paimon_distributed_locks WHERE lock_id = ?"
        with self.server.session() as session:
            for at, seconds in session.rows(select, lock_id):
                return f"{lock_id} is held since {at} UTC and expires after {seconds} s"
        return f"{lock_id} had several holders"

    @property
    def _key(self) -> str:
        return self.options.catalog_key


def _require_fitting(properties: Mapping[str, str]) -> None:
    """Raise InvalidRequest for properties of a database that the registry has no room for, or that are its
    own."""
    for key, value in properties.items():
        if key in ("exists", "location"):
            raise InvalidRequest(f"property {key!r} of a database is the catalog's own")
        if len(value) > _VALUE_LENGTH:
            raise InvalidRequest(
                f"property {key!r} has {len(value)} characters; the catalog takes {_VALUE_LENGTH}"
            )


def _reopened(
    warehouse: str, io: FileIO, options: CatalogOptions, server: SqlServer, locks: bool, env: Env
) -> JdbcCatalog:
    return JdbcCatalog(warehouse, io, options, server, locks, env)
