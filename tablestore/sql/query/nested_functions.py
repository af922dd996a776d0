"""The functions of arrays, maps and rows."""

from __future__ import annotations

from tablestore.core.errors import InvalidRequest
from tablestore.sql.query.function import FunctionRows


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
