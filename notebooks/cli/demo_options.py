"""`demo`: loads TPC-H lineitem through Spark, follows its changes, compacts, and verifies every row.

Full load and changes are one streaming query, and a summary (TPC-H Q1) is kept in step. The same command
on the same warehouse goes on where a killed run stopped, and verifies one that had finished; `--fresh`
starts over. The scorecard has the figures of the article that introduced the original system beside it.
Exit code 0 only if everything agrees.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from notebooks.cli.places import CHECKOUT  # no Spark, no engine: `--help` is there at once
from tablestore.cli.door import command_parser

CHUNKS = 8
"""Chunks of the full load in one commit."""
PRIVATE = ("mariadb", "postgres")
"""The sources that are a server of the demo's own."""
_PACE = 1.0


def parser() -> argparse.ArgumentParser:
    """The options of the verb."""
    p = command_parser("demo", __doc__ or "", CHECKOUT)
    p.add_argument(
        "--scale-factor",
        default=None,
        metavar="SF",
        help="0.1 by default; 1 is 6 million rows, 10 is 60 million",
    )
    p.add_argument("--pairs", type=int, default=None, help="refresh pairs after the load (default 10)")
    p.add_argument(
        "--warehouse",
        metavar="DIR",
        help="where the lake is (default lake, with --source lake-of-source, beside the code); or"
        " s3://bucket/path, reached as AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, … say",
    )
    p.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    p.add_argument(
        "--html", type=Path, metavar="FILE", help="write one page with the timeline and the levels"
    )
    p.add_argument(
        "--fresh", action="store_true", help="remove what an earlier demo left in the warehouse first"
    )
    p.add_argument(
        "--interval",
        type=float,
        default=None,
        metavar="SECONDS",
        help="least time between batches (the article: 60); default none",
    )
    p.add_argument(
        "--chunks-per-batch",
        type=int,
        default=None,
        metavar="N",
        help=f"chunks of the full load in one commit (default {CHUNKS})",
    )
    p.add_argument(
        "--cores", type=int, default=None, metavar="N", help="Spark tasks at once (default: all cores)"
    )
    p.add_argument(
        "--master",
        metavar="URL",
        help="the Spark cluster: spark://host:port, as `cluster` prints it (default: this process)",
    )
    _add_source(p)
    return p


def _add_source(p: argparse.ArgumentParser) -> None:
    """The options of a demo over a server."""
    p.add_argument(
        "--source",
        metavar="SOURCE",
        help="mariadb or postgres: a private server, changed while it is read; or mysql://user@host/database,"
        " your own, with its password in TABLESTORE_SOURCE_PASSWORD or a file"
        " (default: a change stream of files)",
    )
    p.add_argument("--password-file", metavar="FILE", help="with --source mysql://…: holds the password")
    p.add_argument(
        "--tables", metavar="PATTERNS", help="with --source mysql://…: which, as 'orders,line*' (all)"
    )
    p.add_argument("--into", metavar="DATABASE", help="with --source mysql://…: of the lake (as there)")
    p.add_argument(
        "--refresh",
        action="store_true",
        help="with --source mysql://…: run refresh pairs in it, which insert and delete orders and their"
        " lines; needs --scale-factor",
    )
    p.add_argument(
        "--pace",
        type=float,
        default=_PACE,
        metavar="SECONDS",
        help="with --source: time of a refresh pair, 0 for no pause (default %(default)s)",
    )
