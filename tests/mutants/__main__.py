"""`python -P -m tests.mutants [MODULE …] [--most N] [--seed N]`: mutants of these modules, or of all of them.

Prints the survivors with their diffs and a line a module. Exit code 1 if a test fails without any fault.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.mutants.rules import TESTS
from tests.mutants.trial import MutantsTried, attempt


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -P -m tests.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="tablestore/meta/expiry_rules.py")
    parser.add_argument("--most", type=int, default=None, help="mutants of each module, chosen by the seed")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    for module in given.modules:
        if module not in TESTS:
            parser.error(
                f"{module} has no tests in tests/mutants/rules.py; those that have: {', '.join(TESTS)}"
            )
    trials = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for module in given.modules or TESTS:
            trials.append(attempt(module, given.seed, Path(folder), most=given.most))
            for survivor in trials[-1].survivors:
                print(survivor)
            print(line(trials[-1]), flush=True)
    killed, tried = sum(each.killed for each in trials), sum(each.tried for each in trials)
    print(line(MutantsTried("all", tried, killed)))
    return int(any(each.broken for each in trials))


def line(trial: MutantsTried) -> str:
    """`module: killed of tried (percent)`, or what keeps it from being tried."""
    if trial.broken:
        return f"{trial.module}: fails without a fault: {trial.broken}"
    percent = 100 * trial.killed // max(1, trial.tried)
    return f"{trial.module}: {trial.killed} of {trial.tried} killed ({percent} %)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
