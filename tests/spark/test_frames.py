"""Tables as DataFrames, DataFrames into tables, and `format("tablestore")` in batch and streaming."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import tablestore as ts
from tablestore.core.errors import NotFound
from tablestore.spark import to_spark, write_df

pytestmark = pytest.mark.spark
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("price", pa.decimal128(15, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("ratio", pa.float64()),
        ("raw", pa.binary()),
        ("small", pa.int8()),
        ("yes", pa.bool_()),
    ]
)
COLUMNS = [
    "id",
    "concat('n', id) name",
    "cast(id as decimal(15,2)) price",
    "date_add(date'2020-01-01', cast(id as int)) day",
    "timestamp_ntz'2020-01-01 00:00:00' at",
    "cast(id as double) ratio",
    "cast(concat('b', id) as binary) raw",
    "cast(id % 100 as tinyint) small",
    "id % 2 = 0 yes",
]


def goods(lake: ts.Lake, name: str = "d.goods", **options: object) -> ts.Table:
    given = {"bucket": 2, "write-only": True, "changelog-producer": "input", **options}
    return lake.create_table(name, schema=SCHEMA, primary_key=["id"], options=given)


def frame(spark, first: int, last: int):
    return spark.range(first, last).selectExpr(*COLUMNS)


def plan_of(df) -> str:
    return df._jdf.queryExecution().executedPlan().toString()


def test_a_table_without_overlap_is_a_pure_native_scan(spark, lake: ts.Lake):
    table = goods(lake)
    write_df(frame(spark, 0, 300), table)
    df = to_spark(table, spark, columns=["id", "price"])
    plan = plan_of(df)
    assert "FileScan parquet" in plan
    assert "BatchScan" not in plan
    assert "name" not in plan.partition("ReadSchema")[2]
    assert df.schema.names == ["id", "price"]
    assert sorted(r.id for r in df.collect()) == list(range(300))
    table.compact(full=True)
    whole = to_spark(table.refresh(), spark)
    assert "_VALUE_KIND" not in plan_of(whole)
    assert sorted(whole.collect()) == sorted(frame(spark, 0, 300).collect())


def test_what_must_be_merged_is_merged(spark, lake: ts.Lake):
    table = goods(lake)
    write_df(frame(spark, 0, 100), table)
    write_df(frame(spark, 500, 600), table)
    write_df(frame(spark, 90, 110).withColumn("name", F.lit("newer")), table)
    table.delete(ts.col("id") == 5)
    df = to_spark(table, spark)
    assert "FileScan parquet" in plan_of(df)
    assert "; 12 rows superseded" in plan_of(df)
    assert "BatchScan" not in plan_of(df)
    rows = {r.id: r for r in df.collect()}
    assert sorted(rows) == [i for i in range(110) if i != 5] + list(range(500, 600))
    assert {i for i, r in rows.items() if r.name == "newer"} == set(range(90, 110))
    first = to_spark(table.at(snapshot=1), spark)
    assert sorted(r.id for r in first.collect()) == list(range(100))


@pytest.mark.parametrize(
    "where",
    [
        (ts.col("id") > 10) & (ts.col("id") <= 20),
        ts.col("day").is_in([date(2020, 1, 15), "2020-01-16"]) | (ts.col("price") == Decimal("7.00")),
        ts.col("name").startswith("n1") & ~(ts.col("small") == 1) & ts.col("at").is_not_null(),
        ~ts.col("name").is_in(["n1", "n2"]) & (ts.col("at") < datetime(2021, 1, 1)),
        ts.col("raw").is_null(),
        r"name LIKE 'n_2%' OR name LIKE '%7' AND NOT name LIKE '%\%%'",
    ],
    ids=lambda p: repr(p)[:40],
)
@pytest.mark.sample(2)
def test_a_condition_means_the_same_in_spark(spark, lake: ts.Lake, where: ts.col):
    table = goods(lake)
    write_df(frame(spark, 0, 120), table)
    expected = sorted(table.scan(["id"], where).to_arrow()["id"].to_pylist())
    assert sorted(r.id for r in to_spark(table, spark, columns=["id"], where=where).collect()) == expected


@pytest.mark.large
def test_filters_reach_the_format_and_say_the_same(spark, lake: ts.Lake):
    table = goods(lake)
    write_df(frame(spark, 0, 200), table)
    write_df(frame(spark, 0, 200).withColumn("ratio", F.lit(float("nan"))).where("id < 3"), table)
    reader = spark.read.format("tablestore").load(table.location)
    df = reader.where(
        "id >= 5 and day < date'2020-01-10' and name like 'n%' and name like '%n%' and price in (6, 7, 8)"
    )
    assert sorted(r.id for r in df.collect()) == [6, 7, 8]
    assert sorted(r.id for r in reader.where("ratio > 197").collect()) == [0, 1, 2, 198, 199]
    some = (
        spark.read.format("tablestore")
        .option("columns", "name,id")
        .option("snapshot-id", 1)
        .load(table.location)
    )
    assert some.where("id = 2").collect() == [("n2", 2)]


@pytest.mark.large
def test_a_frame_may_be_joined_with_a_part_of_itself(spark, lake: ts.Lake):
    """Spark gives the conditions of one place of a relation to all, so by default it applies them itself."""
    table = goods(lake)
    write_df(frame(spark, 0, 20), table)
    write_df(frame(spark, 0, 20), table)  # rows that must be merged
    loaded = spark.read.format("tablestore").load(table.location)
    for all_rows in (loaded, table.to_spark(spark), table.to_spark(spark, where="id < 18")):
        some = all_rows.where("id > 5").select(F.col("id").alias("other"))
        rows = all_rows.join(some, F.col("id") == F.col("other"), "left").select("id", "other").collect()
        ids = [r.id for r in all_rows.select("id").collect()]
        assert sorted(map(tuple, rows)) == [(i, i if i > 5 else None) for i in sorted(ids)]


def test_of_rows_with_one_key_the_greatest_wins_when_asked(spark, lake: ts.Lake):
    table = goods(lake)
    versions = spark.range(0, 4000).selectExpr(
        *[c.replace("id", "(id % 10)") if c != "id" else "id % 10 id" for c in COLUMNS], "id version"
    )
    ordered = versions.withColumn("ratio", F.col("version").cast("double")).drop("version").repartition(4)
    write_df(ordered, table, order_by="ratio")
    assert sorted(table.scan(["ratio"]).to_arrow()["ratio"].to_pylist()) == [
        float(i) for i in range(3990, 4000)
    ]


def test_a_frame_with_row_kinds_deletes_and_a_replay_adds_nothing(spark, lake: ts.Lake):
    table = goods(lake)
    write_df(frame(spark, 0, 10), table)
    gone = frame(spark, 3, 5).withColumn("kind", F.lit("-D"))
    first = write_df(gone, table, row_kind_column="kind", user="u", identifier=4)
    again = write_df(gone, table, row_kind_column="kind", user="u", identifier=4)
    assert (first.replayed, again.replayed, again.snapshots) == (False, True, ())
    assert table.scan().count() == 8
    with pytest.raises(NotFound, match="nmae"):
        write_df(frame(spark, 0, 1).withColumn("nmae", F.lit(1)), table)
    assert table.check() == []


def test_the_format_writes_batches(spark, lake: ts.Lake):
    table = goods(lake)
    frame(spark, 0, 50).write.format("tablestore").mode("append").save(table.location)
    assert table.scan().count() == 50
    with pytest.raises(PySparkException, match=r"Table\.overwrite"):
        frame(spark, 0, 1).write.format("tablestore").mode("overwrite").save(table.location)
    with pytest.raises(PySparkException, match="no table at"):
        spark.read.format("tablestore").load(str(table.location) + "x").count()
    assert table.scan().count() == 50


def copy(spark, source: ts.Table, target: ts.Table, checkpoint: Path) -> None:
    rows = spark.readStream.format("tablestore").option("rowkind", "kind").load(source.location)
    sink = rows.writeStream.format("tablestore").option("path", target.location).option("rowkind", "kind")
    sink = sink.option("user", "copy").option("checkpointLocation", str(checkpoint))
    sink.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.large
def test_a_stream_of_one_table_into_another_keeps_them_equal(spark, lake: ts.Lake, tmp_path: Path):
    source, target = goods(lake), goods(lake, "d.copy")
    write_df(frame(spark, 0, 100), source)
    copy(spark, source, target, tmp_path / "ck")
    source.update({"name": "changed"}, where=ts.col("id") < 10)
    source.delete(ts.col("id") >= 90)
    copy(spark, source, target, tmp_path / "ck")
    order = [("id", "ascending")]
    assert target.scan().to_arrow().sort_by(order) == source.scan().to_arrow().sort_by(order)
    before = target.store.snapshots.latest_id()
    copy(spark, source, target, tmp_path / "ck")
    assert target.store.snapshots.latest_id() == before
    assert target.position("copy")[0] == 1
    assert target.check() == []


@pytest.mark.large
def test_scan_options_say_what_is_read(spark, lake: ts.Lake):
    table = lake.create_table(
        "d.two", schema={"p": ts.INT, "v": ts.STRING}, partition_by=["p"], options={"bucket": -1}
    )
    table.branches.create("b")
    table.write([{"p": 1, "v": "main"}])
    table.branch("b").write([{"p": 1, "v": "b"}, {"p": 2, "v": "b"}])
    table.write([{"p": 3, "v": "main"}])
    read = spark.read.format("tablestore").option("scan.fallback-branch", "b")
    wanted = [(1, "main"), (2, "b"), (3, "main")]
    assert sorted(map(tuple, read.load(table.location).collect())) == wanted
    both = table.with_options({"scan.fallback-branch": "b"})
    assert sorted(map(tuple, to_spark(both, spark).collect())) == wanted
    assert sorted(map(tuple, to_spark(both.at(snapshot=1), spark).collect())) == wanted[:2]
    assert [
        tuple(r) for r in read.option("scan.snapshot-id", "1").load(table.location).where("p = 2").collect()
    ] == [(2, "b")]


@pytest.mark.large
def test_options_that_have_no_effect_are_refused_by_name(spark, lake: ts.Lake):
    table = goods(lake)
    table.write([{"id": 1, "name": "a"}])
    table.tags.create("one")
    table = table.alter(ts.rename("name", "called"))
    table.write([{"id": 2, "called": "b"}])

    def read(**options: str) -> list[tuple]:
        rows = spark.read.format("tablestore").options(**options).load(table.location)
        return [tuple(r) for r in rows.where("id > 0").select("id").collect()]

    assert (
        spark.read.format("tablestore").option("scan.tag-name", "one").load(table.location).columns[1]
        == "name"
    )
    assert read(**{"scan.tag-name": "one"}) == read(**{"scan.snapshot-id": "1"}) == [(1,)]
    assert read(**{"incremental-between": "1,2"}) == [(2,)]
    wrong = {"scan.snapshotid": "did you mean 'scan.snapshot-id'", "my.own": "unknown option"}
    wrong["start"] = "of streams"
    for key, said in wrong.items():
        with pytest.raises(PySparkException, match=said):
            read(**{key: "1"})
    rows = (
        spark.createDataFrame([(3, "c")], "id long, called string").write.format("tablestore").mode("append")
    )
    with pytest.raises(PySparkException, match="no effect in a write"):
        rows.option("scan.snapshot-id", 1).save(table.location)
    with pytest.raises(PySparkException, match="of streaming sinks"):
        rows.option("user", "me").save(table.location)
    stream = spark.readStream.format("tablestore").option("scan.mode", "from-snapshot")
    rows = stream.option("scan.snapshot-id", 2).load(table.location).select("id")
    sink = rows.writeStream.format("memory").queryName("from_two").trigger(availableNow=True).start()
    sink.awaitTermination()
    assert [tuple(r) for r in spark.table("from_two").collect()] == [(2,)]
    with pytest.raises(PySparkException, match=r"CREATE TEMPORARY VIEW .* call lake\.register\(spark\)"):
        spark.sql(f"CREATE TABLE made USING tablestore OPTIONS (path '{table.location}')")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW seen USING tablestore OPTIONS (path '{table.location}')")
    assert spark.table("seen").count() == 2


def test_frames_of_spark_are_schemas_rows_and_keys(spark, lake: ts.Lake):
    df = spark.sql("select 1 id, timestamp'2026-01-01 00:00:00' at, cast(2 as double) n, map('a', 1) m")
    table = lake.create_table("d.made", schema=df, primary_key=["id"])
    types = {f.name: str(f.type.as_nullable()) for f in table.store.schema.fields}
    assert types == {
        "id": "INT",
        "at": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "n": "DOUBLE",
        "m": "MAP<STRING NOT NULL, INT NOT NULL>",
    }
    table.write(df)
    assert table.get_many(df.select("id"))["m"].to_pylist() == [[("a", 1)]]
    narrow = lake.create_table("d.narrow", schema={"id": ts.BIGINT, "n": ts.TINYINT}, primary_key=["id"])
    write_df(df.select("id", "n"), narrow)
    assert narrow.get({"id": 1}) == {"id": 1, "n": 2}
    assert table.delete(df.select("id")).rows == 1


def test_a_table_without_rows_is_read(spark, lake: ts.Lake):
    empty = lake.create_table("d.empty", schema={"id": ts.BIGINT}, primary_key=["id"])
    for _ in range(2):
        df = spark.read.format("tablestore").load(empty.location)
        assert (df.count(), df.where("id > 3").collect(), to_spark(empty, spark).collect()) == (0, [], [])
        empty.write({"id": [1]})
        empty.delete("id = 1")
