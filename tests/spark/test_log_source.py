"""Spark over tables with a log: batch reads with the rows behind the snapshot, streams by offsets."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tablestore.table.table import Table
from tests.tables import KEYED

pytestmark = [pytest.mark.spark, pytest.mark.large]
LOGGED = KEYED.with_options({"bucket": 2, "log.system": "embedded", "log.consistency": "eventual"})


def collected(spark: SparkSession, table: Table, folder: Path) -> list[tuple[int, str, str]]:
    """The changes since the checkpoint, by Spark."""
    actual: list[tuple[int, str, str]] = []
    changes = spark.readStream.format("tablestore").option("rowkind", "kind").load(table.location)
    query = (
        changes.writeStream.foreachBatch(
            lambda frame, _: actual.extend((r["k"], r["v"], r["kind"]) for r in frame.collect())
        )
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    return sorted(actual)


def test_spark_reads_the_log_behind_the_snapshot_and_streams_it_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = LOGGED.create(tmp_path / "lake")
    table.write([{"k": 1, "v": "a"}, {"k": 3, "v": "z"}])
    assert collected(spark, table, tmp_path / "c") == [(1, "a", "+I"), (3, "z", "+I")]
    with table.writer() as writer:
        writer.write([{"k": 1, "v": "b"}, {"k": 2, "v": "c"}])
        frame = spark.read.format("tablestore").option("tablestore.scan.log", "true").load(table.location)
        rows = sorted((r["k"], r["v"]) for r in frame.collect())
        assert rows == [(1, "b"), (2, "c"), (3, "z")]
        assert frame.where("k = 2").count() == 1
        assert spark.read.format("tablestore").load(table.location).count() == 2
        changes = [(1, "a", "-U"), (1, "b", "+U"), (2, "c", "+I")]
        assert collected(spark, table, tmp_path / "c") == changes
    assert collected(spark, table, tmp_path / "c") == []
    table.write([{"k": 2, "v": "d"}])
    assert collected(spark, table, tmp_path / "c") == [(2, "c", "-U"), (2, "d", "+U")]
