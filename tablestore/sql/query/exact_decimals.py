"""ExactDecimals: arithmetic of decimals beyond 128 bits, as a function that DuckDB calls."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

from tablestore.format.types.data_type import DataType, to_arrow

_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)  # more digits than a product of two decimals has
_WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "by", "%": "modulo"}


@dataclass(frozen=True, slots=True)
class ExactDecimals:
    """`a operator b` of two exact numbers, rounded half up to the digits of the result; NULL where it does
    not fit. Raises ZeroDivisionError."""

    operator: str
    a: DataType
    b: DataType
    returns: DataType

    @property
    def name(self) -> str:
        a, b, returns = (f"{t.root}.{t.precision}.{t.scale}" for t in (self.a, self.b, self.returns))
        return f"{a} {_WORDS[self.operator]} {b} as {returns}"

    @property
    def parameters(self) -> tuple[DataType, ...]:
        return self.a.as_nullable(), self.b.as_nullable()

    def run(self, *columns: pa.Array) -> pa.Array:
        left, right = (c.to_pylist() for c in columns)
        pairs = zip(left, right, strict=True)
        found = [None if x is None or y is None else self._one(Decimal(x), Decimal(y)) for x, y in pairs]
        return pa.array(found, to_arrow(self.returns))

    def _one(self, x: Decimal, y: Decimal) -> Decimal | None:
        step = Decimal(1).scaleb(-self.returns.scale)
        value = _value(self.operator, x, y).quantize(step, context=_EXACT)
        fits = abs(value) < Decimal(10) ** (self.returns.precision - self.returns.scale)
        return value if fits else None


def _value(operator: str, x: Decimal, y: Decimal) -> Decimal:
    if operator == "+":
        return _EXACT.add(x, y)
    if operator == "-":
        return _EXACT.subtract(x, y)
    if operator == "*":
        return _EXACT.multiply(x, y)
    if y == 0:
        raise ZeroDivisionError("Division by zero")
    return _EXACT.divide(x, y) if operator == "/" else _EXACT.remainder(x, y)
