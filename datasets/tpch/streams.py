"""The random streams of the TPC-H generator, addressable at any position.

One generator, x' = 16807 x mod (2^31 - 1), with a seed for each column. The n-th draw (n = 1, 2, …) is
seed * 16807^n mod (2^31 - 1), so any draw is found by two table look-ups and no stream has to be walked.
Each row takes a fixed number of draws from each stream (`Stream.per_row`), used or not.
Pure. Used by `rows` and `text`. Seeds and word lists: see `README.md`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MULTIPLIER = 16807
MODULUS = 2**31 - 1
_LOW_BITS = 16

Draws = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stream:
    """A column's own sequence of draws."""

    seed: int
    per_row: int


CUSTOMER_KEY = Stream(851767375, 1)
ORDER_DATE = Stream(1066728069, 1)
ORDER_PRIORITY = Stream(591449447, 1)
CLERK = Stream(1171034773, 1)
ORDER_COMMENT = Stream(276090261, 2)
LINE_COUNT = Stream(1434868289, 1)
QUANTITY = Stream(209208115, 7)
DISCOUNT = Stream(554590007, 7)
TAX = Stream(721958466, 7)
SHIP_INSTRUCT = Stream(1371272478, 7)
SHIP_MODE = Stream(675466456, 7)
PART_KEY = Stream(1808217256, 7)
SUPPLIER_CHOICE = Stream(2095021727, 7)
SHIP_LAG = Stream(1769349045, 7)
COMMIT_LAG = Stream(904914315, 7)
RECEIPT_LAG = Stream(373135028, 7)
RETURN_FLAG = Stream(717419739, 7)
LINE_COMMENT = Stream(1095462486, 14)
TEXT_SEED = 933588178


def reduce(product: Draws) -> Draws:
    """`product` mod 2^31 - 1, in place; for products of two residues (below 2^62).

    Two folds are enough: the first leaves less than 2^32, the second at most the modulus, and the
    modulus itself (residue 0) does not occur since neither factor is 0 modulo a prime.
    """
    for _ in range(2):
        high = product >> 31
        product &= MODULUS
        product += high
    return product


def _powers(base: int, count: int) -> Draws:
    """base^0 … base^(count-1), by doubling blocks."""
    out = np.empty(count, np.int64)
    out[0] = 1
    done = 1
    while done < count:
        step = min(done, count - done)
        out[done : done + step] = reduce(out[:step] * pow(base, done, MODULUS))
        done += step
    return out


POWERS = _powers(MULTIPLIER, 1 << _LOW_BITS)
_HIGH_POWERS = _powers(pow(MULTIPLIER, 1 << _LOW_BITS, MODULUS), 1 << (31 - _LOW_BITS))


def draws(seed: int, positions: NDArray[np.int64]) -> Draws:
    """The draws number `positions` (from 0) of the stream with `seed`."""
    exponent = (positions + 1) % (MODULUS - 1)
    power = _HIGH_POWERS[exponent >> _LOW_BITS]
    power *= POWERS[exponent & ((1 << _LOW_BITS) - 1)]
    return reduce(reduce(power) * seed)


def uniform(draw: Draws, low: int, high: int) -> NDArray[np.int64]:
    """An integer of low..high for each draw; divides, then multiplies, as the generator does."""
    return low + (draw / float(MODULUS) * float(high - low + 1)).astype(np.int64)


def column(stream: Stream, row: NDArray[np.int64], low: int, high: int, *, at: NDArray | int = 0) -> NDArray:
    """Integers low..high of `stream` for rows `row` (0-based), taking draw `at` of each row's share."""
    return uniform(draws(stream.seed, row * stream.per_row + at), low, high)
