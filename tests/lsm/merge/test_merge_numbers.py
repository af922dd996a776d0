"""Products of decimals, keys that 64 bits hold all at once and others alone; unions of bitmaps."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablestore.format import roaring
from tablestore.format.types.arrow_types import DataField, to_arrow
from tablestore.format.types.type_text import parse_type
from tablestore.lsm.merge.aggregators import numbers
from tablestore.lsm.merge.aggregators.numbers import Product
from tablestore.lsm.merge.functions import aggregator
from tablestore.lsm.merge.walk import ADD, OLDER, RETRACT, SET, SKIP, Failures, Walk
from tests.lsm.merge.test_merge_lists import random_walk


@pytest.mark.parametrize(
    "text", ["DECIMAL(9, 2)", "DECIMAL(18, 4)", "DECIMAL(5, 0)", "DECIMAL(4, 4)", "DECIMAL(38, 9)"]
)
def test_products_at_once_are_as_each_alone(
    monkeypatch: pytest.MonkeyPatch, text: str, seeds: tuple[int, ...]
) -> None:
    t = parse_type(text)
    for seed in (s * 10 + n for s in seeds for n in range(10)):
        rng = random.Random(seed)
        rows = rng.choice([1, 5, 60])
        most = 10 ** rng.choice([1, t.precision // 2, t.precision]) - 1
        values = [None if rng.random() < 0.2 else rng.randint(-most, most) for _ in range(rows)]
        column = pa.array([v if v is None else Decimal(v).scaleb(-t.scale) for v in values], to_arrow(t))
        actions = rng.choice([[ADD], [ADD, ADD, OLDER, SKIP, SET], [ADD, ADD, ADD, RETRACT]])
        walk, failures, others = random_walk(rng, actions, rows), Failures(), Failures()
        together = Product().fold("a", column, t, walk, failures)
        with monkeypatch.context() as patched:
            none, all_ = np.zeros(len(walk.starts), dtype=bool), np.ones(len(walk.starts), dtype=bool)
            zeros = np.zeros(len(walk.starts), dtype=np.int64)
            patched.setattr(numbers, "_products", lambda *_: (zeros, none, all_))  # noqa: B023
            assert Product().fold("a", column, t, walk, others).equals(together), seed
        assert np.array_equal(failures.groups, others.groups), seed
        assert all(failures.of(g) == others.of(g) for g in failures.groups), seed


@pytest.mark.parametrize(
    ("dividend", "divisor", "reason"),
    [
        ("7.00", "3.00", "no finite decimal"),
        ("1.00", "0.00", "/ by zero"),
        ("0.00", "0.00", "/ by zero"),
    ],
)
def test_a_quotient_that_does_not_end_fails_whatever_is_rounded(
    dividend: str, divisor: str, reason: str
) -> None:
    """7 / 3 in 200 digits, times 3, is 7 again once it is rounded: that says nothing."""
    t, failures = parse_type("DECIMAL(9, 2)"), Failures()
    column = pa.array([Decimal(dividend), Decimal(divisor)], to_arrow(t))
    walk = Walk(np.arange(2), np.array([0]), np.array([ADD, RETRACT]))
    assert Product().fold("a", column, t, walk, failures).to_pylist() == [None]
    assert reason in failures.of(0)[1]


@pytest.mark.parametrize("text", ["TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE"])
def test_products_of_rows_that_add_are_as_row_by_row(
    monkeypatch: pytest.MonkeyPatch, text: str, seeds: tuple[int, ...]
) -> None:
    t = parse_type(text)
    for seed in (s * 10 + n for s in seeds for n in range(10)):
        rng = random.Random(seed)
        rows = rng.choice([1, 5, 60])
        most = rng.choice([2, 5, 100])
        pick = rng.uniform if text in ("FLOAT", "DOUBLE") else rng.randint
        values = [None if rng.random() < 0.2 else pick(-most, most) for _ in range(rows)]
        column = pa.array(values, to_arrow(t))
        walk = random_walk(rng, rng.choice([[ADD], [ADD, OLDER, SKIP], [ADD, ADD, SET, RETRACT]]), rows)
        failures, others = Failures(), Failures()
        together = Product().fold("a", column, t, walk, failures)
        with monkeypatch.context() as patched:
            nothing = [np.zeros(len(walk.starts), dtype=d) for d in (numbers_of(column), bool, bool)]
            patched.setattr(numbers, "_plain_products", lambda *_: nothing)  # noqa: B023
            assert Product().fold("a", column, t, walk, others).equals(together), seed
        assert np.array_equal(failures.groups, others.groups), seed


def numbers_of(column: pa.Array) -> Any:
    return column.type.to_pandas_dtype() if pa.types.is_floating(column.type) else np.int64


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
