"""BinaryRow: Paimon's row bytes in partitions, keys and statistics (FORMAT.md 4.1, 4.2, 4.3).

    serialized = int32 big-endian arity | body
    body (little-endian) = null bits, ((arity + 63 + 8) / 64) * 8 bytes, bit i + 8 for field i (byte 0 is the
    row kind)
                         | 8 bytes a field
                         | variable part, each item padded to 8 bytes, in field order
    slot: numbers low bytes first · text ≤ 7 bytes: the bytes, last byte 0x80 | length · longer: offset << 32
    | length
          DECIMAL p > 18: 16 variable bytes, big-endian unscaled, left-aligned · TIMESTAMP p > 3: 8 variable
          bytes of millis,
          slot = offset << 32 | nano of milli; both keep their variable bytes when null

A *raw value* is a cell as plain Python: int (DATE days, TIME ms, TIMESTAMP in the Arrow unit of its
precision, DECIMAL unscaled), float, bool, str, bytes or None. Nested values occur only as bounds by other
writers and decode to None. `encode`/`decode` serve single rows of metadata, `bodies` builds a whole column of
rows with numpy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Corrupt, Unsupported, brief
from tablestore.format.types.arrow_types import DataType, filled, valid_mask

Raw = int | float | bool | str | bytes | None
_FIXED = {  # slots of numbers
    "BOOLEAN": struct.Struct("<?7x"),
    "TINYINT": struct.Struct("<b7x"),
    "SMALLINT": struct.Struct("<h6x"),
    "INT": struct.Struct("<i4x"),
    "DATE": struct.Struct("<i4x"),
    "TIME": struct.Struct("<i4x"),
    "BIGINT": struct.Struct("<q"),
    "FLOAT": struct.Struct("<f4x"),
    "DOUBLE": struct.Struct("<d"),
}


class DamagedRow(Corrupt):
    """Bytes that are not a row of the expected types; raised again with the file's name where it is known."""

    def __init__(self, row: bytes, problem: str) -> None:
        self.row = row
        super().__init__("BinaryRow", problem)


def _null_bytes(arity: int) -> int:
    return (arity + 63 + 8) // 64 * 8


def _units_per_milli(t: DataType) -> int:
    return 1 if t.precision <= 3 else 1_000 if t.precision <= 6 else 1_000_000


def is_timestamp(t: DataType) -> bool:
    """TIMESTAMP with or without zone."""
    return t.root in ("TIMESTAMP", "TIMESTAMP_LTZ")


def encode(values: Sequence[Raw], types: Sequence[DataType]) -> bytes:
    """The serialized row of these raw values."""
    arity = len(types)
    head = bytearray(_null_bytes(arity))
    slots, variable = bytearray(), bytearray()
    start = len(head) + 8 * arity
    for i, (value, t) in enumerate(zip(values, types, strict=True)):
        if value is None:
            head[(i + 8) // 8] |= 1 << ((i + 8) % 8)
        elif t.root in _FIXED:
            slots += _FIXED[t.root].pack(value)
            continue
        slot, extra = _slot(value, t, start + len(variable))
        slots += slot
        variable += extra + bytes(-len(extra) % 8)
    return struct.pack(">i", arity) + bytes(head + slots + variable)


def _slot(value: Any, t: DataType, offset: int) -> tuple[bytes, bytes]:
    """The 8-byte slot and the variable bytes of one field that is NULL or of no fixed width."""
    if t.root == "DECIMAL" and t.precision > 18:
        body = b"" if value is None else value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True)
        return struct.pack("<Q", offset << 32 | len(body)), body.ljust(16, b"\0")
    if is_timestamp(t) and t.precision > 3:
        millis, rest = divmod(value or 0, _units_per_milli(t))
        nanos = rest * (1_000_000 // _units_per_milli(t))
        return struct.pack("<Q", offset << 32 | nanos), struct.pack("<q", millis)
    if value is None:
        return bytes(8), b""
    if t.root == "DECIMAL" or is_timestamp(t):
        return struct.pack("<q", value), b""
    if not (t.is_string or t.is_binary):
        raise Unsupported(f"{t.root} in keys, partitions and statistics")
    data = value.encode() if isinstance(value, str) else bytes(value)
    if len(data) <= 7:
        return data.ljust(7, b"\0") + bytes([0x80 | len(data)]), b""
    return struct.pack("<Q", offset << 32 | len(data)), data


@lru_cache(maxsize=65536)
def _decode(data: bytes, types: tuple[DataType, ...]) -> tuple[Raw, ...]:
    arity = int.from_bytes(data[:4], "big", signed=True)
    if arity != len(types):
        raise DamagedRow(data, f"{arity} fields, expected {len(types)}")
    body = memoryview(data)[4:]
    values: list[Raw] = []
    try:
        for i, t in enumerate(types):
            null = body[(i + 8) // 8] >> ((i + 8) % 8) & 1
            values.append(None if null else _value(body, _null_bytes(arity) + 8 * i, t))
    except (struct.error, IndexError, UnicodeDecodeError) as e:
        raise DamagedRow(data, f"damaged row of {len(data)} bytes: {brief(e)}") from e
    return tuple(values)


def decode(data: bytes, types: Sequence[DataType]) -> tuple[Raw, ...]:
    """The raw values of a serialized row (cached); raises Corrupt when arity or bytes do not fit `types`."""
    return _decode(data, tuple(types))


def decode_key(data: bytes, types: Sequence[DataType]) -> tuple[Raw, ...]:
    """The raw values of a serialized key or partition; raises Corrupt as `decode` does, and where a NOT NULL
    field is NULL."""
    values = decode(data, types)
    for i, (value, t) in enumerate(zip(values, types, strict=True)):
        if value is None and not t.nullable:
            raise DamagedRow(data, f"field {i} of a key is NULL; its type is {t}")
    return values


def key_order(data: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    """A tuple that compares in the format's key order, of a serialized key or partition; raises Corrupt as
    `decode_key` does."""
    return sort_key(decode_key(data, types), types)


def _value(body: memoryview, at: int, t: DataType) -> Raw:
    if t.root in _FIXED:
        return _FIXED[t.root].unpack_from(body, at)[0]
    if (t.root == "DECIMAL" and t.precision <= 18) or (is_timestamp(t) and t.precision <= 3):
        return struct.unpack_from("<q", body, at)[0]
    slot = struct.unpack_from("<Q", body, at)[0]
    offset, low = slot >> 32, slot & 0xFFFFFFFF
    if is_timestamp(t):
        millis = struct.unpack_from("<q", body, offset)[0]
        return millis * _units_per_milli(t) + low // (1_000_000 // _units_per_milli(t))
    if t.root == "DECIMAL":
        return int.from_bytes(_part(body, offset, low), "big", signed=True)
    if not (t.is_string or t.is_binary):
        return None  # nested values have no order, so their bounds are useless
    data = bytes(body[at : at + (body[at + 7] & 0x7F)]) if body[at + 7] & 0x80 else _part(body, offset, low)
    return data.decode() if t.is_string else data


def _part(body: memoryview, offset: int, length: int) -> bytes:
    if offset + length > len(body):
        raise IndexError(f"item at {offset}..{offset + length} of {len(body)} bytes")
    return bytes(body[offset : offset + length])


def sort_key(values: Sequence[Raw], types: Sequence[DataType]) -> tuple[Any, ...]:
    """A tuple that compares in the format's key order (FORMAT.md 4.5): null first, text by UTF-8 bytes, −0.0
    < 0.0, NaN greatest."""
    return tuple(_comparable(v, t) for v, t in zip(values, types, strict=True))


def _comparable(value: Any, t: DataType) -> Any:
    if t.root in ("FLOAT", "DOUBLE") and value is not None:
        bits = struct.unpack("<q", struct.pack("<d", value if value == value else float("nan")))[0]
        value = bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF
    return (value is not None, 0 if value is None else value) if t.nullable else value


def decimal_words(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(low uint64, high int64) words of a decimal128 array; undefined where null."""
    data = np.frombuffer(array.buffers()[1], dtype="<i8")[2 * array.offset : 2 * (array.offset + len(array))]
    return data[0::2].view(np.uint64), data[1::2]


def raw_values(array: pa.Array, t: DataType) -> list[Raw]:
    """Raw values of a few cells (keys, partitions, statistics: never a data path)."""
    if t.root == "DECIMAL":
        low, high = decimal_words(array)
        valid = array.is_valid()
        return [
            (int(high[i]) << 64) + int(low[i]) if ok else None
            for i, ok in enumerate(valid.to_numpy(zero_copy_only=False))
        ]
    if t.root in ("DATE", "TIME"):
        return array.cast(pa.int32()).to_pylist()
    if is_timestamp(t):
        return array.cast(pa.int64()).to_pylist()
    return array.to_pylist()


def encode_many(arrays: Sequence[pa.Array], types: Sequence[DataType]) -> list[bytes]:
    """Serialized rows of a few records."""
    columns = [raw_values(a, t) for a, t in zip(arrays, types, strict=True)]
    return [encode(row, types) for row in zip(*columns, strict=True)] if columns else []


def fixed_slots(array: pa.Array, t: DataType) -> np.ndarray | None:
    """int64 slots of a column whose values live in their slot, zero where null; None for types with variable
    parts."""
    if t.root == "DECIMAL" and t.precision <= 18:
        slots = decimal_words(array)[0].view(np.int64)
        return np.where(valid_mask(array), slots, 0) if array.null_count else slots
    if is_timestamp(t) and t.precision <= 3:
        return filled(array.cast(pa.int64()))
    if t.root in ("DATE", "TIME"):
        array = array.cast(pa.int32())
    elif t.root == "BOOLEAN":
        array = array.cast(pa.int8())
    elif t.root not in _FIXED:
        return None
    values = filled(array)
    if values.dtype == np.float32:
        values = values.view(np.uint32)
    elif values.dtype == np.float64:
        return values.view(np.int64)
    else:
        values = values.view(np.dtype(f"u{values.dtype.itemsize}"))
    return values.astype(np.int64)


def null_words(arrays: Sequence[pa.Array]) -> np.ndarray | None:
    """uint64 null-bit words, shape (words, rows), or None when no cell is null."""
    if not any(a.null_count for a in arrays):
        return None
    words = np.zeros((_null_bytes(len(arrays)) // 8, len(arrays[0])), dtype=np.uint64)
    for i, array in enumerate(arrays):
        if array.null_count:
            words[(i + 8) // 64] |= (~valid_mask(array)).astype(np.uint64) << np.uint64((i + 8) % 64)
    return words


def bodies(arrays: Sequence[pa.Array], types: Sequence[DataType]) -> tuple[np.ndarray, np.ndarray]:
    """Row bodies of whole columns: (bytes as one uint8 array, int64 offsets of length rows + 1)."""
    rows, arity = len(arrays[0]), len(types)
    head = _null_bytes(arity) + 8 * arity
    parts = [_variable(a, t) for a, t in zip(arrays, types, strict=True)]
    widths = [p.padded for p in parts if p is not None]
    total = head + (np.sum(widths, axis=0) if widths else np.zeros(rows, dtype=np.int64))
    offsets = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(total, out=offsets[1:])
    flat = np.zeros(int(offsets[-1]), dtype=np.uint8)
    words, first = flat.view("<u8"), offsets[:-1] // 8
    nulls = null_words(arrays)
    for w, bits in enumerate(() if nulls is None else nulls):
        words[first + w] = bits
    at = np.full(rows, head, dtype=np.int64)
    for i, (array, t, part) in enumerate(zip(arrays, types, parts, strict=True)):
        slot = first + _null_bytes(arity) // 8 + i
        if part is None:
            slots = fixed_slots(array, t)
            assert slots is not None, "a column has either slots or a variable part"
            words[slot] = slots.view(np.uint64)
            continue
        words[slot] = part.slots(at)
        part.copy(flat, offsets[:-1] + at)
        at = at + part.padded
    return flat, offsets


class _Text:
    """Variable part of text and binary columns: items of up to 7 bytes stay in the slot."""

    def __init__(self, array: pa.Array) -> None:
        kind = pa.large_binary()
        array = (
            array.cast(pa.large_string()).cast(kind) if pa.types.is_string(array.type) else array.cast(kind)
        )
        buffers = array.buffers()
        bounds = np.frombuffer(buffers[1], dtype=np.int64)[array.offset : array.offset + len(array) + 1]
        self.data = (
            np.frombuffer(buffers[2], dtype=np.uint8) if buffers[2] is not None else np.zeros(0, np.uint8)
        )
        self.valid = valid_mask(array)
        self.starts, self.lengths = bounds[:-1], np.where(self.valid, np.diff(bounds), 0)
        self.long = self.lengths > 7
        self.padded = np.where(self.long, (self.lengths + 7) // 8 * 8, 0)

    def slots(self, at: np.ndarray) -> np.ndarray:
        slots = (at.astype(np.uint64) << np.uint64(32)) | self.lengths.astype(np.uint64)
        short = np.zeros((len(at), 8), dtype=np.uint8)
        rows = np.flatnonzero(~self.long & (self.lengths > 0))
        self._gather(short.reshape(-1), rows * 8, rows)
        short[:, 7] = np.where(self.valid, 0x80 | self.lengths.clip(0, 7), 0)
        return np.where(self.long, slots, short.view("<u8")[:, 0])

    def copy(self, flat: np.ndarray, to: np.ndarray) -> None:
        rows = np.flatnonzero(self.long)
        self._gather(flat, to[rows], rows)

    def _gather(self, flat: np.ndarray, to: np.ndarray, rows: np.ndarray) -> None:
        lengths = self.lengths[rows]
        if not len(rows):
            return
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        flat[np.repeat(to, lengths) + within] = self.data[np.repeat(self.starts[rows], lengths) + within]


class _Stamp:
    """TIMESTAMP beyond milliseconds: 8 variable bytes of millis, nanos in the slot."""

    def __init__(self, array: pa.Array, t: DataType) -> None:
        per = _units_per_milli(t)
        values = filled(array.cast(pa.int64()))
        self.millis = values // per
        self.nanos = (values - self.millis * per) * (1_000_000 // per)
        self.padded = np.full(len(array), 8, dtype=np.int64)

    def slots(self, at: np.ndarray) -> np.ndarray:
        return (at.astype(np.uint64) << np.uint64(32)) | self.nanos.astype(np.uint64)

    def copy(self, flat: np.ndarray, to: np.ndarray) -> None:
        flat.view("<i8")[to // 8] = self.millis


class _BigDecimal:
    """DECIMAL p > 18: minimal big-endian two's complement, left-aligned in 16 variable bytes."""

    def __init__(self, array: pa.Array) -> None:
        low, high = decimal_words(array)
        valid = valid_mask(array)
        be = np.empty((len(array), 16), dtype=np.uint8)
        be[:, :8] = np.where(valid, high, 0).astype(">i8").view(np.uint8).reshape(-1, 8)
        be[:, 8:] = np.where(valid, low, 0).astype(">u8").view(np.uint8).reshape(-1, 8)
        sign = np.where(be[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
        filler = be == sign[:, None]
        redundant = filler[:, :15] & ((be[:, 1:] >= 0x80) == (sign == 0xFF)[:, None])
        skip = np.cumprod(redundant, axis=1).sum(axis=1)
        self.lengths = np.where(valid, 16 - skip, 0)
        index = np.arange(16)[None, :] + skip[:, None]
        moved = np.take_along_axis(be, np.minimum(index, 15), axis=1)
        self.bytes = np.where(index < 16, moved, 0).astype(np.uint8)
        self.padded = np.full(len(array), 16, dtype=np.int64)

    def slots(self, at: np.ndarray) -> np.ndarray:
        return (at.astype(np.uint64) << np.uint64(32)) | self.lengths.astype(np.uint64)

    def copy(self, flat: np.ndarray, to: np.ndarray) -> None:
        flat[to[:, None] + np.arange(16)[None, :]] = self.bytes


def _variable(array: pa.Array, t: DataType) -> _Text | _Stamp | _BigDecimal | None:
    if t.is_string or t.is_binary:
        return _Text(array)
    if is_timestamp(t) and t.precision > 3:
        return _Stamp(array, t)
    if t.root == "DECIMAL" and t.precision > 18:
        return _BigDecimal(array)
    if t.root in _FIXED or t.root == "DECIMAL" or is_timestamp(t):
        return None
    raise Unsupported(f"{t.root} in keys, partitions and statistics")


def signed(array: pa.Array) -> np.ndarray:
    """int64 values of an integer column, zero where null."""
    return filled(array).astype(np.int64)


_WIDTHS = {"TINYINT": "<i1", "SMALLINT": "<i2", "INT": "<i4", "DATE": "<i4", "TIME": "<i4", "BIGINT": "<i8"}


def integers(rows: pa.Array, types: Sequence[DataType]) -> list[np.ndarray] | None:
    """Many rows of one type decoded at once: one int64 array a column, in the order of its values; None if a
    column is nullable or not stored as an integer, or a row has another width. `rows` is a large_binary array
    without nulls."""
    kinds = [kind for t in types if not t.nullable and (kind := _decoded_kind(t)) is not None]
    if not types or len(kinds) < len(types):
        return None
    nulls = (len(types) + 63 + 8) // 64 * 8
    width = 4 + nulls + 8 * len(types)
    offsets = np.frombuffer(rows.buffers()[1], dtype=np.int64)[rows.offset : rows.offset + len(rows) + 1]
    if not len(rows) or (np.diff(offsets) != width).any():
        return None
    flat = np.frombuffer(rows.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    cells = flat.reshape(len(rows), width)
    if cells[:, 5 : 4 + nulls].any() or (cells[:, :4] != _arity(len(types))).any():
        return None
    columns = []
    for i, kind in enumerate(kinds):
        at = 4 + nulls + 8 * i
        slots = np.ascontiguousarray(cells[:, at : at + 8]).view(kind)
        columns.append(slots[:, 0].astype(np.int64))
    return columns


def _decoded_kind(t: DataType) -> str | None:
    if t.root == "DECIMAL":
        return "<i8" if t.precision <= 18 else None
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return "<i8" if t.precision <= 3 else None
    return _WIDTHS.get(t.root)


def _arity(columns: int) -> np.ndarray:
    return np.frombuffer(columns.to_bytes(4, "big"), dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class _Comparable:
    types: tuple[DataType, ...]

    def __call__(self, key: bytes) -> Any:
        return key_order(key, self.types)


def comparable_keys(types: Sequence[DataType]) -> Callable[[bytes], Any]:
    """A picklable function that makes serialized keys of these types comparable in the format's key order."""
    return _Comparable(tuple(types))
