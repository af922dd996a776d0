"""DuckArithmetic: arithmetic as SQL of DuckDB; that of decimals beyond 128 bits is a function which it
calls."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

from tablestore.format.types.data_type import DataType, to_arrow
from tablestore.sql.query.arithmetic import Arithmetic, Operand
from tablestore.sql.query.numeric_types import BITS, FLOATS, MOST_DIGITS, WHOLE, digits
from tablestore.sql.query.user_functions import Calls, duck_type

_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)  # more digits than a product of two decimals has
_WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "by", "%": "modulo"}

_SHORT_DIGITS = 18  # of decimals that DuckDB computes with 64 bits


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
        results = [None if x is None or y is None else self._one(Decimal(x), Decimal(y)) for x, y in pairs]
        return pa.array(results, to_arrow(self.returns))

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


class DuckArithmetic(Arithmetic):
    """How DuckDB says arithmetic; what needs more than 128 bits is a function of `calls`."""

    sums_in_128_bits = True

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def type_name(self, t: DataType) -> str:
        return duck_type(t)

    def rounded(self, name: str, o: Operand, places: list[str], result: DataType) -> str:
        kind = duck_type(result)
        usual = f"{'round' if name == 'ROUND' else 'trunc'}({', '.join([o.text, *places])})"
        if result.root not in FLOATS:
            return f"CAST({usual} AS {kind})"
        digits = places[0] if places else "0"
        if name == "ROUND" and digits.isdecimal() and int(digits) <= _SHORT_DIGITS:
            exact = f"TRY_CAST(CAST({o.text} AS VARCHAR) AS DECIMAL(38, {digits}))"  # of the shortest digits
            usual = f"coalesce(CAST({exact} AS {kind}), {usual})"
        return f"({usual} + CAST(0 AS {kind}))"  # never −0.0

    def wrapped(self, text: str, t: DataType) -> str:
        half, mask = 1 << (BITS[t.root] - 1), (1 << BITS[t.root]) - 1
        if t.root == "BIGINT":
            return f"CAST((({text} + {half}::HUGEINT) & {mask}::HUGEINT) - {half}::HUGEINT AS BIGINT)"
        return f"CAST((({text} + {half}) & {mask}) - {half} AS {duck_type(t)})"

    def mean(self, total: Operand, count: Operand, result: DataType, *, short: bool) -> str:
        if result.root in WHOLE:
            return f"CAST({total.text} // {count.text} AS {duck_type(result)})"
        if short:
            return _by_128_bits(total, count, result.scale - total.type.scale, result)
        return self._exact("/", total, count, result)

    def _wide(self, t: DataType) -> str:
        return "HUGEINT" if t.root == "BIGINT" else "BIGINT"

    def _whole_quotient(self, left: str, right: str) -> str:
        return f"({left} // {right})"

    def _decimal(self, operator: str, a: Operand, b: Operand, result: DataType) -> str:
        (p1, s1), (p2, s2) = digits(a.type), digits(b.type)
        if operator == "/":
            return self._quotient(a, b, result)
        if operator == "%":
            if max(p1 - s1, p2 - s2) + max(s1, s2) <= MOST_DIGITS:
                return f"CAST(({_as_decimal(a)} % {_as_decimal(b)}) AS {duck_type(result)})"
            return self._exact(operator, a, b, result)
        if operator == "*":
            fits, scale = p1 + p2 + 1 <= MOST_DIGITS, s1 + s2
            precision = 0 if p1 + p2 <= _SHORT_DIGITS else _SHORT_DIGITS + 1
            product = f"({_as_decimal(a, precision=precision)} * {_as_decimal(b)})"
        else:
            scale = max(s1, s2)
            fits = max(p1 - s1, p2 - s2) + scale + 1 <= MOST_DIGITS
            left = f"CAST({a.text} AS {duck_type(result)})" if fits else _as_decimal(a)
            product = f"({left} {operator} {_as_decimal(b)})"
        if fits:
            return product
        if operator == "*" and scale == result.scale and a.steady and b.steady:
            return f"TRY({product})"
        return self._exact(operator, a, b, result)

    def _exact(self, operator: str, a: Operand, b: Operand, result: DataType) -> str:
        return self._calls(ExactDecimals(operator, a.type, b.type, result), a.text, b.text)

    def _quotient(self, a: Operand, b: Operand, result: DataType) -> str:
        """A division rounded half up, by 128 bits where these are enough."""
        (p1, s1), (p2, s2) = digits(a.type), digits(b.type)
        shift = result.scale + s2 - s1
        if max(p1 + shift, p1 + s1, p2 + s2) > MOST_DIGITS:
            return self._exact("/", a, b, result)
        return _by_128_bits(a, b, shift, result)


def _by_128_bits(a: Operand, b: Operand, shift: int, result: DataType) -> str:
    n, d = f"({_unscaled(a)} * {10**shift}::HUGEINT)", _unscaled(b)
    quotient = f"(({n} + sign({n}) * (abs({d}) // 2)) // {d})"
    places = result.scale
    moved = f"CAST('1e-{places}' AS DECIMAL({places + 1}, {places}))" if places else "1"
    return f"CAST(CAST({quotient} AS DECIMAL(38, 0)) * {moved} AS {duck_type(result)})"


def _as_decimal(o: Operand, *, precision: int = 0) -> str:
    """An exact number as a DECIMAL of its digits, or of more."""
    p, s = digits(o.type)
    return f"CAST({o.text} AS DECIMAL({max(p, precision)}, {s}))"


def _unscaled(o: Operand) -> str:
    p, s = digits(o.type)
    whole = f"CAST({o.text} AS DECIMAL({p}, {s}))"
    return f"CAST({whole} * {10**s}::DECIMAL({s + 1}, 0) AS HUGEINT)" if s else f"CAST({whole} AS HUGEINT)"
