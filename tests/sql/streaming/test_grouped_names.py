"""GROUP BY in a stream: keys by any of their names, expressions of them, what is neither."""

from __future__ import annotations

from typing import Any

import pytest

import tablestore as ts
from tablestore.sql import Session

DATES = ("('a', 1, DATE '2024-01-02')", "('b', 2, DATE '2025-01-02')", "('a', 4, DATE '2024-05-05')")
ROWS = f"(VALUES {', '.join(DATES)}) AS t (v, x, d)"


def rows(session: Session, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a stream that ends, without their kinds, and the same of the query in batch mode."""
    batch = session.sql(sql).to_arrow()
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    result = session.sql(sql).to_arrow()
    assert set(result["op"].to_pylist()) == {"+I"}
    assert result.drop(["op"]).schema == batch.schema
    shown = sorted((tuple(row.values()) for row in result.drop(["op"]).to_pylist()), key=str)
    assert shown == sorted((tuple(row.values()) for row in batch.to_pylist()), key=str)
    return shown


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT t.v, sum(x + 1) AS s FROM {ROWS} GROUP BY v", [("a", 7), ("b", 3)]),
        (f"SELECT v, sum(t.x) AS s FROM {ROWS} GROUP BY t.v HAVING t.v <> 'b'", [("a", 5)]),
        (f"SELECT `v`, sum(t.x) AS s FROM {ROWS} GROUP BY v", [("a", 5), ("b", 2)]),
        (f"SELECT year(d) + 1 AS y, count(*) AS n FROM {ROWS} GROUP BY YEAR(t.d)", [(2025, 2), (2026, 1)]),
        (
            "SELECT DATE_FORMAT(CAST(d AS TIMESTAMP), 'yyyy') AS y, count(*) AS n "
            f"FROM {ROWS} GROUP BY date_format(CAST(t.d AS TIMESTAMP), 'yyyy')",
            [("2024", 2), ("2025", 1)],
        ),
        (f"SELECT upper(v) AS v, count(*) AS n FROM {ROWS} GROUP BY v", [("A", 2), ("B", 1)]),
        (f"SELECT upper(v) AS u, count(*) AS n FROM {ROWS} GROUP BY u", [("A", 2), ("B", 1)]),
        (
            f"SELECT CASE WHEN year(d) > 2024 THEN 'new' ELSE v END AS k, count(*) AS n FROM {ROWS} "
            "GROUP BY year(t.d), v",
            [("a", 2), ("new", 1)],
        ),
        (f"SELECT count(*) AS n FROM {ROWS} WHERE x > 1 GROUP BY ()", [(2,)]),
        (f"SELECT DISTINCT t.v FROM {ROWS}", [("a",), ("b",)]),
        (f"SELECT max(v) || 'x' AS m FROM {ROWS}", [("bx",)]),
    ],
)
@pytest.mark.sample(4)
def test_keys_have_many_names(session: Session, sql: str, expected: list[tuple[Any, ...]]) -> None:
    assert rows(session, sql) == expected


def test_parts_of_rows_are_keys(session: Session) -> None:
    session.sql("CREATE TABLE r (k INT, r ROW<a STRING, b INT>)")
    session.sql("INSERT INTO r VALUES (1, ROW('x', 2)), (2, ROW('x', 3)), (3, ROW('y', 4))")
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    for key, shown in (("r.a", "q.r.a"), ("q.r.a", "r.a"), ("`r`.`a`", "r.a")):
        result = session.sql(f"SELECT {shown} AS z, sum(q.r.b) AS s FROM r AS q GROUP BY {key}")
        actual = result.head(2)
        result.stop()
        assert sorted(tuple(row.values()) for row in actual.to_pylist()) == [("+I", "x", 5), ("+I", "y", 4)]


@pytest.mark.parametrize(
    "sql", [f"SELECT x FROM {ROWS} GROUP BY v", f"SELECT v, t.x + count(*) FROM {ROWS} GROUP BY v"]
)
def test_a_column_that_is_neither_is_named_at_its_place(session: Session, sql: str) -> None:
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    with pytest.raises(ts.InvalidRequest, match="column 'x' is neither grouped nor aggregated") as e:
        session.sql(sql)
    assert (e.value.line, e.value.column) == (1, sql.index("x") + 1)
