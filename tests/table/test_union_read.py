"""Union reads: a snapshot and the rows of the log behind it equal what a commit of those rows gives."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest
from tablestore.log.log import LogExpired
from tablestore.read.scan.scan_mode import SnapshotState
from tablestore.read.table_log import TableLog, offsets_at
from tablestore.table.scan import Scan
from tablestore.table.table import Table
from tablestore.table.union_read import UnionState, union_of
from tests.faults import SimEnv
from tests.log.logged import LOGGED, to_files, to_log, writers_look_away
from tests.log.memory_log import MemoryLog
from tests.tables import TableSpec

VALUES = TableSpec(
    {"p": ts.STRING, "k": ts.INT, "a": ts.INT, "b": ts.INT},
    primary_key=("p", "k"),
    partition_by=("p",),
    options={"bucket": 2, **LOGGED},
    new_env=SimEnv,
)
DELETES = {"deduplicate", "deletion vectors"}
ENGINES: dict[str, dict[str, Any]] = {
    "deduplicate": {},
    "deletion vectors": {"deletion-vectors.enabled": True},
    "sequence field": {"sequence.field": "a"},
    "lookup": {"changelog-producer": "lookup"},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update"},
    "partial-update by lookup": {"merge-engine": "partial-update", "changelog-producer": "lookup"},
    "aggregation": {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    "aggregation by lookup": {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "changelog-producer": "lookup",
    },
    "orc": {"file.format": "orc"},
}


@pytest.fixture(autouse=True)
def log_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    writers_look_away(monkeypatch)


def random_rows(rng: random.Random, *, deletes: bool) -> list[tuple[Any, ...]]:
    return [
        (
            rng.choice(("+I", "+I", "+U", "-D")) if deletes else "+I",
            rng.choice("xy"),
            rng.randrange(12),
            rng.choice((None, rng.randrange(9))),
            rng.randrange(99),
        )
        for _ in range(rng.randrange(1, 12))
    ]


def log_of(table: Table, log: MemoryLog, *, committed_only: bool = False) -> TableLog:
    return TableLog(log, table.store.schema, committed_only, upserts=True)


def union(table: Table, log: MemoryLog, **asked: Any) -> Scan:
    target = SnapshotState(table.store.snapshots.latest())
    actual = union_of(table.store, log_of(table, log), target, None)
    return Scan(actual.under(table.store), actual, **asked)


def rows_of(scan: Scan) -> list[tuple[Any, ...]]:
    return sorted((tuple(r.values()) for r in scan.to_arrow().to_pylist()), key=str)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(1))
@pytest.mark.sample(1)
def test_a_union_read_equals_the_table_with_the_log_s_rows_committed(
    tmp_path: Path, engine: str, seed: int
) -> None:
    rng = random.Random(seed)
    table = VALUES.create(tmp_path / "a", ENGINES[engine])
    truth = VALUES.create(tmp_path / "b", ENGINES[engine])
    log = MemoryLog(2, table.store.env)
    for _ in range(4):
        rows = random_rows(rng, deletes=engine in DELETES)
        before = log.bounds().end
        to_log(table, log, rows)
        to_files(truth, rows, {})
        if rng.random() < 0.5:
            behind = [
                (["+I", "-U", "+U", "-D"][kind], *values.values())
                for b in log.read(offsets_at(table.store, table.store.snapshots.latest()), log.bounds().end)
                for kind, values in zip(b.kinds.to_pylist(), b.rows.to_pylist(), strict=True)
            ]
            to_files(table, behind, log.bounds().end)
            if rng.random() < 0.5:
                table.compact(full=rng.random() < 0.5)
        assert before != log.bounds().end
        if engine == "first-row" or "vectors" in engine:
            truth.compact(full=True)
        assert rows_of(union(table, log)) == rows_of(truth.scan())
        number = rng.randrange(12)
        for where in (
            f"a > {rng.randrange(9)} AND k < {number}",
            f"k = {number} OR p = 'x'",
            f"b < {number}",
        ):
            actual = union(table, log, where=ts.where(where))
            assert rows_of(actual) == rows_of(truth.scan(where=where)), where
        assert union(table, log).count() == truth.scan().count()
        assert rows_of(union(table, log, columns=("b", "k"))) == rows_of(truth.scan(["b", "k"]))
    assert [
        v for v in table.check() if v.invariant != "I14"
    ] == []  # of a log in its directory; this is in memory


def test_an_append_table_adds_the_log_s_rows(tmp_path: Path) -> None:
    table = VALUES.create(tmp_path, {"bucket-key": "k"}, primary_key=())
    log = MemoryLog(2, table.store.env)
    to_log(table, log, [("+I", "x", 1, 1, 1), ("+I", "y", 2, 2, 2)])
    assert len(rows_of(union(table, log))) == 2
    to_files(table, [("+I", "x", 1, 1, 1), ("+I", "y", 2, 2, 2)], log.bounds().end)
    to_log(table, log, [("+I", "x", 1, 1, 1)])
    assert rows_of(union(table, log)) == [("x", 1, 1, 1), ("x", 1, 1, 1), ("y", 2, 2, 2)]
    assert table.scan().to_arrow().num_rows == 2


def test_one_bucket_is_read_alone(tmp_path: Path) -> None:
    table = VALUES.create(tmp_path)
    log = MemoryLog(2, table.store.env)
    rows = [("+I", "x", k, k, k) for k in range(20)]
    to_log(table, log, rows[:10])
    to_files(table, rows[:10], log.bounds().end)
    to_log(table, log, rows[10:])
    whole = union(table, log)
    assert isinstance(whole.target, UnionState)
    parts = []
    for part in pickle.loads(pickle.dumps(whole.target.parts(table.store))):
        target = whole.target.of_part(table.store, part)
        parts += rows_of(Scan(target.under(table.store), target))
    assert sorted(parts, key=str) == rows_of(whole) == sorted((tuple(r[1:]) for r in rows), key=str)


def test_rows_that_left_the_log_are_named(tmp_path: Path) -> None:
    table = VALUES.create(tmp_path)
    log = MemoryLog(2, table.store.env)
    to_log(table, log, [("+I", "x", k, k, k) for k in range(20)])
    log.keep_from({0: 3, 1: 3})
    with pytest.raises(LogExpired, match="read the snapshot alone"):
        union(table, log).to_arrow()


def test_transactional_rows_are_read_once_a_snapshot_names_them(tmp_path: Path) -> None:
    table = VALUES.create(tmp_path)
    log = MemoryLog(2, table.store.env)
    to_log(table, log, [("+I", "x", 1, 1, 1)])
    target = union_of(table.store, log_of(table, log, committed_only=True), SnapshotState(None), None)
    assert Scan(target.under(table.store), target).to_arrow().num_rows == 0


def test_a_column_that_was_added_since_is_read(tmp_path: Path) -> None:
    table = VALUES.create(tmp_path)
    log = MemoryLog(2, table.store.env)
    to_log(table, log, [("+I", "x", 1, 1, 1)])
    to_files(table, [("+I", "x", 1, 1, 1)], log.bounds().end)
    table = table.alter(ts.add("c", ts.INT))
    to_log(table, log, [("+I", "x", 2, 2, 2, 3)])
    assert rows_of(union(table, log)) == [("x", 1, 1, 1, None), ("x", 2, 2, 2, 3)]


def test_rows_of_keys_that_are_not_asked_for_are_left_in_the_log(tmp_path: Path) -> None:
    table = VALUES.create(tmp_path, {"bucket": 1})
    log = MemoryLog(1, table.store.env)
    to_log(table, log, [("+I", "x", k, k, 0) for k in range(9)])
    whole = union(table, log)
    assert isinstance(whole.target, UnionState)
    for where, rows in (("k < 3 AND a = 1", 3), ("a = 1", 9), ("k = 7 OR a = 1", 9)):
        files = whole.target.behind(whole.store, ts.where(where))
        assert sum(e.file.row_count for e in files) == rows, where


def test_a_row_of_a_key_is_read_with_the_log(tmp_path: Path) -> None:
    table = VALUES.create(tmp_path, {"log.consistency": "eventual"})
    table.write([{"p": "x", "k": k, "a": k, "b": 0} for k in range(9)])
    with table.writer() as writer:
        new = [("+U", "x", 3, 30, 1), ("+I", "y", 40, 4, 1), ("-D", "x", 5, 5, 0)]
        writer.write([dict(zip("_pkab", r, strict=True)) for r in new], row_kind_column="_")
        assert table.get({"p": "x", "k": 3}) == {"p": "x", "k": 3, "a": 3, "b": 0}
        assert table.get({"p": "x", "k": 3}, log=True) == {"p": "x", "k": 3, "a": 30, "b": 1}
        assert table.get({"p": "y", "k": 40}, ["a"], log=True) == {"a": 4}
        assert table.get({"p": "x", "k": 4}, ["b"], log=True) == {"b": 0}
        assert table.get({"p": "x", "k": 4}, [], log=True) == {}
        assert table.get({"p": "x", "k": 5}, log=True) is None
        assert table.get({"p": "y", "k": 4}, log=True) is None
        assert table.at(snapshot=1).get({"p": "x", "k": 3}, log=True) == table.get({"p": "x", "k": 3})
    with pytest.raises(InvalidRequest, match="has no log"):
        VALUES.create(tmp_path / "b", {"log.system": "none"}).get({"p": "x", "k": 3}, log=True)


def test_keys_of_zeros_are_told_apart_in_the_log(tmp_path: Path) -> None:
    spec = TableSpec({"k": ts.DOUBLE, "a": ts.INT}, ("k",), options={"bucket": 2, **LOGGED})
    table = spec.create(tmp_path, {"log.consistency": "eventual"})
    with table.writer() as writer:
        writer.write([{"k": 0.0, "a": 1}, {"k": -0.0, "a": 2}])
        assert [table.get({"k": k}, ["a"], log=True) for k in (0.0, -0.0)] == [{"a": 1}, {"a": 2}]
