"""GROUP BY over streams in this process."""

from __future__ import annotations

from typing import Any

import pytest

from tablestore.format import rowkind
from tablestore.sql import Session
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.streaming.follow import follow
from tablestore.sql.streaming.plan import planned


def changes(session: Session, sql: str, wanted: int) -> list[tuple[Any, ...]]:
    """The first changes of a query, as (kind, values …)."""
    collected: list[tuple[Any, ...]] = []
    for rows, kinds in follow(planned(session, reader(()).read(pieces(sql)[0]), sql)):
        texts = rowkind.texts(kinds).to_pylist()
        collected += [(k, *row.values()) for k, row in zip(texts, rows.to_pylist(), strict=True)]
        if len(collected) >= wanted:
            break
    return collected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT v, count(*) AS n FROM (VALUES ('x'), ('y'), ('x')) AS t (v) GROUP BY v",
            [("x", 2), ("y", 1)],
        ),
        ("SELECT count(*) AS n, sum(x), min(x), max(x) FROM (VALUES (1), (5), (3)) AS t (x)", [(3, 9, 1, 5)]),
        ("SELECT DISTINCT v FROM (VALUES ('x'), ('y'), ('x')) AS t (v)", [("x",), ("y",)]),
        ("SELECT count(*) AS n FROM (VALUES (1)) AS t (x) WHERE x > 1", []),
    ],
)
def test_rows_that_are_there_are_one_batch(
    session: Session, sql: str, expected: list[tuple[Any, ...]]
) -> None:
    assert sorted(changes(session, sql, len(expected) + 1)) == [("+I", *e) for e in expected]


def test_a_group_that_a_condition_no_longer_selects_is_deleted(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (k INT, g STRING, PRIMARY KEY (k) NOT ENFORCED) "
        "WITH ('changelog-producer' = 'lookup')"
    )
    session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    sql = "SELECT g, count(*) AS n FROM t GROUP BY g HAVING count(*) > 1"
    following = follow(planned(session, reader(()).read(pieces(sql)[0]), sql))
    rows, kinds = next(following)
    assert (rows.to_pylist(), kinds.to_pylist()) == ([{"g": "a", "n": 2}], [rowkind.INSERT])
    session.sql("UPDATE t SET g = 'b' WHERE k = 2")
    rows, kinds = next(following)
    assert (rows.to_pylist(), kinds.to_pylist()) == (
        [{"g": "a", "n": 2}, {"g": "b", "n": 2}],
        [rowkind.DELETE, rowkind.INSERT],
    )
