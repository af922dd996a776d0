"""Numbers and times as SQL of Spark, with Flink's results.

Spark has microseconds in every TIME, TIMESTAMP_NTZ and TIMESTAMP. A TIMESTAMP is cut by its text: all else
that Spark has for that goes through an instant in the zone of the session, where an hour a year is missing.
"""

from __future__ import annotations

from tablestore.format.types.data_type import MAX_LENGTH, DataType
from tablestore.sql.query.arithmetic import Arithmetic, Operand
from tablestore.sql.query.numeric_types import BITS, FLOATS, MOST_DIGITS, NUMBERS, WHOLE, digits

_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_MILLIS, _MICROS = 3, 6  # digits of a second

_NAMES = {"VARCHAR": "STRING", "CHAR": "STRING", "VARBINARY": "BINARY", "TIMESTAMP": "TIMESTAMP_NTZ"}


_NAMES |= {"TIMESTAMP_LTZ": "TIMESTAMP"}
_TRIED = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}
_ZERO = "raise_error('Division by zero')"


class SparkArithmetic(Arithmetic):
    """How Spark says arithmetic: its decimals have the digits of Flink's, its overflow is an error."""

    sums_in_128_bits = False

    def type_name(self, t: DataType) -> str:
        return f"DECIMAL({t.precision}, {t.scale})" if t.root == "DECIMAL" else _NAMES.get(t.root, t.root)

    def rounded(self, name: str, o: Operand, places: list[str], result: DataType) -> str:
        return f"CAST(round({', '.join([o.text, *places])}) AS {self.type_name(result)})"

    def wrapped(self, text: str, t: DataType) -> str:
        half, mask = 1 << (BITS[t.root] - 1), (1 << BITS[t.root]) - 1
        if t.root == "BIGINT":
            return _wrapped_decimal(text, t)
        return f"CAST((((CAST({text} AS BIGINT) & {mask}L) + {half}L) & {mask}L) - {half}L AS {t.root})"

    def mean(self, total: Operand, count: Operand, result: DataType, *, short: bool) -> str:
        if result.root in WHOLE:
            return f"CAST({total.text} DIV {count.text} AS {result.root})"
        left = f"CAST({total.text} AS {self.type_name(total.type)})"
        return f"CAST({left} / CAST({count.text} AS DECIMAL(19, 0)) AS {self.type_name(result)})"

    def _remainder(self, left: str, right: str, kind: str) -> str:
        """Of floating point; by 0 it is NaN, in Spark an error."""
        return f"IF({right} = 0, {left} * CAST('NaN' AS {kind}), try_mod({left}, {right}))"

    def _wide(self, t: DataType) -> str:
        return "DECIMAL(38, 0)" if t.root == "BIGINT" else "BIGINT"

    def _whole_quotient(self, left: str, right: str) -> str:
        return f"({left} DIV {right})"

    def _decimal(self, operator: str, a: Operand, b: Operand, result: DataType) -> str:
        left, right = _as_decimal(a), _as_decimal(b)
        if result.precision < MOST_DIGITS:
            result_text = f"({left} {operator} {right})"
        else:  # it may not fit: NULL
            result_text = f"{_TRIED[operator]}({left}, {right})"
            if operator in "/%" and not b.constant:
                result_text = f"IF({left} IS NOT NULL AND {right} = 0, {_ZERO}, {result_text})"
        return f"CAST({result_text} AS {self.type_name(result)})"


def _wrapped_decimal(text: str, t: DataType) -> str:
    """A whole number of up to 38 digits in the bits of the type."""
    half = 1 << (BITS[t.root] - 1)
    return f"CAST(pmod(CAST({text} AS DECIMAL(38, 0)) + {half}, {2 * half}) - {half} AS {t.root})"


def _cut_to_whole(value: str, source: DataType, target: DataType, numbers: Arithmetic) -> str:
    """A number with a fraction as a whole one, as Java has it: NaN is 0, a FLOAT or DOUBLE ends with INT or
    BIGINT, then the highest bits go."""
    if source.root == "DECIMAL":
        return _wrapped_decimal(f"IF({value} < 0, ceil({value}), floor({value}))", target)
    kind = target.root if target.root == "BIGINT" else "INT"
    least, most = -(1 << (BITS[kind] - 1)), (1 << (BITS[kind] - 1)) - 1
    cases = (
        f"WHEN isnan({value}) THEN 0 WHEN {value} >= {most} THEN {most} WHEN {value} <= {least} THEN {least}"
    )
    whole = f"CAST(CASE {cases} ELSE CAST({value} AS {kind}) END AS {kind})"
    return whole if kind == target.root else numbers.wrapped(whole, target)


def _as_decimal(o: Operand) -> str:
    p, s = digits(o.type)
    return f"CAST({o.text} AS DECIMAL({p}, {s}))"


def spark_cast(value: str, source: DataType, target: DataType, numbers: Arithmetic) -> str | None:
    """A CAST that Spark does otherwise: whole numbers wrap, a decimal that does not fit is NULL, texts are
    those of Flink and as long as their type, times have the digits of their type."""
    a, b = source.root, target.root
    if a in WHOLE and b in WHOLE and BITS[b] < BITS[a]:
        return numbers.wrapped(value, target)
    if b in WHOLE and a in (*FLOATS, "DECIMAL"):
        return _cut_to_whole(value, source, target, numbers)
    if b == "DECIMAL" and a in (*WHOLE, "DECIMAL") and source.nullable:
        return f"try_cast({value} AS {numbers.type_name(target)})"
    if b == "BOOLEAN" and a in NUMBERS:
        return f"({value} <> 0)"
    if b in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        return spark_time_cast(value, source, target)
    if b not in ("CHAR", "VARCHAR") or source.is_nested:
        return None
    text = f"CAST({value} AS STRING)"
    if source.is_binary:
        return f"validate_utf8({text})"
    if a == "BOOLEAN":
        text = f"upper({text})"
    elif a == "TIME":
        text = f"left({text}, 8)"
    elif a in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        text = seconds_text(value, source.precision)
    if b == "CHAR":
        return f"rpad({text}, {target.precision}, ' ')"
    return text if target.precision == MAX_LENGTH else f"left({text}, {target.precision})"


def spark_time_cast(value: str, source: DataType, target: DataType) -> str | None:
    """The CAST to TIME, TIMESTAMP or TIMESTAMP_LTZ; None for a source that has no such cast."""
    a, b = source.root, target.root
    digits = source.precision if a in _TIMES else _MICROS if source.is_string else 0
    fewer = min(digits, _MICROS) > target.precision
    if b == "TIME":
        if a in _TIMES:  # whole seconds
            return f"CAST(right({_whole_seconds(value)}, 8) AS TIME(6))"
        return f"CAST({value} AS TIME(6))" if a == "TIME" or source.is_string else None
    if b == "TIMESTAMP":
        at = f"CAST({value} AS TIMESTAMP_NTZ)"
        return _cut(at, target.precision, of_text=source.is_string) if fewer else at
    if a == "TIMESTAMP_LTZ":
        return _cut_instant(value, target.precision) if fewer else value
    local = value if a == "DATE" else f"CAST({value} AS TIMESTAMP_NTZ)"
    local = _cut(local, target.precision, of_text=source.is_string) if fewer else local
    return f"CAST({local} AS TIMESTAMP)"


def seconds_text(value: str, digits: int) -> str:
    """A TIMESTAMP_NTZ or TIMESTAMP as text with so many digits of a second."""
    whole = _whole_seconds(value)
    return f"concat({whole}, '.', {_fraction(value, digits)})" if digits else whole


def _whole_seconds(value: str) -> str:
    return f"substring_index(CAST({value} AS STRING), '.', 1)"


def _fraction(value: str, digits: int) -> str:
    """That many digits behind the whole seconds; those that the text leaves out are zeros."""
    return f"rpad(regexp_extract(CAST({value} AS STRING), '[.]([0-9]+)', 1), {digits}, '0')"


def _cut(at: str, digits: int, *, of_text: bool) -> str:
    """A TIMESTAMP_NTZ with fewer digits. Flink cuts to milliseconds, and these towards 1970 unless they are
    those of a text."""
    cut = f"CAST({seconds_text(at, digits)} AS TIMESTAMP_NTZ)"
    if digits >= _MILLIS or of_text:
        return cut
    millis = f"CAST({seconds_text(at, _MILLIS)} AS TIMESTAMP_NTZ)"
    step = f"INTERVAL '{10.0**-digits:.{digits}f}' SECOND"
    return f"IF({cut} < {_EPOCH} AND {cut} <> {millis}, {cut} + {step}, {cut})"


def _cut_instant(at: str, digits: int) -> str:
    """The same of a TIMESTAMP."""
    if digits >= _MILLIS:
        micros = f"unix_micros({at})"
        return f"timestamp_micros({micros} - pmod({micros}, {10 ** (_MICROS - digits)}L))"
    step = f"{10 ** (_MILLIS - digits)}L"
    return f"timestamp_millis((unix_millis({at}) DIV {step}) * {step})"
