"""Lake: a warehouse directory as a catalog (`<warehouse>/<db>.db/<table>`). No cache: each call looks at the
files.

Creating a table is one put-if-absent of `schema-0`, so two creators cannot both succeed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tablestore.env import SYSTEM, Env
from tablestore.errors import AlreadyExists, InvalidRequest, NotFound, SchemaMismatch, Unsupported
from tablestore.format.schema import create_schema
from tablestore.format.types import DataField, DataType, as_type, from_arrow
from tablestore.io.fileio import FileIO, LocalFileIO
from tablestore.io.paths import TablePaths, checked_name, join, location
from tablestore.meta.schemas import SchemaStore
from tablestore.meta.store import Store
from tablestore.options import TableOptions, as_text, current_names, refuse_near_misses
from tablestore.table.identifier import DEFAULT_DATABASE, Identifier
from tablestore.table.table import Table
from tablestore.write.support import require_writable

log = logging.getLogger(__name__)
Columns = pa.Schema | Mapping[str, DataType | str | pa.DataType] | Sequence[Any]


class Lake:
    """A catalog in a directory. Safe to share: it holds no state but its location."""

    def __init__(self, warehouse: str, *, io: FileIO | None = None, env: Env = SYSTEM) -> None:
        self.warehouse = location(warehouse)
        self._io, self._env = io or LocalFileIO(env), env

    def databases(self) -> list[str]:
        """Names of the databases, sorted."""
        return [s.name[:-3] for s in self._io.list(self.warehouse) if s.is_dir and s.name.endswith(".db")]

    def create_database(self, name: str) -> None:
        """Make a database; raises AlreadyExists."""
        path = self._database(name)
        if self._io.exists(path):
            raise AlreadyExists(f"database {name!r} exists")
        self._io.make_dir(path)

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Remove a database; raises InvalidRequest if it holds tables and `cascade` is not set."""
        if name not in self.databases():
            raise NotFound.among("database", name, self.databases())
        held = self.tables(name)
        if held and not cascade:
            raise InvalidRequest(
                f"database {name!r} holds {len(held)} tables; drop them, or pass cascade=True"
            )
        self._io.delete_tree(self._database(name))

    def tables(self, database: str | None = None) -> list[str]:
        """Table names of one database, or `db.table` of all."""
        if database is None:
            return [f"{db}.{t}" for db in self.databases() for t in self.tables(db)]
        path = self._database(database)
        if not self._io.exists(path):
            raise NotFound.among("database", database, self.databases())
        names = [s.name for s in self._io.list(path) if s.is_dir]
        return [n for n in names if SchemaStore(self._io, TablePaths(join(path, n))).ids()]

    def create_table(
        self,
        name: str,
        *,
        schema: Columns,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table (and its database). `schema`: an Arrow schema, {name: type}, or [(name, type)…] or
        fields.

        Raises AlreadyExists, SchemaMismatch, InvalidOption, Unsupported; nothing is made then.
        """
        identifier = _plain(name)
        given = current_names(as_text(options), keyed=bool(primary_key))
        refuse_near_misses(given)
        if primary_key:
            given.setdefault("bucket", "1")
        given.setdefault("tablestore.uuid", self._env.uuid())
        made = create_schema(
            _fields(schema),
            primary_key=_names(primary_key, "primary_key"),
            partition_by=_names(partition_by, "partition_by"),
            options=given,
            comment=comment,
            time_millis=self._env.now_ms(),
        )
        require_writable(made, TableOptions.parse(given))
        root = self._root(identifier)
        schemas = SchemaStore(self._io, TablePaths(root))
        if (schemas.ids() and not if_not_exists) or (
            not schemas.ids() and not schemas.commit(made) and not if_not_exists
        ):
            raise AlreadyExists(f"table {identifier} exists")
        log.info("created table %s at %s", identifier, root)
        return self.table(name)

    def table(self, name: str) -> Table:
        """An existing table, anyone's; also `t$branch_b`. Raises NotFound naming the nearest."""
        identifier = Identifier.parse(name)
        try:
            store = Store.open(self._root(identifier), io=self._io, env=self._env, branch=identifier.branch)
        except NotFound:
            raise NotFound.among("table", str(identifier), self.tables()) from None
        table = Table(store, str(identifier))
        return table if identifier.system is None else table.system(identifier.system)

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a table and all its files; raises InvalidRequest for names of branches and system tables."""
        identifier = _plain(name)
        root = self._root(identifier)
        if not SchemaStore(self._io, TablePaths(root)).ids():
            if if_exists:
                return
            raise NotFound.among("table", str(identifier), self.tables())
        self._io.delete_tree(root)

    def sql(self, statement: str) -> Any:
        """SQL statements: not in this version."""
        raise Unsupported("Lake.sql", "use the methods of Lake and Table")

    def __contains__(self, name: str) -> bool:
        return bool(SchemaStore(self._io, TablePaths(self._root(_plain(name)))).ids())

    def __repr__(self) -> str:
        names = self.tables()
        shown = ", ".join(names[:12]) + (f", … {len(names) - 12} more" if len(names) > 12 else "")
        return f"Lake({self.warehouse!r}: {shown or 'no tables yet'})"

    def _database(self, name: str) -> str:
        return join(self.warehouse, f"{checked_name(name, 'database')}.db")

    def _root(self, identifier: Identifier) -> str:
        return join(self._database(identifier.database), identifier.table)


def _plain(name: str) -> Identifier:
    """The identifier of a table itself."""
    identifier = Identifier.parse(name)
    if identifier.system or identifier.branch != "main":
        raise InvalidRequest(
            f"{name!r} names a system table or branch; create and drop tables by plain names"
        )
    return identifier


def connect(warehouse: str, *, io: FileIO | None = None, env: Env = SYSTEM) -> Lake:
    """The lake in a directory; the directory is made when the first table is."""
    return Lake(warehouse, io=io, env=env)


def open_table(path: str, *, io: FileIO | None = None, env: Env = SYSTEM) -> Table:
    """The table in a directory, anyone's: the last two components name it (`…/shop.db/orders`)."""
    root = location(path)
    head, _, name = root.rpartition("/")
    database = head.rpartition("/")[2].removesuffix(".db") or DEFAULT_DATABASE
    return Table(Store.open(root, io=io, env=env), f"{database}.{name}")


def _names(names: Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InvalidRequest(f"{what} is a list of column names, not the text {names!r}")
    return tuple(names)


def _fields(schema: Columns) -> tuple[DataField, ...]:
    """Fields with ids 0, 1, … of any form of schema."""
    if isinstance(schema, pa.Schema):
        pairs: list[tuple[str, Any]] = [(f.name, from_arrow(f.type, nullable=f.nullable)) for f in schema]
    elif isinstance(schema, Mapping):
        pairs = list(schema.items())
    else:
        pairs = [(f.name, f.type) if isinstance(f, DataField | pa.Field) else tuple(f) for f in schema]
    fields = []
    for i, (name, t) in enumerate(pairs):
        if not isinstance(name, str):
            raise SchemaMismatch(f"column {name!r}: a name is text")
        fields.append(DataField(i, name, as_type(t, f"column {name!r}")))
    return tuple(fields)
