"""32-bit roaring bitmaps: containers of every form come back; what the format does not allow is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tablestore.format import roaring

RUNS = np.arange(100)


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
    actual = np.unique(np.concatenate(parts))
    return actual[actual < 2**32]


def test_sets_of_every_form_come_back_whatever_follows_them(seeds: tuple[int, ...]) -> None:
    for seed in (s * 20 + n for s in seeds for n in range(20)):
        rng = np.random.default_rng(seed)
        positions = random_set(rng)
        data = roaring.encode32(positions)
        assert np.array_equal(roaring.decode32(data), positions), seed
        actual, size = roaring.decode32_from(data + rng.bytes(rng.integers(0, 20)))
        assert np.array_equal(actual, positions), seed
        assert size == len(data), seed


def test_a_union_is_that_of_the_positions(seeds: tuple[int, ...]) -> None:
    for seed in (s * 10 + n for s in seeds for n in range(10)):
        rng = np.random.default_rng(seed)
        sets = [random_set(rng) for _ in range(rng.integers(1, 4))]
        united = roaring.union32([roaring.encode32(positions) for positions in sets])
        assert united == roaring.encode32(np.unique(np.concatenate(sets))), seed


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "0 bytes"),
        (b"nothing like it", "deserialize"),
        (roaring.encode32(RUNS)[:-1], "deserialize"),
        (roaring.encode32(RUNS) + b"x", "ends at byte 15 of 16"),
        (roaring.encode32(RUNS)[:7] + b"\7\0" + roaring.encode32(RUNS)[9:], "do not add up"),
    ],
)
def test_bytes_that_are_no_bitmap_are_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        roaring.decode32(data)
    with pytest.raises(ValueError, match=complaint):
        roaring.union32([roaring.encode32(RUNS), data])


def test_more_positions_than_are_possible_are_refused_before_they_take_memory() -> None:
    whole = roaring.encode32(np.arange(1 << 16))
    with pytest.raises(ValueError, match="65,536 positions, of 65,535 possible ones"):
        roaring.decode32(whole, max_count=65_535)
