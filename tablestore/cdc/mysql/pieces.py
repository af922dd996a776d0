"""Pieces of a batch of tables: stretches of the log, and ranges of the keys of a table. Of a database the
last image of a key wins; of a table by itself each change comes once."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import BadRow, ChunkFacts, TableRows, TableShape
from tablestore.cdc.databases.address import Address, patiently, patiently_begun
from tablestore.cdc.databases.chunks import READING, chunk_plan, share_of
from tablestore.cdc.databases.undo import Kinds, UndoCounts, UndoImages, keyed
from tablestore.cdc.mysql import ddl
from tablestore.cdc.mysql.binlog import ImageChoice, LogStatement, RowImages, read_log
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.database_offset import DatabaseProgress, Definitions, TableProgress, shape_of
from tablestore.cdc.mysql.dump import RecordedLog
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.foreign_keys import UNWATCHED, Ancestry, CascadeWatch
from tablestore.cdc.mysql.log_scan import ScanRequest, scan
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.cdc.mysql.server_checks import require_in_log, server_id
from tablestore.cdc.mysql.snapshot import Key, KeyRange, next_range, read_range, read_view
from tablestore.cdc.mysql.table_choice import row_counts
from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError, Unsupported
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_BEFORE

log = logging.getLogger(__name__)
_SPLIT_BYTES = 4 << 20  # less of a table's log is not worth a second reading


@dataclass(frozen=True, slots=True)
class EachOnce:
    """Of a table that is followed by itself: each of its changes comes once, and what its log does not have
    ends it, which is a statement that alters the `table`, or a change by a foreign key of its `ancestry`."""

    table: SourceTable
    ancestry: Ancestry

    @property
    def watch(self) -> CascadeWatch:
        name = self.table.source
        return CascadeWatch.of({name: self.ancestry}, {name})


@dataclass(frozen=True)
class BinlogPiece:
    """The changes of tables between two positions. `parts`: of a large table only one part of its keys.
    `stretch` is that part of the log, where the process that planned the piece has read it.

    The last image of a key wins, and statements are followed elsewhere; or each change comes `once`, those of
    rows in a range of `keys` that are compared here.
    """

    address: Address
    definitions: tuple[SourceTable, ...]
    start: LogPosition
    end: LogPosition
    start_server: int
    server: int
    parts: tuple[tuple[str, str, int, int], ...] = ()
    stretch: RecordedLog | None = None
    once: EachOnce | None = None
    keys: KeyRange = KeyRange()

    @property
    def chunk(self) -> ChunkFacts | None:
        return None

    @cached_property
    def tables(self) -> Mapping[SourceName, TableShape]:
        return {table.source: shape_of(table) for table in self.definitions}

    def read(self) -> Iterator[TableRows | BadRow]:
        """Changes in the order of the log; an update of the key comes as −D and +I. Raises Unsupported where
        a table whose changes come once was altered, emptied or dropped."""
        for change in self.changes():
            key = [change.batch.column(name) for name in change.table.primary_key]
            kinds = keyed(key, change.kinds.to_numpy(zero_copy_only=False))
            batch, seconds = change.batch, change.seconds
            for bound, inside in ((self.keys.low, pc.greater), (self.keys.high, pc.less_equal)):
                if bound is not None:
                    column = batch.column(change.table.primary_key[0])
                    mine = inside(column, pa.scalar(Decimal(bound)).cast(column.type))
                    batch, seconds = batch.filter(mine), seconds.filter(mine)
                    kinds = kinds[mine.to_numpy(zero_copy_only=False)]
            yield from _with_key(change.table, batch, kinds, seconds, self.end)

    def changes(self) -> Iterator[RowImages]:
        """As the log has them."""
        other = False
        if self.stretch is None:
            other = patiently(self._is_other, what=str(self.definitions[0]))
        wanted = ImageChoice(
            scanned=self.once is None,
            parts={(database, table): (i, n) for database, table, i, n in self.parts},
            watch=UNWATCHED if self.once is None else self.once.watch,
        )
        changes = read_log(
            *(self.address, self.definitions),
            start=self.start,
            until=self.end,
            by_gtid=other,
            wanted=wanted,
            stretch=self.stretch,
        )
        with contextlib.closing(changes):
            for change in changes:
                if isinstance(change, RowImages):
                    yield change
                elif isinstance(change, LogStatement) and self.once is not None:
                    self._require_untouched(change, self.once.table)

    def _require_untouched(self, change: LogStatement, table: SourceTable) -> None:
        if ddl.touches(change.text, change.database, table=table):
            raise Unsupported(
                f"{change.text[:200]!r} at {change.position}, which alters {table}",
                "start with a new snapshot",
            )

    def _is_other(self) -> bool:
        """Whether the start is a position of another server; raises NotFound where the log lacks it."""
        with Connection.open(self.address) as connection:
            other = self.start_server != self.server or server_id(connection) != self.server
            if not other:
                require_in_log(connection, self.start)
        return other


@dataclass(frozen=True)
class MysqlChunkPiece:
    """The rows of a key range, in a read view at or after a position. Where each change comes `once`, and of
    a table without a key, they are those of the position itself: what was logged between it and the view is
    undone.
    """

    address: Address
    definition: SourceTable
    keys: KeyRange
    last: bool
    position: LogPosition
    server: int
    once: EachOnce | None = None

    @property
    def chunk(self) -> ChunkFacts | None:
        low, high = (None if bound is None else str(bound) for bound in (self.keys.low, self.keys.high))
        return ChunkFacts(self.definition.source, low, high, self.last)

    @cached_property
    def tables(self) -> Mapping[SourceName, TableShape]:
        return {self.definition.source: shape_of(self.definition)}

    def read(self) -> Iterator[TableRows | BadRow]:
        """All rows as +I. Of a table that was altered since the chunk was planned maybe fewer, or none, where
        the last image wins: the statement is in the log behind the position, and the table is read again
        then."""
        for batch in patiently_begun(self._rows, what=str(self.definition)):
            kinds = np.full(batch.num_rows, INSERT, np.int8)
            yield from _with_key(self.definition, batch, kinds, None, self.position)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        with Connection.open(self.address) as connection:
            other = server_id(connection) != self.server
            if other and self.once is not None:
                raise InvalidRequest(
                    f"{self.address} is another server than that on which the snapshot of {self.definition} "
                    "began: start with a new snapshot"
                )
            if not other:
                require_in_log(connection, self.position)
            view = read_view(connection, dialect_of(connection), at_least=self.position, by_gtid=other)
            with view as seen:
                try:
                    if self.once is None and self.definition.primary_key:
                        yield from read_range(connection, self.definition, self.keys, any_key=True)
                    else:
                        yield from self._rows_of_position(connection, seen)
                except (InvalidRequest, NotFound, pa.ArrowInvalid) as e:
                    if self.once is not None or not self._altered(other):
                        raise
                    log.info("%s was altered behind %s: %s", self.definition, self.position, e)

    def _rows_of_position(self, connection: Connection, seen: LogPosition) -> Iterator[pa.RecordBatch]:
        table = self.definition
        undo = UndoImages(table.schema, table.primary_key) if table.primary_key else UndoCounts(table.schema)
        here = server_id(connection)
        piece = BinlogPiece(
            *(self.address, (table,), self.position, seen, self.server, here),
            once=self.once,
            keys=self.keys if table.primary_key else KeyRange(),
        )
        for rows in piece.read() if seen != self.position else ():
            assert isinstance(rows, TableRows), "rows without a key are not captured here"
            undo.add(rows.rows, rows.kinds)
        for batch in read_range(connection, table, self.keys):
            yield undo.unchanged(batch)
        yield from undo.before()

    def _altered(self, other: bool) -> bool:
        """Whether the log has a statement behind the position that makes the table another."""

        def alters(statement: LogStatement) -> bool:
            effects = ddl.effects(statement.text, statement.database)
            return any(effect.concerns(self.definition.database, self.definition.name) for effect in effects)

        with Connection.open(self.address) as connection:
            end = dialect_of(connection).position(connection)
        request = ScanRequest(self.position, end, relevant=alters, by_gtid=other)
        passed = scan(self.address, request)
        return passed.statement is not None


def _with_key(
    table: SourceTable, batch: pa.RecordBatch, kinds: Kinds, seconds: pa.Array | None, end: LogPosition
) -> Iterator[TableRows | BadRow]:
    """Rows, and apart from them those without a value in a column of the key: NULL, or an impossible date."""
    name = table.source
    for column in table.primary_key:
        absent = batch.column(column).is_null()
        if absent.true_count == 0:
            continue
        at = None if seconds is None else seconds.filter(absent).to_pylist()
        reason = f"column {column!r} of the key has no value"
        for i, row in enumerate(batch.filter(absent).to_pylist()):
            kind = int(kinds[absent.to_numpy(zero_copy_only=False)][i])
            if kind != UPDATE_BEFORE:
                shown = json.dumps(row, default=str, ensure_ascii=False)
                when = None if at is None else at[i]
                yield BadRow(name, str(end), kind, reason, shown, when, unheld=kind == DELETE)
        there = pc.invert(absent)
        batch, kinds = batch.filter(there), kinds[there.to_numpy(zero_copy_only=False)]
        seconds = None if seconds is None else seconds.filter(there)
    if batch.num_rows:
        yield TableRows(name, batch, pa.array(kinds, pa.int8()), seconds, str(end))


def log_pieces(
    changed: Mapping[SourceName, int], tasks: int, *, whole: Container[SourceName] = ()
) -> list[list[tuple[SourceName, tuple[int, int]]]]:
    """Tables with the part of them (i, n) for each of at most so many tasks, by the bytes of their changes.
    Little is not parted; one large table is parted by its keys, unless it is to stay
    `whole`."""
    total = sum(changed.values())
    if not changed:
        return []
    share = max(_SPLIT_BYTES, -(-total // max(1, tasks)))
    units = []
    for name, size in changed.items():
        parts = 1 if name in whole else min(max(1, tasks), -(-size // share))
        units += [(size / parts, name, (i, parts)) for i in range(parts)]
    count = min(max(1, tasks), -(-total // share))
    loads = [0.0] * count
    groups: list[list[tuple[SourceName, tuple[int, int]]]] = [[] for _ in range(count)]
    for weight, name, part in sorted(units, key=lambda unit: (-unit[0], unit[1], unit[2])):
        least = loads.index(min(loads))
        if part[0] and any(table == name for table, _ in groups[least]):  # each part needs a task of its own
            least = next(i for i, its in enumerate(groups) if all(table != name for table, _ in its))
        loads[least] += weight
        groups[least].append((name, part))
    return [table for table in groups if table]


def next_chunks(
    connection: Connection, here: DatabaseProgress, definitions: Definitions, chunk_rows: int, chunks: int
) -> tuple[dict[SourceName, TableProgress], TablestoreError | None]:
    """(tables whose next rows a batch reads, and what their chunks are; what came between)."""
    reading = [name for name, progress in here.tables.items() if progress.state == READING]
    counts = row_counts(connection, reading) if reading else {}

    def next_bound(progress: TableProgress, low: Key | None) -> Key | None:
        table = definitions.get(progress.digest)
        assert table is not None, "lost definitions are looked up first"
        return next_range(connection, table, low, chunk_rows).high

    def share(name: SourceName) -> float:
        return share_of(counts.get(name, 0), chunk_rows)

    try:
        return chunk_plan(here.tables, chunks, next_bound, share), None
    except (NotFound, InvalidRequest) as e:  # it was altered: the log says so
        return {}, e
