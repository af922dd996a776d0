"""Snapshots that took the id of an older one after it had expired, and whose commit was killed before it
could look (`write/commit/committer.py`).

Nobody was promised their rows, and what they were made from is partly gone. They stand below EARLIEST, behind
a gap (FORMAT.md 7.2). Expiry removes them; the files that only they name are orphans then.
"""

from __future__ import annotations

from tablestore.core.errors import Corrupt
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
    coming = {kept.id: kept for history in refs.pinned(store) for kept in history}
    return [i for i in below if not _same(store, i, coming.get(i))]


def _same(store: Store, snapshot_id: int, kept: Snapshot | None) -> bool:
    """Whether the snapshot of that id is `kept`; also where it is gone, or damaged and left to `mend`."""
    try:
        snapshot = store.snapshots.find(snapshot_id)
    except Corrupt:
        return True
    return snapshot is None or snapshot == kept
