"""SELECT in streaming mode: a result whose rows come as they happen, until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.sql import Result, Session


@pytest.fixture
def streaming(session: Session) -> Session:
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    return session


def taken(result: Result, rows: int) -> list[tuple[Any, ...]]:
    """The first rows of a stream, which is stopped then."""
    actual = result.head(rows)
    result.stop()
    return [tuple(row.values()) for row in actual.to_pylist()]


def following(batches: Iterator[pa.RecordBatch], rows: int) -> list[tuple[Any, ...]]:
    """The next rows."""
    collected: list[tuple[Any, ...]] = []
    while len(collected) < rows:
        collected += [tuple(row.values()) for row in next(batches).to_pylist()]
    return collected


def test_rows_come_as_they_happen_with_their_kind_first(streaming: Session, lake: ts.Lake) -> None:
    result = streaming.sql("SELECT customer, order_id FROM orders WHERE order_id > 1")
    assert result.schema.names == ["op", "customer", "order_id"]
    assert result.endless
    batches = result.to_batches()
    assert sorted(following(batches, 2), key=str) == [("+I", "bob", 2), ("+I", None, 3)]
    lake.table("shop.orders").write([{"order_id": 2, "customer": "eve", "amount": None}])
    assert following(batches, 2) == [("-U", "bob", 2), ("+U", "eve", 2)]
    lake.table("shop.orders").delete("order_id = 3")
    assert following(batches, 1) == [("-D", None, 3)]
    result.stop()
    assert list(batches) == []


def test_a_stream_of_sources_that_end_is_an_ordinary_result(streaming: Session) -> None:
    result = streaming.sql("SELECT x * 2 AS y FROM (VALUES (1), (2)) AS t (x)")
    assert not result.endless
    assert result.to_arrow().to_pylist() == [{"op": "+I", "y": 2}, {"op": "+I", "y": 4}]
    assert "2 rows" in repr(result)


def test_an_endless_result_says_so_instead_of_waiting(streaming: Session) -> None:
    result = streaming.sql("SELECT * FROM orders")
    assert (
        repr(result)
        == "a stream of op, order_id, customer, amount without an end: to_batches() gives what comes"
    )
    assert "without an end" in result._repr_html_()
    for whole in (result.to_arrow, result.to_pandas, result.to_polars, lambda: len(result)):
        with pytest.raises(ts.InvalidRequest, match="has no end"):
            whole()
    assert len(result.head(3)) == 3
    result.stop()
    assert result.to_arrow().num_rows == 3
    assert "3 rows" in repr(result)


def test_another_thread_stops_it(streaming: Session) -> None:
    result = streaming.sql("SELECT * FROM orders")
    rows, all_came = 0, threading.Event()
    stopper = threading.Thread(target=lambda: result.stop() if all_came.wait(240) else None, daemon=True)
    stopper.start()
    for batch in result.to_batches():
        rows += batch.num_rows
        if rows == 3:
            all_came.set()
    assert rows == 3
    stopper.join(240)
    assert not stopper.is_alive()


def test_an_arrow_stream_ends_when_it_is_stopped(streaming: Session) -> None:
    result = streaming.sql("SELECT * FROM orders")
    reader = result.to_reader()
    assert isinstance(reader.read_next_batch(), pa.RecordBatch)
    result.stop()
    assert all(batch.num_rows for batch in reader)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("", [("+I", 1, "b"), ("+I", 2, "c")]),
        ("'scan.snapshot-id' = '2'", [("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "c")]),
        ("'scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '3'", [("+I", 2, "c")]),
        (
            "'scan.mode' = 'from-snapshot-full', 'scan.snapshot-id' = '1'",
            [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "c")],
        ),
        ("'scan.mode' = 'latest-full'", [("+I", 1, "b"), ("+I", 2, "c")]),
        ("'scan.timestamp-millis' = '1'", [("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, "c")]),
    ],
)
def test_where_a_stream_begins(streaming: Session, hint: str, expected: list[tuple[Any, ...]]) -> None:
    streaming.sql("CREATE TABLE t (k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1')")
    table = streaming.lake().table("shop.t")
    for k, v in ((1, "a"), (1, "b"), (2, "c")):
        table.write([{"k": k, "v": v}])
    hint = f" /*+ OPTIONS({hint}) */" if hint else ""
    assert taken(streaming.sql(f"SELECT * FROM t{hint}"), len(expected)) == expected


def test_latest_gives_later_changes_only(streaming: Session, lake: ts.Lake) -> None:
    result = streaming.sql("SELECT order_id FROM orders /*+ OPTIONS('scan.mode' = 'latest') */")
    threading.Timer(0.3, lake.table("shop.orders").write, [[{"order_id": 9}]]).start()
    assert taken(result, 1) == [("+I", 9)]


def test_a_consumer_goes_on_where_it_was(streaming: Session, lake: ts.Lake) -> None:
    sql = "SELECT n FROM events /*+ OPTIONS('consumer-id' = 'me') */"
    result = streaming.sql(sql)
    batches = result.to_batches()
    assert sorted(following(batches, 2)) == [("+I", 1), ("+I", 2)]
    threading.Timer(0.3, result.stop).start()
    assert list(batches) == []
    lake.table("shop.events").write([{"day": None, "n": 3}])
    assert taken(streaming.sql(sql), 1) == [("+I", 3)]


def test_groups_of_an_append_table_take_back_what_an_overwrite_replaced(
    streaming: Session, lake: ts.Lake
) -> None:
    events, sql = lake.table("shop.events"), "SELECT count(*) AS c, sum(n) AS s FROM events"
    batches = streaming.sql(sql).to_batches()
    assert following(batches, 1) == [("+I", 2, 3)]
    events.truncate()
    with pytest.raises(ts.NotFound, match=r"OVERWRITE.*'streaming-read-append-overwrite' = 'true'"):
        next(batches)
    streaming.sql("ALTER TABLE events SET ('streaming-read-append-overwrite' = 'true')")
    events = lake.table("shop.events")
    events.write([{"day": None, "n": 3}, {"day": None, "n": 4}])
    result = streaming.sql(sql)
    batches = result.to_batches()
    assert following(batches, 1) == [("+I", 2, 7)]
    events.overwrite([{"day": None, "n": 4}])
    assert following(batches, 2) == [("-U", 2, 7), ("+U", 1, 4)]
    result.stop()


@pytest.mark.parametrize(
    ("engine", "options"),
    [("partial-update", {}), ("aggregation", {"fields.v.aggregate-function": "sum"}), ("first-row", {})],
)
def test_changes_of_tables_that_merge_are_looked_up(
    streaming: Session, lake: ts.Lake, engine: str, options: dict[str, str]
) -> None:
    table = lake.create_table(
        "shop.m",
        schema={"k": ts.INT, "v": ts.INT},
        primary_key=["k"],
        options={"merge-engine": engine, "bucket": 1, **options},
    )
    table.write([{"k": 1, "v": 1}])
    table.write([{"k": 1, "v": 2}])
    last = {"partial-update": 2, "aggregation": 3, "first-row": 1}[engine]
    result = streaming.sql("SELECT * FROM m /*+ OPTIONS('scan.snapshot-id' = '1') */")
    changed = [] if engine == "first-row" else [("-U", 1, 1), ("+U", 1, last)]
    assert taken(result, 1 + len(changed)) == [("+I", 1, 1), *changed]
    assert taken(streaming.sql("SELECT * FROM m"), 1) == [("+I", 1, last)]


def test_what_cannot_be_followed_is_refused_at_its_place(streaming: Session) -> None:
    for table in ("orders$files", "orders VERSION AS OF 1"):
        with pytest.raises(ts.Unsupported, match=r"following .*orders") as e:
            streaming.sql(f"SELECT * FROM {table}")
        assert (e.value.line, e.value.column) == (1, 15)
