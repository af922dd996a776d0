"""Long-lived changelogs: copies of expired snapshots in `changelog/`, so that their changes outlive them.

`changelog/changelog-<n>` is the JSON of snapshot n; the directory has hints of its own (FORMAT.md 20.4).
Streams read them for ids before the oldest snapshot. Written by expiry, removed by expiry of changelogs and
by rollback.
"""

from __future__ import annotations

import logging
import re

from tablestore.core.errors import Corrupt, NotFound, Unavailable
from tablestore.format import snapshot as snapshot_format
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import join
from tablestore.meta.store import Store

log = logging.getLogger(__name__)
_FILE = re.compile(r"changelog-(\d+)")


def ids(store: Store) -> list[int]:
    """Ids of all long-lived changelogs, ascending."""
    names = (_FILE.fullmatch(s.name) for s in store.io.list(store.paths.changelog_dir))
    return sorted(int(m[1]) for m in names if m)


def get(store: Store, snapshot_id: int) -> Snapshot:
    """One long-lived changelog; raises NotFound, or Corrupt for a damaged file."""
    path = store.paths.changelog(snapshot_id)
    try:
        changelog = snapshot_format.from_json(store.io.read(path), path)
        snapshot_format.require_own(changelog, store.uuid, path)
    except FileNotFoundError:
        raise NotFound(f"no long-lived changelog {snapshot_id}") from None
    if changelog.id != snapshot_id:
        raise Corrupt(path, f"holds id {changelog.id}")
    return changelog


def all_of(store: Store) -> list[Snapshot]:
    """Every long-lived changelog, ascending; one that expires meanwhile is left out."""
    changelogs = []
    for snapshot_id in ids(store):
        try:
            changelogs.append(get(store, snapshot_id))
        except NotFound:
            continue
    return changelogs


def exists(store: Store, snapshot_id: int) -> bool:
    """Whether the changes of that snapshot can be read, from a snapshot or a long-lived changelog."""
    return store.snapshots.exists(snapshot_id) or store.io.exists(store.paths.changelog(snapshot_id))


def snapshot_or_changelog(store: Store, snapshot_id: int) -> Snapshot:
    """The snapshot, or its long-lived changelog; raises NotFound naming the existing snapshots."""
    try:
        return store.snapshots.get(snapshot_id)
    except NotFound:
        try:
            return get(store, snapshot_id)
        except NotFound:
            pass
        raise


def earliest_id(store: Store) -> int | None:
    """The oldest id whose changes can be read, None for a table without snapshots."""
    oldest = store.snapshots.earliest_id()
    kept = ids(store)  # afterwards: snapshots that expire meanwhile are there, then
    return kept[0] if kept and (oldest is None or kept[0] < oldest) else oldest


def keep(store: Store, snapshot_id: int) -> None:
    """Copy a snapshot file into the long-lived changelogs."""
    data = store.io.read(store.paths.snapshot(snapshot_id))
    store.io.replace(store.paths.changelog(snapshot_id), data, after=store.after)


def become(store: Store, snapshot_id: int) -> bool:
    """Move a snapshot file to become the long-lived changelog, which needs no space on most file systems;
    False if the disk has not even that."""
    try:
        store.io.move(store.paths.snapshot(snapshot_id), store.paths.changelog(snapshot_id))
    except FileNotFoundError:  # another process expired it
        return True
    except FileExistsError:
        store.snapshots.delete(snapshot_id)
    except Unavailable as e:
        if not e.no_space:
            raise
        return False
    return True


def delete(store: Store, snapshot_id: int) -> None:
    """Remove one long-lived changelog's file."""
    store.io.delete(store.paths.changelog(snapshot_id))


def hint(store: Store, *, earliest: int | None = None, latest: int | None = None) -> None:
    """Write the hints in Paimon's form; −1 means: list the directory. Errors are logged, as hints are
    optional."""
    for name, value in (("EARLIEST", earliest), ("LATEST", latest)):
        try:
            if value is not None:
                store.io.replace(join(store.paths.changelog_dir, name), str(value).encode())
        except Unavailable as e:
            log.warning("hint %s of changelogs not written: %s", name, e)
