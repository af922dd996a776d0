"""Dump: the events of the binlog one after the other, each checked, and the position that they lead to.

    with Dump.open(address, start) as dump:
        for code, seconds, server, body in dump.events(until=end):
            …                                  dump.position is behind this event

Whoever reads says where a transaction has ended (`inside = False`): only there a dump ends. A position is
known before the log is synced up to it, and only then is it sent: a dump that ends before `until` is asked
for again for a while. PyMySQL reads the packets and joins those of more than 16 MB. A dump may be recorded,
and read again as a `RecordedLog`, without the server.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql import events
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.server import Connection, DamagedBinlog, dialect_of, own_errors
from tablestore.core.env import SYSTEM
from tablestore.core.errors import Corrupt, NotFound

_DUMP, _AT_END_STOP = 0x12, 1
_GTID = struct.Struct("<QIB")
_LAG_SECONDS = 2.0
_STANDALONE = 1  # a flag of MariaDB's GTID event: the transaction is one statement
_MAX_OFFSET = 0xFFFFFFFF
_MOST_RECORDED = 8 << 20  # bytes


@dataclass(frozen=True)
class RecordedLog:
    """The packets of a dump from `start` on, at least up to `end`. Picklable."""

    address: Address
    start: LogPosition
    end: LogPosition
    packets: tuple[bytes, ...] = field(repr=False)
    charsets: Mapping[int, str] = field(repr=False)


class DumpRecording:
    """The newest stretch of a log that this process has dumped, unless it was large. It is for who reads the
    same stretch once more, and stays behind when it is pickled. One thread at a time."""

    def __init__(self) -> None:
        self._stretch: RecordedLog | None = None
        self._packets: list[bytes] | None = None  # None: too large
        self._size = 0

    def __reduce__(self) -> tuple[type[DumpRecording], tuple[()]]:
        return DumpRecording, ()

    def begin(self) -> None:
        """Forget what was recorded."""
        self._stretch, self._packets, self._size = None, [], 0

    def add(self, packet: bytes) -> None:
        if self._packets is not None:
            self._size += len(packet)
            self._packets.append(packet)
            if self._size > _MOST_RECORDED:
                self._packets = None

    def end(self, dump: Dump, end: LogPosition) -> None:
        """All up to `end` was recorded."""
        if self._packets is not None and not dump.by_gtid:
            packets = tuple(self._packets)
            self._stretch = RecordedLog(dump.address, dump.start, end, packets, dump.charsets())
        self._packets = None

    def between(self, start: LogPosition, end: LogPosition) -> RecordedLog | None:
        """What was recorded, if it is just that."""
        kept = self._stretch
        return kept if kept is not None and (kept.start, kept.end) == (start, end) else None


@dataclass
class Dump:
    """A context manager, of one thread. `by_gtid`: positions are of another server of the replication.
    Without a connection it reads the packets of a stretch."""

    address: Address
    connection: Connection | None
    start: LogPosition
    by_gtid: bool = False
    stretch: RecordedLog | None = None
    recording: DumpRecording | None = None
    inside: bool = False  # whether a transaction has begun
    standalone: bool = False  # whether it is one statement
    abandoned: bool = False  # whether the file before this one ends in a transaction, which was rolled back
    log_bytes: int = 0  # of events so far
    checksums: bool | None = None
    created: int = 0  # the second in which the present file was begun
    gtids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._charsets: Mapping[int, str] | None = None if self.stretch is None else self.stretch.charsets
        self.file, self.offset = self.start.file, self.start.offset
        self._before: tuple[str, str | None] = "", None  # a domain, its GTID before this transaction
        self.gtids = {g.split("-")[0]: g for g in self.start.gtid.split(",") if g.count("-") == 2}
        self.by_gtid = self.by_gtid or self.offset > _MAX_OFFSET  # such an offset cannot be asked for

    @classmethod
    def open(
        cls,
        address: Address,
        start: LogPosition,
        *,
        by_gtid: bool = False,
        stretch: RecordedLog | None = None,
        recording: DumpRecording | None = None,
    ) -> Self:
        """A dump of the server, or of a stretch that was recorded."""
        if stretch is not None:
            return cls(address, None, start, by_gtid, stretch)
        if recording is not None:
            recording.begin()
        return cls(address, Connection.open(address), start, by_gtid, recording=recording)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.connection is not None:
            self.connection.close()

    @property
    def position(self) -> LogPosition:
        """Behind the last event; that of a GTID counts from its beginning."""
        gtid = ",".join(self.gtids[d] for d in sorted(self.gtids))
        return LogPosition(self.file, self.offset, gtid, self.created)

    def charsets(self) -> Mapping[int, str]:
        """Character set of each collation id; to be asked for before the events."""
        if self._charsets is None:
            assert self.connection is not None, "a stretch has its own"
            self._charsets = dialect_of(self.connection).charsets(self.connection) | {0: "", 63: "binary"}
        return self._charsets

    def events(
        self,
        *,
        until: LogPosition | None = None,
    ) -> Iterator[tuple[int, int, int, bytes]]:
        """(type, seconds after 1970, server, body) of each event up to `until` or the end of the log. A
        rotation also comes at the start."""
        if self.stretch is not None:
            yield from self._read(self.stretch.packets)
            return
        end = SYSTEM.monotonic() + _LAG_SECONDS
        while True:
            yield from self._read(self._asked())
            if until is None or self.inside or self.reaches(until) or SYSTEM.monotonic() > end:
                return
            SYSTEM.sleep(0.01)
            if self.connection is not None:
                self.connection.close()
            self.connection = Connection.open(self.address)

    def reaches(self, until: LogPosition) -> bool:
        """Whether everything before `until` has been read."""
        if not self.by_gtid and self.file == until.file:
            return self.offset >= until.offset
        return self.position.includes(until) if self.by_gtid else self.position.reaches(until)

    def corrupt(self, problem: str) -> Corrupt:
        return Corrupt(f"{self.address} binlog {self.position}", problem)

    def ends_before(self, until: LogPosition | None) -> NotFound:
        return NotFound(
            f"{self.address}: the log ends at {self.position}, before {until}: the "
            "server is another one, or lost what it had; start with a new snapshot"
        )

    def _asked(self) -> Iterator[bytes]:
        """The packets of the server from the present position on; behind a file that ends within an event,
        those of the next one."""
        gtid = self.position.gtid if self.by_gtid else None
        file, offset = ("", events.FIRST_OFFSET) if self.by_gtid else (self.file, self.offset)
        while True:
            assert self.connection is not None, "a stretch is not asked for"
            dialect_of(self.connection).start_dump(self.connection, gtid)
            # neither the number of a server of a replication nor that of a reader
            number = SYSTEM.rng.randrange(1 << 31, 1 << 32)
            head = struct.pack("<IHI", offset, _AT_END_STOP, number)
            try:
                yield from self._packets(self.connection.raw, head + file.encode())
                return
            except DamagedBinlog:
                file, offset, gtid = self._next_file(), events.FIRST_OFFSET, None

    def _packets(self, raw: Any, request: bytes) -> Iterator[bytes]:
        """What the server sends to a request, up to its end."""
        with own_errors(self.address):
            raw._execute_command(_DUMP, request)
        while True:
            with own_errors(self.address):
                packet: bytes = raw._read_packet()._data
            if packet[0] == 0xFE and len(packet) < 9:
                return
            if self.recording is not None:
                self.recording.add(packet)
            yield packet

    def _next_file(self) -> str:
        """The file behind this one, by a new connection."""
        assert self.connection is not None, "a stretch is not asked for"
        self.connection.close()
        self.connection = Connection.open(self.address)
        files = [str(row[0]) for row in self.connection.rows("SHOW BINARY LOGS")]
        behind = files[files.index(self.file) + 1 :] if self.file in files else []
        if not behind:
            raise self.corrupt("the file ends within an event, and no other one follows")
        return behind[0]

    def _read(self, packets: Iterable[bytes]) -> Iterator[tuple[int, int, int, bytes]]:
        for packet in packets:
            seconds, code, server, _, log_end, flags = events.HEADER.unpack_from(packet, 1)
            body = self._checked(code, packet)
            if code == events.ROTATE:
                self._leave_file()
                self.file, self.offset = body[8:].decode(), int.from_bytes(body[:8], "little")
                self.created = 0
            elif log_end and not flags & events.ARTIFICIAL and code not in (events.FORMAT, events.HEARTBEAT):
                high = self.offset & ~_MAX_OFFSET  # in a file of more than 4 GiB the header's number wraps
                self.offset = high + log_end + ((1 << 32) if high + log_end < self.offset else 0)
                self.log_bytes += len(packet) - 1
            if code == events.FORMAT:
                self._created(seconds)
            if code == events.MARIADB_GTID:
                number, domain, gtid_flags = _GTID.unpack_from(body)
                self._before = str(domain), self.gtids.get(str(domain))
                self.gtids[str(domain)] = f"{domain}-{server}-{number}"
                self.standalone, self.inside = bool(gtid_flags & _STANDALONE), True
            elif code in (events.MYSQL_GTID, events.MYSQL_ANONYMOUS):
                self.standalone = self.inside = True  # unless BEGIN follows
            yield code, seconds, server, body

    def _leave_file(self) -> None:
        """A transaction that is not in a file to its end has none: the server crashed in it, and rolled it
        back. Its GTID is not of the log."""
        self.abandoned = self.inside
        if self.abandoned:
            domain, gtid = self._before
            self.gtids = {d: g for d, g in self.gtids.items() if d != domain}
            if gtid is not None:
                self.gtids[domain] = gtid
        self.inside = self.standalone = False

    def _created(self, seconds: int) -> None:
        """Note when the file was begun; raises NotFound if the start is a position of another log."""
        begun, self.created = self.start.created, seconds
        if begun and not self.by_gtid and self.file == self.start.file and seconds != begun:
            why = f"{self.file} was begun {_shown(seconds)}, and not {_shown(begun)}"
            raise self.start.of_another_log(str(self.address), why)

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
        raise self.corrupt("the checksum of an event is wrong")


def _shown(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


REFUSED = {
    events.INCIDENT: "an incident of the server (changes are missing)",
    events.START_ENCRYPTION: "encryption that the server did not take off",
    events.PARTIAL_UPDATE: "partial updates of JSON (SET GLOBAL binlog_row_value_options = '')",
    events.TRANSACTION_PAYLOAD: "compressed transactions (SET GLOBAL binlog_transaction_compression = OFF)",
    events.XA_PREPARE: "XA transactions",
}
"""Events that nobody can pass over."""
