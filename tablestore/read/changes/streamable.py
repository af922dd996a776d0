"""Which tables have streams, what their steps hold, and which snapshots a stream may deliver by now; refusals
where changes are not tracked (`tablestore.change-tracking`, FORMAT.md 13.6).

A stream is refused before it starts, by the table's options; a snapshot where its changelog lacks what its
commit changed. The second goes by the schema under which each new file was written, as a writer may have been
opened before an ALTER; by the snapshot's own for files that a compaction only moved. A snapshot that has
expired is judged by its schema alone: of which partitions its files are is no longer known.
"""

from __future__ import annotations

from collections.abc import Iterator

from tablestore.core.errors import InvalidOption, NotFound, Unsupported
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine
from tablestore.format.change_tracking import ChangeTracking, partition_at, path_of
from tablestore.format.manifests.manifest import ADD, DELETE
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import APPEND, COMPACT, Snapshot
from tablestore.io.paths import unescaped
from tablestore.meta.store import Store
from tablestore.read.scan.pruning import TRUE, selected_partitions


def is_upsert_stream(store: Store) -> bool:
    """Whether commits hold what rows are and not what they were: streams of it are normalised."""
    keyed = bool(store.schema.shown.primary_keys)
    plain = store.options.merge_engine is MergeEngine.DEDUPLICATE
    return keyed and plain and store.options.changelog_producer is ChangelogProducer.NONE


def require_streamable(store: Store) -> None:
    """Raise Unsupported for a table whose commits add rows that only a merge makes states of."""
    options, engine = store.options, store.options.merge_engine
    if not store.schema.shown.primary_keys or engine is MergeEngine.DEDUPLICATE:
        return
    if options.changelog_producer is ChangelogProducer.NONE:
        remedy = "lookup" if engine is MergeEngine.FIRST_ROW else "lookup or full-compaction"
        raise Unsupported(
            f"a stream of merge-engine {engine.value} without a changelog",
            f"set 'changelog-producer' = {remedy}, look changes up in the snapshot before each: "
            "normalize='lookup', or take the rows as they were written: normalize=False",
        )


def require_single_changelog(store: Store) -> None:
    """Raise InvalidOption where an overwrite's changes would come twice: of the overwrite and of the
    compaction after it."""
    producer = store.options.changelog_producer
    compacting = producer in (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
    if store.options.streaming_read_overwrite and store.schema.primary_keys and compacting:
        raise InvalidOption(
            f"option 'streaming-read-overwrite' with changelog-producer {producer.value!r} gives changes "
            "twice; leave it out"
        )


def last_streamable(store: Store) -> int:
    """The newest snapshot that a stream may deliver by now, 0 if there is none: old enough for
    `streaming.read.snapshot.delay`, and before the first that passes `scan.bounded.watermark`."""
    delay, bound = store.options.streaming_delay_ms, store.options.scan_bounded_watermark
    newest = store.snapshots.latest_id() or 0
    if delay is None and bound is None:
        return newest
    last = 0
    for snapshot in store.snapshots.all():
        if delay is not None and snapshot.time_millis > store.env.now_ms() - delay:
            break
        if passes_bound(store, snapshot):
            break
        last = snapshot.id
    return last


def passes_bound(store: Store, snapshot: Snapshot) -> bool:
    """Whether a snapshot's watermark is beyond `scan.bounded.watermark`, at which streams end."""
    bound = store.options.scan_bounded_watermark
    return bound is not None and snapshot.watermark is not None and snapshot.watermark > bound


def require_tracked(store: Store, within: Predicate = TRUE) -> None:
    """Raise Unsupported, for a stream, unless the changes of all partitions that `within` (a condition over
    partition columns) selects are tracked. By options that the table stores, not by its commits."""
    tracking = store.change_tracking
    if not tracking.of_table:
        raise _refusal(store, "", "is off")
    for path in _untracked(store, tracking, within):
        raise _refusal(store, path, "is off")


def require_changes_tracked(store: Store, snapshot: Snapshot, within: Predicate = TRUE) -> None:
    """Raise Unsupported for a snapshot whose changelog lacks changes of a partition that `within` selects."""
    made_by = APPEND if store.options.changelog_producer is ChangelogProducer.INPUT else COMPACT
    schemas = {i: tracking for i in range(snapshot.schema_id + 1) if (tracking := _tracking_of(store, i))}
    if snapshot.commit_kind != made_by or all(t.is_complete for t in schemas.values()):
        return
    when = f"was off in snapshot {snapshot.id}"
    then = schemas.get(snapshot.schema_id, store.change_tracking)
    if not store.snapshots.exists(snapshot.id):
        for path in _untracked(store, then, within):
            raise _refusal(store, path, when)
        if not then.of_table:
            raise _refusal(store, "", when)
        return
    entries = list(store.manifests.delta_entries(snapshot))
    moved = {e.file.file_name for e in entries if e.kind == DELETE}
    lost = [
        e.partition
        for e in entries
        if e.kind == ADD
        and not store.tracks_changes(
            e.partition, then if e.file.file_name in moved else schemas.get(e.file.schema_id, then)
        )
    ]
    asked_for = selected_partitions(lost, within, store.partition_values, store.schema)
    for partition in (p for p, selected in asked_for.items() if selected):
        path = path_of(store.schema, store.options, store.partition_values(partition))
        raise _refusal(store, path, when)


def _tracking_of(store: Store, schema_id: int) -> ChangeTracking | None:
    """What a schema, as it is stored, says; None if it is gone."""
    try:
        return ChangeTracking.of(store.schemas.get(schema_id).options)
    except NotFound:
        return None


def _untracked(store: Store, tracking: ChangeTracking, within: Predicate) -> Iterator[str]:
    """The paths of the partitions in `within` that are not tracked by an option of their own."""
    for path, tracks in tracking.of_partitions.items():
        place = None if tracks else partition_at(store.schema, path)
        selected = (
            place is None or selected_partitions([place], within, store.partition_values, store.schema)[place]
        )
        if not tracks and selected:
            yield path


def _refusal(store: Store, path: str, when: str) -> Unsupported:
    what, which = (f"partition {unescaped(path)} of ", "that partition") if path else ("", "the table")
    remedy = (
        f"its commits write no changelog; reset 'change-tracking' of {which} and start a stream with "
        "latest-full, or look changes up in snapshots: normalize='lookup'"
    )
    if path:
        remedy += ", or leave the partition out by a condition"
    return Unsupported(f"changes of {what}table {store.paths.root}, whose change tracking {when}", remedy)
