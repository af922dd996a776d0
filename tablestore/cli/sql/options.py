"""`sql`: statements over a lake: a shell, or a script from -e, -f or standard input.

A script stops at its first error, which goes to standard error; the exit code is then 1. It waits for the
jobs that it started. With --serve it answers clients of Arrow Flight SQL (ADBC, JDBC) until Ctrl-C. The first
line is then the address, the second names the file of the token; TABLESTORE_SQL_TOKEN is the token if it is
set.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tablestore.cli.door import Door, add_store_options, command_parser

ENGINES = ("embedded", "spark")
"""The words of the engine (a test compares them), so that the help does not wait for it."""


def parsed(arguments: Sequence[str], door: Door) -> argparse.Namespace:
    """The options; ends the process where they do not go together."""
    p = command_parser("sql", __doc__ or "", door)
    p.add_argument("lake", nargs="?", help="a warehouse, the catalog `lake`; others come by CREATE CATALOG")
    add_store_options(p, "how to reach the warehouse: s3.endpoint=…, metastore=jdbc")
    p.add_argument(
        "-i", "--init", action="append", default=[], metavar="FILE.sql", help="run first; prints nothing"
    )
    p.add_argument("-f", "--file", metavar="FILE.sql", help="run the script")
    p.add_argument("-e", "--execute", metavar="SQL", help="run these statements")
    p.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help="who computes a SELECT")
    p.add_argument(
        "--roots",
        action="append",
        metavar="DIRECTORY",
        help="confine the statements: beside tables they reach what lies in here only",
    )
    p.add_argument("--create", action="store_true", help="make the warehouse where there is none")
    p.set_defaults(format="text")
    form = p.add_mutually_exclusive_group()
    form.add_argument("--json", dest="format", action="store_const", const="json", help="an object a row")
    form.add_argument("--csv", dest="format", action="store_const", const="csv", help="values with commas")
    p.add_argument(
        "--serve", action="store_true", help="answer clients of Arrow Flight SQL on 127.0.0.1 instead"
    )
    p.add_argument("--port", type=int, metavar="N", help="of --serve (default: any that is free)")
    p.add_argument(
        "--write", action="store_true", help="of --serve: take statements that change something, too"
    )
    options = p.parse_args(arguments)
    if problem := _problem(options):
        p.error(problem)
    return options


def _problem(options: argparse.Namespace) -> str:
    """What does not go together; empty where all does."""
    if not options.serve:
        given = {"--port": options.port is not None, "--write": options.write}
        return next((f"{name} is of --serve" for name, there in given.items() if there), "")
    if options.lake is None:
        return "--serve serves a lake: name one"
    statements = options.init or options.file is not None or options.execute is not None
    return "--serve runs no statements of its own: leave out -i, -f and -e" if statements else ""
