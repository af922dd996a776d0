"""Where a read starts, as the table's options say: `scan.*` and `incremental-*` (FORMAT.md 21.2).

`batch` gives the state of a snapshot, the changes of a range of snapshots, or the difference of two states;
`following` gives where a stream begins. Errors name what there is. Called by `Table.scan`, `Table.stream` and
the system tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tablestore.core.errors import InvalidOption, InvalidRequest, NotFound
from tablestore.core.options import reading
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import BATCH_IDENTIFIER, COMPACT, Snapshot
from tablestore.meta import refs
from tablestore.meta.entries import PartitionFilter
from tablestore.meta.store import Store
from tablestore.read.changes.diff import StateDiff
from tablestore.read.changes.incremental import AUTO, MODES, ChangeRange
from tablestore.read.scan import plan as planning
from tablestore.read.scan import time_travel
from tablestore.read.scan.plan import FileChoice, Plan

_WATERMARK = "watermark-"


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """The rows of one snapshot (None: of a table without any); `since_ms`: only of files made then or later.

    `travelled`: the snapshot was asked for by name, so it is read under its own columns.
    """

    snapshot: Snapshot | None
    since_ms: int | None = None
    travelled: bool = False

    @property
    def whole(self) -> bool:
        """Whether all rows of the snapshot are read: then other engines may plan the read for themselves."""
        return self.since_ms is None

    def under(self, store: Store) -> Store:
        """The store whose columns are read: today's, or those that the snapshot had."""
        return time_travel.at(store, self.snapshot) if self.travelled else store

    def plan(
        self,
        store: Store,
        where: Predicate | None = None,
        *,
        columns: Sequence[str] | None = None,
        complete: bool = False,
        partition: PartitionFilter | None = None,
    ) -> Plan:
        """Splits of the live files, of one `partition` filter if there is one; with `complete` a verdict on
        each of them."""
        files = self._files(partition)
        return planning.plan(store, self.snapshot, where, columns=columns, files=files, complete=complete)

    def plan_parts(
        self,
        store: Store,
        where: Predicate | None = None,
        *,
        columns: Sequence[str] | None = None,
        partition: PartitionFilter | None = None,
    ) -> Iterator[Plan]:
        """The plan in parts, none of which holds all files of a large table."""
        files = self._files(partition)
        return planning.plan_parts(store, self.snapshot, where, columns=columns, files=files)

    def _files(self, partition: PartitionFilter | None) -> FileChoice:
        since = None if self.since_ms is None else time_travel.local_ms(self.since_ms)
        return FileChoice(partition=partition, made_since=since)


@dataclass(frozen=True, slots=True)
class StreamStart:
    """Where a stream begins: with the changes of `next_snapshot`, or with the state of the snapshot `full`.

    Neither: the table has no snapshot yet, and the state of its first one comes first. `made_since_ms`: of
    `full` only files made then or later. `after`: the mark of the snapshot before the next one, if it is
    known (`read/changes/stream_start.py`).
    """

    next_snapshot: int | None = None
    full: Snapshot | None = None
    made_since_ms: int | None = None
    after: str | None = None


ScanTarget = SnapshotState | ChangeRange | StateDiff  # what a batch scan reads; each plans itself


def mode_of(store: Store) -> str:
    """The scan mode in force; raises InvalidOption for unknown ones and for options that contradict it."""
    return reading.mode_of(store.options.scan_mode, store.schema.options)


def batch(store: Store, at: Snapshot | None = None) -> ScanTarget:
    """What a batch scan of this table reads: the state of `at` if it is given, else what the options say."""
    if at is not None:
        return SnapshotState(at, travelled=True)
    mode, options = mode_of(store), store.options
    if mode in ("latest-full", "latest"):
        return SnapshotState(store.snapshots.latest())
    if mode == "compacted-full":
        return SnapshotState(compacted(store))
    if mode == "from-timestamp":
        return SnapshotState(time_travel.at_or_before(store, moment_ms(store)), travelled=True)
    if mode == "from-file-creation-time":
        return SnapshotState(store.snapshots.latest(), options.scan_file_creation_millis)
    if mode == "from-creation-timestamp":
        since = options.scan_creation_millis
        assert since is not None
        first = _first_made(store, since)
        if first is None:
            return SnapshotState(store.snapshots.latest(), since)
        return SnapshotState(store.snapshots.get(first))
    if mode == "incremental":
        return _incremental(store)
    return SnapshotState(_chosen(store), travelled=True)


def following(store: Store) -> StreamStart:
    """Where a stream of this table begins. Raises InvalidRequest for options of batch reads."""
    mode, options, latest = mode_of(store), store.options, store.snapshots.latest()
    if mode == "latest-full":
        return StreamStart(full=latest)
    if mode == "latest":
        return StreamStart((latest.id if latest else 0) + 1)
    if mode == "compacted-full":
        return StreamStart(full=compacted(store))
    if mode == "from-timestamp":
        return StreamStart(time_travel.first_after(store, moment_ms(store)))
    if mode == "from-file-creation-time":
        return StreamStart(full=latest, made_since_ms=options.scan_file_creation_millis)
    if mode == "from-creation-timestamp":
        since = options.scan_creation_millis
        assert since is not None
        first = _first_made(store, since)
        return StreamStart(full=latest, made_since_ms=since) if first is None else StreamStart(first)
    asked = options.scan_snapshot_id
    if mode == "incremental" or asked is None:
        raise InvalidRequest(f"scan.mode {mode!r} with {_given(store)} is for batch reads, not for streams")
    oldest = time_travel.earliest_change(store)
    if mode == "from-snapshot":
        return StreamStart(max(asked, oldest or asked))
    return StreamStart(full=store.snapshots.get(max(asked, store.snapshots.earliest_id() or asked)))


def _given(store: Store) -> str:
    return ", ".join(reading.places_given(store.schema.options))


def moment_ms(store: Store) -> int:
    """The moment of scan.mode from-timestamp, in epoch milliseconds."""
    options = store.options
    if options.scan_timestamp is not None:
        return time_travel.millis_of(options.scan_timestamp)
    assert options.scan_timestamp_millis is not None
    return options.scan_timestamp_millis


def _chosen(store: Store) -> Snapshot | None:
    """The snapshot that an id, tag, watermark or version names."""
    options = store.options
    if options.scan_snapshot_id is not None:
        return time_travel.resolve(store, snapshot=options.scan_snapshot_id)
    if options.scan_tag_name is not None:
        return time_travel.resolve(store, tag=options.scan_tag_name)
    if options.scan_watermark is not None:
        return time_travel.resolve(store, watermark=options.scan_watermark)
    assert options.scan_version is not None
    return version(store, options.scan_version)


def version(store: Store, name: str) -> Snapshot | None:
    """What `scan.version` means: a tag, else `watermark-<n>`, else a snapshot id."""
    if name in refs.tag_names(store):
        return refs.tagged(store, name)
    if name.startswith(_WATERMARK) and name.removeprefix(_WATERMARK).lstrip("-").isdigit():
        return time_travel.resolve(store, watermark=int(name.removeprefix(_WATERMARK)))
    if name.isdigit():
        return time_travel.resolve(store, snapshot=int(name))
    raise NotFound.among("version (tag, snapshot id or watermark-<n>)", name, refs.tag_names(store))


def compacted(store: Store) -> Snapshot | None:
    """The newest COMPACT snapshot (with full-compaction changelogs the newest of a full compaction); if there
    is none, the newest."""
    full = store.options.changelog_producer is ChangelogProducer.FULL_COMPACTION
    every = store.options.full_delta_commits
    commits = max(1, every or 1)
    for snapshot in reversed(store.snapshots.all()):
        due = snapshot.commit_identifier == BATCH_IDENTIFIER or snapshot.commit_identifier % commits == 0
        if snapshot.commit_kind == COMPACT and (due or not (full or every is not None)):
            return snapshot
    return store.snapshots.latest()


def _first_made(store: Store, since_ms: int) -> int | None:
    """Id of the first snapshot made then or later; None if that is before the oldest or after the newest."""
    every = store.snapshots.all()
    if not every or every[0].time_millis >= since_ms:
        return None
    return next((s.id for s in every if s.time_millis >= since_ms), None)


def _incremental(store: Store) -> ScanTarget:
    options = store.options
    mode = options.incremental_scan_mode
    if mode not in MODES:
        raise InvalidOption(f"option 'incremental-between-scan-mode' is {mode!r}; it must be one of {MODES}")
    if options.incremental_to_auto_tag is not None:
        return _to_auto_tag(store, options.incremental_to_auto_tag)
    if options.incremental_between_timestamp is not None:
        ends = _two(options.incremental_between_timestamp, "incremental-between-timestamp")
        start, end = (_moment(text) for text in ends)
        return between_times(store, start, end, mode=mode)
    assert options.incremental_between is not None
    start_name, end_name = _two(options.incremental_between, "incremental-between")
    return between(store, start_name, end_name, mode=mode)


def between(store: Store, start: str, end: str, *, mode: str = AUTO) -> ChangeRange | StateDiff:
    """The target between two tags (their difference) or two snapshot ids (their changes, or by `mode`)."""
    tags = refs.tags(store)
    if start in tags and end in tags:
        if store.options.incremental_tag_to_snapshot:
            return ChangeRange(tags[start].id, tags[end].id, mode)
        return _diff(tags[start], tags[end])
    for name in (start, end):
        if not name.isdigit() and name not in tags:
            raise NotFound.among("tag", name, tags)
    if not (start.isdigit() and end.isdigit()):
        raise InvalidRequest(f"incremental-between {start},{end}: give two tags or two snapshot ids")
    if mode == "diff":
        return _diff(store.snapshots.get(int(start)), store.snapshots.get(int(end)))
    return ChangeRange(int(start), int(end), mode)


def between_times(store: Store, start: int, end: int, *, mode: str = AUTO) -> ScanTarget:
    """The target between two moments: after the state of the first up to the state of the second."""
    if end < start:
        raise InvalidRequest(f"incremental-between-timestamp goes forward: {start} comes after {end}")
    every = store.snapshots.all()
    if not every or start == end or start > every[-1].time_millis or end < every[0].time_millis:
        last = every[-1].id if every else 0
        return ChangeRange(last, last, mode)
    before = [s for s in every if s.time_millis <= start]
    until = [s for s in every if s.time_millis <= end][-1]
    if mode == "diff" and not before and every[0].id == 1:
        return SnapshotState(until)
    if mode == "diff":
        return StateDiff(before[-1] if before else every[0], until)
    return ChangeRange(before[-1].id if before else every[0].id - 1, until.id, mode)


def _diff(start: Snapshot, end: Snapshot) -> StateDiff:
    if end.id < start.id:
        raise InvalidRequest(f"a difference goes forward: snapshot {start.id} comes after {end.id}")
    return StateDiff(start, end)


def _to_auto_tag(store: Store, name: str) -> ChangeRange | StateDiff:
    """The difference from the tag before this one by name (automatic tags are named by their time)."""
    tags = refs.tags(store)
    earlier = sorted(n for n in tags if n < name and len(n) == len(name))
    if name not in tags or not earlier:
        last = store.snapshots.latest_id() or 0
        return ChangeRange(last, last, AUTO)
    return _diff(tags[earlier[-1]], tags[name])


def _two(text: str, key: str) -> tuple[str, str]:
    parts = text.split(",")
    if len(parts) != 2:
        raise InvalidOption(f"option {key!r} is {text!r}; it must be 'start,end', start excluded")
    return parts[0].strip(), parts[1].strip()


def _moment(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else time_travel.millis_of(text)
