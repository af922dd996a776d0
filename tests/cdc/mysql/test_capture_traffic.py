"""A whole database is captured while it is written and altered, and the capture is interrupted: in the end
the lake holds what the source holds."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.cdc.mysql.local_capture import LocalCapture
from tests.cdc.mysql.traffic import COLUMNS, WHOLE, Traffic, differences
from tests.servers.mariadb import MariaDb

_COMPACTED = 0.3  # share of the things a batch does behind which a table is compacted


class Interrupted(BaseException):
    """Where the process would have ended."""


class Interruptible:
    """A capture that now and then goes on as in a new process, or whose tables somebody else compacts."""

    def __init__(self, capture: LocalCapture, r: random.Random, share: float) -> None:
        self._random, self._share, self._capture = r, share, capture
        capture.interrupt = self._interrupt
        self.interrupted = 0

    def _interrupt(self) -> None:
        if self._random.random() < self._share:
            raise Interrupted
        names = sorted(name for name in self._capture.lake.tables() if name.startswith("ods."))
        if names and self._random.random() < _COMPACTED:
            self._capture.lake.table(self._random.choice(names)).compact(full=True)

    def step(self) -> bool:
        try:
            return self._capture.step()
        except Interrupted:
            self.interrupted += 1
            self._capture.begin()
            return True

    def catch_up(self) -> None:
        until = time.monotonic() + 300
        while self.step():
            assert time.monotonic() < until, self._capture.batches


@pytest.mark.parametrize("kinds", [(), COLUMNS + WHOLE], ids=["rows", "ddl"])
@pytest.mark.large
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
        capture = LocalCapture(tmp_path / str(seed), mariadb.url, database, how)
        steps = Interruptible(capture, r, 0.05)
        if r.random() < 0.5:
            steps.catch_up()  # statements come when all rows are read
        with traffic:
            batches, until = capture.batches + 8, time.monotonic() + 2
            while time.monotonic() < until or capture.batches < batches:
                steps.step()
        steps.catch_up()
        assert differences(capture.lake, capture.url, database) == [], (seed, traffic.statements)
        reasons = Counter(event.reason for event in capture.events)
        done = f"{capture.batches} batches, {steps.interrupted} interruptions"
        print(seed, how, done, f"{len(traffic.statements)} statements", reasons)
