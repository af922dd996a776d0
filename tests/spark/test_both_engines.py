"""The embedded engine and Spark give the same rows: columns of all types, conditions by all operators, dates
before 1582-10-15 (Java's calendar is the Julian one there) and at the ends of each type included."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import date
from functools import reduce
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tablestore as ts
from tablestore.spark import to_spark, write_df

pytestmark = pytest.mark.spark
DATES = "0001-01-01 0001-01-03 0999-12-31 1500-02-28 1500-03-01 1582-10-04 1582-10-10 1582-10-15".split()
DATES += "1900-01-01 1969-12-31 1970-01-01 2024-02-29 9999-12-31".split()
CLOCKS = ["00:00:00", "12:34:56", "23:59:59"]
FRACTIONS = {0: "", 3: ".999", 6: ".999999", 9: ".123456"}


def times(digits: int, dates: list[str]) -> list[str]:
    return [
        f"TIMESTAMP '{d} {c}{f}'"
        for d in dates
        for c, f in (("00:00:00", ""), ("23:59:59", FRACTIONS[digits]))
    ]


VALUES = {
    "BOOLEAN": ["TRUE", "FALSE"],
    "TINYINT": ["-128", "0", "7", "127"],
    "SMALLINT": ["-32768", "0", "32767"],
    "INT": ["-2147483648", "-1", "0", "5", "2147483647"],
    "BIGINT": ["-9223372036854775807", "0", "3", "9223372036854775807"],
    "FLOAT": ["-1.5e0", "0e0", "2.5e-1", "1e-1", "3e38"],
    "DOUBLE": ["-1.5e0", "0e0", "1e-1", "25.2e0", "1e300"],
    "DECIMAL(5, 2)": ["-999.99", "0.00", "1.50", "999.99"],
    "DECIMAL(38, 10)": ["-1234567890123456789012345678.0123456789", "0.0000000001", "3.0"],
    "STRING": ["''", "'a'", "'ab%'", "'a_c'", "'Äö'", "'😀z'", "'zz'"],
    "VARCHAR(5)": ["''", "'a'", "'abc'", "'é'"],
    "CHAR(3)": ["'abc'", "'xyz'"],
    "BYTES": ["X''", "X'00'", "X'ff00'", "X'6162'"],
    "BINARY(2)": ["X'0001'", "X'ffff'"],
    "DATE": [f"DATE '{d}'" for d in DATES],
    "TIME(0)": [f"TIME '{c}'" for c in CLOCKS],
    "TIME(3)": [f"TIME '{c}{f}'" for c in CLOCKS for f in ("", ".123", ".999")],
    "TIMESTAMP(0)": times(0, DATES),
    "TIMESTAMP(3)": times(3, DATES),
    "TIMESTAMP(6)": times(6, DATES),
    "TIMESTAMP(9)": times(9, DATES[8:12]),
    **{
        f"TIMESTAMP_LTZ({p})": [f"CAST({t} AS TIMESTAMP_LTZ({p}))" for t in times(0, DATES)]
        for p in (0, 3, 6)
    },
}
TYPES = list(VALUES)
LIKES = ["'%'", "'a%'", "'%a'", "'%b%'", "'_'", "'a_c'", "'%ö'", "'_z'"]


def literal(kind: str, by: random.Random) -> str:
    value = by.choice(VALUES[kind])
    return value if kind[0] == "B" else f"CAST({value} AS {kind})"


def filled(lake: ts.Lake, by: random.Random, name: str, *, keyed: bool) -> str:
    """A table with a column c0, c1, … of each type; a keyed one has rows that must be merged and others."""
    session = ts.sql_session(lake)
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(TYPES))
    key = ", PRIMARY KEY (k) NOT ENFORCED" if keyed else ""
    session.sql(
        f"CREATE TABLE {name} (k INT NOT NULL, {columns}{key}) "
        f"WITH ('bucket' = '{1 if keyed else -1}', 'write-only' = 'true')"
    )
    for keys in (range(30), range(0, 30, 3), range(100, 110)):
        rows = [[str(k), *("NULL" if by.random() < 0.1 else literal(t, by) for t in TYPES)] for k in keys]
        values = ", ".join("(" + ", ".join(row) + ")" for row in rows)
        session.sql(f"INSERT INTO {name} VALUES {values}")
    return name


def condition(name: str, kind: str, by: random.Random) -> str:
    """A condition on a column of this type."""
    a, b = literal(kind, by), literal(kind, by)
    shapes = [f"{name} {op} {a}" for op in ("=", "<>", "<", "<=", ">", ">=")]
    shapes += [f"{name} IN ({a}, {b})", f"{name} NOT IN ({a}, {b})", f"{name} BETWEEN {a} AND {b}"]
    shapes += [
        f"NOT ({name} < {a})",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
        f"{name} >= {a} AND {name} < {b}",
    ]
    shapes += [f"{name} < {a} OR {name} IS NULL"]
    if kind.startswith(("STRING", "VARCHAR")):
        shapes += [f"{name} {word} {by.choice(LIKES)}" for word in ("LIKE", "NOT LIKE")]
    return by.choice(shapes)


def answer(lake: ts.Lake, query: str, *, by: SparkSession | None) -> pa.Table:
    return ts.sql_session(lake, spark=by).sql(query).to_arrow()


def rows(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, zip(*(c.to_pylist() for c in table.columns), strict=True)))


def differing(lake: ts.Lake, spark: SparkSession, table: str, conditions: list[str]) -> Iterator[str]:
    """Those of the conditions that select other rows by Spark: as SQL, in one query for all of them."""
    parts = (f"SELECT {n} AS n, k FROM {table} WHERE {c}" for n, c in enumerate(conditions))
    query = " UNION ALL ".join(parts)
    ours, theirs = (answer(lake, query, by=engine) for engine in (None, spark))
    for n, text in enumerate(conditions):
        actual = [t.filter(pc.equal(t["n"], n))["k"].to_pylist() for t in (ours, theirs)]
        if sorted(actual[0]) != sorted(actual[1]):
            yield f"{text}: {sorted(actual[0])} and by Spark {sorted(actual[1])}"


@pytest.mark.large
def test_conditions_on_all_types(lake: ts.Lake, spark: SparkSession, seeds: tuple[int, ...]):
    """Each seed has a table of all types; three of the types, a time among them, have conditions."""
    for seed in seeds:
        by = random.Random(seed)
        table = filled(lake, by, f"t{seed}", keyed=by.random() < 0.7)
        time = by.choice(("DATE", "TIMESTAMP(3)"))
        asked = {TYPES.index(time), *by.sample(range(len(TYPES)), 2)}
        conditions = [condition(f"c{i}", TYPES[i], by) for i in sorted(asked)]
        assert list(differing(lake, spark, table, conditions)) == []
        ours, theirs = (answer(lake, f"SELECT * FROM {table}", by=engine) for engine in (None, spark))
        assert ours.schema == theirs.schema
        assert rows(ours) == rows(theirs)


OLD = [date.fromisoformat(day) for day in DATES]


@pytest.mark.large
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP(3)", "TIMESTAMP(6)"])
def test_dates_before_1582_in_frames(lake: ts.Lake, spark: SparkSession, kind: str):
    """Written by Spark, read by Spark by conditions of each kind, also those that the data source applies."""
    session = ts.sql_session(lake)
    session.sql(
        f"CREATE TABLE t (k INT, d {kind}, PRIMARY KEY (k) NOT ENFORCED) WITH ('write-only' = 'true')"
    )
    table, spark_type = lake.table("t"), "DATE" if kind == "DATE" else "TIMESTAMP_NTZ"
    shown = [f"({k}, {spark_type} '{day}')" for k, day in enumerate(DATES)]
    for part in (shown, shown[::2]):
        write_df(spark.sql(f"SELECT * FROM VALUES {', '.join(part)} AS v(k, d)"), table)
    table = table.refresh()
    stored = table.scan().to_arrow().sort_by("k")["d"]
    assert stored.cast(pa.date32()).to_pylist() == OLD
    reader = spark.read.format("tablestore")
    asked = []
    word = "DATE" if kind == "DATE" else "TIMESTAMP"
    for n in (0, 4, 6):
        for sign, wanted in (("=", [n]), (">=", list(range(n, len(OLD)))), ("<", list(range(n)))):
            where = f"d {sign} {word} '{DATES[n]}'"
            asked.append((where, wanted, to_spark(table, spark, columns=["k"], where=where)))
    frames = [to_spark(table, spark, pushdown=True), reader.option("pushdown", True).load(table.location)]
    for n, frame in product((0, 6, 7), frames):
        where = f"d = {spark_type} '{DATES[n]}'"
        asked.append((f"frame: {where}", [n], frame.where(where).select("k")))
    parts = [frame.select(F.lit(number).alias("q"), "k") for number, (_, _, frame) in enumerate(asked)]
    rows = reduce(DataFrame.unionAll, parts).collect()
    for number, (where, wanted, _) in enumerate(asked):
        assert sorted(row.k for row in rows if row.q == number) == wanted, where


def test_conditions_of_spark_leave_no_row_out(lake: ts.Lake, spark: SparkSession):
    """With `pushdown` a condition may let a file be skipped whose neighbour then needs no merge any more."""
    table = lake.create_table(
        "t", schema={"k": ts.INT}, primary_key=["k"], options={"bucket": 1, "write-only": True}
    )
    for first in (0, 4, 100):
        table.write({"k": range(first, first + 6)})
    frame = to_spark(table, spark, pushdown=True)
    assert sorted(r.k for r in frame.where("k > 7").collect()) == [8, 9, *range(100, 106)]
    assert sorted(r.k for r in frame.where("k < 3").collect()) == [0, 1, 2]
