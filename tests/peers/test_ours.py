"""pypaimon opens every kind of table that this engine writes and reads the same rows."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tests.peers.java_paimon import JavaPaimon
from tests.peers.pypaimon import PyPaimon

pytestmark = pytest.mark.peer
COLUMNS = {
    "k": ts.BIGINT,
    "part": ts.STRING,
    "i": ts.INT,
    "f": ts.DOUBLE,
    "d": ts.DECIMAL(12, 2),
    "big": ts.DECIMAL(30, 5),
    "day": ts.DATE,
    "at": ts.TIMESTAMP(6),
    "s": ts.STRING,
    "raw": ts.BYTES,
    "ok": ts.BOOLEAN,
}
EPOCH = date(1970, 1, 1)


def rows(rng: random.Random, n: int) -> pa.Table:
    found = []
    for _ in range(n):
        k = rng.randrange(200)
        null = rng.random() < 0.2
        found.append(
            {
                "k": k,
                "part": ["north", "south/west", "é中", " "][k % 4],
                "i": None if null else rng.randrange(-1000, 1000),
                "f": None if null else rng.random() * 1e9,
                "d": None if null else Decimal(rng.randrange(10**10)).scaleb(-2),
                "big": None if null else Decimal(rng.randrange(10**18)).scaleb(-5),
                "day": None if null else date.fromordinal(EPOCH.toordinal() + rng.randrange(20_000)),
                "at": rng.randrange(10**15),
                "s": None if null else f"text {k} " * rng.randrange(4),
                "raw": bytes([k % 256] * rng.randrange(20)),
                "ok": None if null else k % 2 == 0,
            }
        )
    return pa.Table.from_pylist(found, pa.schema(list(ARROW.items())))


ARROW = {
    "k": pa.int64(),
    "part": pa.string(),
    "i": pa.int32(),
    "f": pa.float64(),
    "d": pa.decimal128(12, 2),
    "big": pa.decimal128(30, 5),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "s": pa.string(),
    "raw": pa.binary(),
    "ok": pa.bool_(),
}


def comparable(found: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(r[c] for c in COLUMNS) for r in found.select(list(COLUMNS)).to_pylist())


KINDS = {
    "flat": ({}, []),
    "partitioned": ({"bucket": 2}, ["part"]),
    "compacting": ({"bucket": 2, "num-sorted-run.compaction-trigger": 2}, []),
    "changelog": ({"changelog-producer": "input"}, ["part"]),
    "small files": ({"target-file-size": "8 kb", "num-sorted-run.compaction-trigger": 2}, []),
    "merged manifests": ({"manifest.merge-min-count": 3, "manifest.compression": "deflate"}, ["part"]),
    "uncompressed": ({"file.compression": "none", "metadata.stats-mode": "none"}, []),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(1)
def test_pypaimon_reads_our_tables_at_every_snapshot(
    tmp_path: Path, kind: str, seeds: tuple[int, ...]
) -> None:
    options, partition_by = KINDS[kind]
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema=COLUMNS,
        primary_key=["k", "part"],
        partition_by=partition_by,
        options={"snapshot.num-retained.min": 1000, **options},
    )
    rng = random.Random(seeds[0])
    for turn in range(6):
        t.write(rows(rng, 60))
        if turn % 2:
            t.delete(ts.col("k").between(turn * 20, turn * 20 + 8))
        if turn == 4:
            t.compact(full=True)
    peer = PyPaimon(tmp_path)
    assert comparable(peer.read("d.t")) == comparable(t.scan().to_arrow())
    for snapshot in rng.sample(t.store.snapshots.ids(), 3):
        ours = comparable(t.at(snapshot=snapshot).scan().to_arrow())
        assert comparable(peer.read("d.t", snapshot=snapshot)) == ours, f"snapshot {snapshot}"
    kinds = [s["commit_kind"] for s in t.inspect.snapshots().to_pylist()]
    assert [s["commit_kind"] for s in peer.snapshots("d.t")] == kinds
    assert t.check() == []


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
