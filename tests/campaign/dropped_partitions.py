"""Partitions that the cluster drops, adds again and drops while they are read; rounds that are killed where
they can be held; services that are started anew. With both policies.

Every row that was appended is in the lake after a round, or an event names its partition, the round is called
incomplete, and the count, where it is known, is right.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tablestore.tiering.journal import read_report
from tablestore.tiering.report import Phase
from tablestore.tiering.round import RoundHold
from tests.campaign.outcome import Outcome
from tests.faults import Killed
from tests.tiering.memory import PartitionedCluster
from tests.tiering.test_dropped import Rounds

DAYS = "abcd"
STEPS = 40


@dataclass(frozen=True, slots=True)
class KillingHold(RoundHold):
    """Rounds that come to this phase are killed there."""

    phase: str = ""

    def wait(self, table_path: str, phase: Phase, given_up: Callable[[], bool]) -> None:
        """Kill instead of waiting."""
        if phase == self.phase:
            raise Killed


@dataclass
class Partition:
    """How many rows a partition had, how many of them the lake has got; whether its end was looked at since
    the last row came; whether the cluster has it, and the lake's rows of it are there."""

    day: str
    rows: int = 0
    tiered: int = 0
    looked: bool = False
    there: bool = True
    in_lake: bool = True
    named: bool = True


class Life:
    """A table with partitions of days, and what was appended to it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng, self.folder = random.Random(f"{seed} dropped"), folder
        self.drops = seed % 2 == 1
        self.cluster, self.partitions = PartitionedCluster(), dict[int, Partition]()
        self.counts, self.events = Counter[str](), Counter[str]()
        self.cluster.append(-1, 0)
        for day in "ab":
            self.add(day)
        self.rounds = Rounds(self.cluster, folder, drops=self.drops)

    def step(self) -> None:
        """One thing happens."""
        acts = (self.append, self.append, self.drop, self.come_back, self.look, self.restart)
        act = self.rng.choice((*acts, self.run, self.run, self.run, self.killed, self.dropped_while_read))
        self.counts[act.__name__] += 1
        act()

    def add(self, day: str) -> None:
        """A new partition with some rows."""
        number = self.cluster.add(day)
        self.partitions[number] = Partition(day)
        self.appended(number)

    def appended(self, number: int) -> None:
        """Some rows more."""
        count, partition = self.rng.randint(1, 4), self.partitions[number]
        self.cluster.append(number, count)
        partition.rows, partition.looked = partition.rows + count, False

    def living(self) -> list[int]:
        """The numbers of those that are there."""
        return [number for number, partition in self.partitions.items() if partition.there]

    def append(self) -> None:
        if self.living():
            self.appended(self.rng.choice(self.living()))

    def drop(self) -> None:
        if len(self.living()) > 1:
            number = self.rng.choice(self.living())
            self.cluster.drop(self.partitions[number].day)
            self.partitions[number].there = False

    def come_back(self) -> None:
        day = self.rng.choice(DAYS)
        if day not in self.cluster.days.values():
            self.add(day)

    def look(self) -> None:
        """The service looks at the ends of the log, as it does between rounds."""
        self.rounds.look()
        planned = {id for _, partitions in self.rounds.marks._planned.values() for id, _ in partitions}
        for number in self.living():
            self.partitions[number].looked = number in planned

    def restart(self) -> None:
        """The service is killed and started anew: what it had looked at is forgotten."""
        before, count = read_report(str(self.rounds.journal.directory)), self.rounds.count
        self.rounds = Rounds(self.cluster, self.folder, drops=self.drops)
        self.rounds.journal.resume(before)
        self.rounds.count = count
        for partition in self.partitions.values():
            partition.looked = False

    def run(self) -> None:
        """A round, which ends."""
        due = self.due()
        report = self.rounds.run()
        assert report.outcome in ("committed", "empty", "registered", "incomplete"), report
        for number in self.living():
            self.partitions[number].tiered = self.partitions[number].rows
        self.settled(due, report.outcome)

    def killed(self) -> None:
        """A round that is held is killed."""
        phase, due = self.rng.choice(("committing", "registering")), self.due()
        self.rounds.parts = replace(self.rounds.parts, hold=KillingHold(phase=phase))
        try:
            outcome = self.rounds.run().outcome
        except Killed:
            outcome = None
            self.counts[f"killed while {phase}"] += 1
        if outcome is not None or phase == "registering":
            for number in self.living():
                self.partitions[number].tiered = self.partitions[number].rows
        self.settled(due, outcome)
        self.restart()

    def dropped_while_read(self) -> None:
        """A partition is dropped between the plan of a round and its reading."""
        waiting = [n for n in self.living() if self.partitions[n].rows > self.partitions[n].tiered]
        if len(self.living()) < 2 or not waiting:
            return
        number = self.rng.choice(waiting)
        partition, due = self.partitions[number], self.due()
        self.cluster.drops_while_read = partition.day
        report = self.rounds.run()
        self.cluster.drops_while_read, partition.there = None, False
        assert report.outcome == "incomplete", report
        assert self.events_of(partition.day) > self.events[partition.day], f"nothing told of {partition.day}"
        last = [offsets for _, day, offsets in self.rounds.events() if day == partition.day][-1]
        assert last == partition.rows - partition.tiered, f"{last} rows of {partition}"
        for other in self.living():
            self.partitions[other].tiered = self.partitions[other].rows
        self.settled(due, report.outcome, beside=[partition])

    # what must be

    def due(self) -> list[Partition]:
        """Partitions that are gone and of which the next round must tell."""
        named = [
            partition for partition in self.partitions.values() if not partition.there and partition.named
        ]
        return [partition for partition in named if partition.tiered or partition.looked]

    def settled(self, due: list[Partition], outcome: str | None, beside: Sequence[Partition] = ()) -> None:
        """After a round: what was dropped was told, with the right number, and the lake has the rest; so it
        tells of those `beside`."""
        actual = self.rounds.events()
        new = actual[sum(self.events.values()) :]
        for partition in due:
            noted = [
                offsets for name, day, offsets in new if (name, day) == ("partition dropped", partition.day)
            ]
            assert noted, f"nobody told of {partition}: {new}"
            missing = partition.rows - partition.tiered
            assert all(n is None or n <= missing for n in noted) or partition.day in self.twice(
                [*due, *beside]
            ), (
                partition,
                noted,
            )
            assert not partition.looked or missing in noted, (partition, noted)
            assert outcome in ("incomplete", None), f"{partition} is gone, and the round is {outcome}"
            partition.named, partition.in_lake = False, not self.drops
        for partition in self.partitions.values():
            partition.looked = False  # what was seen before a round counts no more
        self.events = Counter(day or "" for _, day, _ in actual)
        self.counts["events"] = len(actual)
        rows = self.rounds.rows() if self.rounds.lake.tables() else {}
        expected: dict[str, list[int]] = {}
        for partition in self.partitions.values():
            if partition.in_lake and partition.tiered:
                expected[partition.day] = sorted([*expected.get(partition.day, []), *range(partition.tiered)])
        assert rows == expected, f"the lake has {rows}, not {expected}"

    def events_of(self, day: str) -> int:
        """How many events name the day."""
        return sum(1 for _, event_day, _ in self.rounds.events() if event_day == day)

    def twice(self, gone: list[Partition]) -> set[str]:
        """Days of which several partitions are gone: events name days."""
        return {day for day, count in Counter(partition.day for partition in gone).items() if count > 1}


def run(seed: int, folder: Path) -> Outcome:
    """One life."""
    life, wrong = Life(seed, folder), tuple[str, ...]()
    try:
        for _ in range(STEPS):
            life.step()
        life.run()
        wrong = tuple(map(str, life.rounds.lake.table("db.t").check()))
    except AssertionError as e:
        wrong = (f"step {life.counts.total()}: {e}",)
    counts = Counter({f"dropped: {name}": count for name, count in life.counts.items()})
    return Outcome(sum(life.counts.values()), counts, wrong)
