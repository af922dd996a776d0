"""MysqlTable: a table of a source as a stream, its rows first, in chunks between which the binlog is
followed.

    offset = {"v": 2, "phase": "snapshot" | "binlog", "key": K, "bounds": [b1 … bn], "position": P,
              "server": id}

A batch between two offsets holds the rows of the chunks that its end names, (K, b1], (b1, b2] …, as they were
at the end's position P, and the changes between the two positions of rows up to the start's K. After it the
rows up to the end's key are those of P. A chunk is read in a view at or after P, and what was logged between
the two is undone: each batch is a function of its offsets, no change comes twice, and an update or delete is
of a row that came before. The binlog is needed from the last batch on only.

Keys that only the server can compare (text with its collations, dates …) are not compared here: the rows of
such a table are one chunk.

An update of the key comes as −D and +I.
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

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.mysql import ddl
from tablestore.cdc.mysql.address import Address
from tablestore.cdc.mysql.binlog import RowImages, Statement, read_log
from tablestore.cdc.mysql.cascades import CascadeWatch
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.declared import DeclaredColumns
from tablestore.cdc.mysql.dialect import dialect_of
from tablestore.cdc.mysql.foreign_keys import Ancestry, ForeignKeys
from tablestore.cdc.mysql.log_identity import require_in_log, with_creation
from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.row_keys import keyed
from tablestore.cdc.mysql.server import Connection, patiently
from tablestore.cdc.mysql.settings import require_ready, server_id
from tablestore.cdc.mysql.snapshot import Key, KeyRange, chunk_key, next_range, read_range, read_view
from tablestore.cdc.mysql.start_point import SNAPSHOT, StartPoint
from tablestore.cdc.mysql.undo import UndoImages
from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.flow.source import Changes, Offset, StreamPiece
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.rowkind import INSERT

T = TypeVar("T")
VERSION = 2
_COMPARED = {"tinyint", "smallint", "mediumint", "int", "bigint"}


@dataclass(frozen=True, slots=True)
class _Progress:
    """An offset in parts. `position` is None before the first batch."""

    snapshot: bool = True
    key: Key | None = None
    bounds: tuple[Key, ...] = ()
    position: LogPosition | None = None
    server: int = 0

    def to_json(self) -> Offset:
        return {
            "v": VERSION,
            "phase": "snapshot" if self.snapshot else "binlog",
            "key": self.key,
            "bounds": list(self.bounds),
            "position": self.position and self.position.to_json(),
            "server": self.server,
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
        )


@dataclass(frozen=True)
class MysqlTable:
    """A keyed table of a source; `chunk_rows` to a chunk, up to `chunks` of them in a batch. `columns`: as
    somebody declares them; None: as the source has them. `ancestry`: where changes of it come from that
    its log does not have, and which end the stream."""

    address: Address
    table: SourceTable
    chunk_rows: int = 200_000
    chunks: int = 4
    patience_seconds: float = 900
    start: StartPoint = StartPoint()
    columns: DeclaredColumns | None = None
    ancestry: Ancestry = Ancestry()

    @classmethod
    def open(
        cls,
        address: Address,
        name: str,
        *,
        left_out: Sequence[str] = (),
        columns: DeclaredColumns | None = None,
        **how: Any,
    ) -> MysqlTable:
        """The table of the address's database; raises InvalidRequest with all that its server must be set to,
        Unsupported for a table without primary key or a column that has no type here, and what a table that
        does not have the columns declared raises."""
        with Connection.open(address) as connection:
            require_ready(connection, dialect_of(connection), [address.database])
            table = SourceTable.read(connection, address.database, name).without(*left_out)
            source = SourceName(address.database, name)
            ancestry = ForeignKeys(connection).ancestry(source, table.primary_key)
        if not table.primary_key:
            raise Unsupported(f"{table} without a primary key", "ALTER TABLE … ADD PRIMARY KEY")
        if columns is not None:
            columns.require(table)
            table = table.only(columns.of_table)
        table.require_captured()
        return cls(address, table, columns=columns, ancestry=ancestry, **how)

    @property
    def schema(self) -> pa.Schema:
        return self.table.schema if self.columns is None else self.columns.schema()

    @property
    def variables(self) -> list[str]:
        """The environment variables that hold its secrets."""
        return self.address.variables

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the source's key; empty where not all of them are columns here."""
        key = self.table.primary_key
        return key if {*key} <= {*self.schema.names} else ()

    @property
    def explained(self) -> str:
        """What it gives, in words."""
        mode = self.start.mode
        how = f"rows in chunks of {self.chunk_rows:,} first" if self.start.reads_rows else f"from {mode} on"
        return f"{self.table} of {self.address}: {how}" + ("" if mode == SNAPSHOT else ", then its binlog")

    @property
    def appends(self) -> bool:
        return self.start.mode == SNAPSHOT

    def initial(self) -> Offset:
        return _Progress(snapshot=self.start.reads_rows).to_json()

    def latest(self) -> Offset:
        position, server = self._patiently(_end)
        return _Progress(snapshot=False, position=position, server=server).to_json()

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        """Chunks and what was logged meanwhile; once all chunks are read, the log up to `target` or its
        end. The first batch of a stream that begins in the log says where."""
        here = _Progress.from_json(start)
        if here.snapshot:
            return self._patiently(lambda connection: self._planned(connection, here)).to_json()
        if self.ended(start):
            return start
        if here.position is None:
            position, server = self._patiently(self.start.position)
            return replace(here, position=position, server=server).to_json()
        end, server = self._patiently(lambda connection: _end_after(connection, here))
        limit = _Progress.from_json(target).position if target is not None else None
        if limit is not None and server == here.server and end.reaches(limit):
            end = limit
        if end == here.position or (server == here.server and here.position.reaches(end)):
            return start
        return replace(here, key=None, bounds=(), position=end, server=server).to_json()

    def _planned(self, connection: Connection, here: _Progress) -> _Progress:
        bounds: list[Key] = []
        last = not self._compares
        while len(bounds) < max(1, self.chunks) and not last:
            low = bounds[-1] if bounds else here.key
            high = next_range(connection, self.table, low, self.chunk_rows).high
            if high is None:
                last = True
            else:
                bounds.append(high)
        position, server = _end_after(connection, here)
        if self.start.mode == SNAPSHOT and here.position is not None:
            position, server = here.position, here.server  # all rows are those of one moment
        key = None if last else bounds[-1]
        return _Progress(not last, key, tuple(bounds), position, server)

    @property
    def _compares(self) -> bool:
        """Whether keys are compared here as by the server."""
        column = chunk_key(self.table)
        return column is not None and column.kind in _COMPARED

    def ended(self, offset: Offset) -> bool:
        return self.start.mode == SNAPSHOT and not _Progress.from_json(offset).snapshot

    def pieces(self, start: Offset, end: Offset) -> list[StreamPiece]:
        """A piece of the log, then one for each chunk; no key is in two of them."""
        here, there = _Progress.from_json(start), _Progress.from_json(end)
        found: list[StreamPiece] = []
        if there.position is None:
            return found
        logged = here.position is not None and here.position != there.position
        if logged and self.start.mode != SNAPSHOT:
            assert here.position is not None
            up_to = here.key if here.snapshot else None
            found.append(LogPiece(self, here.position, there.position, here.server, there.server, up_to))
        if here.snapshot:
            lows = [here.key, *there.bounds]
            highs = [*there.bounds, *([] if there.snapshot else [None])]
            ranges = [KeyRange(low, high) for low, high in zip(lows, highs, strict=False)]
            found += [ChunkPiece(self, one, there.position, there.server) for one in ranges]
        return found

    def rows(self, columns: Sequence[str], at: Offset) -> Iterator[pa.RecordBatch]:
        """All rows as they were at the offset of `latest`, in one read view."""
        there = _Progress.from_json(at)
        assert there.position is not None
        for batch, _ in ChunkPiece(self, KeyRange(), there.position, there.server).read(columns):
            yield batch

    def needed(self, names: Sequence[str]) -> SourceTable:
        """The table with those of its columns that these ones are made of, and its key."""
        declared = self.columns
        return self.table.only(names if declared is None else [n for n in names if n in declared.of_table])

    def shown(
        self, batch: pa.RecordBatch, names: Sequence[str], seconds: pa.Array | None = None
    ) -> pa.RecordBatch:
        """Columns of rows of the source as they are declared; `seconds` after 1970 they were committed (None:
        of a snapshot)."""
        if self.columns is None:
            return batch.select(list(names))
        return self.columns.of(batch, self.table, names, seconds)

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
    """The rows of a key range as they were at a position."""

    source: MysqlTable
    keys: KeyRange
    position: LogPosition
    server: int

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """All rows as +I; no condition is pushed down to the server."""
        source = self.source
        table = source.needed(columns)
        with source.connected() as connection:
            if server_id(connection) != self.server:
                raise InvalidRequest(
                    f"{source.address} is another server than that on which the snapshot of {source.table} "
                    "began: start with a new snapshot"
                )
            require_in_log(connection, self.position)
            with read_view(connection, dialect_of(connection), at_least=self.position) as position:
                changes = UndoImages(table.schema, table.primary_key)
                if position != self.position:
                    log = LogPiece(source, self.position, position, self.server, self.server)
                    for rows, kinds, _ in log.changes(table, low=self.keys.low, high=self.keys.high):
                        changes.add(rows, kinds)
                for batch in read_range(connection, table, self.keys):
                    yield from self._inserts(changes.unchanged(batch), columns)
                for batch in changes.before():
                    yield from self._inserts(batch, columns)

    def _inserts(self, batch: pa.RecordBatch, columns: Sequence[str]) -> Changes:
        if batch.num_rows:
            yield self.source.shown(batch, columns), _kinds(np.full(batch.num_rows, INSERT))


@dataclass(frozen=True)
class LogPiece:
    """The changes between two positions of rows whose key is not above `up_to` (None: of all)."""

    source: MysqlTable
    start: LogPosition
    end: LogPosition
    start_server: int
    server: int
    up_to: Key | None = None

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """Changes in the order of the log; no condition is pushed down. Raises Unsupported where the table
        was altered, emptied or dropped."""
        for batch, kinds, seconds in self.changes(self.source.needed(columns), high=self.up_to):
            yield self.source.shown(batch, columns, seconds), kinds

    def changes(
        self, table: SourceTable, *, low: Key | None = None, high: Key | None = None
    ) -> Iterator[tuple[pa.RecordBatch, pa.Array, pa.Array]]:
        """Changes of rows of `table`, the source's with some of its columns, above `low` and not above
        `high`: rows, their kinds, and how many seconds after 1970 they were committed."""
        for batch, kinds, seconds in self._logged(table):
            key = [batch.column(name) for name in table.primary_key]
            kinds = _kinds(keyed(key, kinds.to_numpy(zero_copy_only=False)))
            for bound, inside in ((low, pc.greater), (high, pc.less_equal)):
                if bound is not None:
                    column = batch.column(table.primary_key[0])
                    mine = inside(column, pa.scalar(Decimal(bound)).cast(column.type))
                    batch, kinds, seconds = (one.filter(mine) for one in (batch, kinds, seconds))
            if batch.num_rows:
                yield batch, kinds, seconds

    def _logged(self, table: SourceTable) -> Iterator[tuple[pa.RecordBatch, pa.Array, pa.Array]]:
        source = self.source
        with source.connected() as connection:
            other = self.start_server != self.server or server_id(connection) != self.server
            if not other:
                require_in_log(connection, self.start)
        name = SourceName(table.database, table.name)
        watch = CascadeWatch.of({name: source.ancestry}, {name})
        log = read_log(source.address, [table], start=self.start, until=self.end, by_gtid=other, watch=watch)
        with contextlib.closing(log):
            for change in log:
                if isinstance(change, RowImages):
                    yield change.batch, change.kinds, change.seconds
                elif isinstance(change, Statement) and ddl.touches(
                    change.text, change.database, table=source.table
                ):
                    raise Unsupported(
                        f"{change.text[:200]!r} at {change.position}, which alters {table}",
                        "start with a new snapshot",
                    )


def _kinds(values: Any) -> pa.Array:
    return pa.array(values.astype(np.int8), pa.int8())


def _end(connection: Connection) -> tuple[LogPosition, int]:
    """(the end of the binlog, whose binlog it is)."""
    position = dialect_of(connection).position(connection)
    return with_creation(connection.address, position), server_id(connection)


def _end_after(connection: Connection, here: _Progress) -> tuple[LogPosition, int]:
    """As `_end`; raises NotFound if the binlog of that server is not the one that was followed so far."""
    if here.position is not None and server_id(connection) == here.server:
        require_in_log(connection, here.position)
        with_creation(connection.address, here.position)
    return _end(connection)
