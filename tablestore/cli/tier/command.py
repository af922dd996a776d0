"""A tiering service or a coordinator as the options ask for it, shown until it ends or is stopped."""

from __future__ import annotations

import argparse
import time
from typing import Any

from rich.console import Console, Group

import tablestore as ts
from tablestore.cli.engines import running
from tablestore.cli.event_log import is_json
from tablestore.cli.metrics.tiering import TieringMetrics
from tablestore.cli.metrics.watched import watched
from tablestore.cli.running import FAILED, INTERRUPTED, asked_to_stop, run
from tablestore.cli.showing import show_until_end
from tablestore.cli.tier.screen import emit_round, fresh_rounds, picture, round_line, summary
from tablestore.cli.tier.serve import serve


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
