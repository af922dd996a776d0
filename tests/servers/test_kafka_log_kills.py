"""Writers of tables with a log in Kafka, readers and the broker are killed: nothing is lost, nothing is there
twice. A kill a round of `--rounds`, four at least."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import Unavailable
from tablestore.log import offsets
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


class CursorFollower:
    """Follows the table from its cursor; what it has delivered is applied once. Each row that is removed must
    be there, and of a key only one row."""

    def __init__(self, lake: ts.Lake, name: str, *, keyed: bool) -> None:
        self._lake, self._name, self._keyed = lake, name, keyed
        self.cursor = "latest-full"
        self.rows: Counter[tuple[int, int]] = Counter()
        self.steps: list[tuple[str, list[dict[str, Any]]]] = []

    def follow(self, seconds: float) -> None:
        """Some steps, then it is gone; so it is where the broker is away."""
        over = time.monotonic() + seconds
        try:
            table = self._lake.table(self._name)
            for step in table.stream(start=self.cursor, follow=True, timeout=max(0.1, seconds)):
                rows = step.to_arrow().to_pylist()
                text = f"{step.source}{' in full' if step.full else ''} of snapshot {step.snapshot}"
                self.steps.append((f"{text}, from {self.cursor} to {step.cursor}", rows))
                self._apply(rows)
                self.cursor = step.cursor
                if time.monotonic() > over:
                    return
        except Unavailable as e:
            text = f"again from {self.cursor} after {e}"
            if not self.steps or self.steps[-1][0] != text:
                self.steps.append((text, []))

    def _apply(self, rows: list[dict[str, Any]]) -> None:
        """Apply the rows of a step; raises AssertionError where they do not fit what is there."""
        for row in rows:
            row_values = row["k"], row["v"]
            self.rows[row_values] += 1 if row.get("rowkind", "+I") in ("+I", "+U") else -1
        self.rows = Counter({values: count for values, count in self.rows.items() if count})
        keys = Counter(k for k, _ in self.rows)
        wrong = {k for (k, _), count in self.rows.items() if count != 1 or (self._keyed and keys[k] > 1)}
        assert not wrong, self.history(wrong)

    def history(self, keys: Iterable[int]) -> str:
        """What became of these keys: in each step, in the log and in snapshots."""
        wanted, table = set(keys), self._lake.table(self._name)
        lines = [f"rows of keys {sorted(wanted)}, of which there are {self.rows}:"]
        for text, changes in self.steps:
            actual = [(row.get("rowkind"), row["k"], row["v"]) for row in changes if row["k"] in wanted]
            lines.append(f"{text}: {actual}")
        for some in held.logged(table, held.end(table)):
            for offset, kind, row in zip(
                some.offsets.tolist(), some.kinds.to_pylist(), some.rows.to_pylist(), strict=True
            ):
                if row["k"] in wanted:
                    lines.append(f"bucket {some.bucket} offset {offset}: kind {kind} of {row}")
        log = table._handle.log
        assert log is not None
        lines += map(str, log.transactions({}))
        for number in table.store.snapshots.ids():
            at = table.store.snapshots.get(number)
            commit = f"{at.commit_kind} {at.commit_identifier} of {at.commit_user}"
            lines.append(f"snapshot {number}, {commit}: offsets {offsets.of_snapshot(at)}")
        return "\n".join(lines)


@pytest.mark.parametrize(
    ("keyed", "slots"),
    [(True, (0, 1)), (False, (0, 1)), (False, (0, 0))],
    ids=["keyed", "without a key", "one slot"],
)
def test_kills_of_writers_readers_and_the_broker_leave_each_row_once(
    kafka: Broker, tmp_path: Path, keyed: bool, slots: tuple[int, int], seeds: tuple[int, ...]
) -> None:
    rng = random.Random(seeds[0])
    kills = ["writer", "broker", "writer", "reader"] * max(1, len(seeds) // 4)
    commits = 20 + 3 * len(kills)
    table = create(kafka, tmp_path / "lake", keyed=keyed)
    lake = ts.connect(tmp_path / "lake")
    writers, follower = (
        Writers(tmp_path / "lake", table, slots, commits),
        CursorFollower(lake, "d.t", keyed=keyed),
    )
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
        wanted = Counter(dict(sorted(wanted, key=lambda pair: pair[1])).items())
    for scan in (table.scan(), table.scan(log=True)):
        assert Counter((row["k"], row["v"]) for row in scan.to_arrow().to_pylist()) == wanted
    held.require_prefix(lake, table)
    follower.follow(5)
    wrong = {values for values, _ in follower.rows.items() ^ wanted.items()}
    assert not wrong, follower.history({k for k, _ in wrong})
    lake.drop_table("d.t")
