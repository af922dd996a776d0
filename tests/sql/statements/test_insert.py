"""INSERT INTO and OVERWRITE: columns by place and name, partitions, values that fit and that do not."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest
from tablestore.sql import Session, SqlProblem
from tablestore.sql.text import Name


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in session.sql(query).to_arrow().to_pylist()]


def test_rows_by_place(session: Session) -> None:
    result = session.sql("INSERT INTO orders VALUES (1, 'new', 1.005), (9, NULL, 2)")
    assert (result.rows_affected, result.snapshots) == (2, (3,))
    assert rows(session, "SELECT * FROM orders WHERE order_id IN (1, 9) ORDER BY 1") == [
        (1, "new", Decimal("1.01")),
        (9, None, Decimal("2.00")),
    ]


@pytest.mark.parametrize(
    "values",
    [
        "(1, 'a', 1.5, TRUE, 3000000000, -1.25, NULL), (2, 'it''s', 22.25, FALSE, 1, -2, NULL)",
        "(-2147483648, -9223372036854775808, -0.0, .5, 5.), (NULL, - 5, -(5), 1.50, 2)",
        "('é', X'41', 1e3, DATE '2020-01-01', TIMESTAMP '2020-01-01 00:00:00.5', CAST('abc' AS CHAR(2)))",
        "(1.5, 1), (1e0, 2147483648), (NULL, NULL)",
        "1, 2, (3)",
    ],
)
def test_literals_are_what_the_engine_makes_of_them(session: Session, values: str) -> None:
    written = session.sql(f"VALUES {values}").to_arrow()
    computed = session.sql(f"SELECT * FROM (VALUES {values}) AS t").to_arrow()
    assert written.schema.types == computed.schema.types
    assert written.to_pydict() == dict(zip(written.schema.names, computed.to_pydict().values(), strict=True))


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO orders (customer, order_id) VALUES ('q', 7)",
        "INSERT INTO orders BY NAME SELECT 'q' AS customer, 7 AS order_id",
        "INSERT INTO TABLE lake.shop.orders (customer, order_id) (SELECT 'q', 7)",
        "INSERT INTO orders /*+ OPTIONS('write-only' = 'true') */ (customer, order_id) SELECT 'q', 7",
    ],
)
def test_some_columns(session: Session, statement: str) -> None:
    session.sql(statement)
    assert rows(session, "SELECT * FROM orders WHERE order_id = 7") == [(7, "q", None)]


def test_rows_of_the_table_itself(session: Session) -> None:
    session.sql("INSERT INTO orders SELECT order_id + 10, customer, amount FROM orders")
    assert rows(session, "SELECT order_id FROM orders ORDER BY 1") == [(1,), (2,), (3,), (11,), (12,), (13,)]


def test_partitions(session: Session) -> None:
    days = "SELECT day, n FROM events ORDER BY day, n"
    first, second = dt.date(2026, 1, 1), dt.date(2026, 1, 2)
    session.sql("INSERT INTO events PARTITION (day = '2026-01-01') VALUES (5)")
    assert rows(session, days) == [(first, 1), (first, 5), (second, 2)]
    result = session.sql("INSERT OVERWRITE events PARTITION (day = DATE '2026-01-01') SELECT 7")
    assert "1 partitions replaced" in result.message
    session.sql("INSERT OVERWRITE events PARTITION (day) SELECT 8, DATE '2026-01-02'")
    assert rows(session, days) == [(first, 7), (second, 8)]


def test_an_empty_overwrite_changes_no_partition_and_empties_an_unpartitioned_table(session: Session) -> None:
    session.sql("INSERT OVERWRITE events PARTITION (day = '2026-01-01') SELECT n FROM events WHERE n > 9")
    assert rows(session, "SELECT count(*) FROM events") == [(2,)]
    session.sql("INSERT OVERWRITE orders SELECT * FROM orders WHERE order_id > 9")
    assert rows(session, "SELECT count(*) FROM orders") == [(0,)]


def test_a_table_is_rescaled_by_its_own_rows(session: Session) -> None:
    session.table(Name(("orders",))).alter(ts.set_options({"bucket": 3}))
    with pytest.raises(
        ts.CommitConflict, match=r"new bucket num 3, but the previous bucket num is 2.*INSERT OVERWRITE"
    ):
        session.sql("INSERT INTO orders VALUES (5, 'x', 1)")
    session.sql("INSERT OVERWRITE orders SELECT * FROM orders")
    session.sql("INSERT INTO orders VALUES (5, 'x', 1)")
    assert rows(session, "SELECT count(*) FROM orders") == [(4,)]
    assert rows(session, "SELECT max(bucket) FROM orders$files") == [(2,)]


@pytest.mark.parametrize(
    ("statement", "kind", "problem"),
    [
        (
            "INSERT INTO orders VALUES (1, 'x')",
            SqlProblem,
            "gives 2 columns, and 3 are to be filled: order_id",
        ),
        ("INSERT INTO orders (order_id, nope) VALUES (1, 2)", ts.NotFound, "no column 'nope'"),
        ("INSERT INTO orders (order_id, order_id) VALUES (1, 2)", SqlProblem, "'order_id' gets two values"),
        ("INSERT INTO orders BY NAME SELECT 1 AS order, 2 AS order_id", ts.NotFound, "did you mean order_id"),
        ("INSERT INTO orders (order_id) BY NAME SELECT 1", SqlProblem, "do not go together"),
        ("INSERT INTO orders (customer) VALUES ('x')", ts.SchemaMismatch, "'order_id' is NOT NULL"),
        ("INSERT INTO orders VALUES (3000000000, 'x', 1)", ts.SchemaMismatch, "3000000000 not in range"),
        ("INSERT INTO orders VALUES (1, 'x', 12345678)", ts.SchemaMismatch, "column 'amount' is DECIMAL"),
        ("INSERT INTO orders VALUES (1, 2, 3)", ts.SchemaMismatch, "'customer' is int32"),
        ("INSERT INTO orders VALUES ('1', 'x', 3)", ts.SchemaMismatch, "'order_id' is string"),
        ("INSERT INTO orders", SqlProblem, "a query is expected"),
        ("INSERT INTO orders VALUES (1, 'x', 1) x y", SqlProblem, "the end of the statement is expected"),
        ("INSERT INTO events PARTITION (n = 1) SELECT 1", ts.NotFound, "no partition column 'n'"),
        ("INSERT INTO events PARTITION (day = 'x') SELECT 1", ts.InvalidRequest, "day"),
        ("INSERT INTO orders$files SELECT 1", ts.InvalidRequest, "files"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(
    session: Session, statement: str, kind: type[Exception], problem: str
) -> None:
    with pytest.raises(kind, match="line 1, column") as e:
        session.sql(statement)
    assert problem in str(e.value)
    assert rows(session, "SELECT max(snapshot_id) FROM orders$snapshots") == [(2,)]
    assert rows(session, "SELECT max(snapshot_id) FROM events$snapshots") == [(1,)]


def test_a_query_that_fails_on_its_way_leaves_nothing(session: Session) -> None:
    with pytest.raises(ts.InvalidRequest):
        session.sql(
            "INSERT INTO orders SELECT CAST(x AS INT), 'x', 1 FROM (VALUES ('1'), ('2'), ('z')) AS v (x)"
        )
    assert rows(session, "SELECT max(snapshot_id) FROM orders$snapshots") == [(2,)]


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        ("INSERT INTO defaults SELECT 2, DEFAULT, DEFAULT", (2, "x", 7)),
        ("INSERT INTO defaults SELECT id + 1, DEFAULT, DEFAULT FROM defaults", (2, "x", 7)),
        ("INSERT INTO defaults (n, id) SELECT DEFAULT, 2", (2, "x", 7)),
        ("INSERT INTO defaults SELECT 2, DEFAULT, 8 UNION ALL SELECT 2, 'y', DEFAULT", (2, "x", 8)),
        ("INSERT INTO defaults SELECT *, DEFAULT FROM (SELECT 2 AS id, 'z' AS v)", None),
        ("INSERT INTO defaults SELECT 2, `DEFAULT`, 8 FROM (SELECT 'w' AS `DEFAULT`)", (2, "w", 8)),
    ],
)
def test_default_in_a_query(session: Session, statement: str, row: tuple[Any, ...] | None) -> None:
    """It is that of the column it fills; behind a star, whose columns are not known yet, it is NULL."""
    session.sql(
        "CREATE TABLE defaults (id INT, v STRING DEFAULT 'x', n INT NOT NULL DEFAULT 7); "
        "INSERT INTO defaults VALUES (1, 'first', 1)"
    )
    if row is None:
        with pytest.raises(InvalidRequest, match=r"NOT NULL|null"):
            session.sql(statement)
        return
    session.sql(statement)
    rows = session.sql("SELECT * FROM defaults WHERE id = 2").to_arrow().to_pylist()
    assert row in [tuple(r.values()) for r in rows]
    assert len(rows) == statement.count("UNION") + 1
