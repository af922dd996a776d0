"""A long history as density: bins of all commits, rare kinds as glyphs, names, a brush over the lens.

Kinds are stacked within a bin, never coloured by the rarest. Pure. Called by the figure.
"""

from widgets.kit.svg import line, num, path, rect, text, text_width
from widgets.kit.theme import var
from widgets.timeline.model import TimelineModel, bins
from widgets.timeline.strip import (
    BIN,
    COMMIT,
    GUTTER,
    MARGIN,
    columns,
    flags,
    gutter,
    names_of,
    rare,
    rounds,
)

TOP = 18
UP, DOWN = 24, 14
BASE = TOP + 4 + UP
UNDER = BASE + COMMIT
IDS = UNDER + DOWN + 15
LENS = IDS + 9
CURSOR = (TOP - 4, UNDER + DOWN + 2)
"""From where to where the cursor goes."""
GONE = 106
"""The room for what has expired."""


def left_of(model: TimelineModel) -> float:
    """Where the bins begin."""
    return float(MARGIN + GUTTER + (GONE if model.expired > model.kept else 0))


def density(model: TimelineModel, *, width: float, shown: tuple[int, int], tall: float) -> str:
    """All commits, and the panel of the lens (of height `tall`) that shows `shown` of them."""
    left, right = left_of(model), width - MARGIN
    binned = bins(model, int((right - left) // BIN))
    share = (right - left) / len(model)
    pitch = share * binned.per
    parts = [_lens(left, right, shown, share, tall), _gone(model)]
    total = binned.append + binned.overwrite
    parts += gutter(MARGIN, TOP + 4, int(total.max()), int(binned.rewritten.max()), tall=UP, dense=True)
    parts.append(columns(binned, left, pitch, (BASE, UP), (UNDER, DOWN)))
    parts += [line(MARGIN + GUTTER, y + 0.5, right, y + 0.5, stroke="line2") for y in (BASE, UNDER)]
    parts.append(rare(binned.rare, left, pitch, BASE + COMMIT / 2))
    spots = [(left + (i + 0.5) * share, kind, name) for i, kind, name in names_of(model, 0, len(model))]
    parts.append(flags(spots, 2.0, float(BASE), right))
    parts.append(_ids(model, left, right))
    parts.append(_brush(left, right, shown, share))
    return "".join(parts)


def cursor(model: TimelineModel, index: int, left: float, wide: float) -> str:
    """A line through the bins at the selected commit: what the page draws in the same way."""
    x, (top, bottom) = left + (index + 0.5) * wide / len(model), CURSOR
    handle = path([f"M{num(x - 5)} {top - 5}h10l-5 6Z"], fill=var("ink"))
    return line(x, top, x, bottom, stroke="ink", stroke_width=2) + handle


def _spot(left: float, right: float, shown: tuple[int, int], share: float) -> tuple[float, float]:
    """Where the brush stands: never narrower than can be seen."""
    wide = max((shown[1] - shown[0]) * share, 8.0)
    return min(left + shown[0] * share, right - wide), wide


def _brush(left: float, right: float, shown: tuple[int, int], share: float) -> str:
    x, wide = _spot(left, right, shown, share)
    ring = {"fill": "none", "stroke": var("ink"), "stroke_width": 2}
    return rect(x - 1.5, TOP - 4, wide + 3, UNDER + DOWN - TOP + 8, rx=4, class_="lens", **ring)


def _lens(left: float, right: float, shown: tuple[int, int], share: float, tall: float) -> str:
    x, wide = _spot(left, right, shown, share)
    wedge = f"M{num(x)} {UNDER + DOWN + 4}L{MARGIN} {LENS}H{num(right)}L{num(x + wide)} {UNDER + DOWN + 4}Z"
    panel = rect(MARGIN, LENS, right - MARGIN, tall, rx=6, fill=var("panel"))
    return panel + path([wedge], fill=var("panel"))


def _gone(model: TimelineModel) -> str:
    """The hatch for what has expired."""
    if model.expired <= model.kept:
        return ""
    x, wide = MARGIN + GUTTER, GONE - 6
    words = f"expired 1–{model.expired}"
    cut = rect(x + 2, BASE - 20, text_width(words, size=11) + 6, 16, fill=var("bg"))
    hatched = rect(x, TOP, wide, UNDER + DOWN - TOP, fill="url(#lw-ghost)")
    return hatched + cut + text(x + 5, BASE - 8, words, size=11, fill="ink3")


def _ids(model: TimelineModel, left: float, right: float) -> str:
    """First and last id, and round ones between them."""
    parts = [text(left, IDS, f"#{model.ids[0]}", size=11)]
    count, share = len(model), (right - left) / len(model)
    every = next(n for n in rounds() if n * share >= 120)
    for at in (model.ids % every == 0).nonzero()[0].tolist():
        x = left + (at + 0.5) * share
        if left + 60 < x < right - 70:
            parts.append(text(x, IDS, f"#{model.ids[at]}", size=11, text_anchor="middle"))
    if count > 1:
        parts.append(text(right, IDS, f"#{model.ids[-1]}", size=11, text_anchor="end"))
    return "".join(parts)
