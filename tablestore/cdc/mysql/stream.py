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

Its reading begins with its rows, or somewhere in the binlog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import TableRows
from tablestore.cdc.databases.address import Address, patiently
from tablestore.cdc.databases.chunks import bounds_above, chunk_ranges
from tablestore.cdc.databases.declared import DeclaredColumns, DeclaredStream
from tablestore.cdc.mysql import events
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.dump import Dump
from tablestore.cdc.mysql.events import FIRST_OFFSET, LogPosition
from tablestore.cdc.mysql.foreign_keys import Ancestry, ForeignKeys
from tablestore.cdc.mysql.pieces import BinlogPiece, EachOnce, MysqlChunkPiece
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.cdc.mysql.server_checks import require_in_log, require_ready, server_id, with_creation
from tablestore.cdc.mysql.snapshot import Key, KeyRange, chunk_key, next_range
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.flow.source import Changes, Offset, StreamPiece
from tablestore.format.predicates.predicate import Predicate

T = TypeVar("T")
VERSION = 2
_COMPARED = {"tinyint", "smallint", "mediumint", "int", "bigint"}
INITIAL = "initial"  # the rows, then changes
SNAPSHOT = "snapshot"  # the rows alone
EARLIEST = "earliest-offset"  # what the binlog still has
LATEST = "latest-offset"  # changes from now on
SPECIFIC = "specific-offset"  # from a file and offset, or after a GTID
TIMESTAMP = "timestamp"  # from the first transaction of a time
STARTUP_MODES = (INITIAL, SNAPSHOT, EARLIEST, LATEST, SPECIFIC, TIMESTAMP)


@dataclass(frozen=True, slots=True)
class StartPoint:
    """A mode, and what it needs: file and offset between two transactions, or a GTID; milliseconds since
    1970."""

    mode: str = INITIAL
    file: str = ""
    offset: int = FIRST_OFFSET
    gtid: str = ""
    millis: int = 0

    @property
    def reads_rows(self) -> bool:
        """Whether the rows that are there are read."""
        return self.mode in (INITIAL, SNAPSHOT)

    def position(self, connection: Connection) -> tuple[LogPosition, int]:
        """(where in the binlog it is, the server whose binlog that is: 0 for that of any server with this
        GTID). Raises NotFound where the binlog does not have it."""
        server = server_id(connection)
        if self.mode == LATEST:
            position = dialect_of(connection).position(connection)
            return with_creation(connection.address, position), server
        if self.mode == SPECIFIC and self.gtid:
            return LogPosition("", FIRST_OFFSET, self.gtid), 0
        if self.mode == SPECIFIC:
            start = LogPosition(self.file, self.offset)
            require_in_log(connection, start)
            return start, server
        files = _files(connection)
        if self.mode == EARLIEST:
            return LogPosition(files[0], FIRST_OFFSET), server
        for file in reversed(files):
            at = _position_at(connection.address, file, self.millis / 1000)
            if at is not None:
                return at, server
        raise NotFound(
            f"{connection.address}: the binlog begins later than {self.millis} ms after 1970; {EARLIEST!r} "
            "is from its beginning"
        )


def _position_at(address: Address, file: str, seconds: float) -> LogPosition | None:
    """Where the first transaction starts that was committed `seconds` after 1970 or later, in a file or those
    after it; the end of the log if there is none yet. None: the file itself began later."""
    with Dump.open(address, LogPosition(file, FIRST_OFFSET)) as dump:
        before, first = dump.position, True
        for code, at, _, _ in dump.events():
            if code == events.FORMAT and first:
                if at > seconds:
                    return None
                first = False
            if code in events.TRANSACTIONS and at >= seconds:
                break
            before = dump.position
        return before


def _files(connection: Connection) -> list[str]:
    files = [str(row[0]) for row in connection.rows("SHOW BINARY LOGS")]
    if not files:
        raise NotFound(f"{connection.address} has no binlog")
    return files


@dataclass(frozen=True, slots=True)
class _TableOffset:
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
    def from_json(cls, offset: Offset) -> _TableOffset:
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
class MysqlTable(DeclaredStream):
    """A keyed table of a source; `chunk_rows` to a chunk, up to `chunks` of them in a batch. `columns`: as
    somebody declares them; None: as the source has them. `ancestry`: where changes of it come from that
    its log does not have, and which end the stream."""

    address: Address
    table: SourceTable
    chunk_rows: int = 200_000
    chunks: int = 4
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
    def explained(self) -> str:
        """What it gives, in words."""
        mode = self.start.mode
        how = f"rows in chunks of {self.chunk_rows:,} first" if self.start.reads_rows else f"from {mode} on"
        return f"{self.table} of {self.address}: {how}" + ("" if mode == SNAPSHOT else ", then its binlog")

    @property
    def appends(self) -> bool:
        return self.start.mode == SNAPSHOT

    def initial(self) -> Offset:
        return _TableOffset(snapshot=self.start.reads_rows).to_json()

    def latest(self) -> Offset:
        position, server = self._patiently(_end)
        return _TableOffset(snapshot=False, position=position, server=server).to_json()

    def next(self, start: Offset, target: Offset | None = None) -> Offset:
        """Chunks and what was logged meanwhile; once all chunks are read, the log up to `target` or its
        end. The first batch of a stream that begins in the log says where."""
        here = _TableOffset.from_json(start)
        if here.snapshot:
            return self._patiently(lambda connection: self._planned(connection, here)).to_json()
        if self.ended(start):
            return start
        if here.position is None:
            position, server = self._patiently(self.start.position)
            return replace(here, position=position, server=server).to_json()
        end, server = self._patiently(lambda connection: _end_after(connection, here))
        limit = _TableOffset.from_json(target).position if target is not None else None
        if limit is not None and server == here.server and end.reaches(limit):
            end = limit
        if end == here.position or (server == here.server and here.position.reaches(end)):
            return start
        return replace(here, key=None, bounds=(), position=end, server=server).to_json()

    def _planned(self, connection: Connection, here: _TableOffset) -> _TableOffset:
        def next_bound(low: Key | None) -> Key | None:
            return next_range(connection, self.table, low, self.chunk_rows).high

        bounds: tuple[Key, ...] = ()
        last = not self._compares
        if not last:
            bounds, last = bounds_above(here.key, max(1, self.chunks), next_bound)
        position, server = _end_after(connection, here)
        if self.start.mode == SNAPSHOT and here.position is not None:
            position, server = here.position, here.server  # all rows are those of one moment
        key = None if last else bounds[-1]
        return _TableOffset(not last, key, bounds, position, server)

    @property
    def _compares(self) -> bool:
        """Whether keys are compared here as by the server."""
        column = chunk_key(self.table)
        return column is not None and column.kind in _COMPARED

    def ended(self, offset: Offset) -> bool:
        return self.start.mode == SNAPSHOT and not _TableOffset.from_json(offset).snapshot

    def pieces(self, start: Offset, end: Offset) -> list[StreamPiece]:
        """A piece of the log, then one for each chunk; no key is in two of them."""
        here, there = _TableOffset.from_json(start), _TableOffset.from_json(end)
        pieces: list[StreamPiece] = []
        if there.position is None:
            return pieces
        logged = here.position is not None and here.position != there.position
        if logged and self.start.mode != SNAPSHOT:
            assert here.position is not None
            up_to = here.key if here.snapshot else None
            ends = (here.position, there.position, here.server, there.server)
            log = BinlogPiece(
                *(self.address, (self.table,), *ends),
                once=self._once,
                keys=KeyRange(high=up_to),
            )
            pieces.append(DeclaredPiece(self, log))
        if here.snapshot:
            ranges = chunk_ranges(here.key, there.bounds, last=not there.snapshot)
            pieces += [self._chunk(KeyRange(*keys), there.position, there.server) for keys in ranges]
        return pieces

    def rows(self, columns: Sequence[str], at: Offset) -> Iterator[pa.RecordBatch]:
        """All rows as they were at the offset of `latest`, in one read view."""
        there = _TableOffset.from_json(at)
        assert there.position is not None
        for batch, _ in self._chunk(KeyRange(), there.position, there.server).read(columns):
            yield batch

    def _chunk(self, keys: KeyRange, position: LogPosition, server: int) -> DeclaredPiece:
        at = (position, server)
        return DeclaredPiece(self, MysqlChunkPiece(self.address, self.table, keys, False, *at, self._once))

    @property
    def _once(self) -> EachOnce:
        return EachOnce(self.table, self.ancestry)

    def needed(self, names: Sequence[str]) -> SourceTable:
        """The table with those of its columns that these ones are made of, and its key."""
        declared = self.columns
        return self.table.only(names if declared is None else [n for n in names if n in declared.of_table])

    def done(self, end: Offset) -> None:
        """The server keeps its binlog as long as it is set to."""

    def _patiently(self, action: Callable[[Connection], T]) -> T:
        def attempt() -> T:
            with Connection.open(self.address) as connection:
                return action(connection)

        return patiently(attempt, what=str(self.table))


@dataclass(frozen=True)
class DeclaredPiece:
    """A piece whose rows are shown as they are declared."""

    source: MysqlTable
    piece: BinlogPiece | MysqlChunkPiece

    def read(self, columns: Sequence[str], where: Predicate | None = None) -> Changes:
        """Its rows; no condition is pushed down to the server. Raises Unsupported where the table was
        altered, emptied or dropped."""
        table = self.source.needed(columns)
        if isinstance(self.piece, MysqlChunkPiece):
            parts = replace(self.piece, definition=table).read()
        else:
            parts = replace(self.piece, definitions=(table,)).read()
        for rows in parts:
            assert isinstance(rows, TableRows), "a row without a key is an error"
            yield self.source.shown(rows.rows, columns, rows.seconds), rows.kinds


def _end(connection: Connection, before: LogPosition | None = None) -> tuple[LogPosition, int]:
    """(the end of the binlog, whose binlog it is). Raises NotFound where its file is that of a position
    before, and was begun anew since."""
    position = dialect_of(connection).position(connection)
    if before is not None and before.file == position.file:
        position = replace(position, created=before.created)
    return with_creation(connection.address, position), server_id(connection)


def _end_after(connection: Connection, here: _TableOffset) -> tuple[LogPosition, int]:
    """As `_end`; raises NotFound if the binlog of that server is not the one that was followed so far."""
    if here.position is None or server_id(connection) != here.server:
        return _end(connection)
    require_in_log(connection, here.position)
    end = _end(connection, here.position)
    if end[0].file != here.position.file:
        with_creation(connection.address, here.position)
    return end
