"""Services of tiering that are killed with SIGKILL while their round is held: before its commit to the lake,
or before the coordinator learns of it. Tables have a log in files, the coordinator is ours.

What was acknowledged is seen by union reads and streams at every moment, and in the end by the files, each
row once.
"""

from __future__ import annotations

import logging
import multiprocessing
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import tablestore as ts
from tablestore.tiering.coordinator.coordinator import Coordinator
from tablestore.tiering.journal import read_report
from tablestore.tiering.opening import journal_directory
from tests.campaign.outcome import Outcome
from tests.log.followed import Followed
from tests.log.held import log_view
from tests.tiering.waiting import until

KILLS = 3
NAMES = ("service", "other")
PHASES = ("committing", "registering")
TIERED = {
    **{"log.system": "embedded", "bucket": 2, "tablestore.tiering.enabled": True},
    **{"tablestore.tiering.freshness": "100 ms"},
}
COLUMNS = {"k": ts.INT, "v": ts.BIGINT}
SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "d.sums": (["k"], SUMS),
    "d.keyed": (["k"], {}),
    "d.append": ([], {"bucket-key": "k"}),
}


def serve(warehouse: str, address: str, name: str, hold: str) -> None:
    """The process of a service."""
    logging.disable(logging.WARNING)
    ts.connect(warehouse).tier(f"fluss://{address}", name=name, hold=hold, poll="50ms").wait()


class Life:
    """A lake with tiered tables, and what was acknowledged of each."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng, self.folder = random.Random(f"{seed} held"), folder
        self.warehouse, self.hold = str(folder / "lake"), folder / "hold"
        self.lake = ts.connect(self.warehouse)
        for name, (key, options) in KINDS.items():
            given = {**TIERED, **options}
            self.lake.create_table(name, schema=COLUMNS, primary_key=key, options=given)
        self.acknowledged: dict[str, list[tuple[int, int]]] = {name: [] for name in KINDS}
        self.counts, self.number = Counter[str](), 0

    def write(self) -> None:
        """Some commits, of all tables; some are asked for twice."""
        for name in KINDS:
            for _ in range(self.rng.randint(1, 3)):
                self.number += 1
                rows = [{"k": k, "v": self.number} for k in self.rng.sample(range(6), 3)]
                for again in (False, True)[: self.rng.randint(1, 2)]:
                    done = self.lake.table(name).write(rows, user="till", identifier=self.number)
                    assert done.replayed == again
                self.acknowledged[name] += [(row["k"], row["v"]) for row in rows]

    def expected(self, name: str) -> Counter[Any]:
        """The rows of a table."""
        rows, actual = self.acknowledged[name], dict[int, int]()
        if name == "d.append":
            return Counter(rows)
        for k, v in rows:
            actual[k] = v + (actual.get(k, 0) if name == "d.sums" else 0)
        return Counter(actual.items())

    def look(self, *, log: bool = True) -> None:
        """Scans, with the rows that the log alone has, and streams see what was acknowledged."""
        for name, (key, _) in KINDS.items():
            rows = self.lake.table(name).scan(log=log).to_arrow().to_pylist()
            actual, expected = Counter((row["k"], row["v"]) for row in rows), self.expected(name)
            assert actual == expected, f"{name} (log={log}) lost {expected - actual}, has {actual - expected}"
            if name == "d.sums":
                continue
            reader = Followed(len(key))
            for step in self.lake.table(name).stream(start="earliest", timeout=0.0):
                reader.take(step)
            assert reader.rows == expected, f"a stream of {name} has {reader.rows}, not {expected}"

    def kill(self, coordinator: Coordinator, phase: str) -> None:
        """A service holds a round at this phase, and is killed there."""
        name = self.rng.choice(NAMES)
        self.hold.write_text(phase)
        process = _PROCESSES.Process(
            target=serve, args=(self.warehouse, coordinator.address, name, str(self.hold))
        )
        started = time.time()
        process.start()
        self.write()
        journal = journal_directory(self.warehouse, name)
        until(lambda: _waits(journal, phase, started))
        self.look()
        process.kill()
        process.join()
        self.counts[f"killed while {phase}"] += 1
        self.look()

    def end(self, coordinator: Coordinator) -> None:
        """A service brings the rest."""
        self.hold.unlink()
        with_rest = self.lake.tier(f"fluss://{coordinator.address}", name="service", poll="50ms")
        try:
            until(lambda: all(self.in_files(name) for name in KINDS))
        finally:
            assert with_rest.stop(240)
        self.look(log=False)
        self.look()
        for name in KINDS:
            assert self.lake.table(name).check() == [], name

    def in_files(self, name: str) -> bool:
        """Whether files have all that the log has."""
        log = log_view(self.lake.table(name))
        return log.in_files == log.end


_PROCESSES = multiprocessing.get_context("forkserver")


def _waits(journal: str, phase: str, since: float) -> bool:
    """Whether a round that began since then waits at the phase, as the journal says."""
    rounds = [round_report for round_report in read_report(journal).rounds if round_report.started >= since]
    return any((round_report.phase, round_report.ended) == (phase, None) for round_report in rounds)


def run(seed: int, folder: Path) -> Outcome:
    """Some kills of services, with a new coordinator in between."""
    _PROCESSES.set_forkserver_preload(["tests.campaign.held_rounds"])
    life, wrong = Life(seed, folder), tuple[str, ...]()
    try:
        for number in range(KILLS):
            with life.lake.coordinator() as coordinator:
                life.kill(coordinator, PHASES[(seed + number) % 2])
                if life.rng.random() < 0.3:
                    log_view(life.lake.table(life.rng.choice(list(KINDS)))).finish()
        with life.lake.coordinator() as coordinator:
            life.end(coordinator)
    except AssertionError as e:
        wrong = (str(e),)
    counts = Counter({f"services {what}": count for what, count in life.counts.items()})
    return Outcome(KILLS, counts, wrong)
