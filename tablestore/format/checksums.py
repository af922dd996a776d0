"""Checksums (CRC-32) inside metadata files and their names, which Paimon ignores, and of data files whose
format has none (FORMAT.md 25.1, 25.2, 25.4).

    JSON            … "uuid": "…",
  "tablestore.crc32": "89abcdef"
}    of all before that comma
    other metadata, manifest-xxxxxxxx-xxxx-8c32-yxxx-xxxx89abcdef-0         of the file: a UUID of version
    in their names  8 (its form is its maker's), marked c32, ends with the checksum
    file indexes    data-….parquet.crc32-89abcdef.index                     of the file
    ORC, Avro       a small file <table>/tablestore/checksums/data-….orc    of the file
                    {"file": "data-….orc", "size": 2058, "crc32": "89abcdef", "tablestore.crc32": "…"}

Other engines drop the unknown field when they rewrite such a JSON text, and make names of their own, so a
checksum never belongs to other bytes, whoever compacts, tags or rolls back. A file without one is read
unverified. A single flipped bit is always detected, in the checksum as in the content.

The file of a data file is written right after it and before anything names that, and deleted with it: a kill
in between leaves a data file without a checksum, or a checksum without a file, which orphan cleaning removes.
A data file is read unverified where its checksum cannot be read or names another file, which `check` reports.
Checksums of older versions name no file.
"""

from __future__ import annotations

import contextlib
import io as streams
import json
import logging
import re
import zlib
from typing import Any

from tablestore.core.errors import Corrupt, FileMissing, brief
from tablestore.io.fileio import FileIO
from tablestore.io.paths import file_format, join

log = logging.getLogger(__name__)
FORMATS = ("orc", "avro")
_PIECE = 4 << 20
FIELD = "tablestore.crc32"
_SEAL = re.compile(rb',\n  "tablestore\.crc32": "(.{8})"\n\}\Z', re.DOTALL)
_DIGITS = re.compile("[0-9a-f]{8}")
_NAME = re.compile(r"(?:-8c32-[89ab][0-9a-f]{3}-[0-9a-f]{4}|\.crc32-)([0-9a-f]{8})(?![0-9a-f])")


def sealed(text: bytes) -> bytes:
    """The non-empty JSON object with its checksum as the last field."""
    body = unsealed(text).removesuffix(b"}").rstrip()
    return body + b',\n  "%s": "%08x"\n}' % (FIELD.encode(), zlib.crc32(body))


def unsealed(text: bytes) -> bytes:
    """The JSON object without a checksum."""
    seal = _SEAL.search(text)
    return text if seal is None else text[: seal.start()] + b"\n}"


def require_intact(data: bytes, path: str) -> bytes:
    """The bytes of a JSON file, verified if it has a checksum; raises Corrupt if they do not match."""
    seal = _SEAL.search(data[-64:])
    if seal is not None:
        wanted = seal[1].decode("latin-1")
        if not _DIGITS.fullmatch(wanted):
            raise Corrupt(path, f"its checksum is {wanted!r}, which is malformed: the file is damaged")
        _require(int(wanted, 16), zlib.crc32(memoryview(data)[: len(data) - len(seal[0])]), path)
    return data


def is_sealed(data: bytes) -> bool:
    """Whether a JSON file has a checksum."""
    return _SEAL.search(data[-64:]) is not None


def named(uuid: str, data: bytes) -> str:
    """The random UUID with the checksum of `data` in it, for the name of their file."""
    return f"{uuid[:14]}8c32{uuid[18:28]}{zlib.crc32(data):08x}"


def beside(path: str, data: bytes, suffix: str) -> str:
    """The path of a file beside a data file, with the checksum of `data` in its name."""
    return f"{path}.crc32-{zlib.crc32(data):08x}{suffix}"


def is_named(path: str) -> bool:
    """Whether the name of a file contains a checksum."""
    return _NAME.search(path.rpartition("/")[2]) is not None


def require_named(path: str, data: bytes) -> bytes:
    """The bytes of a file, verified if its name has a checksum; raises Corrupt if they do not match."""
    match = _NAME.search(path.rpartition("/")[2])
    if match is not None:
        _require(int(match[1], 16), zlib.crc32(data), path)
    return data


def _require(wanted: int, computed: int, path: str) -> None:
    if computed != wanted:
        raise Corrupt(
            path, f"its bytes have the checksum {computed:08x}, not {wanted:08x}: the file is damaged"
        )


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


def sum_path(folder: str, data_path: str) -> str | None:
    """The path of a data file's checksum in `folder`; None for formats with checksums of their own."""
    name = data_path.rpartition("/")[2]
    return join(folder, name) if file_format(name) in FORMATS else None


def write_sum(io: FileIO, folder: str, data_path: str, *, size: int, checksum: int) -> None:
    """Write the checksum of a new data file of `size` bytes."""
    name = data_path.rpartition("/")[2]
    body = {"file": name, "size": size, "crc32": f"{checksum:08x}"}
    io.write(join(folder, name), sealed(json.dumps(body).encode()))


def delete_sum(io: FileIO, folder: str, data_path: str) -> None:
    """Delete the checksum of a deleted data file, if it has one."""
    path = sum_path(folder, data_path)
    if path is not None:
        io.delete(path)


def require_sum(io: FileIO, folder: str, data_path: str) -> bool:
    """Verify a data file, if it has a checksum, by reading it once: whether it has one that can be read.
    Raises Corrupt if the file is damaged."""
    try:
        written = written_sum(io, folder, data_path)
    except Corrupt as e:
        log.warning("%s is read unverified: %s", data_path, e)
        return False
    if written is None:
        return False
    require_same_sum(io, data_path, *written)
    return True


def written_sum(io: FileIO, folder: str, data_path: str) -> tuple[int, int] | None:
    """(bytes, CRC-32) of a data file when it was written; None if it has no checksum.

    Raises Corrupt, naming the checksum's file, if that is damaged or another data file's.
    """
    path = sum_path(folder, data_path)
    if path is None:
        return None
    try:
        data = io.read(path)
    except FileNotFoundError:
        return None
    if not data:  # all that a power failure left of it
        return None
    try:
        body = json.loads(require_intact(data, path))
        size, checksum = int(body["size"]), int(body["crc32"], 16)
        file = body.get("file")
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise Corrupt(path, f"not a checksum: {brief(e)}; delete it to read {data_path} unverified") from e
    if file not in (None, data_path.rpartition("/")[2]):
        raise Corrupt(path, f"it is the checksum of {file!r}; delete it to read {data_path} unverified")
    return size, checksum


def require_same_sum(io: FileIO, path: str, size: int, wanted: int) -> None:
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
    _require(wanted, computed, path)
