"""pypaimon and this engine go on with each other's tables; peers read manifests that are in order."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tests.peers.java_paimon import JavaPaimon
from tests.peers.pypaimon import PyPaimon

pytestmark = pytest.mark.peer


def test_we_go_on_with_what_pypaimon_writes(tmp_path: Path) -> None:
    peer = PyPaimon(tmp_path)
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    peer.create("d.u", schema=schema, primary_keys=["k"], options={"bucket": "2"})
    peer.write("d.u", pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]}, schema=schema))
    t = ts.connect(str(tmp_path)).table("d.u")
    t.write(pa.table({"k": [2, 4], "v": ["B", "d"]}))
    peer.write("d.u", pa.table({"k": [4, 5], "v": ["D", "e"]}, schema=schema))
    t.compact(full=True)
    t.delete(ts.col("k") == 1)
    expected = [(2, "B"), (3, "c"), (4, "D"), (5, "e")]
    ours = ts.open(t.location).scan().to_arrow().to_pylist()
    assert sorted((r["k"], r["v"]) for r in ours) == expected
    theirs = peer.read("d.u").to_pylist()
    assert sorted((r["k"], r["v"]) for r in theirs) == expected
    assert ts.open(t.location).check() == []


def test_peers_read_manifests_in_order_of_partitions(
    java: JavaPaimon, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    options = {"manifest.merge-min-count": 3, "manifest.target-file-size": "4 kb", "write-only": True}
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"p": ts.INT, "k": ts.INT, "v": ts.INT},
        primary_key=["p", "k"],
        partition_by=["p"],
        options=options,
    )
    rng, expected = random.Random(seeds[0]), dict[tuple[int, int], int]()
    for turn in range(7):
        keys = [(p, rng.randrange(20)) for p in rng.sample(range(60), 40)]
        expected |= dict.fromkeys(keys, turn)
        columns = [[p for p, _ in keys], [k for _, k in keys], [turn] * len(keys)]
        t.write(pa.table(dict(zip("pkv", (pa.array(c, pa.int32()) for c in columns), strict=True))))
        if turn == 3:
            t.compact(full=True)
    base = t.store.manifests.read_list(t.store.snapshots.latest().base_manifest_list)
    assert len({m.partition_stats.min_values for m in base}) > 1
    rows = sorted((p, k, v) for (p, k), v in expected.items())
    assert sorted((r["p"], r["k"], r["v"]) for r in PyPaimon(tmp_path).read("d.t").to_pylist()) == rows
    assert sorted(tuple(row[-3:]) for row in java.rows(t.location)) == rows
    assert t.check() == []
