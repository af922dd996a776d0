"""`sql`: statements over a lake: a shell, or a script from -e, -f or standard input.

A script stops at its first error, which goes to standard error; the exit code is then 1. It waits for the
jobs that it started.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tablestore.cli.door import Door
from tablestore.cli.parsing import add_store_options, command_parser

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
    return p.parse_args(arguments)
