"""Roaring bitmaps in their portable form ⇄ sorted positions in numpy: 32-bit, and 64-bit as in Iceberg
(FORMAT.md 14.2).

    uint32 cookie   12346: next uint32 is the container count; offsets follow the header
                    12347 + (count - 1 << 16): then one bit a container, set where it holds runs;
                    offsets follow only if there are 4 containers or more
    count × (uint16 high bits of the positions, uint16 cardinality - 1)
    count × uint32 offset from the cookie
    containers      array: uint16 low bits; bitmap (cardinality > 4096): 8192 bytes; runs: uint16 n,
                    n × (uint16 start, uint16 length - 1)

All little-endian. 64-bit: int64 count, then for each (int32 high bits, ascending; a 32-bit bitmap).
The 32-bit form is encoded and decoded by pyroaring, which writes the same bytes as Java and decodes 4 to 30
times as fast as numpy; bytes that only pyroaring accepts are refused here. Hostile bytes raise ValueError,
before positions are allocated. Pure.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable

import numpy as np
from pyroaring import BitMap

_WITH_RUNS = 12347
_OFFSETS_FROM = 4
_MAX_ARRAY = 4096
_BITMAP_BYTES = 8192
_MIN_BYTES = 8
MAX_POSITIONS = 1 << 31


def encode32(positions: np.ndarray) -> bytes:
    """The bitmap of strictly increasing positions below 2^32, each container in its smallest form."""
    return _encoded(BitMap(array("I", positions.astype(np.uint32).tobytes())))


def decode32(data: bytes | memoryview, *, max_count: int = MAX_POSITIONS) -> np.ndarray:
    """Strictly increasing int64 positions of a bitmap that fills `data`; raises ValueError for anything
    else."""
    return _positions(_whole(data), max_count)


def decode32_from(data: bytes | memoryview, *, max_count: int = MAX_POSITIONS) -> tuple[np.ndarray, int]:
    """(positions, bytes read) of a bitmap at the beginning of `data`; ValueError for anything else."""
    bitmap, end = _decoded(data)
    return _positions(bitmap, max_count), end


def union32(bitmaps: Iterable[bytes]) -> bytes:
    """The union of bitmaps, in the form of `encode32`; raises ValueError for other bytes."""
    return _encoded(BitMap.union(*map(_whole, bitmaps)))


def _encoded(bitmap: BitMap) -> bytes:
    bitmap.run_optimize()
    return bitmap.serialize()


def _whole(data: bytes | memoryview) -> BitMap:
    bitmap, end = _decoded(data)
    if end != len(data):
        raise ValueError(f"the bitmap ends at byte {end} of {len(data)}")
    return bitmap


def _decoded(data: bytes | memoryview) -> tuple[BitMap, int]:
    """(bitmap, bytes read)."""
    if len(data) < _MIN_BYTES:
        raise ValueError(f"{len(data)} bytes that are not a roaring bitmap")
    bitmap = BitMap.deserialize(data)  # type: ignore[arg-type]  # takes any buffer; its stub says bytes
    end, count = _extent(data)
    if count != len(bitmap):  # only runs store their number twice
        raise ValueError("runs that do not add up")
    return bitmap, end


def _positions(bitmap: BitMap, max_count: int) -> np.ndarray:
    if len(bitmap) > max_count:
        raise ValueError(f"{len(bitmap):,} positions, of {max_count:,} possible ones")
    return np.frombuffer(bitmap.to_array(), dtype=np.uint32).astype(np.int64)


def _extent(data: bytes | memoryview) -> tuple[int, int]:
    """(bytes, positions) of a valid bitmap, by its header."""
    cookie, count = struct.unpack_from("<II", data)
    flags: bytes | memoryview = b""
    at = 8
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        at = 4 + (count + 7) // 8
        flags = data[4:at]
    sizes = [n + 1 for n in struct.unpack_from(f"<{2 * count}H", data, at)[1::2]]
    at += 4 * count if flags and count < _OFFSETS_FROM else 8 * count
    for i, size in enumerate(sizes):
        if flags and flags[i >> 3] >> (i & 7) & 1:
            at += 2 + 4 * struct.unpack_from("<H", data, at)[0]
        else:
            at += 2 * size if size <= _MAX_ARRAY else _BITMAP_BYTES
    return at, sum(sizes)


def encode64(positions: np.ndarray) -> bytes:
    """The 64-bit form; high words without positions are written as empty bitmaps, as Java does."""
    words = int(positions[-1] >> 32) + 1 if len(positions) else 0
    bounds = np.searchsorted(positions, [w << 32 for w in range(words + 1)])
    parts = [struct.pack("<q", words)]
    for word in range(words):
        parts.append(struct.pack("<i", word))
        parts.append(encode32(positions[bounds[word] : bounds[word + 1]] & 0xFFFFFFFF))
    return b"".join(parts)


def decode64(data: bytes, *, max_count: int = MAX_POSITIONS) -> np.ndarray:
    """Strictly increasing int64 positions of the 64-bit form; ValueError for anything else."""
    (count,) = struct.unpack_from("<q", data) if len(data) >= 8 else (-1,)
    if not 0 <= count <= len(data) // 8:
        raise ValueError(f"{count} bitmaps in {len(data)} bytes")
    rest, at, left, last = memoryview(data), 8, max_count, -1
    bitmaps = [np.zeros(0, dtype=np.int64)]
    for _ in range(count):
        if len(data) < at + 4:
            raise ValueError(f"{count} bitmaps are promised, bitmap {len(bitmaps)} begins beyond the end")
        (word,) = struct.unpack_from("<i", data, at)
        if word <= last:
            raise ValueError(f"bitmap {word} comes after bitmap {last}")
        positions, size = decode32_from(rest[at + 4 :], max_count=left)
        bitmaps.append(positions + (word << 32))
        at, left, last = at + 4 + size, left - len(positions), word
    if at != len(data):
        raise ValueError(f"the bitmaps end at byte {at} of {len(data)}")
    return np.concatenate(bitmaps)
