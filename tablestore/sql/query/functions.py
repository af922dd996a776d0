"""The functions that a query may use: what each means, and how DuckDB is asked for it.

The table is the allow-list: a name that is not here is refused before anything runs, so no query reaches a
function that reads files, settings or the environment. Meanings are those of Flink SQL where it has the
function, else of Spark. Those of texts, times and nested values are in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tablestore.sql.query.function import Function, FunctionRows
from tablestore.sql.query.json_functions import JSON, JSON_AGGREGATES
from tablestore.sql.query.nested_functions import NESTED
from tablestore.sql.query.text_functions import TEXT
from tablestore.sql.query.time_functions import NOW, TIMES


def _any_null(call: str) -> Callable[[list[str]], str]:
    """NULL if one of the arguments is; DuckDB leaves NULLs out."""

    def render(arguments: list[str]) -> str:
        tests = " OR ".join(f"({a}) IS NULL" for a in arguments)
        return f"CASE WHEN {tests} THEN NULL ELSE {call}({', '.join(arguments)}) END"

    return render


def _log(arguments: list[str]) -> str:
    """Of base 1 it is infinite: ln(1) is 0."""
    if len(arguments) == 1:
        return f"ln({arguments[0]})"
    base, n = f"ln({arguments[0]})", f"ln({arguments[1]})"
    return f"(CASE WHEN {base} = 0 THEN {n} * CAST('inf' AS DOUBLE) ELSE {n} / {base} END)"


def _power(arguments: list[str]) -> str:
    """NaN to or of which power is NaN, and 1 to an infinite power, as in Java."""
    n, m = arguments
    if m.isdecimal():
        return f"power({n}, {m})"
    endless = f"abs(CAST({n} AS DOUBLE)) = 1 AND isinf(CAST({m} AS DOUBLE))"
    nan = f"isnan(CAST({m} AS DOUBLE)) OR ({endless})"
    return f"(CASE WHEN {nan} THEN ({n}) * CAST('nan' AS DOUBLE) ELSE power({n}, {m}) END)"


def _listagg(arguments: list[str]) -> str:
    return f"string_agg({arguments[0]}, {arguments[1] if len(arguments) == 2 else chr(39) + ',' + chr(39)})"


_NUMBERS: FunctionRows = (
    ("ABS(n)", "Without its sign."),
    ("CEIL(n)", "The next whole number above."),
    ("CEILING(n)", "The next whole number above.", "ceil({0})"),
    ("FLOOR(n)", "The next whole number below."),
    ("ROUND(n[, digits])", "Rounded, a half away from 0."),
    ("TRUNCATE(n[, digits])", "Cut off.", "trunc({*})"),
    ("SIGN(n)", "−1, 0 or 1."),
    ("SQRT(n)", "The square root."),
    ("POWER(n, m)", "n to the power of m.", _power),
    ("POW(n, m)", "n to the power of m.", _power),
    ("EXP(n)", "e to the power of n."),
    ("LN(n)", "The natural logarithm."),
    ("LOG([base, ]n)", "The logarithm of a base, else the natural one.", _log),
    ("LOG10(n)", "The logarithm of base 10."),
    ("LOG2(n)", "The logarithm of base 2."),
    ("MOD(n, m)", "What is left of a division.", "(({0}) % ({1}))"),
    ("PI()", "π."),
    ("E()", "e.", "exp(1)"),
    ("ATAN2(y, x)", "The angle of a point."),
    ("BIN(n)", "In binary."),
    ("BITCOUNT(n)", "How many bits are set.", "bit_count({0})"),
)
_ANGLES: FunctionRows = tuple(
    (f"{name}(n)", f"The {name.lower()} of a number.")
    for name in "SIN COS TAN COT ASIN ACOS ATAN SINH COSH TANH DEGREES RADIANS".split()
)
_CHOICES: FunctionRows = (
    ("COALESCE(a, …)", "The first that is not NULL."),
    ("IFNULL(a, b)", "b where a is NULL.", "coalesce({0}, {1})"),
    ("NVL(a, b)", "b where a is NULL.", "coalesce({0}, {1})"),
    ("NVL2(a, b, c)", "b where a is not NULL, else c.", "CASE WHEN ({0}) IS NOT NULL THEN {1} ELSE {2} END"),
    ("NULLIF(a, b)", "NULL where a = b, else a."),
    ("IF(condition, a, b)", "a where the condition is true, else b.", "CASE WHEN {0} THEN {1} ELSE {2} END"),
    ("GREATEST(a, …)", "The greatest; NULL if one is NULL.", _any_null("greatest")),
    ("LEAST(a, …)", "The least; NULL if one is NULL.", _any_null("least")),
    ("TYPEOF(a)", "The name of its type."),
)
_AGGREGATES: FunctionRows = (
    ("COUNT([a])", "How many rows, or values that are not NULL."),
    ("SUM(a)", "The sum of the values, of their type: whole numbers wrap, decimals have 38 digits."),
    ("AVG(a)", "The mean, of the type of the values: of whole numbers it is cut."),
    ("MIN(a)", "The least."),
    ("MAX(a)", "The greatest."),
    ("STDDEV(a)", "The standard deviation of a sample, of the type of the values."),
    ("STDDEV_SAMP(a)", "The standard deviation of a sample, of the type of the values."),
    ("STDDEV_POP(a)", "The standard deviation of all, of the type of the values."),
    ("VARIANCE(a)", "The variance of a sample, of the type of the values."),
    ("VAR_SAMP(a)", "The variance of a sample, of the type of the values."),
    ("VAR_POP(a)", "The variance of all, of the type of the values."),
    ("CORR(a, b)", "The correlation."),
    ("COVAR_POP(a, b)", "The covariance of all."),
    ("COVAR_SAMP(a, b)", "The covariance of a sample."),
    ("LISTAGG(text[, separator])", "The texts joined, by a comma or another separator.", _listagg),
    ("STRING_AGG(text[, separator])", "The texts joined, by a comma or another separator.", _listagg),
    ("COLLECT_LIST(a)", "The values as an array.", "list({0})"),
    ("ARRAY_AGG(a)", "The values as an array.", "list({0})"),
    ("APPROX_COUNT_DISTINCT(a)", "About how many different values."),
    ("MEDIAN(a)", "The median."),
    ("MODE(a)", "The most frequent value."),
    ("COLLECT(a)", "The values and how often each is there.", "histogram({0})"),
    (
        "PERCENTILE(a, share)",
        "The value at a share of all, between two by interpolation.",
        "quantile_cont(CAST({0} AS DOUBLE), {1})",
    ),
    (
        "GROUPING(a, …)",
        "1 where a row is of all values of a, else 0; of several columns their bits.",
        "grouping({*})",
    ),
    ("GROUPING_ID(a, …)", "The bits of GROUPING of each column.", "grouping({*})"),
    ("BOOL_AND(a)", "Whether all are true."),
    ("BOOL_OR(a)", "Whether one is true."),
    ("EVERY(a)", "Whether all are true.", "bool_and({0})"),
    ("ANY_VALUE(a)", "Some value."),
    ("MAX_BY(a, b)", "a of the row with the greatest b."),
    ("MIN_BY(a, b)", "a of the row with the least b."),
)
_WINDOWS: FunctionRows = (
    ("ROW_NUMBER()", "The number of the row, from 1."),
    ("RANK()", "The rank, with gaps behind ties."),
    ("DENSE_RANK()", "The rank without gaps."),
    ("PERCENT_RANK()", "The rank as a share."),
    ("CUME_DIST()", "The share of rows up to this one."),
    ("NTILE(n)", "Which of n equal parts."),
    ("LAG(a[, n, otherwise])", "a of the row n before."),
    ("LEAD(a[, n, otherwise])", "a of the row n behind."),
    ("FIRST_VALUE(a)", "a of the first row."),
    ("LAST_VALUE(a)", "a of the last row."),
    ("NTH_VALUE(a, n)", "a of row n."),
)


def _family(rows: FunctionRows, kind: str = "scalar", *, steady: bool = True) -> list[Function]:
    return [Function(r[0], r[1], r[2] if len(r) == 3 else "", kind, steady) for r in rows]


_ALL = (
    *(one for rows in (TEXT, JSON, TIMES, _NUMBERS, _ANGLES, _CHOICES, NESTED) for one in _family(rows)),
    *_family(NOW, steady=False),
    *_family((*_AGGREGATES, *JSON_AGGREGATES), "aggregate"),
    *_family(_WINDOWS, "window"),
)
FUNCTIONS: Mapping[str, Function] = MappingProxyType({one.name: one for one in _ALL})
"""Every function by its name in capitals."""
