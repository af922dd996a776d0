"""MysqlDatabase: tables of a server as one capture source, their rows first, in chunks between which the log
of all of them is followed.

A batch with chunks plans them first, and then takes the end of the log as its position P. It has the changes
of all tables between the last position and P, and then the chunks, each read in a view at or after P. What a
view shows beyond P comes again in the next batch, which goes to the end of the log: with whole images and the
last one winning per key, rows are then exactly those of its position. No watermark of a chunk is kept, keys
are compared by the server alone, and changes of rows that are not read yet do no harm.

A batch ends in front of a statement that concerns the tables; the next one is the statement alone, as
events. What a table is behind it is looked up where its next rows stand in the log (they say how they lie
there), and where there are none it is that of the server now. So statements that came while nobody looked are
followed one by one.

    offset: `database_offset` · statements: `ddl`, `table_events`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from tablestore.cdc.capture.names import Patterns, SourceName, is_literal
from tablestore.cdc.capture.source import SKIPPED, BatchFacts, TableEvent
from tablestore.cdc.databases.address import Address, patiently
from tablestore.cdc.databases.chunks import FOLLOWED, READING, SETTLING, batch_facts, chunk_ranges
from tablestore.cdc.mysql import ddl
from tablestore.cdc.mysql.binlog import LogStatement
from tablestore.cdc.mysql.columns import NULL, SourceTable
from tablestore.cdc.mysql.database_offset import DatabaseProgress, Definitions, PausedTables
from tablestore.cdc.mysql.dump import DumpRecording
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.foreign_keys import Cascades, ForeignKeys
from tablestore.cdc.mysql.log_scan import BinlogScan, ScanRequest, scan
from tablestore.cdc.mysql.pieces import BinlogPiece, MysqlChunkPiece, log_pieces, next_chunks
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.cdc.mysql.server_checks import (
    bytes_between,
    kept_from,
    require_in_log,
    require_none_prepared,
    require_ready,
    server_id,
    with_creation,
)
from tablestore.cdc.mysql.snapshot import KeyRange
from tablestore.cdc.mysql.table_choice import TableChoice, foreseen, row_counts, table_now
from tablestore.cdc.mysql.table_events import EventOrigin, LaterTable, TableEvents, event_of, later_table
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import NotFound, Unavailable, Unsupported
from tablestore.flow.source import LogRetention, Offset

T = TypeVar("T")
_MOST_STATEMENTS = 100  # in a batch
_IDLE_BYTES = 16 << 20  # of the log of others, after which the position moves on
_TRIES = 20
_LOST = "its definition, which the checkpoint held, is lost"
_OUT = "it is left out now: its rows stay as they are"
_COMMITTED, _MENDED = "once such a transaction is committed", "once that is mended"


@dataclass(frozen=True)
class MysqlDatabase:
    """The tables of a server that are chosen. `zero_dates`: NULL or FAIL.

    `read_again`: tables of which this run empties what is in the lake and reads all rows once more. `there`
    are the chosen tables of the server as this run began.
    `chunk_rows` to a chunk, up to `chunks` of them in a batch, and about `log_bytes` of log; its log in up to
    `tasks` pieces. `bounded`: it ends once all rows are read and the log is followed to where it ended then.
    `recording` has the log of the newest batch, for the one task that reads it in this process.
    """

    address: Address
    choice: TableChoice
    definitions: Definitions
    chunk_rows: int = 200_000
    chunks: int = 4
    log_bytes: int = 256 << 20
    tasks: int = 2
    bounded: bool = False
    zero_dates: str = NULL
    read_again: Patterns = Patterns(())
    run: str = ""
    there: tuple[SourceName, ...] = ()
    recording: DumpRecording = field(default_factory=DumpRecording, repr=False, compare=False)

    @classmethod
    def open(
        cls,
        address: Address,
        choice: TableChoice,
        *,
        checkpoint: str,
        env: Env = SYSTEM,
        **how: Any,
    ) -> MysqlDatabase:
        """The tables as the server has them. Raises InvalidRequest with all that it must be set to, NotFound
        for a table that is asked for by its full name and is not there, and Unsupported where such a table
        cannot be captured."""
        patterns = choice.patterns
        with Connection.open(address) as connection:
            lowercase = connection.variables().get("lower_case_table_names", "0") == "1"
            choice = replace(choice, lowercase=lowercase)
            source = cls(address, choice, Definitions(checkpoint), run=env.uuid(), **how)
            tables = choice.all(connection)
            source = replace(source, there=tuple(tables))
            for pattern in source.read_again.include:
                if not any(fnmatchcase(str(name), pattern) for name in tables):
                    raise NotFound.among("captured table to read again", pattern, [str(n) for n in tables])
            databases = {name.database for name in tables} | {p.partition(".")[0] for p in patterns.include}
            require_ready(connection, dialect_of(connection), sorted(d for d in databases if is_literal(d)))
            for pattern in filter(is_literal, patterns.include):
                database, _, name = pattern.partition(".")
                table = tables.get(SourceName(database, name)) or SourceTable.read(connection, database, name)
                usable = choice.usable(table, known=True)
                if isinstance(usable, str):
                    raise Unsupported(str(table), usable)
        return source

    def initial(self) -> Offset:
        return DatabaseProgress().to_json()

    def next(self, start: Offset) -> Offset:
        """Chunks and what was logged meanwhile, or the log up to its end, to so many bytes, or to a statement
        that concerns the tables; or such a statement."""
        here = DatabaseProgress.from_json(start)
        if self.ended(start):
            return start
        if paused := self._to_pause(start):
            facts = {"planned": SYSTEM.now_ms() / 1000}
            here = replace(here, events=(), changed={}, facts=facts, ended="")
            return self._patiently(
                lambda connection: self._paused(connection, here, paused, _MENDED)
            ).to_json()
        there = self._patiently(lambda connection: self._next(connection, here))
        return start if there is None else there.to_json()

    def ended(self, offset: Offset) -> bool:
        """Of a bounded capture: whether this run has ended there. Another one goes on."""
        return self.bounded and offset.get("ended") == self.run and not self._to_pause(offset)

    def paused(self, end: Offset) -> dict[SourceName, str]:
        """The tables that are captured no longer behind a batch, since a sink could not follow them, with the
        reason."""
        return PausedTables(self.definitions.checkpoint).at(end)

    def pause(self, end: Offset, tables: Mapping[SourceName, str]) -> bool:
        """Capture these no longer behind the batch that ends here. False where no other is captured."""
        if set(DatabaseProgress.from_json(end).captured) <= set(tables):
            return False
        PausedTables(self.definitions.checkpoint).note(end, tables)
        return True

    def _to_pause(self, offset: Offset) -> dict[SourceName, str]:
        paused = self.paused(offset)
        if not paused:
            return {}
        captured = set(DatabaseProgress.from_json(offset).captured)
        return {name: reason for name, reason in paused.items() if name in captured}

    def events(self, start: Offset, end: Offset) -> list[TableEvent]:
        there = DatabaseProgress.from_json(end)
        assert there.position is not None or not there.events

        def definition(name: SourceName, digest: str) -> SourceTable:
            assert there.position is not None
            return self._definition(name, digest, there.position)

        events = [event_of(item, definition) for item in there.events]
        return [
            replace(event, kind=SKIPPED, reason=_OUT) if self._is_out(event.table, there) else event
            for event in events
        ]

    def foreseen(self, end: Offset) -> Mapping[SourceName, str]:
        """In words, which captured tables are known to have zero or impossible dates, and what becomes of
        them."""
        there = DatabaseProgress.from_json(end)
        tables = {name: self.definitions.get(there.tables[name].digest) for name in there.captured}
        defined = {name: table for name, table in tables.items() if table is not None}
        return self._patiently(lambda connection: foreseen(connection, defined, self.zero_dates))

    def pieces(self, start: Offset, end: Offset) -> list[BinlogPiece | MysqlChunkPiece]:
        """Pieces of the log, no key in two of them, then one for each chunk. Of a batch that an earlier run
        planned, without tables that this one leaves out or reads again: what stood against them is over."""
        here, there = DatabaseProgress.from_json(start), DatabaseProgress.from_json(end)
        if here.position is None or there.position is None or there.events:
            return []
        position, tables = here.position, {}
        for name, progress in there.tables.items():
            if self._set_aside(name, there):
                continue
            if progress.captured and (name in there.changed or here.tables[name].state == READING):
                definition = self._definition(name, progress.digest, position)
                tables[name] = definition.with_zero_dates(self.zero_dates)
        pieces: list[BinlogPiece | MysqlChunkPiece] = []
        keyless = {name for name, table in tables.items() if not table.primary_key}
        unread = {name for name in keyless if here.tables[name].state == READING}  # its chunk has all rows
        changed = {n: size for n, size in there.changed.items() if n in tables and n not in unread}
        groups = log_pieces(changed, self.tasks, whole=keyless)
        stretch = self.recording.between(position, there.position) if len(groups) == 1 else None
        for group in groups:
            parts = tuple((n.database, n.table, i, of) for n, (i, of) in group if of > 1)
            mine = tuple(tables[name] for name, _ in group)
            ends = (position, there.position, here.server, there.server)
            pieces.append(BinlogPiece(self.address, mine, *ends, parts, stretch))
        for name, progress in there.tables.items():
            before = here.tables.get(name)
            if before is None or before.state != READING or not progress.is_read or name not in tables:
                continue
            at = (there.position, there.server)
            for keys in chunk_ranges(before.key, progress.bounds, last=progress.state == SETTLING):
                is_last = keys[1] is None
                pieces.append(MysqlChunkPiece(self.address, tables[name], KeyRange(*keys), is_last, *at))
        return pieces

    def facts(self, start: Offset, end: Offset) -> BatchFacts:
        there = DatabaseProgress.from_json(end)
        return batch_facts(there.facts, str(there.position or ""), there.tables)

    def _is_out(self, name: SourceName, there: DatabaseProgress) -> bool:
        """Whether this run leaves out a table of a batch that an earlier one planned."""
        return there.run != self.run and not self.choice.choose(name)

    def _set_aside(self, name: SourceName, there: DatabaseProgress) -> bool:
        return self._is_out(name, there) or (there.run != self.run and self.read_again.match(name))

    def done(self, end: Offset) -> None:
        """The server keeps its binlog as long as it is set to."""

    def kept(self, end: Offset) -> list[LogRetention]:
        """How much of the time is over for which the server keeps its binlog from there."""
        there = DatabaseProgress.from_json(end)
        with Connection.open(self.address) as connection:
            mine = there.position is not None and server_id(connection) == there.server
            return [kept_from(connection, there.position)] if mine and there.position else []

    def _next(self, connection: Connection, here: DatabaseProgress) -> DatabaseProgress | None:
        facts = {"planned": SYSTEM.now_ms() / 1000}
        here = replace(here, events=(), changed={}, facts=facts, ended="")
        if here.position is None:
            return self._begun(connection, replace(here, run=self.run))
        if here.run != self.run and (asked := self._as_asked(connection, here)) is not None:
            return asked
        server = server_id(connection)
        other = server != here.server
        here = here if other else replace(here, run=self.run)
        assert here.position is not None
        if not other:
            require_in_log(connection, here.position)
        elif not here.position.gtid:
            raise here.position.of_another_log(
                str(self.address), f"it has no GTID by which {server} finds it"
            )
        lost = [name for name in here.captured if self.definitions.get(here.tables[name].digest) is None]
        if lost:
            return self._recovered(connection, here, lost)
        events = self._table_events(connection, here)
        if here.ancestries is None:  # of an offset of an earlier release
            events.cascades.look_up(events.keys())
            return events.applied(here)
        if not other and (stale := [n for n in here.stale if here.tables[n].state == FOLLOWED]):
            return self._cascaded(here, events, stale)
        return self._followed(connection, here, events, server)

    def _followed(
        self, connection: Connection, here: DatabaseProgress, events: TableEvents, server: int
    ) -> DatabaseProgress | None:
        """Chunks, and the log of a server up to where a batch may end."""
        assert here.position is not None
        other = server != here.server
        plan, trouble = next_chunks(connection, here, self.definitions, self.chunk_rows, self.chunks)
        end = dialect_of(connection).position(connection)
        capped = here.settled and not plan and trouble is None
        if self.bounded and capped and here.target is not None and not other:
            end = here.position.end_before(here.target, end)
        request = replace(
            self._scan_request(here.position, end, events, here.captured),
            most_bytes=self.log_bytes if capped else None,
            by_gtid=other,
        )
        passed = scan(self.address, request, self.recording)
        facts = dict(here.facts)
        facts |= {"commits": [list(pair) for pair in passed.commits], "log_bytes": passed.log_bytes}
        there = replace(here, position=passed.end, server=server, changed=passed.changed, facts=facts)
        events.cascades.mark(passed.cascaded)
        there = replace(there, stale=dict(events.cascades.stale))
        if other:
            forgotten = {name: replace(progress, through=None) for name, progress in here.tables.items()}
            there = there.with_tables(forgotten)
        if passed.refused is not None and not passed.changed:
            refused = dict.fromkeys(passed.refused.tables, passed.refused.reason)
            if set(here.captured) <= set(refused):
                raise passed.refused.of_all()
            return self._paused(connection, replace(there, position=passed.behind), refused, _COMMITTED)
        if passed.statement is not None and not passed.changed:
            return self._carried_out(connection, there, passed, end)
        facts["bytes_behind"] = bytes_between(connection, passed.end, end)
        if passed.stopped:
            return there.with_tables(there.without_bounds())
        if trouble is not None:
            raise trouble
        if plan:
            return there.with_tables({**there.settled_tables(), **plan}, settled=False)
        present = passed.end == end or other
        tables = there.settled_tables() if present or here.settled else there.without_bounds()
        there = there.with_tables(tables, settled=here.settled or present, target=None)
        if self.bounded:
            done = present and not there.stale
            there = replace(there, ended=self.run if done else "", target=None if present else end)
        quiet = not (passed.changed or other or self.bounded) and here.settled and here.stale == there.stale
        near = passed.end.file == here.position.file and passed.log_bytes < _IDLE_BYTES
        return None if quiet and present and near else there

    def _scan_request(
        self, start: LogPosition, end: LogPosition, events: TableEvents, captured: Iterable[SourceName]
    ) -> ScanRequest:
        tables = frozenset(captured)
        return ScanRequest(
            start,
            end,
            relevant=lambda statement: events.concerns(self.choice.effects(statement)),
            captured=tables,
            watch=events.cascades.watch(tables),
        )

    def _may_concern(self, statement: LogStatement) -> bool:
        """Whether a statement is about a table that may be captured."""
        effects = self.choice.effects(statement)
        names = [name for effect in effects for name in (effect.table, effect.new_name) if name is not None]
        drops = any(effect.kind == ddl.DROP_DATABASE for effect in effects)
        return drops or any(map(self.choice.choose, names))

    def _begun(self, connection: Connection, here: DatabaseProgress) -> DatabaseProgress:
        """The first batch: all tables that are there, at a position at which they are what was found."""
        dialect = dialect_of(connection)
        for _ in range(_TRIES):
            position = dialect.position(connection)
            require_none_prepared(connection)
            tables = self.choice.all(connection)
            events = self._table_events(connection, here)
            end = dialect.position(connection)
            passed = scan(self.address, ScanRequest(position, end, relevant=self._may_concern))
            if passed.statement is None:
                break
        else:
            raise Unavailable(f"{self.address}: tables are altered again and again")
        events.count = row_counts(connection, list(tables)).get
        for name, table in tables.items():
            events.capture(name, EventOrigin.now(position), table)
        there = replace(here, position=passed.end, server=server_id(connection))
        return events.applied(there)

    def _paused(
        self, connection: Connection, here: DatabaseProgress, paused: Mapping[SourceName, str], when: str
    ) -> DatabaseProgress:
        """A batch that says which tables are captured no longer, for which reasons, and `when` to read them
        again; the others go on."""
        assert here.position is not None
        events, now = self._table_events(connection, here), EventOrigin.now(here.position)
        events.tables = here.without_bounds()
        for name, reason in paused.items():
            remedy = f"{when}, read_again='{name}' (--read-again) reads it anew"
            events.pause(name, now, f"{reason}: its rows stay as they are; {remedy}")
        return events.applied(here)

    def _recovered(
        self, connection: Connection, here: DatabaseProgress, lost: Sequence[SourceName]
    ) -> DatabaseProgress:
        assert here.position is not None
        events = self._table_events(connection, here)
        for name in lost:
            events.read_again(name, EventOrigin.now(here.position), _LOST, emptied=False)
        return events.applied(here)

    def _cascaded(
        self, here: DatabaseProgress, events: TableEvents, stale: Sequence[SourceName]
    ) -> DatabaseProgress:
        """A batch that has tables read again which foreign keys changed without a trace."""
        assert here.position is not None
        for name in stale:
            events.cascaded(name, EventOrigin.now(here.position))
        return events.applied(here)

    def _as_asked(self, connection: Connection, here: DatabaseProgress) -> DatabaseProgress | None:
        """A batch that brings the tables to what this run was asked for: some are captured no longer, are so
        from now on, or are read again. None where all is as before. Where every table is read again, the log
        before is not needed any more."""
        assert here.position is not None
        out, again, new = here.asked_for(self.choice.choose, self.read_again.match, self.there)
        if not (out or again or new):
            return None
        if again and {*here.captured} <= {*out, *again}:
            end = with_creation(self.address, dialect_of(connection).position(connection))
            here = replace(here, position=end, server=server_id(connection), settled=True, target=None)
        elif server_id(connection) == here.server:
            assert here.position is not None
            require_in_log(connection, here.position)
        else:
            return None  # first the log of the other server is followed
        assert here.position is not None
        if again or new:
            require_none_prepared(connection)
        events, now = self._table_events(connection, here), EventOrigin.now(here.position)
        events.tables = here.without_bounds()
        for name in out:
            events.left_out(name, now, _OUT)
        for name in again:
            events.read_again(name, now, "it is read again, as asked for", emptied=True)
        for name in new:
            events.capture(name, now)
        return events.applied(here, run=self.run)

    def _carried_out(
        self, connection: Connection, here: DatabaseProgress, scanned: BinlogScan, end: LogPosition
    ) -> DatabaseProgress:
        """A batch of statements: the one that was found, and those behind it without rows between."""
        behind, statements, log_bytes = scanned.end, 0, 0
        events = self._table_events(connection, here)
        events.tables = here.without_bounds()
        while scanned.statement is not None and scanned.behind is not None and not scanned.changed:
            statement, behind = scanned.statement, scanned.behind
            statements, log_bytes = statements + 1, log_bytes + scanned.log_bytes
            cause = EventOrigin(behind, statement.seconds, statement.text)
            events.cascades.mark(scanned.cascaded)
            events.carry_out(cause, self.choice.effects(statement))
            if statements == _MOST_STATEMENTS or not end.reaches(behind):
                break
            captured = frozenset(name for name, progress in events.tables.items() if progress.captured)
            request = self._scan_request(behind, end, events, captured)
            scanned = scan(self.address, replace(request, one_change=True))
        facts = {**here.facts, "log_bytes": log_bytes}
        facts["bytes_behind"] = bytes_between(connection, behind, end)
        return events.applied(replace(here, position=behind, facts=facts))

    def _look(
        self, connection: Connection, name: SourceName, position: LogPosition, before: SourceTable | None
    ) -> LaterTable:
        return later_table(
            *(connection, self.address, name),
            position=position,
            before=before,
            effects=self.choice.effects,
            present=lambda name: table_now(connection, name),
        )

    def _definition(self, name: SourceName, digest: str, position: LogPosition) -> SourceTable:
        """A definition; one that is lost as the server has it."""
        definition = self.definitions.get(digest)
        if definition is not None:
            return definition
        later = self._patiently(lambda connection: self._look(connection, name, position, None)).table
        usable = self.choice.usable(later) if later is not None else "it is gone"
        if isinstance(usable, str):
            raise NotFound(
                f"the definition of {name}, which {self.definitions.checkpoint} held, is lost: {usable}"
            )
        return usable

    def _table_events(self, connection: Connection, here: DatabaseProgress) -> TableEvents:
        return TableEvents(
            dict(here.tables),
            self.definitions,
            self.choice.choose,
            self.choice.usable,
            lambda name, position, before: self._look(connection, name, position, before),
            lambda name: row_counts(connection, [name]).get(name),
            Cascades(ForeignKeys(connection), dict(here.ancestries or {}), dict(here.stale)),
        )

    def _patiently(self, action: Callable[[Connection], T]) -> T:
        def attempt() -> T:
            with Connection.open(self.address) as connection:
                return action(connection)

        return patiently(attempt, what=str(self.address))
