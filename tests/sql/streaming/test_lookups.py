"""Lookup joins of a stream: which rows they give, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

import tablestore as ts
from tablestore.sql import Session

FACTS = "(SELECT o, LOCALTIMESTAMP AS p FROM (VALUES (1), (2), (3), (4)) AS v (o)) AS a"


@pytest.fixture
def shop(session: Session) -> Session:
    """A customer without a row 1, and two nations of customer 3; streaming."""
    session.sql(
        "CREATE TABLE customer (c INT, name STRING, city STRING, PRIMARY KEY (c) NOT ENFORCED) "
        "WITH ('bucket' = '2');"
        "INSERT INTO customer VALUES (1, 'ann', 'Rome'), (2, 'bob', NULL), (3, 'cyd', 'Oslo');"
        "INSERT INTO customer VALUES (3, 'Cyd', 'Bonn');"
        "DELETE FROM customer WHERE c = 1;"
        "CREATE TABLE nation (n INT, c INT, label STRING, PRIMARY KEY (n, c) NOT ENFORCED);"
        "INSERT INTO nation VALUES (1, 2, 'b'), (1, 3, 'c'), (2, 3, 'c2');"
        "SET 'execution.runtime-mode' = 'streaming'"
    )
    return session


def rows(session: Session, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a stream that ends; all are inserts."""
    result = session.sql(sql).to_arrow()
    assert set(result["op"].to_pylist()) <= {"+I"}
    return sorted((tuple(row.values())[1:] for row in result.to_pylist()), key=str)


CUSTOMER = "customer FOR SYSTEM_TIME AS OF a.p AS b"
NATION = "nation FOR SYSTEM_TIME AS OF a.p AS n"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"JOIN {CUSTOMER} ON a.o = b.c", [(2, "bob"), (3, "Cyd")]),
        (f"JOIN {CUSTOMER} ON b.c = a.o", [(2, "bob"), (3, "Cyd")]),
        (f"JOIN {CUSTOMER} ON o = c", [(2, "bob"), (3, "Cyd")]),
        (f"LEFT JOIN {CUSTOMER} ON a.o = b.c", [(1, None), (2, "bob"), (3, "Cyd"), (4, None)]),
        (f"LEFT JOIN {CUSTOMER} ON a.o + 1 = b.c", [(1, "bob"), (2, "Cyd"), (3, None), (4, None)]),
        (
            f"LEFT JOIN {CUSTOMER} ON a.o = b.c AND b.city = 'Bonn'",
            [(1, None), (2, None), (3, "Cyd"), (4, None)],
        ),
        (
            f"LEFT JOIN {CUSTOMER} ON a.o = b.c AND a.o < 3",
            [(1, None), (2, "bob"), (3, None), (4, None)],
        ),
        (f"JOIN {CUSTOMER} ON a.o = b.c WHERE b.city IS NULL", [(2, "bob")]),
        (f"LEFT JOIN {CUSTOMER} ON a.o = b.c WHERE b.name IS NULL", [(1, None), (4, None)]),
        (f"LEFT JOIN {CUSTOMER} ON a.o = b.c WHERE a.o > 2", [(3, "Cyd"), (4, None)]),
        (f", {CUSTOMER} WHERE a.o = b.c AND b.city = 'Bonn'", [(3, "Cyd")]),
        (f"JOIN {CUSTOMER} ON b.c = 2 AND a.o = 1", [(1, "bob")]),
        (
            "LEFT JOIN customer /*+ OPTIONS('lookup.cache-rows' = '2', 'lookup.cache' = 'partial') */ "
            "FOR SYSTEM_TIME AS OF a.p AS b ON a.o = b.c",
            [(1, None), (2, "bob"), (3, "Cyd"), (4, None)],
        ),
    ],
)
@pytest.mark.sample(5)
def test_one_table(shop: Session, sql: str, expected: list[tuple[Any, ...]]) -> None:
    assert rows(shop, f"SELECT a.o, b.name FROM {FACTS} {sql}") == expected


@pytest.mark.parametrize(
    ("kind", "given", "values"),
    [
        ("TIMESTAMP(3)", "TIMESTAMP(6)", [f"TIMESTAMP '2026-01-01 00:00:00.00000{i}'" for i in range(3)]),
        ("FLOAT", "DOUBLE", ["0.5e0", "5.00000000001e-1", "4.99999999999e-1"]),
    ],
)
@pytest.mark.parametrize("cache", ["full", "partial"])
def test_keys_with_more_digits_than_the_column_join_a_row_once(
    session: Session, kind: str, given: str, values: list[str], cache: str
) -> None:
    session.sql(
        f"CREATE TABLE dim (k {kind}, name STRING, PRIMARY KEY (k) NOT ENFORCED) "
        f"WITH ('lookup.cache' = '{cache}');"
        f"INSERT INTO dim SELECT CAST({values[0]} AS {kind}), 'x';"
        "SET 'execution.runtime-mode' = 'streaming'"
    )
    facts = ", ".join(f"({i}, CAST({value} AS {given}))" for i, value in enumerate(values))
    sql = (
        f"SELECT a.i, b.name FROM (SELECT i, k, LOCALTIMESTAMP AS p FROM (VALUES {facts}) AS v (i, k)) AS a "
        "LEFT JOIN dim FOR SYSTEM_TIME AS OF a.p AS b ON a.k = b.k"
    )
    assert rows(session, sql) == [(0, "x"), (1, None), (2, None)]


def test_a_part_of_the_key_gives_several_rows(shop: Session) -> None:
    sql = f"SELECT a.o, n.n, n.label FROM {FACTS} JOIN {NATION} ON a.o = n.c"
    assert rows(shop, sql) == [(2, 1, "b"), (3, 1, "c"), (3, 2, "c2")]


def test_a_lookup_by_columns_of_another(shop: Session) -> None:
    sql = (
        f"SELECT a.o, b.name, n.label FROM {FACTS} LEFT JOIN {CUSTOMER} ON a.o = b.c "
        f"LEFT JOIN {NATION} ON b.c = n.c AND n.n = 1"
    )
    expected = [(1, None, None), (2, "bob", "b"), (3, "Cyd", "c"), (4, None, None)]
    assert rows(shop, sql) == expected
    nested = (
        f"SELECT x.o, x.name, n.label FROM (SELECT a.o, b.c, b.name, a.p FROM {FACTS} LEFT JOIN {CUSTOMER} "
        "ON a.o = b.c) AS x LEFT JOIN nation FOR SYSTEM_TIME AS OF x.p AS n ON x.c = n.c AND n.n = 1"
    )
    assert rows(shop, nested) == expected


def test_sides_of_union_all_have_their_own(shop: Session) -> None:
    side = f"SELECT a.o, b.name FROM {FACTS} JOIN {CUSTOMER} ON a.o = b.c"
    other = f"SELECT a.o, n.label FROM {FACTS} JOIN {NATION} ON a.o = n.c AND n.n = 2"
    assert rows(shop, f"{side} UNION ALL {other}") == [(2, "bob"), (3, "Cyd"), (3, "c2")]


def test_later_changes_of_the_table_reach_later_rows_only(shop: Session, lake: ts.Lake) -> None:
    shop.sql("CREATE TABLE facts (o INT, p AS PROCTIME())")
    table, customer = lake.table("shop.facts"), lake.table("shop.customer")
    table.write([{"o": 1}, {"o": 2}])
    result = shop.sql(
        "SELECT a.o, b.name FROM facts AS a LEFT JOIN customer FOR SYSTEM_TIME AS OF a.p AS b ON a.o = b.c"
    )
    actual = result.to_batches()
    assert [tuple(r.values()) for r in next(actual).to_pylist()] == [("+I", 1, None), ("+I", 2, "bob")]
    customer.write([{"c": 1, "name": "eve", "city": None}])
    table.write([{"o": 1}])
    assert [tuple(r.values()) for r in next(actual).to_pylist()] == [("+I", 1, "eve")]
    result.stop()
    assert list(actual) == []


def test_what_a_lookup_gave_is_not_added_up_where_it_could_be_taken_back_otherwise(
    shop: Session, lake: ts.Lake
) -> None:
    shop.sql("CREATE TABLE sold (o INT, x INT, p AS PROCTIME(), PRIMARY KEY (o) NOT ENFORCED)")
    shop.sql("CREATE TABLE rows_of (city STRING, x INT) WITH ('write-mode' = 'change-log')")
    shop.sql(
        "CREATE TABLE sums (city STRING, x INT, PRIMARY KEY (city) NOT ENFORCED) "
        "WITH ('merge-engine' = 'aggregation', 'fields.x.aggregate-function' = 'sum')"
    )
    lake.table("shop.sold").write([{"o": 2, "x": 1}, {"o": 3, "x": 5}])
    join = "FROM sold AS a LEFT JOIN customer FOR SYSTEM_TIME AS OF a.p AS b ON a.o = b.c"
    grouped = f"SELECT b.city, sum(a.x) AS x {join} GROUP BY b.city"
    by_row = f"SELECT b.city, a.x {join}"
    for sql in (grouped, f"INSERT INTO rows_of {by_row}", f"INSERT INTO sums {by_row}"):
        with pytest.raises(ts.Unsupported, match="INSERT the join into a table with a primary key"):
            shop.sql(sql)
    shop.sql("SET 'table.optimizer.non-deterministic-update.strategy' = 'IGNORE'")
    result = shop.sql(grouped)
    rows = next(result.to_batches()).to_pylist()
    assert sorted(map(str, (tuple(row.values()) for row in rows))) == ["('+I', 'Bonn', 5)", "('+I', None, 1)"]
    result.stop()


def test_a_table_without_a_snapshot_matches_nothing(shop: Session) -> None:
    shop.sql("CREATE TABLE none (c INT, v INT, PRIMARY KEY (c) NOT ENFORCED)")
    sql = f"SELECT a.o, n.v FROM {FACTS} LEFT JOIN none FOR SYSTEM_TIME AS OF a.p AS n ON a.o = n.c"
    assert rows(shop, sql) == [(1, None), (2, None), (3, None), (4, None)]


@pytest.mark.parametrize(
    ("join", "problem"),
    [
        (
            f"LEFT JOIN {CUSTOMER} ON a.o > b.c",
            r"needs an equality condition on a column of customer: ON … = b\.c",
        ),
        (f"CROSS JOIN {CUSTOMER}", "needs an equality condition"),
        (f"LEFT JOIN {CUSTOMER} ON b.c = b.c", "needs an equality condition"),
        (f"RIGHT JOIN {CUSTOMER} ON a.o = b.c", "RIGHT lookup join"),
        (f"FULL JOIN {CUSTOMER} ON a.o = b.c", "FULL lookup join"),
        (
            f"JOIN {CUSTOMER} ON a.o = b.name",
            r"INT and STRING are not compared: CAST",
        ),
    ],
)
def test_what_is_no_lookup_join_is_refused_at_its_place(shop: Session, join: str, problem: str) -> None:
    with pytest.raises((ts.InvalidRequest, ts.Unsupported), match=problem) as e:
        shop.sql(f"SELECT a.o, b.name FROM {FACTS} {join}")
    assert e.value.line == 1
    assert e.value.column > 20
