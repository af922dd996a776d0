"""All kinds of attacks, in the order in which a campaign takes turns."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from tests.campaign import failures, races
from tests.campaign.outcome import Kind, Outcome
from tests.crash import power
from tests.hostile import elsewhere, flips
from tests.log import soak
from tests.tiering.simulation.lake import Wrong
from tests.tiering.simulation.life import Life

CRASHES = 80
"""A turn: two lives of tables."""
FLIPS = 51
"""A turn: each kind of file three times."""
FIELDS = 6
"""A turn, of the fields of all metadata files of a table."""
MOMENTS = 60
"""A turn, of the life of a table with a log: about three days."""
LIVES_OF_TIERING = 100
"""A turn: simulated lives of a cluster, its services and their lake."""


def crashes(seed: int, folder: Path) -> Outcome:
    """Loss of power, in both modes of `tablestore.durability` by turns."""
    mode = ("commit", "process")[seed % 2]
    report = power.run(seed, CRASHES, mode)
    return Outcome(report.crashes, {f"crashes with {mode}": report.crashes}, report.lost)


def flip(seed: int, folder: Path) -> Outcome:
    """Single bits of files of every kind."""
    report = flips.run(seed, FLIPS, scratch=str(folder))
    counts = Counter[str]()
    for (_, outcome), number in report.counts.items():
        counts[f"flips {outcome}"] += number
    return Outcome(FLIPS, counts, tuple(report.wrong))


def lead_outside(seed: int, folder: Path) -> Outcome:
    """Fields of metadata that name somewhere else."""
    table, outside, wrong = elsewhere.make_table(folder / "lake"), folder / "outside", list[str]()
    chosen = random.Random(seed).sample(list(elsewhere.cases(table, outside)), FIELDS)
    for name, what, data in chosen:
        found = elsewhere.reached(table, folder / "copy/d.db/t", outside, {name: data()})
        wrong += [f"{name}: {what}: {text}" for text in found]
    return Outcome(
        FIELDS,
        {f"fields of {n}": c for n, c in Counter(c[0].split("/")[0] for c in chosen).items()},
        tuple(wrong),
    )


def tier(seed: int, folder: Path) -> Outcome:
    """Tiering on a deterministic scheduler."""
    counts, wrong = Counter[str](), list[str]()
    for number in range(seed * LIVES_OF_TIERING, (seed + 1) * LIVES_OF_TIERING):
        try:
            counts += Life(number).run().counts
        except Wrong as e:
            wrong.append("\n".join((str(e), *e.__notes__)))
    return Outcome(LIVES_OF_TIERING, counts, tuple(wrong))


def logged(seed: int, folder: Path) -> Outcome:
    """Some days of a table with a log, by a virtual clock."""
    kind = sorted(soak.SPECS)[seed % len(soak.SPECS)]
    counts = soak.live(folder, kind, seed // len(soak.SPECS), MOMENTS)
    return Outcome(MOMENTS, {f"{what} of {kind}": n for what, n in counts.items()})


KINDS = (
    Kind("races", "racing processes and kills lose and double nothing", races.run),
    Kind("failures", "a verb that fails anywhere is done or not done, and says which", failures.run),
    Kind("full disk", "a disk that fills up breaks nothing and can be freed", failures.run_full),
    Kind("power", "a loss of power takes nothing that was promised", crashes),
    Kind("bit flips", "a flipped bit is named, and never read as other rows", flip),
    Kind("hostile", "no field of a table leads to files outside of it", lead_outside),
    Kind("log", "a table with a log shows every reader what was written, whatever fails", logged),
    Kind("tiering", "the lake holds each row of the log once, whatever is lost or late", tier),
)


def named(name: str) -> Kind:
    """The kind of that name; raises KeyError naming all."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise KeyError(f"no kind {name!r}; there are {', '.join(k.name for k in KINDS)}")
