"""SELECT over everything that can be read: versions, tags, branches, hints, system tables, views."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, NotFound, TablestoreError, Unsupported
from tablestore.sql import Session, SqlProblem


def values(session: Session, text: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in session.sql(text, parameters).to_arrow().to_pylist()]


def test_versions_tags_and_times(session: Session, lake: ts.Lake) -> None:
    orders = lake.table("shop.orders")
    orders.tags.create("v1", snapshot=1)
    count = "SELECT count(*) AS n FROM orders"
    assert values(session, f"{count} VERSION AS OF 1") == [(2,)]
    assert values(session, f"{count} FOR VERSION AS OF 'v1'") == [(2,)]
    assert values(session, f"{count} VERSION AS OF 2 AS o") == [(3,)]
    assert values(session, f"{count} /*+ OPTIONS('scan.snapshot-id' = '1') */") == [(2,)]
    assert values(session, f"{count} /*+ OPTIONS('scan.tag-name' = 'v1') */ AS o") == [(2,)]
    assert values(session, f"{count} FOR SYSTEM_TIME AS OF TIMESTAMP '2999-01-01 00:00:00'") == [(3,)]
    assert values(session, f"{count} TIMESTAMP AS OF '2999-01-01'") == [(3,)]
    both = f"SELECT a.n - b.n AS d FROM ({count}) a, ({count} VERSION AS OF 1) b"
    assert values(session, both) == [(1,)]
    with pytest.raises(NotFound, match="line 1, column 27"):
        session.sql(f"{count} VERSION AS OF 9")
    with pytest.raises(NotFound):
        session.sql(f"{count} VERSION AS OF 'nosuch'")
    with pytest.raises(NotFound):
        session.sql(f"{count} TIMESTAMP AS OF '1999-01-01'")


def test_options_of_a_hint_are_refused_by_the_engine_s_own_rules(session: Session) -> None:
    with pytest.raises(InvalidOption, match="column 15"):
        session.sql("SELECT * FROM orders /*+ OPTIONS('bucket' = '4') */")
    with pytest.raises(InvalidOption):
        session.sql("SELECT * FROM orders /*+ OPTIONS('nosuch.option' = '4') */")
    with pytest.raises((Unsupported, SqlProblem)):
        session.sql("SELECT * FROM orders /*+ BROADCAST(orders) */")


def test_changes_between_snapshots(session: Session) -> None:
    changed = "SELECT order_id FROM orders /*+ OPTIONS('incremental-between' = '1,2') */ ORDER BY 1"
    assert values(session, changed) == [(2,), (3,)]


def test_system_tables_and_branches(session: Session, lake: ts.Lake) -> None:
    assert values(session, "SELECT snapshot_id, commit_kind FROM orders$snapshots ORDER BY 1") == [
        (1, "APPEND"),
        (2, "APPEND"),
    ]
    assert values(session, "SELECT count(*) AS n FROM shop.orders$files WHERE level = 0")[0][0] > 0
    assert values(session, "SELECT table_name FROM sys.tables ORDER BY 1") == [("events",), ("orders",)]
    orders = lake.table("shop.orders")
    orders.tags.create("v1", snapshot=1)
    orders.branches.create("b", tag="v1")
    assert values(session, "SELECT count(*) AS n FROM orders$branch_b") == [(2,)]
    joined = "SELECT s.snapshot_id FROM orders$snapshots s JOIN orders$files f ON s.snapshot_id > 0 LIMIT 1"
    assert len(values(session, joined)) == 1


def test_names_of_columns_are_those_of_flink(session: Session) -> None:
    names = session.sql(
        "SELECT order_id, count(*), 1, amount AS a FROM orders GROUP BY order_id, amount"
    ).schema.names
    assert names == ["order_id", "EXPR$1", "EXPR$2", "a"]
    assert session.sql("VALUES (1, 'a'), (2, 'b')").schema.names == ["EXPR$0", "EXPR$1"]
    assert session.sql("SELECT a.order_id, b.order_id FROM orders a, orders b").schema.names == [
        "order_id",
        "order_id0",
    ]


def test_names_keep_their_case(session: Session, lake: ts.Lake) -> None:
    table = lake.create_table("shop.Mixed", schema={"Key": ts.INT, "vAl": ts.STRING}, primary_key=["Key"])
    table.write([{"Key": 1, "vAl": "x"}])
    assert values(session, "SELECT Key, vAl FROM Mixed WHERE vAl = 'x'") == [(1, "x")]
    for wrong in ("SELECT key FROM Mixed", "SELECT Key FROM mixed"):
        with pytest.raises(NotFound):
            session.sql(wrong)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT custmer FROM orders", "column 8: no column 'custmer'; did you mean customer"),
        ("SELECT * FROM ordres", "column 15: .*orders"),
        ("SELECT *\nFROM orders o\nWHERE o.amuont > 1", "line 3, column 7: no column 'amuont'"),
        ("SELECT uper(customer) FROM orders", "column 8: no function 'UPER'.*UPPER"),
        ("SELECT UPPER() FROM orders", r"UPPER\(text\) is called with 0 arguments"),
        ("SELECT x.customer FROM orders o", "x"),
        ("SELECT customer FROM orders o WHERE x.order_id = 1", "column 37: no table 'x'"),
        ("SELECT 1 / 0", r"Division by zero\n"),
        ("SELECT sum(amount) FROM orders GROUP BY nosuch", "no column 'nosuch'"),
    ],
)
def test_errors_say_what_and_where(session: Session, text: str, said: str) -> None:
    with pytest.raises(TablestoreError, match=said):
        session.sql(text).to_arrow()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT order_id FROM orders WHERE amount > 7",
        "SELECT o.order_id FROM shop.orders o WHERE o.amount > 7 ORDER BY 1 DESC",
        "SELECT orders.order_id FROM shop.orders WHERE shop.orders.amount > 7",
        "SELECT order_id FROM (SELECT * FROM orders) WHERE amount > 7",
        "WITH x AS (SELECT * FROM orders WHERE amount > 7) SELECT order_id FROM x",
        "WITH orders AS (SELECT * FROM orders) SELECT order_id FROM orders WHERE amount > 7",
        "SELECT a.order_id FROM orders a JOIN orders b USING (order_id) WHERE b.amount > 7",
        "SELECT order_id FROM orders o WHERE EXISTS "
        "(SELECT * FROM orders p WHERE p.order_id = o.order_id AND p.amount > 7)",
        "SELECT order_id FROM orders WHERE order_id IN (SELECT order_id FROM orders WHERE amount > 7)",
        "SELECT a.order_id FROM orders a LEFT JOIN orders b ON a.order_id = b.order_id AND b.amount > 7 "
        "WHERE b.order_id IS NOT NULL",
        "SELECT order_id FROM orders WHERE amount > 7 UNION SELECT order_id FROM orders WHERE amount > 8",
        "SELECT order_id FROM (SELECT * FROM orders UNION ALL SELECT * FROM orders) x WHERE amount > 7 "
        "GROUP BY order_id",
        "SELECT order_id FROM orders GROUP BY order_id HAVING max(amount) > 7",
        "SELECT DISTINCT order_id FROM orders WHERE (amount > 7 AND order_id > 0) OR (amount > 8 AND "
        "customer = 'ann')",
    ],
)
def test_pushing_down_changes_no_answer(session: Session, text: str) -> None:
    assert sorted(values(session, text)) == [(1,), (2,)]


@pytest.mark.parametrize(
    "false", ["FALSE", "NOT TRUE", "order_id < 0 OR FALSE", "FALSE OR (FALSE)", "NULL", "1 > 2"]
)
def test_a_condition_without_columns_is_a_condition(session: Session, false: str) -> None:
    assert values(session, f"SELECT order_id FROM orders WHERE {false}") == []
    assert values(session, f"SELECT order_id FROM orders WHERE {false} LIMIT 1") == []
    assert values(session, f"SELECT count(*) AS n FROM orders WHERE {false}") == [(0,)]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT * FROM (SELECT order_id FROM orders WHERE order_id > 1) WHERE order_id = 2", 1),
        ("SELECT * FROM (SELECT * FROM (SELECT * FROM orders))", 3),
        ("SELECT * FROM (SELECT * FROM orders), (SELECT customer AS c FROM orders)", 9),
        ("SELECT * FROM orders JOIN (SELECT order_id AS o FROM orders) ON order_id = o", 3),
        ("SELECT *, order_id + 1 AS n FROM (SELECT * FROM orders UNION ALL SELECT * FROM orders)", 6),
    ],
)
def test_a_subquery_needs_no_name(session: Session, text: str, rows: int) -> None:
    assert len(values(session, text)) == rows


def test_a_left_join_keeps_what_has_no_partner(session: Session) -> None:
    text = (
        "SELECT a.order_id FROM orders a LEFT JOIN orders b ON a.order_id = b.order_id AND b.amount > 100 "
        "WHERE b.order_id IS NULL ORDER BY 1"
    )
    assert values(session, text) == [(1,), (2,), (3,)]


def test_types_of_results_are_those_of_tables(session: Session, lake: ts.Lake) -> None:
    schema = {
        "k": ts.INT,
        "at": ts.TIMESTAMP_LTZ(3),
        "t": ts.TIME(),
        "tags": ts.ARRAY(ts.STRING),
        "m": ts.MAP(ts.STRING, ts.INT),
        "r": ts.ROW(x=ts.INT, y=ts.ARRAY(ts.INT)),
        "p": ts.TIMESTAMP(9),
        "b": ts.BYTES,
    }
    table = lake.create_table("shop.kinds", schema=schema)
    rows = [{"k": 1, "tags": ["a"], "m": [("a", 1)], "r": {"x": 1, "y": [2]}, "b": b"x"}]
    table.write(rows)
    plain = table.scan().to_arrow()
    result = session.sql("SELECT * FROM kinds ORDER BY k").to_arrow()
    assert result.drop_columns("at").schema.types == plain.drop_columns("at").schema.types
    assert str(result.schema.field("at").type) == "timestamp[us, tz=UTC]"
    assert result.to_pylist() == plain.to_pylist()
    assert str(session.sql("SELECT sum(k) AS s FROM kinds").schema.field("s").type) == "int32"
    assert values(session, "SELECT kinds.r.x, tags[1], m['a'] FROM kinds") == [(1, "a", 1)]


def test_a_sum_has_the_type_of_what_is_summed_and_wraps(session: Session) -> None:
    text = "SELECT sum(x) AS s FROM (VALUES (9223372036854775807), (1)) AS t(x)"
    assert values(session, text) == [(-(1 << 63),)]
    assert values(session, text.replace("sum(x)", "sum(CAST(x AS DECIMAL(20, 0)))")) == [(Decimal(1 << 63),)]


def test_progress_is_reported(session: Session) -> None:
    seen: list[float] = []
    session.on_progress = seen.append
    assert values(session, "SELECT count(*) AS n FROM orders") == [(3,)]
    assert all(-1 <= percent <= 100 for percent in seen)


def test_what_an_expression_means_goes_by_the_types_of_columns(session: Session, lake: ts.Lake) -> None:
    table = lake.create_table("shop.typed", schema={"d": ts.DECIMAL(8, 2), "f": ts.DOUBLE, "day": ts.DATE})
    table.write([{"d": Decimal("2.70"), "f": -2.7, "day": dt.date(2026, 1, 31)}])
    cast = "SELECT CAST(d AS INT), CAST(t.f AS BIGINT), CAST(d * 2 AS INT) FROM typed t"
    assert values(session, cast) == [(2, -2, 5)]
    moved = "SELECT day + INTERVAL '1' DAY, day - INTERVAL '1' MONTH, day + INTERVAL '1' HOUR FROM typed"
    assert values(session, moved) == [
        (dt.date(2026, 2, 1), dt.date(2025, 12, 31), dt.date(2026, 1, 31)),
    ]
    assert values(session, "SELECT DATE '1998-12-01' - INTERVAL '90' DAY") == [(dt.date(1998, 9, 2),)]
    hidden = "SELECT CAST(d AS INT) AS x FROM (SELECT '7' AS d FROM typed) s"
    assert values(session, hidden) == [(7,)]


def test_hints_stand_before_a_version_and_an_alias(session: Session) -> None:
    hint = "/*+ OPTIONS('scan.nope' = '1') */"
    for text in (
        f"orders {hint} VERSION AS OF 1",
        f"orders {hint} AS o",
        f"orders {hint} AS o JOIN events ON true",
    ):
        with pytest.raises(ts.TablestoreError, match=r"scan\.nope"):
            session.sql(f"SELECT * FROM {text}")


def test_a_hint_chooses_partitions(session: Session, lake: ts.Lake) -> None:
    schema = {"day": ts.DATE, "h": ts.INT, "n": ts.INT}
    table = lake.create_table("shop.parts", schema=schema, partition_by=["day", "h"])
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 2), dt.date(2026, 1, 2)]
    table.write({"day": days, "h": [1, 5, 10], "n": [1, 2, 3]})
    for hint, rows in {
        "day=2026-01-02": [2, 3],
        "day=2026-01-02,h=5;h=1": [1, 2],
        "max_pt()": [3],
        "max_two_pt()": [2, 3],
    }.items():
        text = f"SELECT p.n FROM parts /*+ OPTIONS('scan.partitions' = '{hint}') */ AS p ORDER BY n"
        assert [n for (n,) in values(session, text)] == rows
    with pytest.raises(NotFound, match="no partition column 'x'"):
        session.sql("SELECT * FROM parts /*+ OPTIONS('scan.partitions' = 'x=1') */")


def test_a_lookup_at_another_time_than_that_of_reading_is_refused(session: Session) -> None:
    join = "LEFT JOIN orders FOR SYSTEM_TIME AS OF e.{} AS o ON e.n = o.order_id"
    with pytest.raises(ts.Unsupported, match=r"FOR SYSTEM_TIME AS OF day .*processing time") as e:
        session.sql(f"SELECT e.n FROM events AS e {join.format('day')}")
    assert e.value.line == 1
    inner = "SELECT n, q AS p FROM (SELECT n, (PROCTIME()) AS q FROM events) AS x"
    assert values(session, f"SELECT o.customer FROM ({inner}) AS e {join.format('p')} ORDER BY e.n") == [
        ("ann",),
        ("bob",),
    ]
