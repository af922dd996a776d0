"""Which snapshot is known to be on the disk with all that it reads, and how another one gets there
(FORMAT.md 25.8).

The record `tablestore/synced` names a snapshot by id and content. It is written after that snapshot's files
were synced, and such files never change, so it is true as long as the snapshot is there, whatever crashes
come; the record itself need not be synced. It names its table's directory: a copy of a table starts without
one. From one such snapshot to a later one only what was added in between must be synced.

Two users. A commit that must survive a loss of power syncs all that its snapshot reads before the snapshot
has its name. Whatever removes files (expiry, rollback, the end of a tag or branch) follows one rule on every
local table: of the snapshots that stay, one is on the disk before the first file goes. Tables in object
stores need neither, as what is written there is durable.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable

from tablestore.core.errors import Corrupt, NotFound, Unavailable
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import Snapshot, to_json
from tablestore.io.fileio import Sync
from tablestore.io.paths import inside, is_object_location, join
from tablestore.meta.entries import concatenated
from tablestore.meta.store import Store
from tablestore.write.commit.changes import SnapshotChanges
from tablestore.write.retention import reachable
from tablestore.write.retention.reachable import Files

log = logging.getLogger(__name__)


def before_publishing(
    store: Store, latest: Snapshot | None, changes: SnapshotChanges, manifests: Iterable[str]
) -> Sync | None:
    """The sync that must be done before a snapshot of `changes` on top of `latest` has its name; None if none
    must. `manifests`: names of all metadata files that were written for it."""
    if not store.durable:
        return None
    paths = {store.paths.manifest(name): None for name in manifests}
    for e in (*changes.entries, *changes.changelog):
        if e.kind == ADD:
            paths |= dict.fromkeys(reachable.entry_paths(store, e))
    for i in changes.index:
        if i.kind == ADD:
            paths[store.index_path(i.partition, i.bucket, i.file)] = None
    if changes.statistics is not None:
        paths[store.paths.statistics(changes.statistics)] = None
    base = known(store, latest)
    if latest is not None and base != latest:
        paths |= dict.fromkeys(_reads(store, latest, base))
    paths |= dict.fromkeys(_schemas(store, base))
    return _sync_of(store, paths, base)


def published(store: Store, snapshot: Snapshot) -> None:
    """Record a snapshot that was published after all that it reads was synced."""
    if store.durable:
        _record(store, snapshot)


def keep_one(store: Store, first: int) -> None:
    """Ensure, before files are removed, that one of the snapshots from id `first` on is on the disk with all
    that it reads. If none is known to be, the newest is synced; raises Corrupt if a file of it is missing."""
    if is_object_location(store.paths.root):
        return
    base = known(store, None)
    if base is None or base.id < first:
        latest = store.snapshots.latest()
        if latest is not None:
            put(store, latest)


def put(store: Store, snapshot: Snapshot) -> None:
    """Sync a snapshot to the disk, with all that it reads. Raises Corrupt if a file of it is missing."""
    if is_object_location(store.paths.root):
        return
    base = known(store, snapshot)
    if base == snapshot:
        return
    paths = _reads(store, snapshot, base)
    missing = store.io.sync(_sync_of(store, (*paths, *_schemas(store, base)), base))
    lost = next((path for path in missing if paths.get(path)), None)
    if lost is not None:
        raise Corrupt(lost, f"the file is missing; snapshot {snapshot.id} needs it, so nothing was removed")
    log.debug("synced snapshot %d of %s: %d files", snapshot.id, store.paths.root, len(paths))
    _record(store, snapshot)


def sync_messages(store: Store, messages: Iterable[CommitMessage]) -> None:
    """Sync the files of messages, where they were written, before the messages go elsewhere."""
    if not store.durable:
        return
    paths: list[str] = []
    for m in messages:
        folder = store.bucket_dir(m.partition, m.bucket)
        for file in (*m.new_files, *m.changelog_files, *m.compact_after, *m.compact_changelog):
            paths.append(store.file_path(m.partition, m.bucket, file))
            paths += (join(folder, inside(name)) for name in file.extra_files)
        indexes = (*m.new_index, *m.compact_new_index)
        paths += (store.index_path(m.partition, m.bucket, index) for index in indexes)
    store.sync(*paths)


def known(store: Store, latest: Snapshot | None) -> Snapshot | None:
    """The snapshot that is recorded to be on the disk, if it is there and not later than `latest` (None:
    any)."""
    try:
        record = json.loads(store.io.read(store.paths.synced))
        snapshot_id, digest, root = record["snapshot"], record["sha256"], record["table"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    if root != store.paths.root or not isinstance(snapshot_id, int):
        return None
    if latest is not None and snapshot_id >= latest.id:
        return latest if (snapshot_id, digest) == (latest.id, _digest(latest)) else None
    try:
        recorded = store.snapshots.get(snapshot_id)
    except (NotFound, Corrupt):
        return None
    return recorded if _digest(recorded) == digest else None


def _record(store: Store, snapshot: Snapshot) -> None:
    if is_object_location(store.paths.root):
        return
    record = {"snapshot": snapshot.id, "sha256": _digest(snapshot), "table": store.paths.root}
    try:
        store.io.replace(store.paths.synced, json.dumps(record).encode())
    except Unavailable as e:
        log.warning("not recorded that snapshot %d of %s is synced: %s", snapshot.id, store.paths.root, e)


def _digest(snapshot: Snapshot) -> str:
    return hashlib.sha256(to_json(snapshot)).hexdigest()


def _reads(store: Store, snapshot: Snapshot, base: Snapshot | None) -> dict[str, bool]:
    """The files that `snapshot` reads and `base`, an earlier one, does not, each with whether the snapshot
    needs it.

    Also those that the commits in between added, as far as they are still there.
    """
    between = _between(store, snapshot, base)
    if between is None:
        entries, histories = store.manifests.live_entries(snapshot), [snapshot]
    else:
        deltas = [store.manifests.delta_entries(s) for s in between]
        entries, histories = concatenated([d.table for d in deltas]).live(), between
    files: dict[str, bool] = {}
    for e in entries:
        files |= dict.fromkeys(reachable.entry_paths(store, e), True)
    state = reachable.metadata_files(store, snapshot)
    if base is not None and between is not None:
        before = reachable.lenient({}, reachable.metadata_files, store, base)
        state = {path: size for path, size in state.items() if path not in before}
    files |= dict.fromkeys(state, True)
    for s in histories:
        changelog = reachable.lenient(Files(), reachable.changelog_files, store, s)
        files |= dict.fromkeys((*changelog.data, *changelog.metadata), False)
        files[store.paths.snapshot(s.id)] = s.id == snapshot.id
    return files


def _between(store: Store, snapshot: Snapshot, base: Snapshot | None) -> list[Snapshot] | None:
    """The snapshots after `base` up to `snapshot`; None if they are not all known."""
    if base is None:
        return None
    try:
        return [store.snapshots.get(i) for i in range(base.id + 1, snapshot.id)] + [snapshot]
    except (NotFound, Corrupt):
        return None


def _sync_of(store: Store, paths: Iterable[str], base: Snapshot | None) -> Sync:
    """The sync of the paths and the folders up to the table's; for its first snapshot also of those above
    it."""
    return Sync(store.paths.root if base is not None else "/", tuple(paths))


def _schemas(store: Store, base: Snapshot | None) -> list[str]:
    """The files of the schemas that were added since."""
    known_id = -1 if base is None else base.schema_id
    return [store.paths.schema(i) for i in store.schemas.ids() if i > known_id]
