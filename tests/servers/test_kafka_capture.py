"""Topics of change events as tables: what a real Debezium wrote, by a real broker, to its final state."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import ALTERED, CAPTURED, EMPTIED, BadRow, Shape, TableEvent
from tablestore.cdc.kafka.capture import TopicsCapture
from tablestore.cdc.kafka.open_capture import open_topics
from tablestore.cdc.stream_source import Offset
from tablestore.format import rowkind
from tests.cdc.formats.test_golden import GOLDEN, ITEMS, MODES, ORDERS, OTHER_TYPES, comparable, expected
from tests.servers.kafka import Broker

ADDED = SourceName("shop", "added")
ORDERS_TABLE, ITEMS_TABLE = SourceName("shop", "orders"), SourceName("shop", "items")


class Replica:
    """Tables that follow a capture in memory: what a sink must do, row by row."""

    def __init__(self, source: TopicsCapture) -> None:
        self.source, self.at = source, source.initial()
        self.shapes: dict[SourceName, Shape] = {}
        self.rows: dict[SourceName, dict[Any, dict[str, Any]]] = {}
        self.events: list[TableEvent] = []
        self.bad: list[BadRow] = []
        self.batches: list[tuple[Offset, Offset]] = []

    def follow(self) -> Replica:
        """All that there is."""
        while True:
            end = json.loads(json.dumps(self.source.next(json.loads(json.dumps(self.at)))))
            if end == self.at:
                return self
            self.take(self.at, end)
            self.batches.append((self.at, end))
            self.at = end

    def take(self, start: Offset, end: Offset) -> None:
        for event in self.source.events(start, end):
            self.events.append(event)
            if event.kind in (CAPTURED, ALTERED):
                assert event.shape is not None
                self.shapes[event.table] = event.shape
                self.rows.setdefault(event.table, {})
            elif event.kind == EMPTIED:
                self.rows[event.table].clear()
        for piece in pickle.loads(pickle.dumps(self.source.pieces(start, end))):
            for found in piece.read():
                if isinstance(found, BadRow):
                    self.bad.append(found)
                    continue
                shape = piece.tables[found.table]
                assert found.rows.schema.equals(shape.schema)
                assert found.seconds is None or len(found.seconds) == found.rows.num_rows
                assert shape == self.shapes[found.table]
                self._put(found.table, shape, found.rows, found.kinds)

    def _put(self, name: SourceName, shape: Shape, rows: pa.RecordBatch, kinds: pa.Array) -> None:
        there = self.rows[name]
        for row, kind in zip(rows.to_pylist(), kinds.to_pylist(), strict=True):
            key = tuple(row[column] for column in shape.primary_key)
            if kind == rowkind.DELETE:
                there.pop(key, None)
            elif kind != rowkind.UPDATE_BEFORE:
                there[key] = row

    def of(self, name: SourceName) -> list[dict[str, Any]]:
        """The rows of a table, with NULL for columns that came later."""
        columns = self.shapes[name].names
        rows = ({c: row.get(c) for c in columns} for row in self.rows[name].values())
        return sorted(rows, key=lambda r: json.dumps(r, default=str))

    def kinds(self) -> list[tuple[str, str]]:
        return [(event.kind, event.table.table) for event in self.events]


def capture(
    kafka: Broker, topics: str, folder: Path, *, format: str = "debezium-json", **how: Any
) -> Replica:
    made = open_topics(f"kafka://{kafka.address}/{topics}", checkpoint=str(folder), format=format, **how)
    return Replica(made)


def as_bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return json.dumps(value, ensure_ascii=False).encode()


def send(kafka: Broker, topic: str, messages: Sequence[tuple[Any, Any]], partition: int = 0) -> None:
    kafka.send(topic, [(as_bytes(key), as_bytes(value)) for key, value in messages], partition=partition)


def recorded(mode: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / f"{mode}.jsonl").read_text().splitlines()]


def replay(kafka: Broker, mode: str, *, one_topic: bool) -> str:
    """The recorded messages in topics of their own; gives their name or the expression that matches them."""
    prefix = kafka.topic()
    lines = recorded(mode)
    if one_topic:
        send(kafka, prefix, [(line["key"], line["value"]) for line in lines])
        return prefix
    for topic in sorted({line["topic"] for line in lines}):
        name = kafka.topic(name=f"{prefix}.{topic}")
        send(kafka, name, [(line["key"], line["value"]) for line in lines if line["topic"] == topic])
    return f"{prefix}\\.srv.*"


def declared(mode: str) -> dict[str, Any]:
    """The types that messages without a schema do not say."""
    if mode == "events_schemas":
        return {}
    tables = {"shop.orders": ORDERS | OTHER_TYPES.get(mode, {}), "shop.items": ITEMS}
    return {"columns": tables, "format_options": MODES[mode]}


def final_rows(replica: Replica, table: SourceName) -> list[dict[str, Any]]:
    """The rows as the server would say them; the default of an added column is in no event."""
    if table == ORDERS_TABLE:
        return sorted(map(comparable, replica.of(table)), key=lambda r: json.dumps(r, default=str))
    names = list(ITEMS)
    rows = [{name: row[name] for name in names} for row in replica.of(table)]
    return [row | {"discount": row["discount"] or Decimal("0.05")} for row in rows]


@pytest.mark.parametrize("one_topic", [True, False], ids=["one-topic", "topics"])
@pytest.mark.parametrize("mode", MODES)
def test_what_debezium_recorded_leads_to_the_rows_of_the_server(
    kafka: Broker, tmp_path: Path, mode: str, one_topic: bool
):
    topics = replay(kafka, mode, one_topic=one_topic)
    replica = capture(kafka, topics, tmp_path, **declared(mode)).follow()
    assert replica.bad == []
    assert final_rows(replica, ORDERS_TABLE) == expected("orders", mode)
    assert final_rows(replica, ITEMS_TABLE) == expected("items", mode)
    assert replica.rows[ADDED] == {}
    kinds = replica.kinds()
    assert kinds.count((CAPTURED, "orders")) == kinds.count((CAPTURED, "items")) == 1
    assert (EMPTIED, "added") in kinds


def test_a_column_that_comes_later_ends_the_batch_in_front_of_it(kafka: Broker, tmp_path: Path):
    topic = replay(kafka, "events_schemas", one_topic=True)
    replica = capture(kafka, topic, tmp_path, messages=20).follow()
    assert final_rows(replica, ITEMS_TABLE) == expected("items", "events_schemas")
    assert final_rows(replica, ORDERS_TABLE) == expected("orders", "events_schemas")
    [altered] = [e for e in replica.events if e.kind == ALTERED]
    [at] = [i for i, line in enumerate(recorded("events_schemas")) if is_first_with_discount(line)][:1]
    assert altered.position == f"{topic}[0]@{at}"
    assert altered.shape is not None
    assert altered.shape.primary_key == ("order_id", "line")
    assert str(altered.shape.columns[-1].type) == "DECIMAL(4, 2)"
    assert altered.seconds > 1_700_000_000
    assert at in [end["topics"][topic]["next"]["0"] for _, end in replica.batches]


def is_first_with_discount(line: dict[str, Any]) -> bool:
    return line["topic"].endswith(".items") and "discount" in (
        (line["value"] or {}).get("payload", {}).get("after") or ()
    )
