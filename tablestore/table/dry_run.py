"""`Table.compact(dry_run=True)`: the picks of a compaction, each with what it would read, move and write.

Reads metadata only. The decisions are those of `table.compaction`, the forecasts of `insight.explain`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tablestore.format.commit_message import CommitMessage
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.insight.explain import bucket_forecast
from tablestore.insight.explain.estimate import UNKNOWN
from tablestore.insight.explain.forecast import placed
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.compaction.bucket_pick import Pick
from tablestore.lsm.compaction.compaction_report import Compaction
from tablestore.meta.store import Store
from tablestore.table import append_compaction, compaction
from tablestore.table.bucket_choice import BucketChoice, Buckets, PartitionChoice
from tablestore.write.routing.bucket_mode import BucketMode


def dry_run(
    store: Store,
    *,
    full: bool,
    partition: PartitionChoice,
    bucket: Buckets,
    where: Predicate | str | None = None,
    at: Snapshot | None = None,
) -> Compaction:
    """What `compaction.compact` would do; with `at` over the files of that snapshot, at its time."""
    compaction.require_compactable(store)
    choice, snapshot = BucketChoice.of(store, partition, bucket, where), at or store.snapshots.latest()
    if BucketMode.of(store.schema, store.options) is BucketMode.POSTPONE:
        found = compaction.waiting_picks(store, choice, snapshot)
        if found is not None:
            files, _, decisions = found
            postponed = ((store.partition_text(p), d, placed(files[p])) for p, d in decisions)
            return Compaction(tuple(Pick(p, POSTPONE_BUCKET, d, coming) for p, d, coming in postponed))
    tasks = compaction.buckets_of(store, choice, snapshot)
    picks = list((_keyed if store.schema.primary_keys else _append)(store, tasks, full, at))
    compaction.require_picks(store, picks, partition, snapshot)
    return Compaction(tuple(picks))


def _append(store: Store, tasks: list[CommitMessage], full: bool, _: Snapshot | None) -> Iterator[Pick]:
    """The picks in buckets of a table without a primary key."""
    for task in tasks:
        place = store.partition_text(task.partition), task.bucket
        for decision, unit in append_compaction.decide(store, task, task.new_index, full=full):
            if unit is None:
                yield Pick(*place, decision)
            else:
                deletions = append_compaction.deletions_of(store, unit)
                yield Pick(*place, decision, bucket_forecast.of_append(unit.new_files, deletions))


def _keyed(store: Store, tasks: list[CommitMessage], full: bool, at: Snapshot | None) -> Iterator[Pick]:
    """The pick in each bucket of a table with a primary key."""
    model = bucket_forecast.learned(store, at) if tasks else UNKNOWN
    for task in tasks:
        expired, deletions = compaction.expired_of(store, task), compaction.deletions_of(store, task)
        decision = compaction.decide(store, task, full, deletions, expired, at)
        known = {"deletions": deletions, "expired": expired, "model": model}
        coming = partial(bucket_forecast.of_keyed, store, task.new_files, decision, **known)
        later = decision.unit is not None and deletions is None  # vectors are read before they can expire
        yield Pick(store.partition_text(task.partition), task.bucket, decision, coming if later else coming())
