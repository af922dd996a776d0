"""INT96 timestamps of Parquet files, without loss: the footer is changed so that they are read as bytes.

    12 bytes, little-endian: int64 nanoseconds of the day (negative before 1970 in Java's files)
                             int32 Julian day

Arrow turns INT96 into 64 bits of nanoseconds and wraps around in silence. So schema and column chunks of
INT96 columns are declared FIXED_LEN_BYTE_ARRAY(12), which has the same bytes on the pages, and read here,
where a value out of range is seen. The footer is Thrift's compact form, walked without knowing names. Pure.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.errors import Unsupported

_INT96, _FIXED, _WIDTH = 3, 7, 12
_BOOL_TRUE, _BOOL_FALSE, _I32, _I64, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 5, 6, 8, 9, 10, 11, 12
_MAGIC = b"PAR1"
_EPOCH_DAY, _DAY_NANOS = 2440588, 86_400 * 10**9
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_MOST_DEPTH = 32
Struct = list[tuple[int, int, Any]]  # (field id, type, value) in order


def has_int96(footer: pq.FileMetaData, name: str) -> bool:
    """Whether a top-level column holds INT96 values, at any depth."""
    leaves = (footer.schema.column(i) for i in range(len(footer.schema)))
    return any(
        c.physical_type == "INT96" and (c.path == name or c.path.startswith(f"{name}.")) for c in leaves
    )


def as_bytes(source: pa.NativeFile) -> pq.FileMetaData:
    """The footer of a file with its INT96 columns declared as 12 bytes; ValueError for damage."""
    size = source.size()
    source.seek(size - 8)
    (length,) = struct.unpack("<I", source.read(4))
    if length > size - 12:
        raise ValueError(f"a footer of {length} bytes in a file of {size}")
    source.seek(size - 8 - length)
    tree, _ = _read_struct(source.read(length), 0, 0)
    for element in _field(tree, 2)[1]:
        if _value(element, 1) == _INT96:
            element[:] = [(1, _I32, _FIXED), (2, _I32, _WIDTH), *(f for f in element if f[0] > 2)]
    for group in _field(tree, 4)[1]:
        for chunk in _field(group, 1)[1]:
            meta = _field(chunk, 3)
            if _value(meta, 1) == _INT96:
                meta[:] = [(1, _I32, _FIXED), *(f for f in meta if f[0] not in (1, 12))]  # 12: statistics
    footer = _struct_bytes(tree)
    whole = _MAGIC + footer + struct.pack("<I", len(footer)) + _MAGIC
    return pq.read_metadata(pa.BufferReader(whole))


def timestamps(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values of 12 bytes as timestamps; raises Unsupported for one that the unit of `wanted` cannot hold."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    data = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    cells = data[_WIDTH * array.offset : _WIDTH * (array.offset + len(array))].reshape(-1, _WIDTH)
    nanos = np.ascontiguousarray(cells[:, :8]).view("<i8")[:, 0].astype(np.int64)
    days = np.ascontiguousarray(cells[:, 8:]).view("<i4")[:, 0].astype(np.int64) - _EPOCH_DAY
    days, nanos = np.where(valid, days + nanos // _DAY_NANOS, 0), np.where(valid, nanos % _DAY_NANOS, 0)
    per_unit = _UNITS[wanted.unit]
    ticks, per_day = nanos // per_unit, _DAY_NANOS // per_unit
    (low_day, low), (high_day, high) = divmod(-(2**63), per_day), divmod(2**63 - 1, per_day)
    outside = (days < low_day) | ((days == low_day) & (ticks < low))
    outside |= (days > high_day) | ((days == high_day) & (ticks > high))
    if outside.any():
        day = int(days[np.argmax(outside)])
        when = np.datetime64(day, "D")
        raise Unsupported(f"timestamps above microseconds outside 1677-09-21..2262-04-11, such as {when}")
    # a day before the first whole one is built from above, so that no product leaves 64 bits
    below = days < 0
    found = (days + below) * per_day + (ticks - np.where(below, per_day, 0))
    return pa.array(found, pa.int64(), mask=~valid).cast(pa.timestamp(wanted.unit)).cast(wanted)


def _field(fields: Struct, number: int) -> Any:
    for found, _, value in fields:
        if found == number:
            return value
    raise ValueError(f"no field {number} in the footer")


def _value(fields: Struct, number: int) -> Any:
    return next((value for found, _, value in fields if found == number), None)


def _read_struct(data: bytes, at: int, depth: int) -> tuple[Struct, int]:
    if depth > _MOST_DEPTH:
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
        value, at = _read(data, at, kind, depth)
        fields.append((number, kind, value))


def _read(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_BOOL_TRUE, _BOOL_FALSE):
        return None, at
    if kind in (4, _I32, _I64):
        return _read_long(data, at)
    if kind == 3:
        return data[at : at + 1], at + 1
    if kind == 7:
        return data[at : at + 8], at + 8
    if kind == _BINARY:
        length, at = _read_varint(data, at)
        if length > len(data) - at:
            raise ValueError(f"text of {length} bytes at {at} of {len(data)}")
        return data[at : at + length], at + length
    if kind in (_LIST, _SET):
        return _read_list(data, at, depth)
    if kind == _STRUCT:
        return _read_struct(data, at, depth + 1)
    raise ValueError(f"a field of type {kind} in the footer")


def _read_list(data: bytes, at: int, depth: int) -> tuple[tuple[int, list[Any]], int]:
    head = data[at]
    at += 1
    count = head >> 4
    if count == 15:
        count, at = _read_varint(data, at)
    if count > len(data) - at:
        raise ValueError(f"{count} items at {at} of {len(data)} bytes")
    items = []
    kind = head & 0x0F
    for _ in range(count):
        if kind in (_BOOL_TRUE, _BOOL_FALSE):  # one byte each inside lists
            item, at = data[at : at + 1], at + 1
        else:
            item, at = _read(data, at, kind, depth)
        items.append(item)
    return (kind, items), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
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
    value, at = _read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _struct_bytes(fields: Struct) -> bytes:
    out = bytearray()
    last = 0
    for number, kind, value in fields:
        delta = number - last
        if 0 < delta <= 15:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            out += _long_bytes(number)
        last = number
        out += _value_bytes(kind, value)
    return bytes(out) + b"\0"


def _value_bytes(kind: int, value: Any) -> bytes:
    if kind in (_BOOL_TRUE, _BOOL_FALSE):
        return b""
    if kind in (4, _I32, _I64):
        return _long_bytes(value)
    if kind in (3, 7):
        return bytes(value)
    if kind == _BINARY:
        return _varint_bytes(len(value)) + value
    if kind == _STRUCT:
        return _struct_bytes(value)
    inner, items = value
    head = (
        bytes([len(items) << 4 | inner])
        if len(items) < 15
        else bytes([0xF0 | inner]) + _varint_bytes(len(items))
    )
    plain = inner in (_BOOL_TRUE, _BOOL_FALSE)
    return head + b"".join(item if plain else _value_bytes(inner, item) for item in items)


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _long_bytes(value: int) -> bytes:
    return _varint_bytes(value << 1 if value >= 0 else (-value << 1) - 1)
