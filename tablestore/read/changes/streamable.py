"""Which tables have streams, what their steps hold, and which snapshots a stream may deliver by now."""

from __future__ import annotations

from tablestore.core.errors import InvalidOption, Unsupported
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine
from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store


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
