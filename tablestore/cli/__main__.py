"""The program `tablestore` of an installed package, also `python -m tablestore.cli`."""

from __future__ import annotations

import sys

from tablestore.cli.commands import COMMANDS, main
from tablestore.cli.door import Door


def tablestore() -> int:
    """Carry out what the command line says; the exit code."""
    return main(sys.argv[1:], Door(), COMMANDS)


if __name__ == "__main__":
    sys.exit(tablestore())
