"""Expiry (FORMAT.md 19.2, 20.4): removes old snapshots and changelogs, and the files that nothing else needs.

The oldest snapshots expire first. A file is removed when a delta of (first, end] deleted it and no tag or
branch reads it. With changelogs that live longer, each snapshot leaves a copy of itself in `changelog/` and
keeps what its changes are read from, until the changelog expires, too. Snapshot files are removed before the
files they name, so a kill in the middle leaves orphans, never a snapshot with holes (I2). Before the first of
them is removed, one of those that stay is on the disk, whatever the table's durability (`synced`). Consumers,
tags, branches and stream positions protect snapshots. What a killed commit left under an id that had expired
goes, too. Expiry works on a full disk: changelogs and history for which there is no room are left out, and
reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from tablestore.core.errors import NotFound, TablestoreError, Unavailable
from tablestore.format.manifests.manifest import APPEND_SOURCE
from tablestore.format.snapshot import Snapshot
from tablestore.io.confined import deletes
from tablestore.meta import changelogs, compaction_history, consumers, deltas, expiry_rules, refs
from tablestore.meta.compaction_history import Explain
from tablestore.meta.expiry_rules import ExpirePolicy, Extent, moment
from tablestore.meta.reused_ids import is_reused, reused_ids
from tablestore.meta.store import Store
from tablestore.write.commit import synced
from tablestore.write.progress import Progress, ProgressCallback
from tablestore.write.retention import reachable
from tablestore.write.retention.expiry_result import Expiry, counted, ranged
from tablestore.write.retention.reachable import Files

log = logging.getLogger(__name__)
_MAX_FAILURES = 3
__all__ = ["ExpirePolicy", "ExpireRequest", "Expiry", "expire", "expire_changelogs", "remove"]


@dataclass(frozen=True, slots=True)
class ExpireRequest:
    """How to expire. `dry_run`: only report; `explain`: report also whose reads end; `ignoring`: consumers
    that protect nothing, as if they were forgotten; `progress` is called as files go; `explain_compactions`
    completes the records of compactions before the history keeps them; `newest`: the id of the newest
    snapshot, if it is known."""

    newest: int | None = None
    dry_run: bool = False
    explain: bool = False
    ignoring: tuple[str, ...] = ()
    progress: ProgressCallback | None = None
    explain_compactions: Explain = compaction_history.as_recorded


PLAIN = ExpireRequest()


def expire(store: Store, policy: ExpirePolicy, request: ExpireRequest = PLAIN) -> Expiry:
    """Remove the snapshots that the policy lets go, with the files that nothing else needs; what that was."""
    done = reachable.looked_at(store, lambda: _expire(store, policy, request))
    looks = done.snapshots or request.explain  # a commit that expires nothing lists nothing
    if looks and done.remaining is not None and not request.dry_run:
        _remove_reused(store, reused_ids(store, done.remaining[0]))
    return done


def _remove_reused(store: Store, ids: Iterable[int]) -> None:
    for snapshot_id in ids:
        store.snapshots.delete(snapshot_id)
        text = "%s: snapshot %d, of a commit that came or was killed after this id had expired, is removed"
        log.warning(text, store.paths.root, snapshot_id)


def _earliest(store: Store, *, dry_run: bool) -> int | None:
    """The id of the oldest snapshot, which EARLIEST names then; a late commit just below it is removed
    without its files, which that commit publishes once more."""
    earliest, named = store.snapshots.oldest()
    if earliest is None or named:
        return earliest
    while is_reused(store, earliest):
        if not dry_run:
            _remove_reused(store, [earliest])
        earliest += 1
    if not dry_run:
        store.snapshots.hint_earliest(earliest)
    return earliest


def _expire(store: Store, policy: ExpirePolicy, request: ExpireRequest) -> Expiry:
    dry_run = request.dry_run
    latest = request.newest if request.newest is not None else store.snapshots.latest_id()
    earliest = _earliest(store, dry_run=dry_run)
    if latest is None or earliest is None:
        return Expiry(dry_run=dry_run)
    if not dry_run and latest - earliest + 1 <= policy.keep_min:  # the common case after a commit
        return Expiry(remaining=(earliest, latest))
    read = cache(store.snapshots.find)  # each is looked at for its time, then for its files
    extent = _extent(store, policy, earliest, latest, request.ignoring, read)
    stays = Expiry(protected_by=extent.protected_by, bounds=extent.bounds, dry_run=dry_run)
    if extent.end <= earliest:
        return replace(stays, remaining=(earliest, latest))
    expired = [snapshot for snapshot in map(read, range(earliest, extent.end)) if snapshot is not None]
    ids = [snapshot.id for snapshot in expired]
    if not ids:
        raise NotFound(f"the snapshots below {extent.end} are gone: another process expired them")
    history: list[str] | None = [] if store.options.keeps_history and not dry_run else None
    gone = _unneeded(store, expired, extent.end, policy, history, request.explain_compactions)
    own = _sizes(store, (store.paths.snapshot(i) for i in ids))  # raises where others were faster
    breaks, keeps = _readers(store, policy, ids, extent.end) if request.explain else ((), ())
    problems: tuple[str, ...] = ()
    if not dry_run:
        synced.keep_one(store, extent.end)
        copied = _keep_changelogs(store, ids) if policy.decoupled else len(ids)
        problems = _keep_history(store, history or (), ids)
        with deletes(store.io) as delete:
            for snapshot_id in ids[:copied]:
                delete(store.paths.snapshot(snapshot_id))
        problems += _become_changelogs(store, ids[copied:])
        # Last: a stale hint is probed, an early one would hide the snapshots that are still there.
        store.snapshots.hint_earliest(extent.end)
        store.sync(store.paths.snapshot_dir)  # gone for good, before what they need goes
        gone = remove(store, gone, set(ids).__contains__, request.progress)
        _log(store, "snapshots", ids, gone)
    done = _with_files(replace(stays, snapshots=tuple(ids), remaining=(extent.end, latest)), gone, own)
    return replace(done, breaks=breaks, keeps=keeps, problems=problems)


def expire_changelogs(
    store: Store, policy: ExpirePolicy, request: ExpireRequest = PLAIN, *, after: Expiry | None = None
) -> Expiry:
    """Remove long-lived changelogs that the policy lets go, counted from the newest snapshot; what that was.
    The newest of them stays, as in Paimon.

    `after` is the expiry of snapshots just before: a dry run takes those for changelogs as if they were kept.
    The copies that were made for the ones that go at once are not reported as files.
    """
    return reachable.looked_at(store, lambda: _expire_changelogs(store, policy, request, after))


def _expire_changelogs(
    store: Store, policy: ExpirePolicy, request: ExpireRequest, after: Expiry | None
) -> Expiry:
    dry_run = request.dry_run
    coming = after.snapshots if dry_run and after is not None else ()
    ids, latest = sorted({*changelogs.ids(store), *coming}), store.snapshots.latest_id()
    if not ids or latest is None:
        return Expiry(dry_run=dry_run)
    end = min(latest - policy.keep_min + 1, ids[0] + policy.limit, ids[-1])
    bounds = expiry_rules.consumer_bounds(store, changelogs=True, ignoring=request.ignoring)
    kept = tuple(b.text for b in bounds if b.first < end)
    end = min([end, *(b.first for b in bounds)])
    start, now, gone_ids = latest - policy.keep_max + 1, store.env.now_ms(), []
    for snapshot_id in (i for i in ids if i < end):
        made_ms = changelogs.snapshot_or_changelog(store, snapshot_id).time_millis
        if snapshot_id >= start and now - made_ms < policy.age_ms:
            break
        gone_ids.append(snapshot_id)
    if not gone_ids:
        return Expiry(protected_by=kept, dry_run=dry_run)
    first = (
        after.remaining[0]
        if coming and after is not None and after.remaining
        else store.snapshots.earliest_id()
    )
    gone = _unneeded_changelogs(store, gone_ids, ids[len(gone_ids) :], first)
    if after is not None:  # what went with the snapshots is reported there
        gone = gone.without(Files(dict.fromkeys(after.files, 0), dict.fromkeys(after.files, 0)))
    gone = gone.present(store)
    lasted = set(gone_ids) - set(after.snapshots if after is not None else ())
    own = _sizes(store, (store.paths.changelog(i) for i in sorted(lasted)))
    if not dry_run:
        synced.keep_one(store, 0)
        for snapshot_id in gone_ids:
            changelogs.delete(store, snapshot_id)
        changelogs.hint(store, earliest=ids[len(gone_ids)])
        store.sync(store.paths.changelog_dir)
        gone = remove(store, gone, set(gone_ids).__contains__, request.progress)
        _log(store, "changelogs", gone_ids, gone)
    breaks = (f"changes(since=…) and streams below snapshot {ids[len(gone_ids)]}",)
    done = Expiry(changelogs=tuple(gone_ids), protected_by=kept, breaks=breaks, dry_run=dry_run)
    return _with_files(done, gone, own)


def _with_files(done: Expiry, gone: Files, own: dict[str, int]) -> Expiry:
    """The expiry with its files: `gone`, and `own`, which are those of the snapshots or changelogs
    themselves."""
    files = {**gone.data, **gone.metadata, **own}
    kinds = counted(files, changelog=gone.changelog)
    return replace(done, files=tuple(files), bytes=sum(files.values()), kinds=kinds)


def _sizes(store: Store, paths: Iterable[str]) -> dict[str, int]:
    return {path: _size(store, path) for path in paths}


def _size(store: Store, path: str) -> int:
    try:
        return store.io.size(path)
    except FileNotFoundError as e:
        raise NotFound(f"{path} is gone: another process expired it") from e


def _extent(
    store: Store,
    policy: ExpirePolicy,
    earliest: int,
    latest: int,
    ignoring: Sequence[str],
    read: Callable[[int], Snapshot | None],
) -> Extent:
    """The snapshots that the policy lets go, consumers and stream positions considered."""
    bounds = expiry_rules.consumer_bounds(store, ignoring=ignoring)
    if latest - earliest + 1 > policy.keep_min:
        bounds += expiry_rules.position_bounds(store, store.snapshots.get(latest))

    def time_of(snapshot_id: int) -> int | None:
        snapshot = read(snapshot_id)
        return None if snapshot is None else snapshot.time_millis

    now = store.env.now_ms()
    return expiry_rules.extent(
        policy, earliest=earliest, latest=latest, time_of=time_of, now_ms=now, protected=bounds
    )


def _readers(
    store: Store, policy: ExpirePolicy, ids: Sequence[int], end: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(reads that fail once these snapshots are gone and `end` is the oldest, reads that go on from
    elsewhere)."""
    until = moment(store.snapshots.get(end).time_millis)
    gone = f"{ids[0]}" if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
    breaks, keeps = [f"at(snapshot=…) of {gone}, at(timestamp=…) before {until}; rollback to them"], []
    for tag in refs.all_tags(store):
        if tag.snapshot.id < end:
            keeps.append(f"tag {tag.name}: snapshot {tag.snapshot.id} stays readable by at(tag={tag.name!r})")
    slow = {name: n for name, n in consumers.all_next(store).items() if n < end}
    if policy.decoupled:
        keeps.append(f"changes and streams from snapshot {ids[0]} on: read from long-lived changelogs")
        keeps += [f"consumer {name}: goes on at {n} from a long-lived changelog" for name, n in slow.items()]
    else:
        breaks.append(f"changes(since=…) below {end - 1}, streams that have not come to snapshot {end}")
        breaks += [f"consumer {name}: its next snapshot {n} goes" for name, n in slow.items()]
    for other in refs.other_branches(store):
        if other.snapshots.latest_id() is not None:
            keeps.append(f"branch {other.paths.branch}: what it shares with these snapshots stays")
    return tuple(breaks), tuple(keeps)


def _unneeded(
    store: Store,
    expired: list[Snapshot],
    end: int,
    policy: ExpirePolicy,
    history: list[str] | None,
    explain: Explain,
) -> Files:
    """The files, with their sizes, that only the expired snapshots, those below `end`, need, and no changelog
    that outlives them. The lines of the snapshots are added to `history`, for which nothing is read again."""
    first = store.snapshots.get(end)
    from_delta = policy.decoupled and not reachable.has_changelog_files(store)
    gone = Files()

    def deleted(some: list[Snapshot], changed: deltas.Deltas | None) -> None:
        for snapshot, e in reachable.deleted_by(store, some, changed):
            stays = from_delta and e.file.file_source in (None, APPEND_SOURCE)
            if snapshot is not expired[0] and not stays:
                gone.data |= reachable.entry_paths(store, e)

    for some in deltas.in_groups(expired):
        read = deltas.read_both(store.manifests, some)
        deleted(some, read[0])
        if history is not None:
            history += compaction_history.lines(store, some, read, explain)
        for snapshot in some:
            gone.metadata |= reachable.lenient({}, reachable.index_files, store, snapshot)
        if not from_delta:
            gone.metadata |= reachable.state_files(store, some)
        if not policy.decoupled:
            gone.add(reachable.changelogs_of(store, some, read[1]))
    deleted([first], deltas.deltas(store.manifests, [first]))
    return _not_needed(store, gone, first, changelogs.all_of(store)).measured(store)


def _unneeded_changelogs(store: Store, ids: Sequence[int], left: Sequence[int], oldest: int | None) -> Files:
    """The files that only these changelogs need: their changelog files, else what their deltas deleted.
    `oldest`: the oldest snapshot there is."""
    gone = Files()
    for snapshot in (changelogs.snapshot_or_changelog(store, i) for i in ids):
        if snapshot.changelog_manifest_list is not None:
            gone.add(reachable.lenient(Files(), reachable.changelog_files, store, snapshot))
            continue
        for e in reachable.lenient([], reachable.deleted_files, store, snapshot):
            gone.data |= reachable.entry_paths(store, e)
        gone.metadata |= reachable.state_files(store, [snapshot])
    first = None if oldest is None else store.snapshots.get(oldest)
    return _not_needed(store, gone, first, [changelogs.snapshot_or_changelog(store, i) for i in left])


def _not_needed(store: Store, gone: Files, first: Snapshot | None, kept: Iterable[Snapshot]) -> Files:
    """`gone` without the files that the oldest remaining snapshot, tags, branches and remaining changelogs
    read.

    No data file deleted up to `first` is part of it, so of that one only the metadata count.
    """
    outlived = [*kept, *refs.changelogs_elsewhere(store)]
    needed = reachable.used(store, refs.pinned(store), among=gone, changelogs=outlived)
    if first is not None:
        needed.metadata |= reachable.metadata_files(store, first)
        needed.add(reachable.lenient(Files(), reachable.changelog_files, store, first))
    return gone.without(needed).with_checksums(store)


def _keep_changelogs(store: Store, ids: Sequence[int]) -> int:
    """Copy the snapshots to the long-lived changelogs; how many there was room for."""
    copied = 0
    try:
        for snapshot_id in ids:
            changelogs.keep(store, snapshot_id)
            copied += 1
    except Unavailable as e:
        if not e.no_space:
            raise
        log.warning("no space to copy %s to its changelogs: %s", store.paths.root, e)
    _hint_changelogs(store)
    return copied


def _hint_changelogs(store: Store) -> None:
    ids = changelogs.ids(store)
    if ids:
        changelogs.hint(store, earliest=ids[0], latest=ids[-1])


def _become_changelogs(store: Store, ids: Sequence[int]) -> tuple[str, ...]:
    """Rename the files of snapshots to changelogs where there was no room for a copy; the problems where even
    that fails, since an expiry must free space."""
    lost = []
    for snapshot_id in ids:
        if not changelogs.become(store, snapshot_id):
            store.snapshots.delete(snapshot_id)
            lost.append(snapshot_id)
    if ids:
        _hint_changelogs(store)
    if not lost:
        return ()
    text = f"no space left to keep the changelogs of snapshots {ranged(lost)}: streams cannot read them"
    log.warning("%s: %s", store.paths.root, text)
    return (text,)


def _keep_history(store: Store, history: Sequence[str], ids: Sequence[int]) -> tuple[str, ...]:
    """Write what the snapshots did to the history; the problems where there is no space, which stops no
    expiry."""
    if not history:
        return ()
    try:
        compaction_history.keep(store, history, ids[0], ids[-1])
    except Unavailable as e:
        if not e.no_space:
            raise
        text = f"no space left to keep what snapshots {ranged(ids)} did (tablestore/history)"
        log.warning("%s: %s: %s", store.paths.root, text, e)
        return (text,)
    return ()


def remove(
    store: Store, gone: Files, removed: Callable[[int], bool], progress: ProgressCallback | None = None
) -> Files:
    """Delete files that nothing names any more, and, if an option asks for it, directories left empty; which
    files these were. Those that a tag or branch needs that was made meanwhile of a `removed` snapshot stay.

    The snapshots that named them are gone, so errors do not undo it: files that cannot be deleted are logged
    and stay for `remove_orphans`; after `_MAX_FAILURES` all that remain do.
    """
    if not gone.paths:
        return gone
    try:
        gone = reachable.looked_at(store, lambda: reachable.unpinned(store, gone, removed))
    except (TablestoreError, OSError) as e:
        log.warning(
            "files of %s stay for remove_orphans(), since refs cannot be read: %s", store.paths.root, e
        )
        return Files()
    _delete(store, gone, progress)
    return gone


def _delete(store: Store, gone: Files, progress: ProgressCallback | None) -> None:
    paths, failures = gone.paths, 0
    reported = Progress(store.env, "expiry", len(paths), progress)
    with deletes(store.io) as delete:
        for path in paths:
            try:
                delete(path)
            except Unavailable as e:
                failures += 1
                log.warning("not deleted, remove_orphans() finds it: %s", e)
                if failures == _MAX_FAILURES:
                    return
            reported.add(1, path.rpartition("/")[2])
    if not store.options.clean_empty_directories:
        return
    depth = len(store.schema.partition_keys)
    folders = {path.rpartition("/")[0] for path in gone.data}
    try:
        for _ in range(depth + 1):
            folders = {f.rpartition("/")[0] for f in sorted(folders) if store.io.delete_empty(f)}
    except Unavailable as e:
        log.warning("empty directories of %s stay: %s", store.paths.root, e)


def _log(store: Store, what: str, ids: Sequence[int], gone: Files) -> None:
    log.info(
        "expired %s %s %s: %d files, %d bytes",
        store.paths.root,
        what,
        ranged(ids),
        len(gone.data) + len(gone.metadata),
        gone.bytes,
    )
