"""The trade-off map as SVG: write × read beside write × space, a spot a setting in both, trails of triggers.

Invariants: both plots share the x scale (logarithmic, said so); space begins at 1, read at 0; universal is a
circle on a solid line, leveled a square on a dashed one, filled where no other setting is better in one and
worse in none. What is chosen is drawn over it (`chosen_body`), so the map itself never changes. Pure: model →
`Figure`. Called by the widget and by the export.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from widgets.kit.svg import Figure, fit, group, line, num, path, rect, stack, tag, text, text_width
from widgets.kit.theme import var
from widgets.levels.figure import levels_figure
from widgets.trade_off.model import AXES, TradeOffModel
from widgets.trade_off.trails import LEVELED

MARGIN, GAP = 16.0, 28.0
TOP, TALL, FOOT = 46.0, 236.0, 66.0  # FOOT: what an axis means may stand below its name
LABELS = 34.0
KEY = 30.0
SIDE_BY_SIDE = 700
_LOG_TICKS = (1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200, 500, 1_000)


@dataclass(frozen=True, slots=True)
class MapPlot:
    """One plot: where it stands, and the values at its edges. x is logarithmic."""

    left: float
    top: float
    right: float
    least_x: float
    most_x: float
    floor: float
    most_y: float

    @property
    def bottom(self) -> float:
        """The y of the axis."""
        return self.top + TALL

    def x(self, value: float) -> float:
        """The x of a write amplification."""
        share = math.log(value / self.least_x) / math.log(self.most_x / self.least_x)
        return self.left + 8 + share * (self.right - self.left - 20)

    def y(self, value: float) -> float:
        """The y of a read or space amplification."""
        share = (value - self.floor) / (self.most_y - self.floor)
        return self.bottom - min(max(share, 0.0), 1.0) * (TALL - 12)


def plots(model: TradeOffModel, width: float) -> tuple[MapPlot, MapPlot]:
    """The plots of read and of space, beside each other where there is room."""
    beside = width >= SIDE_BY_SIDE
    wide = (width - 2 * MARGIN - GAP) / 2 if beside else width - 2 * MARGIN
    writes = [trial.write for trial in model.outcomes]
    least_x = max((tick for tick in _LOG_TICKS if tick <= min(writes)), default=1)
    most_x = next((tick for tick in _LOG_TICKS if tick > max(max(writes), least_x) * 1.02), 2 * max(writes))
    reads, spaces = ([trial.read for trial in model.outcomes], [trial.space for trial in model.outcomes])
    tops = (math.ceil(max(reads) * 1.05), 1 + math.ceil(max(max(spaces) - 1, 0.05) * 10.5) / 10)
    floors = (0.0, min(1.0, math.floor(min(spaces) * 10) / 10))
    corners = [(MARGIN, TOP), (MARGIN + wide + GAP, TOP) if beside else (MARGIN, TOP + TALL + FOOT + TOP)]
    first, second = (
        MapPlot(x + LABELS, y, x + wide, least_x, most_x, floor, top)
        for (x, y), floor, top in zip(corners, floors, tops, strict=True)
    )
    return first, second


def places(model: TradeOffModel, width: float) -> list[list[float]]:
    """[x, y, x, y] of each spot: in the plot of read, then in that of space."""
    read, space = plots(model, width)
    return [
        [round(v, 1) for v in (read.x(o.write), read.y(o.read), space.x(o.write), space.y(o.space))]
        for o in model.outcomes
    ]


def map_figure(model: TradeOffModel, *, width: float) -> Figure:
    """Both plots with every trail and spot, and the key to them; where the spots stand is in `meta`."""
    pair = plots(model, width)
    parts = [_axes(plot, name, model) for plot, name in zip(pair, ("read", "space"), strict=True)]
    where = places(model, width)
    for trail in model.trails:
        dashed = "4 3" if model.outcomes[trail[0]].setting.strategy == LEVELED else None
        for at in (0, 2):
            parts.append(_trail([where[i][at : at + 2] for i in trail], stroke="line2", dashed=dashed))
    for index, spot in enumerate(where):
        for at in (0, 2):
            parts.append(_spot(model, index, *spot[at : at + 2]))
    bottom = pair[1].bottom + FOOT
    key, rows = _key(width, bottom + 4)
    parts.append(key)
    height = bottom + KEY + 20 * (rows - 1)
    label = f"Trade-off of {len(model)} settings: write by read, and write by space"
    areas = [[plot.left, plot.top, plot.right, plot.bottom] for plot in pair]
    peeks = [list(model.peek(at)) for at in range(len(model))]
    meta: dict[str, object] = {"spots": where, "areas": areas, "peeks": peeks, "axes": model.axes}
    return Figure(width, height, "".join(parts), label, meta)


def _axes(plot: MapPlot, name: str, model: TradeOffModel) -> str:
    title, meaning = AXES[name]
    x = plot.left - LABELS
    parts = [text(x, plot.top - 26, title, size=13, fill="ink", weight=600)]
    after = x + text_width(title, size=13, weight=600) + 8
    parts.append(_meaning(f"↑ {meaning}", x, after, plot.top - 26, plot.right))
    whole = name == "read"
    step = _step(plot.most_y - plot.floor, whole=whole)
    count = int((plot.most_y - plot.floor) / step + 1e-6)
    for at in range(count + 1):
        value = plot.floor + at * step
        y = round(plot.y(value)) + 0.5
        parts.append(line(plot.left, y, plot.right, y, stroke="line2" if not at else "line"))
        shown = f"{value:.0f}" if whole else f"{value:.1f}"
        parts.append(text(plot.left - 8, y + 4, shown, size=11, text_anchor="end"))
    free = -math.inf
    for tick in (tick for tick in _LOG_TICKS if plot.least_x <= tick <= plot.most_x):
        x_at = round(plot.x(tick)) + 0.5
        parts.append(line(x_at, plot.bottom, x_at, plot.bottom + 4, stroke="line2"))
        if x_at - free >= 22:
            parts.append(text(x_at, plot.bottom + 17, f"{tick:g}", size=11, text_anchor="middle"))
            free = x_at
    word, meaning = AXES["write"]
    parts.append(text(plot.left, plot.bottom + 36, word, size=13, fill="ink", weight=600))
    start = plot.left + text_width(word, size=13, weight=600) + 8
    parts.append(_meaning(f"→ {meaning}, log scale", plot.left, start, plot.bottom + 36, plot.right))
    return "".join(parts)


def _meaning(words: str, left: float, after: float, y: float, right: float) -> str:
    """What an axis means, behind its name; in a line below the name where there is no room."""
    if after + text_width(words, size=11) <= right:
        return text(after, y, words, size=11)
    return text(left, y + 14, fit(words, right - left, size=11), size=11)


def _step(span: float, *, whole: bool) -> float:
    """A round distance between grid lines, at most six of them."""
    choices = (1, 2, 5, 10, 20, 50, 100, 500) if whole else (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0)
    return float(next((step for step in choices if span / step <= 6.01), choices[-1]))


def _trail(points: Sequence[Sequence[float]], *, stroke: str, dashed: str | None, width: str = "1") -> str:
    steps = [f"{'L' if at else 'M'}{num(x)} {num(y)}" for at, (x, y) in enumerate(points)]
    return path(steps, fill="none", stroke=var(stroke), stroke_width=width, stroke_dasharray=dashed)


def _spot(
    model: TradeOffModel, index: int, x: float, y: float, *, size: float = 3.5, ink: str = "ink2"
) -> str:
    """A circle or a square, filled or hollow."""
    filled = index in model.unbeaten
    leveled = model.outcomes[index].setting.strategy == LEVELED
    return _mark(x, y, size, leveled=leveled, filled=filled, ink=ink)


def _mark(x: float, y: float, size: float, *, leveled: bool, filled: bool, ink: str) -> str:
    style = {"fill": var(ink if filled else "bg"), "stroke": var(ink), "stroke_width": "1.5"}
    if leveled:
        return rect(x - size, y - size, 2 * size, 2 * size, **style)
    return tag("circle", cx=float(x), cy=float(y), r=float(size + 0.3), **style)


def _key(width: float, y: float) -> tuple[str, int]:
    """What shapes and fills mean, in as many rows as it takes."""
    marks = (
        (_mark(6, -4, 3.5, leveled=False, filled=True, ink="ink2"), "universal"),
        (_mark(6, -4, 3.5, leveled=True, filled=True, ink="ink2"), "leveled (not Paimon's)"),
        (
            _mark(6, -4, 3.5, leveled=False, filled=False, ink="ink2"),
            "hollow: another is better or equal in all",
        ),
        (path(["M0 -4H14"], stroke=var("line2"), fill="none"), "one ratio, its triggers joined"),
        (
            tag("circle", cx=6.0, cy=-4.0, r=5.5, fill="none", stroke=var("ink3"), stroke_dasharray="2 2"),
            "reference",
        ),
    )
    parts, x, row = [], MARGIN, 0
    for mark, words in marks:
        needed = 18 + text_width(words, size=11)
        if x > MARGIN and x + needed > width - MARGIN:
            x, row = MARGIN, row + 1
        parts.append(group(mark, transform=f"translate({num(x)} {num(y + 20 * row)})"))
        parts.append(text(x + 18, y + 20 * row, words, size=11))
        x += needed + 16
    return "".join(parts), row + 1


def chosen_body(model: TradeOffModel, index: int, *, width: float) -> str:
    """What is drawn over the map: the chosen trail with its triggers, the ring, the reference."""
    where, parts = places(model, width), []
    trail = next(t for t in model.trails if index in t)
    leveled = model.outcomes[index].setting.strategy == LEVELED
    for at in (0, 2):
        points = [where[i][at : at + 2] for i in trail]
        parts.append(_trail(points, stroke="ink", dashed="5 3" if leveled else None, width="1.75"))
        parts += [_spot(model, i, *where[i][at : at + 2], size=4, ink="ink") for i in trail]
        x, y = where[model.reference][at : at + 2]
        if model.reference != index:
            dashes = {"fill": "none", "stroke": var("ink3"), "stroke_width": "1.5", "stroke_dasharray": "2 2"}
            parts.append(tag("circle", cx=x, cy=y, r=8.0, **dashes))
        x, y = where[index][at : at + 2]
        parts.append(tag("circle", cx=x, cy=y, r=9.0, fill="none", stroke=var("ink"), stroke_width="2"))
        parts.append(_triggers(model, trail, points, index))
    return group(*parts)


def _triggers(
    model: TradeOffModel, trail: Sequence[int], points: Sequence[Sequence[float]], index: int
) -> str:
    """The trigger beside each spot of the trail, the chosen one always, others where there is room."""
    order = sorted(range(len(trail)), key=lambda at: trail[at] != index)
    placed: list[tuple[float, float]] = []
    parts = []
    for at in order:
        x, y = points[at][0] + 9, points[at][1] - 8
        if any(abs(x - left) < 18 and abs(y - top) < 13 for left, top in placed):
            continue
        placed.append((x, y))
        words = str(model.outcomes[trail[at]].setting.trigger)
        halo = {"paint_order": "stroke", "stroke": var("bg"), "stroke_width": "3"}
        weight = 600 if trail[at] == index else 400
        parts.append(text(x, y, words, size=12 if weight == 600 else 11, fill="ink", weight=weight, **halo))
    return "".join(parts)


def tree_figure(model: TradeOffModel, index: int, *, width: float) -> Figure:
    """The tree of a setting at its fullest."""
    return levels_figure(model.tree(index), width=width)


def trade_off_figure(model: TradeOffModel, index: int, *, width: float) -> Figure:
    """The whole picture: the setting in words, the map with what is chosen, what it costs, its tree."""
    drawn = map_figure(model, width=width)
    marked = Figure(width, drawn.height, drawn.body + chosen_body(model, index, width=width))
    words = [
        Figure(
            width,
            26,
            text(
                MARGIN,
                18,
                fit(model.sentence(index), width - 2 * MARGIN, size=13, weight=600),
                size=13,
                fill="ink",
                weight=600,
            ),
        ),
        Figure(width, 18, text(MARGIN, 10, fit(model.against(index), width - 2 * MARGIN))),
        Figure(width, 20, text(MARGIN, 10, fit(model.standing(index), width - 2 * MARGIN))),
    ]
    head = line(0, 0.5, width, 0.5) + text(
        MARGIN,
        24,
        fit(model.tree_words(index), width - 2 * MARGIN, size=13, weight=600),
        size=13,
        fill="ink",
        weight=600,
    )
    whole = stack([*words, marked, Figure(width, 34, head), tree_figure(model, index, width=width)])
    return Figure(width, whole.height, whole.body, f"{drawn.label}; {model.sentence(index)}")


def skeleton(width: float) -> Figure:
    """What stands there while the settings are simulated: the frames of both plots."""
    beside = width >= SIDE_BY_SIDE
    wide = (width - 2 * MARGIN - GAP) / 2 if beside else width - 2 * MARGIN
    body = ""
    for at in range(2):
        x, y = (MARGIN + at * (wide + GAP), TOP) if beside else (MARGIN, TOP + at * (TALL + FOOT + TOP))
        body += rect(x, y - 34, 120, 14, rx=4, fill=var("line"))
        body += rect(x + LABELS, y, wide - LABELS, TALL, rx=4, fill=var("sel-tint"))
    rows, keys = 1 if beside else 2, _key(width, 0)[1]
    height = rows * (TOP + TALL + FOOT) + KEY + 20 * (keys - 1)
    return Figure(width, height, body, "Trade-off: the settings are simulated")
