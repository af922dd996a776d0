"""Snapshots that took the id of an older one after it had expired, and whose commit was killed before it
could look (`write/commit/committer.py`).

Nobody was promised their rows, and what they were made from is partly gone. They stand below EARLIEST, behind
a gap (FORMAT.md 7.2) or just below the oldest snapshot, which is not made from them. Expiry removes them; the
files that only they name are orphans then, or those of a commit that tries again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tablestore.core.errors import Corrupt, FileMissing
from tablestore.format.manifests.manifest import ADD, ManifestFileMeta
from tablestore.format.snapshot import Snapshot
from tablestore.meta import refs
from tablestore.meta.store import Store


def reused_ids(store: Store, earliest: int) -> list[int]:
    """Ids of such snapshots below the oldest one, `earliest`, ascending; one listing where there are none.

    A rollback or `fast_forward` puts the snapshot of a tag or branch there, before it removes the others and
    writes EARLIEST: those do not count.
    """
    below = [i for i in store.snapshots.ids() if i < earliest]
    if not below or earliest - 1 in below:
        return []
    coming = _coming(store)
    return [i for i in below if not _same(store, i, coming.get(i))]


def is_reused(store: Store, oldest: int) -> bool:
    """Whether the oldest snapshot is such a one although the next id is taken, too. Reads the manifests of
    both, so it is for an oldest one that EARLIEST does not name."""
    snapshot, following = store.snapshots.find(oldest), store.snapshots.find(oldest + 1)
    if snapshot is None or following is None or snapshot == _coming(store).get(oldest):
        return False
    try:
        return not is_made_from(store, following, store.manifests.read_list(snapshot.delta_manifest_list))
    except FileMissing:  # damage, which is not for an expiry to judge
        return False


def is_made_from(store: Store, snapshot: Snapshot, delta: Sequence[ManifestFileMeta]) -> bool:
    """Whether a snapshot has what the one before it added by the manifests of `delta`, by name or merged."""
    names = {m.file_name for m in store.manifests.manifests(snapshot)}
    if all(m.file_name in names for m in delta):
        return True
    added = (e.identity for m in delta for e in store.manifests.read_manifest(m.file_name) if e.kind == ADD)
    return {e.identity for n in names for e in store.manifests.read_manifest(n)}.issuperset(added)


def _coming(store: Store) -> dict[int, Snapshot]:
    """What a rollback or `fast_forward` may put below the oldest snapshot."""
    return {kept.id: kept for history in refs.pinned(store) for kept in history}


def _same(store: Store, snapshot_id: int, kept: Snapshot | None) -> bool:
    """Whether the snapshot of that id is `kept`; also where it is gone, or damaged and left to `mend`."""
    try:
        snapshot = store.snapshots.find(snapshot_id)
    except Corrupt:
        return True
    return snapshot is None or snapshot == kept
