"""All kinds of attacks, in the order in which a campaign takes turns."""

from __future__ import annotations

from pathlib import Path

from tests.campaign import failures, races
from tests.campaign.outcome import Kind, Outcome
from tests.crash import power

CRASHES = 80
"""A turn: two lives of tables."""


def crashes(seed: int, folder: Path) -> Outcome:
    """Loss of power, in both modes of `tablestore.durability` by turns."""
    mode = ("commit", "process")[seed % 2]
    report = power.run(seed, CRASHES, mode)
    return Outcome(report.crashes, {f"crashes with {mode}": report.crashes}, report.lost)


KINDS = (
    Kind("races", "racing processes and kills lose and double nothing", races.run),
    Kind("failures", "a verb that fails anywhere is done or not done, and says which", failures.run),
    Kind("full disk", "a disk that fills up breaks nothing and can be freed", failures.run_full),
    Kind("power", "a loss of power takes nothing that was promised", crashes),
)


def named(name: str) -> Kind:
    """The kind of that name; raises KeyError naming all."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise KeyError(f"no kind {name!r}; there are {', '.join(k.name for k in KINDS)}")
