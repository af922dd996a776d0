"""Bytes and numbers in words: what is shown of a comparison says what is so."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from tablestore.core import quantities

_BYTES = {"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40, "PiB": 50}


def shown(text: str, unit: str) -> Fraction:
    """The number a text stands for, in bytes, to the last digit; `unit` if it bears none."""
    number, _, own = text.partition(" ")
    return Fraction(number) * (1 << _BYTES[own or unit])


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        (60 << 20, 20 << 20, ("60.0", "20.0 MiB")),
        (0, 700, ("0", "700 B")),
        (2 << 20, 900 << 20, ("2.0", "900.0 MiB")),
        (500 << 10, 3 << 20, ("500.0", "3072.0 KiB")),
        (500 << 10, 3 << 30, ("500 KiB", "3.00 GiB")),
        (28, 755 << 20, ("28 B", "755 MiB")),
        (27 << 30, 16, ("27.0 GiB", "16 B")),
        ((1 << 20) - 1, 1 << 20, ("0.999999", "1.000000 MiB")),
    ],
)
def test_both_sides_have_one_unit_unless_they_are_far_apart(left, right, text):
    assert quantities.compared(left, right, lambda a, b: a < b if left < right else a > b) == text


def test_what_is_shown_of_a_comparison_is_so(seeds):
    for seed in seeds:
        _compare_many(seed)


def _compare_many(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2_000):
        left, limit = int(10 ** chance.uniform(0, 14)), chance.choice([1, 50, 200, 5_000])
        near = left * 100 // limit + chance.randint(-2, 2)
        _compare(left, max(0, chance.choice([near, int(10 ** chance.uniform(0, 14))])), limit, seed)


def _compare(left: int, right: int, limit: int, seed: int) -> None:
    above = left * 100 > limit * right
    texts = quantities.compared(left, right, lambda a, b: (a * 100 > limit * b) == above)
    own = texts[1].split(" ")[1]
    pair = shown(texts[0], own), shown(texts[1], own)
    assert (pair[0] * 100 > limit * pair[1]) == above, (seed, left, right, limit, texts)
    for number, exact in zip(pair, (left, right), strict=True):
        assert abs(number - exact) <= Fraction("0.06") * exact, (seed, left, right, limit, texts)


def test_a_number_beside_a_limit_stays_on_its_side_of_it():
    assert quantities.beside(200.004, lambda s: s > 200) == "200.004"
    assert quantities.beside(29_326_319.4, lambda s: s > 50) == "29,326,319"
    assert quantities.beside(0.999, lambda s: s >= 1, digits=2) == "0.999"
