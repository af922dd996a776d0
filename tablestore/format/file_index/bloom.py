"""Bloom filters: whether a value may be in a file (FORMAT.md 16.3). Pure.

    int32 BE number of hashes k | bits, bit i is byte i / 8, mask 1 << i % 8

The bits set by a 64-bit hash are (low + i * high) mod bits for i = 1..k, in Java's int arithmetic. The hashes
are XXH64 of bytes and Wang's mix of numbers, Java Paimon's to the bit (FORMAT.md 16.4). XXH64 works on all
values of one length at once, so its cost is a few numpy passes a word and length: 0.4 s of CPU for a million
short texts. (The package xxhash takes 0.1 s, one value a call; file indexes are too rare for a further
dependency.)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from tablestore.format.file_index import values
from tablestore.format.file_index.values import IndexedCells
from tablestore.format.types.arrow_types import DataType

KIND = "bloom-filter"
_ITEMS, _FPP = 1_000_000, 0.1
_MAX_HASHES = 64
_P1, _P2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_P3, _P4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_TYPES = (
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
)


def takes(t: DataType) -> bool:
    """Whether columns of the type can have one."""
    return t.root in _TYPES or t.is_string or t.is_binary


class BloomWriter:
    """Makes the filter of a file from its cells; memory is that of the filter."""

    def __init__(self, t: DataType, options: Mapping[str, str]) -> None:
        items, fpp = int(options.get("items", _ITEMS)), float(options.get("fpp", _FPP))
        if items < 1 or not 0 < fpp < 1:
            raise ValueError("items must be at least 1, fpp between 0 and 1")
        wanted = min(int(-items * math.log(fpp) / math.log(2) ** 2), 2**31 - 9)
        self._type, self._bits = t, wanted + 8 - wanted % 8
        self._hashes = max(1, math.floor(self._bits / items * math.log(2) + 0.5))
        self._set = np.zeros(self._bits // 8, dtype=np.uint8)

    def add(self, cells: IndexedCells) -> None:
        """Add the cells of the next rows."""
        hashed = _hashed(cells, self._type)
        for places in _places(hashed, self._hashes, self._bits):
            np.bitwise_or.at(self._set, places >> 3, np.left_shift(1, places & 7).astype(np.uint8))

    def finish(self) -> bytes:
        """The bytes of the filter."""
        return struct.pack(">i", self._hashes) + self._set.tobytes()


def _hashed(cells: IndexedCells, t: DataType) -> np.ndarray:
    """Distinct hashes of the cells that are not NULL."""
    if cells.texts is not None:
        return xxh64(cells.texts.drop_null().unique())
    assert cells.ordinals is not None
    return wang(values.bits(np.unique(cells.ordinals[cells.valid]), t))


def _places(hashed: np.ndarray, count: int, bits: int) -> Iterable[np.ndarray]:
    low, high = hashed.astype(np.int32), (hashed >> 32).astype(np.int32)
    with np.errstate(over="ignore"):
        for i in range(1, count + 1):
            mixed = (low + np.int32(i) * high).astype(np.int32)
            yield np.where(mixed < 0, ~mixed, mixed).astype(np.int64) % bits


def may_hold(data: bytes, literal: int | bytes, t: DataType) -> bool:
    """False only if no cell has the value, given as `values.literals` does; raises ValueError for damage."""
    (count,) = struct.unpack_from(">i", data)
    bits = (len(data) - 4) * 8
    if not 0 < count <= _MAX_HASHES or not bits:
        raise ValueError(f"a bloom filter of {count} hashes and {bits} bits")
    if isinstance(literal, bytes):
        hashed = xxh64(pa.array([literal], pa.binary()))
    else:
        hashed = wang(values.bits(np.array([literal], dtype=np.int64), t))
    for places in _places(hashed, count, bits):
        place = int(places[0])
        if not data[4 + (place >> 3)] >> (place & 7) & 1:
            return False
    return True


def wang(numbers: np.ndarray) -> np.ndarray:
    """int64 hashes of int64 numbers; shifts to the right keep the sign, as in Java."""
    key = numbers.astype(np.int64)
    with np.errstate(over="ignore"):
        key = ~key + (key << 21)
        key ^= key >> 24
        key = key + (key << 3) + (key << 8)
        key ^= key >> 14
        key = key + (key << 2) + (key << 4)
        key ^= key >> 28
        return key + (key << 31)


def xxh64(values: pa.Array) -> np.ndarray:
    """int64 hashes of binary values (none null), seed 0."""
    buffers = values.buffers()
    bounds = np.frombuffer(buffers[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(buffers[2] or b"", dtype=np.uint8)
    starts, lengths = bounds[:-1].astype(np.int64), np.diff(bounds)
    out = np.empty(len(values), dtype=np.uint64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        matrix = data[starts[rows][:, None] + np.arange(length)[None, :]]
        out[rows] = _of_length(matrix, length)
    return out.view(np.int64)


def _of_length(matrix: np.ndarray, length: int) -> np.ndarray:
    """Hashes of the rows of a uint8 matrix."""
    with np.errstate(over="ignore"):
        at = 0
        if length >= 32:
            total, at = _stripes(matrix, length)
        else:
            total = np.full(len(matrix), _P5, dtype=np.uint64)
        total += np.uint64(length)
        while at + 8 <= length:
            total ^= _round(np.uint64(0), _word(matrix, at, 8))
            total = _rotl(total, 27) * _P1 + _P4
            at += 8
        if at + 4 <= length:
            total ^= _word(matrix, at, 4) * _P1
            total = _rotl(total, 23) * _P2 + _P3
            at += 4
        while at < length:
            total ^= matrix[:, at].astype(np.uint64) * _P5
            total = _rotl(total, 11) * _P1
            at += 1
        total = (total ^ (total >> np.uint64(33))) * _P2
        total = (total ^ (total >> np.uint64(29))) * _P3
        return total ^ (total >> np.uint64(32))


def _stripes(matrix: np.ndarray, length: int) -> tuple[np.ndarray, int]:
    """(state after all whole stripes of 32 bytes, where they end)."""
    zero = np.zeros(len(matrix), dtype=np.uint64)
    lanes = [zero + (_P1 + _P2), zero + _P2, zero, zero - _P1]
    at = 0
    while at + 32 <= length:
        lanes = [_round(lane, _word(matrix, at + 8 * i, 8)) for i, lane in enumerate(lanes)]
        at += 32
    total = _rotl(lanes[0], 1) + _rotl(lanes[1], 7) + _rotl(lanes[2], 12) + _rotl(lanes[3], 18)
    for lane in lanes:
        total = (total ^ _round(np.uint64(0), lane)) * _P1 + _P4
    return total, at


def _word(matrix: np.ndarray, at: int, width: int) -> np.ndarray:
    part = np.ascontiguousarray(matrix[:, at : at + width])
    return part.view(f"<u{width}")[:, 0].astype(np.uint64)


def _round(state: np.ndarray | np.uint64, word: np.ndarray) -> np.ndarray:
    return _rotl(state + word * _P2, 31) * _P1


def _rotl(value: np.ndarray, count: int) -> np.ndarray:
    return (value << np.uint64(count)) | (value >> np.uint64(64 - count))
