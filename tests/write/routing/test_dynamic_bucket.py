"""Dynamic buckets: where keys go, and that they stay there."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt, InvalidRequest
from tablestore.format import hashing
from tablestore.write.routing.dynamic_bucket import BucketLimits, PartitionIndex


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def one_by_one(limits: BucketLimits, buckets: dict[int, int], hashes: list[int]) -> list[int]:
    """The rule for one row after another."""
    collected = []
    for h in hashes:
        if h not in buckets:
            counts = {b: list(buckets.values()).count(b) for b in set(buckets.values())}
            room = [b for b in sorted(counts) if counts[b] < limits.rows]
            buckets[h] = room[0] if room else len(counts)
        collected.append(buckets[h])
    return collected


def test_new_keys_fill_buckets_in_order_and_known_ones_stay(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        limits = BucketLimits(rng.randrange(1, 9))
        index, buckets = PartitionIndex(limits), {}
        for _ in range(6):
            hashes = [rng.randrange(-40, 40) for _ in range(rng.randrange(1, 30))]
            expected = one_by_one(limits, buckets, hashes)
            assert index.assign(ints(*hashes)).tolist() == expected, f"seed {seed}"
        assert dict(zip(index.hashes.tolist(), index.buckets.tolist(), strict=True)) == buckets


def test_an_index_read_from_files_goes_on_where_it_was() -> None:
    index = PartitionIndex.of(BucketLimits(3), {1: ints(7, 8), 0: ints(1, 2, 3)})
    assert index.assign(ints(8, 100, 1, 101, 102)).tolist() == [1, 1, 0, 2, 2]
    assert index.changed == {1, 2}
    assert sorted(index.of_bucket(1).tolist()) == [7, 8, 100]


def test_above_the_most_buckets_keys_go_to_full_ones_and_stay() -> None:
    index = PartitionIndex(BucketLimits(2, max_buckets=2))
    first = index.assign(ints(1, 2, 3, 4, 5, 6, 7))
    assert set(first.tolist()) == {0, 1}
    assert index.assign(ints(7, 6, 5)).tolist() == first[[6, 5, 4]].tolist()


def test_without_a_limit_running_out_of_buckets_is_refused() -> None:
    index = PartitionIndex(BucketLimits(1))
    with pytest.raises(InvalidRequest, match="target-row-num"):
        index.assign(np.arange(40_000, dtype=np.int32))


def test_initial_buckets_are_begun_at_once() -> None:
    index = PartitionIndex(BucketLimits(10, initial=4))
    assert set(index.assign(np.arange(-20, 20, dtype=np.int32)).tolist()) == {0, 1, 2, 3}
    assert max(index.counts.values()) <= 10


def test_index_files_hold_big_endian_hashes() -> None:
    assert hashing.encode_index(ints(1, -2)) == bytes.fromhex("00000001fffffffe")
    assert hashing.decode_index(bytes.fromhex("00000001fffffffe"), "x").tolist() == [1, -2]
    with pytest.raises(Corrupt, match="index-1"):
        hashing.decode_index(b"12345", "index-1")


@pytest.mark.parametrize("away", ["truncate", "rollback"])
def test_rows_placed_by_an_index_that_is_gone_are_refused(tmp_path: Path, away: str) -> None:
    options = {"bucket": -1, "dynamic-bucket.target-row-num": 3, "write-only": True}
    schema = {"p": ts.STRING, "k": ts.INT, "v": ts.INT}
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema=schema, primary_key=["p", "k"], partition_by=["p"], options=options
    )
    t.write([{"p": "b", "k": 1, "v": 1}])
    t.write([{"p": "a", "k": 1, "v": 1}])
    w = t.writer()
    w.write([{"p": "a", "k": 1, "v": 2}])
    other = ts.open(t.location)
    other.truncate(partition={"p": "a"}) if away == "truncate" else other.rollback(snapshot=1)
    with pytest.raises(ts.CommitConflict, match="made from; do it again"):
        w.__exit__(None, None, None)
    t.write([{"p": "a", "k": k, "v": 1} for k in (2, 3, 4)])
    t.write([{"p": "a", "k": 1, "v": 5}])
    rows = t.scan(where=ts.col("p") == "a").to_arrow().to_pylist()
    assert sorted((r["k"], r["v"]) for r in rows) == [(1, 5), (2, 1), (3, 1), (4, 1)]
    assert t.check() == []


def test_another_partition_may_be_overwritten_while_rows_are_placed(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"p": ts.STRING, "k": ts.INT},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": -1},
    )
    t.write([{"p": "a", "k": 1}, {"p": "b", "k": 1}])
    with t.writer() as w:
        w.write([{"p": "a", "k": 1}])
        ts.open(t.location).truncate(partition={"p": "b"})
    assert t.scan().to_arrow().to_pylist() == [{"p": "a", "k": 1}]
    assert t.check() == []
