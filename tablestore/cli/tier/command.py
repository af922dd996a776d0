"""A tiering service, or with --serve a coordinator, as the options ask for it, shown until it ends or is
stopped. Its metrics: rounds, how far the lake is behind, how long logs keep rows.

To a coordinator of a lake's own tables services connect, ours in other processes or of another make, and
clients of Fluss. Its address is the first line on stdout; its password is in a file of the warehouse, where
ours find it by that address. A terminal shows its tables, else a line is written for each change of a state.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import tablestore as ts
from tablestore.cli.event_log import emit, is_json
from tablestore.cli.metrics import HealthAnswer, Labels, MetricFamily, one, quiet, states, watched
from tablestore.cli.running import (
    FAILED,
    INTERRUPTED,
    asked_to_stop,
    require_port,
    run,
    running,
    show_until_end,
)
from tablestore.cli.tier.screen import (
    MOST_TABLES,
    STYLES,
    emit_round,
    fresh_rounds,
    picture,
    round_line,
    summary,
)
from tablestore.core.quantities import duration, many
from tablestore.flow.source import SECONDS, LogRetention
from tablestore.tiering.coordinator.coordinator import HOST, Coordinator
from tablestore.tiering.coordinator.table_states import TableStatus
from tablestore.tiering.report import STATES, RoundReport, TieringReport

_QUIET_SECONDS = 300.0
_STATES = ("running", "paused", "stopping", "stopped", "failed")


def main(options: argparse.Namespace) -> int:
    """Tier until Ctrl-C or, with --once, until every table had a round."""

    def work(screen: Console) -> int:
        if options.serve:
            lake = ts.connect(options.warehouse, **dict(options.option))
            return serve(lake, options, screen)
        if options.engine is None:
            return observed(started(options, {"threads": options.threads}), screen, options)
        with running("tier", options.engine, options.cores, options.master) as (engine, log):
            code = observed(started(options, {**engine, "threads": options.threads}), screen, options)
        if log is not None and code == FAILED:
            screen.print(f"Spark's own words are in {log}", markup=False)
        elif log is not None:
            log.unlink(missing_ok=True)
        return code

    return run("tier", work, options.log, interrupted="stopped; the next round begins where the lake ends")


def started(options: argparse.Namespace, engine: dict[str, Any]) -> Any:
    """The service that the options ask for; `engine` are the arguments that say what reads splits."""
    lake = ts.connect(options.warehouse, **dict(options.option))
    return lake.tier(
        options.source,
        tables=",".join(options.tables),
        follow=not options.once,
        name=options.name,
        log_columns=options.log_columns,
        options=dict(options.table_option),
        lost_rows=options.lost_rows,
        dropped=options.dropped,
        rounds=options.parallel,
        poll=options.poll,
        wait=options.wait,
        hold=options.hold,
        **engine,
    )


def observed(service: Any, screen: Console, options: argparse.Namespace) -> int:
    """Show the service, and answer who asks for its metrics."""
    with watched(options, TieringMetrics(service.report)):
        return show(service, screen, once=options.once)


def show(service: Any, screen: Console, *, once: bool) -> int:
    """Show the service until it ends or is stopped."""
    shown: set[int] = set()

    def print_news() -> None:
        for finished in fresh_rounds(service.report(), shown):
            emit_round(finished) if is_json(screen) else print(round_line(finished), flush=True)

    def now() -> Group:
        return picture(service.report(), title="tier", now=time.time())

    with asked_to_stop(screen, "giving up the rounds under way") as asked:
        try:
            show_until_end(service, screen, asked, picture=now, print_news=print_news)
        finally:
            service.stop()
    report = service.report()
    screen.print(summary(report), markup=False, soft_wrap=True)
    if report.state == "failed" or (once and any(table.reason for table in report.tables)):
        return FAILED
    return INTERRUPTED if asked.is_set() else 0


NONE = "no table is tiered yet: it needs 'log.system' = 'embedded' and 'tablestore.tiering.enabled' = 'true'"
_LOOK_SECONDS = 0.25


def serve(lake: ts.Lake, options: argparse.Namespace, screen: Console) -> int:
    """Coordinate until Ctrl-C; the exit code. Raises InvalidRequest where the port is taken, and for a host
    that other machines reach."""
    require_port(options.port or 0)
    with (
        lake.coordinator(host=options.host or HOST, port=options.port or 0) as coordinator,
        watched(options, CoordinatorMetrics(coordinator)),
        asked_to_stop(screen, "ending") as asked,
    ):
        say = _said if is_json(screen) else _printed
        say(f"fluss://{coordinator.address}")
        live = Live(console=screen, auto_refresh=False) if screen.is_terminal else None
        before: dict[int, TableStatus] = {}
        if live is not None:
            live.start()
        elif not coordinator.tables():
            screen.print(NONE, markup=False, soft_wrap=True)
        try:
            while not asked.wait(_LOOK_SECONDS):
                tables = coordinator.tables()
                if live is not None:
                    shown = coordinator_picture(
                        tables, coordinator.address, epoch=coordinator.epoch, now=time.monotonic()
                    )
                    live.update(shown, refresh=True)
                else:
                    for line in changes(before, tables):
                        say(line)
                before = {status.table.table_id: status for status in tables}
        finally:
            if live is not None:
                live.stop()
    return INTERRUPTED


def _printed(line: str) -> None:
    print(line, flush=True)


def _said(line: str) -> None:
    emit("coordinator", line)


def coordinator_picture(tables: Sequence[TableStatus], address: str, *, epoch: int, now: float) -> Group:
    """Tables with state, epoch, when they are due and how their rounds ended; the late ones first. `now` is
    of the coordinator's clock."""
    head = Text.assemble(
        ("tier", "bold"), f"  coordinator at fluss://{address}, epoch {epoch}  ", many(len(tables), "table")
    )
    if not tables:
        return Group(head, Text(NONE, style="dim"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("table", "state", "epoch", "due", "rounds", "failures"):
        table.add_column(
            title, justify="left" if title in ("table", "state", "due") else "right", no_wrap=True
        )
    late = sorted(tables, key=lambda table: (table.due_ms is not None, table.due_ms or table.since_ms))
    for status in late[:MOST_TABLES]:
        table.add_row(
            status.table.table_path,
            Text(status.state, style=STYLES.get(status.state, "")),
            str(status.tiering_epoch),
            _due(status, now),
            f"{status.rounds:,}",
            f"{status.failures:,}",
        )
    if len(tables) > MOST_TABLES:
        table.add_row(f"… {many(len(tables) - MOST_TABLES, 'more table')}")
    return Group(head, table)


def _due(status: TableStatus, now: float) -> str:
    """`in 2.1 s`, or since when it waits or is with a service."""
    if status.due_ms is not None:
        return f"in {duration(max(status.due_ms - round(now * 1000), 0))}"
    return f"{status.state.lower()} for {duration(max(round(now * 1000) - status.since_ms, 0))}"


def changes(before: dict[int, TableStatus], tables: Sequence[TableStatus]) -> Iterator[str]:
    """A line for each table that came, went, or has another state or epoch than before."""
    for status in tables:
        earlier = before.get(status.table.table_id)
        if earlier is None:
            yield f"{status.table.table_path} {status.state}, epoch {status.tiering_epoch}"
        elif (earlier.state, earlier.tiering_epoch) != (status.state, status.tiering_epoch):
            failed = f", {many(status.failures, 'failure')}" if status.failures else ""
            yield (
                f"{status.table.table_path} {earlier.state} → {status.state}, epoch {status.tiering_epoch}, "
                f"{many(status.rounds, 'round')}{failed}"
            )
    here = {status.table.table_id for status in tables}
    yield from (f"{status.table.table_path} is gone" for id, status in before.items() if id not in here)


class TieringMetrics:
    """A service as a source of metrics, by what `report` gives. Rounds are counted once, also those that are
    no longer reported. Safe to share between threads."""

    def __init__(self, report: Callable[[], TieringReport], *, now: Callable[[], float] = time.time) -> None:
        self._report, self._now = report, now
        self._counted = set[int]()  # numbers of rounds, of those that are still reported
        self._rounds, self._rows, self._bytes = Counter[Labels](), Counter[Labels](), Counter[Labels]()
        self._under_way: dict[int, tuple[RoundReport, float]] = {}  # and since when each is as it is
        self._lock = threading.Lock()  # protects these

    def families(self) -> Iterator[MetricFamily]:
        """Rounds and rows, and of each table how old its lake is and what is left of its log."""
        report, name = self._report(), "tablestore_tiering_"
        with self._lock:
            self._count(report)
            rounds, rows, size = self._rounds.copy(), self._rows.copy(), self._bytes.copy()
        yield states(f"{name}state", "State of the service.", report.state, _STATES)
        labels = ("table", "outcome")
        yield MetricFamily(f"{name}rounds_total", "counter", "Rounds that ended.", labels, rounds)
        yield MetricFamily(f"{name}rows_total", "counter", "Rows committed.", ("table",), rows)
        yield MetricFamily(f"{name}bytes_total", "counter", "Bytes committed.", ("table",), size)
        at: dict[Labels, float] = {
            (t.table, state): float(t.state == state) for t in report.tables for state in STATES
        }
        yield MetricFamily(f"{name}table_state", "gauge", "State of a table.", ("table", "state"), at)
        gauges: dict[str, tuple[str, dict[Labels, float]]] = {
            "lag_rows": ("Rows of the log that the lake lacks.", {}),
            "age_seconds": ("Since the lake was last known to have all rows.", {}),
            "freshness_seconds": ("The age that a table allows.", {}),
            "retention_seconds": ("For how long the log keeps rows.", {}),
            "warning": ("Rows may go from the log before the lake has them.", {}),
        }
        for t in report.tables:
            age = None if t.tiered_at is None else max(self._now() - t.tiered_at, 0.0)
            values = (t.lag_rows, age, t.freshness, t.kept, bool(t.warning))
            for (_, samples), value in zip(gauges.values(), values, strict=True):
                if value is not None:
                    samples[(t.table,)] = float(value)
        for field, (text, samples) in gauges.items():
            yield MetricFamily(f"{name}{field}", "gauge", text, ("table",), samples)

    def health(self) -> HealthAnswer:
        """Ill where the service or a table has failed, where the coordinator is away, where nothing comes of
        a round since somebody asked first, or where a log may lose rows that the lake lacks: half of the time
        that it keeps them is over."""
        report, now = self._report(), self._now()
        failed = "the service has failed: " if report.state == "failed" else ""
        ill = [failed + report.reason] if failed or report.reason else []
        if report.heartbeats and report.heartbeats[-1].reason:
            ill.append(f"the coordinator does not answer: {report.heartbeats[-1].reason}")
        for r, seconds in self._under_way_for(report, now):
            ill += [f"{r.table}: {text}" for text in quiet(f"round {r.number}", seconds, _QUIET_SECONDS)]
        for t in report.tables:
            if t.reason:
                ill.append(f"{t.table}: {t.reason}")
            elif t.warning:
                ill.append(f"{t.table}: {t.warning}")
            elif t.kept and t.lag_rows and t.tiered_at:
                kept = LogRetention("its log", SECONDS, now - t.tiered_at, t.kept)
                ill += [f"{t.table}: {text}" for text in kept.ill(f"{t.lag_rows:,} rows")]
        return HealthAnswer(not ill, "\n".join(ill) or report.state)

    def _under_way_for(self, report: TieringReport, now: float) -> list[tuple[RoundReport, float]]:
        """The rounds under way, and for how many seconds each was seen as it is."""
        with self._lock:
            seen = {r.number: (r, now) for r in report.rounds if r.ended is None}
            for number, (r, since) in self._under_way.items():
                if number in seen and seen[number][0] == r:
                    seen[number] = r, since
            self._under_way = seen
        return [(r, now - since) for r, since in seen.values()]

    def _count(self, report: TieringReport) -> None:
        for r in report.rounds:
            if r.ended is None or r.number in self._counted:
                continue
            self._counted.add(r.number)
            self._rounds[r.table, r.outcome] += 1
            if r.is_committed:
                self._rows[r.table,] += r.rows
                self._bytes[r.table,] += r.bytes
        self._counted &= {r.number for r in report.rounds}


class CoordinatorMetrics:
    """A coordinator as a source of metrics."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def families(self) -> Iterator[MetricFamily]:
        """Its epoch, and each table's state, rounds and failures."""
        tables, name = self._coordinator.tables(), "tablestore_coordinator_"
        yield one(f"{name}epoch", "The epoch of the coordinator.", self._coordinator.epoch)
        count = Counter((str(t.state),) for t in tables)
        samples: dict[Labels, float] = {(state,): float(count[state,]) for state in STATES}
        yield MetricFamily(f"{name}tables", "gauge", "Tables by state.", ("state",), samples)
        for field in ("rounds", "failures"):
            by_table: dict[Labels, float] = {(t.table.table_path,): float(getattr(t, field)) for t in tables}
            text = f"{field.capitalize()} of a table."
            yield MetricFamily(f"{name}{field}_total", "counter", text, ("table",), by_table)

    def health(self) -> HealthAnswer:
        """Ill where no round of a table has ended since it failed, or where the warehouse is another one."""
        if not self._coordinator.has_token:
            return HealthAnswer(False, f"{self._coordinator.token_file} is gone: services cannot sign in")
        ill = [t.table.table_path for t in self._coordinator.tables() if str(t.state) == "Failed"]
        return HealthAnswer(not ill, f"failed: {', '.join(ill)}" if ill else "coordinating")
