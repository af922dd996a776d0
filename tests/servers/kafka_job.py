"""A capture of topics, batch by batch, and messages for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tablestore as ts
from tablestore.cdc.capture.report import BatchReport, CaptureJournal, EventReport
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.sink import CaptureSink, SinkSettings
from tablestore.cdc.kafka.capture import TopicsCapture, TopicSettings, open_topics
from tablestore.flow.source import Offset
from tests.cdc.capture.fakes import FakeBatch
from tests.servers.kafka import Broker


@dataclass
class KafkaJob:
    """A capture into a lake, whose batches are carried out here."""

    kafka: Broker
    folder: Path
    topics: str
    how: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    batches: list[tuple[Offset, Offset]] = field(default_factory=list)
    endless: bool = True

    @property
    def source(self) -> TopicsCapture:
        rules = CaptureRules.of(**{"tables": "*.*", **self.rules})
        url = f"kafka://{self.kafka.address}/{self.topics}"
        settings = TopicSettings(**{"format": "debezium-json", **self.how})
        return open_topics(
            url, settings, rules, checkpoint=str(self.folder / "checkpoint"), follow=self.endless
        )

    @property
    def lake(self) -> ts.Lake:
        return ts.connect(str(self.folder / "lake"))

    def follow(self) -> list[BatchReport]:
        """Carry out all that there is to do, by a new source and sink as after a restart."""
        source, reports = self.source, []
        at = self.batches[-1][1] if self.batches else json.loads(json.dumps(source.initial()))
        while (end := json.loads(json.dumps(source.next(at)))) != at:
            self.batches.append((at, end))
            reports.append(self.carry_out(len(self.batches) - 1))
            at = end
        return reports

    def carry_out(self, number: int) -> BatchReport:
        """One batch, maybe again."""
        source = self.source
        sink = CaptureSink(
            self.lake,
            source,
            source.chosen.rules,
            SinkSettings("job"),
            CaptureJournal(str(self.folder / "checkpoint")),
        )
        return sink.write(FakeBatch(source, number, *self.batches[number]), number)

    def rows(self, table: str) -> list[dict[str, Any]]:
        actual = self.lake.table(table).scan().to_arrow().to_pylist()
        return sorted(actual, key=lambda row: json.dumps(row, default=str))

    def types(self, table: str) -> dict[str, str]:
        return {f.name: str(f.type) for f in self.lake.table(table).store.schema.fields}


def events(reports: Sequence[BatchReport]) -> list[EventReport]:
    return [event for report in reports for event in report.events]


def kinds(reports: Sequence[BatchReport]) -> list[tuple[str, str]]:
    return [(event.kind, event.source) for event in events(reports)]


def as_bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return json.dumps(value, ensure_ascii=False).encode()


def send(kafka: Broker, topic: str, messages: Sequence[tuple[Any, Any]], partition: int = 0) -> None:
    kafka.send(topic, [(as_bytes(key), as_bytes(value)) for key, value in messages], partition=partition)


def change(op: str, before: Any = None, after: Any = None, **source: Any) -> dict[str, Any]:
    """An event of Debezium without a schema."""
    where = {"db": "shop", "table": "t", "ts_ms": 1_700_000_000_500, **source}
    return {"before": before, "after": after, "op": op, "source": where}
