"""`Table.compact(dry_run=True)`: the picks of a compaction, each with what it would read, move and write.

Reads metadata and a sample of keys. The decisions are those of `table.compaction`, the forecasts of
`insight.explain`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.insight.explain.forecast import of_append_files, of_decision, placed
from tablestore.insight.explain.learned_sizes import learned_sizes
from tablestore.insight.explain.merge_size import UNKNOWN
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.compaction.bucket_compaction import decide
from tablestore.lsm.compaction.bucket_pick import Pick
from tablestore.lsm.compaction.compaction_report import Compaction
from tablestore.lsm.levels.bucket import Bucket
from tablestore.lsm.merge.record_expiry import expired_files
from tablestore.meta.store import Store
from tablestore.table import append_compaction, compaction
from tablestore.table.bucket_choice import BucketChoice, Buckets, PartitionChoice
from tablestore.write.routing.routing import BucketMode


def dry_run(
    store: Store,
    *,
    full: bool,
    partition: PartitionChoice,
    bucket: Buckets,
    where: Predicate | str | None = None,
    at: Snapshot | None = None,
) -> Compaction:
    """A report of what `compaction.compact` would do; with `at`, to the files of that snapshot at its
    time."""
    compaction.require_compactable(store)
    choice, snapshot = BucketChoice.of(store, partition, bucket, where), at or store.snapshots.latest()
    if BucketMode.of(store.schema, store.options) is BucketMode.POSTPONE:
        waiting = compaction.waiting_picks(store, choice, snapshot)
        if waiting is not None:
            files, _, decisions = waiting
            postponed = ((store.partition_text(p), d, placed(files[p])) for p, d in decisions)
            return Compaction(tuple(Pick(p, POSTPONE_BUCKET, d, coming) for p, d, coming in postponed))
    buckets = compaction.buckets_of(store, choice, snapshot)
    picks = list(
        _keyed(store, buckets, full, at) if store.schema.primary_keys else _append(store, buckets, full)
    )
    compaction.require_picks(store, picks, partition, snapshot)
    return Compaction(tuple(picks))


def _append(store: Store, buckets: Sequence[Bucket], full: bool) -> Iterator[Pick]:
    """The picks in buckets of a table without a primary key."""
    for bucket in buckets:
        place = store.partition_text(bucket.partition), bucket.number
        for decision, portion in append_compaction.decide(bucket, full=full):
            if portion is None:
                yield Pick(*place, decision)
            else:
                yield Pick(*place, decision, of_append_files(portion))


def _keyed(store: Store, buckets: Sequence[Bucket], full: bool, at: Snapshot | None) -> Iterator[Pick]:
    """The pick in each bucket of a table with a primary key, now or at the time of a snapshot."""
    model = learned_sizes(store, at) if buckets else UNKNOWN
    instant_ms = store.env.now_ms() if at is None else at.time_millis
    for bucket in buckets:
        decision = decide(bucket, full=full, now_ms=store.env.local_ms(instant_ms))
        expired = expired_files(bucket, bucket.files)
        coming = partial(of_decision, bucket, decision, expired=expired, model=model)
        later = (
            decision.unit is not None and not store.options.deletion_vectors
        )  # read before they can expire
        place = store.partition_text(bucket.partition), bucket.number
        yield Pick(*place, decision, coming if later else coming())
