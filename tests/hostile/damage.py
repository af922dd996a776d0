"""Ways to damage bytes and manifest entries, drawn from a seed; each says what it did.

Pure. Used by the worker processes of `test_damage.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from tablestore.format.avro.container import CarriedField
from tablestore.format.manifests import index_manifest, manifest
from tablestore.format.manifests.index_manifest import IndexFileMeta, VectorRange
from tablestore.format.manifests.manifest import (
    EXTRA_FILES,
    DataFileMeta,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)

HUGE_VARINTS = (
    b"\xfe" + b"\xff" * 8 + b"\x01",
    b"\xff" * 9 + b"\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x10",
)
HUGE_WORDS = (b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\xff" * 4, b"\x00\x00\x00\x80", b"\x80\x00\x00\x00")
AWAY = ("../outside", "/etc/passwd", "..", ".", "", "a/b", "..\\up", "x\0y", "//host/x", "a/../../b")


def damaged(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """(what was done, the damaged bytes); never the bytes as they were."""
    for _ in range(20):
        name, change = rng.choice(CHANGES)
        created = change(rng, data)
        if created != data:
            return name, created
    return "appended", data + b"\x00"


def _truncated(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))] if data else b""


def _flipped(rng: random.Random, data: bytes) -> bytes:
    created = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        if created:
            created[rng.randrange(len(created))] ^= 1 << rng.randrange(8)
    return bytes(created)


def _overwritten(rng: random.Random, data: bytes) -> bytes:
    at, size = rng.randrange(len(data) + 1), rng.choice([1, 2, 4, 16, 64])
    return data[:at] + rng.randbytes(min(size, len(data) - at)) + data[at + size :]


def _cut_out(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice([1, 2, 4, 16]) :]


def _inserted(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice([*HUGE_VARINTS, *HUGE_WORDS, rng.randbytes(3)]) + data[at:]


def _replaced_by_huge(rng: random.Random, data: bytes) -> bytes:
    huge = rng.choice([*HUGE_VARINTS, *HUGE_WORDS])
    at = rng.randrange(len(data) + 1)
    return data[:at] + huge + data[at + len(huge) :]


def _zeroed(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    size = min(rng.choice([1, 8, 64, len(data)]), len(data) - at)
    return data[:at] + bytes(size) + data[at + size :]


def _noise(rng: random.Random, data: bytes) -> bytes:
    return rng.randbytes(rng.choice([0, 1, 4, 16, len(data)]))


def _doubled(rng: random.Random, data: bytes) -> bytes:
    return data + data[rng.randrange(len(data) + 1) :]


def _digits_changed(rng: random.Random, data: bytes) -> bytes:
    """Numbers and words of JSON texts."""
    swaps = [(b"1", b"-1"), (b"0", b"99999999999999999999999"), (b'"', b""), (b":", b": null,")]
    swaps += [(b"true", b"[]"), (b"INT", b"ARRAY<INT"), (b"{", b"{" * 3000), (b"[", b"[" * 3000)]
    swaps += [(b"manifest", b"../manifest"), (b"3", b"1e400"), (b"2", b"NaN"), (b"e", b"\\ud800")]
    old, new = rng.choice(swaps)
    places = [i for i in range(len(data)) if data.startswith(old, i)]
    if not places:
        return data
    at = rng.choice(places)
    return data[:at] + new + data[at + len(old) :]


CHANGES: list[tuple[str, Callable[[random.Random, bytes], bytes]]] = [
    ("truncated", _truncated),
    ("bits flipped", _flipped),
    ("bits flipped", _flipped),
    ("bytes overwritten", _overwritten),
    ("bytes cut out", _cut_out),
    ("bytes inserted", _inserted),
    ("a huge number put in", _replaced_by_huge),
    ("zeroed", _zeroed),
    ("noise", _noise),
    ("tail doubled", _doubled),
    ("text changed", _digits_changed),
]
_NUMBERS = (-1, -(2**31), 2**31 - 1, 2**63 - 1, -(2**63), 0, 7, 255)
_TEXTS = '["null", {"type": "array", "items": "string"}]'
_ROWS = (
    b"",
    b"\0",
    bytes(12),
    b"\xff" * 12,
    b"\0\0\0\1" + bytes(16),
    b"\0\0\0\1" + b"\xff" * 16,
    b"\x7f" * 40,
)
_LATER: tuple[Callable[[random.Random], CarriedField], ...] = (
    lambda rng: CarriedField(EXTRA_FILES, _TEXTS, [rng.choice(AWAY)]),
    lambda rng: CarriedField(EXTRA_FILES, '["null", "long"]', rng.choice(_NUMBERS)),
    lambda rng: CarriedField("_LATER", '["null", "string"]', rng.choice(AWAY)),
    lambda rng: CarriedField("_LATER", '["null", "bytes"]', rng.choice(_ROWS)),
)
"""Fields of later releases: names of files that lead away, the same field with another type, one that nobody
knows."""


def _value(rng: random.Random, name: str, old: Any) -> Any:
    """Something of the same Avro type that no writer would have meant."""
    if isinstance(old, SimpleStats):
        part = rng.choice([f.name for f in fields(old)])
        new = () if part == "null_counts" else _row(rng, getattr(old, part))
        return replace(old, **{part: rng.choice([new, (-5, None, 2**62)]) if part == "null_counts" else new})
    if isinstance(old, bytes) or name in ("embedded_index", "partition", "min_key", "max_key"):
        return _row(rng, old or b"")
    if isinstance(old, str) or name == "external_path":
        return rng.choice(AWAY)
    if name == "carried":
        return (rng.choice(_LATER)(rng),)
    if isinstance(old, tuple) or name in ("value_stats_cols", "write_cols"):
        return tuple(rng.choice((*AWAY, "nobody", "k")) for _ in range(rng.randrange(3)))
    bits = 31 if name in ("kind", "bucket", "total_buckets", "level", "file_source") else 63
    return max(-(2**bits), min(2**bits - 1, rng.choice(_NUMBERS)))


def _row(rng: random.Random, old: bytes) -> bytes:
    return rng.choice([*_ROWS, damaged(rng, old)[1], damaged(rng, old)[1]])


def hostile_entries(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """A manifest whose bytes are sound and one of whose entries is not."""
    entries = list(manifest.decode_entries(data, "entries"))
    if not entries:
        return damaged(rng, data)
    i = rng.randrange(len(entries))
    target: ManifestEntry | DataFileMeta = entries[i]
    top = [f.name for f in fields(ManifestEntry) if f.name != "file"]
    name = rng.choice(top + [f.name for f in fields(DataFileMeta)] * 2)
    if name in top:
        entries[i] = replace(target, **{name: _value(rng, name, getattr(target, name))})
    else:
        file = replace(entries[i].file, **{name: _value(rng, name, getattr(entries[i].file, name))})
        entries[i] = replace(entries[i], file=file)
    return f"entry {i}: {name}", manifest.encode_entries(entries, "none")


def hostile_list(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """A manifest list whose bytes are sound and one of whose rows is not."""
    rows = list(manifest.decode_list(data, "list"))
    if not rows:
        return damaged(rng, data)
    i = rng.randrange(len(rows))
    name = rng.choice([f.name for f in fields(ManifestFileMeta) if f.name[:3] not in ("min", "max")])
    value = _value(rng, name, getattr(rows[i], name))
    rows[i] = replace(rows[i], **{name: value})
    return f"row {i}: {name}", manifest.encode_list(rows, "none")


def hostile_index(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """An index manifest whose bytes are sound and one of whose entries is not."""
    entries = list(index_manifest.decode(data, "index"))
    if not entries:
        return damaged(rng, data)
    i = rng.randrange(len(entries))
    e = entries[i]
    ranges = e.file.dv_ranges
    if ranges and rng.random() < 0.5:
        j = rng.randrange(len(ranges))
        name = rng.choice([f.name for f in fields(VectorRange)])
        value = _int32(_value(rng, name, getattr(ranges[j], name)))
        created = (*ranges[:j], replace(ranges[j], **{name: value}), *ranges[j + 1 :])
        entries[i] = replace(e, file=replace(e.file, dv_ranges=created))
    elif rng.random() < 0.3:
        name = rng.choice(["partition", "bucket"])
        entries[i] = replace(e, **{name: _value(rng, name, getattr(e, name))})
    else:
        names = [f.name for f in fields(IndexFileMeta) if f.name not in ("dv_ranges", "global_index")]
        name = rng.choice(names)
        entries[i] = replace(e, file=replace(e.file, **{name: _value(rng, name, getattr(e.file, name))}))
    return f"entry {i}: {name}", index_manifest.encode(entries, "none")


def _int32(value: Any) -> Any:
    return max(-(2**31), min(2**31 - 1, value)) if isinstance(value, int) else value


def hostile(rng: random.Random, kind: str, data: bytes) -> tuple[str, bytes]:
    """Damage that suits the kind of file."""
    shaped = {"manifest": hostile_entries, "manifest-list": hostile_list, "index-manifest": hostile_index}
    if kind in shaped and rng.random() < 0.5:
        return shaped[kind](rng, data)
    return damaged(rng, data)
