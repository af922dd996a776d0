"""`docs`: runs the notebooks and writes them as pages; or the API reference, or pages that play.

Each notebook runs from top to bottom in a kernel of its own; its tasks are answered by the engine. An
index shows their times. The pages show the static
pictures, light, and refer to nothing outside their folder: no script, no style sheet, no font. A notebook
that fails is reported with its cell, its page shows how far it came, and the rest go on; the exit code is
then 1.

A playground is a folder of static files: the lessons on files, merging and compaction, and pages beside them
that play without a kernel, by Python in the browser. It needs npm once, to fetch that.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from notebooks.cli.places import CHECKOUT, NOTEBOOKS  # no Jupyter: `--help` is there at once
from tablestore.cli.door import command_parser


def parser() -> argparse.ArgumentParser:
    """The options of the verb."""
    p = command_parser("docs", __doc__ or "", CHECKOUT)
    p.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="those whose names begin so: 00 03; all")
    p.add_argument("--api", action="store_true", help="write the API reference, to DIR/api; no notebook runs")
    p.add_argument(
        "--to",
        type=lambda text: Path(text).expanduser().absolute(),
        default=NOTEBOOKS / "_executed",
        metavar="DIR",
        help="where the pages go (default %(default)s)",
    )
    p.add_argument(
        "--playground",
        type=lambda text: Path(text).expanduser().absolute(),
        metavar="DIR",
        help="write the lessons 02 to 05 (or those named) and pages that play to DIR",
    )
    p.add_argument("--scale", type=float, default=None, metavar="X", help="how much data the lessons make")
    p.add_argument("--scale-factor", default=None, metavar="SF", help="of TPC-H in notebook 01")
    return p
