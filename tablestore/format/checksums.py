"""Checksums (CRC-32) inside metadata files and their names, which Paimon ignores (FORMAT.md 25.1, 25.2).

    JSON            … "uuid": "…",\\n  "tablestore.crc32": "89abcdef"\\n}    of all before that comma
    other metadata, manifest-xxxxxxxx-xxxx-8c32-yxxx-xxxx89abcdef-0         of the file: a UUID of version
    in their names  8 (its form is its maker's), marked c32, ends with the checksum
    file indexes    data-….parquet.crc32-89abcdef.index                     of the file

Other engines drop the unknown field when they rewrite such a JSON text, and make names of their own, so a
checksum never belongs to other bytes, whoever compacts, tags or rolls back. A file without one is read
unverified. A single flipped bit is always detected, in the checksum as in the content. Pure. Used by all
readers and writers of metadata.
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
        _require(int(wanted, 16), memoryview(data)[: len(data) - len(seal[0])], path)
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
        _require(int(match[1], 16), data, path)
    return data


def _require(wanted: int, data: bytes | memoryview, path: str) -> None:
    computed = zlib.crc32(data)
    if computed != wanted:
        raise Corrupt(
            path, f"its bytes have the checksum {computed:08x}, not {wanted:08x}: the file is damaged"
        )
