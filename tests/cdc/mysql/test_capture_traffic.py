"""A whole database is captured while it is written and altered, and the capture is killed: in the end the
lake holds what the source holds. Batches are carried out in this process, as Spark would carry them out."""

from __future__ import annotations

import pickle
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.capture.journal import Journal
from tablestore.cdc.capture.names import Patterns
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.sink import CapturePlan, CaptureSink, SinkSettings
from tablestore.cdc.capture.source import TableEvent
from tablestore.cdc.mysql.address import Address
from tablestore.cdc.mysql.database import MysqlDatabase
from tablestore.cdc.stream_source import Offset
from tests.cdc.mysql.traffic import COLUMNS, WHOLE, Traffic, differences
from tests.servers.mariadb import MariaDb


class Killed(BaseException):
    """Where the process would have ended."""


@dataclass
class LocalBatch:
    """A batch whose tasks run here, after a pickled trip; `fails` may end the process anywhere in it."""

    plan: CapturePlan
    number: int
    start: Offset
    end: Offset
    fails: Callable[[], None]

    def over_works(self, task: Callable[[Any], Any]) -> list[Any]:
        return self.over(task, self.plan.works(self.start, self.end))

    def over(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        found = []
        for item in items:
            self.fails()
            sent = pickle.loads(pickle.dumps((task, item)))
            found.append(pickle.loads(pickle.dumps(sent[0](sent[1]))))
        return found


@dataclass
class Capture:
    """A capture of all tables of a database into `ods`, in steps; `offsets` are what its checkpoint holds."""

    path: Path
    url: str
    database: str
    how: dict[str, Any]
    random: random.Random
    kills: float = 0.0
    offsets: list[Offset] = field(default_factory=list)
    carried_out: int = 0
    killed: int = 0
    events: list[TableEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lake = ts.connect(str(self.path / "lake"))
        self._begin()

    def _begin(self) -> None:
        """As in a new process."""
        checkpoint = str(self.path / "checkpoint")
        patterns = Patterns.of("*", database=self.database)
        address = Address.parse(self.url)
        source = MysqlDatabase.open(address, patterns, checkpoint=checkpoint, **self.how)
        rules = CaptureRules.of("*", database=self.database, into="ods", options={"bucket": 1})
        self.plan = pickle.loads(pickle.dumps(CapturePlan(source)))
        self.sink = CaptureSink(self.lake, source, rules, SinkSettings("job"), Journal(checkpoint))
        if not self.offsets:
            self.offsets.append(self.plan.initial())

    def _fails(self) -> None:
        if self.random.random() < self.kills:
            raise Killed

    def step(self) -> bool:
        """Carry out a batch; whether there was one."""
        if len(self.offsets) == self.carried_out + 1:
            end = self.plan.next(self.offsets[-1])
            if end == self.offsets[-1]:
                return False
            self.offsets.append(pickle.loads(pickle.dumps(end)))
        number = self.carried_out
        self.events += self.plan.source.events(*self.offsets[number : number + 2])
        batch = LocalBatch(self.plan, number, self.offsets[number], self.offsets[number + 1], self._fails)
        try:
            self._fails()
            self.sink.write(batch, number)
            self._fails()
        except Killed:
            self.killed += 1
            self._begin()
            return True
        self.carried_out += 1
        return True

    def catch_up(self) -> None:
        until = time.monotonic() + 120
        while self.step():
            assert time.monotonic() < until, self.offsets[-1]


@pytest.mark.parametrize("kinds", [(), COLUMNS + WHOLE], ids=["rows", "ddl"])
def test_the_lake_holds_what_the_source_holds(
    mariadb: MariaDb, database: str, tmp_path: Path, seeds: tuple[int, ...], kinds: tuple[str, ...]
) -> None:
    for seed in seeds[:: 1 if len(seeds) > 5 else 5]:
        r = random.Random(seed)
        kinds = r.choice([COLUMNS, WHOLE, kinds]) if kinds and seed != seeds[0] else kinds
        mariadb.run(f"DROP DATABASE IF EXISTS {database}")
        traffic = Traffic(mariadb, database, seed=seed, ddl=kinds, ddl_pause=0.3).make()
        how = {"chunk_rows": r.choice([40, 200, 1000]), "chunks": r.choice([1, 4])}
        how["log_bytes"] = r.choice([1000, 1 << 20])
        capture = Capture(tmp_path / str(seed), mariadb.url, database, how, r, kills=0.05)
        if r.random() < 0.5:
            capture.catch_up()  # statements come when all rows are read
        with traffic:
            batches, until = capture.carried_out + 8, time.monotonic() + 2
            while time.monotonic() < until or capture.carried_out < batches:
                capture.step()
        capture.catch_up()
        assert differences(capture.lake, capture.url, database) == [], (seed, traffic.statements)
        reasons = Counter(one.reason for one in capture.events)
        print(
            seed,
            how,
            capture.carried_out,
            "batches",
            capture.killed,
            "kills",
            len(traffic.statements),
            reasons,
        )
