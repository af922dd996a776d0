"""Deletion vectors: which rows of a data file are gone, and the container that holds those of many files
(FORMAT.md 14.1).

    byte 1 (version), then for each vector (big-endian unless said otherwise):
      v1      int32 size | int32 magic 1581511376 | roaring bitmap      | int32 CRC32 of magic + bitmap
      64-bit  int32 size | int32 magic 1681511377 (little-endian) | 64-bit bitmap | int32 CRC32 likewise
    size = bytes of magic + bitmap; a range names the offset of the size field and a length:
    v1: size; 64-bit: size + 8

The magic number distinguishes the two. A vector is a sorted array of positions; memory: 8 bytes a deleted row
of the vectors that are read. Used by split reads, compaction and deletes.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Corrupt, InvalidRequest
from tablestore.format import checksums, roaring
from tablestore.format.manifests.index_manifest import DELETION_VECTORS, IndexFileMeta, VectorRange
from tablestore.io.fileio import FileIO

VERSION = 1
_MAGIC_32, _MAGIC_64 = 1581511376, 1681511377
_MAX_32 = (1 << 31) - 1
_MAX_VERIFIED = 10_000
_verified: set[tuple[str, int]] = set()  # path and bytes of containers whose checksum was right


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """Where the vector of one data file lies. Picklable; travels in splits."""

    path: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, eq=False)
class DeletionVector:
    """Positions of deleted rows in one data file, strictly increasing."""

    positions: np.ndarray

    @classmethod
    def of(cls, positions: np.ndarray) -> DeletionVector:
        """The vector of these positions, in any order, also with duplicates."""
        return cls(np.unique(np.asarray(positions, dtype=np.int64)))

    @property
    def cardinality(self) -> int:
        """Deleted rows."""
        return len(self.positions)

    def union(self, other: DeletionVector) -> DeletionVector:
        """The union of both vectors."""
        return DeletionVector(np.union1d(self.positions, other.positions))

    def alive(self, start: int, rows: int) -> np.ndarray | None:
        """A mask of the rows start … start + rows that are not deleted; None if none is deleted."""
        low, high = np.searchsorted(self.positions, (start, start + rows))
        if low == high:
            return None
        mask = np.ones(rows, dtype=bool)
        mask[self.positions[low:high] - start] = False
        return mask

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeletionVector) and np.array_equal(self.positions, other.positions)


def surviving(batches: Iterable[pa.RecordBatch], vector: DeletionVector | None) -> Iterator[pa.RecordBatch]:
    """Batches of a whole file, from its first row on, without the deleted rows; none is empty."""
    start = 0
    for batch in batches:
        mask = None if vector is None else vector.alive(start, batch.num_rows)
        start += batch.num_rows
        kept = batch if mask is None else batch.filter(pa.array(mask))
        if kept.num_rows:
            yield kept


def encode(vector: DeletionVector, *, bitmap64: bool) -> bytes:
    """The bytes of one vector in a container."""
    if bitmap64:
        data = struct.pack("<i", _MAGIC_64) + roaring.encode64(vector.positions)
    else:
        if vector.cardinality and int(vector.positions[-1]) > _MAX_32:
            raise InvalidRequest(
                "a data file with more than 2,147,483,647 rows needs deletion-vectors.bitmap64 = true"
            )
        data = struct.pack(">i", _MAGIC_32) + roaring.encode32(vector.positions)
    return struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def decode(data: bytes, *, length: int, max_count: int = roaring.MAX_POSITIONS) -> DeletionVector:
    """The vector of the bytes from its size field to its CRC; raises ValueError for damaged ones."""
    if len(data) < 12:
        raise ValueError("a deletion vector of less than 12 bytes")
    size, magic = struct.unpack(">ii", data[:8])
    wide = struct.unpack("<i", data[4:8])[0] == _MAGIC_64
    if magic != _MAGIC_32 and not wide:
        raise ValueError(f"{magic} is not the magic number of a deletion vector")
    if size != (length - 8 if wide else length) or len(data) != size + 8:
        raise ValueError(f"a deletion vector of {size} bytes where the index manifest says {length}")
    body = data[4:-4]
    if zlib.crc32(body) != struct.unpack(">I", data[-4:])[0]:
        raise ValueError("the checksum of a deletion vector is wrong")
    return DeletionVector((roaring.decode64 if wide else roaring.decode32)(body[4:], max_count=max_count))


def read(io: FileIO, file: DeletionFile, *, rows: int | None = None) -> DeletionVector:
    """One vector; `rows` is the row count of its data file. Raises Corrupt naming the container."""
    return read_many(io, file.path, {"": file}, rows={} if rows is None else {"": rows})[""]


def read_many(
    io: FileIO, path: str, files: Mapping[str, DeletionFile], *, rows: Mapping[str, int] | None = None
) -> dict[str, DeletionVector]:
    """Vectors of one container by name, opening it once; `rows` bounds positions where it is known."""
    rows_of = rows or {}
    vectors = {}
    try:
        with contextlib.closing(io.open_input(path)) as source:
            size = source.size()
            _require_whole(source, size, path)
            if size < 1 or source.read_at(1, 0)[0] != VERSION:
                raise Corrupt(path, "not a container of deletion vectors of version 1")
            for name, file in files.items():
                vectors[name] = _read(source, size, path, file, rows_of.get(name))
    except FileNotFoundError as e:
        raise Corrupt(path, "the deletion vectors are missing") from e
    return vectors


def forget_verified() -> None:
    """Verify every container again when it is next opened."""
    _verified.clear()


def _require_whole(source: pa.NativeFile, size: int, path: str) -> None:
    """Raise Corrupt unless the container has the bytes that its name says, which another one in its place has
    not; read once a process, as containers never change."""
    if (path, size) in _verified or not checksums.is_named(path):
        return
    checksums.require_named(path, source.read_at(size, 0))
    if len(_verified) >= _MAX_VERIFIED:
        _verified.clear()
    _verified.add((path, size))


def _read(
    source: pa.NativeFile, size: int, path: str, file: DeletionFile, rows: int | None
) -> DeletionVector:
    where = f"vector at {file.offset}"
    if file.offset < 1 or file.length < 4 or file.offset + file.length > size:
        raise Corrupt(path, f"{where}, {file.length} bytes: outside the {size:,} bytes of the container")
    head = source.read_at(4, file.offset)
    stored = struct.unpack(">i", head)[0] if len(head) == 4 else -1
    if stored not in (file.length, file.length - 8):
        raise Corrupt(path, f"{where}: {stored} bytes where the index manifest says {file.length}")
    max_count = min(n for n in (rows, file.cardinality, roaring.MAX_POSITIONS) if n is not None)
    try:
        vector = decode(source.read_at(stored + 8, file.offset), length=file.length, max_count=max_count)
    except ValueError as e:
        raise Corrupt(path, f"{where}: {e}") from None
    if file.cardinality is not None and vector.cardinality != file.cardinality:
        raise Corrupt(path, f"{where}: {vector.cardinality} rows where {file.cardinality} are promised")
    if rows is not None and vector.cardinality and int(vector.positions[-1]) >= rows:
        raise Corrupt(path, f"{where}: row {int(vector.positions[-1])} of a file with {rows} rows")
    return vector


def container(
    vectors: Iterable[tuple[str, DeletionVector]], *, bitmap64: bool
) -> tuple[bytes, list[VectorRange]]:
    """(bytes, ranges) of a container that holds these vectors by data file name."""
    parts, ranges, at = [bytes([VERSION])], [], 1
    for name, vector in vectors:
        data = encode(vector, bitmap64=bitmap64)
        length = len(data) if bitmap64 else len(data) - 8
        ranges.append(VectorRange(name, at, length, vector.cardinality))
        parts.append(data)
        at += len(data)
    return b"".join(parts), ranges


def index_file(name: str, size: int, ranges: Iterable[VectorRange]) -> IndexFileMeta:
    """The index entry of a container."""
    kept = tuple(ranges)
    return IndexFileMeta(DELETION_VECTORS, name, size, len(kept), kept)
