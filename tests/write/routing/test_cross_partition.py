"""Upserts across partitions, decided batch by batch, against the same one row at a time."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, Unsupported
from tablestore.format.types.arrow_types import DataField, parse_type
from tablestore.io.scratch import Scratch
from tablestore.write.routing import cross_partition, key_index
from tablestore.write.routing.cross_partition import BucketFill
from tablestore.write.routing.key_index import NOWHERE, KeyIndex


def by_rows(
    engine: str, rows: list[tuple[int, int]], partitions: dict[int, int]
) -> list[list[tuple[str, int]]]:
    """What each (key, partition) makes: (kind, partition) in order."""
    collected = []
    for key, partition in rows:
        was = partitions.get(key)
        if was is None:
            partitions[key] = partition
            collected.append([("+I", partition)])
        elif was == partition:
            collected.append([("+I", partition)])
        elif engine == "moving":
            partitions[key] = partition
            collected.append([("-D", was), ("+I", partition)])
        else:
            collected.append([("+I", was)] if engine == "staying" else [])
    return collected


@pytest.mark.parametrize("engine", ["moving", "staying", "dropping"])
def test_a_batch_does_what_its_rows_would_do_one_by_one(engine: str, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        rooms, partitions, places = BucketFill(3), {}, {}
        for _ in range(8):
            rows = [(rng.randrange(12), rng.randrange(4)) for _ in range(rng.randrange(1, 25))]
            codes = np.array([k for k, _ in rows])
            own = np.array([p for _, p in rows], dtype=np.int32)
            order = np.argsort(codes, kind="stable")
            starts = np.flatnonzero(np.r_[True, codes[order][1:] != codes[order][:-1]])
            keys = codes[order[starts]].tolist()
            before = [places.get(k, (NOWHERE, NOWHERE)) for k in keys]
            at, bucket = (np.array(c, dtype=np.int32) for c in zip(*before, strict=True))
            decide = getattr(cross_partition, engine)
            moves, place, buckets = decide(order, starts, own, at, bucket, rooms)
            created = [
                [("-D", o)] * (o != NOWHERE) + [("+I", p)] * (p != NOWHERE)
                for o, p in zip(moves.old_partition.tolist(), moves.partition.tolist(), strict=True)
            ]
            assert created == by_rows(engine, rows, partitions), f"seed {seed}"
            places |= dict(zip(keys, zip(place.tolist(), buckets.tolist(), strict=True), strict=True))
            assert {k: p for k, (p, _) in places.items()} == partitions
            written = list(zip(moves.partition.tolist(), moves.bucket.tolist(), strict=True))
            last = {k: i for i, (k, _) in enumerate(rows)}
            if engine != "dropping":
                assert all(written[i] == places[k] for k, i in last.items())


def test_keys_of_equal_hashes_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "SEGMENT_KEYS", 64)
    field = DataField(0, "k", parse_type("INT NOT NULL"))
    index = KeyIndex([field], Scratch())
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False)])

    def keys(values: range | list[int]) -> pa.RecordBatch:
        return pa.record_batch([pa.array(values, pa.int32())], schema=schema)

    def hashes(values: range | list[int]) -> np.ndarray:
        return np.array([v % 7 for v in values], dtype=np.int32)

    for at in range(0, 300, 30):
        values = range(at, at + 30)
        actual = index.find(keys(values), hashes(values))
        assert actual.new.all()
        numbers = np.array(values, dtype=np.int32)
        index.add(keys(values), hashes(values), numbers, numbers + 1)
    asked = [5, 299, 300, 64, -3, 0]
    actual = index.find(keys(asked), hashes(asked))
    assert actual.partition.tolist() == [5, 299, NOWHERE, 64, NOWHERE, 0]
    index.move(actual, np.array([1, 5]), np.array([7, 8]), np.array([70, 80]))
    again = index.find(keys([299, 0, 1]), hashes([299, 0, 1]))
    assert again.partition.tolist() == [7, 8, 1]
    assert again.bucket.tolist() == [70, 80, 2]


def test_more_keys_than_the_bound_are_refused() -> None:
    field = DataField(0, "k", parse_type("INT NOT NULL"))
    index = KeyIndex([field], Scratch(), max_keys=3)
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False)])
    batch = pa.record_batch([pa.array([1, 2, 3, 4], pa.int32())], schema=schema)
    with pytest.raises(Unsupported, match="across partitions"):
        index.add(batch, index.hashes(batch), np.zeros(4), np.zeros(4))


def test_keys_found_in_a_snapshot_that_was_rolled_back_are_refused(tmp_path: Path) -> None:
    options = {"bucket": -1, "write-only": True}
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"p": ts.STRING, "k": ts.INT}, primary_key=["k"], partition_by=["p"], options=options
    )
    t.write([{"p": "a", "k": 1}])
    t.write([{"p": "a", "k": 2}])
    w = t.writer()
    w.write([{"p": "b", "k": 2}])
    other = ts.open(t.location)
    other.rollback(snapshot=1)
    other.write([{"p": "c", "k": 2}])
    with pytest.raises(ts.CommitConflict, match="rolled back behind snapshot 2"):
        w.__exit__(None, None, None)
    rows = t.scan().to_arrow().to_pylist()
    assert sorted((r["k"], r["p"]) for r in rows) == [(1, "a"), (2, "c")]


def test_deletes_are_not_ignored_where_they_move_a_row(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    across: dict[str, Any] = {
        "schema": {"p": ts.STRING, "k": ts.INT},
        "primary_key": ["k"],
        "partition_by": ["p"],
    }
    with pytest.raises(InvalidOption, match="would stay in the first one"):
        lake.create_table("d.t", **across, options={"bucket": -1, "ignore-delete": True})
    t = lake.create_table("d.t", **across, options={"bucket": -1})
    with pytest.raises(InvalidOption, match="would stay in the first one"):
        t.alter(ts.set_options({"ignore-delete": True}))
    lake.create_table(
        "d.kept", **across, options={"bucket": -1, "ignore-delete": True, "merge-engine": "first-row"}
    )
