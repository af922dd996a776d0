"""A table's changelog cut into offsets and pieces, for Spark streams.

Offset = `{"v": 1, "tables": {path: snapshot}}`: everything up to that snapshot has been handed on. Two
values stand for starts that are fixed only when the first batch is planned, because Spark asks for the
first offset more than once: FULL (all rows of the then newest snapshot, as +I) and LATEST (only what comes
later). A `Piece` is what one task reads: a split of the full read, or the changes of one snapshot.
Picklable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.errors import InvalidRequest, NotFound
from tablestore.format import rowkind
from tablestore.format.predicates.predicate import Predicate
from tablestore.io.paths import location
from tablestore.meta.store import Store
from tablestore.read.incremental import changed_entries, snapshot_changes, snapshots_between
from tablestore.read.planning.split import DataSplit
from tablestore.read.split_read import read_split
from tablestore.read.stream import require_streamable
from tablestore.spark.ingest import FULL_PHASE, PHASE
from tablestore.table.catalog import open_table
from tablestore.table.table import Table

VERSION = 1
FULL, LATEST = -1, -2
_STARTS = {"latest-full": FULL, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of some splits of one snapshot (all +I), or, without splits, the changes of that snapshot.

    `added`: the snapshot is of a full load that wrote no changelog, so its new rows are its changes.
    """

    snapshot: int
    splits: tuple[DataSplit, ...] = ()
    added: bool = False

    def read(
        self, path: str, columns: Sequence[str], where: Predicate | None = None
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Batches of `columns` with their row kinds (int8)."""
        table = open_table(path)
        if self.splits:
            then = table.at(snapshot=self.snapshot).scan().store
            for split in self.splits:
                for batch in read_split(then, split, columns, where):
                    yield batch, pa.array(np.zeros(batch.num_rows, np.int8))
            return
        store = _without_producer(table) if self.added else table.store
        for batch in snapshot_changes(store, store.snapshots.get(self.snapshot), columns, where):
            yield batch.remove_column(0), rowkind.parse(batch.column(0))


@dataclass(frozen=True)
class ChangeFeed:
    """One table's changes from `start` (latest-full, latest, or the id of the first snapshot whose changes
    are wanted).
    """

    path: str
    start: str = "latest-full"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", location(self.path))
        if self.start not in _STARTS and not self.start.isdigit():
            raise InvalidRequest(f"start {self.start!r} must be latest-full, latest or a snapshot id")

    def initial(self) -> dict[str, Any]:
        """The offset before the first batch."""
        return self._offset(_STARTS.get(self.start, int(self.start) - 1 if self.start.isdigit() else 0))

    def latest(self) -> int:
        """The newest snapshot, 0 if there is none. Raises Unsupported for a table that tells no changes."""
        store = open_table(self.path).store
        require_streamable(store)
        return store.snapshots.latest_id() or 0

    def next(self, start: dict[str, Any], *, limit: int | None, target: int | None = None) -> dict[str, Any]:
        """Where a batch from `start` may end: the newest snapshot (not past `target`), at most `limit`
        snapshots on.
        """
        here, newest = self.snapshot(start), self.latest()
        if target is not None:
            newest = min(newest, target)
        if here == LATEST:
            return self._offset(newest)
        if newest <= max(here, 0):
            return start
        if limit is not None and here >= 0:
            newest = min(newest, here + limit)
        return self._offset(newest)

    def pieces(self, start: dict[str, Any], end: dict[str, Any]) -> list[Piece]:
        """What lies between two offsets, one piece for each task. Raises NotFound when a snapshot has
        expired.
        """
        here, there = self.snapshot(start), self.snapshot(end)
        if here == LATEST or there <= here:
            return []
        table = open_table(self.path)
        if here == FULL:
            splits = table.at(snapshot=there).scan().plan().splits
            return [Piece(there, some) for some in packed(splits, table.store.options.split_target_bytes)]
        try:
            between = list(snapshots_between(table.store, here, there))
        except NotFound as e:
            raise NotFound(f"{e}; start the stream again with latest-full") from e
        added = _without_producer(table)
        pieces = []
        for s in between:
            if changed_entries(table.store, s):
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
        return {"v": VERSION, "tables": {self.path: snapshot}}


def _without_producer(table: Table) -> Store:
    """The table as one whose changes are the rows that commits added."""
    return table.with_options({"changelog-producer": "none"}).store


def packed(splits: Sequence[DataSplit], target_bytes: int) -> list[tuple[DataSplit, ...]]:
    """Small splits put together up to `target_bytes`, so that a task is worth its start; at least two
    groups if there are two splits.
    """
    share = min(target_bytes, max(1, sum(s.size for s in splits) // 2))
    groups: list[list[DataSplit]] = []
    weight = share
    for split in splits:
        if weight >= share:
            groups.append([])
            weight = 0
        groups[-1].append(split)
        weight += split.size
    return [tuple(g) for g in groups]
