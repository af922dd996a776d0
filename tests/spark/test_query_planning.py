"""Queries of Spark over tables: each sees the newest snapshot, all places of a table the same one, and each
is read by its own conditions."""

from __future__ import annotations

import random
import re
from bisect import bisect
from collections import Counter
from datetime import date
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tablestore as ts
from tablestore.meta import partition_sweep
from tablestore.spark import query_planning, table_frames, to_spark
from tablestore.spark.query_planning import predicate_of

pytestmark = pytest.mark.spark
DAYS = [None, date(1582, 10, 10), date(1999, 12, 31), date(2024, 2, 29)]
SCHEMA = {"p": ts.INT, "k": ts.INT, "n": ts.BIGINT, "s": ts.STRING, "d": ts.DATE}


def viewed(spark: SparkSession, table: ts.Table, name: str, **options: object) -> str:
    given = ", ".join(f"'{k}' '{v}'" for k, v in {"path": table.location, **options}.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} USING tablestore OPTIONS ({given})")
    return name


def keyed(lake: ts.Lake, name: str, **options: object) -> ts.Table:
    return lake.create_table(
        name,
        schema=SCHEMA,
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": 2, "write-only": True, **options},
    )


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan())


def test_a_view_has_the_rows_that_are_inserted_through_it_and_those_of_others(
    spark: SparkSession, lake: ts.Lake
):
    table = lake.create_table("d.t", schema={"k": ts.INT, "v": ts.STRING})
    viewed(spark, table, "seen")
    frame = spark.read.format("tablestore").load(table.location)
    count = "SELECT count(*), max(v) FROM seen"
    assert [tuple(r) for r in spark.sql(count).collect()] == [(0, None)]
    spark.sql("INSERT INTO seen VALUES (1, 'a')")
    assert [tuple(r) for r in spark.sql(count).collect()] == [(1, "a")]
    table.write({"k": [2], "v": ["b"]})
    assert [tuple(r) for r in spark.sql(count).collect()] == [(2, "b")]
    assert frame.where("k = 2").count() == frame.count() - 1 == 1
    kept = to_spark(table, spark)
    table.write({"k": [3], "v": ["c"]})
    assert (kept.count(), frame.count()) == (2, 3)  # a frame of to_spark is of one snapshot
    pinned = viewed(spark, table, "second", **{"snapshot-id": 2})
    assert spark.table(pinned).count() == 2


def test_all_places_of_a_table_in_a_query_have_one_snapshot(
    spark: SparkSession, lake: ts.Lake, monkeypatch: pytest.MonkeyPatch
):
    table = keyed(lake, "d.t")
    table.write({"p": [1], "k": [0]})
    viewed(spark, table, "moving")
    usual, more = query_planning.frame_of_scan, iter(range(1, 100))

    def with_a_commit_between(*args: Any, **how: Any) -> DataFrame:
        actual = usual(*args, **how)
        table.write({"p": [1], "k": [next(more)]})
        return actual

    monkeypatch.setattr(query_planning, "frame_of_scan", with_a_commit_between)
    query = (
        "WITH c AS (SELECT * FROM moving WHERE k >= 0) SELECT (SELECT count(*) FROM moving), count(*), "
        "(SELECT max(k) FROM c) FROM c WHERE k IN (SELECT k FROM moving) UNION ALL "
        "SELECT count(*), 0, max(k) FROM moving"
    )
    rows = [tuple(r) for r in spark.sql(query).collect()]
    assert next(more) > 4
    assert rows == [(1, 1, 0), (1, 0, 0)]
    assert spark.sql("SELECT count(*) FROM moving").first()[0] > 1


def filled(lake: ts.Lake, name: str, by: random.Random) -> ts.Table:
    """A table with rows that must be merged, deleted rows, and partitions that need nothing."""
    kind = by.choice(["deduplicate", "deduplicate", "partial-update", "aggregation", "append", "sequence"])
    if kind == "append":
        table = lake.create_table(name, schema=SCHEMA, partition_by=["p"])
    elif kind == "sequence":
        table = keyed(lake, name, **{"sequence.field": "n"})
    else:
        more = {"fields.n.aggregate-function": "sum"} if kind == "aggregation" else {}
        table = keyed(lake, name, **{"merge-engine": kind}, **more)
    for _ in range(by.randint(2, 5)):
        rows = [
            {
                "p": by.randrange(3),
                "k": k,
                "n": by.choice([None, by.randrange(5)]) if kind != "sequence" else by.randrange(5),
                "s": by.choice([None, "", "a", "ab", "b"]),
                "d": by.choice(DAYS),
            }
            for k in by.sample(range(30), by.randint(1, 15))
        ]
        table.write(rows)
        if kind == "deduplicate" and by.random() < 0.5:
            table.delete(ts.col("k") == by.randrange(30))
        if kind != "append" and by.random() < 0.3:
            table.compact(full=True, where=f"p = {by.randrange(3)}")
    return table


def condition(by: random.Random, of: str = "") -> str:
    column, value = by.choice(
        [
            ("p", str(by.randrange(4))),
            ("k", str(by.randrange(30))),
            ("n", str(by.randrange(5))),
            ("s", by.choice(["''", "'a'", "'b'"])),
            ("d", by.choice(["DATE '1582-10-10'", "DATE '2000-01-01'"])),
        ]
    )
    name = of + column
    shapes = [f"{name} {sign} {value}" for sign in ("=", "<", "<=", ">", ">=", "<>", "<=>")]
    shapes += [f"{name} IN ({value})", f"NOT {name} = {value}", f"{name} IS NULL", f"{name} IS NOT NULL"]
    shapes += [f"({name} = {value} OR {of}k < {by.randrange(30)})", f"coalesce({name}, {value}) = {value}"]
    shapes += [f"{of}s LIKE 'a%'", f"{of}s LIKE '%b'", f"{of}k IN (1, 5, {by.randrange(30)})"]
    shapes += [f"{of}k IN (SELECT k FROM V WHERE p = {by.randrange(3)})", f"{value} <= {name}"]
    return by.choice(shapes)


def query(by: random.Random) -> str:
    """A query over the view V, which stands there twice or more."""
    a, b, c = condition(by), condition(by), condition(by, "x.")
    join = by.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
    shown = "x.p, x.k, x.s" if "SEMI" in join or "ANTI" in join else "x.p, x.k, y.k, y.n"
    left, right = f"(SELECT * FROM V WHERE {a})", f"(SELECT * FROM V WHERE {b})"
    exists = "EXISTS (SELECT 1 FROM V y WHERE y.k = x.k AND y.p <> x.p)"
    largest = f"(SELECT max(k) FROM V WHERE {a})"
    return by.choice(
        [
            f"SELECT {shown} FROM {left} x {join} {right} y ON x.k = y.k",
            f"SELECT k, s FROM {left} UNION ALL SELECT k, s FROM {right} UNION ALL SELECT k, s FROM V",
            f"WITH x AS {left} SELECT * FROM x UNION ALL SELECT * FROM x WHERE {c}",
            f"SELECT x.p, count(*), sum(x.n), {largest} FROM V x WHERE {c} GROUP BY x.p",
            f"SELECT x.k FROM V x WHERE {exists} AND {c}",
            f"SELECT * FROM V WHERE {a} AND {b} EXCEPT SELECT * FROM {right}",
            f"SELECT count(*) FROM {left} UNION ALL SELECT count(*) FROM V",
        ]
    )


def test_random_queries_answer_as_over_plain_parquet(
    spark: SparkSession, lake: ts.Lake, tmp_path, seeds: tuple[int, ...]
):
    for seed in seeds:
        by = random.Random(seed)
        table = filled(lake, f"d.t{seed}", by)
        ours = viewed(spark, table, f"ours_{seed}")
        pq.write_table(table.scan().to_arrow(), str(tmp_path / f"{seed}.parquet"))
        spark.read.parquet(str(tmp_path / f"{seed}.parquet")).createOrReplaceTempView(f"plain_{seed}")
        for text in (query(by) for _ in range(5)):
            answers = [
                Counter(map(tuple, spark.sql(re.sub(r"\bV\b", name, text)).collect()))
                for name in (ours, f"plain_{seed}")
            ]
            assert answers[0] == answers[1], f"seed {seed}, {table.options}: {text}"


def test_a_plan_shows_what_is_left_out(spark: SparkSession, lake: ts.Lake):
    table = keyed(lake, "d.t", bucket=1)
    for p in range(4):
        table.write({"p": [p] * 3, "k": [1, 2, 3], "s": ["a", "b", "c"]})
    table.write({"p": [1], "k": [2], "s": ["newer"]})
    viewed(spark, table, "skipping")
    plan = plan_of(spark.sql("SELECT k, s FROM skipping WHERE p = 1 AND n IS NULL"))
    assert (
        "d.db/t snapshot 5: skipped none of 2 files of 1 partition, 3 of 5 manifests unread; 1 row superseded"
        in plan
    )
    assert "ReadSchema: struct<p:int,k:int,n:bigint,s:string" in plan
    whole = plan_of(spark.sql("SELECT s FROM skipping WHERE k > 3"))
    assert "skipped 5 of 5 files: 5 by key range" in whole
    off = plan_of(spark.table(viewed(spark, table, "unskipping", pushdown="false")).where("k > 3"))
    assert "skipped none of 5 files" in off
    summed = keyed(lake, "d.sums", **{"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"})
    summed.write({"p": [1, 2], "k": [1, 1], "n": [1, 1]})
    summed.write({"p": [1, 2], "k": [1, 1], "n": [1, 1]})
    frame = to_spark(summed, spark).where("p = 2").select("n")
    assert "BatchScan tablestore" in plan_of(frame)
    assert "d.db/sums snapshot 2: skipped none of 2 files of 1 partition" in plan_of(frame)
    assert "1 split by Python workers: a merge that makes new values" in plan_of(frame)
    assert [r.n for r in frame.collect()] == [2]


def test_a_plan_says_why_python_workers_read(spark: SparkSession, lake: ts.Lake):
    altered = keyed(lake, "d.altered")
    altered.write({"p": [1], "k": [1]})
    altered = altered.alter(ts.add("later", ts.STRING))
    nanoseconds = lake.create_table("d.nanos", schema={"k": ts.INT, "at": ts.TIMESTAMP(9)})
    nanoseconds.write({"k": [1]})
    orc = keyed(lake, "d.orc", **{"file.format": "orc"})
    tolerant = keyed(lake, "d.tolerant").with_options({"scan.ignore-corrupt-files": True})
    for table in (orc, tolerant):
        table.write({"p": [1], "k": [1]})
    for table, why in (
        (altered, "files of older schemas"),
        (nanoseconds, "columns of TIME or of nanoseconds"),
        (orc, "files of another format than Parquet"),
        (tolerant, "damaged or lost files are passed over"),
    ):
        frame = to_spark(table, spark).select("k")
        assert f"by Python workers: {why}" in plan_of(frame)
        assert [tuple(r) for r in frame.collect()] == [(1,)]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_a_plan_in_parts_is_read_as_a_whole_one(
    lake: ts.Lake, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """The same files, rows to leave out and words, whoever merges."""
    table = keyed(lake, "d.t", **{"merge-engine": engine})
    for first, last in ((0, 40), (30, 50)):
        keys = range(first, last)
        table.write({"p": [k % 4 for k in keys], "k": list(keys), "s": ["x"] * len(keys)})
    table.compact(full=True, partition={"p": 1})
    scans = [table.scan(where=where) for where in (None, "p > 0", "k < 20 AND p <> 3")]

    def parts() -> list[tuple[Any, ...]]:
        read = map(table_frames._parts, scans)
        return [(r.shown, sorted(f[:2] for f in r.files), lost_of(r), r.by_kind, r.rest) for r in read]

    def lost_of(read: table_frames.ScanParts) -> list[tuple[str, int]]:
        bits = np.unpackbits(np.frombuffer(read.lost, np.uint8), bitorder="little")
        places = sorted((place, path) for path, _, place in read.files if place is not None)
        lost = [places[bisect(places, (bit, "~")) - 1] + (bit,) for bit in np.flatnonzero(bits).tolist()]
        return sorted((path, bit - place) for place, path, bit in lost)

    whole = parts()
    monkeypatch.setattr(partition_sweep, "PART_ENTRIES", 1)
    assert [len([*scan.plan_parts()]) for scan in scans] == [4, 4, 4]
    assert parts() == whole
    _, files, lost, _, rest = whole[0]
    assert files
    assert (bool(lost), bool(rest)) == (engine == "deduplicate", engine != "deduplicate")


def test_too_many_rows_to_merge_are_merged_by_workers(
    spark: SparkSession, lake: ts.Lake, monkeypatch: pytest.MonkeyPatch
):
    table = keyed(lake, "d.t", bucket=1)
    for value in "ab":
        table.write({"p": [1] * 9, "k": list(range(9)), "s": [value] * 9})
    query = f"SELECT s FROM {viewed(spark, table, 'many')} WHERE k > 3"
    for most in (18, 17):
        monkeypatch.setattr(table_frames, "MOST_ROWS_MASKED", most)
        frame = spark.sql(query)
        assert ("9 rows superseded" in plan_of(frame)) == (most == 18)
        assert ("1 split by Python workers: many rows to merge" in plan_of(frame)) == (most == 17)
        assert ("BatchScan" in plan_of(frame)) == (most == 17)
        assert [tuple(r) for r in frame.collect()] == [("b",)] * 5


def test_rows_superseded_in_several_buckets_are_left_out_by_every_reader(
    spark: SparkSession, lake: ts.Lake, monkeypatch: pytest.MonkeyPatch
):
    """Bits of each bucket begin at a word of their own; files that nothing overlaps have none."""
    monkeypatch.setattr(table_frames, "MOST_BYTES_KEPT", 2_500)  # of two buckets
    table = keyed(lake, "d.t", bucket=3)
    table.write({"p": [k % 2 for k in range(700)], "k": list(range(700)), "s": ["a"] * 700})
    table.compact(full=True)
    table.write({"p": [0] * 60, "k": list(range(0, 600, 10)), "s": ["b"] * 60})
    table.delete([{"p": 0, "k": k} for k in range(2, 200, 4)])
    view = viewed(spark, table, "several")
    for vectorized in (True, False):
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
        try:
            frame = spark.sql(f"SELECT p, k, s FROM {view}")
            assert "FileScan" in plan_of(frame)
            assert "BatchScan" not in plan_of(frame)
            rows = sorted((r.p, r.k, r.s) for r in frame.collect())
            count = spark.sql(f"SELECT count(*) AS n FROM {view}").collect()[0].n
        finally:
            spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
        assert rows == sorted((r["p"], r["k"], r["s"]) for r in table.scan().to_arrow().to_pylist())
        assert count == len(rows) == 650
        assert len(table_frames._masks) == 2


@pytest.mark.large
def test_a_condition_of_a_frame_chooses_rows_whoever_reads_them(spark: SparkSession, lake: ts.Lake):
    for engine in ("deduplicate", "partial-update"):
        table = keyed(lake, f"d.{engine[:4]}", bucket=1, **{"merge-engine": engine})
        for first in (0, 5):
            table.write({"p": [1] * 10, "k": list(range(first, first + 10)), "s": ["x"] * 10})
        read = spark.read.format("tablestore").option("where", "k < 7 AND s = 'x'")
        for frame in (to_spark(table, spark, where=ts.col("k") < 7), read.load(table.location)):
            assert ("BatchScan" in plan_of(frame)) == (engine == "partial-update")
            assert (frame.count(), frame.where("k > 2").count()) == (7, 4)
            assert sorted(r.k for r in frame.select("k").collect()) == list(range(7))


def test_columns_that_change_after_a_view_was_made(spark: SparkSession, lake: ts.Lake):
    table = lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT, "w": ts.INT}, primary_key=["k"])
    table.write({"k": [1], "v": [7], "w": [8]})
    viewed(spark, table, "older")
    table = table.alter(ts.add("x", ts.STRING), ts.retype("v", ts.BIGINT), ts.drop("w"))
    table.write({"k": [2], "v": [9], "x": ["new"]})
    rows = spark.sql("SELECT k, v FROM older ORDER BY k")
    assert [tuple(r) for r in rows.collect()] == [(1, 7), (2, 9)]
    assert rows.schema["v"].dataType.simpleString() == "int"
    with pytest.raises(PySparkException, match="no column 'w'"):
        spark.sql("SELECT w FROM older").collect()


def test_what_spark_alone_decides_is_not_taken(lake: ts.Lake):
    schema = lake.create_table("d.t", schema={**SCHEMA, "f": ts.DOUBLE}).store.schema
    column = ["AttributeReference", "f"]
    number = ["Literal", "Double", 1.0]
    assert predicate_of([["EqualTo", column, number]], schema) is None
    k = ["AttributeReference", "k"]
    five, none = ["Literal", "Integer", 5], ["Literal"]
    assert predicate_of([["EqualTo", k, none], ["In", k, five, none], ["Cast", k]], schema) is None
    assert predicate_of([["Or", ["EqualTo", k, five], ["IsNaN", column]]], schema) is None
    taken = predicate_of([["LessThan", five, k], ["Not", ["In", k, five]], ["IsNaN", column]], schema)
    assert taken == (ts.col("k") > 5) & ~ts.col("k").is_in([5])


def test_a_frame_joined_with_itself_and_cached(spark: SparkSession, lake: ts.Lake):
    table = keyed(lake, "d.t")
    table.write({"p": [1, 2], "k": [1, 2]})
    frame = spark.read.format("tablestore").load(table.location)
    some = frame.where("p = 2").select(F.col("k").alias("other"))
    pairs = frame.join(some, F.col("k") == F.col("other"), "left").select("k", "other")
    assert sorted(map(tuple, pairs.collect())) == [(1, None), (2, 2)]
    kept = frame.cache()
    assert kept.count() == 2
    table.write({"p": [3], "k": [3]})
    assert kept.count() == 2  # Spark's cache keeps what it has
    kept.unpersist()
    assert frame.count() == 3
