"""A cluster and a lake in memory, over which the real enumerator and the real rounds run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from tablestore.core.errors import CommitConflict, NotFound, Unavailable
from tablestore.fluss.heartbeat import HeartbeatRequest, HeartbeatResponse, TableResponse, TieringTable
from tablestore.fluss.log_records import BatchMark
from tablestore.format.types.arrow_types import BIGINT, STRING
from tablestore.format.types.data_type import DataField
from tablestore.tiering.cluster import (
    ClusterLakeSnapshot,
    ClusterTable,
    LakeCommit,
    LakeState,
    ReadStep,
    RowBatch,
)
from tablestore.tiering.splits import (
    BucketBounds,
    Marks,
    Offsets,
    SplitSnapshot,
    TieredBucket,
    TieringSnapshotSplit,
    TieringSplit,
)


class NothingLeased:
    """A cluster without leases of snapshots, and without files of offsets of the lake."""

    def snapshots_kept(
        self, table: ClusterTable, splits: Sequence[TieringSplit]
    ) -> AbstractContextManager[None]:
        return nullcontext()

    def prepare_lake_snapshot(self, table: ClusterTable, offsets: Offsets) -> str | None:
        return None


@dataclass
class MemoryCluster(NothingLeased):
    """One table, `db.t`, whose rows are (bucket, offset); every table that is asked for is this one."""

    buckets: int = 2
    table_id: int = 1
    logs: dict[int, list[int]] = field(default_factory=dict)
    earliest: dict[int, int] = field(default_factory=dict)
    known: ClusterLakeSnapshot | None = None
    registered: list[tuple[int, dict[TieredBucket, int]]] = field(default_factory=list)
    generation: int = 0
    leader: int = 0
    prepares: str | None = None
    refuses: bool = False
    calls: list[str] = field(default_factory=list)
    with_prepared: list[tuple[str | None, bool]] = field(default_factory=list)
    files: dict[str, dict[TieredBucket, int]] = field(default_factory=dict)
    lost_answers: int = 0
    epoch: int = 0
    handed_out: bool = False
    error: int | None = None
    heartbeats: list[HeartbeatRequest] = field(default_factory=list)
    closed: bool = False
    is_dropped: bool = False
    is_silent: bool = False

    @classmethod
    def holding(cls, *counts: int) -> Self:
        """With so many rows in each of the first buckets."""
        cluster = cls()
        for bucket, count in enumerate(counts):
            cluster.append(bucket, count)
        return cluster

    def append(self, bucket: int, count: int) -> None:
        rows = self.logs.setdefault(bucket, [])
        rows.extend(range(len(rows), len(rows) + count))

    def close(self) -> None:
        self.closed = True

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Hands the table out whenever it is asked for and nobody has it."""
        self.heartbeats.append(request)
        for reported in (*request.finished, *request.failed):
            if reported.tiering_epoch == self.epoch:
                self.handed_out = False
        given = None
        if request.request_table and not self.handed_out and not self.is_dropped:
            self.epoch, self.handed_out = self.epoch + 1, True
            given = TieringTable(self.table_id, "db.t", self.epoch)
        return HeartbeatResponse(
            0, given, tuple(TableResponse(reported.table_id, self.error) for reported in request.tiering)
        )

    def lake_tables(self) -> Sequence[TieringTable]:
        return [] if self.is_dropped else [TieringTable(self.table_id, "db.t", 0)]

    def require_there(self) -> None:
        if self.is_silent:
            raise Unavailable("nobody answers")
        if self.is_dropped:
            raise NotFound("no table db.t")

    def table(self, table_path: str) -> ClusterTable:
        self.require_there()
        fields = (DataField(0, "x", BIGINT),)
        return ClusterTable(table_path, self.table_id, fields, self.buckets)

    def partitions(self, table_path: str) -> Mapping[int, str]:
        return {}

    def bounds(
        self, table: ClusterTable, partition_ids: Sequence[int | None]
    ) -> Mapping[TieredBucket, BucketBounds]:
        self.require_there()
        return {
            TieredBucket(None, b): BucketBounds(self.earliest.get(b, 0), len(self.logs.get(b, [])))
            for b in range(self.buckets)
        }

    def kv_snapshots(
        self, table: ClusterTable, partition_id: int | None, partition_name: str | None
    ) -> Mapping[int, SplitSnapshot]:
        return {}

    def leader_epochs(
        self, table: ClusterTable, places: Iterable[TieredBucket]
    ) -> Mapping[TieredBucket, int]:
        return dict.fromkeys(places, self.leader)

    def batches_before(self, table: ClusterTable, offsets: Offsets) -> Marks:
        self.calls.append("batches")
        return {place: BatchMark(at - 1, self.generation, 0) for place, at in offsets.items()}

    def rewrite(self, *counts: int) -> None:
        """The leader is killed, has lost all rows when it comes back, and gets others."""
        self.generation, self.leader = self.generation + 1, self.leader + 1
        self.logs = {bucket: list(range(count)) for bucket, count in enumerate(counts)}

    def lake_snapshot(self, table_path: str) -> ClusterLakeSnapshot | None:
        return self.known

    def prepare_lake_snapshot(self, table: ClusterTable, offsets: Offsets) -> str | None:
        self.calls.append("prepare")
        if self.refuses:
            raise Unavailable("no coordinator")
        return self.prepares

    def prepared_offsets(self, table: ClusterTable, path: str) -> Offsets:
        if path not in self.files:
            raise NotFound(f"no file {path}")
        return self.files[path]

    def commit_lake_snapshot(
        self,
        table: ClusterTable,
        snapshot_id: int,
        offsets: Offsets,
        *,
        prepared: str | None = None,
        readable: bool = False,
    ) -> None:
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionError("the answer was lost")
        self.calls.append("register")
        self.registered.append((snapshot_id, dict(offsets)))
        self.with_prepared.append((prepared, readable))
        before = {} if self.known is None else self.known.offsets
        self.known = ClusterLakeSnapshot(snapshot_id, {**before, **offsets})

    def read_log(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[ReadStep]:
        for split in splits:
            rows = self.logs[split.bucket][split.log_start : split.stop]
            batch = pa.record_batch({"x": pa.array(rows, pa.int64())})
            mark = BatchMark(split.stop - 1, self.generation, 0)
            rows_of = RowBatch(batch, None, split.log_start, 0)
            yield ReadStep(split.table_bucket, rows_of, split.stop, mark=mark)

    def read_snapshot(self, table: ClusterTable, split: TieringSnapshotSplit) -> Iterator[pa.RecordBatch]:
        raise NotFound("no snapshot")


@dataclass
class PreparingCluster(MemoryCluster):
    """As a Fluss from 0.9 on: it keeps offsets of the lake in files, and removes that of a registered
    snapshot when the next one is registered."""

    last: str | None = None

    def prepare_lake_snapshot(self, table: ClusterTable, offsets: Offsets) -> str | None:
        self.calls.append("prepare")
        path = f"/remote/lake/db/t-{self.table_id}/metadata/{self.calls.count('prepare')}.offsets"
        self.files[path] = {**({} if self.known is None else self.known.offsets), **offsets}
        return path

    def commit_lake_snapshot(
        self,
        table: ClusterTable,
        snapshot_id: int,
        offsets: Offsets,
        *,
        prepared: str | None = None,
        readable: bool = False,
    ) -> None:
        assert prepared is not None, "a cluster of 0.9 is told of prepared snapshots alone"
        super().commit_lake_snapshot(
            table, snapshot_id, self.files[prepared], prepared=prepared, readable=readable
        )
        if self.last not in (None, prepared):
            self.files.pop(self.last, None)
        self.last = prepared


@dataclass
class PartitionedCluster(MemoryCluster):
    """The same with one bucket in each partition of a day; `days` are those that are there. A row is its
    number in the partition. `drops_while_read`: the partition that is dropped when a round reads it."""

    buckets: int = 1
    days: dict[int, str] = field(default_factory=dict)
    drops_while_read: str | None = None
    still_led: bool = False

    def add(self, day: str, rows: int = 0) -> int:
        """A new partition; its id."""
        number = max([*self.days, *self.logs, -1]) + 1
        self.days[number] = day
        self.append(number, rows)
        return number

    def drop(self, day: str) -> None:
        (number,) = [id for id, name in self.days.items() if name == day]
        del self.days[number]

    def table(self, table_path: str) -> ClusterTable:
        fields = (DataField(0, "x", BIGINT), DataField(1, "day", STRING.not_null()))
        return ClusterTable(table_path, self.table_id, fields, 1, partition_keys=("day",))

    def partitions(self, table_path: str) -> Mapping[int, str]:
        return dict(self.days)

    def _require(self, ids: Iterable[int | None]) -> None:
        for number in ids:
            if number not in self.days:
                raise NotFound(f"no partition {number}")

    def bounds(
        self, table: ClusterTable, partition_ids: Sequence[int | None]
    ) -> Mapping[TieredBucket, BucketBounds]:
        self._require(partition_ids)
        return {
            TieredBucket(id, 0): BucketBounds(self.earliest.get(id, 0), len(self.logs[id]))
            for id in partition_ids
        }

    def leader_epochs(
        self, table: ClusterTable, places: Iterable[TieredBucket]
    ) -> Mapping[TieredBucket, int]:
        wanted = list(places)
        if not self.still_led:
            self._require(place.partition_id for place in wanted)
        return dict.fromkeys(wanted, self.leader)

    def read_log(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[ReadStep]:
        if self.drops_while_read in self.days.values():
            self.drop(str(self.drops_while_read))
        for split in splits:
            if split.partition_id not in self.days:
                yield ReadStep(split.table_bucket, None, split.log_start, gone=True)
                continue
            rows = self.logs[split.partition_id][split.log_start : split.stop]
            days = [self.days[split.partition_id]] * len(rows)
            batch = pa.record_batch({"x": pa.array(rows, pa.int64()), "day": pa.array(days, pa.string())})
            yield ReadStep(split.table_bucket, RowBatch(batch, None, split.log_start, 0), split.stop)


@dataclass
class MemoryLake:
    """A lake table as a list of states; rows are (bucket, offset). It is its own factory and committer."""

    states: list[LakeState] = field(default_factory=lambda: [LakeState()])
    rows: list[tuple[int, int]] = field(default_factory=list)
    aborted: int = 0

    def prepare(self, table: ClusterTable) -> None:
        pass

    def create_committer(self, table: ClusterTable) -> MemoryLake:
        return self

    def create_writer(
        self, table: ClusterTable, split: TieringSplit, *, replaces: bool = False
    ) -> MemoryWriter:
        return MemoryWriter(split.bucket)

    def state(self) -> LakeState:
        return self.states[-1]

    def to_committable(self, results: Sequence[Any]) -> list[tuple[int, int]]:
        return [row for rows in results for row in rows]

    def commit(self, committable: list[tuple[int, int]], commit: LakeCommit) -> int:
        if commit.basis.snapshot_id != self.states[-1].snapshot_id:
            raise CommitConflict("the lake moved")
        if commit.replaces:
            self.rows.clear()
        self.rows += committable
        number = (commit.basis.snapshot_id or 0) + 1
        self.states.append(
            LakeState(
                number,
                commit.table_id,
                dict(commit.offsets),
                dict(commit.partition_names),
                dict(commit.marks),
            )
        )
        return number

    def abort(self, committable: Any) -> None:
        self.aborted += 1

    def readable(self, tiered: Offsets) -> None:
        return None


@dataclass
class MemoryWriter:
    bucket: int
    found: list[tuple[int, int]] = field(default_factory=list)

    def write(self, batch: RowBatch) -> None:
        self.found += [(self.bucket, batch.first_offset + i) for i in range(batch.rows.num_rows)]

    def complete(self) -> list[tuple[int, int]]:
        return self.found

    def abort(self) -> None:
        self.found = []


def remade(cluster: MemoryCluster) -> None:
    """Drop the table and make it again."""
    cluster.table_id, cluster.logs, cluster.known = cluster.table_id + 1, {}, None
