"""The doors upward: typed functions that import what they give when they are first called.

A verb of `Lake`, `Table` or `Scan` stands low in the layers; what carries it out may stand above it. Only
this module imports inside functions (`tests/test_layers.py`). So the engine works without the packages behind
a door, and `import tablestore` pays for none of them. A door raises MissingPackage where a package is not
installed. The types that verbs give are named here, too, for checkers of types.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tablestore.core.errors import MissingPackage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

    from tablestore.cdc.capture.job import CaptureJob as CaptureJob
    from tablestore.core.env import Env
    from tablestore.flow.batch import WorkPlan
    from tablestore.flow.runner import TaskPool
    from tablestore.format.compaction_record import CompactionRecord
    from tablestore.format.predicates.predicate import Predicate
    from tablestore.format.schema import TableSchema
    from tablestore.format.snapshot import Snapshot
    from tablestore.insight.check.findings import Violations as Violations
    from tablestore.insight.doctor import Diagnosis as Diagnosis
    from tablestore.insight.doctor import Finding as Finding
    from tablestore.insight.doctor.mending import Mended as Mended
    from tablestore.insight.doctor.mending import Repair as Repair
    from tablestore.insight.explain.explanation import Explanation as Explanation
    from tablestore.insight.inspect.inspect import Inspect as Inspect
    from tablestore.insight.simulator import HistoryWhatIf as HistoryWhatIf
    from tablestore.insight.simulator.cluster import ClusterPlan as ClusterPlan
    from tablestore.insight.simulator.cluster import ClusterSpec as ClusterSpec
    from tablestore.io.fileio import FileIO
    from tablestore.log.fluss_log import FlussLog
    from tablestore.log.log import Log
    from tablestore.log.settings import LogSettings
    from tablestore.lsm.compaction.compaction_report import Compaction
    from tablestore.maintenance.policy import MaintenancePolicy as MaintenancePolicy
    from tablestore.maintenance.service import MaintenanceService as MaintenanceService
    from tablestore.meta.store import Store
    from tablestore.read.scan.plan import Plan
    from tablestore.spark.stream_jobs import StreamJob
    from tablestore.sql.connectors.connector import Connector
    from tablestore.sql.result import Result as Result
    from tablestore.sql.session import Session as Session
    from tablestore.table.identifier import Identifier
    from tablestore.table.lake import Lake
    from tablestore.table.new_table import NewTable
    from tablestore.table.table import Table
    from tablestore.tiering.coordinator.coordinator import Coordinator as Coordinator
    from tablestore.tiering.service import TieringService as TieringService
    from tablestore.verbs.system import SystemTable as SystemTable
    from tablestore.write.progress import ProgressCallback
    from widgets import LakeHealth, StreamTable, Workbench
    from widgets.chart.figure import Figure as Figure

connectors: dict[str, Callable[[], Connector]] = {}
"""Connectors of SQL that others bring, by name; each is loaded when a table first uses it."""


# The tables of a lake


def store(
    root: str,
    *,
    io: FileIO,
    env: Env,
    branch: str = "main",
    roots: Iterable[str] | None,
    salvage: bool = False,
) -> Store:
    """`Store.open`."""
    from tablestore.meta.store import Store

    return Store.open(root, io=io, env=env, branch=branch, roots=roots, salvage=salvage)


def table(store: Store, name: str) -> Table:
    """The table over a store."""
    from tablestore.table.table import Table

    return Table(store, name)


def new_schema(
    identifier: Identifier,
    new: NewTable,
    *,
    defaults: Mapping[str, str],
    roots: Iterable[str],
    env: Env,
) -> TableSchema:
    """Schema 0 of a table that is to be made."""
    from tablestore.table.creating import new_schema as schema_of

    return schema_of(identifier, new, defaults=defaults, roots=roots, env=env)


def make_log(schema: TableSchema, io: FileIO) -> tuple[TableSchema, Log | None]:
    """The log of a new table, as far as it is outside of its directory."""
    from tablestore.table.log_of import make_log as make

    return make(schema, io)


def log_outside(store: Store) -> Log | None:
    """The log that has to be dropped beside the table's directory."""
    from tablestore.table.log_of import log_outside as outside

    return outside(store)


def require_branch(store: Store, name: str) -> None:
    """Raise NotFound, naming the nearest, unless the branch is there."""
    from tablestore.table.refs import require_branch as require

    require(store, name)


# Verbs of a lake


def sql_session(lake: Lake) -> Session:
    """A session of SQL statements over the lake."""
    with _needs("Lake.sql"):
        from tablestore.sql import sql_session as open_session
    return open_session(lake)


def connectors_of_sql() -> Mapping[str, Connector]:
    """The connectors that SQL has of its own, by name."""
    from tablestore.sql.connectors.registry import CONNECTORS

    return CONNECTORS


def ingest(lake: Lake, url: str | os.PathLike[str], how: Mapping[str, Any], **what: Any) -> CaptureJob:
    """The job of `Lake.ingest`, started; `how` are those of `CaptureOptions`, `what` the other arguments."""
    with _needs("Lake.ingest"):
        from tablestore.cdc.opening import CaptureOptions
        from tablestore.cdc.opening import ingest as start
    return start(lake, url, CaptureOptions(**how), **what)


def tier(lake: Lake, source: str, **how: Any) -> TieringService:
    """The service of `Lake.tier`, started; `how` are its arguments."""
    with _needs("Lake.tier"):
        from tablestore.tiering.opening import TieringOptions
        from tablestore.tiering.opening import tier as start
    return start(lake, source, TieringOptions(**how))


def coordinator(lake: Lake, io: FileIO, *, host: str, port: int, env: Env) -> Coordinator:
    """The coordinator of `Lake.coordinator`, started."""
    with _needs("Lake.coordinator"):
        from tablestore.tiering.coordinator.coordinator import Coordinator
    return Coordinator(lake, io, host=host, port=port, env=env)


def maintain(lake: Lake, io: FileIO, **how: Any) -> MaintenanceService:
    """The service of `Lake.maintain`, started; `how` are its arguments."""
    with _needs("Lake.maintain"):
        from tablestore.maintenance.opening import service_of
    return service_of(lake, io, **how).start()


def register_lake(lake: Lake, spark: SparkSession, catalog: str) -> list[str]:
    """The names of the tables that `Lake.register` makes known to Spark."""
    with _needs("Lake.register"):
        from tablestore.spark.lake_catalog import register_lake as register
    return register(lake, spark, catalog)


def global_table(name: str, tables: Callable[[], Iterable[tuple[str, str, Store]]]) -> SystemTable:
    """The table `sys.name` over `tables`: (database, table, store) of each."""
    with _needs("Lake.table of system tables"):
        from tablestore.verbs.system import global_table as open_table
    return open_table(name, tables)


def repair(store: Store, name: str, *, dry_run: bool) -> Repair:
    """What `ts.mend` does to a damaged table."""
    with _needs("tablestore.mend"):
        from tablestore.verbs.mend import repair as carry_out
    return carry_out(store, name, dry_run=dry_run)


# Verbs of a table and of a scan


def inspect(store: Store, *, at: Snapshot | None = None) -> Inspect:
    """The metadata of a table, at the snapshot `at` or the newest."""
    with _needs("Table.inspect"):
        from tablestore.insight.inspect.inspect import Inspect
    return Inspect(store, at=at)


def is_of_inspect(name: str) -> bool:
    """Whether `Table.inspect` has an attribute of that name; not where `insight` is missing."""
    try:
        with _needs("Table.inspect"):
            from tablestore.insight.inspect.inspect import Inspect
    except MissingPackage:
        return False
    return hasattr(Inspect, name)


def check(store: Store, *, log: Log | None, progress: ProgressCallback | None) -> Violations:
    """The violations of a table and of its `log`; `progress` is called as the check goes on."""
    with _needs("Table.check"):
        from tablestore.insight.check.check import check as examine
    return examine(store, log=log, progress=progress)


def mend(table: Table, what: Finding | Diagnosis | None, *, dry_run: bool, decided: bool) -> Mended:
    """What `Table.mend` does."""
    with _needs("Table.mend"):
        from tablestore.verbs.mend import mend as carry_out
    return carry_out(table, what, dry_run=dry_run, decided=decided)


def what_if(
    store: Store,
    options: Mapping[str, Any],
    *,
    baseline: Mapping[str, Any] | None,
    progress: Callable[[int, int], None] | None,
) -> HistoryWhatIf:
    """The replay of `Table.what_if`."""
    with _needs("Table.what_if"):
        from tablestore.verbs.what_if import what_if as replay
    return replay(store, options, baseline=baseline, progress=progress)


def what_if_cluster(
    store: Store, cluster: ClusterSpec | Mapping[str, Any], options: Mapping[str, Any] | None
) -> ClusterPlan:
    """The plan of `Table.what_if(cluster=…)`."""
    with _needs("Table.what_if"):
        from tablestore.verbs.what_if import what_if_cluster as plan
    return plan(store, cluster, options)


def system_table(store: Store, table: str, name: str, at: Snapshot | None) -> SystemTable:
    """The system table `name` of a table."""
    with _needs("Table.system"):
        from tablestore.verbs.system import system_table as open_table
    return open_table(store, table, name, at)


def system_tables_of_rows() -> tuple[str, ...]:
    """The system tables that have a table's rows, by name."""
    from tablestore.insight.inspect.system import DATA

    return DATA


def dry_run(
    store: Store,
    *,
    full: bool,
    at: Snapshot | None,
    partition: Mapping[str, Any] | str | None,
    bucket: int | Iterable[int] | None,
    where: Predicate | str | None,
) -> Compaction:
    """What `Table.compact` would do, and why."""
    with _needs("Table.compact(dry_run=True)"):
        from tablestore.verbs.what_if import dry_run as preview
    return preview(store, full=full, partition=partition, bucket=bucket, where=where, at=at)


def explain(plan: Plan) -> Explanation:
    """Why a plan reads or skips each file."""
    with _needs("Scan.explain"):
        from tablestore.insight.explain.explanation import Explanation
    return Explanation(plan)


def explained_compactions(
    store: Store, snapshot: Snapshot, records: Sequence[CompactionRecord]
) -> Sequence[CompactionRecord]:
    """The records of other engines' compactions, completed by our rules; as they are without `insight`."""
    try:
        with _needs("compactions of other engines"):
            from tablestore.insight.inspect.commits import explained
    except MissingPackage:
        return records
    return explained(store, snapshot, records)


def card(kind: str, *what: object) -> str | None:
    """The HTML of an object in a notebook, None where there is none."""
    with _needs("cards"):
        from tablestore.insight.cards import card as html_of
    return html_of(kind, *what)


def fluss_log(settings: LogSettings, *, table_id: Callable[[], int | None], env: Env) -> FlussLog:
    """The log of a table that is a table of a Fluss cluster."""
    with _needs("logs in a Fluss cluster"):
        from tablestore.log.fluss_log import FlussLog
    return FlussLog(settings, table_id=table_id, env=env)


# Spark


def spark_session(
    app: str = "tablestore", *, cores: int | None = None, log_file: str | None = None, **conf: Any
) -> SparkSession:
    """The session that runs, or a new one: local, or as the settings `conf` say."""
    with _needs("Spark session"):
        from tablestore.spark import session
    return session(app, cores=cores, log_file=log_file, **conf)


def register_sources(spark: SparkSession) -> SparkSession:
    """The session, to which `format("tablestore")` is known."""
    with _needs("data sources of a Spark session"):
        from tablestore.spark import register
    return register(spark)


def table_source(options: dict[str, str]) -> DataSource:
    """What reads and writes `format("tablestore")`."""
    with _needs('format("tablestore")'):
        from tablestore.spark.datasource import TablestoreSource
    return TablestoreSource(options)


def frame_of(rows: pa.Table, spark: SparkSession) -> DataFrame:
    """Rows that are here as a frame of Spark."""
    with _needs("rows as a frame of Spark"):
        from tablestore.spark.exchange import frame_of as frame
    return frame(rows, spark)


def to_spark(
    table: Table,
    spark: SparkSession,
    *,
    columns: Sequence[str] | None = None,
    where: Predicate | str | None = None,
    pushdown: bool = True,
) -> DataFrame:
    """The frame of `Table.to_spark`."""
    with _needs("Table.to_spark"):
        from tablestore.spark import to_spark as frame
    return frame(table, spark, columns=columns, where=where, pushdown=pushdown)


def schema_of_frame(frame: DataFrame) -> pa.Schema:
    """The Arrow schema of a Spark frame."""
    with _needs("columns of a Spark frame"):
        from tablestore.spark import arrow_schema
    return arrow_schema(frame)


def start_stream(
    spark: SparkSession, plan: WorkPlan, on_batch: Callable[[Any], None], **how: Any
) -> StreamJob:
    """A query of Spark over what is planned, started; `on_batch` carries out each batch."""
    with _needs("streams by Spark"):
        from tablestore.spark import start_stream as start_query
    return start_query(spark, plan, on_batch, **how)


def spark_tasks(spark: SparkSession) -> TaskPool:
    """What carries out tasks by Spark's workers."""
    with _needs("tasks by Spark"):
        from tablestore.spark.stream_jobs import SparkTasks
    return SparkTasks(spark)


def spark_package() -> ModuleType:
    """`tablestore.spark`."""
    return importlib.import_module("tablestore.spark")


# Notebooks


def load_magics(shell: Any) -> None:
    """Give an IPython shell `%sql`, `%%sql`, `%lake` and `%cockpit`."""
    with _needs("%load_ext tablestore"):
        from tablestore.sql.magics import load
    return load(shell)


def cockpit_of_lake(lake: Lake) -> LakeHealth:
    """The tables of a lake by health."""
    with _needs("cockpit of a lake"):
        from widgets import LakeHealth
    return LakeHealth(lake)


def cockpit_of_table(table: Table) -> Workbench:
    """The workbench of a table."""
    with _needs("cockpit of a table"):
        from widgets import Workbench
    return Workbench(table)


def plot(rows: object, *, by: str, **asked: Any) -> Figure:
    """The chart of `widgets.plot`, which `by` needs; `asked` are its arguments."""
    with _needs(by):
        from widgets.chart.plot import plot as chart
    return chart(rows, **asked)


def live_table(stream: Result, *, title: str) -> StreamTable | None:
    """A table of a stream that moves, None where its package is not installed."""
    try:
        with _needs("live table of a stream"):
            from widgets import StreamTable
    except MissingPackage:
        return None
    return StreamTable(stream, title=title)


# The package's face


def public(name: str, module: str, attribute: str) -> Any:
    """The public name `tablestore.name`: what a module has under `attribute`."""
    with _needs(f"tablestore.{name}"):
        return getattr(importlib.import_module(module), attribute)


@contextmanager
def _needs(verb: str) -> Iterator[None]:
    """Imports within are needed by the `verb`. Raises MissingPackage, which names it. What modules make
    stays, so no garbage is looked for meanwhile: that would take a seventh of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    except ModuleNotFoundError as e:
        if isinstance(e, MissingPackage):
            raise
        raise MissingPackage(verb, f"{e.name} is missing") from e
    finally:
        if collects:
            gc.enable()
