"""Following a table with a log: the state of a snapshot, then the log from the offsets that it names, with no
gap and nothing twice (`log_steps.py` decides, this reads and waits).

A step of the log has the rows from the place of the step before to the visible end, each bucket in the order
of the log. Steps of files, where the log has expired, say so (`Change.source`, `Change.reason`). A cursor has
the place in the log and, for the files, the newest snapshot before it. Rows have the columns of the schema at
the start. Belongs to one thread.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import pyarrow as pa

from tablestore.core.errors import Corrupt, NotFound
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format import rowkind
from tablestore.format.predicates import evaluate
from tablestore.format.snapshot import Snapshot
from tablestore.log.embedded.continuity import LogMismatch
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.kafka.kafka_log import KafkaLog
from tablestore.log.log import LogBatch, LogExpired
from tablestore.log.offsets import Offsets, reaches
from tablestore.meta import changelogs, consumers
from tablestore.meta.store import Store
from tablestore.read.changes.change import AGAIN, FILES, LOG, Before, Change, Read, StreamLost, with_remedy
from tablestore.read.changes.first_state import first_state, state_before
from tablestore.read.changes.incremental import AUTO, DELTA, change_schema, changed_entries, snapshot_changes
from tablestore.read.changes.log_start import log_start, place_of
from tablestore.read.changes.log_steps import (
    LogPlace,
    LogState,
    LogStep,
    Lost,
    ReadFiles,
    ReadLog,
    WaitForRows,
    next_step,
)
from tablestore.read.changes.looked_up import looked_up_changes, touched
from tablestore.read.changes.overwritten import leave_out, overwrites, warn_of_left_out
from tablestore.read.changes.stream import SnapshotWait, StreamRequest, TableRequest, missing, of_table
from tablestore.read.changes.stream_start import Cursor, mark_of
from tablestore.read.scan import time_travel
from tablestore.read.table_log import TableLog, VisibleOffsets, furthest, offsets_at

_REPAIR = "table.log.repair() goes on without them"
_SHORTEST_SLEEP, _LONGEST_SLEEP = 0.001, 0.05  # seconds between two looks for the snapshot of rows in the log
_LONGEST_WAIT = 1.0  # seconds for which the log is waited for, and read without asking where it starts


def log_stream(
    store: Store, request: StreamRequest, log: TableLog, *, as_written: bool = False
) -> Generator[Change]:
    """The steps of a table with a log, waiting for rows to come.

    The request is checked before the first step is asked for. Raises NotFound where rows behind the start or
    a cursor are nowhere any more, and at an OVERWRITE, of which the log has no rows; where rows are wanted
    `as_written`, or the table's option says so, that is left out with a warning.
    """
    return _LogFollower(of_table(store, request), log, as_written).steps()


@dataclass
class _LogFollower:
    """The state of one stream. `checked`: when the log was last seen to start at or before the place, in
    seconds of a clock that never goes back. `looked_at`: OVERWRITEs up to this snapshot are dealt with."""

    asked: TableRequest
    log: TableLog
    as_written: bool = False
    place: LogPlace = field(default_factory=lambda: LogPlace({}))
    checked: float = -math.inf
    looked_at: int = 0

    @property
    def store(self) -> Store:
        """The table."""
        return self.asked.store

    def steps(self) -> Generator[Change]:
        """The steps, waiting for rows to come. Raises NotFound where rows are nowhere any more."""
        request = self.asked.request
        start = log_start(
            self.store, self.log, request.start, consumer=self.asked.consumer, until=request.until
        )
        if isinstance(start, Snapshot):
            self.place = LogPlace(offsets_at(self.store, start), start.id)
            yield self._change(start, self._state(start), full=True)
        else:
            self.place = start
        self.looked_at = self.place.base
        self._record_progress(self.place)
        while (change := self._next()) is not None:
            yield change
            self._record_progress(self.place)

    def _next(self) -> Change | None:
        """The next step that has rows; None where the stream ends. `place` is behind it then."""
        end = self._end()
        sleep = _SHORTEST_SLEEP
        recent = self.store.env.monotonic() - self.checked < _LONGEST_WAIT
        arrived = self._arrived(0) if recent else None
        while True:
            newest = self.store.snapshots.latest()
            self._pass_overwrites(newest)
            step, arrived = self._decided(newest, arrived), None
            if isinstance(step, ReadLog | ReadFiles):
                change = (
                    self._read_files(step) if isinstance(step, ReadFiles) else self._read_log(step, newest)
                )
                if change is not None:
                    return change
                continue
            if isinstance(step, Lost):
                raise NotFound(f"{step.why}: {self._remedy(newest)}")
            if step is None or self._over(end):
                return None
            arrived = self._wait(step, end, sleep)
            sleep = min(2 * sleep, _LONGEST_SLEEP)

    def _pass_overwrites(self, newest: Snapshot | None) -> None:
        """Raise NotFound at an OVERWRITE since the last look, or leave it out with a warning."""
        until, there = self.asked.request.until, newest.id if newest else 0
        there = there if until is None else min(there, until)
        if there > self.looked_at:
            for snapshot in overwrites(self.store, self.looked_at, there):
                (warn_of_left_out if self.as_written else leave_out)(self.store, snapshot)
            self.looked_at = there

    def _remedy(self, newest: Snapshot | None) -> str:
        """What helps where rows are nowhere: to begin again, unless the newest snapshot lacks them, too."""
        repaired = isinstance(self.log.log, EmbeddedLog | KafkaLog)
        start = self.log.bounds(self.store, newest).start
        return _REPAIR if repaired and not reaches(offsets_at(self.store, newest), start) else AGAIN

    def _decided(self, newest: Snapshot | None, arrived: Offsets | None) -> LogStep | None:
        """The next step, None behind the snapshot `until`. `arrived`: rows of the log from the place up to
        there are known to have come."""
        place, until = self.place, self.asked.request.until
        if arrived is None or place.offsets is None:
            try:
                bounds = self.log.bounds(self.store, newest, delivered=place.offsets)
            except LogMismatch:
                raise
            except Corrupt as e:
                return self._around(newest, e)
            whole = place.offsets is not None and reaches(place.offsets, bounds.start)
            self.checked = self.store.env.monotonic() if whole else -math.inf
        else:
            visible = self.log.visible(self.store, newest, arrived)
            bounds = VisibleOffsets(place.offsets, visible, visible)
        begin, end = bounds.start, bounds.end
        there = newest.id if newest else 0
        if until is not None and until <= there:
            last = offsets_at(self.store, self.store.snapshots.get(until))
            if place.base >= until or (place.offsets is not None and reaches(place.offsets, last)):
                return None
            at = place.offsets or {}
            end, there = furthest(at, {b: min(o, last.get(b, 0)) for b, o in end.items()}), until
        whole = reaches(place.offsets or {}, begin) and reaches(bounds.has, end)
        if not whole and place.offsets is not None:  # snapshots since may hold no more than was delivered
            later = place_of(self.store, place.offsets)
            if later.base > place.base:
                self.place = place = later
        keyed = bool(self.store.schema.shown.primary_keys)
        return next_step(place, LogState(begin, end, there, keyed, bounds.has))

    def _around(self, newest: Snapshot | None, damage: Corrupt) -> LogStep | None:
        """The next step where the log is damaged: the files of the next snapshot, or wait for one; None
        behind the snapshot `until`. Raises the damage where the log alone has the rows."""
        place, until = self.place, self.asked.request.until
        newest_id = newest.id if newest else 0
        if until is not None and place.base >= until:
            return None
        if place.offsets is not None:  # snapshots since may hold no more than was delivered
            later = place_of(self.store, place.offsets)
            if later.base > place.base:
                self.place = place = later
        if place.base < newest_id:
            if place.inside and not self.store.schema.shown.primary_keys:
                raise damage
            return ReadFiles(place.base + 1, f"the log is damaged: {damage}")
        if not self.log.committed_only:  # it may have rows that no snapshot has
            raise damage
        return WaitForRows(log=False)

    def _end(self) -> float | None:
        timeout = self.asked.request.timeout
        return None if timeout is None else self.store.env.monotonic() + timeout

    def _over(self, end: float | None) -> bool:
        """Whether the stream ends instead of waiting."""
        return not self.asked.request.follow or (end is not None and self.store.env.monotonic() >= end)

    def _wait(self, step: WaitForRows, end: float | None, sleep: float) -> Offsets | None:
        """Wait a while for rows; up to where they came to the log, None if they did not."""
        env = self.store.env
        remaining = None if end is None else end - env.monotonic()
        if not step.log:
            wait = SnapshotWait(self.store, True, remaining, self.asked.request.poll_seconds)
            wait.arrived(self.place.base + 1)
            return None
        arrived = self._arrived(_LONGEST_WAIT if remaining is None else max(0, min(_LONGEST_WAIT, remaining)))
        if arrived is not None and self.log.committed_only:
            env.sleep(sleep)  # the rows are there, their snapshot comes
        return arrived

    def _arrived(self, seconds: float) -> Offsets | None:
        """The end of the log if it has rows behind the place, waiting so long for them; None: not known."""
        if self.place.offsets is None:
            return None
        try:
            return self.log.log.wait(self.place.offsets, seconds)
        except (LogExpired, Corrupt):  # who asks for its bounds is told
            return None

    def _read_log(self, step: ReadLog, newest: Snapshot | None) -> Change | None:
        """The rows up to a place in the log; None where there is none, but markers of transactions, or where
        they expire just now."""
        before, stop = self.place, step.stop
        assert before.offsets is not None, "a place in the log"
        try:
            if isinstance(self.log.log, EmbeddedLog):
                stop, damage = self.log.log.sound_end(before.offsets, stop)
                if damage is not None:
                    committed = self._known_below(stop)
                    if reaches(before.offsets, committed):
                        return self._past(newest, damage)
                    stop = furthest(before.offsets, committed)
            batches = self.log.log.read(before.offsets, stop, self._columns)
            first = next(batches, None)
        except LogExpired:
            return None
        self.place = self._behind(stop, newest)
        if first is None:
            return None
        read = self._rows(before.offsets, stop, [chain([first], batches)])
        return self._change(newest, read, source=LOG, before=self._before(before))

    def _past(self, newest: Snapshot | None, damage: Corrupt) -> Change | None:
        """What the files have of rows that are damaged in the log; raises the damage if they have not."""
        step = self._around(newest, damage)
        if not isinstance(step, ReadFiles):
            raise damage
        return self._read_files(step)

    def _known_below(self, stop: Offsets) -> dict[int, int]:
        """The offsets of the newest snapshot all of whose rows lie before `stop`."""
        base = place_of(self.store, stop).base
        return offsets_at(self.store, self.store.snapshots.get(base)) if base else {}

    def _behind(self, stop: Offsets, newest: Snapshot | None) -> LogPlace:
        """The place at offsets that are not before those of the newest snapshot, or (`until`) some before."""
        if newest is None:
            return LogPlace(stop, 0, inside=any(stop.values()))
        in_files = offsets_at(self.store, newest)
        if reaches(stop, in_files):
            return LogPlace(stop, newest.id, inside=not reaches(in_files, stop))
        return place_of(self.store, stop)

    def _read_files(self, step: ReadFiles) -> Change | None:
        """The changes of a snapshot's files, None where it has none."""
        try:
            snapshot = changelogs.snapshot_or_changelog(self.store, step.snapshot)
        except NotFound:
            raise missing(self.store, step.snapshot) from None
        before = self.place
        in_files = offsets_at(self.store, snapshot)
        at = in_files if before.offsets is None else furthest(before.offsets, in_files)
        self.place = LogPlace(at, snapshot.id, inside=not reaches(in_files, at))
        try:
            with time_travel.expiring(self.store, snapshot.id, changes=True):
                changed = self._has_changes(snapshot)
        except NotFound:
            raise missing(self.store, step.snapshot) from None
        if not changed:
            return None
        read = with_remedy(self._file_changes(snapshot))
        return self._change(snapshot, read, source=FILES, reason=step.reason, before=self._before(before))

    @cached_property
    def _looks_up(self) -> bool:
        """Whether a snapshot's changes are looked up: the log says what was before, its files do not."""
        options, keyed = self.store.options, bool(self.store.schema.shown.primary_keys)
        raw = options.changelog_producer is ChangelogProducer.INPUT
        return keyed and not self.log.upserts and not raw

    @property
    def _mode(self) -> str:
        """Which files hold the rows that were written."""
        return AUTO if self.store.options.changelog_producer is ChangelogProducer.INPUT else DELTA

    def _has_changes(self, snapshot: Snapshot) -> bool:
        if self._looks_up:
            return bool(touched(self.store, snapshot))
        return bool(changed_entries(self.store, snapshot, mode=self._mode))

    def _file_changes(self, snapshot: Snapshot) -> Read:
        names, where = self.asked.names, self.asked.where
        if self._looks_up:
            return lambda: looked_up_changes(self.store, snapshot, names, where=where)
        return lambda: snapshot_changes(self.store, snapshot, names, where, mode=self._mode)

    def _state(self, snapshot: Snapshot) -> Read:
        names, where = self.asked.names, self.asked.where
        schema = change_schema(self.store, names)

        def read() -> Iterator[pa.RecordBatch]:
            state = first_state(self.store, snapshot, where, columns=names, look_up=True)
            for split in state.splits:
                for batch in split.read(state.store, names, state.where):
                    yield _inserted(batch, schema)

        return with_remedy(read)

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        """The columns that are read: those asked for, and those of the filter."""
        where = self.asked.where
        asked = () if where is None else where.columns
        return tuple(dict.fromkeys((*self.asked.names, *(c for c in self.store.schema.names if c in asked))))

    def _rows(self, start: Offsets, stop: Offsets, begun: list[Iterator[LogBatch]] | None = None) -> Read:
        """Reads the rows of the log between two offsets; the first time what is `begun`."""
        names, where = self.asked.names, self.asked.where
        schema = change_schema(self.store, names)

        def read() -> Iterator[pa.RecordBatch]:
            try:
                batches = begun.pop() if begun else self.log.log.read(start, stop, self._columns)
                for some in batches:
                    kinds = rowkind.texts(some.kinds)
                    rows = [some.rows.column(n) for n in names]
                    batch = pa.RecordBatch.from_arrays([kinds, *rows], schema=schema)
                    if where is not None:
                        batch = batch.filter(evaluate.mask(where, some.rows))
                    if batch.num_rows:
                        yield batch
            except LogExpired as e:
                raise LogExpired(f"{e}; a stream that is opened again goes on with files") from None

        return read

    def _before(self, place: LogPlace) -> Before:
        """The rows before the step at a place."""
        if place.offsets is None or not place.inside:
            return Before(self._state_of(place.base), _nothing)

        def behind() -> Iterator[pa.RecordBatch]:
            assert place.offsets is not None, "a place in the log"
            try:
                in_files = offsets_at(self.store, self.store.snapshots.get(place.base)) if place.base else {}
                yield from self._rows(in_files, self.log.there(place.offsets))()
            except NotFound as e:
                text = f"what was before offsets {dict(place.offsets)} has expired ({e})"
                raise StreamLost(text, "start with latest-full, or take rows with normalize=False") from e

        return Before(self._state_of(place.base), behind)

    def _state_of(self, base: int) -> Read:
        names, where = self.asked.names, self.asked.where
        schema = change_schema(self.store, names)
        return with_remedy(
            lambda: (_inserted(b, schema) for b in state_before(self.store, base + 1, names, where))
        )

    def _change(
        self,
        snapshot: Snapshot | None,
        read: Read,
        *,
        full: bool = False,
        source: str = FILES,
        reason: str | None = None,
        before: Before | None = None,
    ) -> Change:
        """A step, with the cursor of the place behind it."""
        place, schema = self.place, change_schema(self.store, self.asked.names)
        of_base = snapshot is not None and snapshot.id == place.base
        mark = mark_of(snapshot) if of_base and snapshot is not None else self._mark(place.base)
        cursor = Cursor(place.base + 1, mark, place.offsets, place.inside).text
        number = 0 if snapshot is None else snapshot.id
        change = Change(number, full, cursor, schema, read, lambda: self._record_progress(place))
        return replace(change, source=source, reason=reason, _before=before)

    def _mark(self, base: int) -> str | None:
        try:
            return mark_of(self.store.snapshots.get(base)) if base else None
        except NotFound:
            return None

    def _record_progress(self, place: LogPlace) -> None:
        if self.asked.consumer is not None:
            kept = max(1, place.base) if place.inside else place.base + 1  # it has the rows before the place
            consumers.record(self.store, self.asked.consumer, kept, log=place.offsets, inside=place.inside)


def _nothing() -> Iterator[pa.RecordBatch]:
    return iter(())


def _inserted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    kinds = pa.repeat(pa.scalar(rowkind.TEXTS[rowkind.INSERT]), batch.num_rows)
    return pa.RecordBatch.from_arrays([kinds, *batch.columns], schema=schema)
