"""All kinds of attacks, in the order in which a campaign takes turns."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from tests.campaign import (
    dropped_partitions,
    failures,
    held_rounds,
    hostile_answers,
    hostile_sources,
    log_life,
    races,
    statements,
    tears,
)
from tests.campaign.log_stores import KINDS as LOGGED
from tests.campaign.log_stores import Embedded, Kafka, LogStore
from tests.campaign.outcome import AttackKind, Outcome
from tests.crash import power
from tests.hostile import elsewhere, flips
from tests.log import soak
from tests.mutants import trial
from tests.servers import kafka
from tests.suite import counterparts
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
ATTACKS = 25
"""A turn: moments of a table whose log is attacked."""
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
        actual = elsewhere.reached(table, folder / "copy/d.db/t", outside, {name: data()})
        wrong += [f"{name}: {what}: {text}" for text in actual]
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


def attacked_log(seed: int, folder: Path) -> Outcome:
    """A life of a table with an embedded log that is damaged, and whose processes are killed."""
    return attack_log(Embedded(), seed, folder)


def attacked_topic(seed: int, folder: Path) -> Outcome:
    """The same with a topic of a broker of its own; without Kafka on this machine no case."""
    if missing := counterparts.missing("Kafka"):
        return Outcome(0, {f"turns without Kafka ({missing})": 1})
    with kafka.broker() as broker:
        return attack_log(Kafka(broker), seed, folder)


def attack_log(store: LogStore, seed: int, folder: Path) -> Outcome:
    """A life of a table whose log is there."""
    kind = sorted(LOGGED)[seed % len(LOGGED)]
    counts = log_life.live(store, kind, folder / "lake", seed, ATTACKS)
    return Outcome(ATTACKS, {f"{what} of {kind}": n for what, n in counts.items()})


KINDS = (
    AttackKind("races", "racing processes and kills lose and double nothing", races.run),
    AttackKind("failures", "a verb that fails anywhere is done or not done, and says which", failures.run),
    AttackKind("full disk", "a disk that fills up breaks nothing and can be freed", failures.run_full),
    AttackKind("power", "a loss of power takes nothing that was promised", crashes),
    AttackKind("bit flips", "a flipped bit is named, and never read as other rows", flip),
    AttackKind("tears", "mending a torn table gives back whatever could still be read", tears.run),
    AttackKind("hostile", "no field of a table leads to files outside of it", lead_outside),
    AttackKind("log", "a table with a log shows every reader what was written, whatever fails", logged),
    AttackKind("log attacked", "what was acknowledged is there, or an error names the log", attacked_log),
    AttackKind(
        "topic attacked", "what was acknowledged is there, or an error names the topic", attacked_topic
    ),
    AttackKind(
        "statements", "a statement does to a table of any kind what DuckDB does to its own", statements.run
    ),
    AttackKind("tiering", "the lake holds each row of the log once, whatever is lost or late", tier),
    AttackKind(
        "held rounds",
        "a round that is killed round its commit brings each row once",
        held_rounds.run,
    ),
    AttackKind(
        "dropped",
        "rows of dropped partitions go as they must, and are told of",
        dropped_partitions.run,
    ),
    AttackKind(
        "captures", "a capture that has settled holds what the source holds, by value", hostile_sources.run
    ),
    AttackKind("answers", "a wrong answer of a cluster is one error, and harms nothing", hostile_answers.run),
    AttackKind("mutants", "the nearest tests notice a small fault in a pure rule", trial.turn),
)


def named(name: str) -> AttackKind:
    """The kind of that name; raises KeyError naming all."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise KeyError(f"no kind {name!r}; there are {', '.join(k.name for k in KINDS)}")
