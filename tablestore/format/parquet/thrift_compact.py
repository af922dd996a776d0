"""Thrift's compact protocol without a schema, as in Parquet's footers, and the headers of pages: their
length, number of values, minimum and maximum.

A struct is a list of (field id, type, value) in order; lists are (type of items, items). A struct that is
read and written back unchanged has the same bytes. Structs that are bytes already are copied. The package
thrift would need code generated for Parquet's structs and drops unknown fields.

pyarrow does not expose page headers. Nearly all of ours and Java's have one of two forms, which `usual` reads
without walking the struct; where it succeeds, it agrees with `any_header`: it takes 1.7 µs, `any_header` 11.
Pure except for reading the file. Used by `int96`, `checked_file` and `pages`.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

DATA, INDEX, DICTIONARY, DATA_V2 = 0, 1, 2, 3
_HEADER_BYTES, _MAX_HEADER_BYTES = 512, 1 << 20
_MAX_BOUND_BYTES = 64  # maximum size of a page's bound; longer ones are dropped
Bounds = tuple[bytes, bytes]
BOOL_TRUE, BOOL_FALSE, INT32, INT64, BINARY, LIST, SET, STRUCT = 1, 2, 5, 6, 8, 9, 10, 12
MAGIC = b"PAR1"
_NUMBERS = (INT64, INT32, 4)
_MAX_DEPTH = 32
Struct = list[tuple[int, int, Any]]  # (field id, type, value) in order


def parquet_footer(source: Any) -> Struct:
    """The footer of a Parquet file; damage raises ValueError or IndexError."""
    size = source.size()
    (length,) = struct.unpack("<I", source.read_at(8, size - 8)[:4])
    if length > size - 12:
        raise ValueError(f"a footer of {length} bytes in a file of {size}")
    return read_struct(source.read_at(length, size - 8 - length))[0]


def footer_bytes(tree: Struct) -> bytes:
    """The end of a Parquet file with this footer."""
    return ended(struct_bytes(tree))


def ended(footer: bytes) -> bytes:
    """The end of a Parquet file with this encoded footer."""
    return footer + struct.pack("<I", len(footer)) + MAGIC


def field(fields: Struct, number: int) -> Any:
    """The value of a field; ValueError without it."""
    for n, _, value in fields:
        if n == number:
            return value
    raise ValueError(f"no field {number} in the footer")


def value(fields: Struct, number: int) -> Any:
    """The value of a field, None without it."""
    return next((value for n, _, value in fields if n == number), None)


def read_struct(data: bytes, at: int = 0, depth: int = 0) -> tuple[Struct, int]:
    """(the struct at position `at`, the position after it); damage raises ValueError or IndexError."""
    if depth > _MAX_DEPTH:
        raise ValueError("the footer is nested too deeply")
    fields: Struct = []
    number = 0
    while True:
        head = data[at]
        at += 1
        if not head:
            return fields, at
        kind = head & 0x0F
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read_long(data, at)
        byte = data[at]
        if byte < 0x80 and kind in _NUMBERS:  # nearly all fields are small numbers
            value, at = (byte >> 1) ^ -(byte & 1), at + 1
        else:
            value, at = _read(data, at, kind, depth)
        fields.append((number, kind, value))


def _read(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (BOOL_TRUE, BOOL_FALSE):
        return None, at
    if kind in (4, INT32, INT64):
        return _read_long(data, at)
    if kind == 3:
        return data[at : at + 1], at + 1
    if kind == 7:
        return data[at : at + 8], at + 8
    if kind == BINARY:
        length, at = read_varint(data, at)
        if length > len(data) - at:
            raise ValueError(f"text of {length} bytes at {at} of {len(data)}")
        return data[at : at + length], at + length
    if kind in (LIST, SET):
        return _read_list(data, at, depth)
    if kind == STRUCT:
        return read_struct(data, at, depth + 1)
    raise ValueError(f"a field of type {kind} in the footer")


def _read_list(data: bytes, at: int, depth: int) -> tuple[tuple[int, list[Any]], int]:
    head = data[at]
    at += 1
    count = head >> 4
    if count == 15:
        count, at = read_varint(data, at)
    if count > len(data) - at:
        raise ValueError(f"{count} items at {at} of {len(data)} bytes")
    items = []
    kind = head & 0x0F
    for _ in range(count):
        if kind in (BOOL_TRUE, BOOL_FALSE):  # one byte each inside lists
            item, at = data[at : at + 1], at + 1
        else:
            item, at = _read(data, at, kind, depth)
        items.append(item)
    return (kind, items), at


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(the number at position `at`, the position after it)."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    value, at = read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def struct_bytes(fields: Struct) -> bytes:
    """A struct as bytes."""
    out = bytearray()
    last = 0
    for number, kind, value in fields:
        delta = number - last
        if 0 < delta <= 15:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            out += long_bytes(number)
        last = number
        out += _value_bytes(kind, value)
    return bytes(out) + b"\0"


def _value_bytes(kind: int, value: Any) -> bytes:
    if kind in (BOOL_TRUE, BOOL_FALSE):
        return b""
    if kind in (4, INT32, INT64):
        return long_bytes(value)
    if kind in (3, 7):
        return bytes(value)
    if kind == BINARY:
        return varint_bytes(len(value)) + value
    if kind == STRUCT:
        return value if isinstance(value, bytes) else struct_bytes(value)
    inner, items = value
    plain = inner in (BOOL_TRUE, BOOL_FALSE)
    return list_head(inner, len(items)) + b"".join(i if plain else _value_bytes(inner, i) for i in items)


def list_head(kind: int, count: int) -> bytes:
    """The head of a list of `count` items."""
    return bytes((count << 4 | kind,)) if count < 15 else bytes((0xF0 | kind,)) + varint_bytes(count)


def varint_bytes(value: int) -> bytes:
    """A varint of a number that is not negative."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def long_bytes(value: int) -> bytes:
    """A zigzag varint, as for numbers of 16, 32 or 64 bits."""
    return varint_bytes(value << 1 if value >= 0 else (-value << 1) - 1)


class Header(NamedTuple):
    """A page header: its own length, and the kind, bytes and values of the page after it."""

    length: int
    kind: int
    size: int
    values: int
    bounds: Bounds | None


def header(source: Any, at: int, end: int) -> Header:
    """The page header at byte `at`; a second read is needed only for long statistics."""
    length = _HEADER_BYTES
    while True:
        data = source.read_at(min(length, end - at), at)
        try:
            return parsed(data)
        except (IndexError, ValueError):
            if length > _MAX_HEADER_BYTES or len(data) < length:
                raise
            length *= 16


def parsed(data: bytes) -> Header:
    """The page header at the start of these bytes; raises IndexError for too few bytes, ValueError for
    damage."""
    return usual(data) or any_header(data)


# Data page headers as Arrow writes them, read in a fifth of the time: type, bytes before and after
# compression, a checksum if there is one, values, encodings; then of numbers without nulls greatest and least
# value, both once more, flags; of text how many nulls, greatest and least value, flags.
_LONG = rb"([\x80-\xff]*[\x00-\x7f])"
_PAIR = rb"(?:\x18\x08.{8}\x18\x08.{8}\x16\x00\x28\x08(.{8})\x18\x08(.{8})|"
_PAIR += rb"\x18\x04.{4}\x18\x04.{4}\x16\x00\x28\x04(.{4})\x18\x04(.{4}))"
_USUAL = re.compile(
    rb"\x15\x00\x15[\x80-\xff]*[\x00-\x7f]\x15"
    + _LONG
    + rb"(?:\x2c|\x15[\x80-\xff]*[\x00-\x7f]\x1c)\x15"
    + _LONG
    + rb"(?:\x15[\x00-\x7f]){3}"
    rb"\x1c(?:" + _PAIR + rb"[\x11\x12]{2}\x00\x00\x00|\x36[\x80-\xff]*[\x00-\x7f]\x28)",
    re.DOTALL,
)
_END = re.compile(rb"[\x11\x12]{2}\x00\x00\x00")


_ANY = rb"[\x80-\xff]*[\x00-\x7f]"
_SIZES = re.compile(
    rb"\x15([\x00-\x7f])\x15"
    + _ANY
    + rb"\x15"
    + _LONG
    + rb"(?:(?:\x15"
    + _ANY
    + rb"\x1c|\x2c)\x15"
    + _LONG
    + rb")?",
    re.DOTALL,
)


def page_sizes(data: bytes) -> tuple[int | None, int]:
    """(bytes of the page after a header written by Arrow, values in it, 0 if it is no data page)."""
    match = _SIZES.match(data)
    if match is None:
        return None, 0
    kind, size, values = match.groups()
    count = read_varint(values, 0)[0] >> 1 if kind == b"\x00" and values else 0
    return read_varint(size, 0)[0] >> 1, count


def checksum(data: bytes) -> int | None:
    """The CRC-32 of the page in its header; None without one."""
    crc = value(read_struct(data)[0], 4)
    return None if crc is None else crc & 0xFFFFFFFF


def usual(data: bytes) -> Header | None:
    """The page header at the start of these bytes; None for another form. Raises IndexError for too few
    bytes."""
    match = _USUAL.match(data)
    if match is None:
        return None
    size, values, *long, highest, lowest = match.groups()
    length, count = read_varint(size, 0)[0] >> 1, read_varint(values, 0)[0] >> 1
    if highest is None:
        highest, lowest = long
    if highest is not None:
        return Header(match.end(), DATA, length, count, (lowest, highest))
    end, bounds = _text_bounds(data, match.end())
    return Header(end, DATA, length, count, bounds) if end else None


def any_header(data: bytes) -> Header:
    """The page header in any form; damage raises IndexError or ValueError, too."""
    header, length = read_struct(data)
    kind, size = field(header, 1), field(header, 3)
    if kind not in (DATA, DATA_V2):
        return Header(length, kind, size, 0, None)
    page = field(header, 5 if kind == DATA else 8)
    stats = value(page, 5 if kind == DATA else 8) or []
    lowest, highest = value(stats, 6), value(stats, 5)
    bounds = (lowest, highest) if lowest is not None and highest is not None else None
    return Header(length, kind, size, field(page, 1), _if_short(bounds))


def _text_bounds(data: bytes, at: int) -> tuple[int, Bounds | None]:
    """(end of a page header, bounds of its text) from the length of the greatest on; 0 for another form."""
    length, at = read_varint(data, at)
    highest, at = data[at : at + length], at + length
    if data[at] != 0x18:
        return 0, None
    length, at = read_varint(data, at + 1)
    lowest, at = data[at : at + length], at + length
    end = _END.match(data, at)
    return (0, None) if end is None else (end.end(), _if_short((lowest, highest)))


def _if_short(bounds: Bounds | None) -> Bounds | None:
    return bounds if bounds is not None and max(map(len, bounds)) <= _MAX_BOUND_BYTES else None
