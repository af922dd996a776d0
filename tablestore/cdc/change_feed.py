"""A table's changelog cut into offsets and pieces, for streams.

Offset = `{"v": 1, "tables": {path: snapshot}, "marks": {path: mark}}`: everything up to that snapshot has
been delivered; its mark tells it from another one that gets its id after a rollback. Two values stand for
starts that are fixed only when the first batch is planned, because Spark asks for the first offset more than
once: FULL (all rows of the then newest snapshot, as +I) and LATEST (only what comes later). A `Piece` is what
one task reads: a split of the full read, or the changes of one snapshot. Where commits hold upserts only,
changes are looked up in the snapshot before (`read/changes/looked_up.py`): pieces are functions of snapshots,
which never change, so a batch that is planned or read again is the same one, and no state has to survive with
the checkpoint. Picklable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tablestore.cdc.phase import FULL_PHASE, PHASE
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format import rowkind
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.io.paths import location
from tablestore.meta import consumers
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import Place, with_level_0
from tablestore.read.changes.cursor import mark_of, was_rolled_back
from tablestore.read.changes.first_state import first_state, first_store
from tablestore.read.changes.incremental import changed_entries, snapshot_changes, snapshots_between
from tablestore.read.changes.looked_up import looked_up_changes, moves, require_looked_up, touched
from tablestore.read.changes.streamable import is_upsert_stream, last_streamable, require_streamable
from tablestore.read.changes.tracked import require_tracked
from tablestore.read.scan.data_split import DataSplit
from tablestore.table.lake import open_table
from tablestore.table.table import Table

VERSION = 1
FULL, LATEST = -1, -2
_STARTS = {"latest-full": FULL, "latest": LATEST}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of some splits of one snapshot (all +I), or, without splits, the changes of that snapshot.

    `added`: the snapshot is of a full load that wrote no changelog, so its new rows are its changes.
    `places`: what changed in these buckets, looked up in the snapshot before; None: as it was written.
    """

    snapshot: int
    splits: tuple[DataSplit, ...] = ()
    added: bool = False
    places: tuple[Place, ...] | None = None

    def read(
        self,
        path: str,
        columns: Sequence[str],
        where: Predicate | None = None,
        *,
        roots: Sequence[str] = (),
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Batches of `columns` with their row kinds (int8)."""
        yield from self.changes(open_table(path, roots=roots), columns, where)

    def changes(
        self, table: Table, columns: Sequence[str], where: Predicate | None = None
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """The same, of a table that is open."""
        if self.splits:
            store = first_store(table.store) if self.places is None else with_level_0(table.store)
            for split in self.splits:
                for batch in split.read(store, columns, where):
                    yield batch, pa.array(np.zeros(batch.num_rows, np.int8))
            return
        store = _without_producer(table) if self.added else table.store
        snapshot = store.snapshots.get(self.snapshot)
        if self.places is None:
            changes = snapshot_changes(store, snapshot, columns, where)
        else:
            changes = looked_up_changes(store, snapshot, columns, self.places, where=where)
        for batch in changes:
            yield batch.remove_column(0), rowkind.parse(batch.column(0))


@dataclass(frozen=True)
class ChangeFeed:
    """One table's changes from `start` (latest-full, latest, or the id of the first snapshot whose changes
    are wanted).

    `normalize` (None: where the table has upserts only, unless `scan.remove-normalize`): changes with what
    was before; for any merge engine. A `consumer` (by default that of `consumer-id`) keeps the snapshots that
    are still to be read. `full`: the snapshot whose rows latest-full begins with (None: the newest). With a
    `store` the table is read through it, under its schema and options; else `path` is opened each time.
    """

    path: str
    start: str = "latest-full"
    normalize: bool | None = None
    consumer: str | None = None
    roots: tuple[str, ...] = ()
    full: int | None = None
    store: Store | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", location(self.path))
        if self.start not in _STARTS and not self.start.isdigit():
            raise InvalidRequest(f"start {self.start!r} must be latest-full, latest or a snapshot id")

    @property
    def table(self) -> Table:
        """The table. Raises NotFound where it is gone."""
        if self.store is None:
            return open_table(self.path, roots=self.roots)
        self.store.require_same()
        return Table(self.store, self.path)

    def initial(self) -> dict[str, Any]:
        """The offset before the first batch."""
        return self._offset(_STARTS.get(self.start, int(self.start) - 1 if self.start.isdigit() else 0))

    def latest(self) -> int:
        """The newest snapshot that streams may deliver, 0 if there is none: as old as
        `streaming.read.snapshot.delay`, and before the first that passes `scan.bounded.watermark`. Raises
        Unsupported for a table without streams."""
        store = self.table.store
        if not self._normalizes(store):
            require_streamable(store)
        if not self.normalize:
            require_tracked(store)
        return last_streamable(store)

    def newest(self) -> dict[str, Any]:
        """The offset at which all has been delivered."""
        return self._offset(self.latest())

    def _normalizes(self, store: Store) -> bool:
        if self.normalize is None:
            return is_upsert_stream(store) and not store.options.remove_normalize
        if self.normalize:
            require_looked_up(store)
        return self.normalize

    @property
    def looks_up(self) -> bool:
        """Whether what was before a change is looked up."""
        return self._normalizes(self.table.store)

    def done(self, end: dict[str, Any]) -> None:
        """Note with the consumer that everything up to `end` was delivered."""
        self._keep(self.snapshot(end))

    def _keep(self, snapshot: int) -> None:
        """Let the consumer go on after a snapshot, and keep it and later ones from expiring where changes
        are looked up: it has the rows before the next one, whose changes then come once more."""
        if snapshot <= 0:
            return
        store = self.table.store
        consumer = self.consumer or store.options.consumer_id
        if consumer is not None:
            consumers.record(store, consumer, snapshot if self._normalizes(store) else snapshot + 1)

    def next(self, start: dict[str, Any], *, limit: int | None, target: int | None = None) -> dict[str, Any]:
        """The offset at which a batch from `start` may end: the newest snapshot (not past `target`), at most
        `limit` snapshots after `start`.
        """
        here, newest = self.snapshot(start), self.latest()
        self._require_not_rolled_back(start, here)
        if target is not None:
            newest = min(newest, target)
        if here == LATEST:
            return self._offset(newest)
        if here == FULL and self.full is not None:
            newest = min(newest, self.full)
        if newest <= max(here, 0):
            return start
        if limit is not None and here >= 0:
            newest = min(newest, here + limit)
        return self._offset(newest)

    def pieces(self, start: dict[str, Any], end: dict[str, Any]) -> list[Piece]:
        """The pieces between two offsets, one for each task. Raises NotFound when a snapshot has expired."""
        here, there = self.snapshot(start), self.snapshot(end)
        self._keep(here if here >= 0 else there)  # Spark plans from where the batch before is done
        if here == LATEST or there <= here:
            return []
        table = self.table
        store = table.store
        if here == FULL:
            look_up = self._normalizes(store)
            names, target = store.schema.shown.names, store.options.split_target_bytes
            found = first_state(store, store.snapshots.get(there), columns=names, look_up=look_up)
            return [
                Piece(there, some, places=() if look_up else None) for some in packed(found.splits, target)
            ]
        try:
            between = list(snapshots_between(store, here, there))
        except NotFound as e:
            raise NotFound(f"{e}; start the stream again with latest-full") from e
        if self._normalizes(store):
            return [piece for s in between for piece in _looked_up(store, s)]
        added = _without_producer(table)
        pieces = []
        for s in between:
            if changed_entries(store, s):
                pieces.append(Piece(s.id))
            elif (s.properties or {}).get(PHASE) == FULL_PHASE and changed_entries(added, s):
                pieces.append(Piece(s.id, added=True))
        return pieces

    def snapshot(self, offset: dict[str, Any]) -> int:
        """The snapshot of an offset; raises InvalidRequest for one of another version or table."""
        if offset.get("v") != VERSION or self.path not in offset.get("tables", {}):
            raise InvalidRequest(f"{offset} is no offset of {self.path}")
        return int(offset["tables"][self.path])

    def _offset(self, snapshot: int) -> dict[str, Any]:
        """The offset behind a snapshot, with the mark of that snapshot where it is there."""
        found = {"v": VERSION, "tables": {self.path: snapshot}}
        if snapshot <= 0 or self.start == str(snapshot + 1):  # the first offset never changes
            return found
        try:
            return {**found, "marks": {self.path: mark_of(self.table.store.snapshots.get(snapshot))}}
        except NotFound:
            return found

    def _require_not_rolled_back(self, offset: dict[str, Any], snapshot: int) -> None:
        """Raise NotFound if the snapshot of an offset is not the one that was delivered."""
        mark = offset.get("marks", {}).get(self.path)
        if was_rolled_back(self.table.store.snapshots, snapshot, mark):
            raise NotFound(
                f"snapshot {snapshot} of {self.path}, which this stream had delivered, was rolled back; "
                "start the stream again with latest-full"
            )


def _looked_up(store: Store, snapshot: Snapshot) -> list[Piece]:
    """The buckets that a snapshot changed, in pieces of similar size; in one piece where rows may move
    between them."""
    files = touched(store, snapshot)
    if moves(store):
        return [Piece(snapshot.id, places=tuple(files))] if files else []
    sizes = [sum(e.file.file_size for e in some) for some in files.values()]
    groups = grouped(list(files), sizes, store.options.split_target_bytes)
    return [Piece(snapshot.id, places=some) for some in groups]


def _without_producer(table: Table) -> Store:
    """The table as one whose changes are the rows that commits added."""
    return table.with_options({"changelog-producer": "none"}).store


def packed(splits: Sequence[DataSplit], target_bytes: int) -> list[tuple[DataSplit, ...]]:
    """The splits in groups of similar size."""
    return grouped(splits, [s.size for s in splits], target_bytes)


def grouped(things: Sequence[T], sizes: Sequence[int], target_bytes: int) -> list[tuple[T, ...]]:
    """The things in groups of up to `target_bytes`, so that a task is worth its start; at least two groups if
    there are two things.
    """
    share = min(target_bytes, max(1, sum(sizes) // 2))
    groups: list[list[T]] = []
    weight = share
    for thing, size in zip(things, sizes, strict=True):
        if weight >= share:
            groups.append([])
            weight = 0
        groups[-1].append(thing)
        weight += size
    return [tuple(g) for g in groups]
