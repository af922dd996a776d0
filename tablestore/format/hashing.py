"""Bucket functions: which bucket a row belongs to (format facts section 6), whole columns at a time.

default: |murmur3_32(BinaryRow body of the bucket key, seed 42) mod n| with Java's remainder.
mod: floorMod of one integer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tablestore.errors import InvalidOption, Unsupported
from tablestore.format import binary_row
from tablestore.format.types import DataType

_CHUNK = 32_768  # rows whose words stay in the cache
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def _mix(h: np.ndarray, k: np.ndarray) -> np.ndarray:
    k = k * _C1
    k = (k << np.uint32(15)) | (k >> np.uint32(17))
    h = h ^ (k * _C2)
    h = (h << np.uint32(13)) | (h >> np.uint32(19))
    return h * np.uint32(5) + np.uint32(0xE6546B64)


def _finish(h: np.ndarray, length: np.ndarray | np.uint32) -> np.ndarray:
    h = h ^ length
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (h ^ (h >> np.uint32(16))).view(np.int32)


def hash_rows(arrays: Sequence[pa.Array], types: Sequence[DataType]) -> np.ndarray:
    """int32 murmur hash of each row's BinaryRow body."""
    parts = [
        _hash_chunk([a.slice(at, _CHUNK) for a in arrays], types)
        for at in range(0, max(len(arrays[0]), 1), _CHUNK)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _hash_chunk(arrays: Sequence[pa.Array], types: Sequence[DataType]) -> np.ndarray:
    slots = [binary_row.fixed_slots(a, t) for a, t in zip(arrays, types, strict=True)]
    if any(s is None for s in slots):
        return _hash_bodies(*binary_row.bodies(arrays, types))
    rows, nulls = len(arrays[0]), binary_row.null_words(arrays)
    heads = (len(types) + 63 + 8) // 64
    columns = [np.zeros(rows, np.uint64)] * heads if nulls is None else list(nulls)
    columns += [s.view(np.uint64) for s in slots]
    h = np.full(rows, 42, dtype=np.uint32)
    for word in columns:
        h = _mix(h, word.astype(np.uint32))
        h = _mix(h, (word >> np.uint64(32)).astype(np.uint32))
    return _finish(h, np.uint32(8 * len(columns)))


def _hash_bodies(flat: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    words, first = flat.view("<u4"), offsets[:-1] // 4
    lengths = np.diff(offsets) // 4
    h = np.full(len(lengths), 42, dtype=np.uint32)
    for i in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > i)
        h[rows] = _mix(h[rows], words[first[rows] + i])
    return _finish(h, (4 * lengths).astype(np.uint32))


def bucket_of(
    arrays: Sequence[pa.Array], types: Sequence[DataType], buckets: int, function: str = "default"
) -> np.ndarray:
    """int32 bucket of each row, 0..buckets − 1."""
    if function == "mod":
        if len(types) != 1 or types[0].root not in ("INT", "BIGINT"):
            raise InvalidOption("bucket-function.type 'mod' needs one INT or BIGINT bucket key")
        return (binary_row.signed(arrays[0]) % buckets).astype(np.int32)
    if function != "default":
        raise Unsupported(f"bucket-function.type {function!r}")
    return np.abs(np.fmod(hash_rows(arrays, types), np.int32(buckets)))
