"""Bit-sliced indexes: the numbers of a column, a bitmap for each binary digit (FORMAT.md 16.6).

    byte 1 | int32 rows | byte has numbers >= 0 [slices] | byte has numbers < 0 [slices of their magnitudes]
    slices: byte 1 | int64 least (0) | int64 greatest | rows that have a number | int32 digits | a bitmap each

All numbers are big-endian; bitmaps are roaring, one after another. A reader assembles the numbers again,
8 bytes a row. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from tablestore.format import roaring
from tablestore.format.file_index.values import CellBuffer, IndexedCells
from tablestore.format.types.arrow_types import DataType

KIND = "bsi"
_TYPES = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
_MIN_LONG = -(2**63)


def takes(t: DataType) -> bool:
    """Whether columns of the type can have one."""
    return t.root in _TYPES or (t.root == "DECIMAL" and t.precision <= 18)


class BitSliceWriter:
    """Makes the index of a file from its cells."""

    def __init__(self, t: DataType, options: Mapping[str, str]) -> None:
        self._cells = CellBuffer(t)

    def add(self, cells: IndexedCells) -> None:
        """Add the cells of the next rows."""
        self._cells.add(cells)

    def finish(self) -> bytes:
        """The bytes of the index; raises ValueError for −2⁶³, whose magnitude has no int64."""
        numbers, valid = self._cells.numbers()
        rows = np.flatnonzero(valid)
        present = numbers[rows]
        if len(present) and int(present.min()) == _MIN_LONG:
            raise ValueError(f"{_MIN_LONG} does not fit into a bit-sliced index")
        out = struct.pack(">bi", 1, len(numbers))
        for mine, magnitudes in ((present >= 0, present), (present < 0, -present)):
            out += struct.pack(">?", bool(mine.any()))
            if mine.any():
                out += _sliced(rows[mine], magnitudes[mine])
        return out


def _sliced(rows: np.ndarray, magnitudes: np.ndarray) -> bytes:
    greatest = int(magnitudes.max())
    digits = greatest.bit_length()
    slices = (rows[(magnitudes >> i) & 1 == 1] for i in range(digits))
    head = struct.pack(">bqq", 1, 0, greatest) + roaring.encode32(rows) + struct.pack(">i", digits)
    return head + b"".join(roaring.encode32(s) for s in slices)


def read(data: bytes, expected: int) -> tuple[np.ndarray, np.ndarray]:
    """(numbers of all rows, which have one); raises ValueError for damage and another number of rows."""
    version, rows = struct.unpack_from(">bi", data)
    if version != 1 or rows != expected:
        raise ValueError(f"a bit-sliced index of version {version} with {rows} rows, not {expected}")
    positive, numbers, at = _side(data, 5)
    negative, magnitudes, at = _side(data, at)
    present = np.concatenate([positive, negative])
    if len(present) and int(present.max()) >= rows:
        raise ValueError(f"row {int(present.max())} of {rows}")
    column, valid = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=bool)
    column[positive], column[negative] = numbers, -magnitudes
    valid[present] = True
    return column, valid


def _side(data: bytes, at: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(rows, their magnitudes, where the next begins)."""
    if not data[at]:
        none = np.zeros(0, dtype=np.int64)
        return none, none, at + 1
    version, least, _ = struct.unpack_from(">bqq", data, at + 1)
    if version != 1:
        raise ValueError(f"slices of version {version}")
    rows, size = roaring.decode32_from(data[at + 18 :])
    at += 18 + size
    (digits,) = struct.unpack_from(">i", data, at)
    at += 4
    if not 0 <= digits <= 63:
        raise ValueError(f"{digits} binary digits")
    numbers = np.full(len(rows), least, dtype=np.int64)
    for i in range(digits):
        ones, size = roaring.decode32_from(data[at:])
        at += size
        numbers[np.isin(rows, ones, assume_unique=True)] += 1 << i
    return rows, numbers, at
