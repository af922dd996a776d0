"""Lake: a catalog as a user holds it. No cache: each call asks the files or the catalog's server.

Options say which catalog it is (file system, SQL, Hive metastore); see the package `catalog`. What makes and
opens a table is behind `doors`, so that a lake is opened with a quarter of the engine's modules.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tablestore import doors
from tablestore.catalog import dropping
from tablestore.catalog.catalog import database_dir
from tablestore.catalog.opening import open_catalog
from tablestore.catalog.options import CatalogOptions
from tablestore.catalog.views import CatalogView
from tablestore.catalog.warehouse import require_warehouse
from tablestore.core import rich
from tablestore.core.arguments import checked_but, require_session
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
from tablestore.io.confined import named_roots
from tablestore.io.fileio import FileIO
from tablestore.io.paths import checked_name, location
from tablestore.io.roots import Roots
from tablestore.io.routed import file_io_for
from tablestore.table.identifier import DEFAULT_DATABASE, MAIN, SYSTEM_DATABASE, Identifier
from tablestore.table.new_table import NewTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tablestore.doors import CaptureJob, Coordinator, Repair, Result, TieringService
    from tablestore.format.schema import TableSchema
    from tablestore.meta.store import Store
    from tablestore.table.columns import Columns
    from tablestore.table.table import Table

log = logging.getLogger(__name__)


@checked_but(
    "comments", "name", "new_name", "parameters", "partition_by", "primary_key", "roots", "warehouse"
)
class Lake:
    """Databases and tables. Safe to share: it holds no state but its catalog."""

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
            if dropping.finish(self._catalog.io, place) or if_exists:
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
        """Remove the table `name` and all its files. An external table keeps them, as does one whose
        directory is a link: only the link goes.

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
        try:
            outside = doors.log_outside(self._store(Identifier(database, table)))
        except (TablestoreError, OSError) as e:  # damaged tables can be dropped
            log.debug("%s.%s is dropped without a look at its log: %s", database, table, e)
            outside = None
        self._catalog.drop_table(database, table)
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

    def sql(self, statement: str, parameters: Any = None) -> Result:
        """Run a SQL `statement`, or a script of several: `?` and `:name` in it take their values from
        `parameters`, a list or a mapping. Gives the `Result` of the last one: rows as a scan gives them, or
        what was changed.

        Each call is a session of its own; `ts.sql_session(lake)` keeps settings and temporary tables. Raises
        InvalidRequest with the line and column of what is wrong, and what the verbs raise.

        >>> lake.sql("SELECT count(*) AS n FROM shop.orders WHERE order_id < ?", [3]).to_arrow().to_pylist()
        [{'n': 2}]
        """
        return doors.sql_session(self).sql(statement, parameters)

    def register(self, spark: SparkSession, catalog: str = "lake") -> list[str]:
        """Give the session `spark` all tables of the lake by name; gives the names.

        The lake is a catalog of Spark then, called `catalog`, and the current one: `shop.orders` is a table
        of it, also for INSERT, `shop.`orders$snapshots`` a system table, `shop.orders VERSION AS OF 3` a
        table at a snapshot or tag. Each query sees the tables and the snapshots that there are. Temporary
        views stay; other tables of the session are in `spark_catalog`. Spark makes and drops no tables here.
        Raises InvalidRequest for a name that no catalog can have, Unsupported where pyspark is not installed.

        >>> lake.register(spark)                                            # doctest: +SKIP
        ['shop.orders']
        >>> spark.sql("SELECT count(*) FROM shop.orders").show()            # doctest: +SKIP
        """
        require_session(spark)
        return doors.register_lake(self, spark, catalog)

    def ingest(
        self,
        url: str | os.PathLike[str],
        *,
        into: str = "",
        tables: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        prefix: str = "",
        suffix: str = "",
        merge_shards: bool = False,
        type_mapping: str | Sequence[str] = (),
        primary_keys: Mapping[str, Any] | Sequence[str] | str = (),
        partition_by: Mapping[str, Any] | Sequence[str] | str = (),
        computed: Mapping[str, Any] | None = None,
        metadata: str | Sequence[str] = (),
        metadata_prefix: str = "",
        options: Mapping[str, Any] | None = None,
        schema_change: str = "evolve",
        bad_rows: str = "fail",
        keyless: str = "refuse",
        follow: bool = True,
        interval: Any = "1s",
        compact_every: int = 5,
        checkpoint: str | os.PathLike[str] | None = None,
        name: str | None = None,
        engine: str = "spark",
        processes: int | None = None,
        spark: SparkSession | None = None,
        on_batch: Callable[[Any], Any] | None = None,
        **source: Any,
    ) -> CaptureJob:
        """Capture tables of the database at `url`: read their rows, follow their changes and what becomes of
        their columns, each transaction exactly once; gives the job, which runs on.

        `url` is mysql://user@host/database (or mariadb://), also with `.table` behind it or without a
        database, kafka://host:9092/topic, or a change directory. The password is in the environment variable
        TABLESTORE_SOURCE_PASSWORD or in `password_file`. `tables` and `exclude` are patterns of
        `database.table`: "shop.*". Rows go `into` a database, under the same names with `prefix` and
        `suffix`, or into one table `database.table` (of an address that names a table: the table); by default
        into databases of the same names. With `merge_shards` tables whose targets are the same become one.

        Of the tables that are made: `type_mapping` has Paimon's words, "tinyint1-to-bool", "to-string", …;
        `primary_keys` and `partition_by` are columns, or {pattern: columns}, where "*" among keys is the key
        of the source; `computed` columns are {name: "date(created_at)"}; `metadata` has "op_ts",
        "database_name", "table_name", with `metadata_prefix` before their names; `options` are Paimon's.
        `schema_change` is what a change of columns in the source does: "evolve", "ignore" or "fail";
        `bad_rows` "fail", which pauses their table where the source has others, or "dead-letter": they go to
        `cdc_dead_letters`, with position and reason. Tables without a primary key are left out, `keyless`
        "refuse", or captured into append tables, "append": each row that is inserted comes once, and a row
        that is updated or deleted counts as bad.

        Unless it is to `follow`, the job ends at what there is when all is read, batch after batch. Else one
        is planned every `interval`. A table is compacted after `compact_every` of its commits. The job's
        `name` is the user of its commits; the same call later goes on by its `checkpoint`, a directory (None:
        in the warehouse).
        The pipeline runs on Spark; `spark` is a session (None: one is started). `engine` = "local" runs the
        same in `processes` of this machine (None: one a core), without Spark and Java. Both keep the same
        checkpoint, so that either goes on from the other's. `on_batch(report)` is called after each batch.
        `source` are arguments of the kind of source: `password_file`, `tls`, `tls_ca`, `chunk_rows`,
        `chunks`, `log_bytes`, `left_out` ({pattern: columns}), `zero_dates` ("null" or "fail"), `read_again`
        (patterns of tables that are emptied and read once more) of databases; `chunks`, `log_bytes` of
        directories; `format`, `format_options`, `properties`, `columns`, `start` of topics.

        The job has `wait()`, `stop()`, `pause()`, `resume()`, `running`, `progress()` (of the batch under
        way), `reports()` (of those that are done), `freshness()`. Raises InvalidRequest with what the server
        must be set to, NotFound, Unsupported; nothing is made then.

        >>> job = lake.ingest("mysql://me@db.example/shop", into="ods")      # doctest: +SKIP
        >>> job.wait(60), job.freshness().quantile(0.5)                     # doctest: +SKIP
        (False, 1.4)
        >>> job.stop()                                                      # doctest: +SKIP
        """
        rules = {
            "into": into,
            "exclude": exclude,
            "prefix": prefix,
            "suffix": suffix,
            "merge_shards": merge_shards,
            "type_mapping": type_mapping,
            "primary_keys": primary_keys,
            "partition_by": partition_by,
            "computed": computed,
            "metadata": metadata,
            "metadata_prefix": metadata_prefix,
            "options": options,
            "schema_change": schema_change,
            "bad_rows": bad_rows,
            "keyless": keyless,
        }
        how: dict[str, Any] = {"follow": follow, "interval": interval, "compact_every": compact_every}
        how |= {"checkpoint": checkpoint, "name": name, "spark": spark, "on_batch": on_batch}
        how |= {"engine": engine, "processes": processes}
        return doors.ingest(self, url, tables=tables, rules=rules, source=source, **how)

    def tier(
        self,
        source: str,
        *,
        tables: str | Sequence[str] = (),
        follow: bool = True,
        name: str | None = None,
        log_columns: bool = False,
        options: Mapping[str, Any] | None = None,
        iceberg: Mapping[str, str] | None = None,
        lost_rows: str = "fail",
        dropped: str = "keep",
        rounds: int = 2,
        threads: int = 2,
        poll: Any = "500ms",
        wait: Any = "1min",
        hold: str | os.PathLike[str] | None = None,
        spark: SparkSession | None = None,
    ) -> TieringService:
        """Copy what is new in tables of a streaming cluster into tables of this lake of the same names, in
        rounds, each row once; gives the service, which runs on.

        `source` is fluss://host:port, several with commas between them: a Fluss, or what `coordinator()` of
        another lake gives. A Fluss that requires it is signed in to as `fluss://user@host:port`, with the
        password of the environment variable TABLESTORE_FLUSS_PASSWORD. Where nobody answers yet, a warning
        says so, and it is waited for up to `wait`.

        `tables` are patterns of `database.table`: "shop.*"; without any all tables with
        `table.datalake.enabled`. The coordinator says which table is due; it is asked every `poll`. Unless it
        is to `follow`, nobody is asked: every table has one round, and the service ends.

        Lake tables are made as the cluster's are, with their keys, partitions and buckets; `log_columns`:
        those of log tables get `__bucket`, `__offset`, `__timestamp`; `options` are Paimon's. Streams and
        `scan(log=True)` of them see rows that no round has brought yet. With `iceberg`, the properties of a
        catalog (`type`, `uri`, `warehouse`, …), log tables go to Iceberg tables there instead.

        Rows that retention removed from the log before a round are an error of their table; with `lost_rows`
        = "skip" it goes on behind them. What the lake has of partitions that are dropped in the cluster, and
        of a table that is made again there, it keeps, the latter under a tag; with `dropped` = "drop" it goes
        from the lake, too. A table that is only dropped there stays in the lake. Each is one of the
        `events()`, and a round of a table whose rows are gone before the lake has them ends as `incomplete`,
        never as `committed`.

        There are `rounds` at a time, of which `threads` read splits; with `spark`, a session, its tasks do.
        What happens is written below the warehouse under the `name` of the service; one that is started again
        under it gives back what it held when it was killed. To see what a kill does at one moment: while the
        file `hold` says `committing`, rounds wait before their commit to the lake; `registering`, before the
        cluster learns of that.

        The service has `wait()`, `stop()`, `pause()`, `resume()`, `running`, `state`, and `tables()`,
        `rounds()`, `heartbeats()`, `events()` with what is known of them. Raises InvalidRequest, Unavailable
        where no cluster answers, Unsupported; nothing is made then.

        >>> service = lake.tier("fluss://127.0.0.1:9123", tables="shop.*")     # doctest: +SKIP
        >>> [(one.table, one.state, one.lag_rows) for one in service.tables()]  # doctest: +SKIP
        [('shop.clicks', 'Tiered', 0)]
        >>> service.stop()                                                     # doctest: +SKIP
        True
        """
        return doors.tier(
            self,
            source,
            tables=tables,
            follow=follow,
            name=name,
            log_columns=log_columns,
            options=options,
            iceberg=iceberg,
            lost_rows=lost_rows,
            dropped=dropped,
            rounds=rounds,
            threads=threads,
            poll=poll,
            wait=wait,
            hold=hold,
            spark=spark,
        )

    def coordinator(self, *, host: str = "127.0.0.1", port: int = 0) -> Coordinator:
        """A coordinator of tiering, as a cluster on a `port` of 127.0.0.1 (0: any that is free), until it is
        closed.

        Tables with a log and `tablestore.tiering.enabled` become due one `tablestore.tiering.freshness` after
        their last round; services ask for them there, and clients of Fluss read their logs. Others see
        nothing: it requires a password, made anew at each start, which is in its `token_file` for those who
        may write the warehouse. `lake.tier(f"fluss://{c.address}")` finds it there; other clients connect to
        `c.server` and sign in by SASL/PLAIN as any user. It has `tables()` with their states, `epoch`,
        `close()`, and is a context manager. Raises InvalidRequest for a `host` that other machines reach.

        >>> with lake.coordinator() as c:
        ...     c.tables()
        []
        """
        return doors.coordinator(self, self._catalog.io, host=host, port=port, env=self._env)

    def __contains__(self, name: str) -> bool:
        identifier = _plain(name)
        return self._catalog.holds(identifier.database, identifier.table)

    def __repr__(self) -> str:
        names = self.tables()
        if not names:
            try:
                self.require_there()
            except NotFound as absent:
                return f"Lake({self.warehouse!r}: {absent})"
        shown = ", ".join(names[:12]) + (f", … {len(names) - 12} more" if len(names) > 12 else "")
        return f"Lake({self.warehouse!r}: {shown or 'no tables yet'})"

    def _repr_html_(self) -> str | None:
        def opened(name: str) -> Store:
            return self._store(Identifier.parse(name))

        return rich.card("lake", self.warehouse, self.tables(), opened, self._env)


def _plain(name: str) -> Identifier:
    """The identifier of a table itself."""
    identifier = Identifier.parse(name)
    if identifier.system or identifier.branch != MAIN:
        raise InvalidRequest(
            f"{name!r} names a system table or branch; create and drop tables by plain names"
        )
    return identifier


@checked_but("roots", "warehouse")
def connect(
    warehouse: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    io: FileIO | None = None,
    env: Env = SYSTEM,
    roots: Sequence[str | os.PathLike[str]] = (),
    sql_roots: Sequence[str | os.PathLike[str]] | None = None,
    **options: Any,
) -> Lake:
    """The lake in a directory, or the one that catalog options name.

    `warehouse` is a path or URI, or a mapping of all options: `connect("warehouse")`,
    `connect("s3://bucket/lake", s3_endpoint=…)`, `connect(metastore="jdbc", uri="postgresql://…",
    warehouse=…)`, `connect({"metastore": "hive", "uri": "thrift://…", "warehouse": …, "lock.enabled":
    True})`. `options` are the catalog's, with `_` for `.` and `-`. `roots`: directories outside the tables'
    own in which they may keep data files (`data-file.external-paths`). `sql_roots` is for a lake that others
    send statements to: these name no file outside of these directories, none at all with `sql_roots=[]`; see
    `sql_session`. The directory is made when the first database or table is; until then a name that is looked
    up there, and what SQL lists, raises NotFound that names the missing lake. Raises InvalidRequest for a
    file or a table's directory.

    >>> ts.connect("lake").tables()
    ['shop.events', 'shop.orders']
    """
    if isinstance(warehouse, Mapping):
        named, warehouse = warehouse, None
        options = {**named, **options}
    return Lake(warehouse, io=io, env=env, options=options, roots=roots, sql_roots=sql_roots)


@checked_but("path", "roots")
def open_table(
    path: str | os.PathLike[str],
    *,
    io: FileIO | None = None,
    env: Env = SYSTEM,
    options: Mapping[str, Any] | None = None,
    roots: Sequence[str | os.PathLike[str]] | None = None,
) -> Table:
    """The table in a directory, anyone's.

    The last two components of `path` name it (`…/shop.db/orders`). `options` say how to reach an object store
    (`s3.endpoint`, …). `roots`: directories outside the table's own that its files may lie in: what its
    metadata name elsewhere is neither read nor removed. Commits made so know no catalog's locks. Raises
    NotFound where there is no table.

    >>> ts.open("lake/shop.db/orders").scan().count()
    3
    """
    root = location(path)
    head, _, name = root.rpartition("/")
    database = head.rpartition("/")[2].removesuffix(".db") or DEFAULT_DATABASE
    files = io or file_io_for(root, CatalogOptions.parse(options or {}).raw, env)
    try:
        allowed = None if roots is None else named_roots(roots)
        return doors.table(doors.store(root, io=files, env=env, roots=allowed), f"{database}.{name}")
    except NotFound:
        raise NotFound(f"no table at {root}{_hint(files, root)}") from None


@checked_but("path", "roots")
def mend_table(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = True,
    io: FileIO | None = None,
    env: Env = SYSTEM,
    options: Mapping[str, Any] | None = None,
    roots: Sequence[str | os.PathLike[str]] | None = None,
) -> Repair:
    """Bring a damaged table, also one that cannot be opened, back to what of it is sound; a preview unless
    `dry_run=False`.

    `path`, `options` and `roots` are those of `ts.open`. What is broken is put aside in `tablestore/damaged`
    of the table, nothing is deleted; the answer says what is lost. The same call ends what was cut short. No
    writer should be at work meanwhile. Raises NotFound where there is no table, Corrupt, naming the file,
    where nothing sound is left.

    >>> ts.mend("lake/shop.db/orders").broken
    ()
    """
    root = location(path)
    files = io or file_io_for(root, CatalogOptions.parse(options or {}).raw, env)
    allowed = None if roots is None else named_roots(roots)
    try:
        store = doors.store(root, io=files, env=env, roots=allowed, salvage=True)
    except NotFound:
        raise NotFound(f"no table at {root}{_hint(files, root)}") from None
    return doors.repair(store, root, dry_run=dry_run)


def _hint(io: FileIO, root: str) -> str:
    """What a directory is that is no table."""
    inside = [s.name for s in io.list(root) if s.is_dir]
    if root.endswith(".db"):
        return f": it is a database; tablestore.connect({root.rpartition('/')[0]!r}) opens its lake"
    if any(name.endswith(".db") for name in inside):
        return f": it is a lake; tablestore.connect({root!r}) opens it"
    return ""
