"""`lookup-wait` = false beside Java Paimon: commits do not wait, and in the end both have told the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer

LATER = {"changelog-producer": "lookup", "lookup-wait": "false", "snapshot.num-retained.min": 1000}
TABLES: dict[str, dict[str, Any]] = {
    "rows": LATER,
    "vectors": LATER | {"deletion-vectors.enabled": "true"},
    "sums": LATER | {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "first rows": LATER | {"merge-engine": "first-row"},
}


def replayed(changes: list[list[Any]]) -> list[list[Any]]:
    """What one has who listens; each change must fit what came before."""
    state: dict[int, list[Any]] = {}
    for kind, *row in changes:
        if kind in ("-D", "-U"):
            assert state.pop(row[0]) == row
        else:
            assert row[0] not in state
            state[row[0]] = row
    return in_order(state.values())


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("turns", [False, True], ids=["each its own", "in turns"])
@pytest.mark.sample(1)
def test_rows_wait_for_a_later_commit_or_compaction(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], name: str, turns: bool
) -> None:
    for seed in seeds[:1]:
        rng = random.Random(seed)
        path, other = (str(tmp_path / f"{seed}.db/{n}") for n in ("t", "o"))
        for p in (path, other):
            fields = {"k": "INT NOT NULL", "v": "BIGINT"}
            java.create(p, fields, primary_keys=["k"], options=TABLES[name] | {"bucket": 1})
        other = path if turns else other
        for commit in range(8):
            rows = [(rng.randrange(12), rng.randrange(3)) for _ in range(6)]
            kinds = ["-D" if name != "first rows" and rng.random() < 0.2 else "+I" for _ in rows]
            data = [{"k": k, "v": v, "kind": kind} for (k, v), kind in zip(rows, kinds, strict=True)]
            if not turns or rng.random() < 0.5:
                ts.open(path).write(data, row_kind_column="kind")
            if not turns or rng.random() < 0.5:
                java.write(other, rows, kinds=kinds, identifier=commit, wait=False)
            mine = in_order(cells(ts.open(path).scan().to_arrow()))
            assert mine == java.rows(path), (seed, commit)
        ts.open(path).compact()
        java.compact(other, user="compactor", identifier=99)
        mine = in_order(cells(ts.open(path).scan().to_arrow()))
        assert mine == java.rows(path) == java.rows(other), seed
        changes = cells(ts.open(path).changes(since=0))
        assert changes == [c for step in java.stream(path) for c in step["changes"]], seed
        assert replayed(changes) == mine, seed
        assert replayed(cells(ts.open(other).changes(since=0))) == mine, seed
        assert ts.open(path).check() == []
