"""Changelogs of lookup and full-compaction and first-row tables: Java Paimon and this engine tell the same
changes, each of its own table and, taking turns, of one table."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer

FIELDS = {"k": "INT NOT NULL", "a": "BIGINT", "b": "STRING", "d": "DOUBLE"}
LOOKUP = {"changelog-producer": "lookup"}
FULL = {"changelog-producer": "full-compaction", "full-compaction.delta-commits": 1000}
BY_HAND = {"num-sorted-run.compaction-trigger": 20}
"""No compaction but those asked for: its rules weigh bytes of files, and two writers of Parquet differ."""
DEDUPLICATED = {"changelog-producer.row-deduplicate": True}
TABLES: dict[str, dict[str, object]] = {
    "lookup": LOOKUP,
    "lookup, deduplicated": LOOKUP | DEDUPLICATED,
    "lookup, deduplicated but for a": LOOKUP
    | DEDUPLICATED
    | {"changelog-producer.row-deduplicate-ignore-fields": "a"},
    "lookup by sequence field": LOOKUP | {"sequence.field": "a"},
    "lookup of partial updates": LOOKUP
    | {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": True},
    "lookup of aggregates": LOOKUP
    | {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
    | {"fields.b.aggregate-function": "last_value", "fields.d.aggregate-function": "sum"},
    "lookup with vectors": LOOKUP | {"deletion-vectors.enabled": True},
    "lookup of aggregates with vectors": LOOKUP
    | {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
    | {"fields.b.aggregate-function": "last_value", "fields.d.aggregate-function": "sum"}
    | {"deletion-vectors.enabled": True},
    "lookup of partial updates by group": LOOKUP
    | {"merge-engine": "partial-update", "fields.a.sequence-group": "b,d"},
    "vectors by descending sequence, formats by level": LOOKUP
    | {"sequence.field": "d", "sequence.field.sort-order": "descending"}
    | {"deletion-vectors.enabled": True, "file.format.per.level": "0:avro,2:orc"},
    "full compaction": FULL,
    "full compaction, deduplicated": FULL | DEDUPLICATED,
    "full compaction of aggregates": FULL
    | {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
    | {"fields.b.aggregate-function": "last_value", "fields.d.aggregate-function": "sum"},
    "first row": LOOKUP | {"merge-engine": "first-row"},
    "forced lookup of aggregates": {"force-lookup": True, "merge-engine": "aggregation"}
    | {"fields.a.aggregate-function": "sum", "fields.d.aggregate-function": "max"}
    | {"fields.d.ignore-retract": True},
}


Change = tuple[str, int, int | None, str | None, float | None]


def changes(
    rng: random.Random, options: Mapping[str, object], keys: int, count: int, *, alike: bool = False
) -> list[Change]:
    """Rows with their kinds. Few values, so that some rows stay as they are.

    `alike`: what comes of them must not depend on when compaction drops a delete, which partial updates do.
    """
    found: list[Change] = []
    without = ("first-row", "partial-update") if alike else ("first-row",)
    grouped = any(key.endswith(".sequence-group") for key in options)
    numbers = [0, 1, 2] if alike and grouped else [None, 0, 1, 2]  # a lone row passes whatever its number
    for _ in range(count):
        deletes = options.get("merge-engine") not in without and rng.random() < 0.25
        row = rng.choice(numbers), rng.choice([None, "x", "y"]), rng.choice([None, 0.5, 2.0])
        found.append(("-D" if deletes else "+I", rng.randrange(keys), *row))
    return found


def as_table(rows: list[Change]) -> pa.Table:
    kinds, *columns = (list(c) for c in zip(*rows, strict=True))
    types = (pa.int32(), pa.int64(), pa.string(), pa.float64())
    arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
    return pa.table([pa.array(kinds), *arrays], names=["kind", *FIELDS])


def write_ours(path: str, rows: list[Change], identifier: int) -> None:
    ts.open(path).write(as_table(rows), row_kind_column="kind", user="ours", identifier=identifier)


def write_java(java: JavaPaimon, path: str, rows: list[Change], identifier: int) -> None:
    java.write(path, [r[1:] for r in rows], kinds=[r[0] for r in rows], user="java", identifier=identifier)


def rows_of(path: str) -> list[list[Any]]:
    return in_order(cells(ts.open(path).scan().to_arrow()))


def by_key(changes: list[list[Any]]) -> list[list[Any]]:
    return sorted(changes, key=lambda c: c[1])


def our_changes(path: str, since: int) -> list[list[Any]]:
    return by_key(cells(ts.open(path).changes(since=since)))


def java_changes(java: JavaPaimon, path: str, since: int) -> list[list[Any]]:
    return by_key([c for step in java.stream(path, since + 1) for c in step["changes"]])


def created_by_java(java: JavaPaimon, path: Path, options: Mapping[str, object], rng: random.Random) -> str:
    layout = {"bucket": rng.choice([1, 2]), "num-levels": rng.choice([3, 4, 6])}
    layout["num-sorted-run.compaction-trigger"] = rng.choice([2, 5])
    java.create(
        str(path),
        FIELDS,
        primary_keys=["k"],
        options={**layout, "snapshot.num-retained.min": 1000, **options},
    )
    return str(path)


def newest(path: str) -> int:
    return ts.open(path).store.snapshots.latest_id() or 0


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(1, all=8)
def test_both_give_the_same_changes_for_the_same_writes(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], name: str
) -> None:
    options = TABLES[name] | (BY_HAND if "full" in name else {})
    for seed in seeds[:1]:
        rng = random.Random(seed)
        state = rng.getstate()
        theirs = created_by_java(java, tmp_path / f"java{seed}", options, rng)
        rng.setstate(state)
        ours = created_by_java(java, tmp_path / f"ours{seed}", options, rng)
        for identifier in range(6):
            count = 90 if identifier == 0 else rng.choice([3, 15])
            rows = changes(rng, options, 60, count, alike=True)
            before = newest(ours), newest(theirs)
            write_ours(ours, rows, identifier)
            write_java(java, theirs, rows, identifier)
            if "full" in name and identifier % 2:
                ts.open(ours).compact(full=True)
                java.compact(theirs, user="compactor", identifier=identifier)
            assert rows_of(ours) == java.rows(theirs), (name, seed, identifier)
            assert our_changes(ours, before[0]) == java_changes(java, theirs, before[1]), (
                name,
                seed,
                identifier,
            )
            assert ts.open(ours).check() == []
        assert java.rows(ours) == rows_of(ours)
        assert java_changes(java, ours, 0) == our_changes(ours, 0)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(1, all=8)
def test_taking_turns_on_one_table(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], name: str
) -> None:
    options = TABLES[name]
    for seed in seeds[:1]:
        rng = random.Random(seed)
        path = created_by_java(java, tmp_path / f"t{seed}", options, rng)
        for turn in range(8):
            rows = changes(rng, options, 60, 90 if turn == 0 else rng.choice([3, 15]))
            if rng.random() < 0.5:
                write_ours(path, rows, turn)
            else:
                write_java(java, path, rows, turn)
            if rng.random() < 0.25:
                if rng.random() < 0.5:
                    ts.open(path).compact(full=True)
                else:
                    java.compact(path, user="compactor", identifier=turn)
            assert rows_of(path) == java.rows(path), (name, seed, turn)
            assert ts.open(path).check() == [], (name, seed, turn)
        assert java_changes(java, path, 0) == our_changes(path, 0), (name, seed)
