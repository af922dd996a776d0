"""Change-log tables without a primary key in Spark: rows as often as they are counted, counts never."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import tablestore as ts
from tablestore.cdc.change_feed import ChangeFeed
from tablestore.core.errors import NotFound, Unsupported
from tablestore.spark import to_spark, write_df

pytestmark = [pytest.mark.spark, pytest.mark.large]


def rows(frame) -> Counter:
    return Counter(tuple(r) for r in frame.collect())


def test_rows_are_written_read_and_followed_as_often_as_they_are_there(spark, lake: ts.Lake, tmp_path: Path):
    options = {"write-mode": "change-log", "bucket": 2, "bucket-key": "b"}
    t = lake.create_table("d.t", schema={"a": ts.INT, "b": ts.STRING}, options=options)
    changes = [(1, "x", "+I")] * 3 + [(2, "y", "+I"), (1, "x", "-D"), (3, "z", "-U")]
    write_df(spark.createDataFrame(changes, "a int, b string, kind string"), t, row_kind_column="kind")
    t.compact(full=True)
    wanted = {(1, "x"): 2, (2, "y"): 1}
    assert rows(to_spark(t, spark)) == wanted
    loaded = spark.read.format("tablestore").load(t.location)
    assert loaded.columns == ["a", "b"]
    assert rows(loaded.where(F.col("a") < 2).select("b")) == {("x",): 2}
    spark.createDataFrame([(2, "y")], "a int, b string").write.format("tablestore").mode("append").save(
        t.location
    )
    reader = spark.readStream.format("tablestore").option("rowkind", "kind").option("start", "1")
    query = (
        reader.load(t.location)
        .writeStream.format("memory")
        .queryName("counted")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    summed: Counter = Counter()
    for a, b, kind in rows(spark.sql("select * from counted")).elements():  # each task tells its own
        summed[a, b] += {"+I": 1, "-D": -1}[kind]
    assert summed == {(1, "x"): 2, (2, "y"): 2, (3, "z"): -1}
    with pytest.raises((PySparkException, NotFound), match="_count"):
        spark.read.format("tablestore").option("columns", "_count").load(t.location).collect()


def test_a_stream_of_rows_that_only_a_merge_makes_states_of_is_refused(lake: ts.Lake):
    t = lake.create_table(
        "d.p",
        schema={"k": ts.INT, "v": ts.INT},
        primary_key=["k"],
        options={"merge-engine": "partial-update"},
    )
    with pytest.raises(Unsupported, match="merge-engine partial-update without a changelog"):
        ChangeFeed(t.location).latest()
