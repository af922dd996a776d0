"""rbm32, whatever the rows do."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from tablestore.format import roaring
from tablestore.format.types.arrow_types import DataField
from tablestore.format.types.type_text import parse_type
from tablestore.lsm.merge.functions import aggregator
from tablestore.lsm.merge.walk import ADD, OLDER, SET, SKIP, Failures, Walk
from tests.lsm.merge.test_merge_lists import random_walk


def expected(values: list[bytes | None], walk: Walk, group: int) -> bytes | None:
    """The union of one group: what lies since the row last started anew."""
    bitmaps: list[bytes] = []
    for place in range(walk.starts[group], walk.ends[group]):
        value, action = values[walk.rows[place]], walk.actions[place]
        bitmaps = [] if action == SET else bitmaps
        bitmaps += [value] if value is not None and action != SKIP else []
    if len(bitmaps) < 2:
        return bitmaps[0] if bitmaps else None
    return roaring.encode32(np.unique(np.concatenate([roaring.decode32(bitmap) for bitmap in bitmaps])))


def test_a_key_has_the_union_of_its_rows(seeds: tuple[int, ...]) -> None:
    for seed in (s * 10 + n for s in seeds for n in range(10)):
        rng = random.Random(seed)
        sets = [rng.sample(range(0, 2**20, 1009), 20), range(6_000), range(0, 20_000, 2), [2**32 - 1], []]
        pool = [roaring.encode32(np.array(sorted(positions), dtype=np.int64)) for positions in sets]
        rows = rng.choice([1, 7, 60])
        values = [None if rng.random() < 0.2 else rng.choice(pool) for _ in range(rows)]
        walk = random_walk(rng, rng.choice([[ADD], [ADD, OLDER, SKIP], [ADD, ADD, SET, OLDER]]), rows)
        failures = Failures()
        function = aggregator(DataField(1, "a", parse_type("BYTES")), "rbm32", {})
        actual = function.body.fold("a", pa.array(values, pa.binary()), function.field.type, walk, failures)
        assert actual.to_pylist() == [expected(values, walk, g) for g in range(len(walk.starts))], seed
        assert not failures.notes, seed


def test_bytes_that_are_no_bitmap_fail_their_key_alone() -> None:
    good = roaring.encode32(np.arange(3))
    column = pa.array([good, b"nothing like it", good, good, b"alone"], pa.binary())
    walk, failures = Walk(np.arange(5), np.array([0, 2, 4]), np.full(5, ADD)), Failures()
    function = aggregator(DataField(1, "a", parse_type("BYTES")), "rbm32", {})
    actual = function.body.fold("a", column, function.field.type, walk, failures)
    assert actual.to_pylist() == [None, good, b"alone"]
    assert "not such a bitmap" in failures.of(0)[1]
