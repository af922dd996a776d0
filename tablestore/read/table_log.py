"""The log of a table: opened as its options say, wherever it is, and as its readers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tablestore import doors
from tablestore.core.errors import Corrupt
from tablestore.core.options.log_store import LogSystem
from tablestore.format import rowkind
from tablestore.format.schema import TableSchema
from tablestore.format.snapshot import Snapshot
from tablestore.log import offsets, transaction_id
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import Log, LogBounds
from tablestore.log.offsets import Offsets
from tablestore.log.settings import LogSettings
from tablestore.meta import consumers, positions
from tablestore.meta.refs import MAIN
from tablestore.meta.store import Store


@dataclass(frozen=True, slots=True)
class VisibleOffsets:
    """Offsets per bucket: where a log starts, up to where rows are seen, and up to where the log has them. If
    that is less, files of the log are missing whose rows the files of the table have."""

    start: Offsets
    end: Offsets
    has: Offsets


@dataclass(frozen=True)
class TableLog:
    """A log with what readers must know of it. `schema`: whose columns its rows have; `committed_only`: rows
    are seen once a snapshot names them; `upserts`: it holds what rows are, not what they were before;
    `loses_buckets`: those of a partition are gone from it when that is dropped. Safe to share between
    threads."""

    log: Log
    schema: TableSchema
    committed_only: bool
    upserts: bool
    loses_buckets: bool = False

    def end(self, store: Store, snapshot: Snapshot | None) -> dict[int, int]:
        """The offsets up to which rows are seen while `snapshot` is the newest. Raises Corrupt where rows may
        be missing that are seen before their commit."""
        if self.committed_only:
            return offsets_at(store, snapshot)
        if isinstance(self.log, EmbeddedLog):
            problem = lack_of(store, self.log, snapshot)
            if problem is not None:
                raise problem
        end = readable_bounds(store, self.log, snapshot).end
        return {**self._lost(store, snapshot, end), **end}

    def bounds(
        self, store: Store, snapshot: Snapshot | None, *, delivered: Offsets | None = None
    ) -> VisibleOffsets:
        """Where the log starts, up to where rows are seen while `snapshot` is the newest, and up to where the
        log has them. Raises Corrupt where it is not the log of the table.

        A bucket that the log has lost starts and ends where the files end: what they have is read from them,
        and nothing follows. Rows of it that were `delivered` before lie before its end, too.
        """
        readable = readable_bounds(store, self.log, snapshot)
        lost = self._lost(store, snapshot, readable.end)
        before = delivered or {} if self.loses_buckets else {}
        over = furthest(lost, {b: offset for b, offset in before.items() if b not in readable.end})
        visible = self.visible(store, snapshot, {**over, **readable.end})
        return VisibleOffsets({**lost, **readable.start}, visible, {**over, **readable.last})

    def there(self, offsets: Offsets) -> Offsets:
        """The offsets of the buckets that the log still has: of others nothing follows any more."""
        if not self.loses_buckets:
            return offsets
        end = self.log.bounds().end
        return {b: offset for b, offset in offsets.items() if b in end}

    def _lost(self, store: Store, snapshot: Snapshot | None, there: Offsets) -> dict[int, int]:
        """Up to where the files of a snapshot have the rows of buckets that are not `there` any more."""
        if not self.loses_buckets:
            return {}
        return {b: offset for b, offset in offsets_at(store, snapshot).items() if b not in there}

    def visible(self, store: Store, snapshot: Snapshot | None, end: Offsets) -> Offsets:
        """Of rows up to `end`, the offsets up to which they are seen while `snapshot` is the newest; rows
        that it has in files are seen whatever the log has."""
        if self.committed_only:
            return offsets_at(store, snapshot)
        return furthest(end, offsets_at(store, snapshot)) if isinstance(self.log, EmbeddedLog) else end

    def end_at(self, store: Store, snapshot: Snapshot | None, millis: int) -> dict[int, int]:
        """The offsets up to which rows were seen at a moment at which `snapshot` was the newest; never before
        those of that snapshot."""
        in_files = offsets_at(store, snapshot)
        return in_files if self.committed_only else furthest(in_files, self.log.at(millis + 1))


def offsets_at(store: Store, snapshot: Snapshot | None) -> dict[int, int]:
    """The offsets of the log at a snapshot: rows below them are in its files."""
    return offsets.known(snapshot, store.snapshots.get)


def furthest(some: Offsets, others: Offsets) -> dict[int, int]:
    """The larger offset of each bucket."""
    return {b: max(some.get(b, 0), others.get(b, 0)) for b in sorted({*some, *others})}


def kept_for_consumers(store: Store, position: Offsets) -> dict[int, int]:
    """The offsets from which on a log keeps its rows: those up to which files have them, or where a consumer
    is farther back. A consumer inside a commit needs the rows behind the snapshot below it, too."""
    kept = dict(position)
    for name in consumers.names(store):
        place = consumers.place(store, name)
        if place is None or place.log is None:
            continue
        kept = {b: min(o, place.log.get(b, 0)) for b, o in kept.items()}
        if place.inside and place.next_snapshot <= 1:  # maybe before any snapshot: from the log's start
            kept = dict.fromkeys(kept, 0)
        elif place.inside and store.snapshots.exists(place.next_snapshot):
            base = offsets_at(store, store.snapshots.get(place.next_snapshot))
            kept = {b: min(o, base.get(b, 0)) for b, o in kept.items()}
    return kept


def of_buckets(some: Mapping[int, int], bucket: int | None) -> dict[int, int]:
    """The offsets of one bucket of the table, in all partitions; of all for None."""
    return {b: o for b, o in some.items() if bucket is None or offsets.bucket_of(b) == bucket}


def removes_rows(log: Log, schema: TableSchema, start: Offsets, stop: Offsets) -> bool:
    """Whether rows of kind −U or −D are in the log between offsets."""
    batches = log.read(start, stop, schema.names[:1])
    return any(rowkind.retracts(batch.kinds.to_numpy(zero_copy_only=False)).any() for batch in batches)


def lack_of(store: Store, log: EmbeddedLog, snapshot: Snapshot | None) -> Corrupt | None:
    """What an embedded log lacks while `snapshot`, read before the log is looked at, is the newest; None if
    nothing.

    LostEnd where a loss of power took the end of the log. Raises Corrupt where files of the log are damaged,
    or are those of another log.
    """
    get = store.snapshots.get
    return log.lacks(offsets.known(snapshot, get), transaction_id.known(snapshot, get))


def readable_bounds(store: Store, log: Log, snapshot: Snapshot | None) -> LogBounds:
    """Where the log starts and ends. What it lacks of what `snapshot` names the files of the table have.

    Raises LogMismatch where it is not the log that a snapshot was made from, Corrupt where that cannot be
    read, files are missing whose rows no snapshot has, or a topic of Kafka ends before the snapshot: rows
    that are written there would not be seen."""
    get = store.snapshots.get
    if isinstance(log, EmbeddedLog):
        last = transaction_id.known(snapshot, get)
        log.require_end(last)
        log.require_same(last)
    bounds = log.bounds()
    if isinstance(log, KafkaLog):
        log.require_end(offsets.known(snapshot, get), bounds)
    return bounds


def log_of(store: Store) -> Log | None:
    """The table's log; None without one."""
    settings = settings_of(store)
    if settings is None:
        return None
    if settings.system is LogSystem.FLUSS:
        return doors.fluss_log(settings, table_id=lambda: positions.table_id(store.snapshots), env=store.env)
    return embedded_log_of(store) or KafkaLog(settings, store.io, store.env)


def settings_of(store: Store) -> LogSettings | None:
    """What the options say of the table's log; None without one. Branches have none."""
    if store.paths.branch != MAIN:
        return None
    return LogSettings.of(store.schema, store.options, root=store.paths.root, durable=store.durable)


def embedded_log_of(store: Store) -> EmbeddedLog | None:
    """The table's log if it is embedded; else None."""
    settings, schemas = settings_of(store), store.schemas
    if settings is None or settings.system is not LogSystem.EMBEDDED:
        return None
    return EmbeddedLog(store.io, settings, schemas=lambda id: schemas.get(id).shown, env=store.env)
