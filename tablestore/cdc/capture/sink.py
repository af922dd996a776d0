"""Where the batches of a capture go: many tables of a lake, each batch in each of them exactly once.

A batch's events are carried out first, then tasks read its pieces and write level 0 of all tables in them, of
later pieces with higher sequence numbers; all writers of a task share one pool of memory. The driver commits
table by table: the identifier of the batch makes a table that has it already be skipped, so a kill between
two commits loses and repeats nothing. The position in each snapshot holds the offset at which the batch
*began*: without its checkpoint a capture goes on from the newest of them, and what comes again changes
nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tablestore.cdc.capture.conversion import CaptureChanges, is_dead_letters
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.report import (
    BatchProgress,
    BatchReport,
    CaptureJournal,
    ChunkReport,
    EventReport,
    PieceProgress,
    TableReport,
)
from tablestore.cdc.capture.rules import DEAD_LETTER, FAIL, CaptureRules
from tablestore.cdc.capture.source import (
    CAPTURED,
    RENAMED,
    CapturePiece,
    CaptureSource,
    PausingSource,
    TableEvent,
)
from tablestore.cdc.capture.targets import Targets
from tablestore.cdc.phase import CHANGES_PHASE, FULL_PHASE, PHASE, ROWS, SOURCE_TIME, STARTED, STATEMENT
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, SchemaMismatch
from tablestore.flow.batch import Batch, WorkOf
from tablestore.flow.sink import compact_tables
from tablestore.flow.source import Offset
from tablestore.flow.writing import (
    SEQUENCE_SPAN,
    BatchWriting,
    PieceRefused,
    RowsWritten,
    TableTarget,
    WriteTask,
    has_batch,
    takes_one_writer,
)
from tablestore.table.lake import Lake
from tablestore.table.place import TablePlace
from tablestore.table.table import Table

_LONGEST_STATEMENT = 4_000
POOL_BYTES = 128 << 20  # of the writers of a task, where no table says how much
WRITE_BUFFER = "write-buffer-size"


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """Plans the batches of a source (`flow.batch.WorkPlan`)."""

    source: CaptureSource

    def initial(self) -> Offset:
        return self.source.initial()

    def next(self, start: Offset) -> Offset:
        return self.source.next(start)

    def ended(self, offset: Offset) -> bool:
        return self.source.ended(offset)

    def works(self, start: Offset, end: Offset) -> list[WorkOf[CapturePiece]]:
        return [WorkOf(0, i, piece) for i, piece in enumerate(self.source.pieces(start, end))]

    def done(self, end: Offset) -> None:
        self.source.done(end)


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """How a capture writes: under the commit user `user`; a table is compacted after `compact_every` of its
    commits (0: never); `pool_bytes` is the memory of all writers of a task (None: as the tables say)."""

    user: str
    compact_every: int = 5
    pool_bytes: int | None = None


@dataclass(slots=True)
class _CaptureBatch:
    """A batch while it is carried out: the statements that its tables followed, what was committed."""

    batch: Batch
    identifier: int
    started: float
    statements: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    reports: dict[str, TableReport] = field(default_factory=dict)

    @property
    def position(self) -> str:
        """What commits of it say of the offsets."""
        return json.dumps({"v": 1, "start": self.batch.start, "end": self.batch.end}, separators=(",", ":"))


class CaptureSink:
    """Writes batches of `source` into a lake. One thread of one driver; any thread may ask for `progress`."""

    def __init__(
        self,
        lake: Lake,
        source: CaptureSource,
        rules: CaptureRules,
        settings: SinkSettings,
        journal: CaptureJournal,
        *,
        env: Env = SYSTEM,
    ) -> None:
        self._source, self._rules, self._settings = source, rules, settings
        self._journal, self._env = journal, env
        self._letters = rules.bad_rows == DEAD_LETTER
        self._pausing = Pausing(source, rules)
        self._targets = Targets(lake, rules, journal, user=settings.user)
        self._heights: dict[str, tuple[int, int]] = {}  # (snapshot, bound of the sequence numbers in it)
        self._commits: dict[str, int] = {}  # of each table, in this process
        self._under_way: tuple[Batch, BatchProgress] | None = None  # one value: threads read it

    def progress(self) -> BatchProgress | None:
        """The batch whose rows are being written, None between two batches."""
        under_way = self._under_way
        if under_way is None:
            return None
        batch, begun = under_way
        rows = batch.counted()
        pieces = [replace(piece, rows=rows.get(i)) for i, piece in enumerate(begun.pieces)]
        return replace(begun, pieces=tuple(pieces))

    def write(self, batch: Batch, identifier: int) -> BatchReport:
        """Carry out the events of a batch and commit its rows under this identifier; the report is in the
        journal, too."""
        try:
            return self._write(batch, identifier)
        finally:
            self._under_way = None

    def _write(self, batch: Batch, identifier: int) -> BatchReport:
        self._targets.require_store()
        now = _CaptureBatch(batch, identifier, self._seconds())
        events = self._carry_out(now)
        works = batch.works()
        changes = self._changes(now, works)
        task = WriteTask(changes, changes.targets, self._settings.user, self._pool_bytes(changes.targets))
        writing = BatchWriting(batch, works, task, identifier=identifier, position=now.position)
        pieces = tuple(PieceProgress(work.piece.chunk) for work in works)
        self._under_way = batch, BatchProgress(batch.number, now.started, batch.start, batch.end, pieces)
        writing.by_tasks()
        refused = {name: reason for piece in writing.done for name, reason in piece.refused.items()}
        if refused:
            self._pausing.add(batch.end, refused)
        passed_over = {changes.routes[name] for name in refused}
        for name, target in changes.targets.items():
            if name in passed_over:
                writing.discard(name, self._targets.opened(name))
            elif not target.committed:
                self._commit(now, writing, name, here=target.one_writer)
        for name in now.statements:
            if name not in now.reports:
                self._commit(now, writing, name)
        report = self._report(now, writing, events)
        self._journal.note(report)
        self._under_way = None
        self._compact(now)
        return report

    def _carry_out(self, now: _CaptureBatch) -> list[EventReport]:
        """Carry out the events, each once."""
        events = self._source.events(now.batch.start, now.batch.end)
        self._rules.require_own_targets([event.table for event in events if event.kind == CAPTURED])
        done = self._journal.events_done(now.identifier)[: len(events)]
        for event in events[len(done) :]:
            done.append(self._carried_out(now, event))
            self._journal.note_events(now.identifier, done)
        for event_report in done:
            if event_report.statement and event_report.table and event_report.table in self._targets:
                now.statements[event_report.table].append(event_report.statement)
        return done

    def _carried_out(self, now: _CaptureBatch, event: TableEvent) -> EventReport:
        """Carry out an event. A table that cannot follow it is paused, and what else comes for it in the
        batch is passed over; in the first batch of all, and where the rules ask to stop, it is an error."""
        paused = self._pausing.tables(now.batch.end)
        if event.table in paused:
            if event.kind == RENAMED and event.new_name is not None:
                self._pausing.add(now.batch.end, {event.new_name: paused[event.table]})
            return self._targets.reported(event, "", f"not carried out: {paused[event.table]}")
        try:
            return self._targets.carry_out(event, now.identifier)
        except SchemaMismatch as e:
            if not self._pausing.allowed(now.batch.start) or self._rules.schema_change == FAIL:
                raise
            names = [name for name in (event.table, event.new_name) if name is not None]
            self._pausing.add(now.batch.end, dict.fromkeys(names, str(e)))
            return self._targets.reported(event, "", f"not carried out: {e}")

    def _changes(self, now: _CaptureBatch, works: Sequence[WorkOf[CapturePiece]]) -> CaptureChanges:
        """What the pieces change, with all tables that they may have rows for."""
        sources = sorted(
            {name for work in works for name in work.piece.tables} - {*self._pausing.tables(now.batch.end)}
        )
        self._rules.require_own_targets(sources)
        routes = {name: self._targets.name(name) for name in sources}
        names = dict.fromkeys(routes.values())
        if self._letters:
            names |= dict.fromkeys([self._targets.letters(name) for name in names])
        targets = {name: self._target(now, name) for name in names}
        pausing = self._pausing.allowed(now.batch.start)
        return CaptureChanges(self._rules, routes, targets, self._letters, pausing)

    def _pool_bytes(self, targets: Mapping[str, TableTarget]) -> int:
        """The memory of all writers of a task: when it is full the largest buffer flushes, so a piece with
        hundreds of tables needs no more than one with one."""
        said = [target.buffer_bytes for target in targets.values() if target.buffer_bytes is not None]
        return self._settings.pool_bytes or max(said, default=POOL_BYTES)

    def _target(self, now: _CaptureBatch, name: str) -> TableTarget:
        """A table with the sequence numbers from which it takes rows, unless it has the batch already."""
        table = self._targets.opened(name)
        place = TablePlace.of(table)
        if has_batch(table, user=self._settings.user, identifier=now.identifier):
            now.reports[name] = TableReport(name)
            return TableTarget(place, committed=True)
        if not table.primary_key:
            self._require_next(now, name, table)
        base = self._height(name, table) + 1 if table.primary_key else None
        options = table.store.options
        said = options.write_buffer_bytes if WRITE_BUFFER in table.options else None
        return TableTarget(place, base, said, one_writer=takes_one_writer(table))

    def _require_next(self, now: _CaptureBatch, name: str, table: Table) -> None:
        """Raise InvalidRequest for a batch that a table without a key has under another identifier: a
        capture that lost a part of its checkpoint begins with it again."""
        position = table.position(self._settings.user)
        if position is None or position[1] is None or is_dead_letters(name):
            return
        start = json.loads(position[1]).get("start")
        if position[0] < now.identifier and start == now.batch.start:
            raise InvalidRequest(
                f"{name} has the rows behind {str(start)[:200]} already, and without a key they would be "
                "there twice: drop it, and begin anew with another name="
            )

    def _height(self, name: str, table: Table) -> int:
        """No row of the table has a higher sequence number, nor one that the batch under way has numbered.
        So it never sinks: a compaction by others after the numbering says nothing of these rows."""
        latest = table.store.snapshots.latest()
        if latest is None or not table.primary_key:
            return -1
        snapshot_id, height = self._heights.get(name, (None, -1))
        if snapshot_id != latest.id:
            height = max(height, table.max_sequence())
            self._heights[name] = latest.id, height
        return height

    def _commit(self, now: _CaptureBatch, writing: BatchWriting, name: str, *, here: bool = False) -> None:
        """Commit what tasks have written of a table, and the statements that it followed; `here`: what this
        process writes of it."""
        if not (here or name in now.statements or writing.written(name).messages):
            return
        table = self._targets.opened(name)
        height = self._height(name, table) + len(writing.done) * SEQUENCE_SPAN
        properties = partial(self._properties, now, name, writing.started(now.started))
        try:
            commit = writing.write_here if here else writing.commit
            written, committed = commit(name, table, properties)
        except PieceRefused as e:
            self._pausing.add(now.batch.end, e.tables)
            return
        self._targets.note_committed(name)
        counts = written.snapshot_rows, written.changes, written.bad_rows
        now.reports[name] = TableReport(name, *counts, committed.snapshot)
        if committed.snapshot is not None and not here:
            self._heights[name] = committed.snapshot, height

    def _properties(
        self, now: _CaptureBatch, name: str, started: float, written: RowsWritten
    ) -> dict[str, str]:
        phase = FULL_PHASE if written.snapshot_rows else CHANGES_PHASE
        properties = {PHASE: phase, ROWS: str(written.rows), STARTED: f"{started:.3f}"}
        if written.newest is not None:
            properties[SOURCE_TIME] = str(written.newest * 1000)
        if name in now.statements:
            properties[STATEMENT] = "; ".join(now.statements[name])[:_LONGEST_STATEMENT]
        return properties

    def _report(
        self, now: _CaptureBatch, writing: BatchWriting, events: Sequence[EventReport]
    ) -> BatchReport:
        batch = now.batch
        facts = self._source.facts(batch.start, batch.end)
        return BatchReport(
            batch.number,
            facts.planned,
            writing.started(now.started),
            self._seconds(),
            facts.position,
            log_bytes=facts.log_bytes,
            bytes_behind=facts.bytes_behind,
            commits=tuple(facts.commits),
            snapshotting=tuple(str(name) for name in facts.snapshotting),
            tables=tuple(now.reports.values()),
            chunks=tuple(_chunks(writing)),
            events=tuple(events),
            paused=tuple(str(name) for name in facts.paused),
        )

    def _compact(self, now: _CaptureBatch) -> None:
        """Compact the tables whose turn it is, all buckets at once; also after a repeated batch, since a kill
        may have come before its compaction."""
        tables: list[tuple[Table, int]] = []
        for name in now.reports:
            self._commits[name] = self._commits.get(name, -1) + 1
            tables.append((self._targets.opened(name), self._commits[name]))
        compact_tables(now.batch, tables, every=self._settings.compact_every)

    def _seconds(self) -> float:
        return self._env.now_ms() / 1000


def _chunks(writing: BatchWriting) -> Iterator[ChunkReport]:
    """The ranges of keys that tasks have read."""
    for work, done in zip(writing.works, writing.done, strict=False):  # nothing is done where no task wrote
        facts = work.piece.chunk
        if facts is not None:
            rows = sum(written.snapshot_rows for written in done.tables.values())
            ends = facts.low, facts.high, facts.last
            yield ChunkReport(str(facts.table), *ends, rows, done.started, done.ended)


@dataclass(frozen=True, slots=True)
class Pausing:
    """The paused tables of a source, batch by batch."""

    source: CaptureSource
    rules: CaptureRules

    def allowed(self, start: Offset) -> bool:
        """Whether a batch from `start` may leave a table out. A capture that is refused in its first batch
        has not begun, and tables that share their target are followed all or none."""
        begun = start != self.source.initial()
        return isinstance(self.source, PausingSource) and begun and not self.rules.merge_shards

    def tables(self, end: Offset) -> Mapping[SourceName, str]:
        """The tables of which the batch that ends here brings nothing, with the reason."""
        return self.source.paused(end) if isinstance(self.source, PausingSource) else {}

    def add(self, end: Offset, tables: Mapping[SourceName, str]) -> None:
        """Have the source go on without these, too; raises SchemaMismatch where there is no other."""
        assert isinstance(self.source, PausingSource), "only a source that can pause is asked to"
        if not self.source.pause(end, {**self.source.paused(end), **tables}):
            raise SchemaMismatch(next(iter(tables.values())))
