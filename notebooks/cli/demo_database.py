"""`demo --source`: the demo over a database server, a private MariaDB or PostgreSQL, or one's own MariaDB.

The private one is made, filled with TPC-H, changed while it is read, compared with the lake and gone at the
end. One's own is read and followed; it is changed only where that is asked for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from rich.console import Console

import tablestore as ts
from datasets.tpch import SCHEMAS, Scale
from notebooks.cli.demo_options import PRIVATE
from notebooks.cli.step_bars import step_bars
from notebooks.demo import (
    database_run,
    database_scorecard,
    mariadb,
    postgres,
    tables,
    tpch_database,
    tpch_postgres,
)
from notebooks.demo.database_run import POSTGRES_RULES, TPCH_RULES, DatabasePlan, DatabaseRun
from notebooks.demo.database_scorecard import Outcome
from notebooks.demo.demo_session import demo_session
from notebooks.demo.journal import Journal, Places
from notebooks.demo.mariadb import MariaDb
from notebooks.demo.pipeline import ShowProgress
from notebooks.demo.postgres import Postgres
from notebooks.demo.resources import MemoryWatch
from notebooks.demo.source_databases import MysqlSource, PostgresSource, SourceDatabase
from notebooks.demo.tpch_database import RefreshWriter, load
from tablestore.cdc.capture.names import Patterns, SourceName
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.server import Connection
from tablestore.cdc.postgres.server import SCHEMES, parse_address
from tablestore.core.extras import required
from tablestore.spark.compaction import compact

_SERVER_MEMORY = "256M"
MARIADB, POSTGRES = PRIVATE
_SERVERS = {MARIADB: ("MariaDB", mariadb.missing), POSTGRES: ("PostgreSQL", postgres.missing)}
_PAIRS, _SCALE = 10, "0.1"
_LEAST_ROWS, _MOST_ROWS = 5_000, 200_000  # of a chunk, so that a small snapshot has some batches, too


def demo(options: argparse.Namespace, places: Places, screen: Console) -> tuple[DatabaseRun, dict[str, Any]]:
    """Run it; gives the run, which has ended, and its figures."""
    began = time.monotonic()
    with MemoryWatch() as memory:
        if options.source in PRIVATE:
            run, facts = _private(options, places, screen)
        else:
            run, facts = _own(options, places, screen)
    facts |= {"peak_rss_bytes": memory.peak_bytes, "total_seconds": round(time.monotonic() - began, 3)}
    return run, facts


def require_possible(options: argparse.Namespace) -> None:
    """Refuse what cannot be, before anything is noted or removed."""
    if options.pace < 0:
        raise ts.InvalidRequest(f"--pace {options.pace}: use at least 0")
    if options.source in PRIVATE:
        name, absent = _SERVERS[options.source]
        if what := absent():
            raise ts.Unsupported(f"a private {name}", what)
        return
    address = _address(options)
    if not address.database:
        raise ts.InvalidRequest(f"--source {address}: name a database, as {address}/shop")
    if options.refresh and options.scale_factor is None:
        raise ts.InvalidRequest("--refresh needs --scale-factor: that of the TPC-H tables that are there")


def _address(options: argparse.Namespace) -> Address:
    private = " or ".join(PRIVATE)
    if "://" not in options.source:
        raise ts.InvalidRequest(
            f"--source {options.source}: write {private} for a private one, or mysql://user@host/database"
        )
    if options.source.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)):
        raise ts.InvalidRequest(
            f"--source of your own PostgreSQL: `workbench cdc --from` captures it; write {private} for a "
            "private one"
        )
    return Address.parse(options.source, password_file=options.password_file)


def _private(
    options: argparse.Namespace, places: Places, screen: Console
) -> tuple[DatabaseRun, dict[str, Any]]:
    journal = Journal(places.journal)
    if journal.last("plan"):
        raise ts.InvalidRequest(
            "this warehouse holds an earlier demo, which a new server cannot go on with: add --fresh"
        )
    scale, pairs = Scale.of(options.scale_factor or _SCALE), _or(options.pairs, _PAIRS)
    created = [f"{tables.DATABASE}.dwd_{name}" for name in tpch_database.TABLES]
    journal.add("plan", source=options.source, scale_factor=str(scale), pairs=pairs, tables=created)
    with ExitStack() as stack:
        filled = _from_mariadb if options.source == MARIADB else _from_postgres
        screen.print(f"TPC-H at scale factor {scale}, {pairs} refresh pairs, from a private server,")

        def tell(url: str) -> None:
            screen.print(f"{url}, which ends with this run, into {places.warehouse}", soft_wrap=True)

        with step_bars(screen) as show:
            plan, writer = filled(stack, scale, pairs, options, tell, show)
        return _work(options, places, screen, plan, writer)


def _from_mariadb(
    stack: ExitStack,
    scale: Scale,
    pairs: int,
    options: argparse.Namespace,
    tell: Callable[[str], None],
    show: ShowProgress,
) -> tuple[DatabasePlan, RefreshWriter]:
    """A MariaDB with TPC-H, which ends with the stack, and who changes it."""
    server = stack.enter_context(MariaDb(memory=_SERVER_MEMORY))
    tell(server.url)
    rows = load(server.connect, scale, show=lambda done: show("fill", done, 0, ""))
    address = Address.parse(f"{server.url}/{tpch_database.DATABASE}", password_file=str(server.password_file))
    writer = RefreshWriter(server.connect, scale, pairs=pairs, seconds_a_pair=options.pace)
    return _plan(MysqlSource(address), TPCH_RULES, rows, options), writer


def _from_postgres(
    stack: ExitStack,
    scale: Scale,
    pairs: int,
    options: argparse.Namespace,
    tell: Callable[[str], None],
    show: ShowProgress,
) -> tuple[DatabasePlan, RefreshWriter]:
    """A PostgreSQL with TPC-H, which ends with the stack, and who changes it; the slot of the capture and its
    publication are taken away before."""
    database = tpch_database.DATABASE
    server = stack.enter_context(Postgres(memory=f"{_SERVER_MEMORY}B"))
    tell(server.url)
    rows = tpch_postgres.load(server.connect, scale, show=lambda done: show("fill", done, 0, ""))
    server.publish(database)
    stack.callback(server.withdraw, database)
    address = parse_address(f"{server.url}/{database}", password_file=str(server.password_file))
    writer = RefreshWriter(
        lambda: server.connect(database),
        scale,
        pairs=pairs,
        seconds_a_pair=options.pace,
        database=tpch_postgres.SCHEMA,
        keep=tpch_postgres.KEEP,
    )

    def mark() -> None:
        """A transaction as those of the pairs are, which changes nothing."""
        server.run("UPDATE region SET r_name = r_name WHERE r_regionkey = 0", database=database)
        writer.commits.append(time.time())

    return _plan(PostgresSource(address, mark), POSTGRES_RULES, rows, options), writer


def _plan(
    source: SourceDatabase, rules: Mapping[str, Any], rows: int, options: argparse.Namespace
) -> DatabasePlan:
    """All tables of a private server that has so many rows."""
    chunk_rows = min(_MOST_ROWS, max(_LEAST_ROWS, rows // 12))
    rules = _rules(options, {**rules, "chunk_rows": chunk_rows})
    return DatabasePlan(source, tables.DATABASE, rules, True, rows, _interval(options))


def _own(options: argparse.Namespace, places: Places, screen: Console) -> tuple[DatabaseRun, dict[str, Any]]:
    address = _address(options)
    into = options.into or address.database
    taken_up = _tables_of(address, options.tables or "*")
    journal, lake = Journal(places.journal), ts.connect(str(places.warehouse))
    before = journal.last("plan")
    if before and before.get("source") != str(address):
        raise ts.InvalidRequest("this warehouse holds a demo of another source: add --fresh to start over")
    if not before and (taken := [t for t in taken_up if f"{into}.{t}" in lake]):
        raise ts.InvalidRequest(f"{into}.{taken[0]} is in the lake already; choose --into or --warehouse")
    rows, names = sum(taken_up.values()), ", ".join(taken_up)
    screen.print(f"reads {len(taken_up)} tables of {address} (about {rows:,} rows) and follows its binlog")
    screen.print("without locks; " + _changes(options, address))
    writer = _writer(options, address, taken_up) if options.refresh else None
    screen.print(f"writes database {into} of {places.warehouse}: {names}", soft_wrap=True)
    if not before:
        journal.add("plan", source=str(address), into=into, tables=[f"{into}.{t}" for t in taken_up])
    rules = _rules(options, {"tables": options.tables} if options.tables else {})
    plan = DatabasePlan(MysqlSource(address), into, rules, False, rows, _interval(options))
    return _work(options, places, screen, plan, writer)


def _changes(options: argparse.Namespace, address: Address) -> str:
    if not options.refresh:
        return "changes nothing there"
    pairs = _or(options.pairs, _PAIRS)
    return (
        f"runs {pairs} refresh pairs there, which insert new orders and delete old ones with their lines"
        f" in {address.database}.orders and {address.database}.lineitem"
    )


def _tables_of(address: Address, patterns: str) -> dict[str, int]:
    """The tables that the patterns choose, with about how many rows they have."""
    chosen = Patterns.of(patterns, database=address.database)
    with Connection.open(address) as connection:
        rows = connection.rows(
            "SELECT table_name, table_rows FROM information_schema.tables"
            " WHERE table_schema = %s AND table_type = 'BASE TABLE' ORDER BY table_name",
            address.database,
        )
    tables = {name: int(n or 0) for name, n in rows if chosen.match(SourceName(address.database, name))}
    if not tables:
        raise ts.NotFound(f"{address} has no table that matches {patterns}")
    return tables


def _writer(options: argparse.Namespace, address: Address, tables: Collection[str]) -> RefreshWriter:
    if absent := [name for name in SCHEMAS if name not in tables]:
        raise ts.InvalidRequest(
            f"--refresh changes orders and lineitem, and {absent[0]} is not among the tables"
        )
    pymysql = required("pymysql", by="refresh pairs")

    def connect() -> Any:
        place = {"host": address.host, "port": address.port, "user": address.user}
        return pymysql.connect(**place, password=address.password(), charset="utf8mb4")

    pairs = _or(options.pairs, _PAIRS)
    return RefreshWriter(
        connect, options.scale_factor, pairs=pairs, seconds_a_pair=options.pace, database=address.database
    )


def _or(value: int | None, other: int) -> int:
    return other if value is None else value


def _interval(options: argparse.Namespace) -> str:
    return "1s" if options.interval is None else f"{int(options.interval * 1000)}ms"


def _rules(options: argparse.Namespace, rules: Any) -> dict[str, Any]:
    chunks = {} if options.chunks_per_batch is None else {"chunks": options.chunks_per_batch}
    return {"compact_every": 0, **rules, **chunks}


def _work(
    options: argparse.Namespace,
    places: Places,
    screen: Console,
    plan: DatabasePlan,
    writer: RefreshWriter | None,
) -> tuple[DatabaseRun, dict[str, Any]]:
    """Capture, compact, compare."""

    def quiet() -> bool:
        if writer is not None and writer.error is not None:
            raise writer.error
        return writer is None or writer.finished

    spark = demo_session(places, options.cores, options.master)
    with ExitStack() as stack:
        stack.callback(spark.stop)
        run = stack.enter_context(DatabaseRun(spark, places, plan))
        if writer is not None:
            stack.callback(writer.stop)
        with step_bars(screen) as show:
            run.follow(show, quiet, begun=(lambda: None) if writer is None else writer.start)
            lineitem = run.lake.table(tables.LINEITEM) if plan.summary else None
            compacted = compact(spark, lineitem, full=True) if lineitem is not None else None
            began = time.monotonic()
            verified = database_run.verify(run, show, until=quiet)
        problems = [line for each in verified for line in each.differences]
        problems += [
            f"{run.lake.table(each.target).name}: {v}"
            for each in verified
            for v in _violations(run, each.target)
        ]
        problems += database_run.summary_problems(run) if plan.summary else []
        outcome = Outcome(verified, tuple(problems), time.monotonic() - began, compacted, writer)
        return run, database_scorecard.figures(run, run.reports, outcome)


def _violations(run: DatabaseRun, target: str) -> Sequence[Any]:
    return run.lake.table(target).check()
