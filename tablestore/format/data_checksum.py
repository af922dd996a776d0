"""Checksums of data files whose format has none (ORC, Avro), one small file each (FORMAT.md 25.4):

    <table>/tablestore/checksums/data-….orc
        {"file": "data-….orc", "size": 2058, "crc32": "89abcdef", "tablestore.crc32": "…"}

Written right after its data file and before anything names that, and deleted with it: a kill in between
leaves a data file without a checksum, or a checksum without a file, which orphan cleaning removes. Names are
never reused, so a checksum never belongs to other bytes, whatever level or branch its file is in. A file
without one is read unverified, and so is one whose checksum cannot be read or names another file, which
`check` reports. Checksums of older versions name no file.
"""

from __future__ import annotations

import contextlib
import io as streams
import json
import logging
import zlib
from typing import Any

from tablestore.core.errors import Corrupt, FileMissing, brief
from tablestore.format import checksums
from tablestore.format.file_spec import file_format
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join

log = logging.getLogger(__name__)
FORMATS = ("orc", "avro")
_PIECE = 4 << 20


class SummedSink(streams.RawIOBase):
    """An output file that computes the CRC-32 of the written bytes."""

    def __init__(self, file: Any) -> None:
        self._file, self._position, self.checksum = file, 0, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        self._file.write(data)
        self.checksum = zlib.crc32(data, self.checksum)
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()  # may fail; then `close` can be called again
        super().close()


def path_of(folder: str, data_path: str) -> str | None:
    """The path of a data file's checksum in `folder`; None for formats with checksums of their own."""
    name = data_path.rpartition("/")[2]
    return join(folder, name) if file_format(name) in FORMATS else None


def write(io: FileIO, folder: str, data_path: str, *, size: int, checksum: int) -> None:
    """Write the checksum of a new data file of `size` bytes."""
    name = data_path.rpartition("/")[2]
    body = {"file": name, "size": size, "crc32": f"{checksum:08x}"}
    io.write(join(folder, name), checksums.sealed(json.dumps(body).encode()))


def delete(io: FileIO, folder: str, data_path: str) -> None:
    """Delete the checksum of a deleted data file, if it has one."""
    path = path_of(folder, data_path)
    if path is not None:
        io.delete(path)


def require(io: FileIO, folder: str, data_path: str) -> bool:
    """Verify a data file, if it has a checksum, by reading it once: whether it has one that can be read.
    Raises Corrupt if the file is damaged."""
    try:
        written = as_written(io, folder, data_path)
    except Corrupt as e:
        log.warning("%s is read unverified: %s", data_path, e)
        return False
    if written is None:
        return False
    require_same(io, data_path, *written)
    return True


def as_written(io: FileIO, folder: str, data_path: str) -> tuple[int, int] | None:
    """(bytes, CRC-32) of a data file when it was written; None if it has no checksum.

    Raises Corrupt, naming the checksum's file, if that is damaged or another data file's.
    """
    path = path_of(folder, data_path)
    if path is None:
        return None
    try:
        data = io.read(path)
    except FileNotFoundError:
        return None
    if not data:  # all that a power failure left of it
        return None
    try:
        body = json.loads(checksums.require_intact(data, path))
        size, checksum = int(body["size"]), int(body["crc32"], 16)
        file = body.get("file")
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise Corrupt(path, f"not a checksum: {brief(e)}; delete it to read {data_path} unverified") from e
    if file not in (None, data_path.rpartition("/")[2]):
        raise Corrupt(path, f"it is the checksum of {file!r}; delete it to read {data_path} unverified")
    return size, checksum


def require_same(io: FileIO, path: str, size: int, wanted: int) -> None:
    """Read a data file once; raises Corrupt if it has not `size` bytes with the checksum `wanted`."""
    try:
        source = io.open_input(path)
    except FileNotFoundError:
        raise FileMissing(path) from None
    with contextlib.closing(source):
        if source.size() != size:
            raise Corrupt(path, f"it has {source.size():,} bytes; {size:,} were written")
        computed = 0
        for at in range(0, size, _PIECE):
            computed = zlib.crc32(source.read_at(min(_PIECE, size - at), at), computed)
    if computed != wanted:
        raise Corrupt(
            path, f"its bytes have the checksum {computed:08x}, not {wanted:08x}: the file is damaged"
        )
