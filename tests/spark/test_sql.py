"""SELECT by Spark gives what the embedded engine gives; a lake's tables have names in a plain `spark.sql`."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tablestore as ts
from datasets.tpch.queries import QUERIES
from datasets.tpch.tables import changed, loaded

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> ts.Lake:
    """Tables of TPC-H with changes unmerged, and a small one in the database `default`."""
    lake = ts.connect(tmp_path_factory.mktemp("spark-sql") / "lake")
    loaded(lake, "0.01")
    changed(lake, "0.01", 1)
    small = lake.create_table(
        "small",
        schema={"k": ts.INT, "s": ts.STRING, "d": ts.DECIMAL(8, 2), "at": ts.TIMESTAMP(3)},
        primary_key=["k"],
    )
    small.write(pa.table({"k": [1, 2], "s": ["a", "b'\\"], "d": [Decimal("1.50"), None]}))
    small.write(pa.table({"k": [2, 3], "s": ["c", None], "d": [Decimal(7), Decimal("-2.25")]}))
    session = ts.sql_session(lake)
    session.sql("CREATE TABLE times (k INT, at TIMESTAMP(6), c TIME(3))")
    at = ["1582-10-04 23:59:59.999999", "1969-12-31 23:59:59.5", "2024-02-29 12:00:00.129456"]
    rows = ", ".join(f"({k}, TIMESTAMP '{t}', TIME '12:34:56.789')" for k, t in enumerate(at))
    session.sql(f"INSERT INTO times VALUES {rows}")
    return lake


def alike(a: object, b: object) -> bool:
    return math.isclose(a, b, rel_tol=1e-12) if isinstance(a, float) and isinstance(b, float) else a == b


def require_same(lake: ts.Lake, spark: SparkSession, *statements: str) -> None:
    tables = []
    for session in (ts.sql_session(lake), ts.sql_session(lake, spark=spark)):
        for statement in statements:
            result = session.sql(statement)
        tables.append(result.to_arrow())
    ours, theirs = tables
    assert ours.schema == theirs.schema
    assert ours.num_rows == theirs.num_rows
    for left, right in zip(ours.columns, theirs.columns, strict=True):
        assert all(alike(a, b) for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True))


@pytest.mark.large
def test_queries_of_tpch(shop: ts.Lake, spark: SparkSession, request: pytest.FixtureRequest):
    """Four of them, with `--rounds` above 5 all 22."""
    for number in sorted(QUERIES) if request.config.option.rounds > 5 else (1, 3, 6, 21):
        print(f"query {number}")
        require_same(shop, spark, "USE tpch", QUERIES[number])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM small ORDER BY k",
        "SELECT k / 2 AS h, d / 2 AS q, count(*) OVER () FROM small ORDER BY k",
        "SELECT a.k, b.s FROM small a LEFT JOIN small b ON a.k = b.k + 1 ORDER BY s, k",
        "SELECT sum(k) AS n, avg(d) AS m, max(s), min(at) FROM small WHERE k > 1",
        "WITH x AS (SELECT k, s || '!' AS t FROM small) SELECT upper(t) FROM x WHERE t = 'c!'",
        "SELECT s, 'it''s \\ n' AS t FROM small /*+ OPTIONS('scan.snapshot-id' = '1') */ ORDER BY k",
        "SELECT snapshot_id, commit_kind FROM small$snapshots ORDER BY 1",
        "WITH x AS (SELECT * FROM small) SELECT a.k, b.k FROM x a LEFT JOIN (SELECT k FROM x WHERE d > 2) b "
        "ON a.k = b.k ORDER BY 1",
        "VALUES (1, 'a'), (2, 'b')",
        "SELECT k + 2147483647 AS w, CAST(k AS BIGINT) * 9223372036854775807 AS b, -k % 2 AS m, "
        "k / 2e0 AS h, d / k AS q, d * d AS s, "
        " d / CAST(0 AS DOUBLE) AS i, 1 - d AS r, 7 % d AS x FROM small ORDER BY k",
        "SELECT CAST(k + 300 AS TINYINT) AS t, CAST(d AS DECIMAL(2, 1)) AS e, CAST(k > 1 AS STRING) AS b, "
        "CAST(at AS STRING) AS s, CAST(k AS CHAR(3)) AS c, CAST(d AS DOUBLE) AS f, "
        "CAST(1e7 * k AS STRING) AS x, "
        "ABS(-k) AS a, SIGN(d) AS g, ROUND(d, 1) AS r, MOD(k, 2) AS m FROM small ORDER BY k",
        "SELECT avg(k) AS a, avg(CAST(k AS DOUBLE)) AS f, sum(DISTINCT CAST(k AS BIGINT)) AS s, "
        "sum(d) / count(*) AS m, var_samp(k) AS v, stddev_pop(d) AS p FROM small GROUP BY k ORDER BY a",
        "SELECT CAST(at AS TIMESTAMP(0)) AS t0, CAST(at AS TIMESTAMP(2)) AS t2, CAST(at AS TIME) AS c, "
        "CAST(CAST(at AS TIMESTAMP_LTZ(3)) AS TIMESTAMP_LTZ(1)) AS z, TIME '12:34:56' AS l, "
        "CAST(TIME '12:34:56' AS STRING) AS s, CAST(at AS STRING) AS r, "
        "CAST('1969-12-31 23:59:59.987' AS TIMESTAMP(1)) AS o FROM times "
        "WHERE c > TIME '00:00:01' ORDER BY k",
        "SELECT sin(k) AS a, cos(d) AS b, tan(k) AS c, atan(k) AS d, atan2(k, 2) AS e, sinh(k) AS f, "
        "cosh(k) AS g, tanh(k) AS h, degrees(k) AS i, radians(k) AS j, pow(k, 2) AS l, nvl2(d, 'a', s) AS m "
        "FROM small ORDER BY k",
        "SELECT DISTINCT upper(s) AS u, k + 1 FROM small ORDER BY upper(s), k + 1",
        "SELECT * FROM small$files LIMIT 0",
        "SELECT * FROM times$audit_log",
        "SELECT k FROM times WHERE k > 0 ORDER BY k",
        "SELECT CASE WHEN k IN (SELECT k FROM small WHERE d > 2) THEN 'big' END AS c FROM small ORDER BY k",
    ],
)
@pytest.mark.sample(1)
def test_other_queries(shop: ts.Lake, spark: SparkSession, query: str):
    require_same(shop, spark, query)


def test_the_engine_is_a_setting(shop: ts.Lake, spark: SparkSession):
    session = ts.sql_session(shop)
    session.sql("SET 'execution.engine' = 'spark'")
    assert session.sql("SELECT count(*) AS n FROM small").to_arrow().to_pydict() == {"n": [3]}
    assert not [t.name for t in spark.catalog.listTables() if t.name.startswith("tablestore_")]


def test_what_spark_means_otherwise_is_refused_by_name(shop: ts.Lake, spark: SparkSession):
    session = ts.sql_session(shop, spark=spark)
    with pytest.raises(ts.Unsupported, match=r"SPLIT_INDEX\(\) by Spark"):
        session.sql("SELECT split_index(s, ',', 0) FROM small")
    with pytest.raises(ts.Unsupported, match="as a table"):
        session.sql("SELECT * FROM read_files('/etc')")


def test_nanoseconds_fail_by_the_name_of_their_column_where_it_is_read(shop: ts.Lake, spark: SparkSession):
    session = ts.sql_session(shop, spark=spark)
    session.sql("CREATE TABLE IF NOT EXISTS nanos (k INT, at TIMESTAMP(9))")
    session.sql("INSERT INTO nanos VALUES (1, TIMESTAMP '2020-01-01 00:00:00.123456789')")
    assert session.sql("SELECT count(*) AS n, max(k) AS k FROM nanos").to_arrow().to_pylist() == [
        {"n": 1, "k": 1}
    ]
    with pytest.raises(
        ts.TablestoreError, match=r"column 'at'.*SET 'execution\.engine' = 'embedded'"
    ) as failed:
        session.sql("SELECT at FROM nanos WHERE k = 1").to_arrow()
    assert "UDF" not in str(failed.value)
    session.sql("SET 'execution.engine' = 'embedded'")
    assert session.sql("SELECT at FROM nanos WHERE k = 1").to_arrow().num_rows == 1


def test_insert_of_what_spark_computed(shop: ts.Lake, spark: SparkSession):
    session = ts.sql_session(shop, spark=spark)
    session.sql("CREATE TABLE IF NOT EXISTS kinds (s STRING, n BIGINT)")
    assert session.sql("INSERT INTO kinds SELECT s, count(*) FROM small GROUP BY s").rows_affected == 3
