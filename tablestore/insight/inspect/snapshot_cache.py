"""What is known of a table's snapshots is neither read nor made again: a refresh costs the new ones.

A snapshot's file never changes, but a rollback gives its id to another: size and time of each file in the
listing say whether it is the same. Expired snapshots are dropped. Memory: the snapshots, and one table of
rows. Not thread-safe. Used by `Inspect`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.meta.store import Store

_MANY_CHUNKS = 64


class SnapshotCache:
    """The snapshots of one table; each file is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[int, tuple[tuple[int, int], Snapshot]] = {}

    def all(self) -> list[Snapshot]:
        """Every snapshot, ascending, as they were at one moment: where some expire meanwhile it is looked
        again."""
        gone, read = set[int](), dict(self._read)
        while True:
            stamps = {i: stamp for i, stamp in self._store.snapshots.stamps().items() if i not in gone}
            for snapshot_id, stamp in stamps.items():
                cached = read.get(snapshot_id)
                if cached is None or cached[0] != stamp:
                    try:
                        read[snapshot_id] = stamp, self._store.snapshots.get(snapshot_id)
                    except NotFound:
                        gone.add(snapshot_id)
                        break
            else:
                self._read = {i: read[i] for i in stamps}
                return [snapshot for _, snapshot in self._read.values()]


class SnapshotRows:
    """A table with rows of snapshots by `snapshot_id`, oldest first; rows are made of new snapshots alone."""

    def __init__(self, make: Callable[[Sequence[Snapshot]], pa.Table]) -> None:
        self._make = make
        self._kept: tuple[list[Snapshot], pa.Table] | None = None

    def of(self, snapshots: list[Snapshot]) -> pa.Table:
        """The rows of these snapshots, ascending."""
        kept, rows = self._kept or ([], None)
        first = snapshots[0].id if snapshots else 0
        there = [s for s in kept if s.id >= first]
        if rows is None or not there or snapshots[: len(there)] != there:
            rows = self._make(snapshots)
        else:
            if len(there) < len(kept):
                rows = rows.filter(pc.greater_equal(rows["snapshot_id"], first))
            if len(snapshots) > len(there):
                rows = pa.concat_tables([rows, self._make(snapshots[len(there) :])])
            if rows.column(0).num_chunks > _MANY_CHUNKS:
                rows = rows.combine_chunks()
        self._kept = (list(snapshots), rows)
        return rows
