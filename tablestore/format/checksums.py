"""Checksums (CRC-32) that metadata carry themselves, where Paimon neither looks nor minds
(FORMAT.md 25.1, 25.2).

    JSON            … "uuid": "…",\\n  "tablestore.crc32": "89abcdef"\\n}    of all before that comma
    other metadata, manifest-xxxxxxxx-xxxx-8c32-yxxx-xxxx89abcdef-0         of the file: a UUID of version
    in their names  8 (its form is its maker's), marked c32, ends with the checksum
    file indexes    data-….parquet.crc32-89abcdef.index                     of the file

Who writes such a JSON text anew drops the field that it does not know, and makes names of its own: so there
is never a checksum of other bytes, whoever compacts, tags or rolls back. A file without one is read as it is.
One flipped bit always shows: in the checksum as in what it is of. Pure. Used by everything that reads or
writes metadata.
"""

from __future__ import annotations

import re
import zlib

from tablestore.core.errors import Corrupt

FIELD = "tablestore.crc32"
_SEAL = re.compile(rb',\n  "tablestore\.crc32": "(.{8})"\n\}\Z', re.DOTALL)
_DIGITS = re.compile("[0-9a-f]{8}")
_NAME = re.compile(r"(?:-8c32-[89ab][0-9a-f]{3}-[0-9a-f]{4}|\.crc32-)([0-9a-f]{8})(?![0-9a-f])")


def sealed(text: bytes) -> bytes:
    """A JSON object that has a field at least, with its checksum as the last field."""
    body = unsealed(text).removesuffix(b"}").rstrip()
    return body + b',\n  "%s": "%08x"\n}' % (FIELD.encode(), zlib.crc32(body))


def unsealed(text: bytes) -> bytes:
    """The JSON object without a checksum."""
    found = _SEAL.search(text)
    return text if found is None else text[: found.start()] + b"\n}"


def require_intact(data: bytes, path: str) -> bytes:
    """The bytes of a JSON file; raises Corrupt where they are not those of its checksum."""
    found = _SEAL.search(data[-64:])
    if found is not None:
        wanted = found[1].decode("latin-1")
        if not _DIGITS.fullmatch(wanted):
            raise Corrupt(path, f"its checksum is {wanted!r}, which is none: the file is damaged")
        _require(int(wanted, 16), memoryview(data)[: len(data) - len(found[0])], path)
    return data


def is_sealed(data: bytes) -> bool:
    """Whether a JSON file has a checksum."""
    return _SEAL.search(data[-64:]) is not None


def named(uuid: str, data: bytes) -> str:
    """A random UUID as one that says what the bytes are of the file that it names."""
    return f"{uuid[:14]}8c32{uuid[18:28]}{zlib.crc32(data):08x}"


def beside(path: str, data: bytes, suffix: str) -> str:
    """The path of a file beside a data file, with what its bytes are."""
    return f"{path}.crc32-{zlib.crc32(data):08x}{suffix}"


def is_named(path: str) -> bool:
    """Whether the name of a file says what its bytes are."""
    return _NAME.search(path.rpartition("/")[2]) is not None


def require_named(path: str, data: bytes) -> bytes:
    """The bytes of a file; raises Corrupt where its name says others."""
    found = _NAME.search(path.rpartition("/")[2])
    if found is not None:
        _require(int(found[1], 16), data, path)
    return data


def _require(wanted: int, data: bytes | memoryview, path: str) -> None:
    found = zlib.crc32(data)
    if found != wanted:
        raise Corrupt(path, f"its bytes have the checksum {found:08x}, not {wanted:08x}: the file is damaged")
