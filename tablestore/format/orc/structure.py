"""The structure of an ORC file, checked before a decoder reads it.

| part, from the end | what |
|---|---|
| last byte | length of the postscript |
| postscript | codec, sizes of footer and metadata |
| footer, metadata | stripes, types · statistics of the columns of each stripe; compressed |
| stripes | index streams, data streams, a footer that names them; compressed |

A compressed part is a row of chunks with headers of three bytes (length × 2, + 1 if stored as it is). A chunk
without bytes, all that zeroed blocks leave, makes decoders read beyond their buffers. Damage raises
ValueError. Pure except for reading. Memory: metadata, and the longest stream. Used by `orc/decoder.py`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

_CODECS = (None, "zlib", "snappy", None, "lz4", "zstd")  # by number; LZO has no decoder
_STRUCT = 12
_COMPOUND = {10, 11, _STRUCT, 13}  # list, map, struct, union
_TIMES = {9, 18}
_FIXED = {1: 8, 5: 4}  # wire type → bytes
_MAX_DEPTH = 100
Message = dict[int, list[Any]]
"""Field number → values: integers, or bytes of texts and messages."""


@dataclass(frozen=True, slots=True)
class Block:
    """Where a stripe lies, in bytes; and its rows."""

    offset: int
    index: int
    data: int
    footer: int
    rows: int


@dataclass(frozen=True, slots=True)
class OrcTail:
    """What the end of a file says. `columns`: numbers of a column and all below it, by the column's name;
    `times`: numbers of timestamps; `statistics`: of each stripe, the messages of all its columns, or none."""

    codec: str | None
    block_bytes: int
    stripes: tuple[Block, ...]
    columns: dict[str, tuple[int, ...]]
    types: int
    times: frozenset[int]
    statistics: tuple[tuple[bytes, ...], ...]


def sound_tail(source: Any, size: int) -> OrcTail:
    """The end of a file of `size` bytes; raises ValueError for one that no writer makes."""
    postscript_bytes = _at(source, size - 1, 1, size)[0]
    start = size - 1 - postscript_bytes
    script = message(_at(source, start, postscript_bytes, size))
    if script.get(8000) != [b"ORC"]:
        raise ValueError("it does not end as an ORC file does")
    footer_bytes, metadata_bytes = first(script, 1), first(script, 5)
    number = first(script, 2)
    if number not in (0, 1, 2, 4, 5):
        raise ValueError(f"codec {number}; known are zlib, snappy, lz4 and zstd")
    codec, block = _CODECS[number], first(script, 3)
    if codec is not None and not 0 < block < 1 << 23:
        raise ValueError(f"compression blocks of {block:,} bytes")
    start -= footer_bytes
    footer = message(_unpacked(_at(source, start, footer_bytes, size), codec, block))
    start -= metadata_bytes
    metadata = message(_unpacked(_at(source, start, metadata_bytes, size), codec, block))
    stripes = tuple(_stripes(footer, start))
    types = [message(t) for t in footer.get(4, ())]
    statistics = tuple(tuple(message(s).get(1, ())) for s in metadata.get(1, ()))
    if statistics and len(statistics) != len(stripes):
        raise ValueError(f"statistics of {len(statistics)} stripes; there are {len(stripes)}")
    times = frozenset(i for i, t in enumerate(types) if first(t, 1) in _TIMES)
    return OrcTail(codec, block, stripes, _columns(types), len(types), times, statistics)


def _stripes(footer: Message, end: int) -> Iterator[Block]:
    """The stripes, which follow each other before byte `end`, with all rows of the file."""
    at, rows = 0, 0
    for data in footer.get(3, ()):
        fields = message(data)
        stripe = Block(*(first(fields, number) for number in (1, 2, 3, 4, 5)))
        if stripe.offset < at:
            raise ValueError(f"a stripe at byte {stripe.offset:,}, the one before ends at {at:,}")
        at = stripe.offset + stripe.index + stripe.data + stripe.footer
        if at > end:
            raise ValueError(f"a stripe ends at byte {at:,}, stripes end at {end:,}")
        rows += stripe.rows
        yield stripe
    if rows != first(footer, 6):
        raise ValueError(f"stripes of {rows:,} rows, the footer says {first(footer, 6):,}")


def _columns(types: Sequence[Message]) -> dict[str, tuple[int, ...]]:
    """Name → numbers of the column and of all below it; types are numbered in the order of the tree."""
    if not types or first(types[0], 1) != _STRUCT:
        raise ValueError("the type of its rows is no struct")
    ends = [0] * len(types)
    after = _end_of(types, 0, ends, 0)
    if after != len(types):
        raise ValueError(f"{len(types)} types, of which {after} belong to a column")
    below = numbers(types[0], 2)
    names = [text.decode() for text in types[0].get(3, ())]
    if len(names) != len(below):
        raise ValueError(f"{len(names)} names of {len(below)} columns")
    return {name: tuple(range(n, ends[n])) for name, n in zip(names, below, strict=True)}


def _end_of(types: Sequence[Message], number: int, ends: list[int], depth: int) -> int:
    """The number after a type and all below it."""
    if number >= len(types) or depth > _MAX_DEPTH:
        raise ValueError(f"type {number} of {len(types)}, {depth} levels deep")
    after, below = number + 1, numbers(types[number], 2)
    if below and first(types[number], 1) not in _COMPOUND:
        raise ValueError(f"type {number} is a value, and holds others")
    for child in below:
        if child != after:
            raise ValueError(f"type {child} stands where type {after} belongs")
        after = _end_of(types, child, ends, depth + 1)
    ends[number] = after
    return after


def require_sound_stripe(source: Any, tail: OrcTail, number: int, names: Sequence[str]) -> None:
    """Raise ValueError for a stripe whose streams of these columns are not rows of chunks within it."""
    stripe = tail.stripes[number]
    end = stripe.offset + stripe.index + stripe.data
    packed = _at(source, end, stripe.footer, end + stripe.footer)
    footer = message(_unpacked(packed, tail.codec, tail.block_bytes))
    if len(footer.get(2, ())) != tail.types:
        raise ValueError(f"stripe {number} has encodings of {len(footer.get(2, ()))} types of {tail.types}")
    read = {0}.union(*(tail.columns[name] for name in names if name in tail.columns))
    at = stripe.offset
    for data in footer.get(1, ()):
        stream = message(data)
        kind, column, length = (first(stream, n) for n in (1, 2, 3))
        if at + length > end:
            raise ValueError(
                f"a stream of stripe {number} ends at byte {at + length:,}, the stripe at {end:,}"
            )
        if tail.codec is not None and column in read and kind < 6:  # above are indexes, which are not read
            for _ in _chunks(_at(source, at, length, end), tail.block_bytes):
                pass
        at += length


def _chunks(data: memoryview, block_bytes: int) -> Iterator[tuple[bool, memoryview]]:
    """(stored as it is, bytes) of each chunk."""
    at, size = 0, len(data)
    while at < size:
        if at + 3 > size:
            raise ValueError("a chunk's header is cut off")
        header = int.from_bytes(data[at : at + 3], "little")
        length, at = header >> 1, at + 3
        if not 0 < length <= min(block_bytes, size - at):
            raise ValueError(
                f"a chunk of {length:,} bytes; blocks have {block_bytes:,}, {size - at:,} are left"
            )
        yield bool(header & 1), data[at : at + length]
        at += length


def _unpacked(data: memoryview, codec: str | None, block_bytes: int) -> bytes:
    """The bytes of metadata before compression."""
    if codec is None:
        return bytes(data)
    chunks = _chunks(data, block_bytes)
    return b"".join(bytes(c) if stored else _decoded(c, codec, block_bytes) for stored, c in chunks)


def _decoded(chunk: memoryview, codec: str, block_bytes: int) -> bytes:
    """A compressed chunk of metadata, at most `block_bytes` long."""
    try:
        if codec == "zlib":
            data = zlib.decompressobj(-15).decompress(chunk, block_bytes)
        elif codec == "zstd":
            data = pa.CompressedInputStream(pa.BufferReader(chunk), "zstd").read(block_bytes)
        elif codec == "snappy":
            data = pa.Codec("snappy").decompress(chunk, min(_varint(chunk, 0)[0], block_bytes), asbytes=True)
        else:
            data = pa.Codec("lz4_raw").decompress(chunk, min(_lz4_size(chunk), block_bytes), asbytes=True)
    except (zlib.error, OSError, pa.ArrowException) as e:
        raise ValueError(f"a chunk of metadata is no {codec}: {e}") from e
    if not data:
        raise ValueError("a chunk of metadata is empty")
    return bytes(data)


def _lz4_size(chunk: memoryview) -> int:
    """Bytes of an LZ4 block when it is decoded."""
    at = size = 0
    while at < len(chunk):
        token, at = chunk[at], at + 1
        literals, at = _lz4_length(chunk, token >> 4, at)
        at += literals + 2  # and the distance of a match
        size += literals
        if at < len(chunk):
            matched, at = _lz4_length(chunk, token & 15, at)
            size += matched + 4
    return size


def _lz4_length(chunk: memoryview, length: int, at: int) -> tuple[int, int]:
    more = 255 if length == 15 else 0
    while more == 255:
        if at >= len(chunk):
            raise ValueError("an LZ4 block is cut off")
        more, at = chunk[at], at + 1
        length += more
    return length, at


def _at(source: Any, start: int, length: int, end: int) -> memoryview:
    """Bytes of the file, which lie before byte `end`."""
    if start < 0 or length < 0 or start + length > end:
        raise ValueError(f"{length:,} bytes at {start:,} are named, {end:,} are there")
    source.seek(start)
    data = source.read(length)
    if len(data) != length:
        raise ValueError(f"{len(data):,} of {length:,} bytes at {start:,} can be read")
    return memoryview(data)


# ---- messages (protocol buffers)


def message(data: bytes | memoryview) -> Message:
    """The fields of a message; raises ValueError for bytes that are none."""
    fields: Message = {}
    view, at = memoryview(data), 0
    while at < len(view):
        key, at = _varint(view, at)
        wire = key & 7
        value: int | bytes
        if wire == 0:
            value, at = _varint(view, at)
        else:
            length = _FIXED.get(wire, 0)
            if wire == 2:
                length, at = _varint(view, at)
            elif not length:
                raise ValueError(f"a field of wire type {wire}")
            if at + length > len(view):
                raise ValueError(f"a field of {length:,} bytes, {len(view) - at:,} are left")
            value, at = bytes(view[at : at + length]), at + length
        fields.setdefault(key >> 3, []).append(value)
    return fields


def first(message: Message, number: int) -> int:
    """An integer field, 0 if it is absent."""
    values = message.get(number, (0,))
    if not isinstance(values[-1], int):
        raise ValueError(f"field {number} is no number")
    return values[-1]


def numbers(message: Message, number: int) -> list[int]:
    """A repeated integer field, packed or not."""
    values: list[int] = []
    for value in message.get(number, ()):
        if isinstance(value, int):
            values.append(value)
            continue
        at = 0
        while at < len(value):
            n, at = _varint(memoryview(value), at)
            values.append(n)
    return values


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    """(value, place after it)."""
    value = shift = 0
    while True:
        if at >= len(view) or shift > 63:
            raise ValueError("a number is cut off")
        byte, at = view[at], at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at
