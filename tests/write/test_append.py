"""Append tables: rows as they come, nothing but inserts, and failures that leave nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import CommitConflict, InvalidOption
from tests.faults import failed_calls
from tests.tables import APPEND


def rows(*numbers: int, p: str = "a") -> pa.Table:
    schema = pa.schema([("p", pa.string()), ("k", pa.int32()), ("v", pa.string())])
    return pa.table([[p] * len(numbers), list(numbers), [f"v{n}" for n in numbers]], schema=schema)


def keys(t: ts.Table) -> list[int]:
    return ts.open(t.location).scan(["k"]).to_arrow().column(0).to_pylist()


def test_rows_are_kept_as_they_come_repeated_ones_too(tmp_path: Path) -> None:
    t = APPEND.create(tmp_path)
    t.write(rows(3, 1, 3))
    t.write(rows(3, p="b"))
    assert sorted(keys(t)) == [1, 3, 3, 3]
    assert t.at(snapshot=1).scan(["k"]).to_arrow().column(0).to_pylist() == [3, 1, 3]
    assert t.check() == []
    assert t.changes(since=1).to_pylist() == [{"rowkind": "+I", "p": "b", "k": 3, "v": "v3"}]


def test_a_bucket_keeps_the_order_of_its_rows_through_compaction(tmp_path: Path) -> None:
    t = APPEND.create(tmp_path, {"bucket": 2, "bucket-key": "k", "compaction.min.file-num": 3})
    written = [[7 * i % 23, i, 100 + i] for i in range(11)]
    for some in written:
        t.write(rows(*some))
    files = ts.open(t.location).inspect.files().to_pylist()
    assert len(files) < 12, "the writer combined small files"
    order = [k for some in written for k in some]
    bucket = {k: b for b in (0, 1) for k in [r for r in keys(t) if _bucket_of(t, r) == b]}
    for b in (0, 1):
        own = [k for k in keys(t) if bucket[k] == b]
        assert own == [k for k in order if bucket[k] == b]
    assert ts.open(t.location).check() == []
    assert {s["commit_kind"] for s in t.inspect.snapshots().to_pylist()} == {"APPEND", "COMPACT"}


def _bucket_of(t: ts.Table, key: int) -> int:
    plan = t.scan(where=ts.col("k") == key).plan()
    return next(s.bucket for s in plan.splits)


def test_only_inserts_are_taken(tmp_path: Path) -> None:
    t = APPEND.create(tmp_path)
    data = rows(1, 2).append_column("kind", pa.array(["+I", "-D"]))
    with pytest.raises(ts.InvalidRequest, match="append tables take inserts only, not -D"):
        t.write(data, row_kind_column="kind")
    assert t.store.snapshots.latest() is None
    dropping = APPEND.create(tmp_path / "other", {"ignore-delete": True})
    dropping.write(data, row_kind_column="kind")
    assert keys(dropping) == [1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bucket": 2}, "needs 'bucket-key' too"),
        ({"bucket-key": "k"}, "needs a number of buckets"),
        ({"bucket": 2, "bucket-key": "p"}, "no partition column"),
        ({"bucket": 2, "bucket-key": "z"}, "'bucket-key' names 'z'"),
        ({"bucket": 2, "bucket-key": "k", "row-tracking.enabled": True}, "row-tracking"),
        ({"bucket": 2, "bucket-key": "k", "bucket-function.type": "magic"}, "bucket-function"),
    ],
)
def test_buckets_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        APPEND.create(tmp_path, options)


def test_null_bucket_keys_have_a_bucket_too(tmp_path: Path) -> None:
    t = APPEND.create(tmp_path, {"bucket": 3, "bucket-key": "k,v"})
    t.write([{"p": None, "k": None, "v": None}, {"p": "", "k": None, "v": "x"}])
    assert t.scan().to_arrow().num_rows == 2
    assert t.check() == []


def test_a_small_pool_bounds_memory_without_small_files(tmp_path: Path) -> None:
    t = APPEND.create(tmp_path, {"write-buffer-size": "64 kb"})
    with t.writer() as w:
        for at in range(0, 40_000, 2_000):
            w.write(rows(*range(at, at + 2_000), p="ab"[at // 2_000 % 2]))
    files = t.inspect.files().to_pylist()
    assert len(files) == 2, "one file a partition: a flush encodes, it does not close"
    assert sorted(keys(t)) == list(range(40_000))
    assert t.check() == []


def test_files_roll_at_the_target_size(tmp_path: Path) -> None:
    t = APPEND.create(tmp_path, {"target-file-size": "1 mb", "write-buffer-size": "1 mb"})
    rng = np.random.default_rng(1)
    texts = [rng.bytes(12).hex() for _ in range(150_000)]
    data = rows(*range(len(texts))).set_column(2, "v", pa.array(texts))
    with t.writer() as w:
        for at in range(0, len(texts), 20_000):
            w.write(data.slice(at, 20_000))
    assert len(t.inspect.files()) > 1
    assert keys(t) == list(range(len(texts)))
    assert t.check() == []


@pytest.mark.parametrize("bitmap64", [False, True])
@pytest.mark.parametrize("bucket", [{}, {"bucket": 2, "bucket-key": "k"}])
def test_compaction_drops_deleted_rows_and_their_vectors(
    tmp_path: Path, bucket: dict[str, object], bitmap64: bool
) -> None:
    vectors = {"deletion-vectors.enabled": True, "deletion-vectors.bitmap64": bitmap64}
    t = APPEND.create(tmp_path, bucket | vectors | {"compaction.min.file-num": 2})
    for at in range(0, 40, 10):
        t.write(rows(*range(at, at + 10)))
    t.delete(ts.col("k") < 25)
    t.write(rows(100, 101))
    assert sorted(keys(t)) == [*range(25, 40), 100, 101]
    assert t.store.manifests.index_entries(t.store.snapshots.latest())
    t.compact(full=True)
    assert sorted(keys(t)) == [*range(25, 40), 100, 101]
    store = ts.open(t.location).store
    assert not store.manifests.index_entries(store.snapshots.latest())
    assert store.snapshots.latest().total_record_count == 17
    assert t.check() == []


def test_a_rescaled_append_table_keeps_its_rows_and_takes_more(tmp_path: Path) -> None:
    t = APPEND.create(tmp_path, {"bucket": 2, "bucket-key": "k"})
    t.write(rows(*range(30), 5, 5))
    t.write(rows(*range(30), p="b"))
    before = sorted(keys(t))
    t.rescale(5, partition={"p": "a"})
    assert sorted(keys(t)) == before
    with pytest.raises(CommitConflict, match="previous bucket num is 2"):
        ts.open(t.location).write(rows(1, p="b"))
    ts.open(t.location).rescale(5)
    ts.open(t.location).write(rows(1, p="b"))
    assert sorted(keys(t)) == sorted([*before, 1])
    assert ts.open(t.location).check() == []


def survive(start: Path, tmp_path: Path, act: Callable[[ts.Table], object]) -> set[int]:
    """Row counts seen after every second failure of `act`, before `act` was done again."""
    calls = failed_calls(start, tmp_path, lambda lake: act(lake.table("d.t")), lambda cases: cases[::2])
    counts = {len(keys(ts.connect(root).table("d.t"))) for root in (start, tmp_path / "whole")}
    seen = set()
    for call in calls:
        assert call.table.check() == [], call.place
        seen.add(len(keys(call.table)))
        act(call.table)
        assert len(keys(call.table)) == max(counts), call.place
        assert call.table.check() == [], call.place
    assert seen <= counts
    return seen


@pytest.mark.large
def test_an_append_commit_survives_any_failure(tmp_path: Path) -> None:
    t = APPEND.create(tmp_path / "start", {"bucket": 1, "bucket-key": "k", "compaction.min.file-num": 2})
    t.write(rows(1, 2))
    counts = survive(
        tmp_path / "start", tmp_path, lambda t: t.write(rows(3, p="a"), user="loader", identifier=1)
    )
    assert counts == {2, 3}


@pytest.mark.large
def test_a_compaction_of_postponed_rows_survives_any_failure(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path / "start")).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.STRING}, primary_key=["k"], options={"bucket": -2}
    )
    t.write([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    assert survive(tmp_path / "start", tmp_path, lambda t: t.compact()) == {0, 2}


@pytest.mark.large
def test_a_dynamic_bucket_commit_survives_any_failure(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path / "start")).create_table(
        "d.t", schema={"k": ts.INT}, primary_key=["k"], options={"bucket": -1}
    )
    t.write([{"k": 1}])
    counts = survive(
        tmp_path / "start", tmp_path, lambda t: t.write([{"k": 1}, {"k": 5}], user="loader", identifier=1)
    )
    assert counts == {1, 2}


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.sample(1)
def test_files_come_close_to_the_target_whatever_share_of_memory_rows_take(
    tmp_path: Path, keyed: bool, form: str
) -> None:
    rng, n, target = np.random.default_rng(1), 60_000, 512 << 10
    few = {"c": np.arange(n) % 7, "d": np.full(n, 3)}  # of few bytes in a file, beside those of many
    parts = [
        pa.table({"k": np.arange(i * n, (i + 1) * n), **few, "a": rng.integers(0, 2 ** (62 - 8 * i), n)})
        for i in range(4)
    ]
    options = {"target-file-size": "512 kb", "file.format": form, "bucket": 1 if keyed else -1}
    key = ["k"] if keyed else []
    t = ts.connect(tmp_path).create_table(
        "d.t", schema=parts[0].schema, primary_key=key, options={**options, "write-only": True}
    )

    def sizes() -> list[float]:
        """Sizes of all files in shares of the target."""
        file_size_in_bytes = (
            t.inspect.files().sort_by("min_sequence_number").column("file_size_in_bytes").to_pylist()
        )
        return [size / target for size in file_size_in_bytes]

    with t.writer() as w:
        for part in parts:
            w.write(part)
    assert len(sizes()) > 3
    assert len([s for s in sizes() if not 0.75 < s < 1.25]) <= 1  # the last one
    t.write(parts[1])
    t.with_options({"write-only": False}).compact(full=True)
    assert len([s for s in sizes() if not 0.75 < s < 1.25]) <= 2  # and one that was the last
    assert t.check() == []
