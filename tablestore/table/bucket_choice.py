"""The buckets that a compaction works on: of a partition, of some numbers, of a predicate.

A compaction takes whole buckets, so a predicate over key columns chooses the buckets that may hold such rows:
by the bucket function where it names every bucket-key column, and by the key ranges of their files. Other
columns choose no bucket and are refused. Metadata only; made from a call's arguments, used by `compaction`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tablestore.core.errors import InvalidRequest
from tablestore.format.predicates import predicate
from tablestore.format.predicates.literal import unwrapped
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.predicates.predicate_text import condition
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store, partition_named
from tablestore.read.scan.pruning import Filters, Pruner, selected_partitions
from tablestore.read.scan.split_generator import bucket_numbers
from tablestore.write.retention.expire_partitions import expired_by_values

PartitionChoice = Mapping[str, Any] | str | None
Buckets = int | Iterable[int] | None


@dataclass(frozen=True)
class BucketChoice:
    """Partitions by a test on their bytes, buckets by number (None: all), rows by a bound predicate."""

    partition: Callable[[bytes], bool]
    numbers: frozenset[int] | None = None
    where: Predicate | None = None

    @classmethod
    def of(
        cls, store: Store, partition: PartitionChoice, bucket: Buckets, where: Predicate | str | None
    ) -> BucketChoice:
        """The choice that the arguments of `Table.compact` make, without expired partitions where the table
        leaves them out; raises InvalidRequest for columns that choose no bucket."""
        chosen = _partitions(store, partition)
        if store.options.compaction_skips_expired:
            return cls(
                lambda p: chosen(p) and not expired_by_values(store, p),
                _numbers(store, bucket),
                _bound(store, where),
            )
        return cls(chosen, _numbers(store, bucket), _bound(store, where))

    def of_partitions(self, store: Store) -> Callable[[bytes], bool]:
        """The choice of partitions alone, for rows that have no bucket yet. Raises InvalidRequest for buckets
        and keys."""
        if self.numbers is not None or (self.where is not None and not _partition_only(store, self.where)):
            raise InvalidRequest(
                "rows that wait in postponed buckets are chosen by their partition: leave bucket and keys out"
            )
        chosen = partition_filter(store, self.where)
        return lambda p: self.partition(p) and chosen(p)

    def entries(self, store: Store, snapshot: Snapshot | None) -> Entries:
        """All live files of the chosen buckets."""
        numbers, manifests = self.numbers, store.manifests
        if numbers is None and self.partition is every_partition:
            live = manifests.live_entries(snapshot)  # which others that look at this snapshot share
            live = live.filter(live.numbers("bucket") != POSTPONE_BUCKET)
        else:
            live = manifests.live_entries(
                snapshot,
                partition=self.partition,
                bucket=lambda b, _: b != POSTPONE_BUCKET and (numbers is None or b in numbers),
            )
        if self.where is None or not len(live):
            return live
        filters = Filters.of(self.where, store.schema)
        parts = store.schema, store.options, filters, store.partition_values, store.schema_of
        with store.manifests.naming_rows():
            kept = Pruner(*parts, independent=True).keep(live)
        group = bucket_numbers(live)
        return live.filter(np.isin(group, group[kept]))


def every_partition(_partition: bytes) -> bool:
    """Chooses all partitions."""
    return True


def partition_filter(store: Store, where: Predicate | None) -> Callable[[bytes], bool]:
    """A test on serialized partitions for a predicate over partition columns; None chooses all."""
    if where is None:
        return every_partition
    bound = predicate.bind(where, store.schema)

    def chosen(partition: bytes) -> bool:
        return selected_partitions([partition], bound, store.partition_values, store.schema)[partition]

    return chosen


def _partitions(store: Store, partition: PartitionChoice) -> Callable[[bytes], bool]:
    if partition is None or partition == "":
        return every_partition
    if isinstance(partition, str):
        wanted = partition_named(store, partition)
        return lambda p: store.partition_text(p) == wanted
    if not isinstance(partition, Mapping):
        raise InvalidRequest(f"partition {partition!r} must be text such as 'p=1' or {{column: value}}")
    for name in partition:
        if name not in store.schema.partition_keys:
            there = ", ".join(store.schema.partition_keys)
            there = f"there are: {there}" if there else "the table has no partitions"
            raise InvalidRequest(f"{name!r} is no partition column; {there}")
    return partition_filter(store, predicate.columns_are(partition))


def _numbers(store: Store, bucket: Buckets) -> frozenset[int] | None:
    if bucket is None:
        return None
    listed = isinstance(bucket, Iterable) and not isinstance(bucket, str | bytes)
    numbers: Any = bucket if listed else [bucket]
    some = [unwrapped(b) for b in numbers]
    for b in some:
        if isinstance(b, bool) or not isinstance(b, int) or b < 0:
            raise InvalidRequest(f"bucket {b!r} must be a bucket's number, from 0 on")
    if some and max(some) >= store.options.bucket > 0:
        live = store.manifests.live_entries(store.snapshots.latest())
        many = max([store.options.bucket, *(e.total_buckets for e in live)])  # not all may be rescaled
        if max(some) >= many:
            raise InvalidRequest(f"there is no bucket {max(some)}: the table has {many}, numbered from 0")
    return frozenset(int(b) for b in some)


def _bound(store: Store, where: Predicate | str | None) -> Predicate | None:
    parsed = condition(where, store.schema)
    if parsed is None:
        return None
    bound = predicate.bind(parsed, store.schema)
    allowed = (*store.schema.partition_keys, *store.schema.primary_keys)
    wrong = sorted(bound.columns - set(allowed))
    if wrong:
        there = ", ".join(dict.fromkeys(allowed)) or "there are none"
        raise InvalidRequest(
            f"{wrong[0]!r} chooses no bucket: a compaction takes whole buckets, chosen by partition and key "
            f"columns ({there})"
        )
    return bound


def _partition_only(store: Store, where: Predicate) -> bool:
    return where.columns <= set(store.schema.partition_keys)
