"""A change directory into a table by Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.spark import compact
from tests.cdc.changes import inserts
from tests.cdc.items import content, ingested, item_table, shop

pytestmark = pytest.mark.spark


def rows_of(report: ts.BatchReport) -> int:
    return sum(table_report.snapshot_rows + table_report.changes for table_report in report.tables)


def test_the_last_change_of_a_key_wins_and_each_bucket_gets_one_file_of_a_batch(spark, lake, tmp_path: Path):
    source, _ = shop(tmp_path / "s", chunks=1, transactions=0)
    text = "".join(inserts(range(40), name) for name in ("first", "second", "third"))
    (source / "log" / "00003.jsonl").write_text(text)
    table = item_table(lake, **{"bucket": 4})
    newest = ingested(lake, source, spark=spark)[-1]
    assert {r["name"] for i, r in content(table).items() if i < 40} == {"third"}
    assert rows_of(newest) == 120
    snapshot = newest.tables[0].snapshot
    before = set(table.inspect.levels(snapshot - 1)["file_name"].to_pylist())
    files = table.inspect.levels(snapshot).to_pylist()
    buckets = [(f["partition"], f["bucket"]) for f in files if f["file_name"] not in before]
    assert len(buckets) == len(set(buckets)) >= 4
    assert table.check() == []


@pytest.mark.large
def test_a_compaction_job_leaves_one_run_in_each_bucket(spark, lake, tmp_path: Path):
    source, expected = shop(tmp_path / "s")
    table = item_table(lake, **{"write-only": True})
    ingested(lake, source, spark=spark)
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
