"""Evaluation of bound predicates: which rows they select, and whether statistics admit any.

`mask` gives exact answers over rows; `may_match` is False only if no row within the bounds of
statistics can be selected. NULL is never selected, NaN equals itself and is greater than every number. Pure.
Used by scans (pruning, filtering) and by Parquet files (row groups).
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.predicates import like, literal
from tablestore.format.predicates.predicate import (
    Always,
    And,
    Compare,
    Comparison,
    Compound,
    In,
    IsNull,
    Leaf,
    Like,
    Or,
    Predicate,
    StartsWith,
)
from tablestore.format.stats import ColumnStats

_ARROW = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLOATS = ("FLOAT", "DOUBLE")
_UNKNOWN = ColumnStats(None, None, None, 0)


def mask(p: Predicate, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray | pa.ChunkedArray:
    """Which rows a bound predicate selects; never null."""
    return pc.fill_null(_evaluate(p, batch), False)


def _evaluate(p: Predicate, batch: pa.RecordBatch | pa.Table) -> Any:
    """The result of a predicate on each row; null where unknown."""
    if isinstance(p, Always):
        return _constant(p.value, batch.num_rows)
    if isinstance(p, Compound):
        join = pc.and_kleene if isinstance(p, And) else pc.or_kleene
        result = _evaluate(p.terms[0], batch)
        for term in p.terms[1:]:
            result = join(result, _evaluate(term, batch))
        return result
    assert isinstance(p, Leaf)
    values = batch.column(p.column)
    if isinstance(p, IsNull):
        return pc.is_valid(values) if p.inverse else pc.is_null(values)
    assert isinstance(p, Comparison)
    if isinstance(p, StartsWith):
        return _starts(p, values)
    if isinstance(p, Like):
        matches = like.matches(values, p.pattern)
        return pc.invert(matches) if p.inverse else matches
    if p.bound_type.root in _FLOATS:
        return _floats(p, values)
    if isinstance(p, Compare):
        return _ARROW[p.op](values, literal.scalar(p.value, p.bound_type))
    assert isinstance(p, In)
    return _in(p, values, p.values)


def _constant(value: bool, rows: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), rows)


def _in(p: In, values: Any, wanted: tuple[Any, ...]) -> Any:
    within = pc.is_in(values, value_set=literal.array(wanted, p.bound_type))
    return pc.and_kleene(pc.invert(within), pc.is_valid(values)) if p.inverse else within


def _starts(p: StartsWith, values: Any) -> Any:
    if p.bound_type.is_string:
        starts = pc.starts_with(values, pattern=p.prefix)
    else:  # Arrow matches prefixes of text only
        starts = pc.equal(pc.binary_slice(values, 0, len(p.prefix)), pa.scalar(p.prefix))
    return pc.invert(starts) if p.inverse else starts


def _floats(p: Leaf, values: Any) -> Any:
    """Comparisons in the order in which NaN equals itself and is above every number; Arrow's follow IEEE."""
    nan = pc.is_nan(values)
    if isinstance(p, In):
        wanted = tuple(v for v in p.values if not math.isnan(v))
        zeros = (
            (0.0, -0.0) if 0.0 in wanted else ()
        )  # in Arrow's sets the two zeros differ, in comparisons they are equal
        positive = replace(p, inverse=False)
        selected = _in(positive, values, wanted + zeros)
        selected = pc.or_kleene(selected, nan) if len(wanted) < len(p.values) else selected
        return pc.and_kleene(pc.invert(selected), pc.is_valid(values)) if p.inverse else selected
    assert isinstance(p, Compare)
    if math.isnan(p.value):
        if p.op in ("=", ">="):
            return nan
        if p.op in ("!=", "<"):
            return pc.invert(nan)
        return pc.is_valid(values) if p.op == "<=" else _constant(False, len(values))
    selected = _ARROW[p.op](values, literal.scalar(p.value, p.bound_type))
    return pc.or_kleene(selected, nan) if p.op in (">", ">=") else selected


def may_match(p: Predicate, stats: Mapping[str, ColumnStats]) -> bool:
    """False only if no row within these statistics can be selected; columns without any may hold anything."""
    if isinstance(p, Always):
        return p.value
    if isinstance(p, And):
        return all(may_match(t, stats) for t in p.terms)
    if isinstance(p, Or):
        return any(may_match(t, stats) for t in p.terms)
    assert isinstance(p, Leaf)
    column_stats = stats.get(p.column, _UNKNOWN)
    if isinstance(p, IsNull):
        return not column_stats.all_null if p.inverse else column_stats.null_count != 0
    if column_stats.all_null or (isinstance(p, In) and not p.inverse and not p.values):
        return False
    low, high = _bound_or_none(column_stats.min), _bound_or_none(column_stats.max)
    if isinstance(p, StartsWith):
        return _may_start(p, low, high)
    if isinstance(p, Like):
        return p.inverse or _may_start(p.begins, low, high)
    assert isinstance(p, (Compare, In))
    assert p.type is not None, "bind the predicate first"
    wide = p.type.root in _FLOATS  # NaN may be there though no bound says so
    if isinstance(p, Compare):
        return _may_compare(p.op, p.value, low, high, nan_possible=wide)
    if p.inverse:
        return wide or low is None or low != high or low not in p.values
    return _may_hold_one(p.values, low, high)


def _bound_or_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _may_hold_one(values: tuple[Any, ...], low: Any, high: Any) -> bool:
    """Whether one of the sorted values lies within the bounds (or is NaN, which no bound shows)."""
    at = 0 if low is None else bisect_left(values, low)
    return at < len(values) and (high is None or values[at] <= high or _bound_or_none(values[-1]) is None)


def _may_compare(op: str, value: Any, low: Any, high: Any, *, nan_possible: bool) -> bool:
    if isinstance(value, float) and math.isnan(value):
        return op != ">"
    if op == "!=":
        return nan_possible or low is None or low != high or low != value
    if op in ("<", "<="):
        return low is None or _ORDER[op](low, value)
    if op in (">", ">="):
        return nan_possible or high is None or _ORDER[op](high, value)
    return (low is None or low <= value) and (high is None or high >= value)


def _may_start(p: StartsWith, low: Any, high: Any) -> bool:
    n = len(p.prefix)
    if p.inverse:  # every string between two that share a prefix has it too
        return low is None or high is None or low[:n] != p.prefix or high[:n] != p.prefix
    return (low is None or low[:n] <= p.prefix) and (high is None or high >= p.prefix)
