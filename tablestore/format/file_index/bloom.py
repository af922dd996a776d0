"""Bloom filters: whether a value may be in a file (FORMAT.md 16.3). Pure.

    int32 BE number of hashes k | bits, bit i is byte i / 8, mask 1 << i % 8

The bits set by a 64-bit hash are (low + i * high) mod bits for i = 1..k, in Java's int arithmetic.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from tablestore.format.file_index import hashes, values
from tablestore.format.file_index.values import Cells
from tablestore.format.types.arrow_types import DataType

KIND = "bloom-filter"
_ITEMS, _FPP = 1_000_000, 0.1
_MAX_HASHES = 64
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


class Writer:
    """Makes the filter of a file from its cells; memory is that of the filter."""

    def __init__(self, t: DataType, options: Mapping[str, str]) -> None:
        items, fpp = int(options.get("items", _ITEMS)), float(options.get("fpp", _FPP))
        if items < 1 or not 0 < fpp < 1:
            raise ValueError("items must be at least 1, fpp between 0 and 1")
        wanted = min(int(-items * math.log(fpp) / math.log(2) ** 2), 2**31 - 9)
        self._type, self._bits = t, wanted + 8 - wanted % 8
        self._hashes = max(1, math.floor(self._bits / items * math.log(2) + 0.5))
        self._set = np.zeros(self._bits // 8, dtype=np.uint8)

    def add(self, found: Cells) -> None:
        """Add the cells of the next rows."""
        hashed = _hashed(found, self._type)
        for places in _places(hashed, self._hashes, self._bits):
            np.bitwise_or.at(self._set, places >> 3, np.left_shift(1, places & 7).astype(np.uint8))

    def finish(self) -> bytes:
        """The bytes of the filter."""
        return struct.pack(">i", self._hashes) + self._set.tobytes()


def _hashed(found: Cells, t: DataType) -> np.ndarray:
    """Distinct hashes of the cells that are not NULL."""
    if found.texts is not None:
        return hashes.xxh64(found.texts.drop_null().unique())
    assert found.ordinals is not None
    return hashes.wang(values.bits(np.unique(found.ordinals[found.valid]), t))


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
        hashed = hashes.xxh64(pa.array([literal], pa.binary()))
    else:
        hashed = hashes.wang(values.bits(np.array([literal], dtype=np.int64), t))
    for places in _places(hashed, count, bits):
        place = int(places[0])
        if not data[4 + (place >> 3)] >> (place & 7) & 1:
            return False
    return True
