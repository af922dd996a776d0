"""The functions of arrays, maps and rows."""

from __future__ import annotations

from tablestore.sql.query.function import Rows

NESTED: Rows = (
    ("CARDINALITY(array)", "How many elements."),
    ("SIZE(array)", "How many elements.", "cardinality({0})"),
    ("ELEMENT(array)", "Its only element.", "({0})[1]"),
    ("ARRAY_CONTAINS(array, a)", "Whether a is in it.", "list_contains({0}, {1})"),
    ("ARRAY_POSITION(array, a)", "Where a is, from 1; 0 if nowhere.", "coalesce(list_position({0}, {1}), 0)"),
    ("ARRAY_DISTINCT(array)", "Each element once.", "list_distinct({0})"),
    ("ARRAY_CONCAT(a, b)", "One array behind the other.", "list_concat({0}, {1})"),
    ("ARRAY_SORT(array)", "In order.", "list_sort({0})"),
    (
        "ARRAY_JOIN(array, separator)",
        "Its texts with a separator between them.",
        "list_aggregate({0}, 'string_agg', {1})",
    ),
    ("ARRAY_MAX(array)", "The greatest element.", "list_aggregate({0}, 'max')"),
    ("ARRAY_MIN(array)", "The least element.", "list_aggregate({0}, 'min')"),
    ("MAP_KEYS(map)", "Its keys."),
    ("MAP_VALUES(map)", "Its values."),
    ("ROW(a, …)", "A row of these values.", "row({*})"),
)
