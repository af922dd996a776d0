"""`open`: the cockpit of any Paimon table, from the shell: live in JupyterLab, as a page, or as text.

A warehouse's tables are listed to choose from. Nothing is written to the table. What cannot be opened is one
line and exit code 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tablestore.cli.door import Door, add_many, add_store_options, command_parser


def parsed(arguments: Sequence[str], door: Door) -> argparse.Namespace:
    """The options; ends the process where they do not go together."""
    p = command_parser("open", __doc__ or "", door)
    p.add_argument("path", help="a table's directory, or a warehouse whose tables are listed")
    p.add_argument("--to", metavar="FILE.html", type=Path, help="write a page that needs no kernel")
    p.add_argument("--text", action="store_true", help="print it")
    p.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    add_store_options(p, "how to reach a store: s3.endpoint=…")
    add_many(
        p, "--roots", "DIRECTORY", "a place outside the table's directory that its data files may lie in"
    )
    return p.parse_args(arguments)
