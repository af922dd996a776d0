"""Attacks in turn: `./workbench test --campaign 30m [--seed N] [--kind NAME] [--to FILE]`.

The budget is a time (`90s`, `30m`, `2h`) or a number of turns of each kind (`5`). A turn that has begun is
finished. Ends with one page; exit code 1 if anything broke. Ctrl-C and SIGTERM end it at once with all that
it has started: exit code 130, with the page of the turns before.
"""

from __future__ import annotations

import argparse
import logging
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from tablestore.cli.door import ExitCode
from tests.campaign.kinds import KINDS, named
from tests.campaign.outcome import AttackKind, Outcome
from tests.campaign.report import Turn, page
from tests.suite.ending import begin_run, end_leftovers

UNITS = {"s": 1, "m": 60, "h": 3600}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./workbench test --campaign", description=__doc__)
    parser.add_argument("budget", help="90s, 30m, 2h, or turns of each kind")
    parser.add_argument("--seed", type=int, default=None, help="the first turn's; drawn if absent")
    parser.add_argument("--kind", choices=[k.name for k in KINDS], help="this kind only")
    parser.add_argument("--to", type=Path, help="write the page to this file, too")
    given = parser.parse_args(arguments)
    seconds, turns = budget(given.budget)
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    kinds = KINDS if given.kind is None else (named(given.kind),)
    logging.disable(logging.WARNING)  # what the engine says of errors that are injected
    run, done, is_interrupted = begin_run(), list[Turn](), False
    try:
        for each in _shown(attack(kinds, seed, seconds=seconds, turns=turns), total_seconds=seconds):
            done.append(each)
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        end_leftovers(run, patience_seconds=1.0)
    text = page(done, seed=seed, commit=_commit())
    print(text)
    if given.to is not None:
        given.to.write_text(text + "\n")
    if is_interrupted:
        return ExitCode.INTERRUPTED
    return int(any(turn.outcome.wrong for turn in done))


def budget(text: str) -> tuple[float | None, int | None]:
    """(seconds, turns), one of them None; raises SystemExit for anything else."""
    match = re.fullmatch(r"(\d+)([smh]?)", text)
    if match is None or int(match[1]) == 0:
        sys.exit(f"--campaign {text!r}: write a time such as 90s, 30m or 2h, or a number of turns")
    number, unit = int(match[1]), match[2]
    return (number * UNITS[unit], None) if unit else (None, number)


def attack(
    kinds: tuple[AttackKind, ...], seed: int, *, seconds: float | None, turns: int | None
) -> Iterator[Turn]:
    """Turn after turn, every kind in its turn; turn n of each kind has the seed `seed` + n."""
    started, n = time.monotonic(), 0
    while turns is None or n < turns:
        for kind in kinds:
            if seconds is not None and time.monotonic() - started > seconds:
                return
            yield turn(kind, seed + n)
        n += 1


def turn(kind: AttackKind, seed: int) -> Turn:
    """One turn in a folder of its own. What it raises is a broken promise as well."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        try:
            outcome = kind.run(seed, Path(folder))
        except Exception:
            outcome = Outcome(1, wrong=(traceback.format_exc(),))
    return Turn(kind, seed, time.monotonic() - started, outcome)


def _shown(turns: Iterator[Turn], *, total_seconds: float | None) -> Iterator[Turn]:
    """The turns, with a line on the terminal that says how far the campaign is."""
    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        limit = "" if total_seconds is None else f" of {total_seconds / 60:g} min"
        task, wrong = progress.add_task(f"campaign{limit}"), 0
        for n, actual in enumerate(turns, 1):
            wrong += len(actual.outcome.wrong)
            progress.update(
                task, description=f"campaign{limit}: {n} turns, {wrong} wrong, last {actual.kind.name}"
            )
            yield actual


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parent, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
