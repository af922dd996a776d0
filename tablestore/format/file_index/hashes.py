"""The 64-bit hashes of bloom filters over whole columns: XXH64 of bytes, Wang's mix of numbers. Pure.

XXH64 works on all values of one length at once, so its cost is a few numpy passes a word and length: 0.4 s of
CPU for a million short texts. (The package xxhash takes 0.1 s, one value a call; file indexes are too rare
for a further dependency.) Both are Java Paimon's to the bit (FORMAT.md 16.4).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_P1, _P2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_P3, _P4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


def wang(numbers: np.ndarray) -> np.ndarray:
    """int64 hashes of int64 numbers; shifts to the right keep the sign, as in Java."""
    key = numbers.astype(np.int64)
    with np.errstate(over="ignore"):
        key = ~key + (key << 21)
        key ^= key >> 24
        key = key + (key << 3) + (key << 8)
        key ^= key >> 14
        key = key + (key << 2) + (key << 4)
        key ^= key >> 28
        return key + (key << 31)


def xxh64(values: pa.Array) -> np.ndarray:
    """int64 hashes of binary values (none null), seed 0."""
    buffers = values.buffers()
    bounds = np.frombuffer(buffers[1], dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(buffers[2] or b"", dtype=np.uint8)
    starts, lengths = bounds[:-1].astype(np.int64), np.diff(bounds)
    out = np.empty(len(values), dtype=np.uint64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        matrix = data[starts[rows][:, None] + np.arange(length)[None, :]]
        out[rows] = _of_length(matrix, length)
    return out.view(np.int64)


def _of_length(matrix: np.ndarray, length: int) -> np.ndarray:
    """Hashes of the rows of a uint8 matrix."""
    with np.errstate(over="ignore"):
        at = 0
        if length >= 32:
            total, at = _stripes(matrix, length)
        else:
            total = np.full(len(matrix), _P5, dtype=np.uint64)
        total += np.uint64(length)
        while at + 8 <= length:
            total ^= _round(np.uint64(0), _word(matrix, at, 8))
            total = _rotl(total, 27) * _P1 + _P4
            at += 8
        if at + 4 <= length:
            total ^= _word(matrix, at, 4) * _P1
            total = _rotl(total, 23) * _P2 + _P3
            at += 4
        while at < length:
            total ^= matrix[:, at].astype(np.uint64) * _P5
            total = _rotl(total, 11) * _P1
            at += 1
        total = (total ^ (total >> np.uint64(33))) * _P2
        total = (total ^ (total >> np.uint64(29))) * _P3
        return total ^ (total >> np.uint64(32))


def _stripes(matrix: np.ndarray, length: int) -> tuple[np.ndarray, int]:
    """(state after all whole stripes of 32 bytes, where they end)."""
    zero = np.zeros(len(matrix), dtype=np.uint64)
    lanes = [zero + (_P1 + _P2), zero + _P2, zero, zero - _P1]
    at = 0
    while at + 32 <= length:
        lanes = [_round(lane, _word(matrix, at + 8 * i, 8)) for i, lane in enumerate(lanes)]
        at += 32
    total = _rotl(lanes[0], 1) + _rotl(lanes[1], 7) + _rotl(lanes[2], 12) + _rotl(lanes[3], 18)
    for lane in lanes:
        total = (total ^ _round(np.uint64(0), lane)) * _P1 + _P4
    return total, at


def _word(matrix: np.ndarray, at: int, width: int) -> np.ndarray:
    part = np.ascontiguousarray(matrix[:, at : at + width])
    return part.view(f"<u{width}")[:, 0].astype(np.uint64)


def _round(state: np.ndarray | np.uint64, word: np.ndarray) -> np.ndarray:
    return _rotl(state + word * _P2, 31) * _P1


def _rotl(value: np.ndarray, count: int) -> np.ndarray:
    return (value << np.uint64(count)) | (value >> np.uint64(64 - count))
