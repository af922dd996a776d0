"""What tiering needs of a streaming cluster: a Fluss, our own coordinator, or one in memory of a test.

`FlussTieringCluster` (`fluss_cluster.py`) is this protocol over the client of Fluss. Errors: NotFound for a
table or partition that is gone, Unavailable for what may go better later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from tablestore.fluss.heartbeat import HeartbeatRequest, HeartbeatResponse, TieringTable
from tablestore.fluss.log_records import BatchMark
from tablestore.format.types.data_type import DataField
from tablestore.tiering.split_generator import BucketBounds, SplitSnapshot
from tablestore.tiering.splits import Marks, Offsets, TieredBucket, TieringSnapshotSplit, TieringSplit


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
