"""What tiering needs of a streaming cluster, and what a lake must give so that rounds can write to it.

The cluster is a Fluss (`fluss_cluster.py`), our own coordinator, or one in memory of a test. Errors: NotFound
for a table or partition that is gone, Unavailable for what may go better later.

The lake gives a writer for each split, a committer for each table, and both of their results as bytes. It is
the truth of what it holds: each of its snapshots names the offsets up to which it has the rows of each
bucket. `LakeCommitter.commit` puts rows on top of the state from which their round was planned, and no other:
the condition is part of the lake's own commit, so that of two services one is refused. `tiering.paimon` are
tables of this engine, `tiering.iceberg` those of Iceberg.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from tablestore.fluss.heartbeat import HeartbeatRequest, HeartbeatResponse, TieringTable
from tablestore.fluss.log_records import BatchMark
from tablestore.format.types.data_type import DataField
from tablestore.tiering.splits import (
    BucketBounds,
    Marks,
    Offsets,
    SplitSnapshot,
    TieredBucket,
    TieringSnapshotSplit,
    TieringSplit,
)


@dataclass(frozen=True, slots=True)
class ClusterTable:
    """A table of the cluster: `fields` are its columns, `options` its properties. Without `primary_keys` it
    is a log table; `bucket_keys` are empty where rows go to any bucket."""

    path: str
    table_id: int
    fields: tuple[DataField, ...]
    bucket_count: int
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    bucket_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, compare=False)
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterLakeSnapshot:
    """What the cluster knows of the lake: the newest registered snapshot, and its offsets."""

    snapshot_id: int
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows as they lie in a log: the i-th has offset `first_offset` + i, all were appended at `timestamp_ms`.
    `kinds` are int8 row kinds, None: all are inserts. Rows of a snapshot of keys have `first_offset` −1."""

    rows: pa.RecordBatch
    kinds: pa.Array | None
    first_offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ReadStep:
    """A piece of one bucket's log: its rows, if any, and the offset up to which it is read then. `gone`: the
    bucket's partition was dropped, nothing more comes of it. `mark`: the batch that the rows are of."""

    table_bucket: TieredBucket
    batch: RowBatch | None
    offset: int
    gone: bool = False
    mark: BatchMark | None = None


class TieringCluster(Protocol):
    """A streaming cluster whose tables are tiered. Safe to share between threads, but for `read`, which gives
    each caller its own rows."""

    def close(self) -> None:
        """End with it: its service has ended."""

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """The coordinator's answer."""

    def lake_tables(self) -> Sequence[TieringTable]:
        """Every table that is to be tiered, with the epoch 0."""

    def table(self, table_path: str) -> ClusterTable:
        """A table as it is now; raises NotFound."""

    def partitions(self, table_path: str) -> Mapping[int, str]:
        """Names of the partitions by id: values joined by `$`."""

    def bounds(
        self, table: ClusterTable, partition_ids: Sequence[int | None]
    ) -> Mapping[TieredBucket, BucketBounds]:
        """The bounds of the log of each bucket of these partitions, [None] for a table without."""

    def kv_snapshots(
        self, table: ClusterTable, partition_id: int | None, partition_name: str | None
    ) -> Mapping[int, SplitSnapshot]:
        """The newest snapshot of keys of each bucket that has one."""

    def snapshots_kept(
        self, table: ClusterTable, splits: Sequence[TieringSplit]
    ) -> AbstractContextManager[None]:
        """A context in which the cluster, where it can, keeps the snapshots of keys that these splits read.
        Raises NotFound where it has removed one already."""

    def leader_epochs(
        self, table: ClusterTable, places: Iterable[TieredBucket]
    ) -> Mapping[TieredBucket, int]:
        """The number of the leader of each bucket, which grows when another server, or the same after a
        start, leads it; without buckets of which it is not known."""

    def batches_before(self, table: ClusterTable, offsets: Offsets) -> Marks:
        """The batch of the log that holds the row before each offset."""

    def lake_snapshot(self, table_path: str) -> ClusterLakeSnapshot | None:
        """The newest lake snapshot that the cluster knows, None without one."""

    def prepare_lake_snapshot(self, table: ClusterTable, offsets: Offsets) -> str | None:
        """Before a commit to the lake: send the cluster the offsets of the buckets that it concerns. What
        `commit_lake_snapshot` takes; None of a cluster that needs nothing before."""

    def prepared_offsets(self, table: ClusterTable, path: str) -> Offsets:
        """The offsets in a file that a cluster of 0.9 has prepared, for us or for Fluss's own service. Raises
        NotFound where it has removed the file, Unavailable or Unsupported where it cannot be read here."""

    def commit_lake_snapshot(
        self,
        table: ClusterTable,
        snapshot_id: int,
        offsets: Offsets,
        *,
        prepared: str | None = None,
        readable: bool = False,
    ) -> None:
        """Register what the lake holds: a snapshot and the offsets of some buckets, which were `prepared`
        with them. `readable`: readers of the snapshot see all rows below the offsets."""

    def read_log(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[ReadStep]:
        """The rows of the logs in [log_start, stop) of each split, of a bucket in the order of offsets, which
        may lack rows. The last step of a bucket is at its `stop`. Raises Unavailable, naming it, for a bucket
        that gives nothing though it should."""

    def read_snapshot(self, table: ClusterTable, split: TieringSnapshotSplit) -> Iterator[pa.RecordBatch]:
        """The rows of a snapshot of keys; raises NotFound if the cluster has removed it."""


COMMIT_USER = "__fluss_lake_tiering"
"""The user under which rounds commit to the lake, as Fluss's own service does."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LakeState:
    """What the lake holds of a table of the cluster: the snapshot of the newest round, None before the first,
    the id of the table whose rows it has, and its offsets, with `marks` of the batches before them. `basis`
    is what the lake's committer needs to see whether it has changed since. `offsets_path`: Fluss's own
    service made that snapshot, and the offsets are in this file of the cluster."""

    snapshot_id: int | None = None
    table_id: int | None = None
    offsets: Offsets = field(default_factory=dict)
    partition_names: Mapping[int, str] = field(default_factory=dict)
    marks: Marks = field(default_factory=dict, compare=False)
    basis: Any = field(default=None, compare=False)
    offsets_path: str | None = None


@dataclass(frozen=True, slots=True)
class LakeCommit:
    """What a round commits: on top of which state, of which table, with the offsets of all buckets and the
    `marks` of the batches before them. `replaces`: the rows that are there are those of a former table of
    this name, and go; a tag keeps them, if `keeps` and the lake has tags. `drops`: names of partitions whose
    rows go. `passed`: where the log goes on in buckets of which rows are lost. `prepared`: the file in which
    a cluster of 0.9 keeps the offsets."""

    basis: LakeState
    table_id: int
    offsets: Offsets
    partition_names: Mapping[int, str]
    replaces: bool = False
    marks: Marks = field(default_factory=dict)
    keeps: bool = True
    drops: tuple[str, ...] = ()
    passed: Offsets = field(default_factory=dict)
    prepared: str | None = None


class LakeWriter(Protocol):
    """Writes the rows of one split. Nothing is visible before the commit. Belongs to one thread."""

    def write(self, batch: RowBatch) -> None:
        """Add rows, in the order of their offsets."""

    def complete(self) -> Any:
        """The write result: what was written. Picklable."""

    def abort(self) -> None:
        """Delete what was written and not completed."""


class LakeCommitter(Protocol):
    """Commits rounds of one table of the lake."""

    def state(self) -> LakeState:
        """What the lake holds now."""

    def to_committable(self, results: Sequence[Any]) -> Any:
        """The results of all writers of a round as one."""

    def commit(self, committable: Any, commit: LakeCommit) -> int:
        """Put the rows into the lake; the id of the snapshot. Raises CommitConflict if the lake is not in the
        state of `commit.basis`: then nothing is there, and what was written is deleted. CommitUnknown and
        Unavailable say that the rows may be there."""

    def abort(self, committable: Any) -> None:
        """Delete what was written."""

    def readable(self, tiered: Offsets) -> Offsets | None:
        """The offsets up to which readers of the lake see rows, where that may be less than what is `tiered`;
        None if they see all."""


class LakeTieringFactory(Protocol):
    """A lake. Picklable, so that tasks of an engine can make writers."""

    def prepare(self, table: ClusterTable) -> None:
        """Make the table in the lake if it is not there; raises Unsupported, with the reason, for a table
        that this lake cannot hold, SchemaMismatch where the one that is there has other columns or keys."""

    def create_writer(
        self, table: ClusterTable, split: TieringSplit, *, replaces: bool = False
    ) -> LakeWriter:
        """The writer of one split; `replaces` as in `LakeCommit`."""

    def create_committer(self, table: ClusterTable) -> LakeCommitter:
        """The committer of one table."""
