"""Bars as SVG, one a row, the greatest at the top.

Invariants: the axis is that of all groups, so a longer bar is a greater number also after paging; each bar is
a group of its own, named by its label, so that a page can move it to its next place. Pure: model → `Figure`.
"""

from __future__ import annotations

from widgets.bars.model import BarsModel
from widgets.kit.svg import Figure, fit, group, line, num, rect, text
from widgets.kit.theme import var

MARGIN, LABELS, NUMBERS, ROW, BAR, TOP = 16, 150, 72, 22, 14, 12


def bars_figure(model: BarsModel, *, index: int, width: float) -> Figure:
    """The bars of one group."""
    some = model.bars[index] if 0 <= index < len(model.bars) else ()
    if not some:
        note = text(MARGIN, 40, "no rows yet", fill="ink3")
        return Figure(width, 64, note, f"{model.value}: no rows", {"index": index, "groups": []})
    left, room = MARGIN + LABELS, width - 2 * MARGIN - LABELS - NUMBERS
    span = (model.high - model.low) or 1.0
    zero = left + room * -model.low / span
    bottom = TOP + ROW * len(some)
    parts = [line(zero, TOP, zero, bottom, stroke="line2")]
    for place, bar in enumerate(some):
        long = room * abs(bar.value) / span
        start, end = (zero, zero + long) if bar.value >= 0 else (zero - long, zero)
        name = fit("NULL" if bar.label is None else bar.label, LABELS - 10)
        drawn = [
            text(left - 8, 15, name, text_anchor="end", fill="ink3" if bar.label is None else "ink"),
            rect(
                start,
                4,
                max(end - start, 1),
                BAR,
                rx=1,
                fill=var("l4" if bar.value >= 0 else "dele"),
                class_="bar",
            ),
            text(end + 6 if bar.value >= 0 else zero + 6, 15, bar.shown, class_="number"),
        ]
        y = TOP + ROW * place
        attributes = {"data_name": bar.label or "", "data_y": str(y)}
        parts.append(group(*drawn, transform=f"translate(0 {num(y)})", class_="row", **attributes))
    if model.hidden[index]:
        bottom += ROW
        parts.append(text(left, bottom - 6, f"… {model.hidden[index]} more", fill="ink3"))
    first = some[0]
    label = f"{model.value} by {model.label}"
    label += f", {model.group_text(index)}" if model.group else ""
    label += f": {len(some)} bars, the greatest {first.label or 'NULL'} with {first.shown}"
    return Figure(width, bottom + 12, "".join(parts), label, {"index": index, "groups": list(model.groups)})
