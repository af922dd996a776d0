"""Every command with its line of help, and the dispatch of a command line to one.

Only what is asked for is imported: the options of the command, then, behind `--help` and errors in the
options, what carries it out. Standard library only.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module

from tablestore.cli.door import Door, ExitCode
from tablestore.core.errors import MissingPackage
from tablestore.core.extras import remedy

COMMANDS = {
    "open": "the cockpit of any Paimon table: open PATH [--to FILE.html] [--text] [--no-browser]",
    "sql": 'statements over a lake: sql [LAKE] [-e "…" | -f FILE.sql] [-i INIT.sql] [--json | --csv]; '
    "bare, a shell",
    "cdc": "capture tables of MySQL or MariaDB into a lake, then their changes: "
    "cdc --from mysql://user@host/db [--plan] [--once]",
    "tier": "copy what is new in a Fluss cluster into a lake: "
    "tier --from fluss://host:port [--tables 'db.*'] --warehouse DIR [--once]; "
    "or tier --serve --warehouse DIR",
    "maintain": "compact, expire and clean tables by policy and budget: "
    "maintain --warehouse DIR [--tables 'db.*'] [--runs 3] [--freshness '10 min'] [--once] [--plan]",
    "doctor": "what this machine lacks, with remedies; "
    "doctor PATH [--mend]: are the tables there sound, what mends them",
}
"""The commands that an installed package has, in the order of their help."""
EXTRAS = {"cdc": "spark,mysql", "open": "lab", "sql": "sql", "tier": "fluss"}
"""The extras with which a command can do all that it does."""


def usage(program: str, lines: Mapping[str, str]) -> str:
    """The help of a program: a line for each command."""
    wide = max(map(len, lines)) + 2
    rows = "\n".join(f"  {name:<{wide}} {text}" for name, text in lines.items())
    return f"usage: {program} COMMAND [ARGUMENTS]\n\n{rows}"


def main(arguments: Sequence[str], door: Door, lines: Mapping[str, str]) -> int:
    """Carry out a command line; the exit code."""
    if not arguments or arguments[0] in ("help", "-h", "--help"):
        print(usage(door.program, lines))
        return 0
    name, *rest = arguments
    if name == "--version":
        print(f"{door.program} {import_module('tablestore').__version__}")
        return 0
    if name not in lines:
        near = get_close_matches(name, lines, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else f"; `{door.program} --help` lists them"
        print(f"{door.program}: there is no command `{name}`{hint}", file=sys.stderr)
        return ExitCode.UNKNOWN
    try:
        return run(name, rest, door)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def run(name: str, arguments: Sequence[str], door: Door) -> int:
    """Carry out a command. Ends the process after `--help` and for options that do not go together."""
    asked = import_module(f"tablestore.cli.{name}.options").parsed(arguments, door)
    try:
        command = import_module(f"tablestore.cli.{name}.command")
    except (ModuleNotFoundError, MissingPackage) as e:
        if name not in EXTRAS or (e.name or "").startswith("tablestore."):
            raise
        what = e.name or "a package that it needs"
        print(f"{door.program} {name}: {what} is missing: {remedy(EXTRAS[name])}", file=sys.stderr)
        return ExitCode.REFUSED
    return int(command.main(asked))
