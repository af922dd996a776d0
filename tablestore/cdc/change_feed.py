"""A table's changelog cut into offsets and pieces, for streams.

Offset = `{"v": 1, "tables": {path: snapshot}, "marks": {path: mark}}`: everything up to that snapshot has
been delivered; its mark tells it from another one that gets its id after a rollback. Of a table with a log
also `"logs": {path: {bucket: offset}}`: rows of the log up to there have been delivered, too. Two values
stand for starts that are fixed only when the first batch is planned, because Spark asks for the first offset
more than once: FULL (all rows of the then newest snapshot, as +I) and LATEST (only what comes later). A
`SnapshotPiece` is what one task reads: a split of the full read, or the changes of one snapshot; a `LogPiece`
a part of the log. Where commits hold upserts only, changes are looked up in the snapshot before
(`read/changes/looked_up.py`): pieces are functions of snapshots and offsets, which never change, so a batch
that is planned or read again is the same one, and no state has to survive with the checkpoint. Picklable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tablestore.cdc.log_pieces import LogPiece, pieces_of
from tablestore.cdc.phase import FULL_PHASE, PHASE
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format import rowkind
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import OVERWRITE, Snapshot
from tablestore.io.paths import location
from tablestore.log.offsets import Offsets, reaches
from tablestore.meta import consumers
from tablestore.meta.store import Store
from tablestore.read.changes.changed_keys import Place, with_level_0
from tablestore.read.changes.first_state import first_state, first_store
from tablestore.read.changes.incremental import (
    changed_entries,
    moves,
    snapshot_changes,
    snapshots_between,
)
from tablestore.read.changes.log_start import files_alone
from tablestore.read.changes.looked_up import looked_up_changes, require_looked_up, touched
from tablestore.read.changes.overwritten import (
    leave_out,
    option_of,
    overwrites,
    streams_overwrite,
    warn_of_left_out,
)
from tablestore.read.changes.stream_start import mark_of, was_rolled_back
from tablestore.read.changes.streamable import (
    is_upsert_stream,
    last_streamable,
    require_streamable,
    require_tracked,
)
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.table_log import TableLog, furthest, offsets_at
from tablestore.table.lake import open_table
from tablestore.table.log_of import table_log
from tablestore.table.table import Table

VERSION = 1
FULL, LATEST = -1, -2
_STARTS = {"latest-full": FULL, "latest": LATEST}
_AGAIN = "start the stream again with latest-full"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SnapshotPiece:
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
class _Opened:
    """The table as one call sees it, and its log where the stream reads that."""

    table: Table
    log: TableLog | None

    @property
    def store(self) -> Store:
        return self.table.store


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

    def _open(self) -> _Opened:
        table = self.table
        log = table_log(table.store)
        as_written = self.normalize is False
        if log is not None and files_alone(table.store, as_written=as_written, look_up=False):
            log = None
        return _Opened(table, log)

    def initial(self) -> dict[str, Any]:
        """The offset before the first batch."""
        return self._bare(_STARTS.get(self.start, int(self.start) - 1 if self.start.isdigit() else 0))

    def latest(self) -> int:
        """The newest snapshot that streams may deliver, 0 if there is none: as old as
        `streaming.read.snapshot.delay`, and before the first that passes `scan.bounded.watermark`. Raises
        Unsupported for a table without streams."""
        return self._latest(self._open())

    def _latest(self, opened: _Opened) -> int:
        store = opened.store
        if not self._normalizes(opened):
            require_streamable(store)
        if not self.normalize:
            require_tracked(store)
        return last_streamable(store)

    def newest(self) -> dict[str, Any]:
        """The offset at which all has been delivered."""
        opened = self._open()
        store, log, newest = opened.store, opened.log, self._latest(opened)
        end = None if log is None else log.end(store, self._known(store, newest))
        return self._offset(store, newest, end)

    def _known(self, store: Store, newest: int) -> Snapshot | None:
        return store.snapshots.get(newest) if newest else None

    def _normalizes(self, opened: _Opened) -> bool:
        store, log = opened.store, opened.log
        if log is not None and self.normalize is not False:
            return log.upserts and not (self.normalize is None and store.options.remove_normalize)
        if self.normalize is None:
            return is_upsert_stream(store) and not store.options.remove_normalize
        if self.normalize:
            require_looked_up(store)
        return self.normalize

    @property
    def looks_up(self) -> bool:
        """Whether what was before a change is looked up."""
        return self._normalizes(self._open())

    def done(self, end: dict[str, Any]) -> None:
        """Note with the consumer that everything up to `end` was delivered."""
        if self.snapshot(end) > 0:
            self._keep(self._open(), self.snapshot(end), self._logged(end))

    def _keep(self, opened: _Opened, snapshot: int, log: Offsets | None) -> None:
        """Let the consumer go on after a snapshot, and keep it and later ones from expiring where changes
        are looked up: it has the rows before the next one, whose changes then come once more."""
        if snapshot <= 0:
            return
        store = opened.store
        consumer = self.consumer or store.options.consumer_id
        if consumer is not None:
            looks_up = self._normalizes(opened)
            upcoming = snapshot if looks_up else snapshot + 1
            consumers.record(store, consumer, upcoming, log=log, inside=looks_up and log is not None)

    def next(
        self, start: dict[str, Any], *, limit: int | None, target: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The offset at which a batch from `start` may end: the newest snapshot, or the visible end of the
        log (not past `target`), at most `limit` snapshots after `start`.
        """
        opened = self._open()
        here, newest, store = self.snapshot(start), self._latest(opened), opened.store
        if target is not None:
            newest = min(newest, self.snapshot(target))
        if opened.log is not None:
            return self._next_of_log(store, opened.log, start, newest, limit, target)
        self._require_not_rolled_back(store, start, here)
        if here == LATEST:
            return self._offset(store, newest)
        if here == FULL and self.full is not None:
            newest = min(newest, self.full)
        if newest <= max(here, 0):
            return start
        if limit is not None and here >= 0:
            newest = min(newest, here + limit)
        return self._offset(store, newest)

    def _next_of_log(
        self,
        store: Store,
        log: TableLog,
        start: dict[str, Any],
        newest: int,
        limit: int | None,
        target: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """`next` of a table with a log: its visible end, or, where the log no longer has what comes next and
        for the state of a snapshot, what a snapshot says."""
        here = self.snapshot(start)
        if here >= 0 and self.normalize is not False and option_of(store) not in store.schema.options:
            for overwrite in overwrites(store, here, newest):
                leave_out(store, overwrite)
        if here == FULL:
            newest = min(newest, self.full or newest)
            offsets = self._offsets_of(store, newest) or {}
            seen = newest or any(log.end(store, None).values())
            return self._offset(store, newest, offsets) if seen else start
        if limit is not None and here >= 0 and log.committed_only:
            newest = min(newest, here + limit)
        bounds = log.bounds(store, self._known(store, newest))
        end = dict(bounds.end)
        until = None if target is None else self._logged(target)
        if until is not None:
            end = {bucket: min(offset, until.get(bucket, 0)) for bucket, offset in end.items()}
        if here == LATEST:
            return self._offset(store, newest, end)
        place = self._place(store, start)
        if place is None or not reaches(place, bounds.start):
            self._require_not_rolled_back(store, start, here)
            if newest <= here:
                if place is not None and newest:
                    raise NotFound(f"the log starts behind offsets {place} of {self.path}: {_AGAIN}")
                return start
            return self._offset(store, newest, furthest(place or {}, self._offsets_of(store, newest) or {}))
        if reaches(place, end):
            return start
        return self._offset(store, max(newest, here), furthest(place, end))

    def _place(self, store: Store, offset: dict[str, Any]) -> Offsets | None:
        """The place in the log of an offset; None where it is not known."""
        logged = self._logged(offset)
        return self._offsets_of(store, self.snapshot(offset)) if logged is None else logged

    def _offsets_of(self, store: Store, snapshot: int) -> dict[int, int] | None:
        """The offsets of the log at a snapshot, None where it has expired."""
        try:
            return offsets_at(store, store.snapshots.get(snapshot)) if snapshot > 0 else {}
        except NotFound:
            return None

    def _logged(self, offset: dict[str, Any]) -> dict[int, int] | None:
        offsets = offset.get("logs", {}).get(self.path)
        return None if offsets is None else {int(bucket): at for bucket, at in offsets.items()}

    def _log_pieces(
        self, opened: _Opened, log: TableLog, start: dict[str, Any], end: dict[str, Any]
    ) -> list[LogPiece] | None:
        """The pieces of the log between two offsets; None where files have to give what it no longer has.

        Raises NotFound where these do not end where the batch does.
        """
        store = opened.store
        place, stop = self._place(store, start), self._place(store, end)
        if place is not None and stop is not None:
            bounds = log.log.bounds()
            if reaches(place, bounds.start) and reaches(bounds.end, stop):
                base = self.snapshot(start) if self._normalizes(opened) else None
                return pieces_of(place, stop, base)
        offsets = self._offsets_of(store, self.snapshot(end))
        if stop is None or offsets is None or not reaches(offsets, stop):
            raise NotFound(
                f"the log of {self.path} no longer has what comes after offsets {place}, nor do files end "
                f"at {stop}: {_AGAIN}"
            )
        return None

    def pieces(self, start: dict[str, Any], end: dict[str, Any]) -> list[SnapshotPiece | LogPiece]:
        """The pieces between two offsets, one for each task. Raises NotFound when a snapshot has expired."""
        here, there = self.snapshot(start), self.snapshot(end)
        first = start if here >= 0 else end
        opened = self._open()
        self._keep(opened, self.snapshot(first), self._logged(first))  # the batch before is done
        store, log = opened.store, opened.log
        if log is not None and here >= 0:
            found_in_log = self._log_pieces(opened, log, start, end)
            if found_in_log is not None:
                for s in overwrites(store, here, there):
                    self._leave_out(store, s)
                return list(found_in_log)
        if here == LATEST or there <= max(here, 0):
            return []
        if here == FULL:
            look_up = log is not None or self._normalizes(opened)
            names, target = store.schema.shown.names, store.options.split_target_bytes
            state = first_state(store, store.snapshots.get(there), columns=names, look_up=look_up)
            return [
                SnapshotPiece(there, some, places=() if look_up else None)
                for some in packed(state.splits, target)
            ]
        try:
            between = list(snapshots_between(store, here, there))
        except NotFound as e:
            raise NotFound(f"{e}; {_AGAIN}") from e
        if self._normalizes(opened):
            return [piece for s in between for piece in self._looked_up(store, s)]
        added = _without_producer(opened.table)
        written = store.options.changelog_producer is ChangelogProducer.INPUT
        pieces: list[SnapshotPiece | LogPiece] = []
        for s in between:
            if log is not None and not written:
                pieces += [SnapshotPiece(s.id, added=True)] if changed_entries(added, s) else []
            elif changed_entries(store, s) or streams_overwrite(store, s):
                pieces.append(SnapshotPiece(s.id))
            elif (s.properties or {}).get(PHASE) == FULL_PHASE and changed_entries(added, s):
                pieces.append(SnapshotPiece(s.id, added=True))
            elif s.commit_kind == OVERWRITE:
                self._leave_out(store, s)
        return pieces

    def _looked_up(self, store: Store, snapshot: Snapshot) -> list[SnapshotPiece]:
        """The buckets that a snapshot changed, in pieces of similar size; in one piece where rows may move
        between them."""
        files = touched(store, snapshot)
        if not files and snapshot.commit_kind == OVERWRITE:
            self._leave_out(store, snapshot)
        if moves(store):
            return [SnapshotPiece(snapshot.id, places=tuple(files))] if files else []
        sizes = [sum(e.file.file_size for e in some) for some in files.values()]
        groups = grouped(list(files), sizes, store.options.split_target_bytes)
        return [SnapshotPiece(snapshot.id, places=some) for some in groups]

    def _leave_out(self, store: Store, snapshot: Snapshot) -> None:
        """Pass over an OVERWRITE: rows as they were written never add up to the table."""
        (warn_of_left_out if self.normalize is False else leave_out)(store, snapshot)

    def snapshot(self, offset: dict[str, Any]) -> int:
        """The snapshot of an offset; raises InvalidRequest for one of another version or table."""
        if offset.get("v") != VERSION or self.path not in offset.get("tables", {}):
            raise InvalidRequest(f"{offset} is no offset of {self.path}")
        return int(offset["tables"][self.path])

    def _bare(self, snapshot: int, log: Offsets | None = None) -> dict[str, Any]:
        """The offset behind a snapshot and a place in the log, without a mark."""
        offset: dict[str, Any] = {"v": VERSION, "tables": {self.path: snapshot}}
        if log is not None:
            offset["logs"] = {self.path: {str(bucket): log[bucket] for bucket in sorted(log)}}
        return offset

    def _offset(self, store: Store, snapshot: int, log: Offsets | None = None) -> dict[str, Any]:
        """The same with the mark of that snapshot where it is there."""
        offset = self._bare(snapshot, log)
        if snapshot <= 0 or self.start == str(snapshot + 1):  # the first offset never changes
            return offset
        try:
            return {**offset, "marks": {self.path: mark_of(store.snapshots.get(snapshot))}}
        except NotFound:
            return offset

    def _require_not_rolled_back(self, store: Store, offset: dict[str, Any], snapshot: int) -> None:
        """Raise NotFound if the snapshot of an offset is not the one that was delivered."""
        mark = offset.get("marks", {}).get(self.path)
        if was_rolled_back(store.snapshots, snapshot, mark):
            raise NotFound(
                f"snapshot {snapshot} of {self.path}, which this stream had delivered, was rolled back; "
                "start the stream again with latest-full"
            )


def _without_producer(table: Table) -> Store:
    """The table as one whose changes are the rows that commits added."""
    store = table.store
    return store.with_schema(store.schema.with_options({"changelog-producer": "none"}))


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
