"""Bucket functions: which bucket a row belongs to (FORMAT.md 6.2, 6.3), whole columns at a time; and HASH
index files, which hold the hashes of the keys of a dynamic bucket (FORMAT.md 15.1).

default: |murmur3_32(BinaryRow body of the bucket key, seed 42) mod n| with Java's remainder.
mod: floorMod of one integer. hive: the hash of Hive's bucketed tables, 31 times the hash so far plus that of
the next column.

In numpy, as packages hash one value a call: a million BIGINT keys take 0.015 s of CPU, with mmh3
0.15 s after their rows are made.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, InvalidOption, Unsupported
from tablestore.format import binary_row
from tablestore.format.types.arrow_types import DataType

_CHUNK = 32_768  # rows whose words fit the CPU cache
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
    fixed = [s for s in slots if s is not None]
    if len(fixed) < len(slots):
        return _hash_bodies(*binary_row.bodies(arrays, types))
    rows, nulls = len(arrays[0]), binary_row.null_words(arrays)
    heads = (len(types) + 63 + 8) // 64
    columns = [np.zeros(rows, np.uint64)] * heads if nulls is None else list(nulls)
    columns += [s.view(np.uint64) for s in fixed]
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
    if function == "hive":
        return ((_hive(arrays, types) & 0x7FFFFFFF) % buckets).astype(np.int32)
    if function != "default":
        raise Unsupported(f"bucket-function.type {function!r}")
    return np.abs(np.fmod(hash_rows(arrays, types), np.int32(buckets)))


def _hive(arrays: Sequence[pa.Array], types: Sequence[DataType]) -> np.ndarray:
    """int64 with Hive's hash of each row in its low 32 bits."""
    hashes = np.zeros(len(arrays[0]), dtype=np.int64)
    for array, t in zip(arrays, types, strict=True):
        own = _hive_column(array, t)
        if array.null_count:
            own = np.where(array.is_valid().to_numpy(zero_copy_only=False), own, 0)
        hashes = (31 * hashes + own) & 0xFFFFFFFF
    return hashes


def _hive_column(array: pa.Array, t: DataType) -> np.ndarray:
    if t.root in ("FLOAT", "DOUBLE"):
        return _hive_float(array, np.float32 if t.root == "FLOAT" else np.float64)
    if t.root == "DECIMAL":
        return _hive_decimal(array)
    if t.is_string or t.is_binary:
        return _hive_bytes(array.cast(pa.binary()))
    if t.root == "BOOLEAN":
        return array.cast(pa.int8()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if t.root in ("DATE", "TIME"):
        array = array.cast(pa.int32())
    if not pa.types.is_integer(array.type):
        raise Unsupported(f"bucket-function.type 'hive' over {t.root} columns")
    values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return values ^ (values >> 32) if t.root == "BIGINT" else values


def _hive_float(array: pa.Array, kind: type[np.floating]) -> np.ndarray:
    """Java's floatToIntBits and Double.hashCode; both zeros are 0, every NaN is one."""
    values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(kind) + kind(0)
    values = np.where(np.isnan(values), kind(np.nan), values).astype(kind)
    if kind is np.float32:
        return values.view(np.int32).astype(np.int64)
    bits = values.view(np.int64)
    return bits ^ ((bits >> 32) & 0xFFFFFFFF)


def _hive_bytes(array: pa.Array) -> np.ndarray:
    """31 · h + signed byte, over the bytes of each value."""
    lengths = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(lengths)
    flat = np.frombuffer(b"".join(array.fill_null(b"").to_numpy(zero_copy_only=False)), dtype=np.int8)
    hashes = np.zeros(len(lengths), dtype=np.int64)
    for i in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > i)
        hashes[rows] = (31 * hashes[rows] + flat[ends[rows] - lengths[rows] + i]) & 0xFFFFFFFF
    return hashes


def _hive_decimal(array: pa.Array) -> np.ndarray:
    """31 · (hash of the unscaled value) + scale, trailing zeros stripped down to scale 0."""
    low, high = binary_row.decimal_words(array.fill_null(0).cast(pa.decimal128(38, array.type.scale)))
    if array.type.precision > 18:
        pairs, inverse = np.unique(np.stack([high, low.view(np.int64)]), axis=1, return_inverse=True)
        distinct = [(int(h) << 64) | int(np.uint64(lo & _WORD)) for h, lo in pairs.T.astype(object)]
        hashes = np.array([_wide_decimal(u, array.type.scale) for u in distinct], dtype=np.int64)
        return hashes[inverse.reshape(-1)]
    unscaled, scale = low.view(np.int64).copy(), np.full(len(low), array.type.scale, dtype=np.int64)
    for _ in range(array.type.scale):
        whole = (unscaled % 10 == 0) & (scale > 0)
        unscaled[whole] //= 10
        scale[whole] -= 1
    size = np.abs(unscaled)
    own = (31 * (size >> 32) + (size & 0xFFFFFFFF)) & 0xFFFFFFFF
    return np.where(unscaled == 0, 0, 31 * np.where(unscaled < 0, -own, own) + scale)


_WORD = 0xFFFFFFFFFFFFFFFF


def _wide_decimal(unscaled: int, scale: int) -> int:
    """Java's BigDecimal.hashCode of one distinct value of more than 18 digits."""
    if not unscaled:
        return 0
    while scale and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    size, h = abs(unscaled), 0
    for shift in range(((size.bit_length() + 31) // 32 - 1) * 32, -1, -32):
        h = (31 * h + ((size >> shift) & 0xFFFFFFFF)) & 0xFFFFFFFF
    return (31 * (h if unscaled > 0 else -h) + scale) & 0xFFFFFFFF


def encode_index(hashes: np.ndarray) -> bytes:
    """The bytes of a HASH index file: distinct hashes as int32 big-endian, in any order."""
    return hashes.astype(">i4").tobytes()


def decode_index(data: bytes, path: str) -> np.ndarray:
    """int32 hashes of an index file; raises Corrupt naming `path` if the size is not a multiple of 4."""
    if len(data) % 4:
        raise Corrupt(path, f"a hash index of {len(data)} bytes: not a multiple of 4")
    return np.frombuffer(data, dtype=">i4").astype(np.int32)
