"""HiveCatalog: tables registered in a Hive metastore, compatible with Java Paimon's catalog of that name.

A table's files are the truth; the metastore says where they are and shows columns and properties to other
tools. Files are written first and the entry second; a schema that the metastore refuses is removed again.
Tables with an option `path` (or `external`) are external: dropping them keeps their files. The lock is the
metastore's own EXCLUSIVE table lock, polled (each check is a heartbeat); that of a dead holder ends after
`hive.txn.timeout`. The metastore folds names to lower case, so others are refused unless `case-sensitive` is
set.
"""

from __future__ import annotations

import contextlib
import getpass
import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tablestore.catalog import catalog, metastore
from tablestore.catalog.catalog import (
    CatalogView,
    database_dir,
    guarded,
    is_table,
    make_first_schema,
    no_lock,
    schemas_at,
    table_dir,
)
from tablestore.catalog.filesystem import drop_directory, drop_table, finish_drop, register_moved, tidy
from tablestore.catalog.metastore import Metastore, types
from tablestore.catalog.options import CatalogOptions
from tablestore.core.env import Env
from tablestore.core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    TablestoreError,
    Unavailable,
    Unsupported,
)
from tablestore.format.schema import TableSchema
from tablestore.format.types.data_type import DataField
from tablestore.io.fileio import FileIO
from tablestore.io.paths import location

log = logging.getLogger(__name__)
_BATCH = 300
_VIEW = "VIRTUAL_VIEW"
_MAX_SECONDS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class HiveCatalog:
    """See `Catalog`."""

    warehouse: str
    io: FileIO
    options: CatalogOptions
    server: Metastore
    locks: bool
    env: Env

    def __reduce__(self) -> Any:
        return _reopened, (self.warehouse, self.io, self.options, self.server, self.locks, self.env)

    # databases

    def databases(self) -> list[str]:
        with self.server.session() as client:
            return sorted(client.get_all_databases())

    def create_database(self, name: str, properties: Mapping[str, str]) -> None:
        self._require_folded(name)
        database = types().Database(
            name=name, locationUri=_uri(database_dir(self.warehouse, name)), parameters={}
        )
        _set_properties(database, properties)
        with self.server.session() as client:
            client.create_database(database)

    def database_properties(self, name: str) -> dict[str, str]:
        with self.server.session() as client:
            database = client.get_database(name)
        own = {"comment": database.description, "owner": database.ownerName, "location": database.locationUri}
        return {**(database.parameters or {}), **{k: v for k, v in own.items() if v}}

    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None:
        fields = {k: v for k, v in properties.items() if k == "comment"}  # first: old metastores ignore it
        others = {k: v for k, v in properties.items() if k not in fields}
        with self.server.session() as client:
            for some in filter(None, (fields, others)):
                database = client.get_database(name)
                _set_properties(database, some)
                client.alter_database(name, database)
                if (client.get_database(name).description or None) != database.description:
                    raise Unsupported("changing the comment of a database", "this metastore keeps the first")

    def drop_database(self, name: str) -> None:
        with self.server.session() as client:
            place = client.get_database(name).locationUri

        def forget() -> None:
            with self.server.session() as client:
                client.drop_database(name, True, False)

        if place:
            drop_directory(self.io, location(place), forget)
        else:
            forget()

    # tables

    def tables(self, database: str) -> list[str]:
        return sorted(t.tableName for t in self._entries(database) if _is_ours(t))

    def _entries(self, database: str) -> list[Any]:
        """Everything that the metastore has in a database; raises NotFound for an unknown one."""
        with self.server.session() as client:
            client.get_database(database)
            names = client.get_all_tables(database)
            return [
                t
                for at in range(0, len(names), _BATCH)
                for t in client.get_table_objects_by_name(database, names[at : at + _BATCH])
            ]

    def holds(self, database: str, table: str) -> bool:
        try:
            return _is_ours(self._entry(database, table))
        except NotFound:
            return False

    def location(self, database: str, table: str) -> str:
        try:
            return location(self._entry(database, table).sd.location)
        except NotFound:
            return self._default_location(database, table)

    def _default_location(self, database: str, table: str) -> str:
        with self.server.session() as client:
            place = client.get_database(database).locationUri
        return table_dir(location(place) if place else database_dir(self.warehouse, database), table)

    def file_io(self, database: str, table: str) -> FileIO:
        return guarded(self.io, self, database, table, self.location(database, table))

    def create_table(self, database: str, table: str, schema: TableSchema) -> None:
        for name in (table, *(schema.names if self.options.case_sensitive is not True else ())):
            self._require_folded(name)
        external = "path" in schema.options or self.options.external
        external = external or schema.options.get("external", "").lower() == "true"
        root = location(schema.options.get("path") or self._default_location(database, table))
        stored = schema.with_options({"path": None}) if "path" in schema.options else schema
        entry = self._new_entry(database, table, stored, root, external)  # refuses before anything is made
        tidy(self.io, root.rpartition("/")[0])
        with self.hold(database, table):
            self._require_free(database, table)
            adopted = external and is_table(self.io, root)
            if adopted:
                self._require_same(root, stored)
            else:
                make_first_schema(self.io, root, stored, f"{database}.{table}")
            self._enter(entry, None if adopted else root)

    def _enter(self, entry: Any, location: str | None) -> None:
        """Add the entry of a table; on failure remove the files made for it, if there surely is no entry."""
        try:
            with self.server.session() as client:
                client.create_table(entry)
        except BaseException:
            if location is not None and not self.holds(entry.dbName, entry.tableName):
                drop_table(self.io, location)
            raise

    def _require_free(self, database: str, table: str) -> None:
        with contextlib.suppress(NotFound):
            entry = self._entry(database, table)
            if entry.tableType == _VIEW:
                raise AlreadyExists(f"{database}.{table} is a view")
            kind = "" if _is_ours(entry) else ", but not of Paimon's format"
            raise AlreadyExists(f"table {database}.{table} exists{kind}")

    def _require_same(self, root: str, schema: TableSchema) -> None:
        """Raise unless the table at an external location has the columns and keys of `schema`."""
        there = schemas_at(self.io, root).latest()
        wanted = (schema.names, schema.primary_keys, schema.partition_keys)
        if wanted != (there.names, there.primary_keys, there.partition_keys):
            raise AlreadyExists(f"{root} holds a table with other columns or keys: {', '.join(there.names)}")

    def drop_table(self, database: str, table: str) -> None:
        with self.hold(database, table):
            entry = self._entry(database, table)

            def forget() -> None:
                with self.server.session() as client:
                    client.drop_table(database, table, False)

            if entry.tableType == "EXTERNAL_TABLE":
                forget()
            else:
                drop_table(self.io, location(entry.sd.location), forget)

    def finish_drop(self, database: str, table: str) -> bool:
        return finish_drop(self.io, self._default_location(database, table))

    def rename_table(self, database: str, table: str, onto: tuple[str, str]) -> None:
        for name in onto:
            self._require_folded(name)
        with self.hold(database, table):
            entry = self._entry(database, table)
            self._require_free(*onto)
            source, target = location(entry.sd.location), self._default_location(*onto)
            moves = entry.tableType != "EXTERNAL_TABLE" and source != target
            entry.dbName, entry.tableName = onto
            if moves:
                moved = not is_table(self.io, source) and is_table(
                    self.io, target
                )  # renamed by a call that was killed
                if self.io.is_dir(target) and not moved:
                    raise AlreadyExists(f"something else is at {target}")
                if not moved:
                    self.io.move(source, target)
                entry.sd.location = _uri(target)
            register_moved(
                lambda: self._alter(database, table, entry),
                lambda: self.holds(*onto),
                lambda: self.io.move(target, source) if moves else None,
            )

    def repair_table(self, database: str, table: str) -> None:
        root = self._default_location(database, table)
        schema = schemas_at(self.io, root).latest()
        if self.holds(database, table):
            self.schema_added(database, table, schema, None)
        else:
            self._enter(self._new_entry(database, table, schema, root, False), None)

    def schema_added(self, database: str, table: str, schema: TableSchema, old: TableSchema | None) -> None:
        """Write a new schema's columns and options to the metastore; raises its errors."""
        entry = self._entry(database, table)
        external = entry.tableType == "EXTERNAL_TABLE"
        shape = metastore.shape(schema, all_properties=self.options.sync_properties, external=external)
        for removed in set(old.options if old else ()) - set(schema.options):
            entry.parameters.pop(removed, None)
        entry.parameters.update(shape.parameters)
        entry.sd.cols = _fields(shape)
        self._alter(database, table, entry)

    def _alter(self, database: str, table: str, entry: Any) -> None:
        context = types().EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
        with self.server.session() as client:
            client.alter_table_with_environment_context(database, table, entry, context)

    def _entry(self, database: str, table: str) -> Any:
        with self.server.session() as client:
            return client.get_table(database, table)

    def _new_entry(self, database: str, table: str, schema: TableSchema, root: str, external: bool) -> Any:
        t = types()
        shape = metastore.shape(schema, all_properties=self.options.sync_properties, external=external)
        seconds = self.env.now_ms() // 1000
        return t.Table(
            tableName=table,
            dbName=database,
            owner=_user(),
            createTime=seconds,
            lastAccessTime=seconds,
            retention=_MAX_SECONDS,
            sd=t.StorageDescriptor(
                cols=_fields(shape),
                location=_uri(root),
                inputFormat=metastore.INPUT_FORMAT,
                outputFormat=metastore.OUTPUT_FORMAT,
                serdeInfo=t.SerDeInfo(serializationLib=metastore.SERDE, parameters={}),
            ),
            partitionKeys=[],
            parameters=dict(shape.parameters),
            tableType="EXTERNAL_TABLE" if external else "MANAGED_TABLE",
        )

    def _require_folded(self, name: str) -> None:
        if name != name.lower():
            raise InvalidRequest(f"{name!r}: a Hive metastore keeps lower-case names only")

    # views

    @property
    def keeps_views(self) -> bool:
        return True

    def views(self, database: str) -> list[str]:
        return sorted(t.tableName for t in self._entries(database) if t.tableType == _VIEW)

    def view(self, database: str, name: str) -> CatalogView | None:
        try:
            entry = self._entry(database, name)
        except NotFound:
            return None
        if entry.tableType != _VIEW:
            return None
        options = dict(entry.parameters or {})
        comment = options.pop("comment", None)
        columns = tuple(
            DataField(i, c.name, metastore.paimon_type(c.type), c.comment)
            for i, c in enumerate(entry.sd.cols)
        )
        return CatalogView(columns, entry.viewExpandedText or entry.viewOriginalText, comment, options)

    def put_view(self, database: str, name: str, view: CatalogView, *, replace: bool) -> None:
        for column_or_view in (
            name,
            *(f.name for f in view.columns if self.options.case_sensitive is not True),
        ):
            self._require_folded(column_or_view)
        there = None if not replace else self.view(database, name)
        entry = self._view_entry(database, name, view)
        if there is not None:
            self._alter(database, name, entry)
            return
        self._require_free(database, name)
        with self.server.session() as client:
            client.create_table(entry)

    def _view_entry(self, database: str, name: str, view: CatalogView) -> Any:
        t, seconds = types(), self.env.now_ms() // 1000
        parameters = dict(view.options)
        if view.comment is not None:
            parameters["comment"] = view.comment
        columns = [metastore.column(f) for f in view.columns]
        return t.Table(
            tableName=name,
            dbName=database,
            owner=_user(),
            createTime=seconds,
            lastAccessTime=seconds,
            retention=0,
            sd=t.StorageDescriptor(
                cols=[t.FieldSchema(name=c.name, type=c.type, comment=c.comment) for c in columns],
                inputFormat=metastore.VIEW_INPUT_FORMAT,
                outputFormat=metastore.VIEW_OUTPUT_FORMAT,
                serdeInfo=t.SerDeInfo(parameters={"serialization.format": "1"}),
            ),
            partitionKeys=[],
            parameters=parameters,
            viewOriginalText=view.query,
            viewExpandedText=view.query,
            tableType=_VIEW,
        )

    def drop_view(self, database: str, name: str) -> None:
        self._require_view(database, name)
        with self.server.session() as client:
            client.drop_table(database, name, False)

    def rename_view(self, database: str, name: str, onto: tuple[str, str]) -> None:
        for part in onto:
            self._require_folded(part)
        self._require_view(database, name)
        self._require_free(*onto)
        entry = self._entry(database, name)
        entry.dbName, entry.tableName = onto
        self._alter(database, name, entry)

    def _require_view(self, database: str, name: str) -> None:
        if self.view(database, name) is None:
            raise NotFound(f"no view {database}.{name}")

    # locks

    def hold(self, database: str, table: str) -> AbstractContextManager[None]:
        """The table's EXCLUSIVE lock while the block runs."""
        return self._locked(database, table) if self.locks else no_lock()

    @contextlib.contextmanager
    def _locked(self, database: str, table: str) -> Iterator[None]:
        t = types()
        part = t.LockComponent(
            type=t.LockType.EXCLUSIVE, level=t.LockLevel.TABLE, dbname=database, tablename=table
        )
        part.operationType = None  # as Java sends it: older servers do not know the field
        with self.server.session() as client:
            asked = client.lock(t.LockRequest(component=[part], user=_user(), hostname=socket.gethostname()))
        state = [asked.state]

        def acquired() -> bool:
            if state[0] == t.LockState.WAITING:
                with self.server.session() as client:
                    state[0] = client.check_lock(t.CheckLockRequest(lockid=asked.lockid)).state
            if state[0] not in (t.LockState.WAITING, t.LockState.ACQUIRED):
                raise Unavailable(f"the metastore gave no lock on {database}.{table}: state {state[0]}")
            return state[0] == t.LockState.ACQUIRED

        try:
            catalog.acquire(acquired, self.options.lock, self.env, lambda: self._holder(database, table))
            yield
        finally:
            self._unlock(asked.lockid)

    def _unlock(self, lock_id: int) -> None:
        try:
            with self.server.session() as client:
                client.unlock(types().UnlockRequest(lockid=lock_id))
        except TablestoreError as e:
            log.warning("lock %d was not released, it times out by itself: %s", lock_id, e)

    def _holder(self, database: str, table: str) -> str:
        t = types()
        with self.server.session() as client:
            locks = client.show_locks(t.ShowLocksRequest(dbname=database, tablename=table)).locks or []
        holders = [f"{lock.user}@{lock.hostname}" for lock in locks if lock.state == t.LockState.ACQUIRED]
        return f"{database}.{table} is held by {', '.join(holders) or 'nobody by now'}"


def _set_properties(database: Any, properties: Mapping[str, str | None]) -> None:
    """Set properties of a metastore's database, or (None) remove them."""
    parameters = dict(database.parameters or {})
    for key, value in properties.items():
        if key == "comment":
            database.description = value
        elif key == "owner":
            database.ownerName = value
        elif key == "location":
            raise InvalidRequest("property 'location' of a database is the catalog's own")
        elif value is None:
            parameters.pop(key, None)
        else:
            parameters[key] = value
    database.parameters = parameters


def _fields(shape: metastore.HiveShape) -> list[Any]:
    return [types().FieldSchema(name=c.name, type=c.type, comment=c.comment) for c in shape.columns]


def _is_ours(entry: Any) -> bool:
    sd = entry.sd
    return (sd.inputFormat, sd.outputFormat) == (metastore.INPUT_FORMAT, metastore.OUTPUT_FORMAT)


def _uri(path: str) -> str:
    """The location as a URI: other tools would resolve a plain path in their default file system."""
    return f"file:{path}" if path.startswith("/") else path


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _reopened(
    warehouse: str, io: FileIO, options: CatalogOptions, server: Metastore, locks: bool, env: Env
) -> HiveCatalog:
    return HiveCatalog(warehouse, io, options, server, locks, env)
