"""The tables of a lake as a catalog of Spark: they come and go, are written, and have a past."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tablestore as ts

pytestmark = pytest.mark.spark


@pytest.fixture
def named(spark: SparkSession, lake: ts.Lake) -> Iterator[ts.Lake]:
    """A lake with a table, registered."""
    orders = lake.create_table("shop.orders", schema={"k": ts.INT, "v": ts.STRING}, primary_key=["k"])
    orders.write({"k": [1, 2], "v": ["a", "b"]})
    assert lake.register(spark) == ["shop.orders"]
    yield lake
    spark.catalog.setCurrentCatalog("spark_catalog")


def rows(spark: SparkSession, query: str) -> list[tuple]:
    return sorted(map(tuple, spark.sql(query).collect()))


def test_tables_are_there_by_name_as_they_are(spark: SparkSession, named: ts.Lake):
    assert rows(spark, "SELECT * FROM shop.orders") == [(1, "a"), (2, "b")]
    spark.sql("INSERT INTO shop.orders VALUES (2, 'B'), (3, 'c')")
    assert rows(spark, "SELECT * FROM shop.orders WHERE k > 1") == [(2, "B"), (3, "c")]
    assert named.table("shop.orders").get({"k": 2}) == {"k": 2, "v": "B"}
    twice = (
        "SELECT a.k, b.v FROM shop.orders a LEFT JOIN (SELECT * FROM shop.orders WHERE k > 2) b ON a.k = b.k"
    )
    assert rows(spark, twice + " WHERE a.k > 1") == [(2, None), (3, "c")]
    assert spark.table("shop.orders").count() == 3
    named.create_table("more.later", schema={"n": ts.INT}).write({"n": [7]})
    assert rows(spark, "SELECT n FROM more.later") == [(7,)]
    assert [r.tableName for r in spark.sql("SHOW TABLES IN more").collect()] == ["later"]
    assert {"more", "shop"} <= {r.namespace for r in spark.sql("SHOW DATABASES").collect()}
    named.table("more.later").alter(ts.add("added", ts.STRING))
    assert spark.table("more.later").columns == ["n", "added"]
    assert [tuple(r) for r in spark.table("lake.more.later").collect()] == [(7, None)]
    named.drop_table("more.later")
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM more.later")
    with pytest.raises(PySparkException, match=r"lake\.create_table"):
        spark.sql("CREATE TABLE shop.made (k INT) USING tablestore")


@pytest.mark.large
def test_snapshots_tags_moments_and_system_tables(spark: SparkSession, named: ts.Lake):
    orders = named.table("shop.orders")
    orders.tags.create("first")
    orders.write({"k": [3], "v": ["c"]})
    assert spark.table("shop.orders").count() == 3
    assert rows(spark, "SELECT k FROM shop.orders VERSION AS OF 1") == [(1,), (2,)]
    assert rows(spark, "SELECT k FROM shop.orders VERSION AS OF 'first' WHERE k > 1") == [(2,)]
    assert rows(spark, "SELECT k FROM shop.orders WITH ('snapshot-id' = '1') WHERE k < 2") == [(1,)]
    assert rows(spark, "SELECT count(*) FROM shop.orders TIMESTAMP AS OF '2999-01-01'") == [(3,)]
    both = "SELECT count(*) FROM shop.orders UNION ALL SELECT count(*) FROM shop.orders VERSION AS OF 1"
    assert rows(spark, both) == [(2,), (3,)]
    kinds = "SELECT snapshot_id, commit_kind FROM shop.`orders$snapshots` WHERE snapshot_id > 1"
    assert rows(spark, kinds) == [(2, "APPEND")]
    assert rows(spark, "SELECT count(*) FROM shop.`orders$snapshots`") == [(2,)]
    with pytest.raises(PySparkException, match="99"):
        spark.sql("SELECT * FROM shop.orders VERSION AS OF 99")


def test_two_lakes_in_a_session_and_what_is_no_name(spark: SparkSession, named: ts.Lake, tmp_path):
    other = ts.connect(str(tmp_path / "other"))
    other.create_table("shop.orders", schema={"k": ts.INT}).write({"k": [9]})
    spark.range(2).createOrReplaceTempView("mine")
    assert other.register(spark, "second") == ["shop.orders"]
    assert rows(spark, "SELECT k FROM shop.orders UNION ALL SELECT k FROM lake.shop.orders") == [
        (1,),
        (2,),
        (9,),
    ]
    assert spark.table("mine").count() == 2
    for wrong in ("a.b", "", "spark_catalog"):
        with pytest.raises(ts.InvalidRequest, match="cannot be a catalog of Spark"):
            other.register(spark, wrong)


def test_the_example_of_the_guide_runs_when_pasted(
    spark: SparkSession, named: ts.Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(named.warehouse.removeprefix("file://") + "/..")
    page = Path(__file__).parents[2] / "notebooks" / "guide" / "spark.md"
    [example] = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    exec(compile(example, str(page), "exec"), {})
    assert "|       2|" in capsys.readouterr().out
