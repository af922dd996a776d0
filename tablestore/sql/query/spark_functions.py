"""Functions, numbers and times as SQL of Spark, where Spark means something else at some arguments.

Each gives what the embedded engine gives: logarithms of 0 and below, NULL among elements, a place below 1.
Arguments are SQL texts and may stand in a call several times. `is_same` says which calls mean there what they
mean here. Pure.

Spark has microseconds in every TIME, TIMESTAMP_NTZ and TIMESTAMP. A TIMESTAMP is cut by its text: all else
that Spark has for that goes through an instant in the zone of the session, where an hour a year is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from tablestore.format.time_text import DAYS, MONTHS
from tablestore.format.types.data_type import MAX_LENGTH, DataType
from tablestore.sql.query.function import LONGEST, Sql, too_long
from tablestore.sql.query.numeric_types import BITS, FLOATS, MOST_DIGITS, NUMBERS, WHOLE, digits
from tablestore.sql.query.time_functions import strftime_pattern
from tablestore.sql.query.type_inference import type_of
from tablestore.sql.query.typed_sql import Arithmetic, Operand

_ALWAYS = frozenset(
    "UPPER UCASE LOWER LCASE CHAR_LENGTH CHARACTER_LENGTH OCTET_LENGTH BTRIM REVERSE "
    "STARTSWITH ENDSWITH CONTAINS YEAR QUARTER MONTH DAY DAYOFMONTH DAYOFYEAR DAYOFWEEK "
    "HOUR MINUTE LAST_DAY DATE_ADD DATE_SUB ABS SIGN SQRT POWER EXP MOD PI "
    "COALESCE IFNULL NVL NULLIF IF ARRAY_DISTINCT MAP_KEYS MAP_VALUES COUNT SUM AVG MIN "
    "MAX STDDEV STDDEV_SAMP STDDEV_POP VARIANCE VAR_SAMP VAR_POP CORR COVAR_POP COVAR_SAMP ROW_NUMBER "
    "RANK DENSE_RANK PERCENT_RANK CUME_DIST NTILE LAG LEAD FIRST_VALUE LAST_VALUE BOOL_AND BOOL_OR "
    "EVERY MAX_BY MIN_BY NVL2 SIN COS TAN ATAN ATAN2 SINH COSH TANH DEGREES RADIANS POW".split()
)

_NAN, _INFINITE = "CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)"
_WHOLE_FROM = 4503599627370496  # a DOUBLE from here on has no fraction
_OF_DATES = ("DATE", "TIMESTAMP")


def _logarithm(function: str) -> Callable[[list[str]], str]:
    """−∞ of 0 and NaN below, where Spark has NULL."""

    def render(arguments: list[str]) -> str:
        n = f"CAST({arguments[0]} AS DOUBLE)"
        return f"(CASE WHEN {n} = 0 THEN -{_INFINITE} WHEN {n} < 0 THEN {_NAN} ELSE {function}({n}) END)"

    return render


_ln = _logarithm("ln")


def _log(arguments: list[str]) -> str:
    if len(arguments) == 1:
        return _ln(arguments)
    base, n = _ln(arguments[:1]), _ln(arguments[1:])
    return f"(CASE WHEN {base} = 0 THEN {n} * {_INFINITE} ELSE {n} / {base} END)"


def _any_null(function: str) -> Callable[[list[str]], str]:
    """NULL if one of the arguments is; Spark leaves NULLs out and wants two."""

    def render(arguments: list[str]) -> str:
        if len(arguments) == 1:
            return arguments[0]
        tests = " OR ".join(f"({a}) IS NULL" for a in arguments)
        return f"IF({tests}, NULL, {function}({', '.join(arguments)}))"

    return render


def _located(arguments: list[str]) -> str:
    part, text, *start = arguments
    if not start:
        return f"locate({part}, {text})"
    begin = f"CAST(least(greatest({start[0]}, 1), 2147483647) AS INT)"
    return f"IF(({start[0]}) IS NULL, NULL, locate({part}, {text}, {begin}))"


SPARK_FUNCTIONS: Mapping[str, Sql] = MappingProxyType(
    {
        "LN": _ln,
        "LOG": _log,
        "LOG2": _logarithm("log2"),
        "LOG10": _logarithm("log10"),
        "ASIN": "asin({0})",
        "ACOS": "acos({0})",
        "COT": "cot({0})",
        "E": "e()",
        "GREATEST": _any_null("greatest"),
        "LEAST": _any_null("least"),
        "ARRAY_CONTAINS": "exists({0}, own_x -> own_x <=> ({1}))",
        "CARDINALITY": "IF(({0}) IS NULL, NULL, cardinality({0}))",
        "SIZE": "IF(({0}) IS NULL, NULL, cardinality({0}))",
        "LOCATE": _located,
        "TRANSLATE": "translate({0}, coalesce({1}, ''), coalesce({2}, ''))",
        "CONCAT": "concat({all})",
        "CONCAT_WS": "concat_ws({all})",
        "REPEAT": f"IF(octet_length({{0}}) * CAST({{1}} AS DOUBLE) > {LONGEST}, "
        f"raise_error('{too_long('REPEAT')}'), repeat({{0}}, CAST({{1}} AS INT)))",
        "SECOND": "CAST(second({0}) AS BIGINT)",
        "WEEK": "weekofyear({0})",
        "WEEKOFYEAR": "weekofyear({0})",
        "DATEDIFF": "datediff(CAST({0} AS DATE), CAST({1} AS DATE))",
        "MD5": "md5({0})",
        "SHA1": "sha1({0})",
        "SHA256": "sha2({0}, 256)",
    }
)
"""How Spark is asked for these. {0} {1} … are the arguments."""


def spark_call(name: str, arguments: list[str]) -> str | None:
    """The call of a function as SQL of Spark; None where Spark's own of that name is right."""
    function = SPARK_FUNCTIONS.get(name)
    if function is None or callable(function):
        return None if function is None else function(arguments)
    return function.format(*arguments, all=", ".join(arguments))


def whole_number(function: str, value: str, kind: str) -> str:
    """`ceil` or `floor` of a FLOAT or DOUBLE in its type: Spark's own is a BIGINT, which has no room for all,
    and no −0.0."""
    small = f"WHEN {value} > -1 AND {value} < 0 THEN -CAST(0 AS {kind}) " if function == "ceil" else ""
    large = f"{value} = 0 OR NOT abs({value}) < {_WHOLE_FROM}"
    return f"(CASE WHEN {large} THEN {value} {small}ELSE CAST({function}({value}) AS {kind}) END)"


def date_format(value: str, pattern: str, source: DataType | None) -> str:
    """A time as text by a pattern of `strftime_pattern`. Of a DATE or TIMESTAMP it is made of parts: Spark's
    own goes through an instant in the zone of the session, where an hour a year is missing."""
    if source is None or source.root not in _OF_DATES:
        return f"date_format({value}, '{pattern.replace(chr(39), chr(39) * 2)}')"
    letters, parts, text = strftime_pattern(pattern) or "", [], ""
    at = f"CAST({value} AS TIMESTAMP_NTZ)"
    i = 0
    while i < len(letters):
        size = 1 if letters[i] != "%" else 3 if letters[i + 1] == "-" else 2
        token, i = letters[i : i + size], i + size
        if size == 1 or token == "%%":
            text += token[0]
            continue
        if text:
            parts.append(_literal(text))
        parts, text = [*parts, _part(token, at)], ""
    return f"concat({', '.join([*parts, *([_literal(text)] if text else [])]) or _literal('')})"


def _part(token: str, at: str) -> str:
    """A part of a TIMESTAMP_NTZ as strftime's letter shows it."""
    short = token in ("%b", "%a")
    if token in ("%b", "%B"):
        names = ", ".join(_literal(name[:3] if short else name) for name in MONTHS)
        return f"elt(month({at}), {names})"
    if token in ("%a", "%A"):
        names = ", ".join(_literal(name[:3] if short else name) for name in DAYS)
        return f"elt(dayofweek({at}), {names})"
    if token == "%p":
        return f"IF(hour({at}) < 12, 'AM', 'PM')"
    if token in ("%g", "%f"):
        digits = 3 if token == "%g" else 6
        fraction = f"regexp_extract(CAST({at} AS STRING), '[.]([0-9]+)', 1)"
        return f"rpad({fraction}, {digits}, '0')"
    number, digits = {
        "Y": (f"year({at})", 4),
        "y": (f"year({at}) % 100", 2),
        "m": (f"month({at})", 2),
        "d": (f"day({at})", 2),
        "j": (f"dayofyear({at})", 3),
        "H": (f"hour({at})", 2),
        "I": (f"(hour({at}) + 11) % 12 + 1", 2),
        "M": (f"minute({at})", 2),
        "S": (f"CAST(second({at}) AS INT)", 2),
    }[token[-1]]
    text = f"CAST({number} AS STRING)"
    return text if "-" in token else f"lpad({text}, {digits}, '0')"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_DAYS_OF = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY")
_CLOCK_OF = ("HOUR", "MINUTE", "SECOND", "MILLISECOND")


def rounded_time(function: str, unit: str, value: str, source: DataType | None) -> str | None:
    """`floor` or `ceil` of a DATE or TIMESTAMP to a unit; a week begins on Sunday. None for others."""
    if source is None or source.root not in _OF_DATES or unit not in (*_DAYS_OF, *_CLOCK_OF):
        return None
    day, at = f"CAST({value} AS DATE)", f"CAST({value} AS TIMESTAMP_NTZ)"
    if unit in _DAYS_OF:
        first = f"trunc({day}, '{unit}')"
        first = {"DAY": day, "WEEK": f"date_sub({day}, dayofweek({day}) - 1)"}.get(unit, first)
        floor = f"CAST({first} AS TIMESTAMP_NTZ)"
    else:
        clock = ["hour({at})", "minute({at})", "floor(second({at}))"][: _CLOCK_OF.index(unit) + 1]
        parts = [part.format(at=at) for part in clock]
        floor = f"(CAST({day} AS TIMESTAMP_NTZ) + make_dt_interval(0, {', '.join(parts)}))"
        if unit == "MILLISECOND":
            floor = f"({floor} + make_dt_interval(0, 0, 0, {_millis(at)}))"
    if function == "ceil":
        length = "0.001' SECOND" if unit == "MILLISECOND" else f"1' {unit}"
        length = {"QUARTER": "3' MONTH", "WEEK": "7' DAY"}.get(unit, length)
        floor = f"(CASE WHEN {floor} = {at} THEN {at} ELSE {floor} + INTERVAL '{length} END)"
    return f"CAST({floor} AS DATE)" if source.root == "DATE" and unit in _DAYS_OF else floor


def _millis(at: str) -> str:
    """The whole milliseconds behind the second, as seconds."""
    return f"CAST(concat('0.', {_part('%g', at)}) AS DECIMAL(4, 3))"


def is_same(name: str, arguments: Sequence[Any]) -> bool:
    """Whether the call means the same."""
    test = _SOMETIMES.get(name)
    return name in _ALWAYS or name in SPARK_FUNCTIONS if test is None else test(arguments)


def _count(node: Any) -> bool:
    """A whole number from 0 on that is written out."""
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()


def _is_text(node: Any) -> bool:
    """A text that is written out, and not empty."""
    return isinstance(node, exp.Literal) and node.is_string and bool(node.name)


def _extracted_part(arguments: Sequence[Any]) -> bool:
    """A place from the end, and a length below 0, mean something else there."""
    return all(_count(a) for a in arguments[1:])


def _padded(arguments: Sequence[Any]) -> bool:
    short = len(arguments) == 3 and _count(arguments[1]) and int(arguments[1].name) <= LONGEST
    return short and _is_text(arguments[2])


def _formatted(arguments: Sequence[Any]) -> bool:
    """Of a time by a pattern that is written out; a text that is no time means something else there."""
    if len(arguments) != 2 or not _is_text(arguments[1]) or strftime_pattern(arguments[1].name) is None:
        return False
    t = type_of(arguments[0])
    return t is not None and t.root in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")


_SOMETIMES: Mapping[str, Callable[[Sequence[Any]], bool]] = MappingProxyType(
    {
        "SUBSTRING": _extracted_part,
        "SUBSTR": _extracted_part,
        "LPAD": _padded,
        "RPAD": _padded,
        "LTRIM": lambda a: len(a) == 1,
        "RTRIM": lambda a: len(a) == 1,
        "REPLACE": lambda a: len(a) == 3 and _is_text(a[1]),
        "INSTR": lambda a: len(a) == 2,
        "ROUND": lambda a: len(a) == 1 or _count(a[1].this if isinstance(a[1], exp.Neg) else a[1]),
        "TYPEOF": lambda a: len(a) == 1 and type_of(a[0]) is not None,
        "DATE_FORMAT": _formatted,
    }
)


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
