"""What a round has to read: offsets of the lake, ends of the logs and snapshots of keys → splits. Pure.

A table of the cluster is buckets, in a partitioned one of each partition; a bucket's log has offsets from 0.
Offsets are ranges [start, stop): `stop` is the offset of the next row. A split is what one reader of a round
reads: a range of the log of one bucket, or a snapshot of its keys. All values are frozen and picklable.

Of each bucket: where the lake has an offset, the log from there to its end, nothing if that is the same.
Where it has none, a keyed bucket begins with the newest snapshot of its keys, if there is one, all others
with the first row that the log ever had. What the log no longer has is told and not passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tablestore.core.quantities import many
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


class BucketBounds(NamedTuple):
    """The log of a bucket has the rows in [earliest, latest)."""

    earliest: int
    latest: int


class SplitSnapshot(NamedTuple):
    """A snapshot of a bucket's keys: their rows just before `log_offset`."""

    snapshot_id: int
    log_offset: int


class OffsetGap(NamedTuple):
    """Offsets [start, stop) that the lake lacks and the log has no more: retention removed them, or they were
    never in it. Where `start` is greater, the lake has rows up to there of which the log knows nothing."""

    table_bucket: TieredBucket
    start: int
    stop: int

    @property
    def rows(self) -> int:
        """How many rows are gone, at most; none of those that the lake has."""
        return max(self.stop - self.start, 0)

    def __str__(self) -> str:
        if self.start > self.stop:
            return f"{self.table_bucket}: the lake is at offset {self.start}, the log ends at {self.stop}"
        gone = f"offsets [{self.start}, {self.stop}), up to {many(self.rows, 'row')}"
        return f"{self.table_bucket}: {gone}, are gone from the log"


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The splits of a round, in order of partition and bucket, and in `gaps` what cannot be read any more
    behind what the lake has, which has no split."""

    splits: tuple[TieringSplit, ...] = ()
    gaps: tuple[OffsetGap, ...] = ()


class TieringSplitGenerator:
    """Makes the splits of one table. `partitions` are names by id, empty where there are none."""

    def __init__(self, table_path: str, table_id: int, partitions: Mapping[int, str]) -> None:
        self._path, self._id, self._partitions = table_path, table_id, partitions

    def plan(
        self,
        bounds: Mapping[TieredBucket, BucketBounds],
        *,
        lake: Offsets,
        snapshots: Mapping[TieredBucket, SplitSnapshot],
    ) -> SplitPlan:
        """The splits of buckets with these bounds; `snapshots` are those of keyed buckets."""
        splits: list[TieringSplit] = []
        gaps: list[OffsetGap] = []
        for place, log in _in_order(bounds.items()):
            at, snapshot = lake.get(place), snapshots.get(place)
            if at is None and snapshot is not None:
                splits.append(self._snapshot_split(place, snapshot, log))
                continue
            start = at or 0
            if start > log.latest or start < log.earliest:
                gaps.append(OffsetGap(place, start, log.latest if start > log.latest else log.earliest))
            elif start < log.latest:
                splits.append(TieringLogSplit(start=start, stop=log.latest, **self._common(place)))
        return SplitPlan(tuple(splits), tuple(gaps))

    def _snapshot_split(
        self, place: TieredBucket, snapshot: SplitSnapshot, log: BucketBounds
    ) -> TieringSplit:
        stop = max(snapshot.log_offset, log.latest)
        return TieringSnapshotSplit(
            snapshot_id=snapshot.snapshot_id,
            log_offset=snapshot.log_offset,
            stop=stop,
            **self._common(place),
        )

    def _common(self, place: TieredBucket) -> dict[str, Any]:
        name = None if place.partition_id is None else self._partitions[place.partition_id]
        return {
            "table_path": self._path,
            "table_id": self._id,
            "partition_id": place.partition_id,
            "partition_name": name,
            "bucket": place.bucket,
        }


def _in_order(
    bounds: Iterable[tuple[TieredBucket, BucketBounds]],
) -> list[tuple[TieredBucket, BucketBounds]]:
    return sorted(
        bounds,
        key=lambda bound: (-1 if bound[0].partition_id is None else bound[0].partition_id, bound[0][1]),
    )
