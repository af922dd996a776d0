"""One life of a cluster, three services and a lake, drawn from a seed, and what must hold at its end.

For some minutes rows come, services are killed and stalled, messages are lost, late and doubled, clocks
jump, the coordinator restarts, tables and partitions go and come again. Then nothing goes wrong any more, and
within two hours the lake must hold what the logs hold; it was a prefix of them after every commit.

    python -m tests.tiering.simulation.life 4711         one seed, to repeat a failure
    python -m tests.tiering.simulation.life 0 10000      as many seeds from the first on
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tablestore.tiering.dropped import DroppedRows
from tablestore.tiering.report import TieringEvent
from tests.tiering.simulation.cluster import ForgottenEpochs, SimCluster, StrongEpochs
from tests.tiering.simulation.lake import SimLake, Wrong
from tests.tiering.simulation.scheduler import Actor, Scheduler
from tests.tiering.simulation.service import Network, SimService

_MINUTE_MS = 60_000
_QUIET_MS = 120 * _MINUTE_MS
PATHS = ("shop.a", "shop.b", "shop.c")


@dataclass(frozen=True)
class LifeResult:
    """What happened in a life: counts of events, rounds and commits."""

    seed: int
    counts: Counter[str]


class Life:
    """The world of one seed. `conditional` as of `SimLake`."""

    def __init__(self, seed: int, *, conditional: bool = True) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.scheduler = Scheduler(self.rng)
        epochs = StrongEpochs() if self.rng.random() < 0.5 else ForgottenEpochs()
        self.cluster = SimCluster(self.rng, epochs)
        self.lake = SimLake(self.cluster, conditional=conditional)
        self.network = Network(self.scheduler, self.rng)
        self.services: list[SimService] = []
        self.told: set[tuple[str, str | None]] = set()
        self.dropped = DroppedRows(self.rng.random() < 0.5, tell=self._told)
        self.counts: Counter[str] = Counter()
        self._ahead_ms, self._caught_up = 0, False

    def run(self) -> LifeResult:
        """Live, and raise Wrong if the lake is not the log in the end."""
        try:
            for path in PATHS[: self.rng.randint(1, 3)]:
                self.cluster.create(path)
            for _ in range(3):
                self._start_service()
            minutes = self.rng.randint(4, 10)
            self._draw_events(minutes * _MINUTE_MS)
            self.scheduler.start(self._tick)
            self.scheduler.run(lambda: False, minutes * _MINUTE_MS)
            self._calm()
            if not self.scheduler.run(lambda: self._caught_up, self.scheduler.now_ms + _QUIET_MS):
                raise Wrong(f"not caught up after {_QUIET_MS // _MINUTE_MS} quiet minutes: {self._lag()}")
            for path in self.lake.tables:
                self.lake.check(path)
                self._require_told(path)
        except BaseException as e:
            e.add_note(f"repeat with: python -m tests.tiering.simulation.life {self.seed}")
            raise
        finally:
            self.scheduler.close()
        self.counts["rounds"] = sum(service.rounds for service in self.services)
        self.counts["failed rounds"] = sum(service.failures for service in self.services)
        self.counts["lake commits"] = sum(lake_table.commits for lake_table in self.lake.tables.values())
        return LifeResult(self.seed, self.counts)

    # events

    def _draw_events(self, length_ms: int) -> None:
        rng = self.rng
        kinds: dict[Callable[[], None], int] = {
            self._append: 60,
            self._kill: 4,
            self._stall: 4,
            self._restart: 2,
            self._jump: 3,
            self._drop: 1,
            self._create: 2,
            self._partition: 12,
            self._expire: 6,
        }
        for event, most in kinds.items():
            for _ in range(rng.randint(0, most)):
                self.scheduler.after(rng.randint(0, length_ms), event)

    def _path(self) -> str:
        return self.rng.choice(PATHS)

    def _append(self) -> None:
        self.counts["appends"] += 1
        self.cluster.append(self._path())

    def _start_service(self) -> None:
        created = SimService(self.scheduler, self.cluster, self.lake, self.network, self.rng, self.dropped)
        self.services.append(created)

    def _told(self, event: TieringEvent) -> None:
        self.counts[event.name] += 1
        self.told.add((event.table, event.partition))

    def _alive(self) -> list[SimService]:
        return [service for service in self.services if not service.actors[0].dead]

    def _kill(self) -> None:
        self.counts["kills"] += 1
        for actor in self.rng.choice(self._alive()).actors:
            self.scheduler.kill(actor)
        self.scheduler.after(self.rng.randint(0, _MINUTE_MS), self._revive)
        if not self._alive():
            self._start_service()

    def _revive(self) -> None:
        if len(self._alive()) < 3:
            self._start_service()

    def _stall(self) -> None:
        """A service stands still, wholly or its rounds alone, and wakes when its tables were given away."""
        self.counts["stalls"] += 1
        actors: list[Actor] = self.rng.choice(self._alive()).actors
        ms = self.rng.choice((5_000, 60_000, 200_000))
        for actor in actors[self.rng.randint(0, 1) :]:
            self.scheduler.stall(actor, ms)

    def _restart(self) -> None:
        self.counts["coordinator restarts"] += 1
        self.cluster.down = True

        def up() -> None:
            self.cluster.down = False
            self.cluster.restart()

        self.scheduler.after(self.rng.randint(0, 20_000), up)

    def _jump(self) -> None:
        """The clock of the coordinator goes ahead, or that of a service either way."""
        self.counts["clock jumps"] += 1
        if self.rng.random() < 0.5:
            self._ahead_ms += self.rng.randint(0, 5 * _MINUTE_MS)
        else:
            service = self.rng.choice(self._alive())
            service.clock_ms += self.rng.randint(-2 * _MINUTE_MS, 2 * _MINUTE_MS)

    def _drop(self) -> None:
        self.counts["drops"] += 1
        path = self._path()
        self.cluster.drop(path)
        if self.rng.random() < 0.7:
            self.cluster.create(path)

    def _create(self) -> None:
        path = self._path()
        if path not in self.cluster.tables:
            self.cluster.create(path)

    def _partition(self) -> None:
        act = self.cluster.add_partition if self.rng.random() < 0.6 else self.cluster.drop_partition
        act(self._path())

    def _expire(self) -> None:
        """Retention, which goes by what the lake has of that very table."""
        path = self._path()
        state = self.lake.table(path).state
        table = self.cluster.tables.get(path)
        if table is not None and state.table_id == table.table.table_id:
            self.cluster.expire(path, state.offsets)

    # the end

    def _require_told(self, path: str) -> None:
        """Raise Wrong if a partition of which the lake has or had rows was dropped and nobody said so."""
        table, state = self.cluster.tables.get(path), self.lake.table(path).state
        if table is None or state.table_id != table.table.table_id:
            return
        for place in state.offsets:
            id = place.partition_id
            if id is not None and id not in table.partitions and (path, table.names[id]) not in self.told:
                raise Wrong(f"{path}: partition {table.names[id]} was dropped without a word")

    def _tick(self) -> None:
        while True:
            self.cluster.clock_ms = self.scheduler.now_ms + self._ahead_ms
            self._caught_up = not self.network.faulty and not self._lag()
            self.scheduler.pause(1_000)

    def _calm(self) -> None:
        self.network.faulty, self.cluster.down = False, False
        while len(self._alive()) < 3:
            self._start_service()

    def _lag(self) -> list[str]:
        """What the lake, or the cluster's knowledge of it, lacks."""
        collected = []
        for path, sim_table in self.cluster.tables.items():
            state = self.lake.table(path).state
            same = state.table_id == sim_table.table.table_id
            offsets = state.offsets if same else {}
            ends = {
                place: sim_table.logs[place].end for place in sim_table.places() if place in sim_table.logs
            }
            if any(end > offsets.get(place, 0) for place, end in ends.items()):
                collected.append(f"{path}: lake {dict(offsets)}, log {ends}")
            lake_snapshot = self.cluster.known.get(sim_table.table.table_id)
            if same:
                gone = {
                    id: name for id, name in state.partition_names.items() if id not in sim_table.partitions
                }
                collected += [f"{path}: the lake has {name}, which is dropped" for name in gone.values()]
            if same and (
                lake_snapshot is None or any(lake_snapshot.offsets.get(p) != o for p, o in offsets.items())
            ):
                collected.append(f"{path}: the cluster knows {lake_snapshot}, the lake has {dict(offsets)}")
        return collected


def main(arguments: list[str]) -> int:
    first, count = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 1
    total: Counter[str] = Counter()
    for seed in range(first, first + count):
        total += Life(seed).run().counts
    print(f"{count} seeds from {first}: " + ", ".join(f"{n:,} {what}" for what, n in total.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
