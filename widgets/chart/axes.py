"""Which columns of rows a chart shows, and how: what is asked for, completed by the types of the columns.

Pure: an Arrow schema and a request → `Axes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

import tablestore as ts

KINDS = ("bars", "lines", "histogram", "points")
HOW = ("sum", "mean", "min", "max", "count")
NUMBER, TIME, LABEL = "number", "time", "label"
MOST_SERIES = 4
"""Columns of numbers that are chosen where none is named."""


@dataclass(frozen=True, slots=True)
class Axes:
    """`y` are columns of numbers; without any the rows are counted. `how` says how the rows of one `x` become
    a number; it is empty for histograms and points, which show rows."""

    kind: str
    x: str
    y: tuple[str, ...]
    how: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody asks of a chart; None is up to the types of the columns."""

    x: str | None = None
    y: str | Sequence[str] | None = None
    kind: str | None = None
    how: str | None = None


def sort_of(kind: pa.DataType) -> str:
    """`number`, `time` or `label`; empty for a type that no axis shows."""
    types = pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return NUMBER
    if types.is_date(kind) or types.is_timestamp(kind):
        return TIME
    if types.is_dictionary(kind):
        return LABEL if sort_of(kind.value_type) == LABEL else ""
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return LABEL if text or types.is_boolean(kind) or types.is_time(kind) else ""


def axes_of(schema: pa.Schema, asked: Asked) -> Axes:
    """The axes that are asked for. Raises NotFound for a column that there is not, InvalidRequest for columns
    that do not fit the kind, each with what fits."""
    x, y, kind, how = asked.x, asked.y, asked.kind, asked.how
    _require(kind, KINDS, "kind")
    _require(how, HOW, "how")
    sorts = {field.name: sort_of(field.type) for field in schema}
    wanted = None if y is None else ((y,) if isinstance(y, str) else tuple(y))
    for name in (*([x] if x is not None else ()), *(wanted or ())):
        if name not in sorts:
            raise ts.NotFound.among("column", name, schema.names)
    for name in wanted or ():
        if sorts[name] != NUMBER:
            raise ts.InvalidRequest(f"y: column {name!r} has no numbers, it is {schema.field(name).type}")
    if x is not None and not sorts[x]:
        raise ts.InvalidRequest(
            f"x: column {x!r} is {schema.field(x).type}, and an axis shows numbers, times or text"
        )
    return _fitting(sorts, x, wanted, kind, how)


def _require(asked: str | None, allowed: tuple[str, ...], what: str) -> None:
    if asked is not None and asked not in allowed:
        raise ts.InvalidRequest(f"{what} {asked!r}: use one of {', '.join(allowed)}")


def _fitting(
    sorts: dict[str, str], x: str | None, y: tuple[str, ...] | None, kind: str | None, how: str | None
) -> Axes:
    alone = x is not None and y is None and kind != "points"
    numbers = [name for name, sort in sorts.items() if sort == NUMBER and name != x]
    chosen = x if x is not None else _first(sorts, kind, y or ())
    if y is None and not alone and kind != "histogram" and how != "count":
        y = tuple(name for name in numbers if name != chosen)[:MOST_SERIES]
    y = y or ()
    ordered = sorts[chosen] != LABEL
    if kind is None:
        kind = ("lines" if y or how else "histogram") if ordered else "bars"
    if kind in ("lines", "histogram", "points") and not ordered:
        raise ts.InvalidRequest(
            f"{kind} stand over numbers or times, and column {chosen!r} has text: use bars"
        )
    if kind == "histogram" and y:
        raise ts.InvalidRequest(f"a histogram counts the rows of x = {chosen!r}: it takes no y")
    if kind == "points" and not y:
        raise ts.InvalidRequest("points need y, a column of numbers")
    if kind in ("histogram", "points"):
        if how is not None:
            raise ts.InvalidRequest(f"how = {how!r} is for bars and lines: {kind} show rows as they are")
        return Axes(kind, chosen, y, "")
    if not y and how not in (None, "count"):
        raise ts.InvalidRequest(f"how = {how!r} needs y, a column of numbers")
    if how == "count":
        y = ()
    return Axes(kind, chosen, y, (how or ("sum" if kind == "bars" else "mean")) if y else "count")


def _first(sorts: dict[str, str], kind: str | None, taken: Sequence[str]) -> str:
    """The first column of times, else of text, else of numbers: the last first for a histogram."""
    orders = {
        "histogram": (NUMBER, TIME),
        "points": (NUMBER, TIME),
        "lines": (TIME, NUMBER),
        "bars": (LABEL, TIME),
    }
    wanted = orders.get(kind or "", (TIME, LABEL, NUMBER))
    for sort in (*wanted, TIME, LABEL, NUMBER):
        for name, other in sorts.items():
            if other == sort and name not in taken:
                return name
    listed = ", ".join(sorts) or "none"
    raise ts.InvalidRequest(f"no column for x: an axis shows numbers, times or text, and there are {listed}")
