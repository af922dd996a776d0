"""Which snapshot added a file of level 0, found by walking back over deltas.

What was found is remembered, also that nothing is left that could tell. Not thread-safe. Used by `Inspect`.
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
        self._came: dict[str, int | None] = {}  # by name of a level-0 file

    def of(self, snapshot: Snapshot | None, names: set[str]) -> dict[str, int]:
        """The snapshot that added each of these files, up to `snapshot`; those that have expired are left
        out."""
        at, wanted = snapshot, names - self._came.keys()
        while at is not None and wanted:
            added = {e.file.file_name for e in self._store.manifests.delta_entries(at) if e.kind == ADD}
            self._came |= dict.fromkeys(added & wanted, at.id)
            wanted -= added
            try:
                at = self._store.snapshots.get(at.id - 1) if at.id > 1 else None
            except NotFound:  # expired
                at = None
        self._came |= dict.fromkeys(wanted)
        return {name: came for name in names if (came := self._came[name]) is not None}
