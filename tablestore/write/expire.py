"""Expiry (format facts 19, 20): which snapshots and changelogs go, and which files nothing needs any more.

Expired is a prefix of the snapshots. A file goes when a delta of (first, end] deleted it and no tag or
branch reads it. With changelogs that live longer, each snapshot leaves a copy of itself in `changelog/` and
keeps what its changes are read from, until the changelog expires in its turn. Snapshot files are removed
before the files they name, so a kill in the middle leaves orphans, never a snapshot with holes (I2).
Consumers, tags, branches and stream positions protect.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tablestore.errors import NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import join
from tablestore.meta import changelogs, consumers, refs
from tablestore.meta.store import Store
from tablestore.write import positions, reachable
from tablestore.write.reachable import Files

log = logging.getLogger(__name__)
_APPEND_SOURCE = 0


@dataclass(frozen=True, slots=True)
class Expiry:
    """What an expiry removes (or would remove): snapshot ids, file paths, bytes of data files, and who
    limits it."""

    snapshots: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    bytes: int = 0
    protected_by: tuple[str, ...] = ()
    changelogs: tuple[int, ...] = ()

    def __repr__(self) -> str:
        kept = f"; kept for {', '.join(self.protected_by)}" if self.protected_by else ""
        more = f", changelogs {_range(self.changelogs)}" if self.changelogs else ""
        size = f"{len(self.files)} files, {self.bytes / 1e6:.1f} MB"
        return f"Expiry(snapshots {_range(self.snapshots)}{more}, {size}{kept})"


def _range(ids: Sequence[int]) -> str:
    return f"{ids[0]}..{ids[-1]}" if ids else "none"


@dataclass(frozen=True, slots=True)
class ExpirePolicy:
    """How many snapshots stay and for how long: `keep_min` newest always, at most `keep_max`, others while
    younger than `age_ms`. `decoupled`: each leaves its changelog behind."""

    keep_min: int
    keep_max: int
    age_ms: int
    limit: int
    decoupled: bool = False

    @classmethod
    def of(cls, store: Store) -> ExpirePolicy:
        """The policy of the table's options for snapshots."""
        o = store.options
        counts = (o.snapshot_min_retained, o.snapshot_max_retained, o.snapshot_time_retained_ms)
        return cls(*counts, o.snapshot_expire_limit, o.changelog_decoupled)

    @classmethod
    def of_changelogs(cls, store: Store) -> ExpirePolicy:
        """The policy of the table's options for long-lived changelogs."""
        o = store.options
        counts = (o.changelog_min_retained, o.changelog_max_retained, o.changelog_time_retained_ms)
        return cls(*counts, o.snapshot_expire_limit)


def expire(store: Store, policy: ExpirePolicy, *, dry_run: bool = False) -> Expiry:
    """Remove what the policy lets go; with `dry_run` only tell."""
    latest, earliest = store.snapshots.latest_id(), store.snapshots.earliest_id()
    if latest is None or earliest is None or latest - earliest + 1 <= policy.keep_min:
        if not dry_run and earliest is not None:
            _hint(store, earliest)
        return Expiry()
    end, protected = _end(store, policy, earliest, latest)
    if end <= earliest:
        if not dry_run:
            _hint(store, earliest)
        return Expiry(protected_by=protected)
    ids = [i for i in range(earliest, end) if store.snapshots.exists(i)]
    try:
        gone = _unneeded(store, ids, end, decoupled=policy.decoupled)
    except NotFound:  # another process expired the same range meanwhile
        return Expiry(protected_by=protected)
    if not dry_run:
        if policy.decoupled:
            _keep_changelogs(store, ids)
        for snapshot_id in ids:
            store.snapshots.delete(snapshot_id)
        store.snapshots.hint_earliest(
            end
        )  # last: a stale hint is probed, a hasty one would hide what is left
        remove(store, gone)
        _log(store, "snapshots", ids, gone)
    return Expiry(tuple(ids), gone.paths, gone.bytes, protected)


def expire_changelogs(store: Store, policy: ExpirePolicy, *, dry_run: bool = False) -> Expiry:
    """Remove long-lived changelogs that the policy lets go, counted from the newest snapshot; the newest of
    them stays, as in Paimon."""
    ids, latest = changelogs.ids(store), store.snapshots.latest_id()
    if not ids or latest is None:
        return Expiry()
    end = min(latest - policy.keep_min + 1, ids[0] + policy.limit, ids[-1])
    end = min([end, *consumers.all_next(store).values()])
    start, now, gone_ids = latest - policy.keep_max + 1, store.env.now_ms(), []
    for snapshot_id in (i for i in ids if i < end):
        if snapshot_id >= start and now - changelogs.get(store, snapshot_id).time_millis < policy.age_ms:
            break
        gone_ids.append(snapshot_id)
    if not gone_ids:
        return Expiry()
    gone = _unneeded_changelogs(store, gone_ids, ids[len(gone_ids) :])
    if not dry_run:
        for snapshot_id in gone_ids:
            changelogs.delete(store, snapshot_id)
        changelogs.hint(store, earliest=ids[len(gone_ids)])
        remove(store, gone)
        _log(store, "changelogs", gone_ids, gone)
    return Expiry(files=gone.paths, bytes=gone.bytes, changelogs=tuple(gone_ids))


def _hint(store: Store, earliest: int) -> None:
    if not store.io.exists(join(store.paths.snapshot_dir, "EARLIEST")):
        store.snapshots.hint_earliest(earliest)


def _end(store: Store, policy: ExpirePolicy, earliest: int, latest: int) -> tuple[int, tuple[str, ...]]:
    """First id that stays, and the names of who stopped it from being higher."""
    start = max(latest - policy.keep_max + 1, earliest)
    end = min(latest - policy.keep_min + 1, earliest + policy.limit)
    protected = []
    changelog_only = store.options.consumer_changelog_only and policy.decoupled
    for name, next_snapshot in {} if changelog_only else consumers.all_next(store).items():
        if next_snapshot < end:
            protected.append(f"consumer {name} (next snapshot {next_snapshot})")
            end = next_snapshot
    holder = positions.holder(store.snapshots, store.snapshots.get(latest))
    if holder is not None and holder < end:
        protected.append(f"stream positions in snapshot {holder}")
        end = holder
    now = store.env.now_ms()
    for snapshot_id in range(min(start, end), end):
        try:
            successor = store.snapshots.get(snapshot_id + 1)
        except NotFound:  # a rollback to an expired snapshot left a gap
            continue
        if now - successor.time_millis < policy.age_ms:
            return max(snapshot_id, earliest), tuple(protected)
    while end > earliest and not store.snapshots.exists(end):
        end -= 1  # what stays first must be there
    return end, tuple(protected)


def _unneeded(store: Store, ids: list[int], end: int, *, decoupled: bool) -> Files:
    """Files that only snapshots below `end` need, and no changelog that outlives them."""
    expired, first = [store.snapshots.get(i) for i in ids], store.snapshots.get(end)
    from_delta = decoupled and not reachable.has_changelog_files(store)
    gone = Files()
    for snapshot in [*expired[1:], first]:
        entries = reachable.lenient(lambda s=snapshot: reachable.deleted_files(store, s), [])
        for e in entries:
            if not (from_delta and e.file.file_source in (None, _APPEND_SOURCE)):
                gone.data |= reachable.entry_paths(store, e)
    for snapshot in expired:
        gone.metadata |= reachable.lenient(lambda s=snapshot: reachable.index_files(store, s), set())
        if not from_delta:
            for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
                gone.metadata |= reachable.lenient(lambda n=name: reachable.list_files(store, n), set())
        if not decoupled:
            gone.add(reachable.lenient(lambda s=snapshot: reachable.changelog_files(store, s), Files()))
    return _not_needed(store, gone, first, changelogs.all_of(store))


def _unneeded_changelogs(store: Store, ids: Sequence[int], left: Sequence[int]) -> Files:
    """Files that only these changelogs need: their changelog files, else what their deltas deleted."""
    gone = Files()
    for snapshot in (changelogs.get(store, i) for i in ids):
        if snapshot.changelog_manifest_list is not None:
            gone.add(reachable.lenient(lambda s=snapshot: reachable.changelog_files(store, s), Files()))
            continue
        for e in reachable.lenient(lambda s=snapshot: reachable.deleted_files(store, s), []):
            gone.data |= reachable.entry_paths(store, e)
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            gone.metadata |= reachable.lenient(lambda n=name: reachable.list_files(store, n), set())
    oldest = store.snapshots.earliest_id()
    first = None if oldest is None else store.snapshots.get(oldest)
    return _not_needed(store, gone, first, [changelogs.get(store, i) for i in left])


def _not_needed(store: Store, gone: Files, first: Snapshot | None, kept: Iterable[Snapshot]) -> Files:
    """`gone` without what the oldest snapshot that stays, tags, branches and changelogs that stay read.

    No data file deleted up to `first` is part of it, so of that one only the metadata count.
    """
    outlived = [*kept, *refs.changelogs_elsewhere(store)]
    needed = reachable.used(store, refs.pinned(store), among=gone, changelogs=outlived)
    if first is not None:
        needed.metadata |= reachable.metadata_files(store, first)
        needed.add(reachable.lenient(lambda: reachable.changelog_files(store, first), Files()))
    return gone.without(needed)


def _keep_changelogs(store: Store, ids: Sequence[int]) -> None:
    for snapshot_id in ids:
        changelogs.keep(store, snapshot_id)
    known = changelogs.ids(store)
    if known:
        changelogs.hint(store, earliest=known[0], latest=known[-1])


def remove(store: Store, gone: Files) -> None:
    """Delete files that nothing names any more, and, if an option asks for it, directories left empty."""
    for path in gone.paths:
        store.io.delete(path)
    if not store.options.clean_empty_directories:
        return
    depth = len(store.schema.partition_keys)
    folders = {path.rpartition("/")[0] for path in gone.data}
    for _ in range(depth + 1):
        folders = {f.rpartition("/")[0] for f in sorted(folders) if store.io.delete_empty(f)}


def _log(store: Store, what: str, ids: Sequence[int], gone: Files) -> None:
    log.info(
        "expired %s %s %s: %d files, %d bytes",
        store.paths.root,
        what,
        _range(ids),
        len(gone.data),
        gone.bytes,
    )
