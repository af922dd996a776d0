"""What keeps a table small and sound: expiry after commits, rollback, ANALYZE, orphan files.

The verbs of `Table` in full: they decide what is meant and call the steps of `write`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tablestore.errors import CommitUnknown, InvalidRequest, NotFound, TablestoreError
from tablestore.meta import consumers, statistics
from tablestore.meta.statistics import Statistics
from tablestore.meta.store import Store
from tablestore.read import time_travel
from tablestore.table.refs import Duration, milliseconds
from tablestore.table.scan import Scan, column_names
from tablestore.write import analyze as columns_of
from tablestore.write import auto_tags, orphans, rollback, tags
from tablestore.write.commit import CommitRequest, Committed, Committer
from tablestore.write.expire import ExpirePolicy, Expiry, expire, expire_changelogs
from tablestore.write.orphans import Orphans
from tablestore.write.rollback import Rollback

log = logging.getLogger(__name__)
_ENDLESS = 1 << 31


def after_commit(store: Store, name: str) -> None:
    """Expire what the options let go. What is met there does not undo the commit, so it is logged."""
    if store.options.write_only:
        return
    steps: list[Callable[[], Any]] = [
        lambda: forget_consumers(store),
        lambda: expire(store, ExpirePolicy.of(store)),
    ]
    if store.options.changelog_decoupled:
        steps.append(lambda: expire_changelogs(store, ExpirePolicy.of_changelogs(store)))
    if store.options.tag_automatic_creation != "none":
        steps.append(lambda: auto_tags.make(store))
    if store.options.tag_expire_enabled:
        steps.append(lambda: tags.expire(store))
    for step in steps:
        try:
            step()
        except (TablestoreError, OSError) as e:
            log.warning("%s: committed, but not all that is old was removed: %s", name, e)


def forget_consumers(store: Store) -> list[str]:
    """Forget consumers that have not moved for `consumer.expiration-time`; their names."""
    age = store.options.consumer_expiration_ms
    gone = [] if age is None else consumers.expired(store, age_ms=age)
    for name in gone:
        consumers.delete(store, name)
    return gone


def expire_snapshots(store: Store, *, keep: int | None, older_than: Duration | None, dry_run: bool) -> Expiry:
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
    if not dry_run:
        forget_consumers(store)
    found = expire(store, policy, dry_run=dry_run)
    if not policy.decoupled:
        return found
    more = expire_changelogs(store, lasting, dry_run=dry_run)
    files, size = (*found.files, *more.files), found.bytes + more.bytes
    return replace(found, files=files, bytes=size, changelogs=more.changelogs)


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
    names = store.schema.names if chosen is None else chosen
    scan = Scan(store, snapshot, names or store.schema.names[:1])
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


def remove_orphans(store: Store, *, older_than: Duration, dry_run: bool, force: bool) -> Orphans:
    """`Table.remove_orphans`."""
    age = milliseconds(older_than, "older_than")
    return orphans.remove_orphans(store, older_than_ms=age, dry_run=dry_run, force=force)
