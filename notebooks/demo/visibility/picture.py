"""The outcomes of the visibility lab as strips below each other: how late each batch reached the reader.

Invariants: all strips share both axes, batches from left to right in the order in which they were written and
milliseconds upwards by powers of ten, so a higher dot is a later row in any strip. Pure: values → `Figure`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from notebooks.demo.visibility.outcome import Load, VisibilityOutcome
from widgets.kit import format as fmt
from widgets.kit.static import image
from widgets.kit.svg import Figure, fit, line, num, path, standalone, tag, text, text_width
from widgets.kit.theme import TOKENS, var

MARGIN, AXIS, HEAD, STRIP, GAP, FOOT = 16.0, 56.0, 30.0, 76.0, 18.0, 62.0
_DOT, _RING = 2.6, 4.2
_Place = Callable[[float], float]


def picture(load: Load, outcomes: Sequence[VisibilityOutcome], *, width: float) -> Figure:
    """A strip for each outcome, and what its marks mean."""
    waits = [d.milliseconds for o in outcomes for d in o.deliveries]
    low, high = _powers(waits)
    left, right = MARGIN + AXIS, width - MARGIN
    parts, y = list[str](), 8.0

    def across(batch: float) -> float:
        return left + (right - left) * (batch + 0.5) / load.batches

    def down(top: float, milliseconds: float) -> float:
        share = (math.log10(max(milliseconds, 10.0**low)) - low) / (high - low)
        return top + STRIP * (1 - min(share, 1.0))

    for outcome in outcomes:
        parts.append(_heading(outcome, y, width))
        top = y + HEAD
        parts += [_grid(low, high, top, (left, right)), _moments(load, across, top)]
        parts += [_dots(outcome, across, partial(down, top))]
        y = top + STRIP + GAP
    parts.append(_axis(load, across, y - GAP))
    parts.append(_legend(y + 20, left))
    label = "How late each batch reached the reader: " + "; ".join(str(o) for o in outcomes)
    return Figure(width, y + FOOT - GAP, "".join(parts), label)


def themed(figure: Figure, *, alt: str) -> str:
    """The picture for a notebook, in the light or the dark of its page; light where style sheets are cut."""
    light, dark = (image(standalone(figure, theme=theme), alt=alt) for theme in TOKENS)
    rules = (
        ".lab-dark{display:none}"
        'body[data-jp-theme-light="false"] .lab-light{display:none}'
        'body[data-jp-theme-light="false"] .lab-dark{display:block!important}'
    )
    hidden = f'<div class="lab-dark" style="display:none">{dark}</div>'
    return f'<style>{rules}</style><div class="lab-light">{light}</div>{hidden}'


def _powers(waits: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around all of them, at least one apart."""
    positive = [wait for wait in waits if wait > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    return min(low, 0), max(high, low + 1, 1)


def _heading(outcome: VisibilityOutcome, y: float, width: float) -> str:
    """The name of a design, and its figures."""
    name = f"{outcome.number}  {outcome.design}"
    after = MARGIN + text_width(name, size=13, weight=600) + 12
    parts = [
        f"p50 {outcome.quantile(0.5):,.1f} ms",
        f"p99 {outcome.quantile(0.99):,.1f} ms",
        fmt.plural(outcome.data_files, "data file"),
        fmt.plural(outcome.doubles, "double") if outcome.doubles else "no doubles",
    ]
    parts += [f"{outcome.taken_back:,} taken back"] if outcome.taken_back else []
    parts += [f"{outcome.never:,} never seen"] if outcome.never else []
    figures = fit(" · ".join(parts), width - MARGIN - after)
    return text(MARGIN, y + 16, name, size=13, fill="ink", weight=600) + text(after, y + 16, figures)


def _grid(low: int, high: int, top: float, ends: tuple[float, float]) -> str:
    """A line for each power of ten."""
    parts = []
    for power in range(low, high + 1):
        y = top + STRIP * (1 - (power - low) / (high - low))
        parts.append(line(ends[0], y, ends[1], y, stroke="line2" if power == low else "line"))
        words = f"{10.0**power:,g} ms" if power < 3 else f"{10 ** (power - 3):,} s"
        parts.append(text(ends[0] - 8, y + 4, words, size=11, text_anchor="end"))
    return "".join(parts)


def _moments(load: Load, across: _Place, top: float) -> str:
    """Checkpoints, and where the writer is lost."""
    parts = []
    for batches in load.checkpoints():
        x = across(batches.stop - 0.5)
        if batches.stop < load.batches:
            parts.append(line(x, top, x, top + STRIP, stroke="line2", stroke_dasharray="2 3"))
    if 0 < load.crash < load.batches:
        x = across(load.crash - 0.5)
        parts.append(line(x, top - 6, x, top + STRIP, stroke="err", stroke_width="1.5"))
        parts.append(text(x + 5, top + 4, "crash", size=11, fill="err"))
    return "".join(parts)


def _dots(outcome: VisibilityOutcome, across: _Place, down: _Place) -> str:
    """A dot for each batch that came, a ring for each that came again."""
    first: dict[int, float] = {}
    again: dict[int, float] = {}
    for delivery in outcome.deliveries:
        longest = again if delivery.again else first
        longest[delivery.batch] = max(longest.get(delivery.batch, 0.0), delivery.milliseconds)
    colour = {"fill": var("l4")}
    parts = [
        tag("circle", cx=float(across(at)), cy=float(down(ms)), r=_DOT, **colour) for at, ms in first.items()
    ]
    ring = {"fill": "none", "stroke": var("err"), "stroke_width": "1.75"}
    parts += [
        tag("circle", cx=float(across(at)), cy=float(down(ms)), r=_RING, **ring) for at, ms in again.items()
    ]
    return "".join(parts)


def _axis(load: Load, across: _Place, y: float) -> str:
    """Numbers of batches, as many as there is room for."""
    every = max(load.batches // 10, 1)
    ticks = range(0, load.batches, every)
    return "".join(text(across(at), y + 15, f"{at}", size=11, text_anchor="middle") for at in ticks)


def _legend(y: float, left: float) -> str:
    """What a dot, a ring and the lines are."""
    x, parts = left, [text(left, y + 12, "batch", size=11)]
    x += text_width("batch", size=11) + 22
    ring = {"fill": "none", "stroke": var("err"), "stroke_width": "1.75"}
    dashes = path([f"M{num(x + 330)} {num(y)}v14"], stroke=var("line2"), stroke_dasharray="2 3", fill="none")
    parts += [
        tag("circle", cx=x, cy=y + 8, r=_DOT, fill=var("l4")),
        text(x + 10, y + 12, "written → seen first"),
    ]
    parts += [
        tag("circle", cx=x + 160, cy=y + 8, r=_RING, **ring),
        text(x + 172, y + 12, "seen again: a double"),
    ]
    return "".join([*parts, dashes, text(x + 338, y + 12, "checkpoint")])
