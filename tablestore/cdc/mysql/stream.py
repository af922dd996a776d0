"""MysqlTable: a table of a source as a stream, its rows first, in chunks between which the binlog is
followed.

    offset = {"v": 1, "phase": "snapshot" | "binlog", "key": K, "bounds": [b1 … bn], "position": P,
              "server": id, "settled": bool}

A batch between two offsets reads the chunks that its end names, (K, b1], (b1, b2] … in tasks of their own,
each in a read view at or after the end's position P, and the changes between the two positions of rows up to
the start's K. P is taken after the chunks are planned, so that what a view shows beyond P comes again in the
next batch: with whole images and the last one winning per key, rows are then exactly those of P. No watermark
of a chunk is kept, a batch that is read again may read its chunks at a later moment, and the binlog is needed
from the last batch on only. Not `settled` is an offset whose last chunks may be ahead of its position: the
next batch goes to the present, whatever its target, and settles it.

Keys that only the server can compare (text with its collations, dates …) are not compared here: all chunks
are read first and then the changes since the first of them are followed.

Its changes are for a sink that keeps the last row of a key: rows come again as +I and +U. An update of the
key comes as −D and +I.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.mysql import statements
from tablestore.cdc.mysql.address import Address
from tablestore.cdc.mysql.binlog import RowImages, Statement, read_log
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.dialect import dialect_of
from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.server import Connection, patiently
from tablestore.cdc.mysql.settings import require_in_log, require_ready, server_id
from tablestore.cdc.mysql.snapshot import Key, KeyRange, chunk_key, next_range, read_range, read_view
from tablestore.cdc.stream_source import Changes, Offset, StreamPiece
from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.rowkind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

T = TypeVar("T")
VERSION = 1
_COMPARED = {"tinyint", "smallint", "mediumint", "int", "bigint"}


@dataclass(frozen=True, slots=True)
class _Progress:
    """An offset in parts. `position` is None before the first batch."""

    snapshot: bool = True
    key: Key | None = None
    bounds: tuple[Key, ...] = ()
    position: LogPosition | None = None
    server: int = 0
    settled: bool = True

    def to_json(self) -> Offset:
        return {
            "v": VERSION,
            "phase": "snapshot" if self.snapshot else "binlog",
            "key": self.key,
            "bounds": list(self.bounds),
            "position": self.position and self.position.to_json(),
            "server": self.server,
            "settled": self.settled,
        }

    @classmethod
    def from_json(cls, offset: Offset) -> _Progress:
        if offset.get("v") != VERSION or offset.get("phase") not in ("snapshot", "binlog"):
            raise InvalidRequest(f"{offset} is no offset of a table of MySQL or MariaDB")
        position = offset["position"] and LogPosition.from_json(offset["position"])
        return cls(
            offset["phase"] == "snapshot",
            offset["key"],
            tuple(offset["bounds"]),
            position,
            offset["server"],
            offset["settled"],
        )


@dataclass(frozen=True)
class MysqlTable:
    """A keyed table of a source; `chunk_rows` to a chunk, up to `chunks` of them in a batch."""

    address: Address
    table: SourceTable
    chunk_rows: int = 200_000
    chunks: int = 4
    patience_seconds: float = 900

    @classmethod
    def open(cls, address: Address, name: str, *, left_out: Sequence[str] = (), **how: Any) -> MysqlTable:
        """The table of the address's database; raises InvalidRequest with all that its server must be set to,
        and Unsupported for a table without primary key or a column that has no type here."""
        with Connection.open(address) as connection:
            require_ready(connection, dialect_of(connection), [address.database])
            table = SourceTable.read(connection, address.database, name).without(*left_out)
        if not table.primary_key:
            raise Unsupported(f"{table} without a primary key", "ALTER TABLE … ADD PRIMARY KEY")
        table.schema  # noqa: B018  refuses columns without a type
        return cls(address, table, **how)

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema

    @property
    def appends(self) -> bool:
        return False

    def initial(self) -> Offset:
        return _Progress().to_json()

    def latest(self) -> Offset:
        position, server = self._patiently(_end)
        return _Progress(snapshot=False, position=position, server=server).to_json()

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        """Chunks and what was logged meanwhile; once all chunks are read, the log up to `target` or its
        end."""
        here = _Progress.from_json(start)
        if here.snapshot:
            return self._patiently(lambda connection: self._planned(connection, here)).to_json()
        end, server = self._patiently(_end)
        limit = _Progress.from_json(target).position if target is not None and here.settled else None
        if limit is not None and server == here.server and end.reaches(limit):
            end = limit
        assert here.position is not None
        if here.settled and (end == here.position or (server == here.server and here.position.reaches(end))):
            return start
        return replace(here, key=None, bounds=(), position=end, server=server, settled=True).to_json()

    def _planned(self, connection: Connection, here: _Progress) -> _Progress:
        bounds: list[Key] = []
        last = False
        while len(bounds) < max(1, self.chunks) and not last:
            low = bounds[-1] if bounds else here.key
            high = next_range(connection, self.table, low, self.chunk_rows).high
            if high is None:
                last = True
            else:
                bounds.append(high)
        position, server = _end(
            connection
        )  # after the plan: a row beyond its bounds is in the log from here on
        if here.position is not None and not self._compares:
            position, server = here.position, here.server
        key = None if last else bounds[-1]
        return _Progress(not last, key, tuple(bounds), position, server, settled=False)

    @property
    def _compares(self) -> bool:
        """Whether keys are compared here as by the server."""
        column = chunk_key(self.table)
        return column is not None and column.kind in _COMPARED

    def ended(self, offset: Offset) -> bool:
        return False

    def pieces(self, start: Offset, end: Offset) -> list[StreamPiece]:
        """A piece of the log, then one for each chunk; no key is in two of them."""
        here, there = _Progress.from_json(start), _Progress.from_json(end)
        found: list[StreamPiece] = []
        if there.position is None:
            return found
        if here.position is not None and here.position != there.position:
            up_to = here.key if here.snapshot else None
            same = here.server == there.server
            found.append(LogPiece(self, here.position, there.position, there.server, up_to, by_gtid=not same))
        if here.snapshot:
            lows = [here.key, *there.bounds]
            highs = [*there.bounds, *([] if there.snapshot else [None])]
            ranges = [KeyRange(low, high) for low, high in zip(lows, highs, strict=False)]
            found += [ChunkPiece(self, one, there.position, there.server) for one in ranges]
        return found

    def done(self, end: Offset) -> None:
        """The server keeps its binlog as long as it is set to."""

    def connected(self) -> Connection:
        """A connection, once the server is there."""
        return self._patiently(lambda connection: connection, keep=True)

    def _patiently(self, action: Callable[[Connection], T], *, keep: bool = False) -> T:
        def attempt() -> T:
            connection = Connection.open(self.address)
            try:
                return action(connection)
            finally:
                if not keep:
                    connection.close()

        return patiently(attempt, what=str(self.table), patience_seconds=self.patience_seconds)


@dataclass(frozen=True)
class ChunkPiece:
    """The rows of a key range, in a read view at or after a position."""

    source: MysqlTable
    keys: KeyRange
    position: LogPosition
    server: int

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """All rows as +I; no condition is pushed down to the server."""
        source = self.source
        with source.connected() as connection:
            if server_id(connection) != self.server:
                raise InvalidRequest(
                    f"{source.address} is another server than that on which the snapshot of {source.table} "
                    "began: start with a new snapshot"
                )
            dialect = dialect_of(connection)
            with read_view(connection, dialect, at_least=self.position):
                for batch in read_range(connection, source.table, self.keys):
                    yield batch.select(list(columns)), _kinds(np.full(batch.num_rows, INSERT))


@dataclass(frozen=True)
class LogPiece:
    """The changes between two positions of rows whose key is not above `up_to` (None: of all)."""

    source: MysqlTable
    start: LogPosition
    end: LogPosition
    server: int
    up_to: Key | None = None
    by_gtid: bool = False

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """Changes in the order of the log; no condition is pushed down. Raises Unsupported where the table
        was altered, emptied or dropped."""
        table, names = self.source.table, list(columns)
        for batch, kinds in self._changes():
            kinds = keyed(batch, kinds, table.primary_key)
            if self.up_to is not None:
                column = batch.column(table.primary_key[0])
                mine = pc.less_equal(column, pa.scalar(Decimal(self.up_to)).cast(column.type))
                batch, kinds = batch.filter(mine), kinds.filter(mine)
            if batch.num_rows:
                yield batch.select(names), kinds

    def _changes(self) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        source = self.source
        table = source.table

        with source.connected() as connection:
            other = self.by_gtid or server_id(connection) != self.server
            if not other:
                require_in_log(connection, self.start)
        log = read_log(source.address, [table], start=self.start, until=self.end, by_gtid=other)
        with contextlib.closing(log):
            for change in log:
                if isinstance(change, RowImages):
                    yield change.batch, change.kinds
                elif isinstance(change, Statement) and statements.alters(change, table.database, table.name):
                    raise Unsupported(
                        f"{change.text[:200]!r} at {change.position}, which alters {table}",
                        "start with a new snapshot",
                    )


def keyed(batch: pa.RecordBatch, kinds: pa.Array, key: Sequence[str]) -> pa.Array:
    """Row kinds in which an update of the key is −D and +I: a sink by key has two rows to change."""
    found = kinds.to_numpy(zero_copy_only=False).copy()
    before = np.flatnonzero(found == UPDATE_BEFORE)
    if not len(before):
        return kinds
    moved = np.zeros(len(before), np.bool_)
    for name in key:
        column = batch.column(name)
        old, new = column.take(pa.array(before)), column.take(pa.array(before + 1))
        moved |= pc.not_equal(old, new).to_numpy(zero_copy_only=False)
    found[before[moved]] = DELETE
    found[before[moved] + 1] = INSERT
    assert (found[before[~moved] + 1] == UPDATE_AFTER).all(), (
        "an image before a change has the one after it next"
    )
    return _kinds(found)


def _kinds(values: Any) -> pa.Array:
    return pa.array(values.astype(np.int8), pa.int8())


def _end(connection: Connection) -> tuple[LogPosition, int]:
    """(the end of the binlog, whose binlog it is)."""
    return dialect_of(connection).position(connection), server_id(connection)
