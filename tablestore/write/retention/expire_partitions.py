"""Partition expiry: removes partitions older than `partition.expiration-time`; reads no data file (FORMAT.md
19.4).

The age of a partition comes from its values (`values-time`: the text of the first column, or what
`partition.timestamp-pattern` makes of all, read by `partition.timestamp-formatter`) or by its newest file
(`update-time`). A partition whose values are no time stays, with a warning. The oldest by name go first, at
most `partition.expiration-max-num` at once, `partition.expiration-batch-size` in one OVERWRITE snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from tablestore.core import quantities
from tablestore.core.errors import InvalidOption
from tablestore.core.options.table_options import TableOptions
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import BATCH_IDENTIFIER, Snapshot
from tablestore.format.text import legacy_text
from tablestore.format.time_text import local_millis
from tablestore.meta.store import Store
from tablestore.write.commit.committer import Committer
from tablestore.write.commit.request import CommitRequest

log = logging.getLogger(__name__)
VALUES_TIME, UPDATE_TIME = "values-time", "update-time"
_SOME_TIME = "2000-01-01"


@dataclass(frozen=True, slots=True)
class PartitionExpiry:
    """Which partitions expire (or, with `dry_run`, would), by name; how many files and bytes; the snapshots
    that removed them. `without_time`: partitions whose values are no time, which stay."""

    partitions: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    snapshots: tuple[int, ...] = ()
    without_time: tuple[str, ...] = ()
    dry_run: bool = False

    def __repr__(self) -> str:
        named = ", ".join(self.partitions[:5]) + (", …" if len(self.partitions) > 5 else "")
        would = " would go: call again with dry_run=False" if self.dry_run and self.partitions else ""
        size = f"{quantities.many(self.files, 'file')}, {quantities.size(self.bytes)}"
        stays = (
            f"; {len(self.without_time):,} without a time, such as {self.without_time[0]}"
            if self.without_time
            else ""
        )
        named = f"{quantities.many(len(self.partitions), 'partition')}{': ' if named else ''}{named}"
        return f"PartitionExpiry({named}, {size}{would}{stays})"


@dataclass(frozen=True, slots=True)
class PartitionPolicy:
    """When partitions expire: older than `age_ms` by their values or (`by_update`) by their newest file."""

    age_ms: int
    by_update: bool = False
    pattern: str | None = None
    formatter: str | None = None
    max_num: int = 100
    batch_num: int | None = None

    @classmethod
    def of(cls, options: TableOptions) -> PartitionPolicy | None:
        """The policy of a table's options, None without `partition.expiration-time`. Raises InvalidOption."""
        age, strategy = options.partition_expiration_ms, options.partition_expiration_strategy
        if strategy not in (VALUES_TIME, UPDATE_TIME):
            text = f"option 'partition.expiration-strategy' is {strategy!r}; values-time or update-time"
            raise InvalidOption(text)
        if options.partition_timestamp_formatter is not None:
            local_millis(_SOME_TIME, options.partition_timestamp_formatter)
        if age is None:
            return None
        how = options.partition_timestamp_pattern, options.partition_timestamp_formatter
        numbers = options.partition_expiration_max, options.partition_expiration_batch
        return cls(age, strategy == UPDATE_TIME, *how, *numbers)


def is_due(store: Store, snapshot_ids: Collection[int]) -> bool:
    """Whether the commit that made these snapshots looks for old partitions afterwards.

    Each does where `partition.expiration-check-interval` is 0; else a batch commit with
    `end-input.check-partition-expire`, and the first commit of a stream in each interval.
    """
    options = store.options
    if options.partition_expiration_ms is None or not store.schema.partition_keys or not snapshot_ids:
        return False
    interval = options.partition_expiration_interval_ms
    if interval == 0:
        return True
    last = store.snapshots.get(max(snapshot_ids))
    if last.commit_identifier == BATCH_IDENTIFIER:
        return options.end_input_expires
    before = store.snapshots.find(min(snapshot_ids) - 1)
    return (before.time_millis if before else 0) // interval != last.time_millis // interval


def expire_partitions(store: Store, policy: PartitionPolicy, *, dry_run: bool = False) -> PartitionExpiry:
    """Remove the partitions that are due from the table; with `dry_run` only report them."""
    snapshot = store.snapshots.latest()
    if snapshot is None or not store.schema.partition_keys:
        return PartitionExpiry(dry_run=dry_run)
    before = store.env.local_now_ms() - policy.age_ms
    old, without_time = _old(store, snapshot, policy, before)
    going = old[: policy.max_num]
    live = store.manifests.live_entries(snapshot, partition=set(going).__contains__) if going else ()
    snapshots = () if dry_run else tuple(_commits(store, going, policy.batch_num or len(going)))
    expiry = PartitionExpiry(
        tuple(store.partition_text(p) for p in going),
        len(live),
        sum(e.file.file_size for e in live),
        snapshots,
        tuple(store.partition_text(p) for p in without_time),
        dry_run,
    )
    if snapshots:
        log.info("expired partitions of %s: %s", store.paths.root, expiry)
    if without_time:
        why = (
            "its values are no time; look at partition.timestamp-pattern and -formatter, or let it expire by"
        )
        log.warning("%s: partition %s stays, %s update-time", store.paths.root, expiry.without_time[0], why)
    return expiry


def expired_by_values(store: Store, partition: bytes) -> bool:
    """Whether a partition is past its time by its values, as `compaction.skip-expired-partitions` asks."""
    policy = PartitionPolicy.of(store.options)
    if policy is None or policy.by_update or not store.schema.partition_keys:
        return False
    time_ms = _time_in_values(store, partition, policy)
    return time_ms is not None and time_ms < store.env.local_now_ms() - policy.age_ms


def _old(
    store: Store, snapshot: Snapshot, policy: PartitionPolicy, before: int
) -> tuple[list[bytes], list[bytes]]:
    """(partitions made before a moment of the local wall clock, by name, partitions without a time)."""
    times = dict(_times(store, snapshot, policy))
    null = store.options.partition_default_name
    names = {
        p: ",".join(null if text is None else text for text in _texts(store, p))
        for p, time_ms in times.items()
        if time_ms is not None and time_ms < before
    }
    return sorted(names, key=names.__getitem__), [p for p, time_ms in times.items() if time_ms is None]


def _times(store: Store, snapshot: Snapshot, policy: PartitionPolicy) -> Iterator[tuple[bytes, int | None]]:
    """Each live partition with its time; by update, the newest file counts although it may be deleted
    again."""
    entries = store.manifests.read_manifests(store.manifests.manifests(snapshot))
    distinct, codes = entries.partitions()
    signs = np.where(entries.numbers("kind") == ADD, 1, -1)
    live = np.bincount(codes, weights=signs, minlength=len(distinct)) > 0
    newest = np.zeros(len(distinct), dtype=np.int64)
    np.maximum.at(newest, codes, entries.numbers("creation_time_ms"))
    for i in np.flatnonzero(live).tolist():
        yield distinct[i], int(newest[i]) if policy.by_update else _time_in_values(store, distinct[i], policy)


def _time_in_values(store: Store, partition: bytes, policy: PartitionPolicy) -> int | None:
    """The time that the values of a partition mean; None if they are no time."""
    texts = _texts(store, partition)
    if policy.pattern is None:
        text = texts[0]
    else:
        text = policy.pattern
        for key, value in zip(store.schema.partition_keys, texts, strict=True):
            if value is None:
                return None
            text = text.replace(f"${key}", value)
    return None if text is None else local_millis(text, policy.formatter)


def _texts(store: Store, partition: bytes) -> list[str | None]:
    """The values as Java prints them, dates as the numbers that they are; None for NULL."""
    fields = store.schema.partition_fields
    values = zip(fields, store.partition_values(partition), strict=True)
    return [None if v is None else legacy_text(v, f.type) for f, v in values]


def _commits(store: Store, partitions: list[bytes], batch: int) -> Iterator[int]:
    for start in range(0, len(partitions), max(batch, 1)):
        some = frozenset(partitions[start : start + batch])
        request = CommitRequest(store.env.uuid())
        yield from Committer(store).overwrite([], request, some.__contains__).snapshots
