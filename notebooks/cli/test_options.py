"""`test`: every part of the project once, in about ten minutes on two cores.

    PROGRAM test --all             everything; --rest: what the last bare call left out of it
    PROGRAM test PATH, -k WORD     all of what is named
    PROGRAM test --of MODULE       the tests of a module
    PROGRAM test --prepare         only make what tests compare with: servers, other programs
    PROGRAM test --campaign 30m    attacks on tables for that long

--seed N repeats the run that printed it, --rounds N gives each seeded test N seeds, --rewrite writes what
text cases give, --coverage says which branches are taken, --record notes which tests enter which modules.
All other options are pytest's: PROGRAM python -m pytest --help.
"""

from __future__ import annotations

import argparse

from notebooks.cli.places import CHECKOUT
from tablestore.cli.door import command_parser


def parser() -> argparse.ArgumentParser:
    """Its help alone: what is given goes to pytest as it is."""
    return command_parser("test", __doc__ or "", CHECKOUT)
