"""`soak`: a long run with faults, and its page; `soak_options` has the help."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

import tablestore as ts
from notebooks.cli.soak_options import parser
from notebooks.soak.page import as_page, as_text
from notebooks.soak.run import Soak, SoakPlan
from notebooks.soak.verdicts import GROWS
from tablestore.cli.door import ExitCode

_LEAST_SECONDS = 30.0


def main(arguments: list[str]) -> int:
    """Run a soak; 0 where all is equal and flat."""
    options = parser().parse_args(arguments)
    screen = Console(stderr=True, highlight=False)
    try:
        return _soak(options, _plan(options), screen)
    except (ts.TablestoreError, OSError) as e:
        screen.print("[bold red]soak:[/]", Text(str(e)))
        return ExitCode.REFUSED
    except KeyboardInterrupt:
        screen.print("stopped; nothing was compared")
        return ExitCode.INTERRUPTED


def _plan(options: argparse.Namespace) -> SoakPlan:
    seconds = 3600 * options.hours if options.hours is not None else 60 * options.minutes
    if seconds < _LEAST_SECONDS:
        raise ts.InvalidRequest(f"a soak of {seconds:g} s is too short: use at least --minutes 0.5")
    if options.rate <= 0:
        raise ts.InvalidRequest(f"--rate {options.rate:g}: use more than 0 rows a second")
    if not options.to.expanduser().absolute().parent.is_dir():
        raise ts.InvalidRequest(f"{options.to}: there is no directory {options.to.parent}")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    return SoakPlan(seconds, options.rate, seed, options.cluster)


def _soak(options: argparse.Namespace, plan: SoakPlan, screen: Console) -> int:
    began = time.monotonic()

    def tell(line: str) -> None:
        screen.print(f"{time.monotonic() - began:6.0f} s", Text(line), soft_wrap=True)

    with tempfile.TemporaryDirectory(prefix="workbench-soak-lake-") as folder:
        tell(f"servers begin; --seed {plan.seed}")
        with Soak(plan, Path(folder), tell) as soak:
            tell(f"{soak.sources}, a table with a log: all is read, the faults begin")
            soak.run()
            tell("the sources end; comparing")
            soak.finish()
            figures, outcome, sources = soak.sampler.figures, soak.outcome, soak.sources
    verdicts = figures.verdicts()
    title = f"soak of {plan.seconds:,.0f} s, {plan.rate:g} rows/s, seed {plan.seed}: {sources}, log"
    options.to.write_text(as_page(title, outcome, figures, verdicts), encoding="utf-8")
    print(as_text(title, outcome, verdicts))
    print(f"page: {options.to}")
    if outcome.problems:
        return ExitCode.WRONG
    return ExitCode.GROWS if any(verdict.word == GROWS for verdict in verdicts) else ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
