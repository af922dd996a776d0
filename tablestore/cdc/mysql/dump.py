"""Dump: the events of the binlog one after the other, each checked, and the position that they lead to.

    with Dump.open(address, start) as dump:
        for code, seconds, server, body in dump.events(until=end):
            …                                  dump.position is behind this event

Whoever reads says where a transaction has ended (`inside = False`): only there a dump ends. A position is
known before the log is synced up to it, and only then is it sent: a dump that ends before `until` is asked
for again for a while. PyMySQL reads the packets and joins those of more than 16 MB.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from tablestore.cdc.mysql import events
from tablestore.cdc.mysql.address import Address
from tablestore.cdc.mysql.dialect import dialect_of
from tablestore.cdc.mysql.position import LogPosition
from tablestore.cdc.mysql.server import Connection, own_errors
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import Corrupt, NotFound

_DUMP, _AT_END_STOP = 0x12, 1
_GTID = struct.Struct("<QIB")
_LAG_SECONDS = 2.0
_STANDALONE = 1  # a flag of MariaDB's GTID event: the transaction is one statement
_MAX_OFFSET = 0xFFFFFFFF


@dataclass
class Dump:
    """A context manager, of one thread. `by_gtid`: positions are of another server of the replication."""

    connection: Connection
    start: LogPosition
    by_gtid: bool = False
    inside: bool = False  # whether a transaction has begun
    standalone: bool = False  # whether it is one statement
    log_bytes: int = 0  # of events so far
    checksums: bool | None = None
    created: int = 0  # the second in which the present file was begun
    gtids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dialect = dialect_of(self.connection)
        self.file, self.offset = self.start.file, self.start.offset
        self.gtids = {g.split("-")[0]: g for g in self.start.gtid.split(",") if g.count("-") == 2}
        self.by_gtid = self.by_gtid or self.offset > _MAX_OFFSET  # such an offset cannot be asked for

    @classmethod
    def open(cls, address: Address, start: LogPosition, *, by_gtid: bool = False) -> Self:
        return cls(Connection.open(address), start, by_gtid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.connection.close()

    @property
    def address(self) -> Address:
        return self.connection.address

    @property
    def position(self) -> LogPosition:
        """Behind the last event; that of a GTID counts from its beginning."""
        gtid = ",".join(self.gtids[d] for d in sorted(self.gtids))
        return LogPosition(self.file, self.offset, gtid, self.created)

    def charsets(self) -> dict[int, str]:
        """Character set of each collation id; to be asked for before the events."""
        return self.dialect.charsets(self.connection) | {0: "", 63: "binary"}

    def events(
        self,
        *,
        until: LogPosition | None = None,
        follow: bool = False,
        heartbeat_seconds: float = 0.5,
        env: Env = SYSTEM,
    ) -> Iterator[tuple[int, int, int, bytes]]:
        """(type, seconds after 1970, server, body) of each event up to `until` or the end of the log;
        `follow`: on and on, with heartbeats. A rotation also comes at the start."""
        end = env.monotonic() + _LAG_SECONDS
        while True:
            self._ask(follow, heartbeat_seconds, env)
            yield from self._read()
            if until is None or self.inside or self.reaches(until) or env.monotonic() > end:
                return
            env.sleep(0.01)
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

    def _ask(self, follow: bool, heartbeat_seconds: float, env: Env) -> None:
        number = env.rng.randrange(1 << 31, 1 << 32)  # no server of a replication has it, nor another reader
        self.dialect.start_dump(self.connection, self.position.gtid if self.by_gtid else None)
        if follow:
            self.connection.run(f"SET @master_heartbeat_period = {int(heartbeat_seconds * 1e9)}")
        file, offset = ("", 4) if self.by_gtid else (self.file, self.offset)
        head = struct.pack("<IHI", offset, 0 if follow else _AT_END_STOP, number)
        with own_errors(self.address):
            self.connection.raw._execute_command(_DUMP, head + file.encode())

    def _read(self) -> Iterator[tuple[int, int, int, bytes]]:
        raw = self.connection.raw
        while True:
            with own_errors(self.address):
                packet: bytes = raw._read_packet()._data
            if packet[0] == 0xFE and len(packet) < 9:
                return
            seconds, code, server, _, log_end, flags = events.HEADER.unpack_from(packet, 1)
            body = self._checked(code, packet)
            if code == events.ROTATE:
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
                self.gtids[str(domain)] = f"{domain}-{server}-{number}"
                self.standalone, self.inside = bool(gtid_flags & _STANDALONE), True
            elif code in (events.MYSQL_GTID, events.MYSQL_ANONYMOUS):
                self.standalone = self.inside = True  # unless BEGIN follows
            yield code, seconds, server, body

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
