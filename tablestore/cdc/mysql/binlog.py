"""Reading the binlog: the row images of some tables as Arrow batches, where transactions end, statements.

    for found in read_log(address, tables, start=position, until=end):
        RowImages        a batch of one table and its row kinds, in the order of the log
        Statement        DDL, or whatever else is text in the log
        TransactionEnd   all rows before it belong to whole transactions: go on from its position
        Heartbeat        while following: nothing happened up to here

Many transactions make one batch, and a large one makes many: memory is bounded by a few MB and the largest
single event. Checksums are verified, compressed row events are inflated; what cannot be read is refused,
never passed over. PyMySQL reads the packets and joins those of more than 16 MB.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tablestore.cdc.mysql import binary_values, events, statements
from tablestore.cdc.mysql.address import Address
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.dialect import dialect_of
from tablestore.cdc.mysql.events import RowEvent, TableMap
from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.server import Connection, own_errors
from tablestore.cdc.mysql.slices import PADDING, Slices, cut_images
from tablestore.cdc.mysql.text_values import checked
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import Corrupt, InvalidRequest, NotFound, SchemaMismatch, Unsupported

_BATCH_BYTES, _BATCH_ROWS = 4 << 20, 65_536
_DUMP, _AT_END_STOP = 0x12, 1
_GTID = struct.Struct("<QIB")
_LAG_SECONDS = 2.0
_STANDALONE = 1  # a flag of MariaDB's GTID event: the transaction is one statement
_MAX_OFFSET = 0xFFFFFFFF


@dataclass(frozen=True)
class RowImages:
    """Rows of one table, and the row kind of each: +I, −U, +U or −D (int8)."""

    table: SourceTable
    batch: pa.RecordBatch
    kinds: pa.Array


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the log, `seconds` after 1970, which ended at `position`; its database may be empty."""

    position: LogPosition
    seconds: int
    database: str
    text: str


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """Where a transaction ended, as the `transactions`-th since the last such value; it was committed
    `seconds` after 1970, by the source's clock."""

    position: LogPosition
    seconds: int
    transactions: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The end of the log, where nothing has been written for a while."""

    position: LogPosition


LogChange = RowImages | Statement | TransactionEnd | Heartbeat


def read_log(
    address: Address,
    tables: Iterable[SourceTable],
    *,
    start: LogPosition,
    until: LogPosition | None = None,
    follow: bool = False,
    by_gtid: bool = False,
    heartbeat_seconds: float = 0.5,
    env: Env = SYSTEM,
) -> Generator[LogChange, None, None]:
    """Changes of the tables after `start`, up to `until` or the end of the log; `follow`: on and on.

    `by_gtid`: positions are of another server of the same replication, which finds them by their GTIDs.
    Raises NotFound where the log does not go back to `start` or not on to `until`, SchemaMismatch where a
    table has, or had, other columns, Unavailable where the connection breaks: what follows the last
    TransactionEnd is to be read again.
    """
    if until is not None and not by_gtid and start.reaches(until):
        return
    with contextlib.ExitStack() as connections:
        connection = connections.enter_context(Connection.open(address))
        reader = _Reader(connection, {(t.database, t.name): t for t in tables}, start, until, by_gtid)
        end = env.monotonic() + _LAG_SECONDS
        while True:
            reader.start_dump(follow, heartbeat_seconds, env)
            yield from reader.changes()
            if reader.done or reader.inside or env.monotonic() > end:
                break
            env.sleep(0.01)  # a position is known before the log is synced up to it, and only then is it sent
            connections.pop_all().close()
            reader.connection = connections.enter_context(Connection.open(address))
        reader.require_done()


@dataclass
class _Pending:
    """Row images of a table that wait for a batch."""

    wire: TableMap
    data: bytearray = field(default_factory=bytearray)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    kinds: list[tuple[int, int]] = field(default_factory=list)

    def add(self, event: RowEvent) -> None:
        self.starts.append(len(self.data))
        self.data += event.images
        self.ends.append(len(self.data))
        self.kinds.append(event.kinds)


@dataclass
class _Reader:
    """State of one dump."""

    connection: Connection
    tables: dict[tuple[str, str], SourceTable]
    start: LogPosition
    until: LogPosition | None
    by_gtid: bool
    maps: dict[int, TableMap | None] = field(default_factory=dict)
    pending: dict[tuple[str, str], _Pending] = field(default_factory=dict)
    pending_bytes: int = 0
    ended: int = 0  # transactions since a TransactionEnd was given, and what the next one will be
    last: TransactionEnd | None = None
    inside: bool = False  # whether a transaction has begun
    dirty: bool = False  # whether it has changed one of the tables
    standalone: bool = False
    checksums: bool | None = None
    done: bool = False  # whether all has been read

    def __post_init__(self) -> None:
        self.dialect = dialect_of(self.connection)
        self.charsets = self.dialect.charsets(self.connection) | {0: "", 63: "binary"}
        self.file, self.offset = self.start.file, self.start.offset
        self.gtids = {g.split("-")[0]: g for g in self.start.gtid.split(",") if g.count("-") == 2}
        self.by_gtid = self.by_gtid or self.offset > _MAX_OFFSET  # such an offset cannot be asked for

    @property
    def position(self) -> LogPosition:
        return LogPosition(self.file, self.offset, ",".join(self.gtids[d] for d in sorted(self.gtids)))

    def changes(self) -> Iterator[LogChange]:
        for code, seconds, server, body in self._events():
            if code in events.ROWS:
                self._keep(code, body)
                if self.pending_bytes >= _BATCH_BYTES:
                    yield from self._rows()
            elif code == events.TABLE_MAP:
                yield from self._map(body)
            elif code == events.XID:
                yield from self._end(seconds)
            elif code in (events.QUERY, events.QUERY_COMPRESSED):
                yield from self._statement(code, seconds, body)
            elif code == events.MARIADB_GTID:
                number, domain, flags = _GTID.unpack_from(body)
                self.gtids[str(domain)] = f"{domain}-{server}-{number}"
                self.standalone, self.inside = bool(flags & _STANDALONE), True
            elif code in (events.MYSQL_GTID, events.MYSQL_ANONYMOUS):
                self.standalone = self.inside = True  # unless BEGIN follows
            elif code == events.XA_PREPARE and not self.dirty:
                yield from self._end(seconds)
            elif code == events.HEARTBEAT:
                yield from self._flush()
                yield Heartbeat(self.position)
            elif code in _REFUSED:
                raise Unsupported(f"{_REFUSED[code]} in the binlog at {self.position}")
            if self.until is not None and not self.inside and self._reached(self.until):
                yield from self._flush()
                self.done = True
                return
        yield from self._flush()
        self.done = self.until is None

    def require_done(self) -> None:
        """Raise NotFound unless all that was asked for was there."""
        if not self.done:
            raise NotFound(
                f"{self.connection.address}: the log ends at {self.position}, before {self.until}: the "
                "server is another one, or lost what it had; start with a new snapshot"
            )

    def start_dump(self, follow: bool, heartbeat_seconds: float, env: Env) -> None:
        number = env.rng.randrange(1 << 31, 1 << 32)  # no server of a replication has it, nor another reader
        self.dialect.start_dump(self.connection, self.position.gtid if self.by_gtid else None)
        if follow:
            self.connection.run(f"SET @master_heartbeat_period = {int(heartbeat_seconds * 1e9)}")
        file, offset = ("", 4) if self.by_gtid else (self.file, self.offset)
        head = struct.pack("<IHI", offset, 0 if follow else _AT_END_STOP, number)
        with own_errors(self.connection.address):
            self.connection.raw._execute_command(_DUMP, head + file.encode())

    def _reached(self, until: LogPosition) -> bool:
        if not self.by_gtid:
            return self.position.reaches(until)
        for wanted in filter(None, until.gtid.split(",")):
            domain, _, number = wanted.split("-")
            if int(self.gtids.get(domain, "0-0-0").split("-")[2]) < int(number):
                return False
        return True

    def _events(self) -> Iterator[tuple[int, int, int, bytes]]:
        """(type, seconds, server, body) of each event, checked; keeps the position."""
        raw = self.connection.raw
        while True:
            with own_errors(self.connection.address):
                packet: bytes = raw._read_packet()._data
            if packet[0] == 0xFE and len(packet) < 9:
                return
            seconds, code, server, _, log_end, flags = events.HEADER.unpack_from(packet, 1)
            body = self._checked(code, packet)
            if code == events.ROTATE:
                self.file, self.offset = body[8:].decode(), int.from_bytes(body[:8], "little")
                self.maps.clear()
            elif log_end and not flags & events.ARTIFICIAL and code not in (events.FORMAT, events.HEARTBEAT):
                high = self.offset & ~_MAX_OFFSET  # in a file of more than 4 GiB the header's number wraps
                self.offset = high + log_end + ((1 << 32) if high + log_end < self.offset else 0)
            yield code, seconds, server, body

    def _checked(self, code: int, packet: bytes) -> bytes:
        """The body of an event."""
        begin = 1 + events.HEADER.size
        if code == events.FORMAT:
            self.checksums = events.has_checksums(packet)
            return packet[begin:-5]
        if self.checksums is False:
            return packet[begin:]
        right = zlib.crc32(memoryview(packet)[1:-4]) == int.from_bytes(packet[-4:], "little")
        if right:
            return packet[begin:-4]
        if self.checksums is None:  # a rotation before it is known whether there are any
            return packet[begin:]
        raise Corrupt(
            f"{self.connection.address} binlog {self.position}", "the checksum of an event is wrong"
        )

    def _map(self, body: bytes) -> Iterator[LogChange]:
        number = events.table_number(body)
        database, name, _ = events.map_names(body)
        if (database, name) not in self.tables:
            self.maps[number] = None
            return
        found = events.table_map(body)
        if self.maps.get(number) != found:
            waiting = self.pending.get((database, name))
            if waiting is not None and waiting.wire.columns != found.columns:
                yield from self._rows()
            self._require_columns(self.tables[database, name], found)
            self.maps[number] = found

    def _require_columns(self, table: SourceTable, found: TableMap) -> None:
        there = {column.name for column in found.columns}
        known = {column.name for column in table.columns}
        added, dropped = sorted(there - known - set(table.left_out)), sorted(known - there)
        if table.others_ignored:
            added = []
        if added or dropped:
            changes = [*(f"+{name}" for name in added), *(f"-{name}" for name in dropped)]
            raise SchemaMismatch(
                f"{table} has other columns in the binlog at {self.position}: {', '.join(changes)}"
            )
        for column in found.columns:
            if column.name in known:
                if column.collation not in self.charsets:
                    raise Unsupported(f"column {column.name!r} of {table} with collation {column.collation}")
                binary_values.require_known(column, self.charsets[column.collation])

    def _keep(self, code: int, body: bytes) -> None:
        number = events.table_number(body)
        if number not in self.maps:
            raise Corrupt(
                f"{self.connection.address} binlog {self.position}", f"rows of unknown table {number}"
            )
        wire = self.maps[number]
        if wire is None:
            return
        event = events.row_event(code, body)
        if event.partial:
            table = f"{wire.database}.{wire.table}"
            raise Unsupported(
                f"row images without all columns, of {table} at {self.position}",
                "SET GLOBAL binlog_row_image = 'FULL', for all sessions, and start with a new snapshot",
            )
        self.dirty = True
        self.pending_bytes += len(event.images)
        self.pending.setdefault((wire.database, wire.table), _Pending(wire)).add(event)

    def _statement(self, code: int, seconds: int, body: bytes) -> Iterator[LogChange]:
        query = events.query_event(code, body)
        role = statements.role(query.text)
        if role == "rollback" and self.dirty:
            raise Unsupported(f"a transaction that is rolled back in the binlog at {self.position}")
        if role in ("commit", "rollback"):
            yield from self._end(seconds)
            return
        if role == "begin":
            self.standalone = False
        if role == "rows" and statements.names(query, self.tables):
            raise Unsupported(
                f"a change of rows as a statement in the binlog at {self.position}",
                "SET GLOBAL binlog_format = 'ROW', for all sessions, and start with a new snapshot",
            )
        if role == "other":
            yield from self._flush()
            yield Statement(self.position, seconds, query.database, query.text)
        if self.standalone:
            yield from self._end(seconds)
            yield from self._flush()

    def _end(self, seconds: int) -> Iterator[LogChange]:
        self.inside = self.dirty = self.standalone = False
        self.ended, self.last = self.ended + 1, TransactionEnd(self.position, seconds, self.ended + 1)
        if self.pending_bytes >= _BATCH_BYTES // 2 or self.ended >= _BATCH_ROWS:
            yield from self._flush()

    def _flush(self) -> Iterator[LogChange]:
        """Rows, and where their last transaction ended; only the rows within a transaction."""
        yield from self._rows()
        if self.last is not None and not self.dirty:
            yield self.last
            self.ended, self.last = 0, None

    def _rows(self) -> Iterator[RowImages]:
        pending, self.pending, self.pending_bytes = self.pending, {}, 0
        for each in pending.values():
            table = self.tables[each.wire.database, each.wire.table]
            each.data += bytes(PADDING)
            widths = [column.width for column in each.wire.columns]
            try:
                cut = cut_images(each.data, each.starts, each.ends, each.kinds, widths, _BATCH_ROWS)
                for slices, kinds in cut:
                    yield RowImages(table, self._batch(table, each.wire, slices), pa.array(kinds, pa.int8()))
            except InvalidRequest:
                raise
            except ValueError as e:
                raise Corrupt(
                    f"{self.connection.address} binlog before {self.position}", f"{table}: {e}"
                ) from e

    def _batch(self, table: SourceTable, wire: TableMap, slices: Slices) -> pa.RecordBatch:
        places = {column.name: c for c, column in enumerate(wire.columns)}
        made: list[Any] = []
        for source, arrow in zip(table.columns, table.schema, strict=True):
            c = places[source.name]
            charset = self.charsets[wire.columns[c].collation]
            try:
                made.append(binary_values.column(slices, c, wire.columns[c], source, charset, arrow.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
                raise SchemaMismatch(
                    f"column {source.name!r} of {table} had another type in the binlog "
                    f"before {self.position}: {e}"
                ) from e
        return checked(made, table.columns, table.schema)


_REFUSED = {
    events.INCIDENT: "an incident of the server (changes are missing)",
    events.START_ENCRYPTION: "encryption that the server did not take off",
    events.PARTIAL_UPDATE: "partial updates of JSON (SET GLOBAL binlog_row_value_options = '')",
    events.TRANSACTION_PAYLOAD: "compressed transactions (SET GLOBAL binlog_transaction_compression = OFF)",
    events.XA_PREPARE: "XA transactions",
}
