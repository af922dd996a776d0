"""Roaring bitmaps in their portable form ⇄ sorted positions in numpy: 32-bit, and 64-bit as in Iceberg.

    uint32 cookie   12346: next uint32 is the container count; offsets follow the header
                    12347 + (count - 1 << 16): then one bit a container, set where it holds runs;
                    offsets follow only if there are 4 containers or more
    count × (uint16 high bits of the positions, uint16 cardinality - 1)
    count × uint32 offset from the cookie
    containers      array: uint16 low bits; bitmap (cardinality > 4096): 8192 bytes; runs: uint16 n,
                    n × (uint16 start, uint16 length - 1)

All little-endian. 64-bit: int64 count, then for each (int32 high bits, ascending; a 32-bit bitmap).
Decoding checks everything before it allocates: hostile bytes raise ValueError. Pure.
"""

from __future__ import annotations

import struct

import numpy as np

_PLAIN, _WITH_RUNS = 12346, 12347
_OFFSETS_FROM = 4
_ARRAY_MOST = 4096
_BITMAP_BYTES = 8192
_SPAN = 1 << 16
MOST_POSITIONS = 1 << 31


def encode32(positions: np.ndarray) -> bytes:
    """The bitmap of strictly increasing positions below 2^32, each container in its smallest form."""
    highs = positions >> 16
    starts = np.r_[0, np.flatnonzero(highs[1:] != highs[:-1]) + 1][: len(positions)]
    ends = np.r_[starts[1:], len(positions)][: len(starts)]
    count = len(starts)
    if _plain_arrays(positions, starts, ends):
        return _encoded_arrays(positions, highs[starts], ends - starts)
    made = [_container(positions[a:b] & 0xFFFF) for a, b in zip(starts, ends, strict=True)]
    runs = [is_run for is_run, _ in made]
    if any(runs):
        flags = np.packbits(np.array(runs, dtype=bool), bitorder="little").tobytes()
        head = struct.pack("<I", _WITH_RUNS | (count - 1) << 16) + flags
    else:
        head = struct.pack("<II", _PLAIN, count)
    described = np.empty((count, 2), dtype="<u2")
    described[:, 0], described[:, 1] = highs[starts], ends - starts - 1
    head += described.tobytes()
    if not any(runs) or count >= _OFFSETS_FROM:
        sizes = np.array([len(body) for _, body in made], dtype=np.int64)
        offsets = len(head) + 4 * count + np.cumsum(sizes) - sizes
        head += offsets.astype("<u4").tobytes()
    return head + b"".join(body for _, body in made)


def _plain_arrays(positions: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> bool:
    """Whether every container is smallest as an array."""
    counts = ends - starts
    if not len(counts) or counts.max() > _ARRAY_MOST:
        return False
    begins = np.r_[True, positions[1:] != positions[:-1] + 1]
    begins[starts] = True
    return bool((2 + 4 * np.add.reduceat(begins, starts) >= 2 * counts).all())


def _encoded_arrays(positions: np.ndarray, highs: np.ndarray, counts: np.ndarray) -> bytes:
    """A bitmap of which every container is an array."""
    described = np.empty((len(counts), 2), dtype="<u2")
    described[:, 0], described[:, 1] = highs, counts - 1
    offsets = 8 + 8 * len(counts) + 2 * (np.cumsum(counts) - counts)
    head = struct.pack("<II", _PLAIN, len(counts)) + described.tobytes() + offsets.astype("<u4").tobytes()
    return head + (positions & 0xFFFF).astype("<u2").tobytes()


def _container(lows: np.ndarray) -> tuple[bool, bytes]:
    """(whether it holds runs, bytes) of one container's low bits."""
    first = np.flatnonzero(np.r_[True, lows[1:] != lows[:-1] + 1])
    run_bytes, other_bytes = 2 + 4 * len(first), min(2 * len(lows), _BITMAP_BYTES)
    if run_bytes < other_bytes:
        last = np.r_[first[1:], len(lows)] - 1
        pairs = np.stack([lows[first], lows[last] - lows[first]], axis=1).astype("<u2")
        return True, struct.pack("<H", len(first)) + pairs.tobytes()
    if len(lows) <= _ARRAY_MOST:
        return False, lows.astype("<u2").tobytes()
    bits = np.zeros(_SPAN, dtype=bool)
    bits[lows] = True
    return False, np.packbits(bits, bitorder="little").tobytes()


def decode32(data: bytes, *, most: int = MOST_POSITIONS) -> np.ndarray:
    """Strictly increasing int64 positions of a bitmap that fills `data`; ValueError for anything else."""
    positions, end = _decode32(_Bytes(data), most)
    if end != len(data):
        raise ValueError(f"the bitmap ends at byte {end} of {len(data)}")
    return positions


def decode32_from(data: bytes, *, most: int = MOST_POSITIONS) -> tuple[np.ndarray, int]:
    """(positions, bytes read) of a bitmap at the beginning of `data`; ValueError for anything else."""
    return _decode32(_Bytes(data), most)


def encode64(positions: np.ndarray) -> bytes:
    """The 64-bit form; high words without positions are written as empty bitmaps, as Java does."""
    words = int(positions[-1] >> 32) + 1 if len(positions) else 0
    bounds = np.searchsorted(positions, [w << 32 for w in range(words + 1)])
    parts = [struct.pack("<q", words)]
    for word in range(words):
        parts.append(struct.pack("<i", word))
        parts.append(encode32(positions[bounds[word] : bounds[word + 1]] & 0xFFFFFFFF))
    return b"".join(parts)


def decode64(data: bytes, *, most: int = MOST_POSITIONS) -> np.ndarray:
    """Strictly increasing int64 positions of the 64-bit form; ValueError for anything else."""
    source, found, left, last = _Bytes(data), [], most, -1
    (count,) = source.unpack("<q", 0)
    at = 8
    if not 0 <= count <= len(data) // 8:
        raise ValueError(f"{count} bitmaps in {len(data)} bytes")
    for _ in range(count):
        (word,) = source.unpack("<i", at)
        if word <= last:
            raise ValueError(f"bitmap {word} comes after bitmap {last}")
        positions, end = _decode32(_Bytes(data[at + 4 :]), left)
        found.append(positions + (word << 32))
        at, left, last = at + 4 + end, left - len(positions), word
    if at != len(data):
        raise ValueError(f"the bitmaps end at byte {at} of {len(data)}")
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


class _Bytes:
    """Bytes that complain instead of running out."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def take(self, start: int, size: int) -> bytes:
        part = self._data[start : start + size]
        if len(part) != size:
            raise ValueError(f"{size} bytes wanted at {start}, the bitmap has {len(self._data)}")
        return part

    def unpack(self, layout: str, start: int) -> tuple[int, ...]:
        return struct.unpack(layout, self.take(start, struct.calcsize(layout)))

    def words(self, start: int, count: int) -> np.ndarray:
        return np.frombuffer(self.take(start, 2 * count), dtype="<u2").astype(np.int64)


def _decode32(source: _Bytes, most: int) -> tuple[np.ndarray, int]:
    """(positions, bytes read)."""
    (cookie,) = source.unpack("<I", 0)
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.frombuffer(source.take(4, (count + 7) // 8), dtype=np.uint8)
        runs = np.unpackbits(flags, bitorder="little")[:count].astype(bool)
        at = 4 + len(flags)
        offsets = count >= _OFFSETS_FROM
    elif cookie == _PLAIN:
        (count,) = source.unpack("<I", 4)
        if count > _SPAN:
            raise ValueError(f"{count} containers")
        runs, at, offsets = np.zeros(count, dtype=bool), 8, True
    else:
        raise ValueError(f"cookie {cookie} of no roaring bitmap")
    header = source.words(at, 2 * count).reshape(count, 2)
    highs, cards = header[:, 0], header[:, 1] + 1
    if (highs[1:] <= highs[:-1]).any():
        raise ValueError("containers are not in ascending order")
    if int(cards.sum()) > most:
        raise ValueError(f"{int(cards.sum()):,} positions, at most {most:,} are possible")
    at += 4 * count + (4 * count if offsets else 0)
    if not runs.any() and (cards <= _ARRAY_MOST).all():
        positions = source.words(at, int(cards.sum())) + (np.repeat(highs, cards) << 16)
        if (positions[1:] <= positions[:-1]).any():
            raise ValueError("a container does not hold ascending positions")
        return positions, at + 2 * len(positions)
    return _containers(source, at, highs, cards, runs)


def _containers(
    source: _Bytes, at: int, highs: np.ndarray, cards: np.ndarray, runs: np.ndarray
) -> tuple[np.ndarray, int]:
    found = []
    for high, card, is_run in zip(highs.tolist(), cards.tolist(), runs.tolist(), strict=True):
        lows, size = _lows(source, at, card, is_run)
        if len(lows) != card or (lows[1:] <= lows[:-1]).any():
            raise ValueError(f"container {high} does not hold {card} ascending positions")
        found.append(lows + (high << 16))
        at += size
    return (np.concatenate(found) if found else np.zeros(0, dtype=np.int64)), at


def _lows(source: _Bytes, at: int, card: int, is_run: bool) -> tuple[np.ndarray, int]:
    if is_run:
        (count,) = source.unpack("<H", at)
        pairs = source.words(at + 2, 2 * count).reshape(count, 2)
        lengths = pairs[:, 1] + 1
        if int(lengths.sum()) != card or (count and int((pairs[:, 0] + lengths).max()) > _SPAN):
            raise ValueError("runs that do not add up")
        firsts = np.repeat(pairs[:, 0] - (np.cumsum(lengths) - lengths), lengths)
        return firsts + np.arange(card), 2 + 4 * count
    if card <= _ARRAY_MOST:
        return source.words(at, card), 2 * card
    bits = np.unpackbits(np.frombuffer(source.take(at, _BITMAP_BYTES), dtype=np.uint8), bitorder="little")
    return np.flatnonzero(bits).astype(np.int64), _BITMAP_BYTES
