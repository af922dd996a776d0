"""`tier`: copy what is new in tables of a Fluss cluster into a lake, in rounds, each row once.

    ./workbench tier --from fluss://host:9123 --tables 'shop.*' --warehouse lake
    ./workbench tier --serve --port 9123 --warehouse lake

The coordinator of the cluster says which table is due. --once asks no coordinator: every table has one round.
A cluster that requires it is signed in to as --from fluss://user@host:9123, with the password that is in
TABLESTORE_FLUSS_PASSWORD.
--serve is the other side: the coordinator of the lake's own tables with a log, on 127.0.0.1, whose address is
the first line; services connect to it, with the password that is made at each start and lies in the warehouse
for those who may write it. Clients of Fluss of another make sign in by SASL/PLAIN as any user.
Ctrl-C gives up the rounds under way, whose tables are reported as failed. Exit codes: 0 done, 2 refused
before it began, 3 failed (with --once also if a table failed), 130 stopped.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live

import tablestore as ts
from notebooks.cli.lake_verbs import FAILED, INTERRUPTED, add_warehouse, asked_to_stop, pair, run, verb_parser
from notebooks.cli.tier_screen import fresh_rounds, picture, round_line, summary
from notebooks.cli.tier_serve import serve
from tablestore.tiering.coordinator.server import HOST
from tablestore.tiering.dropped import DROPPED
from tablestore.tiering.opening import LOST_ROWS

_LOOK_SECONDS = 0.25


def main(arguments: list[str]) -> int:
    """Tier until Ctrl-C or, with --once, until every table had a round."""
    options = parsed(arguments)
    screen = Console(stderr=True, highlight=False)

    def work() -> int:
        if options.serve:
            lake = ts.connect(options.warehouse, **dict(options.option))
            return serve(lake, options.host or HOST, options.port or 0, screen)
        return show(started(options), screen, once=options.once)

    return run("tier", work, screen, interrupted="stopped; the next round begins where the lake ends")


def parser() -> argparse.ArgumentParser:
    """The options of the verb."""
    p = verb_parser("tier", __doc__ or "")
    side = p.add_mutually_exclusive_group(required=True)
    side.add_argument("--from", dest="source", metavar="URL", help="fluss://[user@]host:port[,host:port…]")
    side.add_argument(
        "--serve", action="store_true", help="coordinate the tiering of the lake's own tables instead"
    )
    p.add_argument("--host", metavar="ADDRESS", help=f"of --serve: {HOST} alone")
    p.add_argument("--port", type=int, metavar="N", help="of --serve (default: any that is free)")
    p.add_argument(
        "--tables",
        action="append",
        default=[],
        metavar="PATTERNS",
        help="database.table with * and ?, several with commas; default: all that are to be tiered",
    )
    add_warehouse(p)
    p.add_argument("--once", action="store_true", help="one round of every table, then end")
    p.add_argument(
        "--log-columns",
        action="store_true",
        help="__bucket, __offset, __timestamp in lake tables of log tables",
    )
    p.add_argument(
        "--table-option",
        type=pair,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of tables that are made",
    )
    p.add_argument(
        "--lost-rows",
        choices=LOST_ROWS,
        default=LOST_ROWS[0],
        help="where the log no longer has rows that the lake lacks (default %(default)s)",
    )
    p.add_argument(
        "--dropped",
        choices=DROPPED,
        default=DROPPED[0],
        help="rows in the lake whose partition or table is dropped in the cluster (default %(default)s)",
    )
    p.add_argument("--name", metavar="NAME", help="of the service, below which it writes down what it does")
    p.add_argument(
        "--parallel", type=int, default=2, metavar="N", help="rounds at a time (default %(default)s)"
    )
    p.add_argument("--threads", type=int, default=2, metavar="N", help="that read (default %(default)s)")
    p.add_argument(
        "--poll", default="500ms", metavar="TIME", help="between two questions (default %(default)s)"
    )
    p.add_argument(
        "--wait",
        default="1min",
        metavar="TIME",
        help="for a cluster that does not answer yet (default %(default)s)",
    )
    p.add_argument(
        "--hold",
        metavar="FILE",
        help="while it says committing or registering, rounds wait before that (to try a kill there)",
    )
    return p


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The options; ends the process where they do not go together."""
    p = parser()
    options = p.parse_args(arguments)
    if options.serve:
        taken = {"source", "serve", "host", "port", "warehouse", "option"}
        others = [one for one in vars(options) if one not in taken]
        for name in (one for one in others if getattr(options, one) != p.get_default(one)):
            taken_by_it = "it takes --warehouse, --option, --host and --port"
            p.error(f"--serve does no rounds: {taken_by_it}, not --{name.replace('_', '-')}")
    for name in ("host", "port"):
        if not options.serve and getattr(options, name) is not None:
            p.error(f"--{name} is of --serve")
    return options


def started(options: argparse.Namespace) -> Any:
    """The service that the options ask for."""
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
        threads=options.threads,
        poll=options.poll,
        wait=options.wait,
        hold=options.hold,
    )


def show(service: Any, screen: Console, *, once: bool) -> int:
    """Show the service until it ends or is stopped."""
    with asked_to_stop(screen, "giving up the rounds under way") as asked:
        shown: set[int] = set()
        live = Live(console=screen, auto_refresh=False) if screen.is_terminal else None
        if live is not None:
            live.start()
        try:
            while True:
                running = service.running
                report = service.report()
                if live is not None:
                    live.update(picture(report, title="tier", now=time.time()), refresh=True)
                else:
                    for one in fresh_rounds(report, shown):
                        print(round_line(one), flush=True)
                if not running:
                    break
                if asked.wait(_LOOK_SECONDS):
                    service.stop()
        finally:
            if live is not None:
                live.stop()
            service.stop()
    report = service.report()
    screen.print(summary(report), markup=False, soft_wrap=True)
    if report.state == "failed" or (once and any(one.reason for one in report.tables)):
        return FAILED
    return INTERRUPTED if asked.is_set() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
