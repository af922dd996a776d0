"""A tiering service in the simulation: the real enumerator, readers and rounds, over calls that fail.

Two actors, as in a real one: heartbeats go on while a round reads and commits. What is between the service
and its cluster and lake loses requests and answers, delays and doubles them.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from tablestore.core.errors import CommitUnknown, TablestoreError, Unavailable
from tablestore.fluss.heartbeat import HeartbeatRequest, HeartbeatResponse, TieringTable
from tablestore.tiering.cluster import ClusterLakeSnapshot, ClusterTable, ReadStep
from tablestore.tiering.committer import commit_round, plan_round, require_same_table
from tablestore.tiering.dropped import DroppedRows
from tablestore.tiering.enumerator import AssignedTable, TieringEnumerator
from tablestore.tiering.readers import BoundedSplitReader, tasks_of
from tablestore.tiering.splits import (
    BucketBounds,
    Offsets,
    SplitSnapshot,
    TieredBucket,
    TieringSnapshotSplit,
    TieringSplit,
)
from tests.tiering.memory import NothingLeased
from tests.tiering.simulation.cluster import SimCluster
from tests.tiering.simulation.lake import SimFactory, SimLake
from tests.tiering.simulation.scheduler import Scheduler

T = TypeVar("T")
_TIMEOUT_MS, _DELAY_MS = 10_000, 300_000


class Network:
    """Calls between machines. `faulty`: whether any of them go wrong."""

    def __init__(self, scheduler: Scheduler, rng: random.Random) -> None:
        self._scheduler, self._rng = scheduler, rng
        self.faulty = True

    def call(
        self,
        act: Callable[[], T],
        *,
        changes: bool = False,
        again: bool = False,
        unknown: type[TablestoreError] = Unavailable,
    ) -> T:
        """What `act` gives, carried out at the other end. `changes`: it may also happen later, though the
        caller was told that it failed; `again`: and twice. `unknown` is raised where it may have happened."""
        rng = self._rng
        self._scheduler.pause(rng.randint(0, 40))
        fate = rng.random() if self.faulty else 0.5
        if fate < 0.02:
            self._scheduler.pause(_TIMEOUT_MS)
            raise Unavailable("the request was lost")
        if changes and fate < 0.05:
            self._later(act)
            self._scheduler.pause(_TIMEOUT_MS)
            raise unknown("the request is late")
        if again and fate < 0.08:
            self._later(act)
        result = act()
        self._scheduler.pause(rng.randint(0, 40))
        if fate > 0.97:
            self._scheduler.pause(_TIMEOUT_MS)
            raise unknown("the answer was lost")
        return result

    def _later(self, act: Callable[[], Any]) -> None:
        def arrives() -> None:
            with contextlib.suppress(TablestoreError):
                act()

        self._scheduler.after(self._rng.randint(0, _DELAY_MS), arrives)


class RemoteCluster(NothingLeased):
    """The cluster as a service reaches it."""

    def __init__(self, cluster: SimCluster, network: Network) -> None:
        self._cluster, self._call = cluster, network.call

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        return self._call(lambda: self._cluster.heartbeat(request), changes=True, again=True)

    def table(self, table_path: str) -> ClusterTable:
        return self._call(lambda: self._cluster.table(table_path))

    def partitions(self, table_path: str) -> Mapping[int, str]:
        return self._call(lambda: self._cluster.partitions(table_path))

    def lake_tables(self) -> Sequence[TieringTable]:
        return self._call(self._cluster.lake_tables)

    def bounds(
        self, table: ClusterTable, partition_ids: Sequence[int | None]
    ) -> Mapping[TieredBucket, BucketBounds]:
        return self._call(lambda: self._cluster.bounds(table, partition_ids))

    def kv_snapshots(
        self, table: ClusterTable, partition_id: int | None, partition_name: str | None
    ) -> Mapping[int, SplitSnapshot]:
        return self._call(lambda: self._cluster.kv_snapshots(table, partition_id, partition_name))

    def leader_epochs(
        self, table: ClusterTable, places: Iterable[TieredBucket]
    ) -> Mapping[TieredBucket, int]:
        wanted = list(places)
        return self._call(lambda: self._cluster.leader_epochs(table, wanted))

    def lake_snapshot(self, table_path: str) -> ClusterLakeSnapshot | None:
        return self._call(lambda: self._cluster.lake_snapshot(table_path))

    def commit_lake_snapshot(
        self,
        table: ClusterTable,
        snapshot_id: int,
        offsets: Offsets,
        *,
        prepared: str | None = None,
        readable: bool = False,
    ) -> None:
        offsets_known = dict(offsets)
        self._call(
            lambda: self._cluster.commit_lake_snapshot(table, snapshot_id, offsets_known),
            changes=True,
            again=True,
        )

    def read_log(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[ReadStep]:
        steps = self._cluster.read_log(table, splits)
        while (step := self._call(lambda: next(steps, None))) is not None:
            yield step

    def read_snapshot(self, table: ClusterTable, split: TieringSnapshotSplit) -> Iterator[pa.RecordBatch]:
        yield from self._call(lambda: list(self._cluster.read_snapshot(table, split)))


class SimService:
    """One process of a service. `clock_ms` is how far its clock is off; `dropped` how it treats what the
    cluster has dropped."""

    def __init__(
        self,
        scheduler: Scheduler,
        cluster: SimCluster,
        lake: SimLake,
        network: Network,
        rng: random.Random,
        dropped: DroppedRows,
    ) -> None:
        self._scheduler, self._lake, self._network, self._rng = scheduler, lake, network, rng
        self._cluster, self._dropped = RemoteCluster(cluster, network), dropped
        self._enumerator = TieringEnumerator(room=rng.randint(1, 2))
        self._queue: list[AssignedTable] = []
        self.clock_ms = 0
        self.rounds = self.failures = 0
        self.actors = [
            scheduler.start(self._beat, rng.randint(0, 5000)),
            *(scheduler.start(self._work, rng.randint(0, 5000)) for _ in range(self._enumerator.room)),
        ]

    def _now(self) -> float:
        return (self._scheduler.now_ms + self.clock_ms) / 1000

    def _beat(self) -> None:
        while True:
            sent = self._enumerator.request(self._now())
            try:
                received = self._enumerator.receive(sent, self._cluster.heartbeat(sent), self._now())
            except Unavailable:
                self._scheduler.pause(1000)
                continue
            if received.given is not None:
                self._queue.append(received.given)
            urgent = received.given is not None or self._enumerator.has_ended
            self._scheduler.pause(500 if urgent else self._rng.randint(2_000, 8_000))

    def _work(self) -> None:
        while True:
            due = [table for table in self._queue if table.due <= self._now()]
            if not due:
                self._scheduler.pause(500 if self._queue else 1_500)
                continue
            self._queue.remove(due[0])
            if not self._enumerator.holds(due[0]):
                continue
            try:
                self._round(due[0])
            except TablestoreError:
                self.failures += 1
                self._enumerator.fail(due[0])
            else:
                self.rounds += 1
                self._enumerator.finish(due[0])

    def _round(self, assigned: AssignedTable) -> None:
        cluster = self._cluster
        table = cluster.table(assigned.table.table_path)
        require_same_table(table, assigned.table)
        factory = SimFactory(self._lake, self._lake_call)
        committer = factory.create_committer(table)
        plan = plan_round(cluster, committer, table, dropped=self._dropped)
        given_up = lambda: not self._enumerator.holds(assigned)  # noqa: E731
        tasks = tasks_of(
            cluster, factory, table, plan.splits, replaces=plan.replaces, parallel=self._rng.randint(1, 3)
        )
        results = [outcome for task in tasks for outcome in BoundedSplitReader(task, stopped=given_up).run()]
        commit_round(cluster, committer, plan, results, still_ours=lambda: not given_up())

    def _lake_call(self, what: str, act: Callable[[], Any]) -> Any:
        if what == "commit":
            self._scheduler.pause(self._rng.choice((0, 0, 0, 2_000, 20_000)))
            return self._network.call(act, changes=True, unknown=CommitUnknown)
        return self._network.call(act)
