"""`Table.what_if`: replays the table's history under other options, or plans a cluster that writes it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow.compute as pc

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.core.options.rules import require_known
from tablestore.core.options.table_options import TableOptions, as_text, current_names, require_levels
from tablestore.insight.explain.learned_sizes import learned_sizes
from tablestore.insight.explain.table_history import events
from tablestore.insight.simulator import HistoryWhatIf, ReplayedHistory
from tablestore.insight.simulator.cluster import ClusterPlan, ClusterSpec, cluster_of, planned
from tablestore.insight.simulator.history_replay import ProgressCallback
from tablestore.insight.simulator.what_if import phase, require_change
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.compaction.strategy import require_strategy
from tablestore.meta.store import Store


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
