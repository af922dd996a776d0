"""Thrift's compact protocol without a schema, as in Parquet's footers and page headers. Pure.

A struct is a list of (field id, type, value) in order; lists are (type of items, items). A struct that is
read and written back unchanged has the same bytes. Structs that are bytes already are copied. Used by
`int96`, `checked_file`, `pages`. The package thrift would need code generated for Parquet's structs and drops
unknown fields.
"""

from __future__ import annotations

import struct
from typing import Any

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
