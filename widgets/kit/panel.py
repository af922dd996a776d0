"""What stands at the head of a panel: numbers with their names and remarks, and in red what has failed.

Invariants: numbers keep their order and places; one too long for its column is drawn smaller, then cut.
Pure. Called by the figures of views that follow work: captures, tiering, ingests, logs.
"""

from collections.abc import Sequence
from typing import NamedTuple

from widgets.kit.svg import code, fit, rect, text, text_width, wrap
from widgets.kit.theme import var

MARGIN, ROW = 16, 72


class ShownNumber(NamedTuple):
    """A number with what it counts and a remark below it."""

    name: str
    value: str
    remark: str
    colour: str = "ink"
    unit: str = ""


def number(shown: ShownNumber, x: float, y: float, room: float) -> str:
    """One number in a column that is `room` wide; its unit only where there is room."""
    size = 20 if text_width(shown.value, size=20, weight=600) <= room else 15
    value = fit(shown.value, room, size=size, weight=600)
    parts = [text(x, y + 22, shown.name, size=11)]
    parts.append(text(x, y + 46, value, size=size, fill=shown.colour, weight=600))
    after = x + text_width(value, size=size, weight=600) + 6
    if shown.unit and after + text_width(shown.unit) <= x + room:
        parts.append(text(after, y + 46, shown.unit))
    parts.append(text(x, y + 64, fit(shown.remark, room, size=11), size=11))
    return "".join(parts)


def numbers(shown: Sequence[ShownNumber], width: float, *, per_row: int) -> tuple[str, float]:
    """Numbers in rows, and where the rows end."""
    step = (width - 2 * MARGIN) / per_row
    parts = [
        number(each, MARGIN + at % per_row * step, at // per_row * ROW, step - 10)
        for at, each in enumerate(shown)
    ]
    return "".join(parts), (len(shown) - 1) // per_row * ROW + ROW + 4


def failure(heading: str, words: str, hint: str, y: float, width: float) -> tuple[str, float]:
    """What failed, in its own words, and the next step if there is a `hint`; and where the box ends."""
    rows = wrap(words, width - 2 * MARGIN - 30, size=11, monospace=True, lines=4)
    tall = 32 + 15 * len(rows) + (20 if hint else 0)
    parts = [rect(MARGIN, y, width - 2 * MARGIN, tall, rx=4, fill=var("err-tint"))]
    parts.append(rect(MARGIN, y, 3, tall, fill=var("err")))
    parts.append(text(MARGIN + 14, y + 20, f"✕ {heading}", fill="err", weight=600))
    parts += [code(MARGIN + 14, y + 38 + 15 * at, row) for at, row in enumerate(rows)]
    if hint:
        parts.append(text(MARGIN + 14, y + tall - 8, fit(hint, width - 60), fill="ink"))
    return "".join(parts), y + tall
