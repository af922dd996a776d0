"""The pipeline: full load and increments, once each, whatever is lost in between."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import tablestore as ts
from tablestore.cdc.capture.computed import ComputedColumn
from tablestore.cdc.source import Position
from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch
from tablestore.spark import FinishedBatch, Ingest, compact, start_ingest
from tests.cdc.changes import inserts, row
from tests.spark.items import USER, content, ingest_of, item_table, shop

pytestmark = pytest.mark.spark


def run(spark: SparkSession, ingest: Ingest) -> list[FinishedBatch]:
    done: list[FinishedBatch] = []
    start_ingest(spark, ingest, on_batch=done.append).awaitTermination()
    return done


def test_a_full_load_and_its_increments_end_at_the_sources_state(spark, lake, tmp_path: Path):
    source, expected = shop(tmp_path / "s")
    table = item_table(lake)
    done, begun, read = [], [], []

    def finished(batch: FinishedBatch) -> None:
        done.append(batch)
        read.append(dict(begun[-1].read()))

    ingest = ingest_of(source, table, tmp_path / "ck", log_bytes_per_batch=1)
    start_ingest(spark, ingest, on_start=begun.append, on_batch=finished).awaitTermination()
    assert content(table) == expected
    assert table.check() == []
    assert [b.number for b in begun] == [b.number for b in done]
    assert [b.end for b in begun] == [b.position for b in done]
    assert [b.start for b in begun[1:]] == [b.end for b in begun[:-1]]
    assert [sorted(rows) for rows in read] == [list(range(len(b.pieces))) for b in begun]
    assert [sum(rows.values()) for rows in read] == [b.rows for b in done]
    assert [b.phase for b in done] == ["full"] * 2 + ["increment"] * 6
    assert sum(b.rows for b in done if b.phase == "full") == 200
    commits = table.inspect.commits()
    assert commits["commit_user"].unique().to_pylist() == [USER]
    assert commits["commit_identifier"].to_pylist() == list(range(8))
    changelogs = [n or 0 for n in commits["changelog_rows"].to_pylist()]
    assert changelogs[:2] == [0, 0]
    assert changelogs[2:] == [b.rows for b in done[2:]]
    known = table.position(USER)
    assert known[0] == 7
    assert Position.of(known[1]) == done[-1].position


def test_a_stopped_query_goes_on_and_a_lost_checkpoint_loses_nothing(spark, lake, tmp_path: Path):
    source, expected = shop(tmp_path / "s")
    hidden = tmp_path / "second.jsonl"
    (source / "log" / "00002.jsonl").rename(hidden)
    table = item_table(lake)
    first = run(spark, ingest_of(source, table, tmp_path / "ck"))
    hidden.rename(source / "log" / "00002.jsonl")
    assert run(spark, ingest_of(source, table, tmp_path / "ck"))[0].number == len(first)
    assert content(table) == expected
    (source / "log" / "00003.jsonl").write_text(inserts([900]))
    shutil.rmtree(tmp_path / "ck")
    last = run(spark, ingest_of(source, table, tmp_path / "ck"))
    assert [(b.number, b.rows) for b in last] == [(0, 1)]
    assert content(table) == expected | {900: row(900)}
    assert table.position(USER)[0] == len(first) + 1
    assert table.check() == []


def test_a_batch_that_was_committed_before_a_crash_is_not_written_again(spark, lake, tmp_path: Path):
    source, expected = shop(tmp_path / "s")
    table = item_table(lake)
    run(spark, ingest_of(source, table, tmp_path / "ck"))
    newest = table.store.snapshots.latest_id()
    for path in (
        tmp_path / "ck" / "commits"
    ).iterdir():  # as if the driver had died before Spark noted the end
        if path.name != "0":
            path.unlink()
    assert run(spark, ingest_of(source, table, tmp_path / "ck")) == []
    assert table.store.snapshots.latest_id() == newest
    assert content(table) == expected


def test_a_checkpoint_does_not_serve_a_table_made_anew(spark, lake, tmp_path: Path):
    source, _ = shop(tmp_path / "s")
    ingest = ingest_of(source, item_table(lake), tmp_path / "ck")
    run(spark, ingest)
    lake.drop_table("shop.item")
    item_table(lake)
    with pytest.raises(InvalidRequest, match="another table"):
        start_ingest(spark, ingest)


def test_the_last_change_of_a_key_wins_and_each_bucket_gets_one_file_of_a_batch(spark, lake, tmp_path: Path):
    source, _ = shop(tmp_path / "s", chunks=1, transactions=0)
    text = "".join(inserts(range(40), name) for name in ("first", "second", "third"))
    (source / "log" / "00003.jsonl").write_text(text)
    table = item_table(lake, **{"bucket": 4})
    done = run(spark, ingest_of(source, table, tmp_path / "ck", tasks=3))
    assert {r["name"] for i, r in content(table).items() if i < 40} == {"third"}
    assert done[-1].rows == 120
    before = set(table.inspect.levels(done[-1].snapshot - 1)["file_name"].to_pylist())
    files = table.inspect.levels(done[-1].snapshot).to_pylist()
    buckets = [(f["partition"], f["bucket"]) for f in files if f["file_name"] not in before]
    assert len(buckets) == len(set(buckets)) >= 4
    assert table.check() == []


def test_compaction_between_the_batches_keeps_every_row(spark, lake, tmp_path: Path):
    source, expected = shop(tmp_path / "s")
    table = item_table(lake, **{"write-only": True, "num-sorted-run.compaction-trigger": 2})
    run(spark, ingest_of(source, table, tmp_path / "ck", log_bytes_per_batch=1, compact_every=2))
    assert content(table) == expected
    kinds = table.inspect.snapshots()["commit_kind"]
    assert pc.sum(pc.equal(kinds, "COMPACT")).as_py() >= 1
    assert table.check() == []


def test_a_compaction_job_leaves_one_run_in_each_bucket(spark, lake, tmp_path: Path):
    source, expected = shop(tmp_path / "s")
    table = item_table(lake, **{"write-only": True})
    run(spark, ingest_of(source, table, tmp_path / "ck"))
    first = table.inspect.levels()["partition"][0].as_py()
    some = compact(spark, table.location, full=True, partition=first, bucket=[0, 1])
    moved = [f for f in table.inspect.levels().to_pylist() if f["level"] == 5]
    assert {f["partition"] for f in moved} == {first}
    done = compact(spark, table.location, full=True)
    levels = table.inspect.levels()
    assert some.buckets + done.buckets == len(levels.group_by(["partition", "bucket"]).aggregate([]))
    assert set(levels["level"].to_pylist()) == {5}
    assert compact(spark, table.location, full=True).snapshot is None
    assert content(table) == expected
    assert table.check() == []


def test_what_cannot_start_says_why(spark, lake: ts.Lake, tmp_path: Path):
    source, _ = shop(tmp_path / "s")
    table = item_table(lake)
    with pytest.raises(NotFound, match="no complete change directory"):
        start_ingest(spark, ingest_of(tmp_path / "nowhere", table, tmp_path / "ck"))
    with pytest.raises(NotFound, match="weekday"):
        ComputedColumn.parse("year", "weekday(day)")
    plain = lake.create_table("shop.plain", schema={"id": "BIGINT"}, primary_key=["id"])
    with pytest.raises(SchemaMismatch, match="year"):
        start_ingest(spark, ingest_of(source, plain, tmp_path / "ck"))
    wider = lake.create_table(
        "shop.wider", schema={"id": "BIGINT", "year": "BIGINT", "size": "INT"}, primary_key=["id"]
    )
    with pytest.raises(SchemaMismatch, match="size"):
        start_ingest(spark, ingest_of(source, wider, tmp_path / "ck"))
    assert not (tmp_path / "ck").exists()
