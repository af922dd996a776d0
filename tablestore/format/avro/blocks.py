"""Avro object containers as headers and blocks: parsed, decompressed, and joined into one container.

Blocks of files with equal schemas can be put into one container, so that many small files are decoded at
once. Every length is checked against the size of the file before anything is allocated.

Schemas whose values may take no bytes are refused, so that a file cannot claim more values than it has bytes.
With a schema that refers to itself, or with arrays of nulls or empty records, a few bytes could stand for
billions of values; no writer of tables makes one.
"""

from __future__ import annotations

import bz2
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa

from tablestore.core.errors import Corrupt
from tablestore.core.zstandard import zstd

_MAGIC = b"Obj\x01"
_MAX_BYTES = 1 << 29  # of the decompressed blocks of a file
_MAX_TOGETHER = 1 << 26  # of blocks that one decompressor takes


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """The header of a container; `data` are its bytes up to and with the sync marker."""

    data: bytes
    codec: str
    schema: bytes
    sync: bytes


@dataclass(frozen=True, slots=True)
class AvroBlock:
    """A block of `rows` records; `data` is compressed by the file's codec, or plain."""

    rows: int
    data: bytes


class BlockReader:
    """Parses containers. Caches headers: files of one writer begin with the same bytes except for the sync
    marker."""

    def __init__(self) -> None:
        self._known: list[tuple[bytes, str, bytes]] = []

    def plain(self, data: bytes, path: str) -> tuple[AvroHeader, list[AvroBlock]]:
        """Header and decompressed blocks; raises Corrupt naming `path`."""
        header, blocks = self.parse(data, path)
        plain, size = list[AvroBlock](), 0
        for block in blocks:
            plain.append(plain_block(block, header.codec, path))
            size += len(plain[-1].data)
            require_bounded(size, path)
        return header, plain

    def parse(self, data: bytes, path: str) -> tuple[AvroHeader, list[AvroBlock]]:
        """Header and blocks, not decompressed; raises Corrupt naming `path` and the byte."""
        header = self._header(data, path)
        at, blocks = len(header.data), []
        while at < len(data):
            rows, at = read_long(data, at, path)
            size, at = read_long(data, at, path)
            end = at + size
            if rows < 0 or size < 0 or end + 16 > len(data):
                raise Corrupt(path, f"byte {at}: a block of {size} bytes does not fit the file")
            if data[end : end + 16] != header.sync:
                raise Corrupt(path, f"byte {end}: no sync marker after a block")
            blocks.append(AvroBlock(rows, data[at:end]))
            at = end + 16
        return header, blocks

    def _header(self, data: bytes, path: str) -> AvroHeader:
        for prefix, codec, schema in self._known:
            end = len(prefix)
            if data.startswith(prefix) and len(data) >= end + 16:
                return AvroHeader(data[: end + 16], codec, schema, data[end : end + 16])
        if not data.startswith(_MAGIC):
            raise Corrupt(path, "not an Avro file" if data else "the file is empty")
        meta, at = _meta(data, path)
        if at + 16 > len(data):
            raise Corrupt(path, "the file ends inside its header")
        codec, schema = meta.get("avro.codec", b"null").decode("latin-1"), meta.get("avro.schema", b"")
        require_sound(schema, path)
        self._known = [*self._known[-7:], (data[:at], codec, schema)]
        return AvroHeader(data[: at + 16], codec, schema, data[at : at + 16])


def joined(schema: bytes, blocks: Iterable[AvroBlock]) -> bytes:
    """One uncompressed container of these plain blocks."""
    return container(header(schema, "null", bytes(16)), blocks)


def header(schema: bytes, codec: str, sync: bytes) -> bytes:
    """The bytes before the first block of a container; `schema` as JSON, 16 bytes of `sync`."""
    meta = (b"avro.schema", schema, b"avro.codec", codec.encode())
    return _MAGIC + zigzag(2) + b"".join(map(_bytes, meta)) + zigzag(0) + sync


def container(header: bytes, blocks: Iterable[AvroBlock]) -> bytes:
    """A container of blocks that have the schema and codec of `header` (which ends with the sync marker)."""
    return header + b"".join(framed(block, header[-16:]) for block in blocks)


def framed(block: AvroBlock, sync: bytes) -> bytes:
    """The bytes of a block in a container."""
    return b"".join((zigzag(block.rows), zigzag(len(block.data)), block.data, sync))


def require_bounded(size: int, path: str) -> None:
    """Raise Corrupt naming `path` for a file whose blocks decompress to too many bytes."""
    if size > _MAX_BYTES:
        raise Corrupt(path, f"its blocks decompress to more than {_MAX_BYTES:,} bytes")


def plain_together(blocks: Sequence[AvroBlock], codec: str) -> list[AvroBlock] | None:
    """The blocks decompressed by one decompressor: to make one takes three times as long as a small block.
    None where each must be decompressed alone: of another codec, of sizes that they do not say, or damaged.
    """
    try:
        if len(blocks) < 2 or codec != "zstandard":
            return None
        sizes = [zstd.get_frame_info(b.data).decompressed_size or _MAX_TOGETHER for b in blocks]
        ends = list(accumulate(sizes))
        if ends[-1] >= _MAX_TOGETHER:
            return None
        with pa.CompressedInputStream(pa.BufferReader(b"".join(b.data for b in blocks)), "zstd") as stream:
            data = stream.read(ends[-1] + 1)
    except (zstd.ZstdError, OSError, pa.ArrowException):
        return None
    if len(data) != ends[-1] or any(b.rows > size for b, size in zip(blocks, sizes, strict=True)):
        return None
    return [
        AvroBlock(b.rows, data[end - size : end]) for b, size, end in zip(blocks, sizes, ends, strict=True)
    ]


def plain_block(block: AvroBlock, codec: str, path: str) -> AvroBlock:
    """The block decompressed; raises Corrupt naming `path`."""
    data = _decompressed(block.data, codec, path)
    if block.rows > len(data):
        raise Corrupt(path, f"a block of {block.rows} records has {len(data)} bytes")
    return AvroBlock(block.rows, data)


def _decompressed(data: bytes, codec: str, path: str) -> bytes:
    try:
        if codec == "null":
            return data
        if codec == "zstandard":
            return _bounded(zstd.ZstdDecompressor().decompress(data, _MAX_BYTES), path)
        if codec == "deflate":
            return _bounded(zlib.decompressobj(-15).decompress(data, _MAX_BYTES), path)
        if codec == "bzip2":
            return _bounded(bz2.BZ2Decompressor().decompress(data, _MAX_BYTES), path)
        if codec == "snappy":
            return _snappy(data, path)
    except (zstd.ZstdError, zlib.error, OSError, ValueError) as e:
        raise Corrupt(path, f"a block cannot be decompressed: {e}") from e
    raise Corrupt(path, f"codec {codec!r} is unknown")


def _snappy(data: bytes, path: str) -> bytes:
    """The plain bytes of snappy's raw form: a varint of their size, the data, Avro's CRC32 of the plain
    bytes."""
    size, shift, at = 0, 0, 0
    while at < len(data) and shift < 35:
        size |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            break
    if size >= _MAX_BYTES or size > 64 * len(data):
        raise Corrupt(path, f"{len(data)} bytes of snappy that stand for {size:,}")
    plain = pa.Codec("snappy").decompress(data[:-4], decompressed_size=size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
        raise Corrupt(path, "the checksum of a block is wrong")
    return plain


def _bounded(data: bytes, path: str) -> bytes:
    if len(data) >= _MAX_BYTES:
        raise Corrupt(path, f"a block decompresses to {_MAX_BYTES:,} bytes or more")
    return data


def _meta(data: bytes, path: str) -> tuple[dict[str, bytes], int]:
    properties: dict[str, bytes] = {}
    at = len(_MAGIC)
    while True:
        count, at = read_long(data, at, path)
        if count == 0:
            return properties, at
        if count < 0:
            count, (_, at) = -count, read_long(data, at, path)
        for _ in range(count):
            key, at = _text(data, at, path)
            properties[key.decode("latin-1")], at = _text(data, at, path)


def _text(data: bytes, at: int, path: str) -> tuple[bytes, int]:
    size, at = read_long(data, at, path)
    if size < 0 or at + size > len(data):
        raise Corrupt(path, f"byte {at}: a text of {size} bytes does not fit the file")
    return data[at : at + size], at + size


def read_long(data: bytes, at: int, path: str) -> tuple[int, int]:
    """(the zigzag varint at a place, where the next begins)."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Corrupt(path, f"byte {at}: a number does not end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def zigzag(value: int) -> bytes:
    """A number as Avro's int or long."""
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(data: bytes) -> bytes:
    return zigzag(len(data)) + data


_DEPTH = 64
_MAX_FIXED = 1 << 20
_SIZES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


def require_sound(schema: bytes, path: str) -> None:
    """Raise Corrupt naming `path` unless every value of the schema's records takes at least a byte."""
    try:
        size = _min_bytes(json.loads(schema), {}, 0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Corrupt(path, f"its Avro schema cannot be used: {e}") from e
    if size < 1:
        raise Corrupt(path, "its Avro schema describes records of no bytes")


def _min_bytes(t: Any, sizes: dict[str, int | None], depth: int) -> int:
    """The minimum bytes of a value of `t`. `sizes`: those of named types; None while one is being defined."""
    if depth > _DEPTH:
        raise ValueError(f"it nests deeper than {_DEPTH}")
    if isinstance(t, list):
        return 1 + min([_min_bytes(branch, sizes, depth + 1) for branch in t], default=0)
    if isinstance(t, str):
        return _named(t, sizes)
    kind = t["type"]
    if isinstance(kind, dict | list):
        return _min_bytes(kind, sizes, depth + 1)
    if kind in ("array", "map"):
        if _min_bytes(t["items" if kind == "array" else "values"], sizes, depth + 1) < 1 and kind == "array":
            raise ValueError("an array of values without bytes")
        return 1
    if kind not in ("record", "error", "fixed", "enum"):
        return _named(kind, sizes)
    name = str(t["name"])
    sizes[name] = None
    sizes[name] = _defined(t, kind, sizes, depth)
    return sizes[name] or 0


def _defined(t: dict[str, Any], kind: str, sizes: dict[str, int | None], depth: int) -> int:
    if kind == "fixed":
        if not 0 <= int(t["size"]) <= _MAX_FIXED:
            raise ValueError(f"a fixed of {t['size']} bytes")
        return int(t["size"])
    if kind == "enum":
        return 1
    return sum(_min_bytes(f["type"], sizes, depth + 1) for f in t["fields"])


def _named(name: str, sizes: dict[str, int | None]) -> int:
    if name in _SIZES:
        return _SIZES[name]
    size = sizes.get(name, sizes.get(name.rpartition(".")[2], -1))
    if size is None:
        raise ValueError(f"{name} holds itself")
    if size < 0:
        raise ValueError(f"type {name!r} is not defined")
    return size
