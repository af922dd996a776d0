"""`test`: pytest over `tests/`, from any directory, with the slowest tests named at the end.

`--rounds N` gives the seeded tests N seeds; `--rewrite` and everything else goes to pytest as it is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from notebooks.cli.places import ROOT

TAKE_A_VALUE = ("-k", "-m", "-p", "-n", "-o", "-W", "-c")


def main(arguments: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "--durations=20", *located(arguments, start=Path.cwd())]
    os.chdir(ROOT)
    os.execv(sys.executable, command)  # so Ctrl-C reaches pytest, which then still prints its summary


def located(arguments: list[str], *, start: Path) -> list[str]:
    """`arguments` with the paths among them made absolute; without any path, `tests` comes last."""
    found, paths, before = [], 0, ""
    for argument in arguments:
        name, mark, node = argument.partition("::")
        is_path = not argument.startswith("-") and before not in TAKE_A_VALUE and (start / name).exists()
        found.append(f"{(start / name).resolve()}{mark}{node}" if is_path else argument)
        paths += is_path
        before = argument
    return found if paths else [*found, os.fspath(ROOT / "tests")]
