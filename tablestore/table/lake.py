"""Lake: a catalog as a user holds it, with what runs over all its tables: SQL, capture, tiering.

Options say which catalog it is (file system, SQL, Hive metastore); see the package `catalog`. Its databases,
tables and views are in `lake_catalog`. What carries out a verb is behind `doors`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tablestore import doors
from tablestore.catalog.options import CatalogOptions
from tablestore.core import rich
from tablestore.core.arguments import checked_but, require_session
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import NotFound
from tablestore.io.confined import named_roots
from tablestore.io.fileio import FileIO
from tablestore.io.paths import location
from tablestore.io.routed import file_io_for
from tablestore.table.identifier import DEFAULT_DATABASE, Identifier
from tablestore.table.lake_catalog import LakeCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tablestore.doors import (
        CaptureJob,
        Coordinator,
        MaintenancePolicy,
        MaintenanceService,
        Repair,
        Result,
        TieringService,
    )
    from tablestore.meta.store import Store
    from tablestore.table.table import Table


@checked_but("name", "parameters", "partition_by")
class Lake(LakeCatalog):
    """Databases and tables. Safe to share: it holds no state but its catalog."""

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
        database, postgresql://user@host/database, kafka://host:9092/topic, or a change directory.
        The password is in the environment variable TABLESTORE_SOURCE_PASSWORD or in `password_file`.
        `tables` and `exclude` are patterns of `database.table`: "shop.*". Rows go `into` a database, under
        the same names with `prefix` and `suffix`, or into one table `database.table` (of an address that
        names a table: the table); by default into databases of the same names. With
        `merge_shards` tables whose targets are the same become one.

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
        (patterns of tables that are emptied and read once more) of databases; of PostgreSQL also
        `publication` and `slot`, but not the two before; `chunks`, `log_bytes` of directories;
        `format`, `format_options`, `properties`, `columns`, `start` of topics.

        The job has `wait()`, `stop()`, `pause()`, `resume()`, `running`, `progress()` (of the batch under
        way), `reports()` (of those that are done), `freshness()`. Raises InvalidRequest with what the server
        must be set to, NotFound, Unsupported; nothing is made then.

        >>> job = lake.ingest("mysql://me@db.example/shop", into="ods")      # doctest: +SKIP
        >>> job.wait(60), job.freshness().quantile(0.5)                     # doctest: +SKIP
        (False, 1.4)
        >>> job.stop()                                                      # doctest: +SKIP
        """
        rules: dict[str, Any] = {"into": into, "exclude": exclude, "prefix": prefix, "suffix": suffix}
        rules |= {"merge_shards": merge_shards, "type_mapping": type_mapping, "options": options}
        rules |= {"primary_keys": primary_keys, "partition_by": partition_by, "computed": computed}
        rules |= {"metadata": metadata, "metadata_prefix": metadata_prefix, "bad_rows": bad_rows}
        rules |= {"schema_change": schema_change, "keyless": keyless}
        how: dict[str, Any] = {"follow": follow, "interval": interval, "compact_every": compact_every}
        how |= {"checkpoint": checkpoint, "name": name, "spark": spark, "on_batch": on_batch}
        how |= {"engine": engine, "processes": processes}
        return doors.ingest(self, url, how, tables=tables, rules=rules, source=source)

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
        threads: int | None = None,
        poll: Any = "500ms",
        wait: Any = "1min",
        hold: str | os.PathLike[str] | None = None,
        engine: str | None = None,
        processes: int | None = None,
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

        There are `rounds` at a time. Their splits are read by `threads` of this process (2); with `engine` =
        "local" by `processes` of this machine, one a core unless said; with "spark", or `spark`, a session,
        by its tasks. Either way this process commits.
        What happens is written below the warehouse under the `name` of the service; one that is started again
        under it gives back what it held when it was killed. To see what a kill does at one moment: while the
        file `hold` says `committing`, rounds wait before their commit to the lake; `registering`, before the
        cluster learns of that.

        The service has `wait()`, `stop()`, `pause()`, `resume()`, `running`, `state`, `tables()`, `rounds()`,
        `heartbeats()`, `events()`. Raises before anything is made: InvalidRequest, Unsupported, Unavailable.

        >>> service = lake.tier("fluss://127.0.0.1:9123", tables="shop.*")     # doctest: +SKIP
        >>> [(each.table, each.state) for each in service.tables()]            # doctest: +SKIP
        [('shop.clicks', 'Tiered')]
        """
        how: dict[str, Any] = {"tables": tables, "follow": follow, "name": name, "options": options}
        how |= {"log_columns": log_columns, "iceberg": iceberg, "lost_rows": lost_rows, "dropped": dropped}
        how |= {"rounds": rounds, "threads": threads, "poll": poll, "wait": wait, "hold": hold}
        return doors.tier(self, source, **how, engine=engine, processes=processes, spark=spark)

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

    def maintain(
        self,
        *,
        tables: str | Sequence[str] = (),
        policy: MaintenancePolicy | Mapping[str, Any] | None = None,
        bytes_per_hour: int | str | None = None,
        windows: str | Sequence[str] = (),
        follow: bool = True,
        name: str | None = None,
        poll: Any = "5 s",
        lease: Any = "1 min",
        engine: str = "local",
        spark: SparkSession | None = None,
        processes: int | None = None,
    ) -> MaintenanceService:
        """Keep tables in shape: compact buckets, the worst first, expire snapshots and partitions, mend what
        the doctor finds, remove orphans; gives the service, which runs on. Writers can be `write-only` then.

        `tables` are patterns of `database.table`: "shop.*"; without any all tables. `policy` is what is aimed
        at, a `ts.MaintenancePolicy`; or, for tables of different needs, {pattern: policy}, of which the first
        that fits decides. Compactions read at most `bytes_per_hour` ("10 gb") in any hour, and work is done
        in `windows` of the day, in local time ("22:00-06:00"); what makes writers wait is done in spite of
        both. Unless it is to `follow`, the service ends when nothing is left that may be done.

        Each piece of work is one commit, all or nothing. Services share tables by leases in the warehouse: a
        table is with one of them, and passes on when that one has not renewed its `lease` in time. What was
        done is written down under the `name` of the service: `ts.maintenance_report`. Tables are looked at
        every `poll`. With `processes` so many buckets are compacted at a time, each in a process of its own;
        with `engine="spark"` they are tasks of the session `spark`, by default the one that runs.

        The service has `wait()`, `stop()`, `pause()`, `resume()`, `running`, `state`, `report()`: each piece
        of work with why, predicted and measured. Raises InvalidRequest and NotFound before it starts.

        >>> policy = ts.MaintenancePolicy(runs=3, freshness="10 min")
        >>> service = lake.maintain(tables="shop.*", policy=policy, follow=False)
        >>> service.wait(60), service.state
        (True, 'ended')
        """
        how: dict[str, Any] = {"tables": tables, "policy": policy, "windows": windows, "follow": follow}
        how |= {"bytes_per_hour": bytes_per_hour, "name": name, "poll": poll, "lease": lease}
        how |= {"engine": engine, "spark": spark, "processes": processes}
        return doors.maintain(self, self._catalog.io, **how, env=self._env)

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
