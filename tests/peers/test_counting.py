"""Change-log tables without a primary key, shared with Java Paimon: to it they are aggregation tables."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.table.table import Table
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer

Row = tuple[int, str]


def counts(java: JavaPaimon, t: Table) -> dict[Row, int]:
    """What Java reads, rows that are there no more left out."""
    return {(a, b): n for a, b, n in java.rows(t.location) if n}


def ours(t: Table) -> Counter[Row]:
    return Counter(tuple(r.values()) for r in t.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("options", [{"bucket": 1}, {"bucket": 2, "num-sorted-run.compaction-trigger": 2}])
@pytest.mark.sample(1)
def test_both_count_what_either_writes_and_compacts(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], options: dict[str, Any]
) -> None:
    for seed in seeds[:1]:
        rng = random.Random(seed)
        t = ts.connect(str(tmp_path / str(seed))).create_table(
            "d.t", schema={"a": ts.INT, "b": ts.STRING}, options={"write-mode": "change-log"} | options
        )
        model: Counter[Row] = Counter()
        for step in range(10):
            some = [(rng.randrange(3), rng.choice("xy"), rng.choice((1, 1, -1))) for _ in range(6)]
            for a, b, n in some:
                model[a, b] += n
            if rng.random() < 0.5:
                kinds = [{1: "+I", -1: "-D"}[n] for *_, n in some]
                data = [{"a": a, "b": b, "kind": k} for (a, b, _), k in zip(some, kinds, strict=True)]
                t.write(data, row_kind_column="kind")
            else:
                java.write(t.location, some, identifier=step)
            if rng.random() < 0.2:
                t.compact(full=True)
            elif rng.random() < 0.2:
                java.compact(t.location, user="compactor", identifier=step)
            assert ours(t) == +model, (seed, step)
            assert counts(java, t) == {r: n for r, n in model.items() if n}, (seed, step)
        summed: Counter[Row] = Counter()
        for kind, a, b in (tuple(r.values()) for r in t.changes(since=0).to_pylist()):
            summed[a, b] += 1 if kind == "+I" else -1
        assert {r: n for r, n in summed.items() if n} == {r: n for r, n in model.items() if n}, seed
        assert t.check() == []


def test_rows_of_an_engine_that_knows_no_counts_are_there_once(java: JavaPaimon, tmp_path: Path) -> None:
    """Flink leaves the column of counts out, or writes NULL; its deletes are −D rows."""
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"a": ts.INT, "b": ts.STRING}, options={"write-mode": "change-log", "bucket": 1}
    )
    java.write(t.location, [(1, "x", None), (1, "x", None), (2, "y", None)])
    t.write([{"a": 2, "b": "y"}])
    assert ours(t) == {(1, "x"): 2, (2, "y"): 2}
    gone = [(1, "x", None), (2, "y", None), (2, "y", None), (3, "z", None)]
    java.write(t.location, gone, kinds=["-D", "-U", "-D", "-D"], identifier=1)
    assert ours(t) == {(1, "x"): 1}
    java.write(t.location, [(3, "z", None), (3, "z", None)], identifier=2)
    assert ours(t) == {(1, "x"): 1, (3, "z"): 1}
    java.compact(t.location, identifier=3)
    assert ours(t) == {(1, "x"): 1, (3, "z"): 1}
    assert counts(java, t) == {(1, "x"): 1, (3, "z"): 1}
    assert t.check() == []


def test_a_column_that_flink_adds_holds_the_last_value_of_equal_rows(
    java: JavaPaimon, tmp_path: Path
) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"a": ts.INT, "b": ts.STRING}, options={"write-mode": "change-log", "bucket": 1}
    )
    t.write([{"a": 1, "b": "x"}, {"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    java.alter(t.location, [{"change": "add", "name": "c", "type": "INT"}])
    java.write(t.location, [(1, "x", None, 7), (3, "z", None, 8)], identifier=1)
    t = t.refresh()
    t.write([{"a": 1, "b": "x", "c": 9}, {"a": 2, "b": "y"}])
    assert ours(t) == {(1, "x", 9): 4, (2, "y", None): 2, (3, "z", 8): 1}
    t.delete(ts.col("c") == 8)
    t.compact(full=True)
    assert ours(t) == {(1, "x", 9): 4, (2, "y", None): 2}
    assert java.rows(t.location) == [[1, "x", 4, 9], [2, "y", 2, None]]
    assert t.check() == []
    assert ours(t.alter(ts.drop("c"))) == {(1, "x"): 4, (2, "y"): 2}
