"""What would be: the picks of a compaction (`Table.compact(dry_run=True)`), and the table's history, or a
cluster's load, under other options (`Table.what_if`).

Reads metadata and a sample of keys. The decisions are those of `table.compaction`, the forecasts of
`insight.explain`, the replays of `insight.simulator`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.core.options.rules import require_known
from tablestore.core.options.table_options import TableOptions, as_text, current_names, require_levels
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.insight.explain.forecast import of_append_files, of_decision, placed
from tablestore.insight.explain.learned_sizes import learned_sizes
from tablestore.insight.explain.merge_size import UNKNOWN
from tablestore.insight.explain.table_history import events
from tablestore.insight.simulator import HistoryWhatIf, ReplayedHistory
from tablestore.insight.simulator.cluster import ClusterPlan, ClusterSpec, cluster_of, planned
from tablestore.insight.simulator.history_replay import ProgressCallback
from tablestore.insight.simulator.what_if import phase, require_change
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.compaction.bucket_compaction import decide
from tablestore.lsm.compaction.compaction_report import Compaction, Pick
from tablestore.lsm.compaction.loop import require_strategy
from tablestore.lsm.compaction.options import CompactionOptions
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


def what_if(
    store: Store,
    options: Mapping[str, Any],
    *,
    baseline: Mapping[str, Any] | None = None,
    progress: ProgressCallback | None = None,
) -> HistoryWhatIf:
    """The history of every bucket as it was, or under `baseline`, and under `options`.

    Raises InvalidOption for bad values, InvalidRequest if they change nothing about compaction.
    """
    resolve = partial(_resolved, store)
    other, given = resolve(options)
    start = None if baseline is None else resolve(baseline)[0]
    require_change(other, start or CompactionOptions.of(store.options))
    understood, replayed = (None, None) if progress is None else (phase(progress, 0, 3), _later(progress))
    history = history_of(store, progress=understood)
    return HistoryWhatIf(history, other, given, baseline=start, resolve=resolve, progress=replayed)


def what_if_cluster(
    store: Store, asked: ClusterSpec | Mapping[str, Any], options: Mapping[str, Any] | None
) -> ClusterPlan:
    """The buckets and workers that the rows of `asked` need in this table, under its options and `options`.

    Raises Unsupported for a table without a primary key, InvalidRequest for an empty table whose rows `asked`
    does not describe, and for numbers that no cluster has.
    """
    cluster = cluster_of(asked)
    if not store.schema.primary_keys:
        raise Unsupported("a cluster for a table without a primary key", "its rows have no buckets to merge")
    wanted = _wanted(store, current_names(as_text(options or {}), keyed=True))
    keys, row_bytes = cluster.keys, cluster.row_bytes
    if keys is None or row_bytes is None:
        files = store.manifests.live_entries(store.snapshots.latest()).table
        rows, size = (int(pc.sum(files[name]).as_py() or 0) for name in ("row_count", "file_size"))
        if not rows:
            raise InvalidRequest("the table is empty: give keys and row_bytes of the cluster")
        keys, row_bytes = keys or rows, row_bytes or size / rows
    plan = planned(cluster, CompactionOptions.of(wanted), keys=keys, row_bytes=row_bytes)
    return plan.aside if wanted.write_only and plan.aside is not None else plan


def history_of(store: Store, *, progress: ProgressCallback | None = None) -> ReplayedHistory:
    """A table's history as far as there are snapshots, with the options that were in force."""
    all_events = tuple(events(store))
    ids = {event.schema_id for event in all_events}
    earlier = {i: TableOptions.parse(store.schema_of(i).options) for i in ids}
    return ReplayedHistory(
        all_events,
        store.schema,
        store.options,
        earlier=earlier,
        model=learned_sizes(store),
        progress=progress,
    )


def _later(progress: ProgressCallback) -> ProgressCallback:
    """Progress of the two replays, which come after a pass of the same length."""
    return lambda done, whole: progress(whole // 2 + done, whole // 2 * 3)


def _resolved(store: Store, options: Mapping[str, Any]) -> tuple[CompactionOptions, dict[str, str]]:
    """(compaction options with those given by name, these as text)."""
    given = current_names(as_text(options), keyed=True)
    require_known(given)
    return CompactionOptions.of(_wanted(store, given)), dict(given)


def _wanted(store: Store, given: Mapping[str, str]) -> TableOptions:
    schema = store.schema.with_options(given)
    wanted = TableOptions.parse(schema.options)
    require_levels(wanted)
    require_strategy(schema, wanted)
    return wanted
