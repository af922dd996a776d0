"""One page about a campaign: what was attacked how often, what it proves, what broke and how to repeat it."""

from __future__ import annotations

import os
import platform
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.campaign.kinds import KINDS
from tests.campaign.outcome import AttackKind, Outcome, total

MOST_SHOWN = 10
"""Broken promises in full; of the rest only how many."""


@dataclass(frozen=True)
class Turn:
    """One turn of one kind, with its seed and what it found."""

    kind: AttackKind
    seed: int
    seconds: float
    outcome: Outcome

    @property
    def repeat(self) -> str:
        return f"./workbench test --campaign 1 --kind '{self.kind.name}' --seed {self.seed}"


def page(turns: Sequence[Turn], *, seed: int, commit: str) -> str:
    """The report as plain text."""
    by_kind: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        by_kind[turn.kind.name].append(turn)
    seconds = sum(turn.seconds for turn in turns)
    lines = [
        f"campaign of {seconds / 60:.1f} min from seed {seed}, commit {commit}",
        f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores",
        "",
        f"{'kind':14} {'turns':>6} {'cases':>9} {'seconds':>8} {'wrong':>6}  proves",
    ]
    for kind in KINDS:
        of_kind = by_kind.get(kind.name, [])
        sums = total(turn.outcome for turn in of_kind)
        took = sum(turn.seconds for turn in of_kind)
        numbers = f"{len(of_kind):6,} {sums.cases:9,} {took:8.0f} {len(sums.wrong):6,}"
        lines.append(f"{kind.name:14} {numbers}  {kind.proves}")
    lines += ["", *_details(by_kind), *_shown(turns), *_wrong(turns)]
    return "\n".join(lines)


def _details(by_kind: dict[str, list[Turn]]) -> list[str]:
    lines = []
    for name, turns in by_kind.items():
        counts = Counter(total(turn.outcome for turn in turns).counts)
        if counts:
            lines.append(f"{name}: {', '.join(f'{n:,} {what}' for what, n in counts.most_common())}")
    return lines


def _shown(turns: Sequence[Turn]) -> list[str]:
    worth = [turn for turn in turns if turn.outcome.shown]
    return [
        line for turn in worth for line in ("", turn.repeat, *(f"  {text}" for text in turn.outcome.shown))
    ]


def _wrong(turns: Sequence[Turn]) -> list[str]:
    broken = [turn for turn in turns if turn.outcome.wrong]
    if not broken:
        return ["", "nothing broke"]
    lines = []
    for turn in broken[:MOST_SHOWN]:
        lines += ["", f"WRONG: {turn.repeat}", *(f"  {text}" for text in turn.outcome.wrong)]
    if len(broken) > MOST_SHOWN:
        lines += ["", *(f"WRONG: {turn.repeat}" for turn in broken[MOST_SHOWN:])]
    return lines
