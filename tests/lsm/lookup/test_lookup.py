"""Lookups in the levels above: the lowest level that has a key answers, with file and place."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tablestore.format.types.arrow_types import BIGINT, INT, STRING, DataField
from tablestore.lsm.compaction.deletions import BucketDeletions
from tablestore.lsm.levels.bucket import FileNames, RollingWriter, write_all
from tablestore.lsm.lookup.lookup import LevelLookup
from tablestore.lsm.merge import keys as key_columns
from tests.faults import FaultyIO
from tests.lsm.bucket import LiveBucket

TWO = (DataField(0, "s", STRING), DataField(1, "n", INT), DataField(2, "v", STRING))


def put(bucket: LiveBucket, level: int, rows: list[tuple], *, sequence: int = 0) -> None:
    """One file at a level; rows in key order."""
    values = bucket.batch(rows)
    kinds = pa.array(np.zeros(len(rows), dtype=np.int8))
    numbers = pa.array(np.arange(sequence, sequence + len(rows)))
    batch = pa.RecordBatch.from_arrays(
        [numbers, kinds, *values.columns], names=["_SEQUENCE_NUMBER", "_VALUE_KIND", *values.schema.names]
    )
    writer = RollingWriter(bucket.files, FileNames(bucket.files).data, level=level, source=1)
    bucket.live += write_all(writer, [batch])


def deletions(bucket: LiveBucket) -> BucketDeletions:
    return BucketDeletions(bucket.value)


def find(
    bucket: LiveBucket,
    keys: list[tuple],
    *,
    older_than: int = 0,
    rows: bool = True,
    windows: int = 1,
    gone=None,
):
    """{key: (value or None, file, position)} by lookups in so many windows."""
    lookup = LevelLookup(bucket.files, bucket.levels, older_than=older_than, deletions=gone, rows=rows)
    fields = bucket.schema.key_fields
    collected = {}
    for part in np.array_split(np.arange(len(keys)), windows):
        if not len(part):
            continue
        some = [keys[i] for i in part]
        arrays = [pa.array(c, f.arrow.type) for c, f in zip(zip(*some, strict=True), fields, strict=True)]
        hits = lookup.find(key_columns.components(arrays, [f.type for f in fields]))
        values = hits.rows.column("v").to_pylist() if hits.rows is not None else [None] * len(hits.asked)
        assert (np.diff(hits.asked) > 0).all()
        for i, number, position, value in zip(hits.asked, hits.numbers, hits.positions, values, strict=True):
            collected[some[i]] = value, hits.files[number], int(position)
    return collected


def test_the_lowest_level_above_answers(tmp_path: Path) -> None:
    bucket = LiveBucket(str(tmp_path))
    put(bucket, 1, [(1, "one"), (2, "one")])
    put(bucket, 2, [(2, "two"), (3, "two")])
    put(bucket, 3, [(1, "three"), (3, "three"), (4, "three")])
    asked = [(k,) for k in range(6)]
    assert {k[0]: v[0] for k, v in find(bucket, asked).items()} == {1: "one", 2: "one", 3: "two", 4: "three"}
    assert {k[0]: v[0] for k, v in find(bucket, asked, older_than=1).items()} == {
        1: "three",
        2: "two",
        3: "two",
        4: "three",
    }
    assert find(bucket, asked, older_than=5) == {}


def test_places_alone_come_without_rows(tmp_path: Path) -> None:
    bucket = LiveBucket(str(tmp_path))
    put(bucket, 2, [(k, f"v{k}") for k in range(0, 20, 2)])
    (name,) = (f.file_name for f in bucket.live)
    assert find(bucket, [(3,), (4,), (18,)], rows=False) == {(4,): (None, name, 2), (18,): (None, name, 9)}


def test_deleted_rows_are_not_found_and_positions_count_them(tmp_path: Path) -> None:
    bucket = LiveBucket(str(tmp_path))
    put(bucket, 2, [(k, "two") for k in range(10)])
    put(bucket, 3, [(k, "three") for k in range(5)])
    gone = deletions(bucket)
    gone.mark(bucket.live[0].file_name, np.array([1, 7]))
    actual = find(bucket, [(1,), (2,), (7,), (9,)], gone=gone)
    assert {k[0]: (v[0], v[2]) for k, v in actual.items()} == {1: ("three", 1), 2: ("two", 2), 9: ("two", 9)}


@pytest.mark.parametrize("windows", [1, 3, 50])
def test_lookups_agree_with_a_model(tmp_path: Path, seeds: tuple[int, ...], windows: int) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        bucket = LiveBucket(str(tmp_path / f"{seed}-{windows}"), fields=TWO, primary_key=("s", "n"))
        space = [(s, n) for s in ("", "a", "aé", "b", "ba", "zz") for n in range(-4, 40)]
        model: dict[tuple, tuple[str, int, int]] = {}
        for level in (1, 2, 4):
            chosen = sorted(rng.sample(space, rng.randrange(1, 120)), key=lambda k: (k[0].encode(), k[1]))
            for start in range(0, len(chosen), 25):
                part = chosen[start : start + 25]
                put(bucket, level, [(*k, f"{level}") for k in part])
                for i, key in enumerate(part):
                    model.setdefault(key, (f"{level}", bucket.live[-1].file_name, i))
        asked = sorted(rng.sample(space, 100), key=lambda k: (k[0].encode(), k[1]))
        assert find(bucket, asked, windows=windows) == {k: model[k] for k in asked if k in model}, seed


def test_files_that_hold_no_key_asked_for_are_not_opened(tmp_path: Path) -> None:
    bucket = LiveBucket(str(tmp_path), fields=(DataField(0, "id", BIGINT), DataField(1, "v", STRING)))
    for start in range(0, 100, 10):
        put(bucket, 2, [(k, "v") for k in range(start, start + 5)])
    bucket.io = FaultyIO()
    assert set(find(bucket, [(7,), (22,), (58,), (90,)])) == {(22,), (90,)}
    opened = {line.rsplit("/", 1)[1] for line in bucket.io.log if line.startswith("open ")}
    assert opened == {bucket.live[2].file_name, bucket.live[9].file_name}
