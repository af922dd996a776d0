"""numpy's `default_rng`: the generator PCG64 (XSL-RR 128/64), seeded by SeedSequence, and draws from it.

The same seed gives numpy's numbers, so a simulation in a browser draws the rows that a kernel draws. The
tables of the ziggurat (normal, exponential) are computed as numpy's were.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from numpy.array import _array, _size, ndarray
from numpy.scalars import dtype

_M32, _M64, _M128 = (1 << 32) - 1, (1 << 64) - 1, (1 << 128) - 1
_FACTOR = 0x2360ED051FC65DA44385DF649FCCF645


def _seeds(entropy: int) -> list[int]:
    """Four words of 64 bits of a seed, as SeedSequence mixes them."""
    words = [entropy & _M32]
    while entropy := entropy >> 32:
        words.append(entropy & _M32)
    constant = 0x43B0D7E5

    def hashed(value: int) -> int:
        nonlocal constant
        value ^= constant
        constant = constant * 0x931E8875 & _M32
        value = value * constant & _M32
        return value ^ value >> 16

    def mixed(x: int, y: int) -> int:
        word = (0xCA01F9DD * x - 0x4973F715 * y) & _M32
        return word ^ word >> 16

    pool = [hashed(words[i] if i < len(words) else 0) for i in range(4)]
    for i in range(4):
        for j in range(4):
            if i != j:
                pool[j] = mixed(pool[j], hashed(pool[i]))
    for word in words[4:]:
        for j in range(4):
            pool[j] = mixed(pool[j], hashed(word))
    constant, out = 0x8B51F9DD, []
    for i in range(8):
        value = pool[i % 4] ^ constant
        constant = constant * 0x58F38DED & _M32
        value = value * constant & _M32
        out.append(value ^ value >> 16)
    return [out[2 * i] | out[2 * i + 1] << 32 for i in range(4)]


class Generator:
    """Draws, as numpy's Generator gives them."""

    def __init__(self, seed: int) -> None:
        high, low, more, less = _seeds(seed)
        self._step = ((more << 64 | less) << 1 | 1) & _M128
        self._state = (self._step + (high << 64 | low)) * _FACTOR + self._step & _M128
        self._kept: int | None = None

    def word(self) -> int:
        self._state = state = (self._state * _FACTOR + self._step) & _M128
        word, turn = (state >> 64 ^ state) & _M64, state >> 122
        return (word >> turn | word << (64 - turn)) & _M64

    def half(self) -> int:
        if self._kept is not None:
            kept, self._kept = self._kept, None
            return kept
        word = self.word()
        self._kept = word >> 32
        return word & _M32

    def random(self, size: Any = None) -> Any:
        """Evenly from 0 to below 1."""
        self._state, drawn = _evenly(self._state, self._step, _count(size))
        return _formed(list(drawn), size, "float64")

    def integers(self, low: int, high: int | None = None, size: Any = None) -> Any:
        """Whole numbers from `low` to before `high`; Lemire's method."""
        low, high = (0, low) if high is None else (low, high)
        span = int(high) - int(low)
        if not 0 < span <= 1 << 32:
            raise NotImplementedError("draws of more than 2^32 whole numbers are not needed here")
        draw = (lambda: 0) if span == 1 else lambda: self.below(span)
        return _formed([low + draw() for _ in range(_count(size))], size, "int64")

    def below(self, span: int) -> int:
        if span == 1 << 32:
            return self.half()
        product = self.half() * span
        if product & _M32 < span:
            least = (_M32 + 1 - span) % span
            while product & _M32 < least:
                product = self.half() * span
        return product >> 32

    def normal(self, mean: float = 0.0, spread: float = 1.0, size: Any = None) -> Any:
        """Normally distributed."""
        draw = _normal()
        return _formed([mean + spread * draw(self) for _ in range(_count(size))], size, "float64")

    def exponential(self, mean: float = 1.0, size: Any = None) -> Any:
        """Exponentially distributed."""
        draw = _exponential()
        return _formed([mean * draw(self) for _ in range(_count(size))], size, "float64")

    def one(self) -> float:
        """One number from 0 to below 1."""
        return (self.word() >> 11) * 2.0**-53


@lru_cache(maxsize=64)
def _evenly(state: int, step: int, many: int) -> tuple[int, list[float]]:
    """The state after so many draws, and the draws; simulators that are compared draw the same."""
    drawn, scale = [], 2.0**-53
    for _ in range(many):
        state = (state * _FACTOR + step) & _M128
        word, turn = (state >> 64 ^ state) & _M64, state >> 122
        drawn.append((((word >> turn | word << (64 - turn)) & _M64) >> 11) * scale)
    return state, drawn


def _count(size: Any) -> int:
    return 1 if size is None else size if isinstance(size, int) else _size(tuple(size))


def _formed(drawn: list[Any], size: Any, kind: str) -> Any:
    if size is None:
        return drawn[0]
    return ndarray(drawn, (size,) if isinstance(size, int) else tuple(size), dtype(kind))


def default_rng(seed: int = 0) -> Generator:
    """The generator of a seed."""
    return Generator(int(seed))


class _Ziggurat:
    """256 layers under a curve that falls from 1: x and height of each, and how far all of it is inside.

    Computed with 50 digits: exponential draws are numpy's to the bit, normal ones to 15 digits.
    """

    def __init__(self, edge: str, normal: bool, bits: int) -> None:
        with localcontext() as context:
            context.prec = 50
            two, r = Decimal(2), Decimal(edge)
            height = (lambda x: (-x * x / 2).exp()) if normal else (lambda x: (-x).exp())
            inverse = (lambda y: (-2 * y.ln()).sqrt()) if normal else (lambda y: -y.ln())
            tail = height(r)
            if normal:
                fraction = r
                for k in range(400, 0, -1):
                    fraction = r + k / fraction
                tail /= fraction
            area = r * height(r) + tail
            ends = [r]
            for _ in range(254):
                ends.append(inverse(area / ends[-1] + height(ends[-1])))
            ends.append(Decimal(0))
            ends.reverse()  # 0, x1 … x255 = r
            scale, wide = two**bits, area / height(r)
            self.x = [float(wide / scale), *(float(x / scale) for x in ends[1:])]
            self.inside = [int(r / wide * scale), *(int(b / x * scale) for b, x in pairwise(ends))]
            self.height = [1.0, *(float(height(x)) for x in ends[1:])]
        self.edge = float(Decimal(edge))


@cache
def _normal() -> Any:
    table = _Ziggurat("3.6541528853610087963519472518", True, 52)
    x, inside, height, edge = table.x, table.inside, table.height, table.edge

    def draw(of: Generator) -> float:
        while True:
            word = of.word()
            layer, word = word & 0xFF, word >> 8
            size = word >> 1 & 0xFFFFFFFFFFFFF
            value = -size * x[layer] if word & 1 else size * x[layer]
            if size < inside[layer]:
                return value
            if layer:
                if (height[layer - 1] - height[layer]) * of.one() + height[layer] < math.exp(
                    -0.5 * value * value
                ):
                    return value
                continue
            while True:
                far, under = -math.log1p(-of.one()) / edge, -math.log1p(-of.one())
                if under + under > far * far:
                    return -(edge + far) if size >> 8 & 1 else edge + far

    return draw


@cache
def _exponential() -> Any:
    table = _Ziggurat("7.6971174701310497140446280481", False, 53)
    x, inside, height, edge = table.x, table.inside, table.height, table.edge

    def draw(of: Generator) -> float:
        while True:
            word = of.word() >> 3
            layer, word = word & 0xFF, word >> 8
            value = word * x[layer]
            if word < inside[layer]:
                return value
            if not layer:
                return edge - math.log1p(-of.one())
            if (height[layer - 1] - height[layer]) * of.one() + height[layer] < math.exp(-value):
                return value

    return draw
