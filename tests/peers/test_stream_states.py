"""Where a stream begins while rows wait at level 0 or below the top: Java Paimon and this engine deliver the
same state first, and the same changes after it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer

TABLES: dict[str, dict[str, Any]] = {
    "none": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "full compaction": {"changelog-producer": "full-compaction", "full-compaction.delta-commits": 1000},
    "vectors": {"deletion-vectors.enabled": True},
    "vectors merged on read": {"deletion-vectors.enabled": True, "deletion-vectors.merge-on-read": True},
    "vectors with a changelog": {"deletion-vectors.enabled": True, "changelog-producer": "lookup"},
    "first row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
    "sums": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
    | {"changelog-producer": "lookup"},
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(3)
def test_the_first_state_and_what_follows(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...], name: str
) -> None:
    for seed in seeds[:1]:
        rng = random.Random(seed)
        path = str(tmp_path / f"{seed}.db/t")
        java.create(
            path,
            {"k": "INT NOT NULL", "v": "BIGINT"},
            primary_keys=["k"],
            options={"bucket": 1, "num-levels": 4, "snapshot.num-retained.min": 1000} | TABLES[name],
        )
        for _ in range(7):
            data = [
                {"k": rng.randrange(9), "v": rng.randrange(3), "kind": "+I"}
                for _ in range(rng.randrange(1, 5))
            ]
            if name != "first row":
                data[0]["kind"] = rng.choice(["+I", "-D"])
            waits = {"write-only": rng.random() < 0.5}
            ts.open(path).with_options(waits).write(data, row_kind_column="kind")
            if rng.random() < 0.2:
                ts.open(path).compact(full=True)
            t = ts.open(path)
            theirs = [in_order(p["changes"]) for p in java.stream(path, start=None)]
            steps = list(t.stream(follow=False, normalize=False))
            assert [in_order(cells(s.to_arrow())) for s in steps] == theirs, (seed, name)
            latest = t.store.snapshots.latest_id() or 0
            since = rng.randrange(latest)
            changes = [
                (s.snapshot, cells(s.to_arrow()))
                for s in t.stream(start=since + 1, follow=False, normalize=False)
            ]
            other = [(p["next"] - 1, p["changes"]) for p in java.stream(path, since + 1)]
            assert [x for x in changes if x[1]] == [x for x in other if x[1]], (seed, name, since)
            between = {"incremental-between": f"{since},{latest}"}
            mine = in_order(cells(t.with_options(between).scan().to_arrow()))
            read = java.read(path, options=between)
            there = (r for r, kind in zip(read.rows, read.kinds, strict=True) if kind in ("+I", "+U"))
            assert mine == in_order(there), (seed, name, since)
