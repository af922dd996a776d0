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

    def of(self, snapshot: Snapshot | None, names: set[str]) -> dict[str, int]:
        """The snapshot that added each of these files, up to `snapshot`; those that have expired are left
        out."""
        at, wanted = snapshot, names - self._snapshots.keys()
        while at is not None and wanted:
            added = {e.file.file_name for e in self._store.manifests.delta_entries(at) if e.kind == ADD}
            self._snapshots |= dict.fromkeys(added & wanted, at.id)
            wanted -= added
            try:
                at = self._store.snapshots.get(at.id - 1) if at.id > 1 else None
            except NotFound:  # expired
                at = None
        self._snapshots |= dict.fromkeys(wanted)
        return {name: found for name in names if (found := self._snapshots[name]) is not None}
