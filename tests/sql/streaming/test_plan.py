"""Queries as streams: their changes, and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format import rowkind
from tablestore.sql import Session
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.streaming.follow import follow
from tablestore.sql.streaming.plan import planned


def changes(session: Session, sql: str, wanted: int) -> list[tuple[Any, ...]]:
    """The first changes of a query, as (kind, values …)."""
    tree = reader(()).read(pieces(sql)[0])
    collected: list[tuple[Any, ...]] = []
    for rows, kinds in follow(planned(session, tree, sql)):
        texts = rowkind.texts(kinds).to_pylist()
        collected += [(k, *row.values()) for k, row in zip(texts, rows.to_pylist(), strict=True)]
        if len(collected) >= wanted:
            break
    assert len(collected) == wanted
    return collected


def test_a_query_over_a_table_gives_its_rows_and_then_its_changes(session: Session, lake: ts.Lake) -> None:
    sql = "SELECT customer AS who, order_id * 10 AS n FROM orders WHERE order_id > 1"
    assert sorted(changes(session, sql, 2), key=str) == [("+I", "bob", 20), ("+I", None, 30)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM (VALUES (1), (2)) AS t (x)", [("+I", 1), ("+I", 2)]),
        ("SELECT x + 1 AS y, x FROM (VALUES (1), (2)) AS t (x) WHERE x > 1", [("+I", 3, 2)]),
        ("SELECT 1 AS a UNION ALL SELECT x FROM (VALUES (5)) AS t (x)", [("+I", 1), ("+I", 5)]),
        (
            "WITH a AS (SELECT order_id AS n FROM orders) SELECT n FROM a WHERE n = 1 "
            "UNION ALL SELECT n FROM a WHERE n = 3",
            [("+I", 1), ("+I", 3)],
        ),
        ("SELECT s.* FROM (SELECT order_id FROM orders) AS s", [("+I", 1), ("+I", 2), ("+I", 3)]),
    ],
)
def test_row_wise_queries(session: Session, sql: str, expected: list[tuple[Any, ...]]) -> None:
    assert sorted(changes(session, sql, len(expected))) == expected


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT * FROM orders ORDER BY order_id", "ORDER BY in a stream"),
        ("SELECT * FROM orders LIMIT 3", "LIMIT in a stream"),
        ("SELECT * FROM orders UNION SELECT * FROM orders", "UNION in a stream"),
        ("SELECT * FROM orders a JOIN events b ON a.order_id = b.n", "a join of two streams"),
        ("SELECT row_number() OVER (ORDER BY order_id) FROM orders", "a window function"),
        ("SELECT * FROM orders WHERE order_id IN (SELECT n FROM events)", "a subquery"),
        ("SELECT (SELECT max(n) FROM events) FROM orders", "a subquery as a value"),
        (
            "SELECT n, count(*) FROM (SELECT count(*) AS n FROM orders GROUP BY customer) AS t GROUP BY n",
            "GROUP BY over",
        ),
        ("SELECT LISTAGG(customer) FROM orders", "LISTAGG in a stream"),
        ("SELECT order_id FROM orders GROUP BY customer", "GROUP BY"),
    ],
)
def test_what_a_stream_cannot_compute_is_refused_by_name(session: Session, sql: str, problem: str) -> None:
    tree = reader(()).read(pieces(sql)[0])
    with pytest.raises(ts.InvalidRequest if problem == "GROUP BY" else ts.Unsupported, match=problem) as e:
        planned(session, tree, sql)
    assert problem == "GROUP BY" or e.value.line == 1


def test_a_grouped_query_is_cut_in_two(session: Session) -> None:
    sql = (
        "SELECT upper(customer) AS who, count(*) + 1 AS n, sum(amount) FILTER (WHERE order_id > 1) AS s, "
        "count(DISTINCT order_id) AS d FROM orders GROUP BY upper(customer) HAVING count(*) > 1"
    )
    plan = planned(session, reader(()).read(pieces(sql)[0]), sql)
    assert plan.schema.names == ["who", "n", "s", "d"]
    assert plan.grouping is not None
    assert [(a.function, a.argument, a.distinct) for a in plan.grouping.aggregates] == [
        ("COUNT", None, False),
        ("SUM", "__argument_1", False),
        ("COUNT", "__argument_2", True),
    ]
    assert plan.grouping.aggregates[1].type == pa.decimal128(38, 2)
    assert plan.step.schema.names == ["__key_0", "__argument_1", "__argument_2"]
