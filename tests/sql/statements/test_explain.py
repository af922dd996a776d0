"""EXPLAIN says what would be read of each table, and why, without reading a row."""

from __future__ import annotations

import pytest

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tablestore.sql import Session


def lines(session: Session, text: str) -> list[str]:
    return session.sql(f"EXPLAIN {text}").to_arrow()["plan"].to_pylist()


def test_a_query_of_two_tables(session: Session) -> None:
    text = (
        "SELECT o.customer, sum(e.n) FROM orders o JOIN events e ON o.order_id = e.n "
        "WHERE o.amount > 7 AND e.day = DATE '2026-01-01' GROUP BY o.customer"
    )
    actual = "\n".join(lines(session, text))
    assert "table orders at snapshot 2\n  columns: order_id, customer, amount (3 of 3)" in actual
    assert "condition: amount > 7" in actual
    assert "table events at snapshot 1\n  columns: day, n (2 of 2)" in actual
    assert "condition: day = DATE '2026-01-01'" in actual or "condition: day = '2026-01-01'" in actual
    assert "skipped 1 of 2 files: 1 by partition" in actual
    assert "DuckDB\n" in actual
    assert "Join" in actual or "JOIN" in actual


def test_a_scan_that_answers_alone(session: Session) -> None:
    actual = lines(session, "PLAN FOR SELECT customer FROM orders WHERE order_id = 1 LIMIT 1")
    assert "  limit: 1 rows" in actual
    assert actual[-1] == "the scan answers the query alone"


def test_nothing_is_read(session: Session, lake: ts.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setattr("tablestore.table.scan.Scan.batches_of", refuse)
    assert lines(session, "SELECT a.order_id + 1 FROM orders a JOIN orders b USING (order_id)")


def test_other_statements_say_what_they_do(session: Session) -> None:
    (line,) = lines(session, "SHOW DATABASES")
    assert line == "SHOW DATABASES: The databases of a catalog."


def test_errors_keep_their_place(session: Session) -> None:
    with pytest.raises(TablestoreError, match="column 16: no column 'custmer'"):
        session.sql("EXPLAIN SELECT custmer FROM orders")
    with pytest.raises(TablestoreError, match=r"a statement is expected|begins no"):
        session.sql("EXPLAIN")


def test_a_stream(session: Session) -> None:
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    sql = (
        "EXPLAIN SELECT e.n, o.customer, count(*) AS c FROM (SELECT n, LOCALTIMESTAMP AS p FROM events) AS e "
        "LEFT JOIN orders /*+ OPTIONS('lookup.cache' = 'partial') */ FOR SYSTEM_TIME AS OF e.p AS o "
        "ON o.order_id = e.n WHERE e.n > 1 GROUP BY e.n, o.customer"
    )
    lines = session.sql(sql).to_arrow()["plan"].to_pylist()
    wanted = [
        "changes of events: the rows of the newest snapshot first, then what changes",
        "  columns: n (1 of 2)",
        "  rows are only added",
        "lookup in orders by order_id: one snapshot a batch",
        "  cache: partial, 10,000 keys at most",
        "  columns: order_id, customer (2 of 3)",
        "each batch of changes: DuckDB computes",
        "groups by __key_0, __key_1; the state is a table",
        "  __value_0 = COUNT(*), int64",
        "each change of groups: DuckDB computes",
        "the result has +I, −U, +U and −D: rows may be taken back",
    ]
    assert [line for line in lines if line in wanted] == wanted
    hint = "/*+ OPTIONS('scan.snapshot-id' = '2') */"
    lines = session.sql(f"EXPLAIN SELECT * FROM orders {hint}").to_arrow()["plan"].to_pylist()
    assert lines[0] == "changes of orders: from those of snapshot 2 on"
    assert "  what was before a change is looked up in the snapshot before" in lines
    with pytest.raises(ts.Unsupported, match="ORDER BY in a stream"):
        session.sql("EXPLAIN SELECT * FROM orders ORDER BY 1")
