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
        told: Counter[Row] = Counter()
        for kind, a, b in (tuple(r.values()) for r in t.changes(since=0).to_pylist()):
            told[a, b] += 1 if kind == "+I" else -1
        assert {r: n for r, n in told.items() if n} == {r: n for r, n in model.items() if n}, seed
        assert t.check() == []
