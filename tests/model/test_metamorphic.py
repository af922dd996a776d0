"""One list of operations on tables that differ in all but their rows: these must be equal after each.

A *life* is a list of upserts, updates, deletes, overwrites, compactions and expiries, drawn from a seed
inside the domain of I12; a *variation* is another number of buckets, size of buffers and files, compaction
strategy, changelog producer, file format, order or number of writers. What depends on when rows meet is
outside that domain: test_timing_shows.py has a case of each.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts

Rows = list[dict[str, Any]]
Row = tuple[Any, ...]  # kind, then the columns
COLUMNS = {"k": ts.INT, "n": ts.BIGINT, "v": ts.BIGINT, "t": ts.STRING, "d": ts.DOUBLE, "s": ts.INT}
TYPES = (pa.int32(), pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.int32())
LENGTH = 10


@dataclass(frozen=True)
class Engine:
    """A merge engine, and what a life may hold there. `loose` columns are not compared."""

    options: Mapping[str, str]
    acts: tuple[str, ...]
    loose: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variation:
    """Options, and how a life is lived: in batches of so many rows, by so many writers at once, with
    compactions by another table object."""

    options: Mapping[str, str] = field(default_factory=dict)
    batch_rows: int = 1000
    writers: int = 1
    without: tuple[str, ...] = ()  # engines that have no such table
    compacts_after_each: bool = False


ENGINES = {
    "deduplicate": Engine({}, ("upsert", "upsert", "retract", "update", "delete")),
    "partial-update": Engine({"fields.s.sequence-group": "v,t"}, ("upsert", "upsert", "upsert")),
    "aggregation": Engine(
        {
            "fields.v.aggregate-function": "sum",
            "fields.t.aggregate-function": "max",
            "fields.d.aggregate-function": "last_non_null_value",
            "fields.s.aggregate-function": "first_non_null_value",
            **{f"fields.{c}.ignore-retract": "true" for c in "tdsn"},
        },
        ("upsert", "upsert", "retract"),
        loose=("n",),
    ),
    "first-row": Engine({}, ("upsert", "upsert")),
}
DV = {"deletion-vectors.enabled": "true"}
LEVELED = {
    "tablestore.compaction.strategy": "leveled",
    "tablestore.compaction.leveled.level0-file-num-trigger": "2",
    "tablestore.compaction.leveled.max-bytes-for-level-base": "2 kb",
    "tablestore.compaction.leveled.max-bytes-for-level-multiplier": "2",
    "num-levels": "4",
}
VARIATIONS = {
    "three buckets": Variation({"bucket": "3"}),
    "dynamic buckets": Variation({"bucket": "-1", "dynamic-bucket.target-row-num": "7"}),
    "tiny buffers": Variation({"write-buffer-size": "600 b"}, batch_rows=4),
    "tiny buffers, tiny files": Variation(
        {"write-buffer-size": "600 b", "target-file-size": "1 kb", "bucket": "2"}, batch_rows=4
    ),
    "tiny files": Variation({"target-file-size": "1 kb", "num-sorted-run.compaction-trigger": "2"}),
    "many levels": Variation({"num-sorted-run.compaction-trigger": "2", "num-levels": "7"}),
    "level 0 is lifted": Variation({"compaction.force-up-level-0": "true", "num-levels": "5"}),
    "leveled": Variation({"tablestore.compaction.strategy": "leveled"}),
    "leveled, tiny files": Variation({**LEVELED, "target-file-size": "1 kb"}),
    "leveled, in order of a field, full compactions by commits and bytes": Variation(
        {
            **LEVELED,
            "sequence.field": "n",
            "full-compaction.delta-commits": "4",
            "compaction.incremental-size-threshold": "9 kb",
        },
        without=("first-row",),
    ),
    "changelog of the input": Variation({"changelog-producer": "input"}, without=("first-row",)),
    "changelog by lookup": Variation({"changelog-producer": "lookup"}),
    "changelog by full compaction": Variation(
        {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
        without=("first-row",),
    ),
    "deletion vectors": Variation(DV, without=("first-row",)),
    "deletion vectors, levels": Variation(
        {**DV, "changelog-producer": "lookup", "num-levels": "4", "num-sorted-run.compaction-trigger": "3"},
        without=("first-row",),
    ),
    "forced lookups": Variation({"force-lookup": "true"}, without=("first-row",)),
    "orc": Variation({"file.format": "orc"}),
    "avro": Variation({"file.format": "avro"}),
    "a format a level": Variation({"file.format.per.level": "0:avro,5:orc"}),
    "no key columns in files": Variation({"data-file.thin-mode": "true"}),
    "sequence field": Variation({"sequence.field": "n"}, without=("first-row",)),
    "write-only": Variation({"write-only": "true"}, without=("first-row",)),
    "write-only, compacted apart": Variation({"write-only": "true"}, compacts_after_each=True),
    "two writers at once": Variation({"write-only": "true"}, writers=2, without=("first-row",)),
    "three writers, tiny buffers": Variation(
        {"write-buffer-size": "600 b", "bucket": "2", "write-only": "true"},
        batch_rows=3,
        writers=3,
        without=("first-row",),
    ),
}


@dataclass(frozen=True)
class Act:
    """One operation of a life."""

    what: str
    rows: tuple[Row, ...] = ()
    keys: tuple[int, int] = (0, 0)
    value: int = 0


def life(engine: str, seed: int, *, changes_only: bool = False) -> list[Act]:
    """`changes_only`: without overwrites, which no changelog has."""
    rng, acts, number = random.Random(seed), list[Act](), 0
    there = set[int]()
    for _ in range(LENGTH):
        what = rng.choice([*ENGINES[engine].acts * 2, "compact", "compact", "full", "expire", "overwrite"])
        if changes_only and what in ("overwrite", "expire"):
            what = "upsert"
        rows = list[Row]()
        there = set() if what == "overwrite" else there
        for _ in range(rng.choice([1, 5, 25]) if what in ("upsert", "overwrite", "retract") else 0):
            number += 1
            rows.append(_row(rng, engine, what, number))
            if engine == "aggregation" and rows[-1][1] not in there:  # a lone retract is a case of its own
                rows[-1] = ("+I", *rows[-1][1:])
            there.add(rows[-1][1])
        low = rng.randrange(20)
        acts.append(Act(what, tuple(rows), (low, low + rng.randrange(6)), rng.randrange(9)))
    return acts


def _row(rng: random.Random, engine: str, what: str, number: int) -> Row:
    kind = rng.choice(["-D", "+I"]) if what == "retract" else rng.choice(["+I", "+U"])
    text, real = rng.choice([None, "a", "b"]), rng.choice([None, 0.5, -1.5])
    if (
        engine == "aggregation" and kind == "-D"
    ):  # what is ignored of retracts alone in a flush: a case of its own
        return kind, rng.randrange(20), number, rng.choice([None, 1, 2, 3]), None, None, None
    # a partial update with no sequence of its group would pass unmerged while it is alone: a case of its own
    sequence = rng.randrange(6) if engine == "partial-update" else rng.choice([None, 1, 2])
    return kind, rng.randrange(20), number, rng.choice([None, 1, 2, 3]), text, real, sequence


def as_table(rows: Iterable[Row]) -> pa.Table:
    kinds, *columns = (list(c) for c in zip(*rows, strict=True))
    arrays = [pa.array(c, t) for c, t in zip(columns, TYPES, strict=True)]
    return pa.table([pa.array(kinds), *arrays], names=["kind", *COLUMNS])


class Living:
    """A table that lives a life in its own way."""

    def __init__(self, root: Path, engine: str, variation: Variation) -> None:
        self.variation = variation
        options = {"bucket": "1", "merge-engine": engine, **ENGINES[engine].options, **variation.options}
        self.table = ts.connect(str(root)).create_table(
            "d.t", schema=COLUMNS, primary_key=["k"], options={**options, "snapshot.num-retained.min": "100"}
        )

    def act(self, act: Act) -> None:
        table = ts.open(self.table.location)
        if act.what == "expire":
            table.expire_snapshots(keep=1)
        elif act.what in ("compact", "full"):
            table.compact(full=act.what == "full")
        elif act.what == "overwrite":
            table.overwrite(as_table(act.rows).drop_columns("kind"))
        elif act.what == "update":
            table.update({"v": act.value}, where=ts.col("k").between(*act.keys))
        elif act.what == "delete":
            table.delete(ts.col("k").between(*act.keys))
        else:
            self.write(act.rows)
        if self.variation.compacts_after_each:
            ts.open(self.table.location).with_options({"write-only": "false"}).compact()

    def write(self, rows: tuple[Row, ...]) -> None:
        """By writers that are open at the same time, each with keys of its own."""
        parts = [
            [r for r in rows if r[1] % self.variation.writers == n] for n in range(self.variation.writers)
        ]
        self._with_writers([p for p in parts if p])

    def _with_writers(self, parts: list[list[Row]]) -> None:
        if not parts:
            return
        with ts.open(self.table.location).writer() as writer:
            step = self.variation.batch_rows
            for at in range(0, len(parts[0]), step):
                writer.write(as_table(parts[0][at : at + step]), row_kind_column="kind")
            self._with_writers(parts[1:])

    def rows(self, loose: tuple[str, ...] = ()) -> Rows:
        actual = ts.open(self.table.location).scan(columns=[c for c in COLUMNS if c not in loose]).to_arrow()
        return actual.sort_by("k").to_pylist()


def seeds_of(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """A fifth of them, at least one: with `--all` every life is lived in every variation."""
    return seeds[: max(1, len(seeds) // 5)]


@cache
def rows_of_a_life(engine: str, seed: int) -> list[Rows]:
    """Of the plainest table that lives this life: its rows after each operation."""
    after_each = []
    with TemporaryDirectory() as root:
        plain = Living(Path(root), engine, Variation())
        for act in life(engine, seed):
            plain.act(act)
            after_each.append(plain.rows(ENGINES[engine].loose))
    return after_each


@pytest.mark.parametrize(
    ("engine", "name"),
    [(engine, name) for engine in ENGINES for name, each in VARIATIONS.items() if engine not in each.without],
)
@pytest.mark.sample(6)
def test_rows_do_not_depend_on_how_a_table_is_kept(
    tmp_path: Path, engine: str, name: str, seeds: tuple[int, ...]
) -> None:
    for seed in seeds_of(seeds):
        wanted = rows_of_a_life(engine, seed)
        assert any(wanted), f"seed {seed}: nothing was ever there"
        other = Living(tmp_path / f"{seed}", engine, VARIATIONS[name])
        for number, act in enumerate(life(engine, seed)):
            other.act(act)
            assert other.rows(ENGINES[engine].loose) == wanted[number], (seed, number, act.what)
        assert ts.open(other.table.location).check() == [], seed


TELLING = {
    "input": Variation({"changelog-producer": "input"}),
    "lookup": Variation({"changelog-producer": "lookup"}),
    "lookup, rows that stay are silent": Variation(
        {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"}
    ),
    "lookup, deletion vectors, tiny buffers": Variation(
        {"changelog-producer": "lookup", **DV, "write-buffer-size": "600 b", "bucket": "2"}, batch_rows=4
    ),
    "lookup, leveled": Variation(
        {"changelog-producer": "lookup", "tablestore.compaction.strategy": "leveled"}
    ),
    "full-compaction": Variation({"changelog-producer": "full-compaction"}),
    "full-compaction, every third commit": Variation(
        {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "3", "bucket": "3"}
    ),
    "full-compaction, leveled, every third commit": Variation(
        {**LEVELED, "changelog-producer": "full-compaction", "full-compaction.delta-commits": "3"}
    ),
    "none, made by the reader": Variation({}),
}


def net_effect(table: ts.Table, *, exact: bool) -> dict[int, dict[str, Any]]:
    """What the changes make of nothing. `exact`: −U and −D carry what was there, +I and +U find nothing."""
    rows: dict[int, dict[str, Any]] = {}
    for change in table.changes(since=0).to_pylist():
        kind, key = change.pop("rowkind"), change["k"]
        if exact:
            assert (rows.get(key) == change) if kind in ("-U", "-D") else (key not in rows), (kind, change)
        if kind in ("-U", "-D"):
            rows.pop(key, None)
        else:
            rows[key] = change
    return rows


def tells(engine: str, name: str) -> bool:
    """Whether tables of that engine may have that producer, and its changes are what came of the rows."""
    if engine == "first-row":
        return name.startswith("lookup") and "vectors" not in name
    computes = engine in ("partial-update", "aggregation")
    return not (computes and name in ("input", "none, made by the reader"))  # these tell what was written


@pytest.mark.parametrize(
    ("engine", "name"), [(engine, name) for engine in ENGINES for name in TELLING if tells(engine, name)]
)
@pytest.mark.sample(5)
def test_all_producers_give_the_same_net_changes(
    tmp_path: Path, engine: str, name: str, seeds: tuple[int, ...]
) -> None:
    for seed in seeds_of(seeds):
        living = Living(tmp_path / f"{seed}", engine, TELLING[name])
        for act in life(engine, seed, changes_only=True):
            living.act(act)
        table = ts.open(living.table.location)
        if name.startswith("full"):
            table.compact(full=True)
        net = net_effect(table, exact=name.startswith(("lookup", "full")))
        assert sorted(net.values(), key=lambda r: r["k"]) == living.rows(), seed
