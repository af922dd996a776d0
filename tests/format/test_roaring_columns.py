"""Columns of 32-bit roaring bitmaps: the same bytes and positions as one bitmap at a time, damage too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tablestore.format import roaring, roaring_columns


def random_set(rng: np.random.Generator) -> np.ndarray:
    """Positions in containers of every form: arrays, bitmaps, runs; near each other or far apart."""
    parts = [np.zeros(0, dtype=np.int64)]
    for _ in range(rng.integers(0, 6)):
        base = int(rng.integers(0, 2**16)) << 16 if rng.random() < 0.5 else int(rng.integers(0, 5)) << 16
        shape = rng.integers(0, 5)
        if shape == 0:
            parts.append(base + rng.integers(0, 1 << 16, rng.integers(1, 20)))
        elif shape == 1:
            parts.append(base + np.arange(rng.integers(1, 70_000)))
        elif shape == 2:
            parts.append(base + rng.permutation(1 << 16)[: rng.integers(4_000, 9_000)])
        else:
            parts.append(base + np.arange(0, int(rng.integers(2, 60_000)), shape - 1))
    found = np.unique(np.concatenate(parts))
    return found[found < 2**32]


def damaged(rng: np.random.Generator, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.3:
            made = made[: rng.integers(0, len(made) + 1)]
        elif made:
            most = len(made) if rng.random() < 0.5 else min(len(made), 24)
            made[rng.integers(most)] = rng.integers(256)
    return bytes(made)


def test_a_column_is_encoded_and_decoded_as_each_bitmap_alone(seeds: Sequence[int]) -> None:
    for seed in (s * 10 + n for s in seeds for n in range(10)):
        rng = np.random.default_rng(seed)
        sets = [random_set(rng) for _ in range(rng.integers(1, 12))]
        alone = [roaring.encode32(one) for one in sets]
        owner = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
        assert roaring_columns.encode(np.concatenate(sets), owner, len(sets)).to_pylist() == alone, seed
        bitmaps = roaring_columns.Bitmaps.of(
            pa.array([b"before", *alone, b"x"], pa.binary()).slice(1, len(sets))
        )
        assert bitmaps.sizes.tolist() == [len(one) for one in sets], seed
        which = rng.random(len(sets)) < 0.7
        positions, place = bitmaps.positions(which)
        assert not bitmaps.odd.any(), seed
        for n, at in enumerate(np.flatnonzero(which)):
            assert np.array_equal(positions[place == n], sets[at]), seed


def test_damaged_bitmaps_are_odd_and_their_neighbours_are_read(seeds: Sequence[int]) -> None:
    for seed in (s * 30 + n for s in seeds for n in range(30)):
        rng = np.random.default_rng(seed)
        sets = [random_set(rng), random_set(rng)]
        before, after = (roaring.encode32(one) for one in sets)
        data = damaged(rng, before)
        bitmaps = roaring_columns.Bitmaps.of(pa.array([before, data, after], pa.binary()))
        positions, place = bitmaps.positions(np.ones(3, dtype=bool))
        assert bitmaps.odd[[0, 2]].tolist() == [False, False], seed
        assert np.array_equal(positions[place == 0], sets[0]), seed
        assert np.array_equal(positions[place == 2], sets[1]), seed
        if not bitmaps.odd[1]:
            assert np.array_equal(positions[place == 1], roaring.decode32(data)), seed


def test_a_column_without_bitmaps_is_encoded_and_decoded() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    assert roaring_columns.encode(nothing, nothing, 0).to_pylist() == []
    assert roaring_columns.encode(nothing, nothing, 2).to_pylist() == [roaring.encode32(nothing)] * 2
    bitmaps = roaring_columns.Bitmaps.of(pa.array([], pa.binary()))
    assert [len(part) for part in bitmaps.positions(np.zeros(0, dtype=bool))] == [0, 0]
