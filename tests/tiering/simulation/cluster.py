"""A streaming cluster in memory whose coordinator is the real state machine.

Logs have gaps, keyed tables snapshots of their keys, partitions and tables come and go, retention removes
what the lake has. What was ever appended stays in `history`, by which the lake is judged. As Fluss does, the
cluster keeps whatever lake snapshot it is told last, also an older one, of any table.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tablestore.core.errors import NotFound, Unavailable
from tablestore.fluss.heartbeat import HeartbeatRequest, HeartbeatResponse, TieringTable
from tablestore.format import rowkind
from tablestore.format.types.arrow_types import BIGINT
from tablestore.format.types.data_type import DataField
from tablestore.tiering.cluster import ClusterLakeSnapshot, ClusterTable, ReadStep, RowBatch
from tablestore.tiering.coordinator.table_states import TableFreshness, TableStates
from tablestore.tiering.splits import (
    BucketBounds,
    Offsets,
    SplitSnapshot,
    TieredBucket,
    TieringSnapshotSplit,
    TieringSplit,
)
from tests.tiering.memory import NothingLeased

Row = tuple[int, int, int, int]
"""Offset, row kind, key, value."""


@dataclass
class SimLog:
    """The log of one bucket: its rows, of which those below `start` are gone."""

    rows: list[Row] = field(default_factory=list)
    start: int = 0
    end: int = 0
    snapshots: list[tuple[int, int]] = field(default_factory=list)

    def state(self, stop: int) -> dict[int, int]:
        """Key → value just before an offset."""
        collected: dict[int, int] = {}
        for offset, kind, key, value in self.rows:
            if offset >= stop:
                break
            if kind in (rowkind.DELETE, rowkind.UPDATE_BEFORE):
                collected.pop(key, None)
            else:
                collected[key] = value
        return collected


@dataclass
class SimTable:
    """A table under its id; `partitions` are those that are there, `logs` and `names` also have those that
    went."""

    table: ClusterTable
    freshness_ms: int
    logs: dict[TieredBucket, SimLog] = field(default_factory=dict)
    partitions: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    @property
    def keyed(self) -> bool:
        return bool(self.table.primary_keys)

    def places(self) -> list[TieredBucket]:
        """The buckets that are there."""
        ids = list(self.partitions) if self.table.partition_keys else [None]
        return [TieredBucket(id, bucket) for id in ids for bucket in range(self.table.bucket_count)]


class StrongEpochs:
    """Epochs that are kept while the coordinator is not there, as ours are."""

    def __init__(self) -> None:
        self.coordinator, self._newest = 0, Counter[int]()

    def start(self) -> int:
        self.coordinator += 1
        return self.coordinator

    def next(self, table_id: int) -> int:
        self._newest[table_id] += 1
        return self._newest[table_id]


class ForgottenEpochs(StrongEpochs):
    """Epochs that begin anew with each start, as those of Fluss do; that of the coordinator is always 0."""

    def start(self) -> int:
        self._newest.clear()
        return 0


class SimCluster(NothingLeased):
    """The server's side: every call happens at a moment. `clock_ms` is the coordinator's own."""

    def __init__(self, rng: random.Random, epochs: StrongEpochs) -> None:
        self._rng, self._epochs = rng, epochs
        self.tables: dict[str, SimTable] = {}
        self.history: dict[int, SimTable] = {}
        self.known: dict[int, ClusterLakeSnapshot] = {}
        self.clock_ms, self.down = 0, False
        self._ids, self._values = itertools.count(1), itertools.count(1)
        self.states = TableStates(epochs, coordinator_epoch=epochs.start())

    # what happens to it

    def restart(self) -> None:
        """The coordinator starts anew: states are in memory only."""
        self.states = TableStates(self._epochs, coordinator_epoch=self._epochs.start())
        for sim_table in self.tables.values():
            self._register(sim_table, initialized=True)

    def create(self, path: str) -> None:
        """Make a table of some kind, with an id that no table had before."""
        rng = self._rng
        keyed, partitioned = rng.random() < 0.4, rng.random() < 0.3
        fields = tuple(DataField(i, name, BIGINT) for i, name in enumerate(("k", "v")))
        table = ClusterTable(
            *(path, next(self._ids), fields, rng.randint(1, 3)),
            *(("k",) if keyed else (), ("k",) if partitioned else ()),
        )
        created = SimTable(table, rng.choice((2_000, 10_000, 40_000)))
        self.tables[path] = self.history[table.table_id] = created
        for _ in range(rng.randint(1, 2) if partitioned else 0):
            self.add_partition(path)
        self._register(created)

    def drop(self, path: str) -> None:
        """Remove a table; its rows are gone."""
        gone = self.tables.pop(path, None)
        if gone is not None:
            self.states.remove(gone.table.table_id)

    def add_partition(self, path: str) -> None:
        """A partition more, if the table has any."""
        table = self.tables.get(path)
        if table is not None and table.table.partition_keys:
            number = next(self._ids)
            gone = sorted({*table.names.values()} - {*table.partitions.values()})
            again = gone and self._rng.random() < 0.4
            name = self._rng.choice(gone) if again else f"p{number}"
            table.partitions[number] = table.names[number] = name

    def drop_partition(self, path: str) -> None:
        """A partition less, if there are several."""
        table = self.tables.get(path)
        if table is not None and len(table.partitions) > 1:
            del table.partitions[self._rng.choice(list(table.partitions))]

    def append(self, path: str) -> None:
        """Some rows at the end of one log, now and then behind a gap, or before one."""
        table, rng = self.tables.get(path), self._rng
        if table is None:
            return
        log = table.logs.setdefault(rng.choice(table.places()), SimLog())
        for _ in range(rng.randint(1, 12)):
            log.end += rng.random() < 0.1
            kind = rng.choice((rowkind.INSERT, rowkind.UPDATE_AFTER, rowkind.DELETE)) if table.keyed else 0
            log.rows.append((log.end, kind, rng.randint(0, 6), next(self._values)))
            log.end += 1
        log.end += rng.random() < 0.1
        if table.keyed and rng.random() < 0.3:
            log.snapshots.append((next(self._ids), rng.randint(log.start, log.end)))
            del log.snapshots[:-1]

    def expire(self, path: str, offsets: Offsets) -> None:
        """Remove from the logs of a table what the lake has."""
        table = self.tables.get(path)
        for place, offset in offsets.items() if table is not None else ():
            log = table.logs.get(place)
            if log is not None:
                log.start = max(log.start, min(offset, log.end))

    def _register(self, sim_table: SimTable, *, initialized: bool = False) -> None:
        fresh = TableFreshness(sim_table.table.table_id, sim_table.table.path, sim_table.freshness_ms)
        self.states.add(fresh, self.clock_ms, initialized=initialized)

    # `TieringCluster`

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        if self.down:
            raise Unavailable("no coordinator")
        return self.states.heartbeat(request, self.clock_ms)

    def table(self, table_path: str) -> ClusterTable:
        return self._of(table_path).table

    def partitions(self, table_path: str) -> Mapping[int, str]:
        return dict(self._of(table_path).partitions)

    def lake_tables(self) -> Sequence[TieringTable]:
        return [TieringTable(sim_table.table.table_id, path, 0) for path, sim_table in self.tables.items()]

    def bounds(
        self, table: ClusterTable, partition_ids: Sequence[int | None]
    ) -> Mapping[TieredBucket, BucketBounds]:
        bounds = {}
        for partition_id in partition_ids:
            actual = self._same(table, partition_id)
            for place in (TieredBucket(partition_id, bucket) for bucket in range(table.bucket_count)):
                log = actual.logs.get(place, SimLog())
                bounds[place] = BucketBounds(log.start, log.end)
        return bounds

    def kv_snapshots(
        self, table: ClusterTable, partition_id: int | None, partition_name: str | None
    ) -> Mapping[int, SplitSnapshot]:
        actual = self._same(table, partition_id)
        logs = {
            b: actual.logs.get(TieredBucket(partition_id, b), SimLog()) for b in range(table.bucket_count)
        }
        return {bucket: SplitSnapshot(*log.snapshots[-1]) for bucket, log in logs.items() if log.snapshots}

    def leader_epochs(
        self, table: ClusterTable, places: Iterable[TieredBucket]
    ) -> Mapping[TieredBucket, int]:
        wanted = list(places)
        for place in wanted:
            self._same(table, place.partition_id)
        return dict.fromkeys(wanted, 0)

    def lake_snapshot(self, table_path: str) -> ClusterLakeSnapshot | None:
        return self.known.get(self._of(table_path).table.table_id)

    def commit_lake_snapshot(
        self,
        table: ClusterTable,
        snapshot_id: int,
        offsets: Offsets,
        *,
        prepared: str | None = None,
        readable: bool = False,
    ) -> None:
        if self.down:
            raise Unavailable("no coordinator")
        before = self.known.get(table.table_id)
        merged = {**({} if before is None else before.offsets), **offsets}
        self.known[table.table_id] = ClusterLakeSnapshot(snapshot_id, merged)

    def read_log(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[ReadStep]:
        """Batches of some rows, of a split after the other, cut at gaps; between them anything may happen to
        the table."""
        for split in splits:
            place, at = split.table_bucket, split.log_start
            while at < split.stop:
                actual = self._of(table.path)
                if place.partition_id is not None and place.partition_id not in actual.partitions:
                    yield ReadStep(place, None, at, gone=True)
                    break
                log = self._same(table, split.partition_id).logs[place]
                if at < log.start:
                    raise NotFound(f"offset {at} is no longer in the log")
                rows = [row for row in log.rows if at <= row[0] < split.stop][: self._rng.randint(1, 8)]
                dense = [row for i, row in enumerate(rows) if row[0] == rows[0][0] + i]
                at = dense[-1][0] + 1 if dense else split.stop
                yield ReadStep(place, _batch(dense) if dense else None, at)

    def read_snapshot(self, table: ClusterTable, split: TieringSnapshotSplit) -> Iterator[pa.RecordBatch]:
        log = self._same(table, split.partition_id).logs[split.table_bucket]
        if split.snapshot_id not in [id for id, _ in log.snapshots]:
            raise NotFound("the snapshot is gone")
        state = log.state(split.log_offset)
        yield pa.record_batch(
            {"k": pa.array(list(state), pa.int64()), "v": pa.array(list(state.values()), pa.int64())}
        )

    def _of(self, path: str) -> SimTable:
        if path not in self.tables:
            raise NotFound(f"no table {path}")
        return self.tables[path]

    def _same(self, table: ClusterTable, partition_id: int | None) -> SimTable:
        """The table, if it is still that one, and has the partition."""
        actual = self._of(table.path)
        if actual.table.table_id != table.table_id or (
            partition_id is not None and partition_id not in actual.partitions
        ):
            raise NotFound(f"table {table.table_id} or its partition is gone")
        return actual


def _batch(rows: list[Row]) -> RowBatch:
    columns = {
        "k": pa.array([r[2] for r in rows], pa.int64()),
        "v": pa.array([r[3] for r in rows], pa.int64()),
    }
    kinds = pa.array([r[1] for r in rows], pa.int8())
    return RowBatch(pa.record_batch(columns), kinds, rows[0][0], 0)
