"""A lake, a source of steps and the sink between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tablestore as ts
from tablestore.cdc.capture.report import BatchReport, CaptureJournal
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.sink import CaptureSink, SinkSettings
from tests.cdc.capture.fakes import (
    FakeBatch,
    FakeSource,
    FakeStep,
)


@dataclass
class World:
    """A lake, a source and the sink between them; `sink` is made anew as after a restart."""

    path: Path
    source: FakeSource = field(default_factory=FakeSource)
    rules: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def lake(self) -> ts.Lake:
        return ts.connect(str(self.path / "lake"))

    @property
    def journal(self) -> CaptureJournal:
        return CaptureJournal(str(self.path / "checkpoint"))

    def sink(self) -> CaptureSink:
        rules = CaptureRules.of("shop.*", **{"into": "ods", **self.rules})
        settings = SinkSettings(**{"user": "job", **self.settings})
        return CaptureSink(self.lake, self.source, rules, settings, self.journal)

    def batch(self, number: int) -> FakeBatch:
        return FakeBatch(self.source, number, {"v": 1, "at": number}, {"v": 1, "at": number + 1})

    def run(self, *steps: FakeStep, sink: CaptureSink | None = None) -> list[BatchReport]:
        """Carry out these steps after those that there were."""
        sink = sink or self.sink()
        first = len(self.source.steps)
        self.source.steps += steps
        return [sink.write(self.batch(n), n) for n in range(first, first + len(steps))]

    def rows(self, table: str = "ods.item") -> list[tuple[Any, ...]]:
        actual = self.lake.table(table).scan().to_arrow()
        return sorted(zip(*(c.to_pylist() for c in actual.columns), strict=True))
