"""`tier`: copy what is new in tables of a Fluss cluster into a lake, in rounds, each row once.

    PROGRAM tier --from fluss://host:9123 --tables 'shop.*' --warehouse lake
    PROGRAM tier --serve --port 9123 --warehouse lake

The coordinator of the cluster says which table is due. --once asks no coordinator: every table has one round.
A cluster that requires it is signed in to as --from fluss://user@host:9123, with the password that is in
TABLESTORE_FLUSS_PASSWORD.
--serve is the other side: the coordinator of the lake's own tables with a log, on 127.0.0.1, whose address is
the first line; services connect to it, with the password that is made at each start and lies in the warehouse
for those who may write it. Clients of Fluss of another make sign in by SASL/PLAIN as any user.
Ctrl-C gives up the rounds under way, whose tables are reported as failed. Exit codes: 0 done, 2 refused,
3 failed (with --once also if a table failed), 130 stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tablestore.cli.door import (
    Door,
    add_log,
    add_many,
    add_master,
    add_metrics,
    add_warehouse,
    command_parser,
    pair,
)

HOST = "127.0.0.1"
LOST_ROWS = ("fail", "skip")
DROPPED = ("keep", "drop")
ENGINES = ("spark", "local")
"""The words of the engine (a test compares them), so that the help does not wait for it."""


def parsed(arguments: Sequence[str], door: Door) -> argparse.Namespace:
    """The options; ends the process where they do not go together."""
    p = _parser(door)
    options = p.parse_args(arguments)
    if options.serve:
        taken = set("source serve host port metrics opentelemetry log warehouse option door".split())
        others = [option for option in vars(options) if option not in taken]
        for name in (option for option in others if getattr(options, option) != p.get_default(option)):
            taken_by_it = "it takes --warehouse, --option, --host, --port, --metrics, --opentelemetry, --log"
            p.error(f"--serve does no rounds: {taken_by_it}, not --{name.replace('_', '-')}")
    if options.cores is not None and options.engine is None:
        p.error("--cores is of --engine")
    if options.master is not None and options.engine != "spark":
        p.error("--master is of --engine spark")
    for name in ("host", "port"):
        if not options.serve and getattr(options, name) is not None:
            p.error(f"--{name} is of --serve")
    return options


def _parser(door: Door) -> argparse.ArgumentParser:
    """The options, before they are compared."""
    p = command_parser("tier", __doc__ or "", door)
    side = p.add_mutually_exclusive_group(required=True)
    side.add_argument("--from", dest="source", metavar="URL", help="fluss://[user@]host:port[,host:port…]")
    side.add_argument(
        "--serve", action="store_true", help="coordinate the tiering of the lake's own tables instead"
    )
    p.add_argument("--host", metavar="ADDRESS", help=f"of --serve: {HOST} alone")
    p.add_argument("--port", type=int, metavar="N", help="of --serve (default: any that is free)")
    add_many(
        p,
        "--tables",
        "PATTERNS",
        "database.table with * and ?, several with commas; default: all that are to be tiered",
    )
    add_warehouse(p, door)
    add_metrics(p)
    add_log(p)
    p.add_argument("--once", action="store_true", help="one round of every table, then end")
    p.add_argument(
        "--log-columns",
        action="store_true",
        help="__bucket, __offset, __timestamp in lake tables of log tables",
    )
    add_many(p, "--table-option", "KEY=VALUE", "of tables that are made", kind=pair)
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
    _service_options(p)
    return p


def _service_options(p: argparse.ArgumentParser) -> None:
    p.add_argument("--name", metavar="NAME", help="of the service, below which it writes down what it does")
    p.add_argument(
        "--parallel", type=int, default=2, metavar="N", help="rounds at a time (default %(default)s)"
    )
    p.add_argument("--threads", type=int, metavar="N", help="that read splits without an engine (default 2)")
    p.add_argument(
        "--engine",
        choices=ENGINES,
        help="what reads splits: Spark, or processes of this machine, without Java (default: threads)",
    )
    p.add_argument("--cores", type=int, metavar="N", help="tasks of the engine at once (default: all cores)")
    add_master(p)
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
