"""Every function that has one value for a row gives the same by both engines at the edges of its arguments,
or Spark refuses it by name."""

from __future__ import annotations

import math
import random

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.sql import SparkSession

import tablestore as ts
from tablestore.core.errors import InvalidRequest, TablestoreError, Unavailable, Unsupported
from tablestore.sql.dialect.parser import read_query
from tablestore.sql.query.planning import prepared
from tablestore.sql.session import Session
from tablestore.sql.spark_engine import spark_text
from tests.spark.edge_calls import COLUMNS, calls

pytestmark = pytest.mark.spark
ZONE = "SET 'table.local-time-zone' = 'Europe/Berlin'"  # 2024-03-31 has no 02:30 there
DIFFERED = [
    *("LN(i)", "LN(x)", "LOG(x)", "LOG(2, x)", "LOG(1, x)", "LOG10(m)", "LOG2(n)", "ASIN(x)", "ACOS(i)"),
    *(
        "GREATEST(i, n, 3)",
        "LEAST(m, x)",
        "GREATEST(s, p)",
        "LEAST(d, t)",
        "POWER(m, x)",
        "POW(i, x)",
    ),
    *("SIGN(-x)", "CEIL(x)", "FLOOR(f)", "MOD(i, 0e0)", "MOD(x, f)", "x % 0e0", "LOCATE(p, s, 0)"),
    *("LOCATE('', s, 0)", "LOCATE(p, s, i)", "ARRAY_CONTAINS(a, i)", "ARRAY_CONTAINS(a, NULL)", "a[i]"),
    *("a[5]", "MAP['a', i]['a']", "TRANSLATE(' xa', p, 'b')", "LOWER(s)", "OVERLAY(s PLACING 'x' FROM 10)"),
    *("x || ''", "CONCAT(x, '')", "CAST(n AS TINYINT)", "CAST(m AS SMALLINT)", "CAST(x AS INT)"),
    *(
        "CAST(f AS BIGINT)",
        "TRY_CAST(s AS TIMESTAMP)",
        "CAST(t AS TIMESTAMP_LTZ(0))",
        "EXTRACT(ISOYEAR FROM d)",
        "EXTRACT(ISODOW FROM t)",
    ),
    *("DATE_FORMAT(t, 'yyyy-MM-dd HH:mm:ss')", "DATE_FORMAT(u, 'EEE D a h:mm:ss.SSS')"),
    *(
        "FLOOR(t TO HOUR)",
        "FLOOR(u TO MILLISECOND)",
        "FLOOR(d TO YEAR)",
        "CEIL(u TO WEEK)",
        "CEIL(t TO HOUR)",
    ),
]


@pytest.fixture
def session(lake: ts.Lake) -> Session:
    """The embedded engine over the table `v`, a row for each value of `COLUMNS`."""
    session = ts.sql_session(lake)
    session.sql(ZONE)
    session.sql(f"CREATE TABLE v (k INT, {', '.join(COLUMNS)})")
    columns = [[f"CAST({v} AS {name.split(' ', 1)[1]})" for v in values] for name, values in COLUMNS.items()]
    rows = (f"({k}, {', '.join(row)})" for k, row in enumerate(zip(*columns, strict=True)))
    session.sql(f"INSERT INTO v VALUES {', '.join(rows)}")
    return session


@pytest.fixture
def by_spark(lake: ts.Lake, session: Session, spark: SparkSession) -> Session:
    """Spark over the same table."""
    by_spark = ts.sql_session(lake, spark=spark)
    by_spark.sql(ZONE)
    return by_spark


def passes(session: Session, call: str) -> bool:
    """Whether Spark takes the call; what it does not take it refuses by name."""
    text = f"SELECT {call} AS c FROM v"
    tree = prepared(session, read_query(text), text).tree
    try:
        return bool(spark_text(tree, text, {}))
    except Unsupported as e:
        refused = str(e)
    assert "by Spark (the embedded engine has it)" in refused
    return False


def columns(session: Session, expressions: list[str]) -> list[pa.ChunkedArray]:
    shown = ", ".join(f"{e} AS c{i}" for i, e in enumerate(expressions))
    return list(session.sql(f"SELECT {shown} FROM v ORDER BY k").to_arrow().columns)


def has_values(session: Session, call: str) -> bool:
    """Whether the engine computes the call for every row."""
    try:
        return bool(columns(session, [call]))
    except TablestoreError:
        return False


def cells(column: pa.ChunkedArray) -> list[object]:
    """Values that Python can hold; a date may be outside of its years."""
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        column = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
    rows: list[object] = column.to_pylist()
    return rows


def same(a: object, b: object) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, float) or not isinstance(b, float):
        return type(a) is type(b) and a == b
    if math.isnan(a) or math.isnan(b) or a == 0:
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return math.isclose(a, b, rel_tol=1e-14)


def differing(session: Session, by_spark: Session, expressions: list[str]) -> list[str]:
    """Those whose values or types differ."""
    pairs = zip(columns(session, expressions), columns(by_spark, expressions), strict=True)
    collected = []
    for expression, (ours, theirs) in zip(expressions, pairs, strict=True):
        if ours.type != theirs.type or not same(cells(ours), cells(theirs)):
            collected.append(
                f"{expression}: {ours.type} {cells(ours)}, by Spark {theirs.type} {cells(theirs)}"
            )
    return collected


@pytest.mark.large
@pytest.mark.parametrize("part", range(8))
@pytest.mark.sample(1)
def test_what_differed(session: Session, by_spark: Session, part: int):
    """Every eighth of the calls."""
    asked = DIFFERED[part::8]
    assert [call for call in asked if not passes(by_spark, call)] == []
    assert differing(session, by_spark, asked) == []


@pytest.mark.large
def test_functions_of_the_table(session: Session, by_spark: Session, seeds: tuple[int, ...]):
    """Each seed has 40 calls of all; a call that has no value for some row has none by Spark, either."""
    every_call = [call for listed in calls().values() for call in listed]
    for seed in seeds:
        drawn = random.Random(seed).sample(every_call, 40)
        taken = [call for call in drawn if passes(by_spark, call)]
        with_values = [call for call in taken if has_values(session, call)]
        assert differing(session, by_spark, with_values) == []
        without = [call for call in taken if call not in with_values]
        assert [call for call in without if has_values(by_spark, call)] == []


def test_every_function_has_calls():
    assert all(calls().values())


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT MOD(i, 0) FROM v", "Division by zero|Remainder by zero"),
        ("SELECT REPEAT(s, 2147483647) FROM v", "REPEAT makes texts of at most"),
        ("SELECT CAST(x AS DECIMAL(5, 1)) FROM v", "cannot be represented as Decimal|NaN"),
    ],
)
@pytest.mark.sample(1)
def test_an_error_of_java_is_one_of_ours(by_spark: Session, query: str, words: str):
    with pytest.raises(InvalidRequest, match=words) as e:
        by_spark.sql(query).to_arrow()
    assert "Py4J" not in str(e.value)
    assert "calling o" not in str(e.value)


class JavaError(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    """An error of Java as py4j shows it, which Spark did not turn into one of its own."""

    def __init__(self) -> None:
        Exception.__init__(self)

    def __str__(self) -> str:
        begin = "An error occurred while calling o36.getResult.\n: org.apache.spark.SparkException: awaited:"
        return (
            f"{begin} \n\tat a.b(c.scala:1)\nCaused by: java.io.IOException: no room is left: /tmp/x\n\tat d"
        )


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (JavaError(), InvalidRequest, "Spark: no room is left: /tmp/x"),
        (Py4JNetworkError("Answer from Java side is empty"), Unavailable, "Spark: its process ended"),
        (Py4JError("no such method"), InvalidRequest, "Spark: no such method"),
    ],
)
def test_an_error_of_the_bridge_to_java_is_one_of_ours(
    by_spark: Session,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: type[TablestoreError],
    words: str,
):
    def fails(self: SparkSession, text: str) -> None:
        raise error

    monkeypatch.setattr(SparkSession, "sql", fails)
    with pytest.raises(kind, match=words) as e:
        by_spark.sql("SELECT k FROM v").to_arrow()
    assert "Py4J" not in str(e.value)
    assert "calling o" not in str(e.value)
