"""What keeps a table small and sound: expiry after commits, rollback, ANALYZE, orphan files.

The verbs of `Table` in full: they decide what is meant and call the steps of `write`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tablestore.core.errors import CommitUnknown, InvalidRequest, NotFound, TablestoreError
from tablestore.core.options.table_options import as_text
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.snapshot import Snapshot
from tablestore.meta import consumers, refs, statistics
from tablestore.meta.compaction_history import as_recorded
from tablestore.meta.statistics import Statistics
from tablestore.meta.store import Store
from tablestore.read.scan import time_travel
from tablestore.table.features import feature_or_none
from tablestore.table.refs import Duration, milliseconds
from tablestore.table.scan import Scan, column_names
from tablestore.write import analyze as columns_of
from tablestore.write.commit.committer import CommitRequest, Committed, Committer
from tablestore.write.progress import ProgressCallback
from tablestore.write.retention import auto_tags, orphans, rollback, tags
from tablestore.write.retention.expire import ExpirePolicy, Expiry, expire, expire_changelogs
from tablestore.write.retention.expire_partitions import (
    PartitionExpiry,
    PartitionPolicy,
    expire_partitions,
    is_due,
)
from tablestore.write.retention.orphans import Orphans
from tablestore.write.retention.rollback import Rollback

log = logging.getLogger(__name__)
_ENDLESS = 1 << 31
_MERGE_ALL = {"manifest.full-compaction-threshold-size": "1 b", "manifest.merge-min-count": "1"}


def after_commit(store: Store, name: str, made: Sequence[int]) -> Expiry | None:
    """Expire what the options let go after a commit that made these snapshots, and tell what that was; None
    if nothing.

    What is met there does not undo the commit, so it is logged and told, not raised.
    """
    if store.options.write_only:
        return None
    steps: list[Callable[[Expiry], Expiry]] = [
        lambda done: replace(done, partitions=_outdated_partitions(store, made)),
        lambda done: replace(done, forgotten=tuple(forget_consumers(store))),
        lambda done: _after(
            done, expire(store, ExpirePolicy.of(store), explain_compactions=_explain_compactions)
        ),
    ]
    if store.options.changelog_decoupled:
        policy = ExpirePolicy.of_changelogs(store)
        steps.append(lambda done: done.and_changelogs(expire_changelogs(store, policy, after=done)))
    if store.options.tag_automatic_creation != "none":
        steps.append(lambda done: replace(done, tags=_outdone_by_new_tags(store)))
    if store.options.tag_expire_enabled:
        steps.append(lambda done: replace(done, tags=(*done.tags, *tags.expire(store))))
    done = Expiry()
    for step in steps:
        try:
            done = step(done)
        except (TablestoreError, OSError) as e:
            log.warning("%s: committed, but not all that is old was removed: %s", name, e)
            done = replace(done, problems=(*done.problems, str(e)))
    return None if done.empty else done


def _outdated_partitions(store: Store, made: Sequence[int]) -> tuple[str, ...]:
    """Take partitions past their time out of the table, where this commit looks for them; their names."""
    policy = PartitionPolicy.of(store.options) if is_due(store, made) else None
    return () if policy is None else expire_partitions(store, policy).partitions


def old_partitions(store: Store, given: Mapping[str, Any], *, dry_run: bool) -> PartitionExpiry:
    """`Table.expire_partitions`: the table's policy, but for what is given by the names of options."""
    chosen = store.with_schema(store.schema.with_options(as_text(given)))
    policy = PartitionPolicy.of(chosen.options)
    if policy is None or not store.schema.partition_keys:
        raise InvalidRequest(
            "partitions expire where the table has some, and after expiration_time=, such as '90 d', or the "
            "option partition.expiration-time"
        )
    return expire_partitions(store, policy, dry_run=dry_run)


def _explain_compactions(
    store: Store, snapshot: Snapshot, records: Sequence[CompactionRecord]
) -> Sequence[CompactionRecord]:
    """Compactions of other engines with what our rules say of them; as recorded without `insight`."""
    explain = feature_or_none("compactions of other engines") or as_recorded
    return explain(store, snapshot, records)


def _after(done: Expiry, more: Expiry) -> Expiry:
    kept = {"forgotten": done.forgotten, "partitions": done.partitions}
    return replace(more, **kept, problems=(*done.problems, *more.problems))


def _outdone_by_new_tags(store: Store) -> tuple[str, ...]:
    """Make the automatic tags that are due; names of those that went for them."""
    before = refs.tag_names(store)
    auto_tags.make(store)
    return tuple(sorted(set(before) - set(refs.tag_names(store))))


def old_consumers(store: Store) -> list[str]:
    """Names of consumers that have not moved for `consumer.expiration-time`."""
    age = store.options.consumer_expiration_ms
    return [] if age is None else consumers.expired(store, age_ms=age)


def forget_consumers(store: Store) -> list[str]:
    """Forget the old consumers; their names."""
    gone = old_consumers(store)
    for name in gone:
        consumers.delete(store, name)
    return gone


def expire_snapshots(
    store: Store,
    *,
    keep: int | None,
    older_than: Duration | None,
    dry_run: bool,
    progress: ProgressCallback | None = None,
) -> Expiry:
    """`Table.expire_snapshots`: snapshots by number and age, then changelogs that outlived them."""
    policy, lasting = ExpirePolicy.of(store), ExpirePolicy.of_changelogs(store)
    if keep is not None or older_than is not None:
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise InvalidRequest("keep must be at least 1: the newest snapshot is the table")
        age = 0 if older_than is None else milliseconds(older_than, "older_than")
        newest = keep if keep is not None else 1
        most = newest if older_than is None else _ENDLESS
        policy = replace(policy, keep_min=newest, keep_max=most, age_ms=age, limit=_ENDLESS)
        lasting = replace(lasting, limit=_ENDLESS)
    forgotten = tuple(old_consumers(store) if dry_run else forget_consumers(store))
    how = {"dry_run": dry_run, "ignoring": forgotten, "progress": progress}
    found = expire(store, policy, explain=True, explain_compactions=_explain_compactions, **how)
    found = replace(found, forgotten=forgotten)
    if not policy.decoupled:
        return found
    return found.and_changelogs(expire_changelogs(store, lasting, after=found, **how))


def roll_back(
    store: Store, *, snapshot: int | None, tag: str | None, timestamp: time_travel.Moment | None
) -> Rollback:
    """`Table.rollback`: exactly one of the three says where to."""
    if sum(v is not None for v in (snapshot, tag, timestamp)) != 1:
        raise InvalidRequest("give exactly one of snapshot, tag and timestamp")
    if timestamp is not None:
        return rollback.rollback(store, time_travel.at_or_before(store, time_travel.millis_of(timestamp)))
    return rollback.rollback(store, rollback.target_of(store, snapshot=snapshot, tag=tag))


def analyze(store: Store, columns: Sequence[str] | None, request: CommitRequest) -> Committed:
    """`Table.analyze`: read the newest snapshot, write its statistics, commit them."""
    snapshot = store.snapshots.latest()
    if snapshot is None:
        raise NotFound("the table has no snapshot to analyze yet")
    chosen = column_names(columns)
    names = store.schema.shown.names if chosen is None else chosen
    scan = Scan.of_snapshot(store, snapshot, names or store.schema.shown.names[:1])
    fields = store.schema.columns(scan.names if names else ())
    rows, found = columns_of.analyze(scan.to_batches(), fields)
    live = store.manifests.live_entries(snapshot)
    physical, size = sum(e.file.row_count for e in live), sum(e.file.file_size for e in live)
    share = size * rows // physical if physical else 0
    name = statistics.write(store, Statistics(snapshot.id, snapshot.schema_id, rows, share, found))
    try:
        return Committer(store).commit_statistics(name, request)
    except CommitUnknown:
        raise
    except TablestoreError:
        store.io.delete(store.paths.statistics(name))
        raise


def compact_manifests(store: Store, request: CommitRequest) -> Committed:
    """`Table.compact_manifests`: everything merged, as Paimon's procedure does; nothing where that is so."""
    snapshot = store.snapshots.latest()
    found = [] if snapshot is None else store.manifests.manifests(snapshot)
    if len(found) < 2 and not any(m.num_deleted for m in found):
        return Committed()
    whole = store.schema.with_options(_MERGE_ALL)
    return Committer(store.with_schema(whole)).merge_manifests(request)


def remove_orphans(store: Store, *, older_than: Duration, dry_run: bool, force: bool) -> Orphans:
    """`Table.remove_orphans`."""
    age = milliseconds(older_than, "older_than")
    return orphans.remove_orphans(store, older_than_ms=age, dry_run=dry_run, force=force)
