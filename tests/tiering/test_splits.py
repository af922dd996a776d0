"""Splits of a round from offsets of the lake, bounds of logs and snapshots of keys."""

from __future__ import annotations

import pickle
import time

from tablestore.tiering.splits import (
    BucketBounds,
    SplitSnapshot,
    TieredBucket,
    TieringLogSplit,
    TieringSnapshotSplit,
    TieringSplitGenerator,
)

GENERATOR = TieringSplitGenerator("db.t", 7, {})
B0, B1, B2 = (TieredBucket(None, bucket) for bucket in range(3))


def test_the_log_is_read_from_where_the_lake_ends():
    bounds = {B2: BucketBounds(0, 0), B1: BucketBounds(0, 5), B0: BucketBounds(2, 9)}
    plan = GENERATOR.plan(bounds, lake={B0: 4, B1: 5}, snapshots={})
    assert plan.splits == (TieringLogSplit(table_path="db.t", table_id=7, bucket=0, start=4, stop=9),)
    assert not plan.gaps
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_a_bucket_that_the_lake_lacks_begins_with_its_snapshot_of_keys_or_the_first_row():
    bounds = {B0: BucketBounds(0, 9), B1: BucketBounds(3, 4), B2: BucketBounds(0, 0)}
    plan = GENERATOR.plan(bounds, lake={}, snapshots={B1: SplitSnapshot(2, 3)})
    log, keys = plan.splits
    assert (log.log_start, log.stop) == (0, 9)
    assert isinstance(keys, TieringSnapshotSplit)
    assert (keys.snapshot_id, keys.log_offset, keys.stop) == (2, 3, 4)
    assert not plan.gaps


def test_a_snapshot_of_keys_is_not_read_where_the_lake_has_rows():
    plan = GENERATOR.plan({B0: BucketBounds(0, 9)}, lake={B0: 6}, snapshots={B0: SplitSnapshot(2, 8)})
    assert [(split.log_start, split.stop) for split in plan.splits] == [(6, 9)]


def test_rows_that_retention_took_and_a_log_that_ends_before_the_lake_are_gaps():
    bounds = {B0: BucketBounds(5, 9), B1: BucketBounds(0, 3), B2: BucketBounds(7, 7)}
    plan = GENERATOR.plan(bounds, lake={B0: 4, B1: 8}, snapshots={})
    assert not plan.splits
    assert [str(gap) for gap in plan.gaps] == [
        "bucket 0: offsets [4, 5), up to 1 row, are gone from the log",
        "bucket 1: the lake is at offset 8, the log ends at 3",
        "bucket 2: offsets [0, 7), up to 7 rows, are gone from the log",
    ]


def test_splits_of_partitions_carry_their_names():
    place = TieredBucket(12, 0)
    plan = TieringSplitGenerator("db.t", 7, {12: "2026$de"}).plan(
        {place: BucketBounds(0, 1)}, lake={}, snapshots={}
    )
    assert plan.splits[0].partition_name == "2026$de"
    assert str(plan.splits[0]) == "db.t/2026$de/0 [0, 1)"


def test_ten_thousand_buckets_are_planned_quickly():
    names = {id: f"day-{id}" for id in range(100)}
    places = [TieredBucket(id, bucket) for id in names for bucket in range(100)]
    generator = TieringSplitGenerator("db.t", 7, names)
    began = time.process_time()
    plan = generator.plan(
        {place: BucketBounds(0, 50) for place in places},
        lake={place: 50 if place.bucket % 2 else 40 for place in places},
        snapshots={},
    )
    assert len(plan.splits) == 5_000
    assert time.process_time() - began < 20
