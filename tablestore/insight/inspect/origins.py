"""Which snapshot added a file of level 0, found by walking back over deltas.

Answers are remembered, also that a file's snapshot has expired. Not thread-safe. Used by `Inspect`.
"""

from __future__ import annotations

from tablestore.core.errors import NotFound
from tablestore.format.manifests.manifest import ADD
from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store


class Origins:
    """The snapshots that files came with."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots: dict[str, int | None] = {}  # by name of a level-0 file

    def of(self, snapshot: Snapshot | None, names: set[str], *, back: int | None = None) -> dict[str, int]:
        """The snapshot that added each of these files, up to `snapshot`; those that have expired are left
        out, and with `back` those that lie more snapshots back and are not known yet."""
        at, wanted = snapshot, names - self._snapshots.keys()
        oldest = 0 if back is None or snapshot is None else snapshot.id - back
        while at is not None and wanted and at.id > oldest:
            added = {e.file.file_name for e in self._store.manifests.delta_entries(at) if e.kind == ADD}
            self._snapshots |= dict.fromkeys(added & wanted, at.id)
            wanted -= added
            try:
                at = self._store.snapshots.get(at.id - 1) if at.id > 1 else None
            except NotFound:  # expired
                at = None
        if at is None:  # looked through all
            self._snapshots |= dict.fromkeys(wanted)
        return {name: found for name in names if (found := self._snapshots.get(name)) is not None}
