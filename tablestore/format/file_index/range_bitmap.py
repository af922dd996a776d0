"""Range-bitmap indexes: a sorted dictionary of a column's values and, bit-sliced, the code of each row
(FORMAT.md 16.7). Numbers are big-endian.

    int32 head bytes | byte 1 | int32 rows | int32 values | least, greatest value | int32 dictionary bytes
    dictionary: int32 13 | byte 1 | int32 chunks | int32 bytes of offsets | int32 bytes of chunks
                int32 offset a chunk | chunks | keys of all chunks
        a chunk of numbers: byte 1 | first value | int32 its code | int32 offset of its keys | int32 more keys
                            int32 bytes of keys | int32 bytes a key
        a chunk of texts:   … int32 more keys | int32 bytes of offsets | int32 bytes of keys;
                            its keys are int32 offsets, then the texts
    codes:      int32 head bytes | byte 1 | byte digits | int32 bytes | int32 8 * digits | (int32 offset,
                int32 length) a digit | bitmap of rows that have a value | a bitmap a digit

A chunk holds its first value and then keys up to `chunk-size` bytes. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tablestore.core.options.values import memory_size
from tablestore.format import roaring
from tablestore.format.file_index import values
from tablestore.format.file_index.values import CellBuffer, IndexedCells
from tablestore.format.types.arrow_types import DataType

KIND = "range-bitmap"
_UNCHUNKED = ("BOOLEAN", "TINYINT", "SMALLINT")
_TYPES = (*_UNCHUNKED, "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME")


def takes(t: DataType) -> bool:
    """Whether columns of the type can have one."""
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return t.precision <= 6
    return t.root in _TYPES or t.is_string or (t.root == "DECIMAL" and t.precision <= 18)


class RangeBitmapWriter:
    """Makes the index of a file from its cells."""

    def __init__(self, t: DataType, options: Mapping[str, str]) -> None:
        self._type, self._cells = t, CellBuffer(t)
        usual = "0b" if t.root in _UNCHUNKED else "16kb"
        self._chunk_bytes = memory_size(options.get("chunk-size", usual))

    def add(self, cells: IndexedCells) -> None:
        """Add the cells of the next rows."""
        self._cells.add(cells)

    def finish(self) -> bytes:
        """The bytes of the index."""
        distinct = self._cells.distinct()
        packed = [values.pack(v, self._type) for v in distinct.values]
        ends = (packed[0] + packed[-1]) if packed else b""
        dictionary = _dictionary(packed, self._type, self._chunk_bytes)
        head = (
            struct.pack(">bii", 1, len(distinct.codes), len(packed))
            + ends
            + struct.pack(">i", len(dictionary))
        )
        return struct.pack(">i", len(head)) + head + dictionary + _codes(distinct.codes, len(packed))


def _dictionary(packed: Sequence[bytes], t: DataType, chunk_bytes: int) -> bytes:
    offsets, chunks, keys = bytearray(), bytearray(), bytearray()
    count = at = 0
    while at < len(packed):
        end = _chunk_end(packed, at, chunk_bytes, texts=t.is_string)
        offsets += struct.pack(">i", len(chunks))
        more = packed[at + 1 : end]
        chunks += struct.pack(">b", 1) + packed[at] + struct.pack(">iii", at, len(keys), len(more))
        body = b"".join(more)
        if t.is_string:
            starts = np.cumsum([0, *map(len, more)][: len(more)], dtype=np.int64) if more else np.zeros(0)
            places = starts.astype(">i4").tobytes()
            chunks += struct.pack(">ii", len(places), len(body))
            keys += places + body
        else:
            chunks += struct.pack(">ii", len(body), len(packed[at]))
            keys += body
        at, count = end, count + 1
    head = struct.pack(">biii", 1, count, len(offsets), len(chunks))
    return struct.pack(">i", len(head)) + head + bytes(offsets) + bytes(chunks) + bytes(keys)


def _chunk_end(packed: Sequence[bytes], first: int, chunk_bytes: int, *, texts: bool) -> int:
    """The number of the value after the last one that fits into the chunk that begins with `first`."""
    end, size = first + 1, 0
    while end < len(packed):
        size += len(packed[end])
        if size > chunk_bytes or (texts and 4 * (end - first) > chunk_bytes):
            break
        end += 1
    return end


def _codes(codes: np.ndarray, count: int) -> bytes:
    digits = max((count - 1).bit_length() if count else 64, 1)
    rows = np.flatnonzero(codes >= 0)
    stored = codes[rows]
    bitmaps = [roaring.encode32(rows[(stored >> i) & 1 == 1]) for i in range(digits)]
    present = roaring.encode32(rows)
    ends = np.cumsum([len(b) for b in bitmaps])
    index = b"".join(
        struct.pack(">ii", int(end) - len(b), len(b)) for end, b in zip(ends, bitmaps, strict=True)
    )
    head = struct.pack(">bbii", 1, digits, len(present), len(index)) + index
    return struct.pack(">i", len(head)) + head + present + b"".join(bitmaps)


@dataclass(frozen=True, slots=True)
class Coded:
    """A column as keys and codes: `keys` ascending, `codes` the index of each row's key, -1 for NULL."""

    keys: list[Any]
    codes: np.ndarray


def read(data: bytes, t: DataType, expected: int) -> Coded:
    """The decoded index; raises ValueError for damage, and unless it has `expected` rows."""
    head, version, rows, count = struct.unpack_from(">ibii", data)
    if version != 1 or rows != expected or not 0 <= count <= rows:
        raise ValueError(
            f"a range-bitmap index of version {version}: {count} values, {rows} of {expected} rows"
        )
    (size,) = struct.unpack_from(">i", data, head)
    keys = _read_dictionary(data[4 + head : 4 + head + size], t, count)
    return Coded(keys, _read_codes(data[4 + head + size :], rows, count))


def _read_dictionary(data: bytes, t: DataType, count: int) -> list[Any]:
    head, version, chunks, offsets, size = struct.unpack_from(">ibiii", data)
    if version != 1 or not 0 <= chunks <= max(count, 0):
        raise ValueError(f"a dictionary of version {version} with {chunks} chunks")
    start = 4 + head + offsets
    keys_at, keys = start + size, []
    at = start
    for _ in range(chunks):
        first, at = values.unpack(data, at + 1, t)
        _, offset, more, *sizes = struct.unpack_from(">iiiii", data, at)
        at += 20
        keys.append(first)
        body = keys_at + offset + (sizes[0] if t.is_string else 0)
        if not 0 <= more <= count:
            raise ValueError(f"{more} keys in a chunk of {count}")
        if not t.is_string:
            keys += values.unpacked(data[body : body + sizes[0]], t).tolist()
            continue
        for _ in range(more):
            key, body = values.unpack(data, body, t)
            keys.append(key)
    if len(keys) != count:
        raise ValueError(f"{len(keys)} keys, {count} are promised")
    return keys


def _read_codes(data: bytes, rows: int, count: int) -> np.ndarray:
    codes = np.full(rows, -1, dtype=np.int64)
    if not count:
        return codes
    head, version, digits, present, _ = struct.unpack_from(">ibbii", data)
    if version != 1 or not 0 <= digits <= 32:
        raise ValueError(f"codes of version {version} with {digits} digits")
    body = 4 + head
    stored = _within(roaring.decode32(data[body : body + present]), rows)
    numbers = np.zeros(rows, dtype=np.int64)
    for i in range(digits):
        offset, length = struct.unpack_from(">ii", data, 14 + 8 * i)
        start = body + present + offset
        numbers[_within(roaring.decode32(data[start : start + length]), rows)] |= 1 << i
    codes[stored] = numbers[stored]
    if len(stored) and int(codes.max()) >= count:
        raise ValueError(f"code {int(codes.max())} of {count}")
    return codes


def _within(positions: np.ndarray, rows: int) -> np.ndarray:
    if len(positions) and int(positions[-1]) >= rows:
        raise ValueError(f"row {int(positions[-1])} of {rows}")
    return positions
