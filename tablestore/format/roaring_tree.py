"""64-bit roaring bitmaps as the Java class Roaring64Bitmap writes them: values of aggregate function `rbm64`
(FORMAT.md 14.2).

A radix tree over the high 48 bits of the values leads to containers with their low 16 bits. Containers are in
the order of addition, so equal sets may have different bytes; unions here have the same bytes as in Java.
Numbers are little-endian but for the key of a leaf.

    uint8 0         nothing follows: the empty set
    uint8 1, int64 keys, the tree, depth first, children by their key byte:
      uint8 node    0–3 with room for 4, 16, 48, 256 children; 4 a leaf
      int16 children, uint8 n, n bytes that all keys below have here
      4, 16         8-byte words (one of 4) of the children's key bytes, each word backwards
      48            for each key byte the child's slot, 255: none; 8-byte words backwards
      256           one bit a key byte
      leaf          6 bytes big-endian: the key; int64 number of its container
    int32 1, int8 -2, int32 slots, for each: uint8 0 (none), or 1 and
      uint8 0 runs: int32 cardinality, uint16 n, n × (uint16 start, uint16 length - 1)
      uint8 1 bitmap: int32 cardinality, 8192 bytes · 2 array: int32 cardinality, uint16 each
    int64 containers, int32 0, int32 last slot in use

Memory: the values, as uint16. Hostile bytes raise ValueError. Pure. Used by the aggregate function.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

_RUNS, _BITS, _ARRAY = range(3)
_LEAF = 4
_ROOM = (4, 16, 48, 256)
_MAX_ARRAY, _BITMAP_BYTES, _SPAN = 4096, 8192, 1 << 16
_KEY_BYTES = 6
_MIN_FOR_RUNS = 4  # values; fewer take no more bytes as an array


@dataclass(slots=True)
class _TreeLeaf:
    key: bytes
    slot: int


@dataclass(slots=True)
class _Branch:
    """A node with room for `size` children; `slots` are those of a node with room for 48."""

    size: int
    prefix: bytes
    children: dict[int, _Branch | _TreeLeaf] = field(default_factory=dict)
    slots: dict[int, int] = field(default_factory=dict)

    def put(self, byte: int, child: _Branch | _TreeLeaf) -> None:
        """Add a child; a full node grows."""
        if byte not in self.children and len(self.children) == _ROOM[self.size]:
            self.size += 1
            if self.size == 2:
                self.slots = {child_byte: n for n, child_byte in enumerate(sorted(self.children))}
        if self.size == 2 and byte not in self.slots:
            taken = set(self.slots.values())
            last = len(self.children)
            self.slots[byte] = last if last not in taken else min(set(range(48)) - taken)
        self.children[byte] = child


@dataclass(frozen=True, slots=True)
class _LowBits:
    """Strictly increasing low bits, and the kind of their container."""

    kind: int
    lows: np.ndarray

    @property
    def firsts(self) -> np.ndarray:
        """Where runs of consecutive values begin."""
        return np.flatnonzero(np.r_[True, np.diff(self.lows.astype(np.int32)) != 1])

    def joined(self, other: _LowBits) -> _LowBits:
        """The union, in the kind that Java gives it."""
        lows = np.union1d(self.lows, other.lows)
        if len(lows) == _SPAN:
            return _LowBits(_RUNS, lows)
        kinds = {self.kind, other.kind}
        if _BITS in kinds:
            return _LowBits(_BITS, lows)
        runs = _LowBits(_RUNS, lows)
        if _RUNS in kinds and 2 + 4 * len(runs.firsts) <= min(_BITMAP_BYTES, 2 + 2 * len(lows)):
            return runs
        return _LowBits(_ARRAY if len(lows) <= _MAX_ARRAY else _BITS, lows)

    def optimized(self) -> _LowBits:
        """The container, converted to runs if these are shorter."""
        if self.kind == _RUNS or len(self.lows) < _MIN_FOR_RUNS:
            return self
        plain = 2 * len(self.lows) if self.kind == _ARRAY else _BITMAP_BYTES
        return _LowBits(_RUNS, self.lows) if plain > 2 + 4 * len(self.firsts) else self

    def bytes(self) -> bytes:
        """The bytes of the container."""
        if self.kind == _RUNS:
            firsts = self.firsts
            lasts = np.r_[firsts[1:], len(self.lows)] - 1
            pairs = np.stack([self.lows[firsts], self.lows[lasts] - self.lows[firsts]], axis=1).astype("<u2")
            return struct.pack("<BBiH", 1, _RUNS, len(self.lows), len(firsts)) + pairs.tobytes()
        head = struct.pack("<BBi", 1, self.kind, len(self.lows))
        if self.kind == _ARRAY:
            return head + self.lows.astype("<u2").tobytes()
        bits = np.zeros(_SPAN, dtype=bool)
        bits[self.lows] = True
        return head + np.packbits(bits, bitorder="little").tobytes()


def union(*sets: bytes) -> bytes:
    """The union of all sets, with the bytes that Java gives when it adds the second to the first, then the
    third and so on, with a write and a read after each."""
    joined = _Bitmap.decode(sets[0])
    for encoded in sets[1:]:
        other = _Bitmap.decode(encoded)
        for leaf in other.leaves():
            joined.add(leaf.key, other.container(leaf))
        joined.slots = [container and container.optimized() for container in joined.slots]
    return joined.encode()


def encode(values: np.ndarray) -> bytes:
    """The set of strictly increasing uint64 values."""
    bitmap = _Bitmap()
    keys = values >> np.uint64(16)
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]][: len(values)])
    for start, end in zip(starts, np.r_[starts[1:], len(values)][: len(starts)], strict=True):
        lows = (values[start:end] & np.uint64(0xFFFF)).astype(np.uint16)
        kind = _ARRAY if len(lows) <= _MAX_ARRAY else _BITS
        bitmap.add(int(keys[start]).to_bytes(_KEY_BYTES, "big"), _LowBits(kind, lows))
    return bitmap.encode()


def decode(data: bytes) -> np.ndarray:
    """The strictly increasing uint64 values of a set; raises ValueError for other bytes."""
    bitmap = _Bitmap.decode(data)
    parts = [
        (np.uint64(int.from_bytes(leaf.key, "big")) << np.uint64(16))
        + bitmap.container(leaf).lows.astype(np.uint64)
        for leaf in bitmap.leaves()
    ]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)


@dataclass(slots=True)
class _Bitmap:
    """The tree, and containers by slot, of which the first `used` were in use."""

    root: _Branch | _TreeLeaf | None = None
    slots: list[_LowBits | None] = field(default_factory=list)
    used: int = 0

    def leaves(self) -> Iterator[_TreeLeaf]:
        """The leaves in ascending order of their keys."""
        return _leaves(self.root) if self.root is not None else iter(())

    def container(self, leaf: _TreeLeaf) -> _LowBits:
        """The values of a leaf."""
        container = self.slots[leaf.slot] if 0 <= leaf.slot < len(self.slots) else None
        if container is None:
            raise ValueError(f"a leaf names container {leaf.slot}, which does not exist")
        return container

    def add(self, key: bytes, values: _LowBits) -> None:
        """Add the values of one key."""
        leaf = _find(self.root, key)
        if leaf is not None:
            self.slots[leaf.slot] = self.container(leaf).joined(values)
            return
        if self.used == len(self.slots):
            room = max(len(self.slots) + len(self.slots) // 2, self.used + 1)
            self.slots += [None] * (room - len(self.slots))
        self.slots[self.used] = values
        self.root = _inserted(self.root, _TreeLeaf(key, self.used), 0)
        self.used += 1

    def encode(self) -> bytes:
        """The bytes of the set."""
        if self.root is None:
            return b"\0"
        nodes: list[bytes] = []
        _write(self.root, nodes)
        keys = sum(1 for _ in self.leaves())
        there = sum(container is not None for container in self.slots)
        return b"".join(
            (
                struct.pack("<Bq", 1, keys),
                *nodes,
                struct.pack("<ibi", 1, -2, len(self.slots)),
                *(b"\0" if container is None else container.optimized().bytes() for container in self.slots),
                struct.pack("<qii", there, 0, self.used - 1),
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> _Bitmap:
        """The set of these bytes; raises ValueError for damage."""
        try:
            return cls._decoded(_ByteReader(data))
        except struct.error as e:
            raise ValueError(f"the bitmap ends too early: {e}") from None

    @classmethod
    def _decoded(cls, source: _ByteReader) -> _Bitmap:
        (some,) = source.unpack("<B")
        if some == 0:
            return cls()
        source.unpack("<q")
        root = _read(source, 0)
        arrays, _, count = source.unpack("<ibi")
        if some != 1 or arrays != 1 or not 0 < count <= source.left:
            raise ValueError(f"{arrays} lists of containers, {count} in the first")
        slots = [_read_container(source) for _ in range(count)]
        _, _, last = source.unpack("<qii")
        if not 0 <= last < count:
            raise ValueError(f"container {last} of {count} is the last")
        bitmap = cls(root, slots, last + 1)
        keys = [leaf.key for leaf in bitmap.leaves() if bitmap.container(leaf)]
        if any(a >= b for a, b in pairwise(keys)):
            raise ValueError("the keys of the tree are not in ascending order")
        return bitmap


@dataclass(slots=True)
class _ByteReader:
    data: bytes
    at: int = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def unpack(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def take(self, size: int) -> bytes:
        taken: bytes = self.unpack(f"{size}s")[0]
        return taken


def _leaves(node: _Branch | _TreeLeaf) -> Iterator[_TreeLeaf]:
    if isinstance(node, _TreeLeaf):
        yield node
        return
    for byte in sorted(node.children):
        yield from _leaves(node.children[byte])


def _find(node: _Branch | _TreeLeaf | None, key: bytes) -> _TreeLeaf | None:
    depth = 0
    while isinstance(node, _Branch):
        depth += len(node.prefix)
        node = node.children.get(key[depth])
        depth += 1
    return node if node is not None and node.key == key else None


def _inserted(node: _Branch | _TreeLeaf | None, leaf: _TreeLeaf, depth: int) -> _Branch | _TreeLeaf:
    """The tree below `depth` with one more leaf, whose key is new."""
    if node is None:
        return leaf
    rest = node.key[depth:] if isinstance(node, _TreeLeaf) else node.prefix
    key = leaf.key[depth:]
    common = next((i for i, (a, b) in enumerate(zip(rest, key, strict=False)) if a != b), len(rest))
    if isinstance(node, _TreeLeaf) or common < len(rest):
        split = _Branch(0, key[:common])
        if isinstance(node, _Branch):
            node.prefix = rest[common + 1 :]
        split.put(rest[common], node)
        split.put(key[common], leaf)
        return split
    byte = key[common]
    node.put(byte, _inserted(node.children.get(byte), leaf, depth + common + 1))
    return node


def _write(node: _Branch | _TreeLeaf, into: list[bytes]) -> None:
    if isinstance(node, _TreeLeaf):
        into.append(struct.pack("<BhB", _LEAF, 0, 0) + node.key + struct.pack("<q", node.slot))
        return
    into.append(struct.pack("<BhB", node.size, len(node.children), len(node.prefix)) + node.prefix)
    bytes_ = sorted(node.children)
    if node.size < 2:
        into.append(_backwards(bytes(bytes_).ljust(_ROOM[node.size], b"\0"), min(8, _ROOM[node.size])))
    elif node.size == 2:
        into.append(_backwards(bytes(node.slots.get(byte, 255) for byte in range(256)), 8))
    else:
        bits = np.zeros(256, dtype=bool)
        bits[bytes_] = True
        into.append(np.packbits(bits, bitorder="little").tobytes())
    for byte in bytes_:
        _write(node.children[byte], into)


def _backwards(words: bytes, size: int) -> bytes:
    return np.frombuffer(words, dtype=np.uint8).reshape(-1, size)[:, ::-1].tobytes()


def _read(source: _ByteReader, depth: int) -> _Branch | _TreeLeaf:
    kind, count, shared = source.unpack("<BhB")
    prefix = source.take(shared)
    if kind == _LEAF:
        return _TreeLeaf(source.take(_KEY_BYTES), *source.unpack("<q"))
    below = depth + shared + 1
    if kind > _LEAF or below > _KEY_BYTES or not 0 < count <= _ROOM[kind]:
        raise ValueError(f"a node of kind {kind} with {count} children, {below} bytes down")
    node = _Branch(kind, prefix)
    if kind < 2:
        bytes_ = list(_backwards(source.take(_ROOM[kind]), min(8, _ROOM[kind]))[:count])
    elif kind == 2:
        slots = _backwards(source.take(256), 8)
        node.slots = {byte: slot for byte, slot in enumerate(slots) if slot != 255}
        bytes_ = list(node.slots)
    else:
        bits = np.unpackbits(np.frombuffer(source.take(32), dtype=np.uint8), bitorder="little")
        bytes_ = np.flatnonzero(bits).tolist()
    if len(set(bytes_)) != count:
        raise ValueError(f"a node of {count} children names {len(set(bytes_))}")
    node.children = {byte: _read(source, below) for byte in bytes_}
    return node


def _read_container(source: _ByteReader) -> _LowBits | None:
    (there,) = source.unpack("<B")
    if not there:
        return None
    kind, count = source.unpack("<Bi")
    if kind == _RUNS:
        (runs,) = source.unpack("<H")
        pairs = np.frombuffer(source.take(4 * runs), dtype="<u2").astype(np.int64).reshape(runs, 2)
        lengths = pairs[:, 1] + 1
        count = int(lengths.sum())
        lows = np.repeat(pairs[:, 0] - (np.cumsum(lengths) - lengths), lengths) + np.arange(count)
    elif kind == _BITS:
        bits = np.frombuffer(source.take(_BITMAP_BYTES), dtype=np.uint8)
        lows = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    elif kind == _ARRAY and 0 <= count <= _SPAN:
        lows = np.frombuffer(source.take(2 * count), dtype="<u2").astype(np.int64)
    else:
        raise ValueError(f"a container of kind {kind} with {count} values")
    if len(lows) != count or not count or (lows[1:] <= lows[:-1]).any() or lows[-1] >= _SPAN:
        raise ValueError(f"a container does not hold {count} ascending values")
    return _LowBits(kind, lows.astype(np.uint16))
