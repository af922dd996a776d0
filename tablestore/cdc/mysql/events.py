"""A binlog: its events, from bytes, and places between its transactions.

    header        timestamp uint32 LE, type uint8, server uint32, size uint32, end of the event in its file
                  uint32 (it wraps at 4 GiB), flags uint16; at the end of the event a CRC32
    table map     table uint48, flags uint16, database and table (length, bytes, 0), columns, a wire type
                  each, their metadata, NULL bitmap, then optional fields (type, length, value): signs,
                  charsets, names, key …
    row event     table uint48, flags uint16, [version 2: uint16 of extra data], columns, bitmap(s) of the
                  columns that images have, images; MariaDB may compress what follows the head with zlib

Knows of versions 1 (MariaDB) and 2 (MySQL) of row events.

A place is found at once by file and offset, by a GTID only by reading the file from its start; but a GTID
means the same on every server of a replication, so positions have both. They are ordered by file number and
offset; those of two servers are not comparable.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tablestore.cdc.mysql import charsets
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported

QUERY, STOP, ROTATE, FORMAT, XID, TABLE_MAP, INCIDENT, HEARTBEAT = 2, 3, 4, 15, 16, 19, 26, 27
MYSQL_GTID, MYSQL_ANONYMOUS, XA_PREPARE, PARTIAL_UPDATE, TRANSACTION_PAYLOAD = 33, 34, 38, 39, 40
MARIADB_GTID, START_ENCRYPTION, QUERY_COMPRESSED = 162, 164, 165
LOAD_QUERY = 18
QUERIES = {QUERY, LOAD_QUERY, QUERY_COMPRESSED}
_OF_LOAD = slice(13, 26)  # what LOAD DATA has in front of the session's states
TRANSACTIONS = {MARIADB_GTID, MYSQL_GTID, MYSQL_ANONYMOUS}  # each begins one
FIRST_OFFSET = 4  # of events in a file
INSERTS, UPDATES, DELETES = {23, 30, 166, 169}, {24, 31, 167, 170}, {25, 32, 168, 171}
ROWS = INSERTS | UPDATES | DELETES
_VERSION_2 = {30, 31, 32, 169, 170, 171}
_COMPRESSED = {166, 167, 168, 169, 170, 171}
HEADER = struct.Struct("<IBIIIH")
ARTIFICIAL = 0x20  # a flag of events that are in no file
_STATE_BYTES = {0: 4, 1: 8, 3: 4}
_CLIENT_CHARSET, _CATALOG = 4, 6
_NO_CRC, _CRC32 = 0, 1

TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24 = 1, 2, 3, 4, 5, 8, 9
DATE, YEAR, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 13, 15, 16, 17, 18, 19
JSON, NEWDECIMAL, ENUM, SET, BLOB, STRING, GEOMETRY = 245, 246, 247, 248, 252, 254, 255
_META_BYTES = {FLOAT: 1, DOUBLE: 1, VARCHAR: 2, BIT: 2, TIMESTAMP2: 1, DATETIME2: 1, TIME2: 1, JSON: 1}
_META_BYTES |= {NEWDECIMAL: 2, ENUM: 2, SET: 2, BLOB: 1, STRING: 2, GEOMETRY: 1, 140: 1, 141: 2}
_SIGNED = {TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE, YEAR}
_CHARACTERS = {VARCHAR, STRING, BLOB, 249, 250, 251, 253}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_PLAIN = {TINY: 1, SHORT: 2, INT24: 3, LONG: 4, LONGLONG: 8, FLOAT: 4, DOUBLE: 8, YEAR: 1, DATE: 3}
_PLAIN |= {7: 4, 11: 3, 12: 8}  # TIMESTAMP, TIME and DATETIME as they were before MariaDB 10.1


@dataclass(frozen=True, slots=True)
class WireColumn:
    """How a column's values lie in row images. `width`: bytes, or −n where their length comes first in n
    bytes. `size` and `scale` are digits of a decimal, bits, digits of a second, or bytes of a BINARY."""

    name: str
    code: int
    width: int
    size: int = 0
    scale: int = 0
    unsigned: bool = False
    collation: int = 0
    labels: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class TableMap:
    """Which table a number stands for in the row events that follow."""

    number: int
    database: str
    table: str
    columns: tuple[WireColumn, ...]
    primary_key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowEvent:
    """The images of one row event. `kinds`: their row kinds by turns. `partial`: an image lacks columns."""

    number: int
    kinds: tuple[int, int]
    images: bytes
    partial: bool


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """A statement as text."""

    database: str
    text: str


def table_number(body: bytes) -> int:
    """The table's number in a table map or row event."""
    return int.from_bytes(body[:6], "little")


def map_names(body: bytes) -> tuple[str, str, int]:
    """(database, table, where the columns begin) of a table map."""
    at = 8
    names = []
    for _ in range(2):
        size = body[at]
        names.append(body[at + 1 : at + 1 + size].decode())
        at += size + 2
    return names[0], names[1], at


def table_map(body: bytes) -> TableMap:
    """Raises Unsupported for a column whose values cannot be found, and without names of columns."""
    database, table, at = map_names(body)
    count, at = _length(body, at)
    codes = body[at : at + count]
    size, at = _length(body, at + count)
    metas = _metas(codes, body[at : at + size])
    at += size + (count + 7) // 8
    optional = dict(_optional(body[at:]))
    if 4 not in optional:
        raise Unsupported(f"{database}.{table} without names of columns in the binlog", _FULL_METADATA)
    names = [name.decode() for name in _texts(optional[4])]
    real = [_real(code, meta) for code, meta in zip(codes, metas, strict=True)]
    unsigned = _unsigned(real, optional.get(1, b""))
    collations = _collations(real, _CHARACTERS, optional.get(2), optional.get(3))
    collations |= _collations(real, {ENUM, SET}, optional.get(10), optional.get(11))
    labels = {
        c: kind
        for code, key in ((SET, 5), (ENUM, 6))
        for c, kind in zip(
            (c for c, r in enumerate(real) if r == code), _lists(optional.get(key, b"")), strict=False
        )
    }
    columns = []
    for c, (name, code, meta) in enumerate(zip(names, real, metas, strict=True)):
        try:
            width, size, scale = _layout(code, meta)
        except Unsupported as e:
            raise Unsupported(f"column {name!r} of {database}.{table}: {e.feature}", e.why) from None
        columns.append(
            WireColumn(name, code, width, size, scale, c in unsigned, collations.get(c, 0), labels.get(c, ()))
        )
    key = [*_numbers(optional.get(8, b"")), *_numbers(optional.get(9, b""))[::2]]  # 9: with their prefixes
    return TableMap(table_number(body), database, table, tuple(columns), tuple(names[c] for c in key))


_FULL_METADATA = "SET GLOBAL binlog_row_metadata = 'FULL' and start with a new snapshot"


def row_event(code: int, body: bytes) -> RowEvent:
    """The images of an INSERT, UPDATE or DELETE, uncompressed."""
    at = 8
    if code in _VERSION_2:
        at += int.from_bytes(body[8:10], "little")
    count, at = _length(body, at)
    bitmap = (count + 7) // 8
    bitmaps = 2 if code in UPDATES else 1
    whole = ((1 << count) - 1).to_bytes(bitmap, "little")
    mask = int.from_bytes(whole, "little")
    partial = any(
        int.from_bytes(body[at + i * bitmap : at + (i + 1) * bitmap], "little") & mask != mask
        for i in range(bitmaps)
    )
    images = body[at + bitmaps * bitmap :]
    kinds = (1, 2) if code in UPDATES else ((3, 3) if code in DELETES else (0, 0))
    return RowEvent(table_number(body), kinds, inflated(images) if code in _COMPRESSED else images, partial)


def query_event(code: int, body: bytes, collations: Mapping[int, str]) -> QueryEvent:
    """A statement, which is in the character set of its client, and the database it ran in. `collations`:
    the character set of each collation id."""
    if code == LOAD_QUERY:
        body = body[: _OF_LOAD.start] + body[_OF_LOAD.stop :]
    size, states = body[8], int.from_bytes(body[11:13], "little")
    at = 13 + states
    text = body[at + size + 1 :]
    charset = collations.get(_client_collation(body[13:at]), "")
    whole = inflated(text) if code == QUERY_COMPRESSED else text
    try:
        shown = charsets.text(whole, charset)
    except (LookupError, UnicodeError):
        shown = whole.decode(errors="replace")
    return QueryEvent(body[at : at + size].decode(errors="replace"), shown)


def _client_collation(states: bytes) -> int:
    """The collation id of the client among the session states of a statement (each a code and a value; those
    of known sizes come first); 0 without one."""
    at = 0
    while at < len(states) and states[at] != _CLIENT_CHARSET:
        if states[at] == _CATALOG:
            at += 2 + states[at + 1]
        elif states[at] in _STATE_BYTES:
            at += 1 + _STATE_BYTES[states[at]]
        else:
            return 0
    return int.from_bytes(states[at + 1 : at + 3], "little")


def inflated(data: bytes) -> bytes:
    """What MariaDB compressed: 128 | algorithm << 4 | n, the length in n bytes BE, a zlib stream."""
    head = data[0]
    if not head & 0x80 or (head >> 4) & 7:
        raise Unsupported(
            f"a compressed binlog event with head {head:#x}", "SET GLOBAL log_bin_compress = OFF"
        )
    return zlib.decompress(data[1 + (head & 7) :])


def has_checksums(body: bytes) -> bool:
    """Whether events end with a CRC32, by the format event at the start of a file (its own included)."""
    algorithm = body[-5]
    if algorithm not in (_NO_CRC, _CRC32):
        raise Unsupported(
            f"binlog checksums of algorithm {algorithm}", "SET GLOBAL binlog_checksum = 'CRC32'"
        )
    return algorithm == _CRC32


def _layout(code: int, meta: Sequence[int]) -> tuple[int, int, int]:
    """(width, size, scale) of a wire column."""
    if code in _PLAIN:
        return _PLAIN[code], 0, 0
    if code == NEWDECIMAL:
        whole, fraction = divmod(meta[0] - meta[1], 9), divmod(meta[1], 9)
        groups = whole[0] + fraction[0]
        return 4 * groups + _DIGIT_BYTES[whole[1]] + _DIGIT_BYTES[fraction[1]], meta[0], meta[1]
    if code in (TIMESTAMP2, DATETIME2, TIME2):
        whole_bytes = {TIMESTAMP2: 4, DATETIME2: 5, TIME2: 3}[code]
        return whole_bytes + (meta[0] + 1) // 2, meta[0], 0
    if code == BIT:
        return meta[1] + (meta[0] > 0), meta[1] * 8 + meta[0], 0
    if code in (ENUM, SET):
        return meta[1], 0, 0
    if code == STRING:
        size = meta[1] | (((meta[0] & 0x30) ^ 0x30) << 4)
        return (-1 if size < 256 else -2), size, 0
    if code in (VARCHAR, 141):
        size = meta[0] | meta[1] << 8
        return (-1 if size < 256 else -2), size, 0
    if code in (BLOB, GEOMETRY, JSON, 140):
        return -meta[0], 0, 0
    raise Unsupported(f"wire type {code}")


def _real(code: int, meta: Sequence[int]) -> int:
    """ENUM and SET say that they are STRING."""
    return meta[0] if code == STRING and meta[0] in (ENUM, SET) else code


def _metas(codes: bytes, data: bytes) -> list[bytes]:
    metas, at = [], 0
    for code in codes:
        size = _META_BYTES.get(code, 0)
        metas.append(data[at : at + size])
        at += size
    return metas


def _optional(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        size, begin = _length(data, at + 1)
        yield data[at], data[begin : begin + size]
        at = begin + size


def _unsigned(real: Sequence[int], bits: bytes) -> set[int]:
    numeric = [c for c, code in enumerate(real) if code in _SIGNED]
    return {c for i, c in enumerate(numeric) if i // 8 < len(bits) and bits[i // 8] >> (7 - i % 8) & 1}


def _collations(
    real: Sequence[int], codes: set[int], default: bytes | None, each: bytes | None
) -> dict[int, int]:
    """Collation of the columns of these types: one for all but some, or one each."""
    mine = [c for c, code in enumerate(real) if code in codes]
    if each is not None:
        return dict(zip(mine, _numbers(each), strict=False))
    if default is None:
        return {}
    common, *pairs = _numbers(default)
    others = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return {c: others.get(i, common) for i, c in enumerate(mine)}


def _numbers(data: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(data):
        number, at = _length(data, at)
        numbers.append(number)
    return numbers


def _texts(data: bytes) -> list[bytes]:
    texts, at = [], 0
    while at < len(data):
        size, at = _length(data, at)
        texts.append(data[at : at + size])
        at += size
    return texts


def _lists(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = _length(data, at)
        texts = []
        for _ in range(count):
            size, at = _length(data, at)
            texts.append(data[at : at + size])
            at += size
        yield tuple(texts)


def _length(data: bytes, at: int) -> tuple[int, int]:
    """(a number of 1, 3, 4 or 9 bytes, where it ends)."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


@dataclass(frozen=True, slots=True)
class LogPosition:
    """All before `offset` of `file`; `gtid` is the last transaction of each domain (of each server:
    MySQL). `created`: the second after 1970 in which the file was begun, 0 where that is not known."""

    file: str
    offset: int
    gtid: str = ""
    created: int = field(default=0, compare=False)

    @property
    def order(self) -> tuple[int, int]:
        """What orders positions of one server: binlog.999999 comes before binlog.1000000."""
        number = self.file.rpartition(".")[2]
        if not number.isdigit():
            raise InvalidRequest(f"{self.file!r} is no name of a binlog file")
        return int(number), self.offset

    def reaches(self, other: LogPosition) -> bool:
        """Whether everything before `other` is before this one."""
        return self.order >= other.order

    def end_before(self, target: LogPosition, end: LogPosition) -> LogPosition:
        """Where one that goes on from here stops: at the target, or at the end of the log before that."""
        return self if self.reaches(target) else target if end.reaches(target) else end

    def includes(self, other: LogPosition) -> bool:
        """Whether every transaction before `other`, maybe a position of another server, is before this one,
        by their GTIDs. Those of MySQL are not compared: True only for the same text."""
        mine = {gtid.split("-")[0]: gtid for gtid in self.gtid.split(",") if gtid.count("-") == 2}
        for wanted in filter(None, other.gtid.split(",")):
            if wanted.count("-") != 2:
                return self.gtid == other.gtid
            domain, _, number = wanted.split("-")
            if int(mine.get(domain, "0-0-0").split("-")[2]) < int(number):
                return False
        return True

    def of_another_log(self, address: str, why: str) -> NotFound:
        """The error where the server has a log of which this is no position."""
        return NotFound(
            f"{address}: the binlog is another one than that of {self}: {why}. It was begun anew (RESET "
            "MASTER), lost its end, or the server is another one: "
            "start with a new snapshot; a capture does so with read_again='*.*' (--read-again '*.*')"
        )

    def to_json(self) -> list[Any]:
        return [self.file, self.offset, self.gtid, *([self.created] if self.created else [])]

    @classmethod
    def from_json(cls, item: Any) -> LogPosition:
        try:
            file, offset, gtid, *created = item
            (second,) = created or [0]
            return cls(str(file), int(offset), str(gtid), int(second))
        except (TypeError, ValueError):
            raise InvalidRequest(f"{item!r} is no position in a binlog") from None

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}" + (f" ({self.gtid})" if self.gtid else "")
