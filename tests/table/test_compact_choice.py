"""`Table.compact` of some buckets: by partition, number and predicate; the rest stays as it was."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.table.table import Table
from tests.read.golden import in_order

Place = tuple[str, int]


def filled(path: Path, options: dict[str, object] | None = None, **given: object) -> Table:
    """Three flushes in each of two partitions and four buckets; bucket = id modulo 4."""
    arguments = {"primary_key": ["p", "id"], **given}
    fixed = {"bucket": 4, "bucket-function.type": "mod", "bucket-key": "id", **(options or {})}
    t = ts.connect(str(path)).create_table(
        "d.t",
        schema={"p": ts.INT, "id": ts.INT, "v": ts.STRING},
        partition_by=["p"],
        options={k: v for k, v in fixed.items() if v is not None} | {"write-only": True},
        **arguments,
    )
    for i in range(3):
        ids = list(range(i, 40))
        columns = {"p": pa.array([k % 2 for k in ids], pa.int32()), "id": pa.array(ids, pa.int32())}
        t.write(pa.table({**columns, "v": [str(i)] * len(ids)}))
        half = pa.table({"p": pa.array([1 - k % 2 for k in ids], pa.int32()), "id": columns["id"]})
        t.write(half.append_column("v", [[str(i)] * len(ids)]))
    return t


def compacted(t: Table, **chosen: object) -> set[Place]:
    """The (partition, bucket) of level-0 files that a full compaction took away; the rows stay."""
    rows = in_order(t.scan().to_arrow().to_pylist())
    before = level0(t)
    preview = t.compact(full=True, dry_run=True, **chosen)
    done = t.compact(full=True, **chosen)
    assert [p.text for p in preview.picks] == [p.text for p in done.picks]
    assert in_order(t.scan().to_arrow().to_pylist()) == rows
    assert t.check() == []
    return before - level0(t)


def level0(t: Table) -> set[Place]:
    files = t.inspect.levels().select(["partition", "bucket", "level"]).to_pylist()
    return {(f["partition"], f["bucket"]) for f in files if f["level"] == 0}


def test_a_predicate_over_partition_columns_chooses_partitions(tmp_path: Path) -> None:
    assert compacted(filled(tmp_path), where=col("p") < 1) == {("p=0", b) for b in range(4)}


def test_several_buckets_are_chosen_by_number(tmp_path: Path) -> None:
    t = filled(tmp_path)
    assert compacted(t, bucket=[0, 3], partition="p=1") == {("p=1", 0), ("p=1", 3)}
    assert compacted(t, bucket={2}) == {("p=0", 2), ("p=1", 2)}
    assert compacted(t, bucket=[]) == set()


def test_a_key_chooses_its_bucket(tmp_path: Path) -> None:
    t = filled(tmp_path)
    assert compacted(t, where=(col("p") == 1) & col("id").is_in([6, 10])) == {("p=1", 2)}


def test_a_range_of_keys_chooses_the_buckets_that_reach_into_it(tmp_path: Path) -> None:
    t = filled(tmp_path)
    ends = t.inspect.files()
    assert ends.num_rows == 24
    assert compacted(t, where=(col("id") > 38) & (col("p") == 0)) == {("p=0", 3)}
    assert compacted(t, where=col("id") > 100) == set()


def test_a_chosen_bucket_is_compacted_whole_whatever_file_holds_the_key(tmp_path: Path) -> None:
    t = filled(tmp_path)
    assert compacted(t, where=(col("p") == 0) & (col("id") == 0)) == {("p=0", 0)}  # the first flush only
    top = {f["level"] for f in t.inspect.levels(partition="p=0", bucket=0).to_pylist()}
    assert len(top) == 1


def test_a_key_is_found_below_deletion_vectors_too(tmp_path: Path) -> None:
    t = filled(tmp_path, {"deletion-vectors.enabled": True})
    assert t.compact(where=col("id") == 5).picks != ()
    assert t.scan(where=col("id") == 5).to_arrow().num_rows == 2
    assert t.scan().to_arrow().num_rows == 20


def test_columns_that_choose_no_bucket_are_refused_before_anything_happens(tmp_path: Path) -> None:
    t = filled(tmp_path)
    before = t.inspect.snapshots().num_rows
    with pytest.raises(ts.InvalidRequest, match=r"'v' chooses no bucket.*\(p, id\)"):
        t.compact(where=col("v") == "0")
    with pytest.raises(ts.InvalidRequest, match="7 is not a condition"):
        t.compact(where=7)
    with pytest.raises(ts.InvalidRequest, match="bucket 'x' must be a bucket's number"):
        t.compact(bucket=["x"])
    with pytest.raises(ts.InvalidRequest, match="bucket '12' must be"):
        t.compact(bucket="12")
    with pytest.raises(ts.InvalidRequest, match="there is no bucket 4: the table has 4, numbered from 0"):
        t.compact(bucket=[0, 4])
    with pytest.raises(ts.InvalidRequest, match="progress 5 must be a function"):
        t.compact(progress=5)
    with pytest.raises(ts.NotFound, match="column"):
        t.compact(where=col("q") == 1)
    assert t.inspect.snapshots().num_rows == before


def test_partitions_of_an_append_table_are_chosen_by_a_predicate(tmp_path: Path) -> None:
    t = filled(tmp_path, {"bucket": -1, "bucket-key": None, "bucket-function.type": None}, primary_key=())
    t.compact(full=True, where=col("p") >= 1)
    assert t.inspect.partitions().select(["partition", "file_count"]).to_pylist() == [
        {"partition": "p=0", "file_count": 6},
        {"partition": "p=1", "file_count": 1},
    ]
    assert t.check() == []


def test_rows_that_wait_are_chosen_by_partition_alone(tmp_path: Path) -> None:
    t = filled(tmp_path, {"bucket": -2, "bucket-key": None, "bucket-function.type": None})
    with pytest.raises(ts.InvalidRequest, match="chosen by their partition"):
        t.compact(bucket=0)
    with pytest.raises(ts.InvalidRequest, match="chosen by their partition"):
        t.compact(where=col("id") == 1)
    t.compact(where=col("p") == 1)
    assert set(t.scan(["p"]).to_arrow()["p"].to_pylist()) == {1}
    assert t.check() == []


def test_tasks_of_engines_are_chosen_in_the_same_way(tmp_path: Path) -> None:
    t = filled(tmp_path)
    assert len(t.buckets_to_compact(full=True)) == 8
    chosen = t.buckets_to_compact(full=True, where=col("p") == 0, bucket=[1, 2])
    messages = [ts.compact_bucket(t.location, task) for task in chosen]
    t.commit([m for m in messages if m], user="job")
    assert {("p=0", 1), ("p=0", 2)}.isdisjoint(level0(t))
    assert len(level0(t)) == 6
    assert t.check() == []


def test_a_table_without_partitions_says_so(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    t = lake.create_table("d.t", schema={"id": ts.INT}, primary_key=["id"], options={"bucket": 2})
    with pytest.raises(ts.InvalidRequest, match="'p' is no partition column; the table has no partitions"):
        t.compact(partition={"p": 1})
    assert t.compact(full=True).text == "no buckets: none of the chosen ones has files"


def test_buckets_with_nothing_to_do_are_counted(tmp_path: Path) -> None:
    t = filled(tmp_path)
    t.compact(full=True)
    first, more = t.compact().text.splitlines()
    assert first.startswith("p=")
    assert more == "… and 7 more buckets with nothing to do"
