"""`doctor`: what this machine lacks, with remedies; with a PATH, whether the tables there are sound.

Of tables damage comes first: what is broken, and with --mend it is put aside. A sound table is then looked
at for what would make it faster. Nothing is changed without --mend. With --readers it says instead which
engines would read the tables wrongly. Exit code 1 if something needed is missing or something stays broken.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tablestore.cli.door import Door, add_store_options, command_parser


def parsed(arguments: Sequence[str], door: Door) -> argparse.Namespace:
    """The options; ends the process where they do not go together."""
    p = command_parser("doctor", __doc__ or "", door)
    p.add_argument("path", nargs="?", help="a table, database or warehouse to look at, not the machine")
    p.add_argument("--mend", action="store_true", help="put aside what is broken in the tables at PATH")
    p.add_argument(
        "--readers", action="store_true", help="say which engines would read the tables at PATH wrongly"
    )
    add_store_options(p, "how to reach a store: s3.endpoint=…")
    p.add_argument("--json", action="store_true", help="the findings as JSON")
    options = p.parse_args(arguments)
    if options.path is None and (options.mend or options.readers or options.option):
        p.error("--mend, --readers and --option go with a PATH")
    if options.mend and options.readers:
        p.error("--mend and --readers do not go together: --readers changes nothing")
    return options
