"""The databases, tables and views of a lake, as its catalog knows them. No cache: each call asks the files or
the catalog's server.

The base of `Lake`, whose other half runs what moves rows. What makes and opens a table is behind `doors`, so
that a lake is opened with a quarter of the engine's modules.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tablestore import doors
from tablestore.catalog.catalog import CatalogView, database_dir
from tablestore.catalog.filesystem import finish_drop
from tablestore.catalog.opening import open_catalog, require_warehouse
from tablestore.catalog.options import CatalogOptions
from tablestore.core.arguments import checked_but
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import (
    AlreadyExists,
    CommitUnknown,
    InvalidRequest,
    NotFound,
    TablestoreError,
    Unavailable,
)
from tablestore.core.options.secrets import hidden, require_no_secrets
from tablestore.io.confined import Roots, named_roots
from tablestore.io.fileio import FileIO
from tablestore.io.paths import checked_name, location
from tablestore.table.identifier import MAIN, SYSTEM_DATABASE, Identifier
from tablestore.table.new_table import NewTable

if TYPE_CHECKING:
    from tablestore.format.schema import TableSchema
    from tablestore.meta.store import Store
    from tablestore.table.columns import Columns
    from tablestore.table.table import Table

log = logging.getLogger(__name__)


@checked_but("comments", "name", "new_name", "partition_by", "primary_key", "roots", "warehouse")
class LakeCatalog:
    """Databases, tables and views. Safe to share: it holds no state but its catalog."""

    def __init__(
        self,
        warehouse: str | os.PathLike[str] | None = None,
        *,
        io: FileIO | None = None,
        env: Env = SYSTEM,
        options: Mapping[str, Any] | None = None,
        roots: Sequence[str | os.PathLike[str]] = (),
        sql_roots: Sequence[str | os.PathLike[str]] | None = None,
    ) -> None:
        given = dict(options or {})
        if warehouse is not None:
            given["warehouse"] = location(warehouse)
        self._options = CatalogOptions.parse(given)
        self._catalog = open_catalog(self._options, io=io, env=env)
        self._env, self._roots = env, named_roots(roots)
        self._sql_roots = None if sql_roots is None else Roots.of(sql_roots)

    @property
    def warehouse(self) -> str:
        """Where the databases lie."""
        return self._catalog.warehouse

    @property
    def sql_roots(self) -> Roots | None:
        """The places that statements over the lake may name; None: all that this process reaches."""
        return self._sql_roots

    @property
    def options(self) -> dict[str, str]:
        """Options of the catalog, with secrets as `***`.

        >>> sorted(lake.options)
        ['warehouse']
        """
        return hidden(self._options.raw)

    def require_there(self, remedy: str = "create_database(name) makes it") -> None:
        """Raise NotFound for a warehouse without a directory, with the most similar one and the `remedy`. A
        metastore and an object store are always there.

        >>> ts.connect("lake").require_there()
        """
        if self._options.metastore == "filesystem":
            require_warehouse(self.warehouse, self._catalog.io, remedy)

    def databases(self) -> list[str]:
        """Names of the databases, sorted.

        >>> lake.databases()
        ['shop']
        """
        return self._catalog.databases()

    def create_database(
        self,
        name: str,
        *,
        if_not_exists: bool = False,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Make the database `name`. Raises AlreadyExists unless `if_not_exists`.

        A `comment` and `properties`, {name: text}, are kept by catalogs with `metastore` = jdbc or hive;
        elsewhere they raise Unsupported. A property that is a secret raises InvalidOption.

        >>> lake.create_database("stock")
        >>> lake.databases()
        ['shop', 'stock']
        """
        require_no_secrets(properties or {}, of="database")
        given = dict(properties or {}) | ({} if comment is None else {"comment": comment})
        try:
            self._catalog.create_database(checked_name(name, "database"), given)
        except AlreadyExists:
            if not if_not_exists:
                raise

    def database_properties(self, name: str) -> dict[str, str]:
        """The properties of the database `name`: its `location`, and what else the catalog keeps, `comment`
        among it. Raises NotFound.

        >>> list(lake.database_properties("shop"))
        ['location']
        """
        return self._catalog.database_properties(checked_name(name, "database"))

    def alter_database(self, name: str, properties: Mapping[str, str | None]) -> None:
        """Set `properties` of the database `name`, {property: text}, or (None) remove them.

        Raises NotFound, InvalidOption for a secret, Unsupported for a catalog of files, which has no place
        for them.

        >>> registry = ts.connect("lake", metastore="jdbc", uri="sqlite:catalog.db")
        >>> registry.create_database("stock", comment="what is there")
        >>> registry.alter_database("stock", {"owner": "ann", "comment": None})
        >>> registry.database_properties("stock")["owner"]
        'ann'
        """
        set_ones = {key: value for key, value in properties.items() if value is not None}
        require_no_secrets(set_ones, of="database")
        self._catalog.alter_database(checked_name(name, "database"), properties)

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Remove the database `name`; with `cascade` the tables and views in it, too.

        Raises InvalidRequest if it holds any and `cascade` is not set, NotFound unless `if_exists`.

        >>> lake.drop_database("shop", cascade=True)
        >>> lake.databases()
        []
        """
        if name not in self.databases():
            place = database_dir(self._catalog.warehouse, name)
            if finish_drop(self._catalog.io, place) or if_exists:
                return
            self.require_there()
            raise NotFound.among("database", name, self.databases())
        tables, views = self.tables(name), self._catalog.views(name)
        if (tables or views) and not cascade:
            held = f"{len(tables)} tables" + (f" and {len(views)} views" if views else "")
            raise InvalidRequest(f"database {name!r} holds {held}; drop them, or pass cascade=True")
        done: list[str] = []
        try:
            for table in tables:
                self._drop(name, table)
                done.append(table)
            for view in views:
                self._catalog.drop_view(name, view)
                done.append(view)
            self._catalog.drop_database(name)
        except CommitUnknown:
            raise
        except (TablestoreError, OSError) as e:
            if not done:
                raise
            text = (
                f"of database {name!r}, {', '.join(done)} are dropped, and then: {e}; the same call goes on"
            )
            raise CommitUnknown(text) from e

    def tables(self, database: str | None = None) -> list[str]:
        """Names of the tables of one `database`, or `db.table` of all (None). Raises NotFound.

        >>> lake.tables("shop"), lake.tables()
        (['events', 'orders'], ['shop.events', 'shop.orders'])
        """
        if database is None:
            return [f"{db}.{t}" for db in self.databases() for t in self.tables(db)]
        self.require_there()
        return self._catalog.tables(checked_name(database, "database"))

    def create_table(
        self,
        name: str,
        *,
        schema: Columns | Any = None,
        like: Table | str | None = None,
        primary_key: Sequence[str] | None = None,
        partition_by: Sequence[str] | None = None,
        options: Mapping[str, Any] | None = None,
        comment: str | None = None,
        comments: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """A new table, `name` as `db.table`, whose database is made if need be.

        `schema`: {name: type}, [(name, type)…], an Arrow schema, or what has one (rows, a pandas, Polars or
        Spark frame); `comments` are those of columns, by name, `comment` is the table's. `primary_key` are
        columns by which rows are upserted, `partition_by` those whose values each have a directory, in this
        order. `options` go by Paimon's names; values may be numbers, switches or text. `like` another table
        takes its columns, keys, partitions, options and comments, but for what is given here (an option given
        as None is left out), for its uuid, its branches and places outside of it.

        Without a primary key, `write-mode` = change-log makes a change-log table: equal rows are counted,
        changes of any kind are taken, the columns become NOT NULL. With `if_not_exists` a table that is there
        is given as it is. Raises AlreadyExists, SchemaMismatch, InvalidOption, Unsupported; nothing is made
        then.

        >>> columns = {"item": ts.INT, "price": ts.DECIMAL(8, 2)}
        >>> lake.create_table("shop.items", schema=columns, primary_key=["item"], options={"bucket": 2})
        Table(shop.items at snapshot None: 2 columns, primary key (item))
        """
        identifier = _plain(name)
        new = NewTable(
            schema=schema,
            like=self.table(like) if isinstance(like, str) else like,
            primary_key=primary_key,
            partition_by=partition_by,
            options=options,
            comment=comment,
            comments=comments,
        )
        defaults = self._options.table_defaults
        table_schema = doors.new_schema(identifier, new, defaults=defaults, roots=self._roots, env=self._env)
        if if_not_exists and name in self:
            return self.table(name)
        table_schema, log_made = doors.make_log(table_schema, self._catalog.io)
        try:
            self._create(identifier, table_schema)
        except BaseException as e:
            if log_made is not None:
                log_made.drop()
            # the catalog may not know what is in its place
            if not (isinstance(e, AlreadyExists) and if_not_exists and name in self):
                raise
        try:
            return self.table(name)
        except Unavailable as e:
            text = f"table {identifier} is made, and could not be opened: {e}; lake.table({name!r}) opens it"
            raise CommitUnknown(text) from e

    def _create(self, identifier: Identifier, schema: TableSchema) -> None:
        database, table = identifier.database, identifier.table
        for name in (database, table, *schema.names) if self._options.case_sensitive is False else ():
            if name != name.lower():
                raise InvalidRequest(f"{name!r}: this catalog is not case-sensitive; use lower case")
        if database not in self.databases():
            self.create_database(database, if_not_exists=True)
        self._catalog.create_table(database, table, schema)
        log.info("created table %s at %s", identifier, self._catalog.location(database, table))

    def table(self, name: str) -> Table:
        """An existing table, anyone's.

        `name` is `db.table`; `db.t$branch_b` is a branch; to be read only are `db.t$snapshots` and the like,
        `sys.tables`, `sys.partitions`, `sys.all_table_options`. Raises NotFound naming the nearest.

        >>> lake.table("shop.orders").primary_key
        ('order_id',)
        """
        identifier = Identifier.parse(name)
        if identifier.database == SYSTEM_DATABASE:
            return doors.global_table(  # type: ignore[return-value]  # scans as a table does
                identifier.table, self._opened
            )
        try:
            store = self._store(identifier, branch=identifier.branch)
        except NotFound:
            if identifier.branch != MAIN and identifier.table in self.tables(identifier.database):
                doors.require_branch(self._store(identifier), identifier.branch)
            self.require_there()
            raise NotFound.among("table", str(identifier), self.tables()) from None
        table = doors.table(store, str(replace(identifier, system=None)))
        if identifier.system is None:
            return table
        return table.system(identifier.system)  # type: ignore[return-value]  # scans as a table does

    def _opened(self) -> Iterator[tuple[str, str, Store]]:
        """Every table of the lake with its store."""
        for database in self.databases():
            for table in self.tables(database):
                yield database, table, self._store(Identifier(database, table))

    def _store(self, identifier: Identifier, *, branch: str = MAIN) -> Store:
        root, io = self._place(identifier)
        return doors.store(root, io=io, env=self._env, branch=branch, roots=self._roots)

    def _place(self, identifier: Identifier) -> tuple[str, FileIO]:
        """Where a table is, and how it is reached; raises NotFound for one the catalog does not know."""
        database, table = identifier.database, identifier.table
        if self._options.metastore != "filesystem" and not self._catalog.holds(database, table):
            raise NotFound.among("table", str(identifier), self.tables())
        return self._catalog.location(database, table), self._catalog.file_io(database, table)

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Remove the table `name` and all files of its directory. An external table keeps them, as does one
        whose directory is a link: only the link goes. Files in its `data-file.external-paths` stay, since
        other tables may have theirs beside them; a warning names the place.

        Cut short, it leaves the whole table or none, and the same call ends it. Raises NotFound unless
        `if_exists`, InvalidRequest for names of branches and system tables.

        >>> lake.drop_table("shop.events")
        >>> lake.tables("shop")
        ['orders']
        """
        identifier = _plain(name)
        if not self._catalog.holds(identifier.database, identifier.table):
            there = identifier.database in self.databases()
            if (there and self._catalog.finish_drop(identifier.database, identifier.table)) or if_exists:
                return
            self.require_there()
            raise NotFound.among("table", str(identifier), self.tables())
        self._drop(identifier.database, identifier.table)

    def _drop(self, database: str, table: str) -> None:
        """Drop a table, then what its log has outside of its directory."""
        elsewhere = ""
        try:
            store = self._store(Identifier(database, table))
            elsewhere = store.options.external_paths or ""
            outside = doors.log_outside(store)
        except (TablestoreError, OSError) as e:  # damaged tables can be dropped
            log.debug("%s.%s is dropped without a look at its log: %s", database, table, e)
            outside = None
        self._catalog.drop_table(database, table)
        if elsewhere:
            log.warning("%s.%s is dropped; data files that it kept in %s stay", database, table, elsewhere)
        if outside is not None:
            outside.drop()

    def rename_table(self, name: str, new_name: str) -> None:
        """Give the table `name` the name `new_name`, also in another database; its files move along, so
        nobody may be writing to it.

        A `Table` opened under the old name refuses to write afterwards. Raises NotFound, AlreadyExists.

        >>> lake.rename_table("shop.events", "shop.visits")
        >>> lake.tables("shop")
        ['orders', 'visits']
        """
        old, new = _plain(name), _plain(new_name)
        if not self._catalog.holds(old.database, old.table):
            raise NotFound.among("table", str(old), self.tables())
        if new.database not in self.databases():
            raise NotFound.among("database", new.database, self.databases())
        self._catalog.rename_table(old.database, old.table, (new.database, new.table))

    def repair_table(self, name: str) -> None:
        """Enter a table in the catalog whose files are in their place but which the catalog does not know.

        `name` is `db.table`. A catalog of files knows every table: there is nothing to do. Raises NotFound
        where there are no files.

        >>> lake.repair_table("shop.orders")
        """
        identifier = _plain(name)
        self._catalog.repair_table(identifier.database, identifier.table)

    @property
    def keeps_views(self) -> bool:
        """Whether the catalog has a place for views, and for comments and properties of databases.

        >>> lake.keeps_views
        False
        """
        return self._catalog.keeps_views

    def views(self, database: str | None = None) -> list[str]:
        """Names of the views that the catalog keeps of one `database`, or `db.view` of all (None). Raises
        NotFound.

        >>> lake.views("shop")
        []
        """
        if database is None:
            return [f"{db}.{v}" for db in self.databases() for v in self.views(db)]
        return self._catalog.views(checked_name(database, "database"))

    def view(self, name: str) -> CatalogView | None:
        """The view `name`, as `db.view`, None if the catalog keeps none of that name.

        >>> lake.view("shop.large") is None
        True
        """
        identifier = Identifier.parse(name)
        if identifier.system or identifier.branch != MAIN or not self.keeps_views:
            return None
        return self._catalog.view(identifier.database, identifier.table)

    def create_view(self, name: str, view: CatalogView, *, replace: bool = False) -> None:
        """Keep a `view` under the `name` `db.view`; with `replace` also in place of one that is there.

        `ts.sql_session(lake).sql("CREATE VIEW …")` works out the columns of the query. Raises AlreadyExists
        for the name of a table or view, NotFound for an unknown database, Unsupported for a catalog of files.

        >>> registry = ts.connect("lake", metastore="jdbc", uri="sqlite:catalog.db")
        >>> registry.create_database("stock")
        >>> result = registry.sql("CREATE VIEW stock.answer AS SELECT 42 AS n")
        >>> registry.views(), registry.view("stock.answer").query
        (['stock.answer'], 'SELECT 42 AS n')
        """
        identifier = _plain(name)
        checked_name(identifier.table, "view")
        if self.keeps_views and identifier.database not in self.databases():
            raise NotFound.among("database", identifier.database, self.databases())
        self._catalog.put_view(identifier.database, identifier.table, view, replace=replace)

    def drop_view(self, name: str) -> None:
        """Forget the view `name`. Raises NotFound.

        >>> registry = ts.connect("lake", metastore="jdbc", uri="sqlite:catalog.db")
        >>> result = registry.sql("CREATE DATABASE stock; CREATE VIEW stock.answer AS SELECT 42 AS n")
        >>> registry.drop_view("stock.answer")
        """
        identifier = _plain(name)
        self._catalog.drop_view(identifier.database, identifier.table)

    def rename_view(self, name: str, new_name: str) -> None:
        """Give the view `name` the name `new_name`. Raises NotFound, AlreadyExists.

        >>> registry = ts.connect("lake", metastore="jdbc", uri="sqlite:catalog.db")
        >>> result = registry.sql("CREATE DATABASE stock; CREATE VIEW stock.answer AS SELECT 42 AS n")
        >>> registry.rename_view("stock.answer", "stock.number")
        >>> registry.views("stock")
        ['number']
        """
        old, new = _plain(name), _plain(new_name)
        checked_name(new.table, "view")
        if new.database not in self.databases():
            raise NotFound.among("database", new.database, self.databases())
        self._catalog.rename_view(old.database, old.table, (new.database, new.table))

    def __contains__(self, name: str) -> bool:
        identifier = _plain(name)
        return self._catalog.holds(identifier.database, identifier.table)


def _plain(name: str) -> Identifier:
    """The identifier of a table itself."""
    identifier = Identifier.parse(name)
    if identifier.system or identifier.branch != MAIN:
        raise InvalidRequest(
            f"{name!r} names a system table or branch; create and drop tables by plain names"
        )
    return identifier
