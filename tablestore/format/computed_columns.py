"""Computed columns and watermarks of a table: engines keep them among its options, beside the stored columns.

    schema.<n>.name, .expr, .data-type, .comment      a column that is computed from others when it is read
    schema.watermark.0.rowtime, .strategy.expr, .strategy.data-type

`n` is the position among all columns, stored and computed, from 0 (FORMAT.md 2.6). Expressions are the text
of whoever made the table; nothing here computes them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_PREFIX = "schema."
_WATERMARK = "schema.watermark.0."
_PARTS = ("name", "expr", "data-type", "comment")


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column that is not stored. `position` counts all columns, `type` is the text of its type."""

    name: str
    expression: str
    type: str
    position: int
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far event time has come: `expression` over the column of event times; `type` is the text of its
    type."""

    column: str
    expression: str
    type: str = ""


def computed_columns(options: Mapping[str, str], stored: Iterable[str]) -> tuple[ComputedColumn, ...]:
    """The computed columns that options describe, by position; `stored` are names of stored columns, which
    old tables list in the same way."""
    stored_names, columns = set(stored), []
    for key, name in options.items():
        n = key.removeprefix(_PREFIX).removesuffix(".name")
        if key != f"{_PREFIX}{n}.name" or not (n.isascii() and n.isdecimal()) or name in stored_names:
            continue
        expression = options.get(f"{_PREFIX}{n}.expr")
        if expression is not None:
            t, comment = options.get(f"{_PREFIX}{n}.data-type", ""), options.get(f"{_PREFIX}{n}.comment")
            columns.append(ComputedColumn(name, expression, t, int(n), comment))
    return tuple(sorted(columns, key=lambda c: c.position))


def watermark(options: Mapping[str, str]) -> Watermark | None:
    """The watermark that options describe, None if there is none."""
    column, expression = options.get(f"{_WATERMARK}rowtime"), options.get(f"{_WATERMARK}strategy.expr")
    if column is None or expression is None:
        return None
    return Watermark(column, expression, options.get(f"{_WATERMARK}strategy.data-type", ""))


def as_options(computed: Iterable[ComputedColumn], mark: Watermark | None) -> dict[str, str]:
    """The options that describe these."""
    options: dict[str, str] = {}
    for c in computed:
        for part, value in zip(_PARTS, (c.name, c.expression, c.type, c.comment), strict=True):
            if value is not None:
                options[f"{_PREFIX}{c.position}.{part}"] = value
    if mark is not None:
        options[f"{_WATERMARK}rowtime"] = mark.column
        options[f"{_WATERMARK}strategy.expr"] = mark.expression
        options[f"{_WATERMARK}strategy.data-type"] = mark.type
    return options


def other_options(options: Mapping[str, str], stored: Sequence[str]) -> dict[str, str]:
    """The options but for those of computed columns and the watermark.

    A comment that stands alone belongs to nothing (Java leaves some behind when columns move): it goes, too.
    """
    own = as_options(computed_columns(options, stored), watermark(options))
    positions = {key.split(".")[1] for key in options if key.startswith(_PREFIX)}
    alone = {f"{_PREFIX}{n}.comment" for n in positions if f"{_PREFIX}{n}.name" not in options}
    return {k: v for k, v in options.items() if k not in own and k not in alone}


def in_order(stored: Sequence[str], computed: Iterable[ComputedColumn]) -> list[str]:
    """Names of all columns, each computed one at its position (the last ones where that lies behind)."""
    names = list(stored)
    for c in computed:
        names.insert(c.position, c.name)
    return names
