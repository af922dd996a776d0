"""A tiering service, or with --serve a coordinator, as the options ask for it, shown until it ends or is
stopped.

To a coordinator of a lake's own tables services connect, ours in other processes or of another make, and
clients of Fluss. Its address is the first line on stdout; its password is in a file of the warehouse, where
ours find it by that address. A terminal shows its tables, else a line is written for each change of a state.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import tablestore as ts
from tablestore.cli.event_log import emit, is_json
from tablestore.cli.metrics.export import watched
from tablestore.cli.metrics.tiering import CoordinatorMetrics, TieringMetrics
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
from tablestore.tiering.coordinator.server import HOST
from tablestore.tiering.coordinator.table_states import TableStatus


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
        ("tier", "bold"), f"  coordinator at fluss://{address}, epoch {epoch}  ", _count(tables)
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


def _count(tables: Sequence[TableStatus]) -> str:
    return many(len(tables), "table")


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
