"""Following a table: the state at the start, then what each snapshot changed (FORMAT.md 21.4).

Each step has a `cursor` to go on from; a step counts as done when the next one is asked for, or `done()` is
called. A named consumer keeps that place with the table, and snapshots it has not read from expiring.
Snapshots that expired go on being delivered where their changelogs live longer. A cursor knows the snapshot
it came after: where a rollback took that away, the stream ends with NotFound, also if the ids are used again.
Delivery is at least once: after a crash the step that was not done comes again. Rows have the columns of
the schema at the start.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound, SnapshotExpired
from tablestore.format import rowkind
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.predicates.predicate_text import condition
from tablestore.format.snapshot import OVERWRITE, Snapshot
from tablestore.meta import changelogs, consumers
from tablestore.meta.store import Store
from tablestore.read.changes.change import Change, Read, StreamLost, with_remedy
from tablestore.read.changes.first_state import first_state
from tablestore.read.changes.incremental import change_schema, changed_entries, snapshot_changes
from tablestore.read.changes.looked_up import looked_up_changes, require_looked_up, touched
from tablestore.read.changes.overwritten import streams_overwrite, warn_of_left_out, with_overwrites
from tablestore.read.changes.stream_start import Cursor, Start, mark_of, stream_start, was_rolled_back
from tablestore.read.changes.streamable import passes_bound, require_single_changelog, require_tracked
from tablestore.read.scan import time_travel
from tablestore.read.scan.pruning import Filters
from tablestore.read.supported import readable_condition


@dataclass(frozen=True, slots=True)
class SnapshotWait:
    """How long a stream waits: not at all unless `follow`, at most `timeout` seconds (None: for ever), with a
    look every `poll_seconds` (None: as `continuous.discovery-interval` says)."""

    store: Store
    follow: bool
    timeout: float | None
    poll_seconds: float | None

    def arrived(self, snapshot: int) -> bool:
        """Whether that snapshot, or the changelog it left, is there, after waiting for it. Raises NotFound if
        it has expired or was rolled back."""
        snapshots, end = self.store.snapshots, self._end()
        poll = self.poll_seconds
        pause = self.store.options.discovery_interval_ms / 1000 if poll is None else poll
        while not changelogs.exists(self.store, snapshot):
            latest = snapshots.latest_id()
            if latest is not None and (latest >= snapshot or latest < snapshot - 1):
                if changelogs.exists(self.store, snapshot):  # it came between the two looks
                    return True
                raise missing(self.store, snapshot)
            if not self._slept(pause, end):
                return False
        return True

    def old_enough(self, snapshot: Snapshot) -> bool:
        """Whether the snapshot is as old as `streaming.read.snapshot.delay`, after waiting for that."""
        delay, end = self.store.options.streaming_delay_ms, self._end()
        if delay is None:
            return True
        while (young_ms := snapshot.time_millis + delay - self.store.env.now_ms()) > 0:
            if not self._slept(young_ms / 1000, end):
                return False
        return True

    def _end(self) -> float | None:
        return None if self.timeout is None else self.store.env.monotonic() + self.timeout

    def _slept(self, seconds: float, end: float | None) -> bool:
        """Sleep for as long, but not past the end; False where the wait is over instead."""
        env = self.store.env
        remaining = None if end is None else end - env.monotonic()
        if not self.follow or (remaining is not None and remaining <= 0):
            return False
        env.sleep(seconds if remaining is None else min(seconds, remaining))
        return True


def missing(store: Store, snapshot: int) -> StreamLost:
    """The error of a stream whose next snapshot is gone."""
    ids = store.snapshots.ids()
    existing = f"there are {ids[0]}..{ids[-1]}" if ids else "there is none"
    why = "was rolled back" if ids and ids[-1] < snapshot else "has expired"
    return StreamLost(f"snapshot {snapshot}, the next of this stream, {why}; {existing}")


SnapshotId = int
Seconds = float


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What a stream is asked for: where it starts and ends, which rows and columns.

    `start`: "latest-full" (state, then changes), "latest" (later changes only), "earliest", a snapshot id
    (its changes first), a cursor, {"timestamp": moment}, {"snapshot": id, "full": True}, of a log {"log":
    offsets}; None means what `scan.mode` and its companions say, else "latest-full". A `consumer` (None: that
    of `consumer-id`) that is known goes on where it was, whatever `start` says, unless
    `consumer.ignore-progress`. The stream ends after snapshot `until`, after `timeout` seconds without a new
    one, at `scan.bounded.watermark`, or, unless `follow`, when there is none. `look_up`: changes are looked
    up in the snapshot before each, instead of taken as they were written. `normalized`: a normaliser takes
    the steps; what an OVERWRITE replaced is then looked up.
    """

    start: Start | None = None
    until: SnapshotId | None = None
    timeout: Seconds | None = None
    follow: bool = True
    consumer: str | None = None
    poll_seconds: Seconds | None = None
    columns: Sequence[str] | None = None
    where: Predicate | str | None = None
    look_up: bool = False
    normalized: bool = False

    def require_valid(self) -> None:
        """Raise InvalidRequest for a start of another type, an end that is no snapshot id, waits that are no
        seconds, and columns that are no list."""
        start = self.start
        if isinstance(start, bool) or not isinstance(start, str | int | Mapping | None):
            raise InvalidRequest(f"stream start {start!r} is neither a name, a snapshot id nor a cursor")
        if self.until is not None and (isinstance(self.until, bool) or not isinstance(self.until, int)):
            raise InvalidRequest(f"stream until {self.until!r} must be a snapshot id")
        for name, value in (("timeout", self.timeout), ("poll_seconds", self.poll_seconds)):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and (not number or value < 0):
                raise InvalidRequest(f"stream {name} {value!r} must be a number of seconds")
        if isinstance(self.columns, str) or not isinstance(self.columns, Iterable | None):
            raise InvalidRequest(f"columns are a list of names, not {self.columns!r}")


@dataclass(frozen=True, slots=True)
class TableRequest:
    """A request as it is of one table: the columns by name, the condition bound, and the consumer."""

    store: Store
    request: StreamRequest
    names: tuple[str, ...]
    where: Predicate | None
    consumer: str | None


def stream(store: Store, request: StreamRequest, *, reason: str | None = None) -> Generator[Change]:
    """The steps of a table, waiting for snapshots to come; `reason` says why they are not of its log.

    A snapshot counts as new once it is as old as `streaming.read.snapshot.delay`. The request is checked
    before the first step is asked for. Raises NotFound when the next snapshot has expired.
    """
    require_single_changelog(store)
    if request.look_up:
        require_looked_up(store)
    asked = of_table(store, request)
    if not request.look_up:
        require_tracked(store, Filters.of(asked.where, store.schema).partition)
    return _Follower(store, request, asked.names, asked.where, asked.consumer, reason).steps()


def of_table(store: Store, request: StreamRequest) -> TableRequest:
    """The request of this table. Raises InvalidRequest or NotFound for what cannot be asked of it."""
    request.require_valid()
    shown = store.schema.shown
    names = tuple(request.columns if request.columns is not None else shown.names)
    for name in names:
        if name not in shown.by_name:
            raise NotFound.among("column", name, shown.names)
    where = readable_condition(store, condition(request.where, store.schema), names)
    consumer = store.options.consumer_id if request.consumer is None else request.consumer
    return TableRequest(store, request, names, where, consumer)


@dataclass
class _Follower:
    """The state of one stream. One thread."""

    store: Store
    request: StreamRequest
    names: tuple[str, ...]
    where: Predicate | None
    consumer: str | None
    reason: str | None = None
    after: str | None = None  # mark of the snapshot before the next one, if it is known

    def steps(self) -> Generator[Change]:
        asked = self.request
        wait = SnapshotWait(self.store, asked.follow, asked.timeout, asked.poll_seconds)
        start = stream_start(self.store, asked.start, consumer=self.consumer, until=asked.until)
        self.after, upcoming = start.after, start.next_snapshot
        if upcoming is None:
            full = start.full
            if full is None:  # the table has no snapshot yet: the state of its first one, once it is there
                if not wait.arrived(1):
                    return
                full = self.store.snapshots.latest()
                assert full is not None
            self.after = mark_of(full)
            yield self._step(full.id, self._state(full, start.made_since_ms), full=True)
            if passes_bound(self.store, full):
                return
            upcoming = full.id + 1
        self._record_progress(upcoming, self.after)
        while (asked.until is None or upcoming <= asked.until) and wait.arrived(upcoming):
            snapshot = self._get(upcoming)
            self._require_not_rolled_back(upcoming)
            if passes_bound(self.store, snapshot) or not wait.old_enough(snapshot):
                return
            self.after = mark_of(snapshot)
            try:
                with time_travel.expiring(self.store, upcoming, changes=True):
                    changed = self._has_changes(snapshot)
            except SnapshotExpired:
                raise missing(self.store, upcoming) from None
            if changed:
                step = self._step(upcoming, self._changes(snapshot), full=False)
                yield replace(step, _looked_up=True) if self._looks_up(snapshot) else step
            elif snapshot.commit_kind == OVERWRITE:
                warn_of_left_out(self.store, snapshot)
            upcoming += 1
            self._record_progress(upcoming, self.after)

    def _step(self, snapshot: int, read: Read, *, full: bool) -> Change:
        schema, after = change_schema(self.store, self.names), snapshot + 1
        cursor = Cursor(after, self.after).text
        done = partial(self._record_progress, after, self.after)
        return Change(snapshot, full, cursor, schema, with_remedy(read), done, reason=self.reason)

    def _state(self, snapshot: Snapshot, made_since_ms: int | None) -> Read:
        schema = change_schema(self.store, self.names)

        def read() -> Iterator[pa.RecordBatch]:
            state = first_state(
                self.store,
                snapshot,
                self.where,
                columns=self.names,
                made_since_ms=made_since_ms,
                look_up=self.request.look_up,
            )
            for split in state.splits:
                for batch in split.read(state.store, self.names, state.where):
                    kinds = pa.repeat(pa.scalar(rowkind.TEXTS[rowkind.INSERT]), batch.num_rows)
                    yield pa.RecordBatch.from_arrays([kinds, *batch.columns], schema=schema)

        return read

    def _looks_up(self, snapshot: Snapshot) -> bool:
        """Whether the changes of a snapshot are looked up."""
        overwrites = with_overwrites(self.store) if self.request.normalized else None
        return self.request.look_up or (overwrites is not None and streams_overwrite(overwrites, snapshot))

    def _changes(self, snapshot: Snapshot) -> Read:
        if self._looks_up(snapshot):
            return lambda: looked_up_changes(self.store, snapshot, self.names, where=self.where)
        return lambda: snapshot_changes(self.store, snapshot, self.names, self.where)

    def _has_changes(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot may have changed something."""
        if self._looks_up(snapshot):
            return bool(touched(self.store, snapshot))
        within = Filters.of(self.where, self.store.schema).partition
        return streams_overwrite(self.store, snapshot) or bool(
            changed_entries(self.store, snapshot, within=within)
        )

    def _record_progress(self, next_snapshot: int, after: str | None) -> None:
        if self.consumer is not None:
            consumers.record(self.store, self.consumer, next_snapshot, after=after)

    def _get(self, snapshot: int) -> Snapshot:
        try:
            return changelogs.snapshot_or_changelog(self.store, snapshot)
        except NotFound:
            raise missing(self.store, snapshot) from None

    def _require_not_rolled_back(self, snapshot: int) -> None:
        """Raise NotFound if the snapshot before is not the one that was delivered: it was rolled back."""
        before = snapshot - 1
        if was_rolled_back(self.store.snapshots, before, self.after):
            text = (
                f"snapshot {before}, which this stream had delivered, was rolled back and its id used again"
            )
            raise StreamLost(text)
