"""64-bit bitmaps of aggregate function rbm64: byte for byte as Java Paimon makes and joins them."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from tablestore.format import roaring_tree
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer


def some_values(rng: np.random.Generator) -> np.ndarray:
    """uint64 values in no order: scattered, dense, in runs, with many or few children of a tree's nodes."""
    kind = rng.integers(6)
    high = np.uint64(rng.integers(4)) << np.uint64(rng.choice([16, 40, 62]))
    if kind == 0:
        actual = rng.integers(0, 2**64 - 1, rng.integers(1, 300), dtype=np.uint64)
    elif kind == 1:  # many prefixes below one byte of the key
        below = rng.integers(0, rng.choice([5, 17, 49, 256]), rng.integers(1, 120)).astype(np.uint64)
        actual = high + (below << np.uint64(rng.choice([16, 24, 32])))
    elif kind == 2:  # around the size at which an array becomes bits
        actual = high + rng.integers(0, 2**16, rng.integers(3500, 6000)).astype(np.uint64)
    elif kind == 3:  # runs, short enough to be a tie
        starts = rng.integers(0, 2**17, rng.integers(1, 20))
        actual = high + np.concatenate([np.arange(s, s + rng.integers(1, 6)) for s in starts]).astype(
            np.uint64
        )
    elif kind == 4:
        start = rng.integers(0, 1000)
        actual = high + np.arange(start, start + rng.integers(30_000, 70_000)).astype(np.uint64)
    else:
        actual = high + np.uint64(2) * np.arange(rng.integers(1, 40_000)).astype(np.uint64)
    return rng.permutation(actual) if rng.random() < 0.5 else actual


def test_bitmaps_and_their_unions_have_the_bytes_of_java(java: JavaPaimon, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for _ in range(6):
            lists = [some_values(rng) for _ in range(rng.integers(2, 6))]
            alone, united = java.bitmaps([positions.tolist() for positions in lists])
            for positions, data in zip(lists, alone, strict=True):
                wanted = np.unique(positions)
                assert np.array_equal(roaring_tree.decode(data), wanted), seed
                if np.array_equal(positions, wanted):
                    assert roaring_tree.encode(wanted) == data, seed
            for number in range(len(lists)):
                assert reduce(roaring_tree.union, alone[: number + 1]) == united[number], (seed, number)
