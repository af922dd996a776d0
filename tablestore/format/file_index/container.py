"""The container of a data file's indexes (FORMAT.md 16.1). All numbers are big-endian.

    int64 magic | int32 version 1 | int32 length of the head | int32 columns
    a column: UTF name | int32 indexes | an index: UTF kind, int32 start (-1: no rows), int32 length
    int32 0, then the indexes themselves; UTF = uint16 bytes, modified UTF-8

Map keys are columns of the name `map[key]`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from tablestore.core.errors import Corrupt

_MAGIC, _VERSION, _EMPTY = 1493475289347502, 1, -1


@dataclass(frozen=True, slots=True)
class Container:
    """The indexes of one data file: by column, then by kind; None for an index without rows."""

    indexes: Mapping[str, Mapping[str, bytes | None]]


def encode(container: Container) -> bytes:
    """The bytes of a container."""
    columns = [
        (_utf(name), [(_utf(kind), data) for kind, data in kinds.items()])
        for name, kinds in container.indexes.items()
    ]
    head = 8 + 4 + 4 + 4 + sum(len(n) + 4 + sum(len(k) + 8 for k, _ in kinds) for n, kinds in columns) + 4
    out = [struct.pack(">qiii", _MAGIC, _VERSION, head, len(columns))]
    at = head
    for name, kinds in columns:
        out.append(name + struct.pack(">i", len(kinds)))
        for kind, data in kinds:
            start, length = (_EMPTY, 0) if data is None else (at, len(data))
            out.append(kind + struct.pack(">ii", start, length))
            at += length
    out.append(struct.pack(">i", 0))
    out += [data for _, kinds in columns for _, data in kinds if data is not None]
    return b"".join(out)


def decode(data: bytes, path: str) -> Container:
    """Read a container; raises Corrupt naming `path`."""
    try:
        return _decode(data)
    except (struct.error, IndexError, ValueError) as e:
        raise Corrupt(path, f"not a readable file index: {e}") from e


def _decode(data: bytes) -> Container:
    magic, version, head, count = struct.unpack_from(">qiii", data)
    if magic != _MAGIC:
        raise ValueError(f"it begins with {magic}, not with {_MAGIC}")
    if version != _VERSION:
        raise ValueError(f"version {version}; only version {_VERSION} is known")
    if not 24 <= head <= len(data):
        raise ValueError(f"a head of {head} bytes in a file of {len(data)}")
    at, by_column = 20, {}
    for _ in range(count):
        name, at = _text(data, at, head)
        (kinds,) = struct.unpack_from(">i", data, at)
        at += 4
        indexes: dict[str, bytes | None] = {}
        for _ in range(kinds):
            kind, at = _text(data, at, head)
            start, length = struct.unpack_from(">ii", data, at)
            at += 8
            indexes[kind] = None if start == _EMPTY else _part(data, start, length, head)
        by_column[name] = indexes
    return Container(by_column)


def _part(data: bytes, start: int, length: int, head: int) -> bytes:
    if start < head or length < 0 or start + length > len(data):
        raise ValueError(f"an index at {start}..{start + length} of {len(data)} bytes")
    return data[start : start + length]


def _text(data: bytes, at: int, head: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">H", data, at)
    end = at + 2 + length
    if end > head:
        raise ValueError(f"a name at {at} leaves the head of {head} bytes")
    return _from_modified(data[at + 2 : end]), end


def _utf(text: str) -> bytes:
    """Java's modified UTF-8 with its length: NUL in two bytes, characters above U+FFFF as two surrogates."""
    units = text.encode("utf-16-be", "surrogatepass")
    points = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    data = b"".join(b"\xc0\x80" if p == 0 else chr(p).encode("utf-8", "surrogatepass") for p in points)
    return struct.pack(">H", len(data)) + data


def _from_modified(data: bytes) -> str:
    plain = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return plain.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
