"""What one turn of an attack found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """`cases` attacks were made; `counts` says what they were made of (kills, commits, flips …); `wrong` has
    a text for each broken promise, `shown` one for each thing that is worth a look and breaks nothing."""

    cases: int
    counts: Mapping[str, int] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttackKind:
    """A kind of attack: its name, what it proves in one line, and a turn of it in an empty folder."""

    name: str
    proves: str
    run: Callable[[int, Path], Outcome]


def total(outcomes: Iterable[Outcome]) -> Outcome:
    """Several turns as one."""
    cases, counts, wrong, shown = 0, Counter[str](), list[str](), list[str]()
    for outcome in outcomes:
        cases += outcome.cases
        counts.update(outcome.counts)
        wrong += outcome.wrong
        shown += outcome.shown
    return Outcome(cases, counts, tuple(wrong), tuple(shown))
