"""Spark reads and writes tables on S3 through our data source; keys travel with the task, not in its text."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import tablestore as ts
from tests.servers.s3 import SECRET, S3Server

pytestmark = [pytest.mark.spark, pytest.mark.large]


def test_spark_reads_and_writes_on_s3(moto: S3Server, spark: SparkSession) -> None:
    lake = ts.connect(moto.bucket(), **moto.options)
    table = lake.create_table("shop.orders", schema={"k": ts.INT, "v": ts.STRING}, primary_key=["k"])
    table.write([{"k": k, "v": "x"} for k in range(100)])
    frame = table.to_spark(spark, where=ts.col("k") < 10)
    assert frame.count() == 10
    plan = frame._jdf.queryExecution().toString()
    assert SECRET not in plan
    assert "by Python workers: an object store, for which PySpark comes without hadoop-aws" in plan
    ts.spark.write_df(spark.createDataFrame([(1, "new"), (200, "more")], "k int, v string"), table)
    reached = {"path": table.location, **moto.options}
    spark.createDataFrame([(300, "direct")], "k int, v string").write.format("tablestore").mode(
        "append"
    ).options(**reached).save()
    assert spark.read.format("tablestore").options(**reached).load().count() == 102
    assert table.get({"k": 1}) == {"k": 1, "v": "new"}
    assert table.check() == []
