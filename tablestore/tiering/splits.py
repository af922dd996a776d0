"""What one reader of a round reads: a range of the log of one bucket, or a snapshot of its keys.

A table of the cluster is buckets, in a partitioned one of each partition; a bucket's log has offsets from 0.
Offsets are ranges [start, stop): `stop` is the offset of the next row. All values are frozen and picklable.
Made by `split_generator.py`, read by `readers.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tablestore.fluss.log_records import BatchMark


class TieredBucket(NamedTuple):
    """A bucket of a table; `partition_id` is None where the table is not partitioned."""

    partition_id: int | None
    bucket: int

    def __str__(self) -> str:
        of = "" if self.partition_id is None else f" of partition {self.partition_id}"
        return f"bucket {self.bucket}{of}"


Offsets = Mapping[TieredBucket, int]
"""The offset of the next row by bucket; a bucket that is absent has no row in the lake yet."""
Marks = Mapping[TieredBucket, BatchMark]
"""The batch of the log that holds the row before the offset of a bucket; absent where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringSplit:
    """What one reader reads of one bucket. `table_path` is `database.table`, `partition_name` the values of
    the partition columns joined by `$`, None without partitions. `stop` is the offset up to which the lake
    has the bucket's rows when the split is committed, `last` the batch of the log whose rows it has now,
    where that is known."""

    table_path: str
    table_id: int
    partition_id: int | None = None
    partition_name: str | None = None
    bucket: int
    stop: int
    last: BatchMark | None = None

    @property
    def table_bucket(self) -> TieredBucket:
        """The bucket that is read."""
        return TieredBucket(self.partition_id, self.bucket)

    @property
    def log_start(self) -> int:
        """The first offset that is read of the log."""
        raise NotImplementedError

    def __str__(self) -> str:
        name = "" if self.partition_name is None else f"/{self.partition_name}"
        return f"{self.table_path}{name}/{self.bucket} [{self.log_start}, {self.stop})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringLogSplit(TieringSplit):
    """The rows of the log in [start, stop)."""

    start: int

    @property
    def log_start(self) -> int:
        """The first offset that is read."""
        return self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class TieringSnapshotSplit(TieringSplit):
    """The newest rows of all keys as they were before `log_offset`, then the log in [log_offset, stop)."""

    snapshot_id: int
    log_offset: int

    @property
    def log_start(self) -> int:
        """The offset at which the log goes on behind the snapshot."""
        return self.log_offset
