"""Tries mutants of a module in a process of its own, and counts what its nearest tests notice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.outcome import Outcome
from tests.mutants.faults import Mutant, mutants
from tests.mutants.rules import EQUIVALENT, TESTS
from tests.mutants.session import KILLED, ROOT

TURN = 15
"""Mutants of one module in a turn of a campaign."""


@dataclass(frozen=True, slots=True)
class MutantsTried:
    """What became of some mutants of a module. `survivors`: their diffs; `broken`: a test that fails without
    any fault."""

    module: str
    tried: int
    killed: int
    survivors: tuple[str, ...] = ()
    broken: str = ""


def of(module: str) -> list[Mutant]:
    """The mutants of a module that change what it does, in the order of its lines."""
    source = (ROOT / module).read_text(encoding="utf-8")
    return [mutant for mutant in mutants(module, source) if mutant.key not in EQUIVALENT]


def attempt(module: str, seed: int, folder: Path, *, most: int | None = None) -> MutantsTried:
    """The nearest tests of a module against its mutants, at most `most`, chosen by the seed. The folder gets
    the log of the run and its verdicts."""
    all_of = of(module)
    count = len(all_of) if most is None else min(most, len(all_of))
    numbers = sorted(random.Random(f"{seed} {module}").sample(range(len(all_of)), count))
    answer, log = folder / "verdicts.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    words = (module, str(answer), str(seed), ",".join(map(str, numbers)))
    with log.open("wb") as output:
        subprocess.run(
            [sys.executable, "-P", "-m", "tests.mutants.session", *words],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
    if not answer.exists():
        return MutantsTried(
            module, 0, 0, broken=f"the run ended without verdicts:\n{log.read_text(errors='replace')[-2000:]}"
        )
    document = json.loads(answer.read_text(encoding="utf-8"))
    alive = [each for each in document["verdicts"] if each["outcome"] != KILLED]
    survivors = tuple(f"{each['outcome']}: {all_of[each['number']].diff}" for each in alive)
    tried = len(document["verdicts"])
    return MutantsTried(module, tried, tried - len(alive), survivors, document["broken"])


def turn(seed: int, folder: Path) -> Outcome:
    """A turn of a campaign: some mutants of one module; the modules take turns."""
    modules = sorted(TESTS)
    trial = attempt(modules[seed % len(modules)], seed // len(modules), folder, most=TURN)
    counts = Counter({"killed": trial.killed, "survived": len(trial.survivors)})
    broken = (f"{trial.module}: fails without a fault: {trial.broken}",) if trial.broken else ()
    return Outcome(trial.tried, counts, broken, shown=trial.survivors)
