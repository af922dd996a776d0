"""CALL: arguments by place and name, every procedure, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import tablestore as ts
from tablestore.sql import Session, SqlProblem
from tablestore.sql.statements.call import PROCEDURES
from tablestore.sql.text import Name


@pytest.fixture
def orders(session: Session) -> ts.Table:
    return session.table(Name(("orders",)))


def first(session: Session, text: str) -> dict[str, Any]:
    result: list[dict[str, Any]] = session.sql(text).to_arrow().to_pylist()
    return result[0]


def test_tags_branches_and_a_rollback(session: Session, orders: ts.Table) -> None:
    assert first(
        session, "CALL sys.create_tag(`table` => 'shop.orders', tag => 'one', snapshot_id => 1)"
    ) == {"result": "Success"}
    session.sql("CALL sys.create_tag('orders', 'two', 2, '1 d')")
    session.sql("CALL lake.sys.rename_tag('orders', 'two', 'second')")
    session.sql("CALL sys.replace_tag(table => 'orders', tag => 'second', snapshot_id => 1)")
    assert orders.tags.names() == ["one", "second"]
    assert orders.at(tag="second").scan().snapshot.id == 1
    session.sql("CALL sys.create_branch('orders', 'b', 'one'); CALL sys.create_branch('orders', 'c')")
    assert orders.branches.names() == ["b", "c"]
    session.sql("CALL sys.fast_forward('orders', 'b'); CALL sys.delete_branch('orders', 'b,c')")
    assert orders.branches.names() == []
    assert first(session, "SELECT count(*) AS n FROM orders") == {"n": 2}
    session.sql("INSERT INTO orders VALUES (9, 'x', 1)")
    assert first(session, "CALL sys.rollback_to('orders', '', 1)") == {
        "previous_snapshot_id": 2,
        "current_snapshot_id": 1,
    }
    session.sql("CALL sys.create_tag('orders', 'two'); CALL sys.delete_tag('orders', 'one, two')")
    assert orders.tags.names() == []


def test_a_branch_is_renamed(session: Session, orders: ts.Table) -> None:
    session.sql("CALL sys.create_branch('orders', 'b'); CALL sys.rename_branch('orders', 'b', 'c')")
    assert orders.branches.names() == ["c"]
    with pytest.raises(ts.NotFound, match="no branch 'b'"):
        session.sql("CALL sys.rename_branch('orders', 'b', 'd')")
    session.sql("CALL sys.create_branch('orders', 'b')")
    with pytest.raises(ts.AlreadyExists, match="branch 'c' exists"):
        session.sql("CALL sys.rename_branch('orders', 'b', 'c')")


def test_a_table_is_purged(session: Session, orders: ts.Table) -> None:
    session.sql("CALL sys.create_tag('orders', 'kept', 1); CALL sys.create_branch('orders', 'b', 'kept')")
    session.sql("CALL sys.purge_files('orders')")
    assert orders.refresh().scan().count() == 0
    assert (orders.branches.names(), orders.tags.names()) == ([], [])
    assert len(orders.refresh().inspect.snapshots()) == 1


def test_a_default_of_a_column(session: Session, orders: ts.Table) -> None:
    session.sql("CALL sys.alter_column_default_value('orders', 'customer', 'nobody')")
    session.sql("INSERT INTO orders (order_id) VALUES (77)")
    actual = first(session, "SELECT customer FROM orders WHERE order_id = 77")
    assert actual == {"customer": "nobody"}


def test_tags_by_time_and_watermark(session: Session, orders: ts.Table) -> None:
    orders.write({"order_id": [5]}, watermark=70)
    session.sql("CALL sys.create_tag_from_timestamp('orders', 'early', 0)")
    session.sql("CALL sys.create_tag_from_watermark('orders', 'wet', 69)")
    assert [orders.at(tag=t).scan().snapshot.id for t in ("early", "wet")] == [1, 3]
    with pytest.raises(ts.NotFound, match="no snapshot of a watermark above 70"):
        session.sql("CALL sys.create_tag_from_watermark('orders', 'no', 70)")
    assert session.sql("CALL sys.expire_tags('orders')").to_arrow().num_rows == 0


def test_compaction(session: Session, orders: ts.Table) -> None:
    assert session.sql("CALL sys.compact('shop.orders')").snapshots == (3,)
    assert {f["level"] for f in orders.refresh().inspect.files().to_pylist()} == {5}
    assert session.sql("CALL sys.compact('orders', compact_strategy => 'minor')").snapshots == ()
    session.sql("INSERT INTO orders VALUES (1, 'x', 1)")
    session.sql("CALL sys.compact_database(including_tables => 'ord.*', excluding_tables => 'ev.*')")
    assert first(session, "SELECT max(snapshot_id) AS n FROM orders$snapshots") == {"n": 5}
    session.sql("CALL sys.compact_manifest('orders')")
    session.sql("CALL sys.rescale('orders', 3)")
    assert orders.refresh().options["bucket"] == "3"
    with pytest.raises(ts.Unsupported, match="order_by"):
        session.sql("CALL sys.compact('orders', order_by => 'amount')")


def test_what_is_old_goes(session: Session, orders: ts.Table) -> None:
    for i in range(3):
        session.sql(f"INSERT INTO orders VALUES ({i}, 'x', 1)")
    assert first(session, "CALL sys.expire_snapshots('orders', 2, 1)") == {"result": "3"}
    assert [s["snapshot_id"] for s in orders.refresh().inspect.snapshots().to_pylist()] == [4, 5]
    call = (
        "CALL sys.expire_snapshots(table => 'orders', older_than => '2001-01-01 00:00:00', retain_min => 1)"
    )
    assert first(session, call) == {"result": "0"}
    session.sql("CALL sys.drop_partition('events', 'day=2026-01-01')")
    assert first(session, "SELECT sum(n) AS n FROM events") == {"n": 2}
    gone = session.sql("CALL sys.expire_partitions('events', '1 d', timestamp_formatter => 'yyyy-MM-dd')")
    assert gone.message.endswith("expired")
    removed = session.sql("CALL sys.remove_orphan_files('orders', dry_run => TRUE)").to_arrow()
    assert removed.to_pydict() == {"result": ["0", "0"]}  # files, bytes
    with pytest.raises(ts.InvalidRequest, match="less than the 10 that are kept"):
        session.sql("CALL sys.expire_snapshots('orders', 2)")


def test_consumers(session: Session, orders: ts.Table) -> None:
    session.sql("CALL sys.reset_consumer('orders', 'a', 2); CALL sys.reset_consumer('orders', 'b1', 2)")
    session.sql("CALL sys.clear_consumers('orders', 'b.*')")
    assert orders.consumers.names() == ["a"]
    session.sql("CALL sys.reset_consumer('orders', 'a')")
    assert orders.consumers.names() == []


def test_a_table_is_looked_over(session: Session) -> None:
    assert len(session.sql("CALL sys.check('orders')")) == 0
    assert "finding" in repr(session.sql("CALL sys.doctor('orders')").message)
    assert "preview" in session.sql("CALL sys.mend('orders')").message
    actual = first(session, "CALL sys.what_if('orders', 'num-sorted-run.compaction-trigger=2')")
    assert "WhatIf" in actual["result"]
    session.sql("CALL sys.repair('shop.orders')")


def test_procedures_are_listed(session: Session) -> None:
    rows = session.sql("SHOW PROCEDURES").to_arrow().to_pylist()
    assert [row["procedure name"] for row in rows] == [f"sys.{name}" for name in sorted(PROCEDURES)]
    assert all(row["comment"] for row in rows)


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("CALL sys.compct('orders')", ts.NotFound, "no procedure 'compct'; did you mean compact"),
        ("CALL compact('orders')", ts.InvalidRequest, "procedures are in sys: CALL sys.compact"),
        ("CALL sys.create_tag('orders')", ts.InvalidRequest, "argument 'tag' is missing"),
        (
            "CALL sys.create_tag('orders', 'a', 'x')",
            ts.InvalidRequest,
            "'snapshot_id' of create_tag is a whole",
        ),
        ("CALL sys.create_tag('orders', tg => 'a')", ts.NotFound, "did you mean tag"),
        ("CALL sys.create_tag('orders', 'a', tag => 'a')", ts.InvalidRequest, "given twice"),
        ("CALL sys.create_tag(tag => 'a', 'orders')", SqlProblem, "stands behind one by name"),
        ("CALL sys.create_tag('nope', 'a')", ts.NotFound, "no table 'shop.nope'"),
        ("CALL sys.create_tag('orders$files', 'a')", ts.InvalidRequest, "system table"),
        ("CALL sys.rollback_to('orders')", ts.InvalidRequest, "takes a tag or a snapshot_id"),
        ("CALL sys.compact('orders', options => 'x')", ts.InvalidRequest, "'x' is no option"),
        ("CALL sys.expire_snapshots('orders', older_than => 'x')", ts.InvalidRequest, "'x' is no time"),
        ("CALL nope.sys.compact('orders')", ts.NotFound, "no catalog 'nope'"),
        ("CALL sys.compact('orders'", SqlProblem, ") is expected"),
    ],
)
def test_calls_that_cannot_be(session: Session, text: str, kind: type[Exception], problem: str) -> None:
    with pytest.raises(kind, match="line 1, column") as e:
        session.sql(text)
    assert problem in str(e.value)
