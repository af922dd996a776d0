"""A capture of a database whose batches are carried out in this process, as Spark would carry them out: its
checkpoint is in files, so that another process may go on with it."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tablestore as ts
from tablestore.cdc.capture.names import Patterns
from tablestore.cdc.capture.report import BatchReport, CaptureJournal
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.sink import POOL_BYTES, CapturePlan, CaptureSink, SinkSettings
from tablestore.cdc.capture.source import TableEvent
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.database import MysqlDatabase
from tablestore.cdc.mysql.table_choice import TableChoice
from tablestore.core.errors import Unavailable
from tablestore.flow.source import Offset

USER = "job"
PATIENCE_SECONDS = 120


@dataclass
class PickledTripBatch:
    """A batch whose tasks run here, after a pickled trip; `before_task` is called in front of each."""

    plan: CapturePlan
    number: int
    start: Offset
    end: Offset
    before_task: Callable[[], None]

    def works(self) -> Sequence[Any]:
        return self.plan.works(self.start, self.end)

    def counted(self) -> Mapping[int, int]:
        return {}

    def over(
        self,
        task: Callable[[Any], Any],
        items: Sequence[Any],
        *,
        count: Callable[[Any], int] | None = None,
    ) -> list[Any]:
        collected = []
        for item in items:
            self.before_task()
            sent = pickle.loads(pickle.dumps((task, item)))
            collected.append(pickle.loads(pickle.dumps(sent[0](sent[1]))))
        return collected


@dataclass
class LocalCapture:
    """A capture of all tables of a database but the `excluded` into `ods`, in steps; `how` are settings of
    the source, `options` those of the tables; the writers of a task have `pool_bytes` of memory. `interrupt`
    is called between any two things that a batch does."""

    path: Path
    url: str
    database: str
    how: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    pool_bytes: int = POOL_BYTES
    excluded: str = "none"
    interrupt: Callable[[], None] = lambda: None
    events: list[TableEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lake = ts.connect(str(self.path / "lake"))
        self.checkpoint = self.path / "checkpoint"
        for name in ("offsets", "commits"):
            (self.checkpoint / name).mkdir(parents=True, exist_ok=True)
        self.begin()

    def begin(self) -> None:
        """As in a new process, which is started until the server is there."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._open()
            except Unavailable:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def _open(self) -> None:
        patterns = Patterns.of("*", self.excluded, database=self.database)
        checkpoint = str(self.checkpoint)
        choice = TableChoice(patterns)
        source = MysqlDatabase.open(Address.parse(self.url), choice, checkpoint=checkpoint, **self.how)
        options = {"bucket": 1, **self.options}
        rules = CaptureRules.of(
            "*", exclude=self.excluded, database=self.database, into="ods", options=options
        )
        self.plan = pickle.loads(pickle.dumps(CapturePlan(source)))
        self.sink = CaptureSink(
            self.lake,
            source,
            rules,
            SinkSettings(USER, pool_bytes=self.pool_bytes),
            CaptureJournal(checkpoint),
        )

    @property
    def batches(self) -> int:
        """That are carried out."""
        return len(list((self.checkpoint / "commits").glob("*[0-9]")))

    def step(self) -> bool:
        """Carry out a batch; whether there was one. An error that may pass leaves it for the next step."""
        number = self.batches
        try:
            start = self._read(number - 1) or self.plan.initial()
            end = self._read(number)
            if end is None:
                end = self.plan.next(start)
                if end == start:
                    return False
                self._write("offsets", number, json.dumps(end))
            self.events += self.plan.source.events(start, end)
            self.interrupt()
            self.sink.write(PickledTripBatch(self.plan, number, start, end, self.interrupt), number)
            self.interrupt()
        except Unavailable:
            self.begin()
            return True
        self._write("commits", number, "")
        return True

    def reports(self) -> list[BatchReport]:
        return CaptureJournal(str(self.checkpoint)).reports()

    def catch_up(self) -> None:
        until = time.monotonic() + 300
        while self.step():
            assert time.monotonic() < until, self.batches

    def _read(self, number: int) -> Offset | None:
        """Where a batch ends, as it was planned."""
        path = self.checkpoint / "offsets" / str(number)
        if not path.exists():
            return None
        document: Offset = json.loads(path.read_text())
        return document

    def _write(self, folder: str, number: int, text: str) -> None:
        path = self.checkpoint / folder / str(number)
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").rename(path)
