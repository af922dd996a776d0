"""Whether a snapshot took the id of an older one that expired, or was rolled back, while its committer
paused."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tablestore.core.errors import TablestoreError
from tablestore.format.manifests.manifest import ADD, ManifestFileMeta
from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store

log = logging.getLogger(__name__)


def reuses_id(
    store: Store, snapshot: Snapshot, latest: Snapshot | None, written: Sequence[ManifestFileMeta]
) -> bool:
    """Whether `snapshot`, just published on top of `latest` with the delta `written`, does not belong to the
    table.

    Expiry removes ascending ids, so as long as `latest` is there no snapshot had the id before. Older
    snapshots without it, or another one in its place, mean that the table was rolled back behind it.
    """
    try:
        return _reuses_id(store, snapshot, latest, written)
    except TablestoreError as e:  # the snapshot is published: nothing of it may be deleted now
        log.warning("could not look whether snapshot %d was taken before: %s", snapshot.id, e)
        return False


def _reuses_id(
    store: Store, snapshot: Snapshot, latest: Snapshot | None, written: Sequence[ManifestFileMeta]
) -> bool:
    if latest is None:
        return False
    base = store.snapshots.find(latest.id)
    if base is not None:
        return base != latest
    ids = store.snapshots.ids()
    if ids and ids[0] < latest.id:
        return True
    later = [i for i in ids if i > snapshot.id]
    if not later or later[0] > snapshot.id + 1:
        return bool(later)
    names = {m.file_name for m in store.manifests.manifests(store.snapshots.get(later[0]))}
    if all(m.file_name in names for m in written):
        return False
    mine = (e.identity for m in written for e in store.manifests.read_manifest(m.file_name) if e.kind == ADD)
    theirs = {e.identity for n in names for e in store.manifests.read_manifest(n)}
    return not theirs.issuperset(mine)
