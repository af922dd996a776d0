"""Deletion vectors: Java Paimon and this engine read, continue and compact each other's tables."""

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

FIELDS = {"k": "INT NOT NULL", "a": "BIGINT", "b": "STRING"}
VECTORS = {"deletion-vectors.enabled": True}
WIDE = {"deletion-vectors.bitmap64": True}
KEYED: dict[str, dict[str, object]] = {
    "deduplicate": {},
    "64 bits": WIDE,
    "by sequence field": {"sequence.field": "a"},
    "partial updates": {"merge-engine": "partial-update"},
    "input changelog": {"changelog-producer": "input"},
    "beside the data": {"index-file-in-data-file-dir": True},
    "merge on read": {"deletion-vectors.merge-on-read": True},
}
APPEND: dict[str, dict[str, object]] = {
    "without buckets": {"bucket": -1},
    "with buckets": {"bucket": 2, "bucket-key": "k"},
    "64 bits": {"bucket": -1, **WIDE},
    "beside the data": {"bucket": -1, "index-file-in-data-file-dir": True},
    "small index files": {"bucket": -1, "deletion-vector.index-file.target-size": "60 b"},
}


Row = tuple[int, int | None, str]


def some_rows(rng: random.Random, keys: int, count: int) -> list[Row]:
    return [(rng.randrange(keys), rng.choice([None, *range(6)]), f"row {rng.random()}") for _ in range(count)]


def as_table(rows: list[Row], kinds: list[str] | None = None) -> pa.Table:
    k, a, b = (list(c) for c in zip(*rows, strict=True))
    table = pa.table({"k": pa.array(k, pa.int32()), "a": pa.array(a, pa.int64()), "b": b})
    return table if kinds is None else table.append_column("kind", pa.array(kinds))


def rows_of(path: str) -> list[list[Any]]:
    return in_order(cells(ts.open(path).scan().to_arrow()))


def splits_of_ours(path: str) -> list[Any]:
    """(raw, file, range of its deletion vector) of every file that a plan reads."""
    collected = []
    for s in ts.open(path).scan().plan().splits:
        for number, file in enumerate(s.files):
            d = s.deletion_file(number)
            where = None if d is None else [d.path.rsplit("/", 1)[1], d.offset, d.length, d.cardinality]
            collected.append([s.raw, file.file_name, where])
    return sorted(collected, key=str)


def splits_of_java(java: JavaPaimon, path: str) -> list[Any]:
    collected = []
    for s in java.splits(path):
        vectors = s["deletion_files"] or [None] * len(s["files"])
        collected += [[s["raw"], f, d] for f, d in zip(s["files"], vectors, strict=True)]
    return sorted(collected, key=str)


def both_agree(java: JavaPaimon, path: str, where: object) -> None:
    assert rows_of(path) == java.rows(path), where
    assert splits_of_ours(path) == splits_of_java(java, path), where
    assert ts.open(path).check() == [], where


def created_by_java(java: JavaPaimon, path: Path, options: Mapping[str, object], keys: list[str]) -> str:
    given = {"snapshot.num-retained.min": 1000, **VECTORS, **options}
    java.create(str(path), FIELDS, primary_keys=keys, options=given)
    return str(path)


@pytest.mark.parametrize("name", KEYED)
@pytest.mark.sample(1, all=4)
def test_taking_turns_on_a_table_with_primary_key(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], name: str
) -> None:
    for seed in seeds[:1]:
        rng = random.Random(seed)
        layout = {"bucket": rng.choice([1, 2]), "num-levels": rng.choice([3, 4])}
        path = created_by_java(java, tmp_path / f"t{seed}", {**layout, **KEYED[name]}, ["k"])
        model: dict[int, Row] = {}
        for turn in range(10):
            rows = some_rows(rng, 400, 400 if turn == 0 else rng.choice([3, 20]))
            deleting = "partial" not in name
            kinds = ["-D" if deleting and rng.random() < 0.25 else "+I" for _ in rows]
            if rng.random() < 0.5:
                ts.open(path).write(
                    as_table(rows, kinds), row_kind_column="kind", user="ours", identifier=turn
                )
            else:
                java.write(path, rows, kinds=kinds, user="java", identifier=turn)
            if name in ("deduplicate", "64 bits", "input changelog", "merge on read"):
                for row, kind in zip(rows, kinds, strict=True):
                    model.pop(row[0], None)
                    if kind == "+I":
                        model[row[0]] = row
                assert rows_of(path) == in_order([list(r) for r in model.values()]), (name, seed, turn)
            both_agree(java, path, (name, seed, turn))
            if rng.random() < 0.2:
                if rng.random() < 0.5:
                    ts.open(path).compact(full=True)
                else:
                    java.compact(path, user="compactor", identifier=turn)
                both_agree(java, path, (name, seed, turn))


@pytest.mark.parametrize("name", APPEND)
@pytest.mark.sample(1)
def test_taking_turns_on_an_append_table(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], name: str
) -> None:
    for seed in seeds[:1]:
        rng = random.Random(seed)
        path = created_by_java(java, tmp_path / f"t{seed}", APPEND[name], [])
        for turn in range(12):
            action = rng.choice(["write", "delete", "update", "compact"]) if turn > 2 else "write"
            by_us, value = rng.random() < 0.5, rng.randrange(6)
            table = ts.open(path)
            if action == "write":
                rows = some_rows(rng, 400, 30)
                if by_us:
                    table.write(as_table(rows))
                else:
                    java.write(path, rows, user="java", identifier=turn)
            elif action == "delete":
                left = [r for r in rows_of(path) if r[1] != value]
                if by_us:
                    table.delete(ts.col("a") == value)
                else:
                    java.delete(path, ["=", "a", value], user="deleter", identifier=turn)
                assert rows_of(path) == left, (name, seed, turn)
            elif action == "update":
                table.update({"b": "new"}, where=ts.col("a") == value)
            elif by_us:
                table.compact(full=True)
            else:
                java.compact(path, user="compactor", identifier=turn)
            both_agree(java, path, (name, seed, turn, action, by_us))


def test_java_reads_index_files_as_they_are_said_to_be(java: JavaPaimon, tmp_path: Path) -> None:
    for number, options in enumerate(({}, WIDE)):
        path = created_by_java(
            java, tmp_path / f"t{number}", {"bucket": 1, "num-levels": 4, **options}, ["k"]
        )
        table = ts.open(path)
        table.write(as_table([(k, k, "x" * 50) for k in range(3000)]))
        table.write(as_table([(k, 0, "y") for k in range(0, 100, 7)]))
        (entry,) = java.index_files(path)
        ((data_file, offset, length, count),) = entry["dv_ranges"]
        (ours,) = table.store.manifests.index_entries(table.store.snapshots.latest())
        (r,) = ours.file.dv_ranges
        assert (data_file, offset, length, count) == (r.data_file, r.offset, r.length, 15)
        assert (entry["rows"], entry["size"], entry["type"]) == (1, ours.file.file_size, "DELETION_VECTORS")
        both_agree(java, path, options)
