"""`test`: pytest over `tests/`, from any directory. Its options: `test_options`; all others are pytest's."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from notebooks.cli.places import ROOT
from tests.suite import counterparts, entered

TAKE_A_VALUE = ("-k", "-m", "-p", "-n", "-o", "-W", "-c")
THREE_PROCESSES = ("-n3", "--dist=loadfile", "--no-loadscope-reorder", "-oconsole_output_style=classic")
"""A file at a time in the order of tests/suite/schedule.py. On two cores the third works while tests of the
others wait for a browser, a server or Spark."""
CAMPAIGN, OF, PREPARE = "--campaign", "--of", "--prepare"
ONE_PROCESS = ("-n", "-k", "-s", "-x", "--pdb", "--rewrite", "--collect-only", "--co")


def main(arguments: list[str]) -> int:
    if CAMPAIGN in arguments:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "tests.campaign", *without_word(arguments, CAMPAIGN)])
    if PREPARE in arguments:
        return 1 if counterparts.prepare() else 0
    try:
        arguments = entered.arguments_of(arguments) if OF in arguments else arguments
    except ValueError as e:
        print(f"workbench: {e}", file=sys.stderr)
        return 2
    for_pytest = located(arguments, start=Path.cwd())
    whole = is_whole(for_pytest)
    if whole:
        counterparts.prepare()
    shared = THREE_PROCESSES if whole and (os.cpu_count() or 1) > 1 else ()
    command = [sys.executable, "-m", "pytest", "--durations=20", *shared, *for_pytest]
    os.chdir(ROOT)
    os.execv(sys.executable, command)  # so Ctrl-C reaches pytest, which then still prints its summary


def without_word(arguments: Sequence[str], word: str) -> list[str]:
    """`arguments` with what follows `word` in front, and without the word itself."""
    at = arguments.index(word)
    return [*arguments[at + 1 :], *arguments[:at]]


def is_whole(arguments: Sequence[str]) -> bool:
    """Whether all of `tests` is wanted, and nothing that one process does better."""
    return arguments[-1] == os.fspath(ROOT / "tests") and not set(ONE_PROCESS).intersection(arguments)


def located(arguments: list[str], *, start: Path) -> list[str]:
    """`arguments` with the paths among them made absolute; without any path, `tests` comes last."""
    absolute, paths, before = [], 0, ""
    for argument in arguments:
        name, mark, node = argument.partition("::")
        is_path = not argument.startswith("-") and before not in TAKE_A_VALUE and (start / name).exists()
        absolute.append(f"{(start / name).resolve()}{mark}{node}" if is_path else argument)
        paths += is_path
        before = argument
    return absolute if paths else [*absolute, os.fspath(ROOT / "tests")]
