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

    offset: `database_offset` · statements: `ddl`, `table_events` · definitions: `definitions`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from tablestore.cdc.capture.names import APPEND, REFUSE, ByTable, Patterns, SourceName, first_match
from tablestore.cdc.capture.source import SKIPPED, BatchFacts, TableEvent
from tablestore.cdc.mysql import ddl
from tablestore.cdc.mysql.address import Address
from tablestore.cdc.mysql.binlog import Statement
from tablestore.cdc.mysql.cascades import Cascades
from tablestore.cdc.mysql.columns import NULL, SourceTable
from tablestore.cdc.mysql.database_offset import (
    FOLLOWED,
    GONE,
    HELD,
    READING,
    SETTLING,
    UNUSABLE,
    DatabaseProgress,
    TableProgress,
)
from tablestore.cdc.mysql.database_pieces import DatabaseChunkPiece, DatabaseLogPiece, log_pieces
from tablestore.cdc.mysql.ddl import Effect
from tablestore.cdc.mysql.definitions import Definitions
from tablestore.cdc.mysql.dialect import dialect_of
from tablestore.cdc.mysql.foreign_keys import ForeignKeys
from tablestore.cdc.mysql.later_table import later_table
from tablestore.cdc.mysql.log_identity import require_in_log, with_creation
from tablestore.cdc.mysql.log_scan import LogScan, Refused, scan
from tablestore.cdc.mysql.paused import PausedTables
from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.prepared import require_none_prepared
from tablestore.cdc.mysql.server import Connection, patiently
from tablestore.cdc.mysql.settings import require_ready, server_id
from tablestore.cdc.mysql.snapshot import Key, KeyRange, next_range
from tablestore.cdc.mysql.table_events import EventOrigin, LaterTable, TableEvents, event_of
from tablestore.cdc.mysql.zero_dates import foreseen
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError, Unavailable, Unsupported
from tablestore.flow.source import Offset

T = TypeVar("T")
_SYSTEM = {"information_schema", "mysql", "performance_schema", "sys"}
_MOST_STATEMENTS = 100  # in a batch
_IDLE_BYTES = 16 << 20  # of the log of others, after which the position moves on
_LEAST_SHARE = 1 / 16  # of a chunk, that a small table counts for
_TRIES = 20
_LOST = "its definition, which the checkpoint held, is lost"
_OUT = "it is left out now: its rows stay as they are"
_COMMITTED, _MENDED = "once such a transaction is committed", "once that is mended"
_CHANGED_BY_TEXT = "the log has a change of its rows as a statement (SET GLOBAL binlog_format = 'ROW')"
TABLES = "information_schema.tables"


@dataclass(frozen=True)
class MysqlDatabase:
    """The tables of a server that `patterns` choose, those too that come while it runs.

    `primary_keys` and `left_out` have columns by patterns of names; tables without a key are captured if
    `keyless` is APPEND, each in one chunk; `refusal` says why one of a name is not, empty if it is.
    `zero_dates`: NULL or FAIL.
    `read_again`: tables of which this run empties what is in the lake and reads all rows once more. `there`
    are the chosen tables of the server as this run began.
    `chunk_rows` to a chunk, up to `chunks` of them in a batch, and about `log_bytes` of log; its log in up to
    `tasks` pieces. `bounded`: it ends once all rows are read and the log is followed to where it ended then.
    """

    address: Address
    patterns: Patterns
    definitions: Definitions
    primary_keys: ByTable[tuple[str, ...]] = ()
    left_out: ByTable[tuple[str, ...]] = ()
    keyless: str = REFUSE
    refusal: Callable[[SourceName], str] | None = None
    chunk_rows: int = 200_000
    chunks: int = 4
    log_bytes: int = 256 << 20
    tasks: int = 2
    bounded: bool = False
    patience_seconds: float = 900
    lowercase: bool = False
    zero_dates: str = NULL
    read_again: Patterns = Patterns(())
    run: str = ""
    there: tuple[SourceName, ...] = ()

    @classmethod
    def open(
        cls,
        address: Address,
        patterns: Patterns,
        *,
        checkpoint: str,
        primary_keys: Mapping[str, Sequence[str]] | None = None,
        left_out: Mapping[str, Sequence[str]] | None = None,
        env: Env = SYSTEM,
        **how: Any,
    ) -> MysqlDatabase:
        """The tables as the server has them. Raises InvalidRequest with all that it must be set to, NotFound
        for a table that is asked for by its full name and is not there, and Unsupported where such a table
        cannot be captured."""
        keys = tuple((name, tuple(columns)) for name, columns in (primary_keys or {}).items())
        out = tuple((name, tuple(columns)) for name, columns in (left_out or {}).items())
        with Connection.open(address) as connection:
            lowercase = connection.variables().get("lower_case_table_names", "0") == "1"
            source = cls(
                *(address, patterns, Definitions(checkpoint), keys, out),
                lowercase=lowercase,
                run=env.uuid(),
                **how,
            )
            tables = source._tables(connection)
            source = replace(source, there=tuple(tables))
            for pattern in source.read_again.include:
                if not any(fnmatchcase(str(name), pattern) for name in tables):
                    raise NotFound.among("captured table to read again", pattern, [str(n) for n in tables])
            databases = {name.database for name in tables} | {p.partition(".")[0] for p in patterns.include}
            require_ready(connection, dialect_of(connection), sorted(d for d in databases if _plain(d)))
            for pattern in filter(_plain, patterns.include):
                database, _, name = pattern.partition(".")
                table = tables.get(SourceName(database, name)) or SourceTable.read(connection, database, name)
                usable = source._usable(table, known=True)
                if isinstance(usable, str):
                    raise Unsupported(str(table), usable)
        return source

    def chosen(self, name: SourceName) -> bool:
        """Whether the table is captured if it is there. What tools for online schema changes make beside a
        table is not, unless it is asked for by its full name."""
        return name.database.lower() not in _SYSTEM and self.patterns.choose(name)

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

        found = [event_of(item, definition) for item in there.events]
        return [
            replace(event, kind=SKIPPED, reason=_OUT) if self._is_out(event.table, there) else event
            for event in found
        ]

    def foreseen(self, end: Offset) -> Mapping[SourceName, str]:
        """In words, which captured tables are known to have zero or impossible dates, and what becomes of
        them."""
        there = DatabaseProgress.from_json(end)
        tables = {name: self.definitions.get(there.tables[name].digest) for name in there.captured}
        known = {name: table for name, table in tables.items() if table is not None}
        return self._patiently(lambda connection: foreseen(connection, known, self.zero_dates))

    def pieces(self, start: Offset, end: Offset) -> list[DatabaseLogPiece | DatabaseChunkPiece]:
        """Pieces of the log, no key in two of them, then one for each chunk. Of a batch that an earlier run
        planned, without tables that this one leaves out or reads again: what stood against them is over."""
        here, there = DatabaseProgress.from_json(start), DatabaseProgress.from_json(end)
        if here.position is None or there.position is None or there.events:
            return []
        position, tables = here.position, {}
        for name, one in there.tables.items():
            if self._set_aside(name, there):
                continue
            if one.captured and (name in there.changed or here.tables[name].state == READING):
                definition = self._definition(name, one.digest, position)
                tables[name] = definition.with_zero_dates(self.zero_dates)
        found: list[DatabaseLogPiece | DatabaseChunkPiece] = []
        keyless = {name for name, table in tables.items() if not table.primary_key}
        unread = {name for name in keyless if here.tables[name].state == READING}  # its chunk has all rows
        changed = {n: size for n, size in there.changed.items() if n in tables and n not in unread}
        for group in log_pieces(changed, self.tasks, whole=keyless):
            parts = tuple((n.database, n.table, i, of) for n, (i, of) in group if of > 1)
            mine = tuple(tables[name] for name, _ in group)
            ends = (position, there.position, here.server, there.server)
            found.append(DatabaseLogPiece(self.address, mine, *ends, self.patience_seconds, parts))
        for name, one in there.tables.items():
            known = here.tables.get(name)
            if known is None or known.state != READING or not one.is_read or name not in tables:
                continue
            last = one.state == SETTLING
            ranges = zip([known.key, *one.bounds], [*one.bounds, *([None] if last else [])], strict=False)
            for low, high in ranges:
                keys, is_last = KeyRange(low, high), last and high is None
                at = (there.position, there.server, self.patience_seconds)
                found.append(DatabaseChunkPiece(self.address, tables[name], keys, is_last, *at))
        return found

    def facts(self, start: Offset, end: Offset) -> BatchFacts:
        there = DatabaseProgress.from_json(end)
        facts = there.facts
        return BatchFacts(
            facts.get("planned", 0.0),
            str(there.position or ""),
            tuple((at, n) for at, n in facts.get("commits", ())),
            facts.get("log_bytes", 0),
            facts.get("bytes_behind", 0),
            *(tuple(name for name, one in there.tables.items() if one.state == s) for s in (READING, HELD)),
        )

    def _is_out(self, name: SourceName, there: DatabaseProgress) -> bool:
        """Whether this run leaves out a table of a batch that an earlier one planned."""
        return there.run != self.run and not self.chosen(name)

    def _set_aside(self, name: SourceName, there: DatabaseProgress) -> bool:
        return self._is_out(name, there) or (there.run != self.run and self.read_again.match(name))

    def done(self, end: Offset) -> None:
        """The server keeps its binlog as long as it is set to."""

    def _next(self, connection: Connection, here: DatabaseProgress) -> DatabaseProgress | None:
        facts: dict[str, Any] = {"planned": SYSTEM.now_ms() / 1000}
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
        plan, trouble = self._plan(connection, here)
        end = dialect_of(connection).position(connection)
        capped = here.settled and not plan and trouble is None
        if self.bounded and capped and here.target is not None and not other:
            reached = here.position.reaches(here.target)
            end = here.position if reached else here.target if end.reaches(here.target) else end
        found = scan(
            self.address,
            start=here.position,
            until=end,
            captured=frozenset(here.captured),
            relevant=lambda statement: events.concerns(self._effects(statement)),
            watch=events.cascades.watch(here.captured),
            most_bytes=self.log_bytes if capped else None,
            by_gtid=other,
        )
        facts |= {"commits": [list(pair) for pair in found.commits], "log_bytes": found.log_bytes}
        there = replace(here, position=found.end, server=server, changed=found.changed, facts=facts)
        events.cascades.mark(found.cascaded)
        there = replace(there, stale=dict(events.cascades.stale))
        if other:
            forgotten = {name: replace(one, through=None) for name, one in here.tables.items()}
            there = there.with_tables(forgotten)
        if found.refused is not None and not found.changed:
            refused = dict.fromkeys(found.refused.tables, found.refused.reason)
            if set(here.captured) <= set(refused):
                raise self._nothing_left(found.refused)
            return self._paused(connection, replace(there, position=found.behind), refused, _COMMITTED)
        if found.statement is not None and not found.changed:
            return self._carried_out(connection, there, found, end)
        facts["bytes_behind"] = self._bytes_between(connection, found.end, end)
        if found.stopped:
            return there.with_tables(_without_bounds(there.tables))
        if trouble is not None:
            raise trouble
        if plan:
            return there.with_tables({**_settled(there.tables), **plan}, settled=False)
        present = found.end == end or other
        tables = _settled(there.tables) if present or here.settled else _without_bounds(there.tables)
        there = there.with_tables(tables, settled=here.settled or present, target=None)
        if self.bounded:
            done = present and not there.stale
            there = replace(there, ended=self.run if done else "", target=None if present else end)
        quiet = not (found.changed or other or self.bounded) and here.settled and here.stale == there.stale
        near = found.end.file == here.position.file and found.log_bytes < _IDLE_BYTES
        return None if quiet and near else there

    def _begun(self, connection: Connection, here: DatabaseProgress) -> DatabaseProgress:
        """The first batch: all tables that are there, at a position at which they are what was found."""
        dialect = dialect_of(connection)
        for _ in range(_TRIES):
            position = dialect.position(connection)
            require_none_prepared(connection)
            tables = self._tables(connection)
            events = self._table_events(connection, here)
            end = dialect.position(connection)
            found = scan(
                self.address,
                start=position,
                until=end,
                captured=(),
                relevant=lambda statement: (
                    any(
                        self.chosen(name)
                        for one in self._effects(statement)
                        for name in (one.table, one.new_name)
                        if name is not None
                    )
                    or any(one.kind == ddl.DROP_DATABASE for one in self._effects(statement))
                ),
            )
            if found.statement is None:
                break
        else:
            raise Unavailable(f"{self.address}: tables are altered again and again")
        events.count = self._counts(connection, list(tables)).get
        for name, table in tables.items():
            events.capture(name, _now(position), table)
        there = replace(here, position=found.end, server=server_id(connection))
        return events.applied(there)

    @staticmethod
    def _nothing_left(refused: Refused) -> Unsupported:
        shown = ",".join(map(str, refused.tables))
        return Unsupported(
            f"{refused.reason}, of {shown}",
            "no other table is captured; once such a transaction is committed, "
            f"read_again='{shown}' (--read-again) reads all rows anew",
        )

    def _paused(
        self, connection: Connection, here: DatabaseProgress, paused: Mapping[SourceName, str], when: str
    ) -> DatabaseProgress:
        """A batch that says which tables are captured no longer, for which reasons, and `when` to read them
        again; the others go on."""
        assert here.position is not None
        events, now = self._table_events(connection, here), _now(here.position)
        events.tables = dict(_without_bounds(here.tables))
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
            events.read_again(name, _now(here.position), _LOST, emptied=False)
        return events.applied(here)

    def _cascaded(
        self, here: DatabaseProgress, events: TableEvents, stale: Sequence[SourceName]
    ) -> DatabaseProgress:
        """A batch that has tables read again which foreign keys changed without a trace."""
        assert here.position is not None
        for name in stale:
            events.cascaded(name, _now(here.position))
        return events.applied(here)

    def _as_asked(self, connection: Connection, here: DatabaseProgress) -> DatabaseProgress | None:
        """A batch that brings the tables to what this run was asked for: some are captured no longer, are so
        from now on, or are read again. None where all is as before. Where every table is read again, the log
        before is not needed any more."""
        assert here.position is not None
        out = [
            name
            for name, one in here.tables.items()
            if (one.captured or one.state == HELD) and not self.chosen(name)
        ]
        again = [
            name
            for name, one in here.tables.items()
            if one.state != GONE and self.chosen(name) and self.read_again.match(name)
        ]
        new = [
            name
            for name in self.there
            if name not in again and (name not in here.tables or here.tables[name].state in (UNUSABLE, GONE))
        ]
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
        events, now = self._table_events(connection, here), _now(here.position)
        events.tables = dict(_without_bounds(here.tables))
        for name in out:
            events.left_out(name, now, _OUT)
        for name in again:
            events.read_again(name, now, "it is read again, as asked for", emptied=True)
        for name in new:
            events.capture(name, now)
        return events.applied(here, run=self.run)

    def _carried_out(
        self,
        connection: Connection,
        here: DatabaseProgress,
        found: LogScan,
        end: LogPosition,
    ) -> DatabaseProgress:
        """A batch of statements: the one that was found, and those behind it without rows between."""
        behind, statements, log_bytes = found.end, 0, 0
        events = self._table_events(connection, here)
        events.tables = dict(_without_bounds(here.tables))
        while found.statement is not None and found.behind is not None and not found.changed:
            statement, behind = found.statement, found.behind
            statements, log_bytes = statements + 1, log_bytes + found.log_bytes
            cause = EventOrigin(behind, statement.seconds, statement.text)
            events.cascades.mark(found.cascaded)
            events.carry_out(cause, self._effects(statement))
            if statements == _MOST_STATEMENTS or not end.reaches(behind):
                break
            captured = frozenset(name for name, one in events.tables.items() if one.captured)
            found = scan(
                self.address,
                start=behind,
                until=end,
                captured=captured,
                relevant=lambda statement: events.concerns(self._effects(statement)),
                watch=events.cascades.watch(captured),
                one_change=True,
            )
        facts = {**here.facts, "log_bytes": log_bytes}
        facts["bytes_behind"] = self._bytes_between(connection, behind, end)
        return events.applied(replace(here, position=behind, facts=facts))

    def _plan(
        self, connection: Connection, here: DatabaseProgress
    ) -> tuple[dict[SourceName, TableProgress], TablestoreError | None]:
        """(tables whose next rows a batch reads, and what their chunks are; what came between)."""
        reading = {name: one for name, one in here.tables.items() if one.state == READING}
        counts = self._counts(connection, list(reading)) if reading else {}
        found: dict[SourceName, TableProgress] = {}
        budget = float(max(1, self.chunks))
        for name, one in reading.items():
            if budget <= 0:
                break
            table = self.definitions.get(one.digest)
            assert table is not None, "lost definitions are looked up first"
            bounds: list[Key] = []
            key, last = one.key, False
            try:
                while budget > 0 and not last:
                    high = next_range(connection, table, key, self.chunk_rows).high
                    if high is None:
                        last, small = True, (counts.get(name) or 0) / max(1, self.chunk_rows)
                        budget -= min(1.0, max(_LEAST_SHARE, small))
                    else:
                        bounds.append(high)
                        key, budget = high, budget - 1
            except (NotFound, InvalidRequest) as e:  # it was altered: the log says so
                return {}, e
            state = SETTLING if last else READING
            found[name] = replace(one, state=state, key=None if last else key, bounds=tuple(bounds))
        return found, None

    def _look(
        self, connection: Connection, name: SourceName, position: LogPosition, before: SourceTable | None
    ) -> LaterTable:
        return later_table(
            *(connection, self.address, name),
            position=position,
            before=before,
            effects=self._effects,
            present=lambda name: self._table(connection, name),
        )

    def _definition(self, name: SourceName, digest: str, position: LogPosition) -> SourceTable:
        """A definition; one that is lost as the server has it."""
        found = self.definitions.get(digest)
        if found is not None:
            return found
        later = self._patiently(lambda connection: self._look(connection, name, position, None)).table
        usable = self._usable(later) if later is not None else "it is gone"
        if isinstance(usable, str):
            raise NotFound(
                f"the definition of {name}, which {self.definitions.checkpoint} held, is lost: {usable}"
            )
        return usable

    def _usable(self, table: SourceTable, *, known: bool = False) -> SourceTable | str:
        """A table as it is captured, or why it cannot be. `known`: raises NotFound for columns of
        `primary_keys` and `left_out` that it does not have."""
        name = SourceName(table.database, table.name)
        if self.refusal is not None and (reason := self.refusal(name)):
            return reason
        out = first_match(self.left_out, name) or ()
        key = first_match(self.primary_keys, name) or tuple(table.primary_key)
        there = {column.name for column in table.columns}
        for column in (*out, *key) if known else ():
            table.column(column)
        if not key and self.keyless != APPEND:
            return (
                "it has no primary key: ALTER TABLE … ADD PRIMARY KEY, name its key in primary_keys, or "
                "take keyless='append' if its rows are never changed"
            )
        if missing := [column for column in key if column not in there or column in out]:
            return f"its key has no column {missing[0]!r}"
        kept = tuple(
            replace(column, in_key=column.name in key) for column in table.columns if column.name not in out
        )
        found = replace(table, columns=kept, primary_key=key, left_out=out)
        try:
            found.require_captured()
        except Unsupported as e:
            return str(e)
        return found

    def _tables(self, connection: Connection) -> dict[SourceName, SourceTable]:
        """The chosen tables as they are now."""
        rows = connection.rows(
            f"SELECT table_schema, table_name FROM {TABLES} "
            "WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')"
        )
        names = sorted(name for name in (SourceName(*row) for row in rows) if self.chosen(name))
        found: dict[SourceName, SourceTable] = {}
        for database in dict.fromkeys(name.database for name in names):
            tables = SourceTable.read_all(connection, database)
            mine = (name for name in names if name.database == database and name.table in tables)
            found |= {name: tables[name.table] for name in mine}
        return found

    def _table(self, connection: Connection, name: SourceName) -> SourceTable | None:
        return SourceTable.read_all(connection, name.database, name.table).get(name.table)

    def _counts(self, connection: Connection, names: Sequence[SourceName]) -> dict[SourceName, int]:
        """About how many rows tables have."""
        found: dict[SourceName, int] = {}
        for database in dict.fromkeys(name.database for name in names):
            query = f"SELECT table_name, table_rows FROM {TABLES} WHERE table_schema = %s"
            mine = [name.table for name in names if name.database == database]
            if len(mine) == 1:
                rows = connection.rows(f"{query} AND table_name = %s", database, mine[0])
            else:
                rows = connection.rows(query, database)
            found |= {SourceName(database, table): int(n) for table, n in rows if n is not None}
        return found

    def _table_events(self, connection: Connection, here: DatabaseProgress) -> TableEvents:
        return TableEvents(
            dict(here.tables),
            self.definitions,
            self.chosen,
            self._usable,
            lambda name, position, before: self._look(connection, name, position, before),
            lambda name: self._counts(connection, [name]).get(name),
            Cascades(ForeignKeys(connection), dict(here.ancestries or {}), dict(here.stale)),
        )

    def _effects(self, statement: Statement) -> list[Effect]:
        if statement.changes:
            names = (SourceName(*name) for name in statement.changes)
            return [Effect(ddl.UNKNOWN, name, reason=_CHANGED_BY_TEXT) for name in names]
        return ddl.effects(statement.text, statement.database, lowercase=self.lowercase)

    @staticmethod
    def _bytes_between(connection: Connection, start: LogPosition, end: LogPosition) -> int:
        if start.file == end.file:
            return max(0, end.offset - start.offset)
        sizes = {str(row[0]): int(row[1]) for row in connection.rows("SHOW BINARY LOGS")}
        first, last = start.order[0], end.order[0]
        between = sum(n for file, n in sizes.items() if first < LogPosition(file, 0).order[0] < last)
        return max(0, sizes.get(start.file, start.offset) - start.offset) + between + end.offset

    def _patiently(self, action: Callable[[Connection], T]) -> T:
        def attempt() -> T:
            with Connection.open(self.address) as connection:
                return action(connection)

        return patiently(attempt, what=str(self.address), patience_seconds=self.patience_seconds)


def _settled(tables: Mapping[SourceName, TableProgress]) -> dict[SourceName, TableProgress]:
    """The tables once the log has reached all that was read of them."""
    found = _without_bounds(tables)
    return {
        name: replace(one, state=FOLLOWED) if one.state == SETTLING else one for name, one in found.items()
    }


def _without_bounds(tables: Mapping[SourceName, TableProgress]) -> dict[SourceName, TableProgress]:
    return {name: replace(one, bounds=()) if one.bounds else one for name, one in tables.items()}


def _now(position: LogPosition) -> EventOrigin:
    """The origin of what no statement causes."""
    return EventOrigin(position, int(SYSTEM.now_ms() / 1000))


def _plain(pattern: str) -> bool:
    """Whether it is the name of one table or database."""
    return not any(c in "*?[" for c in pattern)
