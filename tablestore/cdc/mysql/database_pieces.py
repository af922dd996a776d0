"""Pieces of a batch of a database: stretches of the log, and ranges of the keys of a table."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import BadRow, ChunkFacts, Shape, TableRows
from tablestore.cdc.mysql import ddl
from tablestore.cdc.mysql.address import Address
from tablestore.cdc.mysql.binlog import RowImages, Statement, read_log
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.definitions import shape_of
from tablestore.cdc.mysql.dialect import dialect_of
from tablestore.cdc.mysql.log_identity import require_in_log
from tablestore.cdc.mysql.log_scan import scan
from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.row_keys import Kinds, keyed
from tablestore.cdc.mysql.server import Connection, patiently
from tablestore.cdc.mysql.settings import server_id
from tablestore.cdc.mysql.snapshot import KeyRange, read_range, read_view
from tablestore.cdc.mysql.undo import UndoCounts
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_BEFORE

log = logging.getLogger(__name__)
T = TypeVar("T")
_SPLIT_BYTES = 4 << 20  # less of a table's log is not worth a second reading


@dataclass(frozen=True)
class DatabaseLogPiece:
    """The changes of tables between two positions. `parts`: of a large table only one part of its keys."""

    address: Address
    definitions: tuple[SourceTable, ...]
    start: LogPosition
    end: LogPosition
    start_server: int
    server: int
    patience_seconds: float
    parts: tuple[tuple[str, str, int, int], ...] = ()

    @property
    def chunk(self) -> ChunkFacts | None:
        return None

    @cached_property
    def tables(self) -> Mapping[SourceName, Shape]:
        return {_name(table): shape_of(table) for table in self.definitions}

    def read(self) -> Iterator[TableRows | BadRow]:
        """Changes in the order of the log; an update of the key comes as −D and +I."""
        address = self.address
        other = _patiently(self._is_other, self.definitions[0], self.patience_seconds)
        parts = {(database, table): (i, n) for database, table, i, n in self.parts}
        found = read_log(
            *(address, self.definitions),
            start=self.start,
            until=self.end,
            by_gtid=other,
            any_key=True,
            scanned=True,
            parts=parts,
        )
        with contextlib.closing(found):
            for change in found:
                if isinstance(change, RowImages):
                    key = [change.batch.column(name) for name in change.table.primary_key]
                    kinds = keyed(key, change.kinds.to_numpy(zero_copy_only=False))
                    yield from _with_key(change.table, change.batch, kinds, change.seconds, self.end)

    def _is_other(self) -> bool:
        """Whether the start is a position of another server; raises NotFound where the log lacks it."""
        with Connection.open(self.address) as connection:
            other = self.start_server != self.server or server_id(connection) != self.server
            if not other:
                require_in_log(connection, self.start)
        return other


@dataclass(frozen=True)
class DatabaseChunkPiece:
    """The rows of a key range, in a read view at or after a position. Of a table without a key they are those
    of the position itself: what was logged between it and the view is undone, so that each change comes once.
    """

    address: Address
    definition: SourceTable
    keys: KeyRange
    last: bool
    position: LogPosition
    server: int
    patience_seconds: float

    @property
    def chunk(self) -> ChunkFacts | None:
        low, high = (None if bound is None else str(bound) for bound in (self.keys.low, self.keys.high))
        return ChunkFacts(_name(self.definition), low, high, self.last)

    @cached_property
    def tables(self) -> Mapping[SourceName, Shape]:
        return {_name(self.definition): shape_of(self.definition)}

    def read(self) -> Iterator[TableRows | BadRow]:
        """All rows as +I. Of a table that was altered since the chunk was planned maybe fewer, or none: the
        statement is in the log behind the position, and the table is read again then."""
        for batch in _patiently(self._begun, self.definition, self.patience_seconds):
            kinds = np.full(batch.num_rows, INSERT, np.int8)
            yield from _with_key(self.definition, batch, kinds, None, self.position)

    def _begun(self) -> Iterator[pa.RecordBatch]:
        """The rows, once the first are there: what goes wrong before that is tried again."""
        rows = self._rows()
        first = next(rows, None)
        return chain([] if first is None else [first], rows)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        with Connection.open(self.address) as connection:
            other = server_id(connection) != self.server
            if not other:
                require_in_log(connection, self.position)
            view = read_view(connection, dialect_of(connection), at_least=self.position, by_gtid=other)
            with view as seen:
                try:
                    if self.definition.primary_key:
                        yield from read_range(connection, self.definition, self.keys, any_key=True)
                    else:
                        yield from self._rows_of_position(connection, seen, other)
                except (InvalidRequest, NotFound, pa.ArrowInvalid) as e:
                    if not self._altered(other):
                        raise
                    log.info("%s was altered behind %s: %s", self.definition, self.position, e)

    def _rows_of_position(
        self, connection: Connection, seen: LogPosition, other: bool
    ) -> Iterator[pa.RecordBatch]:
        table = self.definition
        undo = UndoCounts(table.schema)
        log_read = read_log(
            self.address, [table], start=self.position, until=seen, by_gtid=other, scanned=True
        )
        with contextlib.closing(log_read):
            for change in log_read:
                if isinstance(change, RowImages):
                    undo.add(change.batch, change.kinds)
        for batch in read_range(connection, table):
            yield undo.unchanged(batch)
        yield from undo.before()

    def _altered(self, other: bool) -> bool:
        """Whether the log has a statement behind the position that makes the table another."""

        def alters(statement: Statement) -> bool:
            found = ddl.effects(statement.text, statement.database)
            return any(one.concerns(self.definition.database, self.definition.name) for one in found)

        with Connection.open(self.address) as connection:
            end = dialect_of(connection).position(connection)
        found = scan(
            self.address, start=self.position, until=end, captured=(), relevant=alters, by_gtid=other
        )
        return found.statement is not None


def _with_key(
    table: SourceTable, batch: pa.RecordBatch, kinds: Kinds, seconds: pa.Array | None, end: LogPosition
) -> Iterator[TableRows | BadRow]:
    """Rows, and apart from them those without a value in a column of the key: NULL, or an impossible date."""
    name = _name(table)
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
    found: list[list[tuple[SourceName, tuple[int, int]]]] = [[] for _ in range(count)]
    for weight, name, part in sorted(units, key=lambda unit: (-unit[0], unit[1], unit[2])):
        least = loads.index(min(loads))
        if part[0] and any(one == name for one, _ in found[least]):  # each part needs a task of its own
            least = next(i for i, its in enumerate(found) if all(one != name for one, _ in its))
        loads[least] += weight
        found[least].append((name, part))
    return [one for one in found if one]


def _patiently(action: Callable[[], T], table: SourceTable, seconds: float) -> T:
    return patiently(action, what=str(table), patience_seconds=seconds)


def _name(table: SourceTable) -> SourceName:
    return SourceName(table.database, table.name)
