"""PostgresDatabase: tables of a database as one capture source, their rows first, in chunks between which
the log of all of them is followed.

A batch with chunks plans them first, and then takes the end of the log as its position P. It has the changes
of all tables between the last position and P, and then the chunks, each read in a view that has all before
P. What a view shows beyond P comes again in the next batch: the last image of a key wins, and rows are then
those of its position.

The log says nothing of statements that alter tables. So a batch looks at the catalog in a view that has all
before P. A table that is another there is altered first, by a batch of events alone. It is read again,
unless it has only grown by columns that are NULL in its rows; so is one whose rows the log has otherwise than
its definition says: it was altered, and altered back. Its changes count from its first chunk on.

The first batch only looks, and changes nothing on the server; the second makes the slot. The slot moves on
where a batch begins: what is before it is committed, and noted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tablestore.cdc.capture.names import Patterns, SourceName, is_literal
from tablestore.cdc.capture.source import (
    ALTERED,
    CAPTURED,
    DROPPED,
    EMPTIED,
    PAUSED,
    SKIPPED,
    BatchFacts,
    TableEvent,
)
from tablestore.cdc.databases.address import Address, patiently
from tablestore.cdc.databases.chunks import (
    FOLLOWED,
    GONE,
    HELD,
    READING,
    SETTLING,
    UNUSABLE,
    batch_facts,
    chunk_plan,
    chunk_ranges,
    share_of,
)
from tablestore.cdc.postgres.offset import PostgresOffset, PostgresProgress
from tablestore.cdc.postgres.pgoutput import BEGIN, CHANGES, EPOCH_SECONDS, RELATION, LogTable
from tablestore.cdc.postgres.pieces import PostgresChunkPiece, PostgresLogPiece, key_after
from tablestore.cdc.postgres.server import ALTERING, Connection, title_of
from tablestore.cdc.postgres.slot import AGAIN, PEEK, Slot, lsn_text, require_ready, server_of
from tablestore.cdc.postgres.tables import DEFAULT, PostgresTable, row_counts, tables_now
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import NotFound, Unavailable, Unsupported
from tablestore.flow.source import LogRetention, Offset

_IDLE_BYTES = 1 << 20  # of the log of others, after which the position moves on: each look decodes it
_TRIES = 20
_SECOND = "('x' || encode(substring(data FROM 10 FOR 8), 'hex'))::bit(64)::int8 / 1000000"
_CHANGED = f"""
    SELECT CASE get_byte(data, 0) WHEN {RELATION} THEN data
        WHEN {BEGIN} THEN substring(data FROM 1 FOR 1) || int8send({_SECOND})
        ELSE substring(data FROM 1 FOR 5) END, count(*)
    FROM {PEEK} GROUP BY 1"""


@dataclass(frozen=True)
class PostgresDatabase:
    """The tables of a database that are chosen, under the names of their schemas. `chunk_rows` to a chunk,
    up to `chunks` of them in a batch, and about `log_bytes` of log. `bounded`: it ends once all rows are
    read and the log is followed to where it ended then. `read_again`: tables that this run empties in the
    lake and reads once more."""

    address: Address
    patterns: Patterns
    slot: Slot
    chunk_rows: int = 200_000
    chunks: int = 4
    log_bytes: int = 256 << 20
    bounded: bool = False
    read_again: Patterns = Patterns(())
    run: str = ""

    @classmethod
    def open(
        cls, address: Address, patterns: Patterns, slot: Slot, *, env: Env = SYSTEM, **how: Any
    ) -> PostgresDatabase:
        """Raises InvalidRequest with all that the server must be set to, NotFound for a table that is asked
        for by its full name and is not there, and Unsupported where such a table cannot be captured."""
        source = cls(address, patterns, slot, run=env.uuid(), **how)
        with Connection.open(address) as connection:
            require_ready(connection, slot.publication, address.user)
            tables = source._tables(connection)
        for pattern in filter(is_literal, patterns.include):
            name = SourceName(*pattern.split(".", 1))
            if name not in tables:
                raise NotFound.among("table", pattern, [str(n) for n in tables])
            if isinstance(reason := tables[name], str):
                raise Unsupported(f"table {name}", reason)
        return source

    def initial(self) -> Offset:
        return PostgresOffset().to_json()

    def next(self, start: Offset) -> Offset:
        """Events of tables; or chunks, and the log up to its end or about so many bytes."""
        if self.ended(start):
            return start

        def planned() -> PostgresOffset | None:
            with Connection.open(self.address) as connection:
                return self._next(connection, PostgresOffset.from_json(start))

        there = patiently(planned, what=title_of(self.address))
        return start if there is None else there.to_json()

    def ended(self, offset: Offset) -> bool:
        """Of a bounded capture: whether this run has ended there. Another one goes on."""
        return self.bounded and offset.get("ended") == self.run

    def events(self, start: Offset, end: Offset) -> list[TableEvent]:
        there = PostgresOffset.from_json(end)
        position = lsn_text(there.position or 0)
        table_events = []
        for item in there.events:
            name = SourceName(*item["table"])
            table = there.tables[name].table if item.get("shaped") else None
            shape = None if table is None else table.shape
            event = TableEvent(item["kind"], name, position, shape, reason=item.get("reason", ""))
            table_events.append(
                replace(
                    event, read_again=item.get("read_again", False), renamed_columns=item.get("renamed", {})
                )
            )
        return table_events

    def pieces(self, start: Offset, end: Offset) -> list[PostgresLogPiece | PostgresChunkPiece]:
        """A piece of the log, then one for each chunk."""
        here, there = PostgresOffset.from_json(start), PostgresOffset.from_json(end)
        if there.events or there.position is None:
            return []
        pieces: list[PostgresLogPiece | PostgresChunkPiece] = []
        followed = tuple(
            p.table
            for n, p in there.tables.items()
            if p.table is not None and p.table.number in there.changed and here.tables[n].has_rows
        )
        if here.position is not None and followed:
            span = (here.position, there.position)
            pieces.append(PostgresLogPiece(self.address, self.slot, followed, *span))
        for name, progress in there.tables.items():
            before = here.tables.get(name)
            if before is None or before.state != READING or progress.table is None:
                continue
            for low, high in chunk_ranges(before.key, progress.bounds, last=progress.state == SETTLING):
                where = (low, high, high is None, there.position)
                pieces.append(PostgresChunkPiece(self.address, progress.table, *where))
        return pieces

    def facts(self, start: Offset, end: Offset) -> BatchFacts:
        there = PostgresOffset.from_json(end)
        return batch_facts(there.facts, lsn_text(there.position or 0), there.tables)

    def done(self, end: Offset) -> None:
        """The slot stays until the next batch is planned: what is committed is not noted yet."""

    def kept(self, end: Offset) -> list[LogRetention]:
        """How much of what the server may keep for the slot is used."""
        with Connection.open(self.address) as connection:
            return self.slot.kept(connection)

    def foreseen(self, end: Offset) -> Mapping[SourceName, str]:
        """In words, what the replica identity of tables means for their changes."""
        long = ("text", "varchar", "bytea", "json", "jsonb", "numeric", "")
        words = {}
        for name, progress in PostgresOffset.from_json(end).tables.items():
            table = progress.table
            if table is not None and table.identity == DEFAULT and any(c.kind in long for c in table.columns):
                words[name] = (
                    "REPLICA IDENTITY DEFAULT: long values that an update leaves alone are not in the log, "
                    "and are read from the table"
                )
        return words

    def _tables(self, connection: Connection) -> dict[SourceName, PostgresTable | str]:
        with connection.view():
            return tables_now(connection, self.slot.publication, self.patterns.choose)

    def _next(self, connection: Connection, here: PostgresOffset) -> PostgresOffset | None:
        facts = {"planned": SYSTEM.now_ms() / 1000}
        here = replace(here, events=(), changed=(), facts=facts, ended="")
        require_ready(connection, self.slot.publication, self.address.user)
        again = self._read_again(here) if here.run != self.run else {}
        here = replace(here, run=self.run, tables=here.moved_on(settled=False))
        if here.position is not None and again.keys() >= {*here.captured}:
            here = replace(here, position=None, settled=True)  # none of its log is needed
        if here.position is not None:
            if server_of(connection) != here.server:
                raise NotFound(
                    f"{title_of(self.address)} is another server than before, or another timeline of it: "
                    f"{AGAIN}"
                )
            self.slot.require(connection, here.position)
        if not here.looked or again:
            return self._with_events(here, self._tables(connection), again)
        if here.position is None:
            self.slot.make(connection)
            return self._followed(connection, replace(here, server=server_of(connection)))
        self.slot.move(connection, here.position)
        return self._followed(connection, here)

    def _read_again(self, here: PostgresOffset) -> dict[SourceName, str]:
        return {
            name: "it is read again, as asked for"
            for name, progress in here.tables.items()
            if progress.state != GONE and self.read_again.match(name)
        }

    def _followed(self, connection: Connection, here: PostgresOffset) -> PostgresOffset | None:
        """Chunks, and the log up to where a batch may end; or events, where tables are others."""
        for _ in range(_TRIES):
            tables = self._tables(connection)
            altered = self._with_events(here, tables, {})
            if altered is not None:
                return altered
            try:
                plan = self._next_chunks(connection, here)
            except NotFound:
                continue  # it was dropped or renamed at this moment
            log_end = connection.log_end()
            if self._same_behind(connection, here, tables):
                break
        else:
            raise Unavailable(f"{title_of(self.address)}: tables are altered again and again")
        end, target = log_end, None
        if here.position is not None and here.settled and not plan:
            target = (here.target or log_end) if self.bounded else None
            end = min(target or log_end, here.position + self.log_bytes)
        start = end if here.position is None else here.position
        changed, commits, others = self._changes(connection, here, start, end)
        if others:
            return self._with_events(here, tables, dict.fromkeys(others, "it was altered, and altered back"))
        facts = {**here.facts, "commits": commits, "log_bytes": end - start, "bytes_behind": log_end - end}
        states = here.moved_on(settled=True) | plan
        there = replace(here, position=end, tables=states, changed=changed, facts=facts, settled=not plan)
        if plan:
            return there
        if self.bounded:
            reached = here.settled and end == target
            return replace(there, ended=self.run if reached else "", target=None if reached else target)
        quiet = not changed and here.settled and here.position is not None
        return None if quiet and end == log_end and end - start < _IDLE_BYTES else there

    def _same_behind(
        self, connection: Connection, here: PostgresOffset, tables: Mapping[SourceName, PostgresTable | str]
    ) -> bool:
        """Whether captured tables are still the same in a view that has all statements that altered them and
        are in the log by now."""
        captured = {n: p.table.number for n, p in here.tables.items() if p.captured and p.table is not None}
        connection.wait_until_visible([*captured.values()], ALTERING)
        now = self._tables(connection)
        return all(now.get(name) == tables.get(name) for name in captured)

    def _changes(
        self, connection: Connection, here: PostgresOffset, start: int, end: int
    ) -> tuple[tuple[int, ...], list[list[int]], list[SourceName]]:
        """(numbers of captured tables with changes between two places, transactions by their seconds, tables
        that the log has otherwise than they are)."""
        if start >= end:
            return (), [], []
        messages = connection.rows(_CHANGED, self.slot.name, lsn_text(end), self.slot.publication)
        mine = {
            p.table.number: (name, p.table)
            for name, p in here.tables.items()
            if p.table is not None and p.has_rows
        }
        changed: list[int] = []
        commits: list[list[int]] = []
        others: list[SourceName] = []
        for message, count in messages:
            code, number = message[0], int.from_bytes(message[1:5], "big")
            if code == BEGIN:
                commits.append([int.from_bytes(message[1:], "big") + EPOCH_SECONDS, count])
            elif code in CHANGES and number in mine:
                changed.append(number)
            elif code == RELATION and number in mine:
                name, table = mine[number]
                if not table.agrees(LogTable.parse(message)):
                    others.append(name)
        return tuple(dict.fromkeys(changed)), commits, others

    def _next_chunks(
        self, connection: Connection, here: PostgresOffset
    ) -> dict[SourceName, PostgresProgress]:
        """Tables whose next rows a batch reads, and what their chunks are."""

        def next_bound(progress: PostgresProgress, low: str | None) -> str | None:
            assert progress.table is not None, "a table that is read has a definition"
            return key_after(connection, progress.table, low, self.chunk_rows)

        reading = (p.table for p in here.tables.values() if p.state == READING and p.table is not None)
        counts = row_counts(connection, {table.number: table.source for table in reading})
        share = lambda name: share_of(counts.get(name, 0), self.chunk_rows)  # noqa: E731  it is short
        return chunk_plan(here.tables, self.chunks, next_bound, share)

    def _with_events(
        self,
        here: PostgresOffset,
        now: Mapping[SourceName, PostgresTable | str],
        again: Mapping[SourceName, str],
    ) -> PostgresOffset | None:
        """A batch that brings tables to what the catalog says; None where they are so."""
        tables, events = dict(here.tables), []

        def note(kind: str, name: SourceName, reason: str = "", **more: Any) -> None:
            events.append({"kind": kind, "table": [name.database, name.table], "reason": reason, **more})

        for name in sorted({*now, *tables}):
            before, table = tables.get(name), now.get(name)
            if table is None:
                if before is not None and before.state != GONE:
                    tables[name] = PostgresProgress(GONE, before.table)
                    note(DROPPED, name, "it is gone, or not chosen: its rows stay as they are")
            elif isinstance(table, str):
                if before is not None and before.captured:
                    tables[name] = replace(before, state=HELD, key=None, bounds=())
                    note(PAUSED, name, f"{table}; its rows stay as they are, and are read again then")
                elif before is None or before.state == GONE:
                    tables[name] = PostgresProgress(UNUSABLE)
                    note(SKIPPED, name, table)
            elif before is None or not before.captured:
                tables[name] = PostgresProgress(READING, table)
                note(CAPTURED, name, shaped=True)
                if before is not None and before.table is not None:
                    note(EMPTIED, name, "a table of this name was captured before")
            elif before.table is not None and (before.table != table or name in again):
                reason = again.get(name) or _why_again(before, table)
                renamed = table.renamed_columns(before.table)
                if before.table.shape != table.shape or reason:
                    note(ALTERED, name, reason, shaped=True, read_again=bool(reason), renamed=renamed)
                if reason:
                    note(EMPTIED, name, reason)
                tables[name] = PostgresProgress(READING, table) if reason else replace(before, table=table)
        if tables == here.tables and here.looked:
            return None
        return replace(here, tables=dict(sorted(tables.items())), events=tuple(events), looked=True)


def _why_again(before: PostgresProgress, table: PostgresTable) -> str:
    """Why a table that is another than before is read again; empty where its rows are known."""
    assert before.table is not None
    if before.table.number != table.number:
        return "another table has its name"
    if before.table.storage != table.storage:
        return "it was truncated, its rows were rewritten, or its partitions are others"
    if before.table.published not in ("", table.published):
        return "it left the publication for a time, or the publication was altered: changes may be missing"
    if not table.only_grown(before.table) or (
        before.state != FOLLOWED and before.table.columns != table.columns
    ):
        return "its columns were altered"
    return ""
