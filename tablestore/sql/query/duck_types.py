"""Arithmetic and CAST as SQL of DuckDB with the results of Flink SQL: whole numbers wrap, decimals that do
not fit are NULL, texts are Java's; what cannot be cast is refused before anything runs.

What DuckDB does otherwise is a function of whole columns that it calls: `ExactDecimals` computes beyond 128
bits, a `ColumnCast` reads and writes texts as Java does it: `1.0E7`, `TRUE`, `2024-03-01 04:05:06.000`,
`[1, NULL]`, `{a=1}`, `(1, x)`. A text may have blanks around a number or a date, and leave parts of a date
out.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tablestore.core.errors import InvalidRequest, SchemaMismatch
from tablestore.format.types import cast_text, casts
from tablestore.format.types.casts import attempted
from tablestore.format.types.data_type import MAX_LENGTH, DataType, time_unit, to_arrow
from tablestore.format.types.nested import lists, struct_nulls
from tablestore.sql.query.function import Calls, duck_type, require_length
from tablestore.sql.query.numeric_types import BITS, FLOATS, MOST_DIGITS, NUMBERS, STRING, WHOLE, digits
from tablestore.sql.query.typed_sql import Arithmetic, Operand

_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)  # more digits than a product of two decimals has
_WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "by", "%": "modulo"}

_SHORT_DIGITS = 18  # of decimals that DuckDB computes with 64 bits
_WHOLE_YEAR = r"^\s*(\d{1,4})\s*$"
_WHOLE_HOUR = r"^\s*(\d{1,2})\s*$"

_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
_TEXTS = ("CHAR", "VARCHAR")
_BYTES = ("BINARY", "VARBINARY")
_TARGETS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*NUMBERS, "BOOLEAN"), (*NUMBERS, *_TEXTS, "BOOLEAN")),
    "DATE": ("DATE", *_TIMES, *_TEXTS),
    "TIME": ("TIME", *_TIMES, *_TEXTS),
    **dict.fromkeys(_TIMES, ("DATE", "TIME", *_TIMES, *_TEXTS)),
    **dict.fromkeys(_BYTES, (*_BYTES, *_TEXTS)),
    **{root: (root, *_TEXTS) for root in ("ARRAY", "MAP", "ROW")},
    **dict.fromkeys(_TEXTS, (*NUMBERS, *_TEXTS, *_BYTES, *_TIMES, "BOOLEAN", "DATE", "TIME")),
}
"""What a type can be cast to, as in Flink SQL."""


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


def require_castable(source: DataType, target: DataType) -> None:
    """Raise InvalidRequest for a CAST that there is not."""
    if source.root in _TARGETS and target.root not in _TARGETS[source.root]:
        hint = ""
        if source.root in NUMBERS and target.root in _TIMES:
            hint = "; TO_TIMESTAMP_LTZ(n, 3) and TO_TIMESTAMP(FROM_UNIXTIME(n)) make times of numbers"
        raise InvalidRequest(f"{source.as_nullable()} cannot be cast to {target.as_nullable()}{hint}")


def cast_sql(
    node: exp.Cast, value: str, source: DataType, target: DataType, numbers: Arithmetic, calls: Calls
) -> str | None:
    """The CAST of a value of a known type; None where DuckDB's own is right."""
    require_castable(source, target)
    safe = isinstance(node, exp.TryCast)
    if target.root in ("CHAR", "BINARY"):
        require_length(target.precision, f"CAST to {target.root}")
    if _plain(node.this, target):
        return f"CAST({value} AS {duck_type(target)})"
    if source.root == "TIMESTAMP_LTZ" != target.root:  # its time in the zone of the session
        value, source = f"CAST({value} AS TIMESTAMP)", replace(source, root="TIMESTAMP")
        if target.root == "TIMESTAMP" and target.precision >= source.precision:
            return value
    if source.root == target.root == "TIMESTAMP_LTZ" and target.precision < source.precision:
        return calls(ColumnCast(source.as_nullable(), target.as_nullable(), safe), value)
    if target.root == "TIMESTAMP_LTZ":
        local = replace(target, root="TIMESTAMP")
        cast_locally = (
            None if source.root == "TIMESTAMP_LTZ" else cast_sql(node, value, source, local, numbers, calls)
        )
        return _instant(cast_locally or value)
    a, b = source.root, target.root
    if a in WHOLE and b in WHOLE:
        if BITS[b] >= BITS[a]:
            return f"CAST({value} AS {duck_type(target)})"
        return numbers.wrapped(f"CAST({value} AS {'HUGEINT' if a == 'BIGINT' else 'BIGINT'})", target)
    if b == "DECIMAL" and a in (*WHOLE, "DECIMAL"):
        kept = source.nullable or safe  # NULL where it does not fit, if it may be
        return f"{'TRY_' if kept else ''}CAST({value} AS {duck_type(target)})"
    if a == "DECIMAL" and b in WHOLE:
        return numbers.wrapped(f"CAST(trunc({value}) AS HUGEINT)", target)
    if a in NUMBERS and b == "BOOLEAN":
        return f"({value} <> 0)"
    if (a == "BOOLEAN" and b in NUMBERS) or (a in (*WHOLE, "DECIMAL") and b in FLOATS) or (a, b) == FLOATS:
        return f"CAST({value} AS {duck_type(target)})"
    if b in _TEXTS and (text := _text(value, source)) is not None:
        return fitted(text, target)
    if a in _TEXTS and b == "VARBINARY" and target.precision == MAX_LENGTH:
        return f"encode({value})"
    if a == "DATE" or (a, b) == ("TIMESTAMP", "DATE"):
        return f"CAST({value} AS {duck_type(target)})"
    if a == "TIMESTAMP" and b == "TIME":
        return f"CAST(date_trunc('second', {value}) AS TIME)"
    if a == b == "TIMESTAMP" and target.precision >= source.precision:
        return f"CAST({value} AS {duck_type(target)})"
    if source.as_nullable() == target.as_nullable():
        return value
    return calls(ColumnCast(source.as_nullable(), target.as_nullable(), safe), value)


def _instant(local: str) -> str:
    """A TIMESTAMP in the zone of the session. Where a clock is set back it is the earlier of two, as in Java;
    DuckDB takes the later one."""
    later = f"CAST({local} AS TIMESTAMP WITH TIME ZONE)"
    earlier = f"({later} - INTERVAL 1 HOUR)"
    same = f"CAST({earlier} AS TIMESTAMP) = CAST({local} AS TIMESTAMP)"
    return f"(CASE WHEN {same} THEN {earlier} ELSE {later} END)"


def fitted(text: str, target: DataType) -> str:
    """A text as CHAR(n) or VARCHAR(n): cut, and CHAR filled with blanks."""
    if target.root == "CHAR":
        return f"rpad({text}, {target.precision}, ' ')"
    return text if target.precision == MAX_LENGTH else f"left({text}, {target.precision})"


def _text(value: str, source: DataType) -> str | None:
    if source.root == "BOOLEAN":
        return f"upper(CAST({value} AS VARCHAR))"
    if source.root in (*WHOLE, "DECIMAL", "DATE"):
        return f"CAST({value} AS VARCHAR)"
    if source.root == "TIME":
        return f"left(CAST({value} AS VARCHAR), 8)"
    return value if source.is_string else None


def _plain(value: Any, target: DataType) -> bool:
    """Whether a literal is written in full, so that every engine reads it alike."""
    if not isinstance(value, exp.Literal) or not value.is_string:
        return False
    text = value.name
    try:
        if target.root == "DATE" and len(text) == 10:
            return bool(dt.date.fromisoformat(text))
        if target.root == "TIMESTAMP" and len(text) in (19, 23, 26) and text[10] == " ":
            whole = {19: 0, 23: 3, 26: 6}[len(text)] <= target.precision
            return whole and dt.datetime.fromisoformat(text).tzinfo is None
        return target.root == "TIME" and len(text) == 8 and dt.time.fromisoformat(text).tzinfo is None
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class ColumnCast:
    """A CAST of one type to another; with `safe` a value that cannot be cast is NULL. Raises InvalidRequest
    for such a value otherwise."""

    source: DataType
    returns: DataType
    safe: bool = False

    @property
    def name(self) -> str:
        return f"{'try_' if self.safe else ''}cast {self.source} to {self.returns}".replace('"', "'")

    @property
    def parameters(self) -> tuple[DataType, ...]:
        return (self.source.as_nullable(),)

    def run(self, *columns: pa.Array) -> pa.Array:
        (column,) = columns
        source, target = self.source.as_nullable(), self.returns.as_nullable()
        if self.safe:
            return attempted(lambda part: casted(part, source, target), column, to_arrow(target))[0]
        try:
            return casted(column, source, target)
        except SchemaMismatch as e:
            shown = (
                str(e).partition(" of an older file")[0].removesuffix(f" is not a value of {self.returns}")
            )
            raise InvalidRequest(f"{shown} is no {target}") from None


def casted(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """The column as the other type."""
    if source == target:
        return array
    if target.is_string:
        return cast_text.fitted(_column_text(array, source), target)
    if source.is_string:
        return _parsed(array, target)
    if source.root == target.root and source.is_nested:
        return _nested(array, source, target)
    return casts.cast(array, source, target)


def _parsed(array: pa.Array, target: DataType) -> pa.Array:
    if target.root in NUMBERS:
        return casts.cast(pc.utf8_trim_whitespace(array), STRING, target)
    if target.root == "DATE":
        array = pc.replace_substring_regex(array, pattern=_WHOLE_YEAR, replacement=r"\1-01-01")
    if target.root == "TIME":
        array = pc.replace_substring_regex(array, pattern=_WHOLE_HOUR, replacement=r"\1:00")
    if target.root in ("DATE", "TIME", "TIMESTAMP"):  # in older files a number is one of days or milliseconds
        cast_text.refuse_where(pc.match_substring_regex(array, r"^-?\d+$"), array, target)
    return casts.cast(array, STRING, target)


def _column_text(array: pa.Array, t: DataType) -> pa.Array:
    if t.root == "BOOLEAN":
        return pc.utf8_upper(array.cast(pa.string()))
    if t.root == "TIMESTAMP":
        text = array.cast(pa.timestamp(time_unit(t.precision)), safe=False).cast(pa.string())
        return pc.utf8_slice_codeunits(text, 0, 19 + (t.precision + 1 if t.precision else 0))
    if t.is_binary:
        return casts.cast(array, t, STRING)
    if not t.is_nested:
        return cast_text.of(array, t)
    return cast_text.nested_text(array, t, _shown, row="()", pair="=")


def _shown(array: pa.Array, t: DataType) -> pa.Array:
    return _column_text(array, t).fill_null("NULL")


def _nested(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    pairs = zip(source.children, target.children, strict=True)
    kinds = [(a.type.as_nullable(), b.type.as_nullable()) for a, b in pairs]
    wanted = to_arrow(target)
    if target.root == "ROW":
        cells = [casted(cell, *kind) for cell, kind in zip(array.flatten(), kinds, strict=True)]
        return pa.StructArray.from_arrays(cells, fields=list(wanted), mask=struct_nulls(array))
    parts = lists(array)
    children = [casted(c, *kind) for c, kind in zip(parts.children, kinds, strict=True)]
    if target.root == "ARRAY":
        return pa.ListArray.from_arrays(parts.offsets, children[0], mask=parts.nulls).cast(wanted)
    return pa.MapArray.from_arrays(parts.offsets, *children, mask=parts.nulls).cast(wanted)
