"""Rows of a query as bars: one a label, in groups to page through. Pure: Arrow → values and the text form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

import tablestore as ts
from widgets.kit import format as fmt

MOST = 40  # bars of a group that are shown, the greatest
_TEXT_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Bar:
    """One row: `label` is None for NULL."""

    label: str | None
    value: float
    shown: str


@dataclass(frozen=True, slots=True)
class BarsModel:
    """`groups` in their order, and the bars of each, the greatest first. `low` and `high` are those of all
    groups, 0 among them, so that groups can be compared."""

    title: str
    label: str
    value: str
    group: str
    groups: tuple[str, ...]
    bars: tuple[tuple[Bar, ...], ...]
    hidden: tuple[int, ...]
    low: float
    high: float

    def group_text(self, index: int) -> str:
        """`o_year 1995`; empty without groups."""
        return f"{self.group} {self.groups[index]}" if self.group and 0 <= index < len(self.groups) else ""


def bars_model(rows: pa.Table, *, label: str, value: str, group: str = "", title: str = "") -> BarsModel:
    """The bars of rows. Raises NotFound for a column that there is not, InvalidRequest for values that are no
    numbers; rows without a value are left out."""
    for name in (label, value, *([group] if group else [])):
        if name not in rows.schema.names:
            raise ts.NotFound.among("column", name, rows.schema.names)
    kind = rows.schema.field(value).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise ts.InvalidRequest(f"column {value!r} has no numbers: it is {kind}")
    keys = rows[group].to_pylist() if group else [None] * len(rows)
    by_group: dict[object, list[Bar]] = {}
    for key, name, number in zip(keys, rows[label].to_pylist(), rows[value].to_pylist(), strict=True):
        if number is not None and math.isfinite(number):
            by_group.setdefault(key, []).append(Bar(fmt.value(name), float(number), _shown(float(number))))
    order = sorted(by_group, key=lambda key: (key is None, key)) if group else list(by_group)
    bars = [sorted(by_group[key], key=lambda bar: (-bar.value, bar.label or "")) for key in order]
    numbers = [bar.value for some in bars for bar in some]
    return BarsModel(
        title,
        label,
        value,
        group,
        tuple(fmt.value(key) or "NULL" for key in order) if group else ("",) * len(order),
        tuple(tuple(some[:MOST]) for some in bars),
        tuple(max(len(some) - MOST, 0) for some in bars),
        min([0.0, *numbers]),
        max([0.0, *numbers]),
    )


def _shown(value: float) -> str:
    """`40.8 M`; a small number with its fraction."""
    whole = abs(value) >= 100 or value == round(value)
    return fmt.short_count(value) if whole else f"{value:.3g}".replace("-", fmt.MINUS)


def text_form(model: BarsModel, index: int) -> str:
    """The bars of a group in a terminal."""
    head = " · ".join(part for part in (model.title, model.value, model.group_text(index)) if part)
    if not 0 <= index < len(model.bars):
        return f"{head}: no rows"
    some: Sequence[Bar] = model.bars[index]
    wide = max(len(bar.label or "NULL") for bar in some)
    most = max(abs(model.low), abs(model.high)) or 1.0
    lines = [
        f"{bar.label or 'NULL':<{wide}} {'█' * round(abs(bar.value) / most * _TEXT_WIDTH)} {bar.shown}"
        for bar in some
    ]
    more = [f"… {model.hidden[index]} more"] if model.hidden[index] else []
    return "\n".join([head, *lines, *more])
