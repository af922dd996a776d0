"""Why statistics exclude every row of a predicate: the conjunct that is false and the values compared. Pure.

`refusal` calls `evaluate.may_match` for each conjunct, as pruning does, so its reason is the true one. Used
by `pruning` for files and by `row_group_plan` for row groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tablestore.format.predicates import evaluate, literal, predicate
from tablestore.format.predicates.predicate import (
    And,
    Compare,
    Comparison,
    In,
    IsNull,
    Leaf,
    Like,
    Or,
    Predicate,
    StartsWith,
)
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats
from tablestore.format.text import cast_text

Known = Mapping[str, ColumnStats]
_BELOW = {"=": "<", ">=": "<", ">": "≤"}  # of the maximum, where nothing can be selected
_ABOVE = {"=": ">", "<=": ">", "<": "≥"}  # of the minimum


@dataclass(frozen=True, slots=True)
class Refusal:
    """`part`, a bound conjunct, is true in no row within `stats`, the statistics of its columns."""

    part: Predicate
    stats: tuple[tuple[str, ColumnStats | None], ...]

    def text(self, schema: TableSchema) -> str:
        """`not k > 40: k is 1..12`."""
        return f"not {self.part!r}: " + "; ".join(_range_text(c, bounds, schema) for c, bounds in self.stats)

    def compared(self) -> str:
        """The comparison that failed: `max 812 < 40000`."""
        return _compared(self.part, {c: bounds for c, bounds in self.stats if bounds is not None})


def refusal(where: Predicate, statistics: Known) -> Refusal | None:
    """Why no row within these statistics can be selected; None if one may be."""
    for part in predicate.conjuncts(where):
        if not evaluate.may_match(part, statistics):
            return Refusal(part, tuple((c, statistics.get(c)) for c in sorted(part.columns)))
    return None


def bounds_text(stats: ColumnStats | None, column: str, schema: TableSchema) -> tuple[str | None, str | None]:
    """Minimum and maximum as text, None where they are not known."""
    if stats is None:
        return None, None
    kind = schema.by_name[column].type
    low, high = (None if v is None else cast_text(v, kind) for v in (stats.min, stats.max))
    return low, high


def _range_text(column: str, stats: ColumnStats | None, schema: TableSchema) -> str:
    if stats is None:
        return f"{column} may be anything"
    if stats.all_null:
        return f"{column} is NULL in all rows"
    low, high = ("…" if v is None else v for v in bounds_text(stats, column, schema))
    return f"{column} is {low}..{high}" if low != high else f"{column} is {low}"


def _compared(part: Predicate, statistics: Known) -> str:
    if isinstance(part, Or):
        return " and ".join(_compared(t, statistics) for t in part.terms)
    if isinstance(part, And):
        return next(_compared(t, statistics) for t in part.terms if not evaluate.may_match(t, statistics))
    if not isinstance(part, Leaf):
        return "nothing is asked for"
    bounds = statistics.get(part.column)
    if bounds is None:
        return "no value is asked for"
    if isinstance(part, IsNull):
        return f"NULL in all {bounds.rows:,} rows" if part.inverse else f"no NULL in {bounds.rows:,} rows"
    if bounds.all_null:
        return f"NULL in all {bounds.rows:,} rows"
    assert isinstance(part, Comparison)
    return _against(part, bounds.min, bounds.max)


def _against(part: Comparison, low: Any, high: Any) -> str:
    """The comparison of a value with the bounds that excludes every value between them."""
    if isinstance(part, Like):
        part = part.begins
    if isinstance(part, StartsWith):
        first, last = (literal.text(v, part.type) for v in (low, high))
        return (
            f"{first} … {last} all begin so" if part.inverse else f"{first} … {last} has none that begins so"
        )
    kind = part.type
    if isinstance(part, Compare):
        value = literal.text(part.value, kind)
        if part.op == "!=":
            return f"all are {value}"
        if part.op in _BELOW and high is not None and not _reaches(part.op, high, part.value):
            return f"max {literal.text(high, kind)} {_BELOW[part.op]} {value}"
        return f"min {literal.text(low, kind)} {_ABOVE[part.op]} {value}"
    assert isinstance(part, In)
    if part.inverse:
        return f"all are {literal.text(low, kind)}"
    if not part.values:
        return "no value is asked for"
    if high is not None and high < part.values[0]:
        return f"max {literal.text(high, kind)} < {literal.text(part.values[0], kind)}"
    if low is not None and low > part.values[-1]:
        return f"min {literal.text(low, kind)} > {literal.text(part.values[-1], kind)}"
    return f"none of {len(part.values):,} values in {literal.text(low, kind)} … {literal.text(high, kind)}"


def _reaches(op: str, high: Any, value: Any) -> bool:
    """Whether the maximum is large enough for the comparison."""
    return high > value if op == ">" else high >= value
