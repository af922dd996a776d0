"""The state of a table that a stream begins with, and the one that it normalises from (FORMAT.md 21.4).

In the first is what no later step will deliver: rows whose changes a compaction's changelog will deliver are
left out; rows that wait at level 0, where deletion vectors hide them, are in it, since they were delivered
when they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import ANALYZE, APPEND, COMPACT, Snapshot
from tablestore.meta.store import Store
from tablestore.read.changes.change import StreamLost
from tablestore.read.changes.changed_keys import with_level_0
from tablestore.read.scan import time_travel
from tablestore.read.scan.plan import FileChoice, Plan, plan, pruner_of, splits_of
from tablestore.read.scan.pruning import Filters


def first_state(
    store: Store,
    snapshot: Snapshot,
    where: Predicate | None = None,
    *,
    columns: Sequence[str],
    made_since_ms: int | None = None,
    look_up: bool = False,
) -> Plan:
    """The plan of the first state; `made_since_ms` (epoch) leaves out files made before. With `look_up` all
    rows: changes are then looked up in snapshots, not taken from changelogs."""
    since = None if made_since_ms is None else time_travel.local_ms(made_since_ms)
    files = FileChoice(made_since=since, min_level=0 if look_up else first_level(store))
    whole = with_level_0(store) if look_up else first_store(store)
    return plan(whole, snapshot, where, columns=columns, files=files)


def first_store(store: Store) -> Store:
    """The table as its splits of `first_state` are read."""
    return store if first_level(store) else with_level_0(store)


def first_level(store: Store) -> int:
    """The level below which rows are not in the first state: a compaction's changelog will deliver them."""
    producer = store.options.changelog_producer
    if not store.schema.primary_keys:
        return 0
    if producer is ChangelogProducer.FULL_COMPACTION:
        return store.options.num_levels - 1
    return int(producer is ChangelogProducer.LOOKUP)


def state_before(
    store: Store, snapshot: int, names: Sequence[str], where: Predicate | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of the table before a snapshot, also where the one before has expired and all its files are
    still live, or where the snapshot has the same rows.

    Raises StreamLost where that state cannot be read any more, also where it expires while it is read.
    """
    if snapshot == 1:
        return
    try:
        yield from _rows(with_level_0(store), snapshot, names, where)
    except NotFound as e:
        raise StreamLost(
            f"the state before snapshot {snapshot} has expired",
            "start with latest-full, or take changes as they were written with normalize=False",
        ) from e


def _rows(
    store: Store, snapshot: int, names: Sequence[str], where: Predicate | None
) -> Iterator[pa.RecordBatch]:
    kept = _there(store, snapshot)
    same = _there(store, snapshot - 1)
    if same is None and kept is not None and _has_rows_of_the_one_before(store, kept):
        same = kept
    if same is not None:
        planned = plan(store, same, where, columns=names)
        for split in planned.splits:
            yield from split.read(store, names, planned.where)
        return
    if kept is None or kept.commit_kind != APPEND:  # others take files away
        raise NotFound(f"no snapshot {snapshot - 1}, and no APPEND {snapshot}")
    entries = store.manifests.entries_before(kept)
    pruner = pruner_of(store, Filters.of(None, store.schema))
    for split in splits_of(store, entries.filter(pruner.keep(entries)), kept):
        yield from split.read(store, names, where)


def _there(store: Store, snapshot: int) -> Snapshot | None:
    """The snapshot, None where it is not there (any more)."""
    try:
        return store.snapshots.get(snapshot)
    except NotFound:
        return None


def _has_rows_of_the_one_before(store: Store, snapshot: Snapshot) -> bool:
    """Whether a snapshot changed no rows (I12, and its exceptions)."""
    options = store.options
    plain = options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields
    compacted = snapshot.commit_kind == COMPACT and plain and options.record_expire_ms is None
    return compacted or snapshot.commit_kind == ANALYZE
