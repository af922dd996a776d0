"""Writers of tables with a log in Kafka, readers and the broker are killed: nothing is lost, nothing is there
twice. A kill a round of `--rounds`, four at least."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tests.log import held
from tests.servers.kafka import Broker
from tests.servers.kafka_writer import rows
from tests.servers.test_kafka_table import create

pytestmark = pytest.mark.large

ROOT = Path(__file__).parents[2]


class Writers:
    """Two writing processes; one that was killed is started again."""

    def __init__(self, folder: Path, table: ts.Table, slots: tuple[int, int], commits: int) -> None:
        self._folder, self._name, self._slots, self._commits = folder, table.name, slots, commits
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, number: int) -> None:
        arguments = [str(self._folder), self._name, str(number), str(self._slots[number]), str(self._commits)]
        with (self._folder.parent / f"writer-{number}.log").open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.servers.kafka_writer", *arguments],
                cwd=ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.processes[number : number + 1] = [process]

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()
        self.start(number)

    def output(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._folder.parent.glob("writer-*.log")))[
            -3000:
        ]

    def ended(self) -> bool:
        codes = [process.poll() for process in self.processes]
        assert set(codes) <= {None, 0}, self.output()
        return None not in codes

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


class Follower:
    """Follows the table from its cursor; what it has delivered is applied once."""

    def __init__(self, lake: ts.Lake, name: str) -> None:
        self._lake, self._name = lake, name
        self.cursor: object = "latest-full"
        self.rows: Counter[tuple[int, int]] = Counter()

    def follow(self, seconds: float) -> None:
        """Some steps, then it is gone; so it is where the broker is away."""
        over = time.monotonic() + seconds
        with contextlib.suppress(TablestoreError):
            table = self._lake.table(self._name)
            for step in table.stream(start=self.cursor, follow=True, timeout=max(0.1, seconds)):
                found = step.to_arrow().to_pylist()
                for row in found:
                    sign = 1 if row.get("rowkind", "+I") in ("+I", "+U") else -1
                    self.rows[row["k"], row["v"]] += sign
                self.cursor = step.cursor
                if time.monotonic() > over:
                    return


@pytest.mark.parametrize(("keyed", "slots"), [(True, (0, 1)), (False, (0, 0))], ids=["keyed", "one slot"])
def test_kills_of_writers_readers_and_the_broker_leave_each_row_once(
    kafka: Broker, tmp_path: Path, keyed: bool, slots: tuple[int, int], seeds: tuple[int, ...]
) -> None:
    rng = random.Random(seeds[0])
    kills = ["writer", "broker", "writer", "reader"] * max(1, len(seeds) // 4)
    commits = 3 * len(kills)
    table = create(kafka, tmp_path / "lake", keyed=keyed)
    lake = ts.connect(tmp_path / "lake")
    writers, follower = Writers(tmp_path / "lake", table, slots, commits), Follower(lake, "d.t")
    with contextlib.closing(writers):
        for number in range(2):
            writers.start(number)
        for kill in kills:
            follower.follow(rng.random())
            if kill == "writer":
                writers.kill(rng.randrange(2))
            elif kill == "broker":
                kafka.server.kill()
                time.sleep(rng.random())
                kafka.server.start()
        over = time.monotonic() + 240 + 10 * len(kills)
        while not writers.ended():
            assert time.monotonic() < over, writers.output()
            follower.follow(0.5)
    table = lake.table("d.t")
    assert table.log is not None
    table.log.finish()
    numbers = range(1, commits + 1)
    wanted = Counter((r["k"], r["v"]) for user in range(2) for n in numbers for r in rows(user, n))
    if keyed:
        wanted = Counter(dict(sorted(wanted, key=lambda one: one[1])).items())
    for scan in (table.scan(), table.scan(log=True)):
        assert Counter((row["k"], row["v"]) for row in scan.to_arrow().to_pylist()) == wanted
    held.require_prefix(lake, table)
    follower.follow(5)
    assert +follower.rows == wanted
    lake.drop_table("d.t")
