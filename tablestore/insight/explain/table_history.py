"""A table's history as events: what each snapshot did to each bucket, one value each, from delta manifests.

Starts at the oldest snapshot there is; what was live before it comes first, as BASE events. Reads the deltas
of some hundred snapshots at a time and no data file. Events are added up by `insight.inspect.amplification`,
and carried out again, as it was or under other options, by `insight.simulator`. For that they are grouped
into occasions: what one commit flushed, and how its owner was asked to compact. A writer's commit makes an
APPEND and maybe a COMPACT snapshot, which belong together; a compaction job makes a COMPACT alone. How a
commit compacted (`CompactionMode`) is found by carrying it out.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.compaction_record import CompactionRecord
from tablestore.format.manifests.manifest import ADD, DataFileMeta
from tablestore.format.snapshot import APPEND, COMPACT, OVERWRITE, Snapshot
from tablestore.meta import compaction_history
from tablestore.meta.entries import Entries
from tablestore.meta.store import Store

_Place = tuple[bytes, int]
MOST_CACHED = 20_000
"""Files of events that an `EventCache` keeps, about 1 kB each."""


@dataclass
class _Delta:
    """Files of one bucket in one snapshot, in manifest order."""

    added: list[DataFileMeta] = field(default_factory=list)
    deleted: list[DataFileMeta] = field(default_factory=list)
    changelog: list[DataFileMeta] = field(default_factory=list)


def events(
    store: Store,
    *,
    first: int | None = None,
    last: int | None = None,
    cached: Mapping[int, Snapshot] | None = None,
    cache: EventCache | None = None,
) -> Iterator[BucketEvent]:
    """What snapshots `first` (None: the oldest) to `last` (None: the newest) did, in order, by bucket.

    The first events are BASE events: files that were live before `first`. So all events together add up to
    what is live after `last`. Snapshots that are `cached` are not read again, nor are events in the `cache`.
    Raises NotFound for snapshots that have expired.
    """
    earliest, latest = store.snapshots.earliest_id(), store.snapshots.latest_id()
    if earliest is None or latest is None:
        return
    start, end = earliest if first is None else first, latest if last is None else last
    if start < earliest or end > latest:
        raise NotFound(f"the history of snapshots {start}..{end} is not there; have {earliest}..{latest}")
    if start > end:
        raise InvalidRequest(f"history goes forward: snapshot {start} comes after {end}")
    cached = cached or {}
    snapshots = (cached.get(i) or store.snapshots.get(i) for i in range(start, end + 1))
    for snapshot in store.manifests.prefetched(snapshots):
        if snapshot.id == start:
            yield from _base(store, snapshot)
        if cache is None:
            yield from _events(store, snapshot)
        else:
            yield from cache.of(store, snapshot)


class EventCache:
    """The events of snapshots of one table that were looked at before, `MOST_CACHED` files of them in all.
    Safe: of two threads that miss the same snapshot both read it."""

    def __init__(self) -> None:
        self._cached: dict[int, tuple[Snapshot, tuple[BucketEvent, ...]]] = {}
        self._files, self._lock = 0, threading.Lock()

    def of(self, store: Store, snapshot: Snapshot) -> tuple[BucketEvent, ...]:
        """What a snapshot did, bucket by bucket."""
        there = self._cached.get(snapshot.id)
        if there is not None and there[0] == snapshot:
            return there[1]
        happened = tuple(_events(store, snapshot))
        with self._lock:
            self._drop(snapshot.id)
            count = sum(event.files for event in happened)
            if self._files + count <= MOST_CACHED:
                self._files += count
                self._cached[snapshot.id] = snapshot, happened
        return happened

    def drop_before(self, first: int) -> None:
        """Forget snapshots that have expired."""
        with self._lock:
            for expired in [i for i in self._cached if i < first]:
                self._drop(expired)

    def _drop(self, snapshot: int) -> None:
        _, happened = self._cached.pop(snapshot, (None, ()))
        self._files -= sum(event.files for event in happened)


def changed_places(store: Store, snapshots: Sequence[Snapshot]) -> Iterator[tuple[int, set[tuple[str, int]]]]:
    """Each snapshot with the buckets of its events, which are not made; first those that were live before."""
    for i, snapshot in enumerate(store.manifests.prefetched(snapshots)):
        if i == 0:
            yield snapshot.id, _places(store, store.manifests.entries_before(snapshot))
        places = _places(store, store.manifests.delta_entries(snapshot))
        yield snapshot.id, places | _places(store, store.manifests.changelog_entries(snapshot))


def _places(store: Store, entries: Entries) -> set[tuple[str, int]]:
    columns = (entries.table.column(n).to_pylist() for n in ("partition", "bucket"))
    return {(store.partition_text(p), b) for p, b in set(zip(*columns, strict=True))}


def _base(store: Store, snapshot: Snapshot) -> Iterator[BucketEvent]:
    """What was live before this snapshot."""
    live = store.manifests.entries_before(snapshot)
    for (partition, bucket), delta in _by_bucket(live).items():
        yield BucketEvent(
            snapshot.id,
            snapshot.time_millis,
            BASE,
            store.partition_text(partition),
            bucket,
            after=tuple(delta.added),
            user=snapshot.commit_user,
            schema_id=snapshot.schema_id,
        )


def _events(store: Store, snapshot: Snapshot) -> Iterator[BucketEvent]:
    """What one snapshot did, bucket by bucket in the order in which its delta names them."""
    deltas = _by_bucket(store.manifests.delta_entries(snapshot))
    for entry in store.manifests.changelog_entries(snapshot):
        deltas[entry.partition, entry.bucket].changelog.append(entry.file)
    compacted = snapshot.commit_kind == COMPACT
    records = _records(store, snapshot) if compacted else {}
    for (partition, bucket), delta in deltas.items():
        text = store.partition_text(partition)
        yield BucketEvent(
            snapshot.id,
            snapshot.time_millis,
            snapshot.commit_kind,
            text,
            bucket,
            flushed=() if compacted else tuple(delta.added),
            before=tuple(delta.deleted),
            after=tuple(delta.added) if compacted else (),
            changelog=tuple(delta.changelog),
            records=tuple(records.get((text, bucket), ())),
            user=snapshot.commit_user,
            identifier=snapshot.commit_identifier,
            schema_id=snapshot.schema_id,
        )


def _records(store: Store, snapshot: Snapshot) -> dict[tuple[str, int], list[CompactionRecord]]:
    """This engine's records of a snapshot's compactions by bucket; other engines keep no rules."""
    records: dict[tuple[str, int], list[CompactionRecord]] = defaultdict(list)
    for record in compaction_history.of(store, snapshot):
        if record.rule is not None:
            records[record.partition, record.bucket].append(record)
    return records


def _by_bucket(entries: Entries) -> dict[_Place, _Delta]:
    deltas: dict[_Place, _Delta] = defaultdict(_Delta)
    for entry in entries:
        delta = deltas[entry.partition, entry.bucket]
        (delta.added if entry.kind == ADD else delta.deleted).append(entry.file)
    return deltas


BASE = "BASE"  # kind of the event that gives what was live before the first snapshot looked at


@dataclass(frozen=True, slots=True)
class BucketEvent:
    """What one snapshot did to one bucket.

    `kind` is the snapshot's, or BASE. APPEND and OVERWRITE put new files into `flushed` and what they
    replaced into `before`; COMPACT takes `before` away for `after`, a moved file being in both with its two
    levels. `records` are the picks of a COMPACT as the engine kept them, in order; none where others
    compacted.
    """

    snapshot: int
    time_ms: int
    kind: str
    partition: str
    bucket: int
    flushed: tuple[DataFileMeta, ...] = ()
    before: tuple[DataFileMeta, ...] = ()
    after: tuple[DataFileMeta, ...] = ()
    changelog: tuple[DataFileMeta, ...] = ()
    records: tuple[CompactionRecord, ...] = ()
    user: str = ""
    identifier: int = 0
    schema_id: int = 0

    @property
    def place(self) -> tuple[str, int]:
        """The bucket: partition as text, number."""
        return self.partition, self.bucket

    @property
    def files(self) -> int:
        """How many files it names."""
        return len(self.flushed) + len(self.before) + len(self.after) + len(self.changelog)

    @property
    def record(self) -> CompactionRecord | None:
        """The last of `records`, None if there are none."""
        return self.records[-1] if self.records else None

    @property
    def moved(self) -> frozenset[str]:
        """Names of the files of a compaction that only changed their level."""
        return frozenset(f.file_name for f in self.before) & frozenset(f.file_name for f in self.after)

    @property
    def rewritten(self) -> tuple[DataFileMeta, ...]:
        """Files that a compaction read and replaced."""
        moved = self.moved
        return tuple(f for f in self.before if f.file_name not in moved) if self.kind == COMPACT else ()

    @property
    def written(self) -> tuple[DataFileMeta, ...]:
        """Files that a compaction wrote, moved ones left out."""
        moved = self.moved
        return tuple(f for f in self.after if f.file_name not in moved) if self.kind == COMPACT else ()


def flushes(files: Iterable[DataFileMeta]) -> list[tuple[DataFileMeta, ...]]:
    """The new files of one commit by the flush that wrote them, oldest first: files of one flush share a span
    of sequence numbers, those of the next come after it."""
    groups: list[list[DataFileMeta]] = []
    end = None
    for file in sorted(files, key=lambda f: (f.min_sequence, f.max_sequence)):
        if end is None or file.min_sequence > end:
            groups.append([])
        groups[-1].append(file)
        end = file.max_sequence if end is None else max(end, file.max_sequence)
    return [tuple(files) for files in groups]


Place = tuple[str, int]


class CompactionMode(Enum):
    """How the writer or job of a commit compacts."""

    NEVER = "never"  # a writer that only writes
    SETTLE = "until no rule fires"  # this engine's writers: a stall before a flush, then until it is quiet
    EARLIER = "what earlier commits left"  # `lookup-wait` = false: until quiet, then the flush
    ONCE = "one pick"  # a job, or another engine's writer after its flush
    FULLY = "full compaction"  # asked for, then until no rule fires
    AS_RECORDED = "as it was"  # files replaced by no rule: carried over as they are


@dataclass(slots=True)
class BucketCommit:
    """One commit to one bucket: flushes in order, files taken away by an overwrite, and what a compaction did
    (None: nothing). `mode` is set when it is known."""

    snapshot: int
    now_ms: int
    flushes: list[tuple[DataFileMeta, ...]]
    overwritten: tuple[DataFileMeta, ...] = ()
    base: tuple[DataFileMeta, ...] = ()
    compaction: BucketEvent | None = None
    mode: CompactionMode | None = None
    user: str = ""
    identifier: int = 0
    schema_id: int = 0
    changelog_bytes: int = 0
    everything: bool = False  # an overwrite of all files of the bucket
    left_alone: bool = False  # a rule would have fired after its flush, and none did

    @property
    def kind(self) -> str:
        """APPEND, OVERWRITE, COMPACT of a job, or BASE for what was there before."""
        if self.flushes or self.overwritten:
            return OVERWRITE if self.overwritten else APPEND
        return COMPACT if self.compaction is not None else BASE

    @property
    def last_snapshot(self) -> int:
        """The snapshot after which the bucket is as this occasion left it."""
        return self.compaction.snapshot if self.compaction is not None else self.snapshot


def occasions(events: Iterable[BucketEvent]) -> dict[Place, list[BucketCommit]]:
    """The events of each bucket by commit, in order; rows that wait in postponed buckets are left out."""
    commits: dict[Place, list[BucketCommit]] = defaultdict(list)
    for event in events:
        if event.bucket < 0:
            continue
        before = commits[event.place]
        now = max([before[-1].now_ms if before else 0, *_times(event)])
        if event.kind == COMPACT:
            last = before[-1] if before else None
            if last is not None and _same_commit(last, event):
                last.compaction, last.now_ms = event, now
            else:
                before.append(_occasion(event, now, compaction=event))
        elif event.kind == BASE:
            before.append(_occasion(event, now, base=event.after))
        elif event.flushed or event.before:
            gone = event.before
            before.append(_occasion(event, now, flushed=event.flushed, overwritten=gone))
    return commits


def _occasion(
    event: BucketEvent,
    now: int,
    *,
    flushed: tuple[DataFileMeta, ...] = (),
    overwritten: tuple[DataFileMeta, ...] = (),
    base: tuple[DataFileMeta, ...] = (),
    compaction: BucketEvent | None = None,
) -> BucketCommit:
    return BucketCommit(
        event.snapshot,
        now,
        flushes(flushed),
        overwritten,
        base,
        compaction,
        user=event.user,
        identifier=event.identifier,
        schema_id=event.schema_id,
        changelog_bytes=sum(f.file_size for f in event.changelog),
    )


def _same_commit(last: BucketCommit, event: BucketEvent) -> bool:
    """Whether a COMPACT event is the second half of a writer's commit."""
    same = (last.user, last.identifier) == (event.user, event.identifier)
    return same and bool(last.flushes) and last.compaction is None


def _times(event: BucketEvent) -> list[int]:
    """When its files were made: local wall clock, as picks know it."""
    files = (*event.flushed, *event.after)
    return [f.creation_time_ms for f in files if f.creation_time_ms is not None]
