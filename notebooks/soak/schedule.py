"""Which process is killed or frozen when: by a seed, the same one gives the same faults. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

KILL, FREEZE = "kill", "freeze"
FEWEST_SECONDS, MOST_SECONDS = 8.0, 1800.0
"""Between two faults."""
_SHARE = 24  # of the time, between two faults
_KILLS = 2 / 3
_LONGEST = 0.5  # of the time to the next fault, that a target is away


@dataclass(frozen=True, slots=True)
class Fault:
    """`target` is killed or frozen (SIGSTOP) `at` seconds after the start, and away for `seconds`."""

    at: float
    target: str
    kind: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.at:,.0f} s {self.kind} {self.target} for {self.seconds:.1f} s"


def faults(seed: int, seconds: float, targets: Sequence[str]) -> tuple[Fault, ...]:
    """The faults of a run of so many seconds, in order, none while another lasts. Each target has its turn
    before any has a second one; the last eighth of the time has none."""
    draw = random.Random(seed)
    every = min(max(seconds / _SHARE, FEWEST_SECONDS), MOST_SECONDS)
    turns = _turns(draw, targets)

    def faults_in_order() -> Iterator[Fault]:
        at = every
        while at + every <= seconds * 7 / 8:
            kind = KILL if draw.random() < _KILLS else FREEZE
            yield Fault(round(at, 3), next(turns), kind, round(draw.uniform(0.5, _LONGEST * every), 3))
            at += every

    return tuple(faults_in_order())


def _turns(draw: random.Random, targets: Sequence[str]) -> Iterator[str]:
    while True:
        yield from draw.sample(targets, len(targets))
