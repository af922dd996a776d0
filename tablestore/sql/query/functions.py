"""The functions that a query may use: what each means, and how DuckDB is asked for it.

The table is the allow-list: a name that is not here is refused before anything runs, so no query reaches a
function that reads files, settings or the environment. Meanings are those of Flink SQL where it has the
function, else of Spark. Those of texts, times and JSON are in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tablestore.core.errors import InvalidRequest
from tablestore.sql.query.function import Function, FunctionRows
from tablestore.sql.query.json_functions import JSON, JSON_AGGREGATES
from tablestore.sql.query.text_functions import TEXT
from tablestore.sql.query.time_functions import NOW, TIMES


def _distinct(array: str) -> str:
    """Each element where it stands first; NULL is an element."""
    null = f"list_position(list_transform({array}, lambda own_y: own_y IS NULL), TRUE)"
    first = f"coalesce(list_position({array}, own_x) = own_i, {null} = own_i)"
    return f"list_filter({array}, lambda own_x, own_i: {first})"


def _sorted(arguments: list[str]) -> str:
    array, *flags = arguments
    if any(flag.upper() not in ("TRUE", "FALSE") for flag in flags):
        raise InvalidRequest(
            "ARRAY_SORT says by TRUE or FALSE whether it ascends, and whether NULLs are first"
        )
    ascending = not flags or flags[0].upper() == "TRUE"
    nulls_first = flags[1].upper() == "TRUE" if len(flags) == 2 else ascending
    order, nulls = "ASC" if ascending else "DESC", "FIRST" if nulls_first else "LAST"
    return f"list_sort({array}, '{order}', 'NULLS {nulls}')"


def _joined(arguments: list[str]) -> str:
    array, separator, *null = arguments
    texts = (
        f"list_transform({array}, lambda own_x: coalesce(CAST(own_x AS VARCHAR), {null[0]}))"
        if null
        else array
    )
    return f"coalesce(array_to_string({texts}, {separator}), CASE WHEN ({array}) IS NOT NULL THEN '' END)"


def _slice(arguments: list[str]) -> str:
    array, start, *end = arguments
    begin = f"CASE WHEN {_from_end(array, start)} < 1 THEN 1 ELSE {_from_end(array, start)} END"
    return f"list_slice({array}, {begin}, {_from_end(array, end[0]) if end else f'len({array})'})"


def _from_end(array: str, place: str) -> str:
    behind = f"len({array}) + ({place}) + 1"
    return f"(CASE WHEN ({place}) < 0 THEN {behind} WHEN ({place}) = 0 THEN 1 ELSE {place} END)"


_UNLIKE = "list_filter({0}, lambda own_x: own_x IS DISTINCT FROM {1})"
_IN = "(list_contains({array}, own_x) OR (own_x IS NULL AND len({array}) > list_count({array})))"

NESTED: FunctionRows = (
    ("CARDINALITY(array)", "How many elements.", "CAST(cardinality({0}) AS INTEGER)"),
    ("SIZE(array)", "How many elements.", "CAST(cardinality({0}) AS INTEGER)"),
    (
        "ELEMENT(array)",
        "Its only element.",
        "CASE WHEN len({0}) > 1 THEN error('ELEMENT of an array with several elements') ELSE ({0})[1] END",
    ),
    (
        "ARRAY_CONTAINS(array, a)",
        "Whether a is in it.",
        "(CASE WHEN ({1}) IS NULL THEN len({0}) > list_count({0}) ELSE list_contains({0}, {1}) END)",
    ),
    (
        "ARRAY_POSITION(array, a)",
        "Where a is, from 1; 0 if nowhere.",
        "CAST(CASE WHEN ({0}) IS NOT NULL AND ({1}) IS NOT NULL "
        "THEN coalesce(list_position({0}, {1}), 0) END AS INTEGER)",
    ),
    ("ARRAY_DISTINCT(array)", "Each element once.", lambda a: _distinct(a[0])),
    ("ARRAY_CONCAT(a, …)", "One array behind the other.", "list_concat({*})"),
    ("ARRAY_APPEND(array, a)", "The array with an element behind.", "list_append({0}, {1})"),
    ("ARRAY_PREPEND(array, a)", "The array with an element before.", "list_prepend({1}, {0})"),
    ("ARRAY_REMOVE(array, a)", "The array without the elements that are a.", _UNLIKE),
    ("ARRAY_REVERSE(array)", "From the last element to the first.", "list_reverse({0})"),
    (
        "ARRAY_SLICE(array, start[, end])",
        "Elements from one place to another, counted from 1, or from the end below 0.",
        _slice,
    ),
    ("ARRAY_SORT(array[, ascending, nulls_first])", "In order; NULLs are the least.", _sorted),
    (
        "ARRAY_UNION(array, array)",
        "The elements of both, each once.",
        lambda a: _distinct(f"list_concat({a[0]}, {a[1]})"),
    ),
    (
        "ARRAY_INTERSECT(array, array)",
        "The elements that are in both, each once.",
        lambda a: _distinct(f"list_filter({a[0]}, lambda own_x: {_IN.format(array=a[1])})"),
    ),
    (
        "ARRAY_EXCEPT(array, array)",
        "The elements of the first that are not in the second, each once.",
        lambda a: _distinct(f"list_filter({a[0]}, lambda own_x: NOT {_IN.format(array=a[1])})"),
    ),
    (
        "ARRAY_JOIN(array, separator[, null])",
        "Its texts with a separator between them; NULLs left out, or as another text.",
        _joined,
    ),
    ("ARRAY_MAX(array)", "The greatest element.", "list_aggregate({0}, 'max')"),
    ("ARRAY_MIN(array)", "The least element.", "list_aggregate({0}, 'min')"),
    ("MAP_KEYS(map)", "Its keys."),
    ("MAP_VALUES(map)", "Its values."),
    ("MAP_ENTRIES(map)", "Its keys and values, as an array of rows."),
    ("MAP_FROM_ARRAYS(keys, values)", "A map of keys and their values.", "MAP({0}, {1})"),
    ("MAP_UNION(map, …)", "The entries of all; of equal keys the last.", "map_concat({*})"),
    ("ROW(a, …)", "A row of these values.", "row({*})"),
)


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
    *(f for rows in (TEXT, JSON, TIMES, _NUMBERS, _ANGLES, _CHOICES, NESTED) for f in _family(rows)),
    *_family(NOW, steady=False),
    *_family((*_AGGREGATES, *JSON_AGGREGATES), "aggregate"),
    *_family(_WINDOWS, "window"),
)
FUNCTIONS: Mapping[str, Function] = MappingProxyType({f.name: f for f in _ALL})
"""Every function by its name in capitals."""
