"""Avro containers of a few bytes that promise billions of values; run as a program it reads them all.

    python -m tests.hostile.bombs

One JSON line a bomb and reader: what went wrong, or null. Memory and time are capped.
"""

from __future__ import annotations

import json
import resource
import zlib
from collections.abc import Callable
from typing import Any

from tablestore.core.errors import Corrupt
from tablestore.format.manifests import manifest, manifest_columns
from tests.hostile.limits import at_most

MEMORY = 5 << 30
SECONDS = 30


def varint(value: int) -> bytes:
    """A zigzag varint."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    collected = bytearray()
    while value > 0x7F:
        collected.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*collected, value))


def container(
    schema: bytes, rows: int, block: bytes, *, codec: str = "null", size: int | None = None
) -> bytes:
    """A container of one block that says it holds `rows` records."""

    def text(data: bytes) -> bytes:
        return varint(len(data)) + data

    head = b"Obj\x01" + varint(2) + text(b"avro.schema") + text(schema) + text(b"avro.codec")
    sync = bytes(range(16))
    body = varint(rows) + varint(len(block) if size is None else size) + block + sync
    return head + text(codec.encode()) + varint(0) + sync + body


def deflated_zeros(megabytes: int) -> bytes:
    """So many MiB of zeros, in the raw deflate of Avro; behind a full flush each MiB has the same bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return piece * megabytes + packer.flush()


def _record(*types: Any) -> bytes:
    fields = [{"name": f"f{i}", "type": t} for i, t in enumerate(types)]
    return json.dumps({"type": "record", "name": "record", "fields": fields}).encode()


_NULLS = {"type": "array", "items": "null"}
_EMPTY = {"type": "array", "items": {"type": "record", "name": "e", "fields": []}}
_NOTHING = {"type": "array", "items": {"type": "fixed", "name": "z", "size": 0}}
_NESTED: Any = "null"
for _ in range(200):
    _NESTED = {"type": "array", "items": _NESTED}
_SELF = {"type": "record", "name": "self", "fields": [{"name": "next", "type": ["null", "self"]}]}
_ENTRY = json.dumps(manifest.ENTRY_SCHEMA).encode()

BOMBS: dict[str, bytes] = {
    "many records of nothing": container(_record(), 2**60, b""),
    "many records of nulls": container(_record("null"), 2**60, b""),
    "many nulls": container(_record(_NULLS), 1, varint(2**60) + varint(0)),
    "many nulls in blocks": container(_record(_NULLS), 1, (varint(-(2**50)) + varint(0)) * 50 + varint(0)),
    "many empty records": container(_record(_EMPTY), 1, varint(2**60) + varint(0)),
    "many empty fixed": container(_record(_NOTHING), 1, varint(2**60) + varint(0)),
    "arrays in arrays": container(_record(_NESTED), 1, varint(1) * 199 + varint(2**60)),
    "endless nesting": container(json.dumps(_SELF).encode(), 1, b"\x02" * 1_000_000 + b"\x00"),
    "a long text": container(_record("string"), 1, varint(2**60) + b"abc"),
    "a text of 8 GiB": container(_record("string"), 1, varint(2**33) + b"abc"),
    "entries of a long name": container(_ENTRY, 1, b"\x04\x00\x18" + bytes(12) + b"\x00\x02" + varint(2**33)),
    "a text of negative length": container(_record("string"), 1, varint(-5) + b"abc"),
    "long bytes": container(_record("bytes"), 1, varint(2**62) + b"abc"),
    "a huge fixed": container(_record({"type": "fixed", "name": "z", "size": 2**40}), 1, b"abc"),
    "a huge block": container(_record("int"), 1, b"\x02", size=2**60),
    "a negative block": container(_record("int"), 1, b"\x02", size=-7),
    "negative records": container(_record("int"), -5, b"\x02"),
    "too many records": container(_record("int"), 2**60, b"\x02"),
    "entries of nothing": container(_ENTRY, 2**60, b""),
    "an entry of zeros": container(_ENTRY, 1, bytes(60)),
    "a wide map": container(_record({"type": "map", "values": "null"}), 1, varint(2**60) + b"\x00"),
    "a bomb of deflate": container(_record("bytes"), 1, deflated_zeros(2048), codec="deflate"),
    "a codec of nobody": container(_record("int"), 1, b"\x02", codec="lzma9"),
    "a schema that is none": container(b"{", 1, b"\x02"),
    "an endless varint": container(_record("int"), 1, b"\xff" * 100),
    "an endless header": b"Obj\x01" + varint(2**60) + b"\x02a",
    "a header of negative length": b"Obj\x01" + varint(-(2**60)) + varint(2**60) + b"\x02a",
    "a long key": b"Obj\x01" + varint(1) + varint(2**60) + b"a",
}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    readers: dict[str, Callable[[bytes], Any]] = {
        "rows": lambda data: manifest.decode_entries(data, "the-file"),
        "columns": lambda data: manifest_columns.decode([("the-file", data)]),
    }
    for name, data in BOMBS.items():
        for reader, read in readers.items():
            print(json.dumps({"bomb": f"{name} {reader}", "wrong": _judged(read, data)}), flush=True)


class _LateBomb(BaseException):
    pass


def _late(*_: Any) -> None:
    raise _LateBomb


def _judged(read: Callable[[bytes], Any], data: bytes) -> str | None:
    try:
        with at_most(SECONDS, _late):
            read(data)
    except Corrupt as e:
        return None if str(e.path) == "the-file" else f"names {e.path}"
    except BaseException as e:
        return repr(e)
    return "read as if nothing were wrong"


if __name__ == "__main__":
    main()
