"""The snapshots of a table: reading one, changes between two, rollback, and expiry.

Expiry runs after every commit, as the table's options say, or when it is called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from tablestore import doors
from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError
from tablestore.core.options.table_options import as_text
from tablestore.format.predicates.literal import unwrapped
from tablestore.format.snapshot import Snapshot
from tablestore.io import outcomes
from tablestore.log import offsets
from tablestore.log.offsets import Offsets
from tablestore.meta import changelogs, consumers, refs
from tablestore.meta.store import Store
from tablestore.read.changes.diff import StateDiff, by_key
from tablestore.read.changes.incremental import DIFF, MODES, change_schema, changes
from tablestore.read.table_log import kept_for_consumers, offsets_at
from tablestore.table.handle import Handle, LastExpiry
from tablestore.table.refs import Duration, milliseconds
from tablestore.write.progress import ProgressCallback
from tablestore.write.retention import auto_tags, tags
from tablestore.write.retention.expire import ExpirePolicy, ExpireRequest, Expiry, expire, expire_changelogs
from tablestore.write.retention.expire_partitions import (
    PartitionExpiry,
    PartitionPolicy,
    expire_partitions,
    is_due,
)

log = logging.getLogger(__name__)
End = int | str
_ENDLESS = 1 << 31


def changes_between(store: Store, since: End, until: End | None, *, mode: str) -> pa.Table:
    """`Table.changes`: changes after `since` up to `until`, or the difference of the two states. Snapshot ids
    or tag names."""
    if mode not in MODES:
        raise InvalidRequest(f"mode {mode!r} must be one of {', '.join(MODES)}")
    since, until = unwrapped(since), unwrapped(until)
    for name, value in (("since", since), ("until", until)):
        open_end = value is None and name == "until"
        if not open_end and (isinstance(value, bool) or not isinstance(value, int | str)):
            raise InvalidRequest(f"{name} {value!r} must be a snapshot id or the name of a tag")
    if isinstance(since, str) or isinstance(until, str) or mode == DIFF:
        return difference(store, _diff(store, since, until))
    return changes(store, since=since, until=until, mode=mode)


def _diff(store: Store, since: End, until: End | None) -> StateDiff:
    start, end = (_state(store, name) for name in (since, until))
    if end.id < start.id:
        raise InvalidRequest(f"changes go forward: snapshot {start.id} comes after {end.id}")
    return StateDiff(start, end)


def _state(store: Store, name: End | None) -> Snapshot:
    if isinstance(name, str):
        return refs.tagged(store, name)
    snapshot = store.snapshots.latest() if name is None else store.snapshots.get(name)
    if snapshot is None:
        raise NotFound("the table has no snapshot yet")
    return snapshot


def difference(store: Store, wanted: StateDiff) -> pa.Table:
    """The difference of two states in memory, `rowkind` first."""
    planned = wanted.plan(store)
    names = store.schema.shown.names
    rows = (b for s in planned.splits for b in s.read(store, names, with_kinds=True))
    return by_key(store, pa.Table.from_batches(rows, change_schema(store, names)))


def after_commit(
    store: Store, name: str, snapshot_ids: Sequence[int], *, last: LastExpiry | None = None
) -> Expiry | None:
    """What expired, by the table's options, after a commit that made these snapshots; None if nothing. With
    `last` nothing is looked at as long as no snapshot can expire.

    Errors do not undo the commit, so they are logged and named in `problems`, not raised.
    """
    if store.options.write_only:
        return None
    steps: list[Callable[[Expiry], Expiry]] = [
        lambda done: replace(done, partitions=_outdated_partitions(store, snapshot_ids)),
        lambda done: replace(done, forgotten=tuple(forget_consumers(store))),
        lambda done: _after(done, _expired_snapshots(store, snapshot_ids, last or LastExpiry())),
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


def _expired_snapshots(store: Store, snapshot_ids: Sequence[int], last: LastExpiry) -> Expiry:
    """Expire snapshots after a commit, by the table's options."""
    policy, newest = ExpirePolicy.of(store), snapshot_ids[-1] if snapshot_ids else None
    if newest is not None and not policy.decoupled and last.nothing_due(policy, newest, store.env.now_ms()):
        return Expiry()
    request = ExpireRequest(newest=newest, explain_compactions=doors.explained_compactions)
    done = expire(store, policy, request)
    last.note(done)
    return done


def expire_log(table: Handle) -> None:
    """Remove rows of the table's log that are old, as its options say, and in files. Errors are logged: the
    next expiry goes on."""
    if table.log is None:
        return
    store = table.store
    try:
        keep = kept_for_consumers(store, offsets_at(store, store.snapshots.latest()))
        table.log.expire(keep, everywhere=_in_every_snapshot(store, keep))
    except (TablestoreError, OSError) as e:
        log.warning("%s: old rows of the log stay until the next expiry: %s", table.name, e)


def _in_every_snapshot(store: Store, keep: Offsets) -> Offsets | None:
    """The offsets up to which the oldest snapshot has the rows, none behind `keep`; None if it does not
    say."""
    oldest = store.snapshots.earliest()
    in_files = None if oldest is None else offsets.of_snapshot(oldest)
    return None if in_files is None else {b: min(o, keep.get(b, 0)) for b, o in in_files.items()}


def _outdated_partitions(store: Store, snapshot_ids: Sequence[int]) -> tuple[str, ...]:
    """Remove expired partitions, if this commit is one that looks for them; their names."""
    policy = PartitionPolicy.of(store.options) if is_due(store, snapshot_ids) else None
    return () if policy is None else expire_partitions(store, policy).partitions


def expire_old_partitions(
    table: Handle,
    expiration_time: Duration | None,
    *,
    formatter: str | None,
    pattern: str | None,
    strategy: str | None,
    max_expires: int | None,
    dry_run: bool,
) -> PartitionExpiry:
    """`Table.expire_partitions`: by the table's policy, but for the arguments given."""
    table.require_present()
    age = None if expiration_time is None else milliseconds(expiration_time, "expiration_time")
    asked = {
        "partition.expiration-time": None if age is None else f"{age} ms",
        "partition.timestamp-formatter": formatter,
        "partition.timestamp-pattern": pattern,
        "partition.expiration-strategy": strategy,
        "partition.expiration-max-num": max_expires,
    }
    store, given = table.store, {k: v for k, v in asked.items() if v is not None}
    chosen = store.with_schema(store.schema.with_options(as_text(given)))
    policy = PartitionPolicy.of(chosen.options)
    if policy is None or not store.schema.partition_keys:
        raise InvalidRequest(
            "partitions expire where the table has some, and after expiration_time=, such as '90 d', or the "
            "option partition.expiration-time"
        )
    return expire_partitions(store, policy, dry_run=dry_run)


def _after(done: Expiry, more: Expiry) -> Expiry:
    return replace(
        more,
        forgotten=done.forgotten,
        partitions=done.partitions,
        problems=(*done.problems, *more.problems),
    )


def _outdone_by_new_tags(store: Store) -> tuple[str, ...]:
    """Make the automatic tags that are due; the names of those that were removed for them."""
    before = refs.tag_names(store)
    auto_tags.make(store)
    return tuple(sorted(set(before) - set(refs.tag_names(store))))


def old_consumers(store: Store) -> list[str]:
    """The names of consumers that have not moved for `consumer.expiration-time`."""
    age = store.options.consumer_expiration_ms
    return [] if age is None else consumers.expired(store, age_ms=age)


def forget_consumers(store: Store) -> list[str]:
    """Forget the old consumers; their names."""
    gone = old_consumers(store)
    for name in gone:
        consumers.delete(store, name)
    return gone


def expire_snapshots(
    table: Handle,
    *,
    keep: int | None,
    older_than: Duration | None,
    dry_run: bool,
    progress: ProgressCallback | None = None,
) -> Expiry:
    """`Table.expire_snapshots`: snapshots by number and age, then changelogs that outlived them, and old rows
    of the log."""
    table.require_present()
    store = table.store
    policy, lasting = ExpirePolicy.of(store), ExpirePolicy.of_changelogs(store)
    if keep is not None or older_than is not None:
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise InvalidRequest("keep must be at least 1: the newest snapshot is the table")
        age = 0 if older_than is None else milliseconds(older_than, "older_than")
        newest = keep if keep is not None else 1
        keep_max = newest if older_than is None else _ENDLESS
        policy = replace(policy, keep_min=newest, keep_max=keep_max, age_ms=age, limit=_ENDLESS)
        lasting = replace(lasting, limit=_ENDLESS)
    with outcomes.unfinished("expiry", lambda: _expiring(store)):
        return _expired(table, policy, lasting, dry_run=dry_run, progress=progress)


def _expiring(store: Store) -> object:
    """What an expiry changes."""
    return store.snapshots.ids(), changelogs.ids(store), sorted(consumers.names(store))


def _expired(
    table: Handle,
    policy: ExpirePolicy,
    lasting: ExpirePolicy,
    *,
    dry_run: bool,
    progress: ProgressCallback | None,
) -> Expiry:
    """Expire snapshots by one policy, and changelogs by another."""
    store = table.store
    forgotten = tuple(old_consumers(store) if dry_run else forget_consumers(store))
    request = ExpireRequest(
        dry_run=dry_run,
        explain=True,
        ignoring=forgotten,
        progress=progress,
        explain_compactions=doors.explained_compactions,
    )
    expiry = expire(store, policy, request)
    expiry = replace(expiry, forgotten=forgotten)
    if policy.decoupled:
        expiry = expiry.and_changelogs(expire_changelogs(store, lasting, request, after=expiry))
    if not dry_run:
        expire_log(table)
    return expiry
