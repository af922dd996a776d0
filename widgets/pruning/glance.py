"""Columns at a glance: of each its type, NULLs, distinct values, bounds, and bars whose click is a condition.

Counts, bounds and spreads are the engine's (`explain().columns()`), from the metadata of files; rows that are
still to be merged count. A bar stands for the values of its part that there can be: its condition is SQL
text. Bounds: `MOST_COLUMNS` columns. Pure. Called by `widget`.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import pyarrow as pa

from widgets.kit import format as fmt

MOST_COLUMNS = 12
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def glances(facts: pa.Table, notes: Mapping[str, str]) -> list[dict[str, Any]]:
    """What the page shows of each column; `notes` say which are keys and partition columns."""
    return [_glance(fact, notes.get(fact["column"], "")) for fact in facts.to_pylist()]


def _glance(column: Mapping[str, Any], note: str) -> dict[str, Any]:
    name, kind = quoted(column["column"]), column["type"].split(" ")[0].split("(")[0]
    nulls = column["nulls"]
    return {
        "name": column["column"],
        "type": column["type"].lower() + (f", {note}" if note else ""),
        "nulls": [fmt.plural(nulls, "NULL"), f"{name} IS NULL"] if nulls else [],
        "distinct": _distinct(column),
        "ends": [_bound(kind, column[end]) for end in ("min", "max")],
        "bars": _bars(name, kind, column) if column["spread"] else [],
    }


def _bound(kind: str, value: Any) -> str:
    """The least or the largest value; of a number with a fraction four digits."""
    if value is None:
        return "–"
    return f"{float(value):.4g}" if kind in ("FLOAT", "DOUBLE") else str(fmt.value(value))


def _distinct(column: Mapping[str, Any]) -> str:
    if column["distinct"] is not None:
        return f"≈ {column['distinct']:,} distinct"
    return f"≤ {column['distinct_most']:,} distinct" if column["distinct_most"] is not None else ""


def _bars(name: str, kind: str, column: Mapping[str, Any]) -> list[list[Any]]:
    """[height from 0 to 1, words, condition] of each part; no condition where no value lies in it."""
    spread, most = column["spread"], max(column["spread"])
    if most <= 0:
        return []
    conditions = _conditions(name, kind, column["min"], column["max"], len(spread))
    return [
        [round(rows / most, 3), f"{text or 'no value'}: about {rows:,.0f} rows", text]
        for rows, text in zip(spread, conditions, strict=True)
    ]


def _conditions(name: str, kind: str, least: str, most: str, parts: int) -> Iterable[str]:
    """A condition a part of equal width between the bounds, the last with the upper bound."""
    if kind == "DATE":
        low, high = (date.fromisoformat(text).toordinal() for text in (least, most))
        return [_whole(name, ends, _day) for ends in _whole_parts(low, high, parts)]
    if kind in _WHOLE:
        return [_whole(name, ends, str) for ends in _whole_parts(int(least), int(most), parts)]
    start, end = float(least), float(most)
    edges = [start + (end - start) * i / parts for i in range(parts)] + [end]
    below = ["<"] * (parts - 1) + ["<="]
    return [f"{name} >= {edges[i]!r} AND {name} {below[i]} {edges[i + 1]!r}" for i in range(parts)]


def _whole_parts(low: int, high: int, parts: int) -> list[tuple[int, int]]:
    """First and last whole number of each part; the last is below the first where there is none."""
    edges = [low - (low - high) * i // parts for i in range(parts)]  # rounded up
    return [(edges[i], edges[i + 1] - 1 if i + 1 < parts else high) for i in range(parts)]


def _whole(name: str, ends: tuple[int, int], show: Any) -> str:
    low, high = ends
    if high < low:
        return ""
    return f"{name} = {show(low)}" if low == high else f"{name} BETWEEN {show(low)} AND {show(high)}"


def _day(ordinal: int) -> str:
    return f"'{date.fromordinal(ordinal).isoformat()}'"


def quoted(name: str) -> str:
    """A column's name as a condition takes it."""
    plain = name.isascii() and name.isidentifier()
    return name if plain else '"' + name.replace('"', '""') + '"'
