"""`soak`: everything that flows, at work for hours on this machine, with kills, and compared at the end.

    PROGRAM soak --minutes 20
    PROGRAM soak --hours 24 --rate 500 --to soak.html

A private MariaDB is captured, a PostgreSQL too where there is one. A Fluss is tiered (where its jars are;
else this engine's own coordinator), a table with a log written. Maintenance and a reader work beside. --seed
says which of them is killed or frozen when. At the end each source is compared with the lake, row by row. The
page shows memory, open files, files and freshness over time, and says of each whether it is flat or grows.
All is removed, but the page.

Exit codes: 0 equal and flat, 1 something differs, 2 refused, 5 equal, but something grows, 130 stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from notebooks.cli.places import CHECKOUT
from tablestore.cli.door import command_parser

CLUSTERS = ("auto", "fluss", "own")


def parser() -> argparse.ArgumentParser:
    """The options of the verb."""
    p = command_parser("soak", __doc__ or "", CHECKOUT)
    long = p.add_mutually_exclusive_group(required=True)
    long.add_argument("--hours", type=float, metavar="N", help="how long")
    long.add_argument("--minutes", type=float, metavar="N", help="how long")
    p.add_argument(
        "--rate", type=float, default=200.0, metavar="R", help="rows a second of each source (default 200)"
    )
    p.add_argument("--seed", type=int, metavar="N", help="of faults and rows (default: another each time)")
    p.add_argument(
        "--to", type=Path, default=Path("soak.html"), metavar="FILE", help="the page (default %(default)s)"
    )
    p.add_argument(
        "--cluster", choices=CLUSTERS, default="auto", help="what is tiered (default: a Fluss if it is there)"
    )
    return p
