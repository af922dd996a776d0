"""Bitmap indexes: for each value the rows that hold it (FORMAT.md 16.5). Numbers are big-endian.

    byte version 2 | int32 rows | int32 values | byte has NULL [int32 place of its rows, int32 length]
    int32 blocks | a block: its first value, int32 offset | int32 bytes of all blocks
    a block: int32 entries | an entry: value, int32 place of its rows, int32 length (-1: one row)
    bitmaps; a place is an offset into them, or -1 - row for a value of one row

Values ascend. Version 1 (entries at once: value, place) is read too. The cost is that of distinct values, so
the index suits columns with few of them. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tablestore.core.options.values import memory_size
from tablestore.format import roaring
from tablestore.format.file_index import values
from tablestore.format.file_index.values import CellBuffer, IndexedCells
from tablestore.format.types.arrow_types import DataType

KIND = "bitmap"
_TYPES = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME")
_BLOCK_BYTES = "16kb"


def takes(t: DataType) -> bool:
    """Whether columns of the type can have one."""
    return t.root in (*_TYPES, "TIMESTAMP", "TIMESTAMP_LTZ") or t.is_string


class BitmapWriter:
    """Makes the index of a file from its cells."""

    def __init__(self, t: DataType, options: Mapping[str, str]) -> None:
        self._type, self._cells = t, CellBuffer(t)
        self._block_bytes = memory_size(options.get("index-block-size", _BLOCK_BYTES))
        self._version = int(options.get("version", "2"))
        if self._version not in (1, 2):
            raise ValueError("the version of a bitmap index is 1 or 2")

    def add(self, cells: IndexedCells) -> None:
        """Add the cells of the next rows."""
        self._cells.add(cells)

    def finish(self) -> bytes:
        """The bytes of the index."""
        distinct = self._cells.distinct()
        order, bounds = distinct.groups()
        bodies: list[bytes] = []
        size = 0

        def placed(rows: np.ndarray) -> tuple[int, int]:
            nonlocal size
            if len(rows) == 1:
                return -1 - int(rows[0]), -1
            bodies.append(roaring.encode32(rows))
            size += len(bodies[-1])
            return size - len(bodies[-1]), len(bodies[-1])

        nulls = order[: bounds[1]]
        head = struct.pack(
            ">bii?", self._version, len(distinct.codes), len(distinct.values), bool(len(nulls))
        )
        if len(nulls):
            place, length = placed(nulls)
            length = len(roaring.encode32(nulls)) if length < 0 else length
            head += struct.pack(">ii", place, length) if self._version == 2 else struct.pack(">i", place)
        entries = []
        for i, value in enumerate(distinct.values):
            place, length = placed(order[bounds[i + 1] : bounds[i + 2]])
            entries.append((values.pack(value, self._type), place, length))
        dictionary = _blocks(entries, self._block_bytes) if self._version == 2 else _plain(entries)
        return head + dictionary + b"".join(bodies)


def _plain(entries: Sequence[tuple[bytes, int, int]]) -> bytes:
    return b"".join(value + struct.pack(">i", place) for value, place, _ in entries)


def _blocks(entries: Sequence[tuple[bytes, int, int]], block_bytes: int) -> bytes:
    blocks: list[list[tuple[bytes, int, int]]] = []
    size = block_bytes + 1
    for entry in entries:
        more = len(entry[0]) + 8
        if not blocks or size + more > block_bytes:
            if more + 4 > block_bytes:
                raise ValueError(f"a value of {len(entry[0])} bytes does not fit into 'index-block-size'")
            blocks.append([])
            size = 4
        blocks[-1].append(entry)
        size += more
    index, bodies, offset = [], [], 0
    for block in blocks:
        body = struct.pack(">i", len(block)) + b"".join(v + struct.pack(">ii", p, n) for v, p, n in block)
        index.append(block[0][0] + struct.pack(">i", offset))
        bodies.append(body)
        offset += len(body)
    return struct.pack(">i", len(blocks)) + b"".join(index) + struct.pack(">i", offset) + b"".join(bodies)


class BitmapReader:
    """Reads one index. `rows_of` takes values in the form of `values.literals`; damage raises ValueError."""

    def __init__(self, data: bytes, t: DataType, expected: int) -> None:
        self._data, self._type = data, t
        version, self.rows, count, has_null = struct.unpack_from(">bii?", data)
        if version not in (1, 2) or self.rows != expected or not 0 <= count <= self.rows:
            raise ValueError(
                f"a bitmap index of version {version}: {count} values, {self.rows} of {expected} rows"
            )
        at = 10
        self._null: tuple[int, int] | None = None
        if has_null:
            self._null, at = _place(data, at, with_length=version == 2)
        self._blocks: list[tuple[Any, int]] = []
        self._entries: dict[Any, tuple[int, int]] = {}
        if version == 1:
            self._body = self._read(at, count, with_length=False)
            return
        (blocks,) = struct.unpack_from(">i", data, at)
        at += 4
        for _ in range(blocks):
            key, at = values.unpack(data, at, t)
            (offset,) = struct.unpack_from(">i", data, at)
            self._blocks.append((key, offset))
            at += 4
        (size,) = struct.unpack_from(">i", data, at)
        self._start = at + 4
        self._body = self._start + size

    def _read(self, at: int, count: int, *, with_length: bool) -> int:
        """Read entries from `at` on; returns where they end."""
        for _ in range(count):
            value, at = values.unpack(self._data, at, self._type)
            self._entries[value], at = _place(self._data, at, with_length=with_length)
        return at

    def rows_of(self, value: Any) -> np.ndarray:
        """Rows with the value; None means NULL."""
        if value is None:
            return self._rows(self._null) if self._null is not None else np.zeros(0, dtype=np.int64)
        while self._blocks:
            after = [i for i, (key, _) in enumerate(self._blocks) if key > value]
            last = (after[0] if after else len(self._blocks)) - 1
            if last < 0:
                break
            _, offset = self._blocks[last]
            (count,) = struct.unpack_from(">i", self._data, self._start + offset)
            self._read(self._start + offset + 4, count, with_length=True)
            break
        return self._rows(self._entries[value]) if value in self._entries else np.zeros(0, dtype=np.int64)

    def _rows(self, entry: tuple[int, int]) -> np.ndarray:
        place, length = entry
        if place < 0:
            rows = np.array([-1 - place])
        else:
            start = self._body + place
            part = self._data[start:] if length < 0 else self._data[start : start + length]
            rows, _ = roaring.decode32_from(part)
        if len(rows) and int(rows[-1]) >= self.rows:
            raise ValueError(f"row {int(rows[-1])} of {self.rows}")
        return rows


def _place(data: bytes, at: int, *, with_length: bool) -> tuple[tuple[int, int], int]:
    """((place, length) of a value's rows, where the next entry begins); an absent length is -1."""
    if with_length:
        place, length = struct.unpack_from(">ii", data, at)
        return (place, length), at + 8
    return (struct.unpack_from(">i", data, at)[0], -1), at + 4
