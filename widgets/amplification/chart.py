"""One small chart: a number over commits as a line, or two of them, with the forecast at its right.

Invariants: the y axis starts at the floor, or below an estimate that is lower; labels are its ends and the
threshold only; a line of more commits than pixels is drawn as the span from least to most of each pixel,
two lines as means of a few pixels; gaps stay gaps. Pure: values → SVG text. Used by the figures of
AmplificationChart and WhatIf.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from widgets.kit import format as fmt
from widgets.kit.svg import line, num, path, rect, tag, text, text_width
from widgets.kit.theme import var

HEIGHT, TOP, BOTTOM, LABELS = 108.0, 32.0, 88.0, 40.0
FORECAST, VALUE = 62.0, 66.0
MEAN_BELOW = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """One series of values; `bold` draws it dashed in ink, otherwise thin and grey."""

    values: np.ndarray
    bold: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """What one chart shows. `units` are its words, the longest that fits is shown; `step` draws the line as
    stairs; `decimals` are those of its numbers."""

    title: str
    units: tuple[str, ...]
    lines: tuple[Line, ...]
    floor: float
    decimals: int
    first: str = ""
    last: str = ""
    step: bool = False
    threshold: float | None = None
    at_least: float = 0.0
    compacted: np.ndarray | None = None
    forecast: float | None = None
    forecast_text: str = ""
    value: float = VALUE  # pixels of the widest value that stands in the heading


@dataclass(frozen=True, slots=True)
class ChartPlot:
    """Where a chart's plot stands: its left and right edge, and the values of its bottom and its top."""

    left: float
    right: float
    floor: float
    top: float
    count: int

    @property
    def step(self) -> float:
        """Pixels from one commit to the next."""
        return (self.right - self.left) / max(self.count, 1)

    def x(self, index: float) -> float:
        """The x of a commit."""
        return self.left + (index + 0.5) * self.step

    def y(self, value: float) -> float:
        """The y of a value."""
        share = (value - self.floor) / (self.top - self.floor)
        return BOTTOM - min(max(share, 0.0), 1.0) * (BOTTOM - TOP)


def plot_of(panel: Panel, *, left: float, width: float, right_room: float) -> ChartPlot:
    """The geometry of a chart that stands at `left` and takes `width`."""
    highest = [panel.at_least, panel.floor + (1.0 if panel.step else 0.1)]
    highest += [float(np.nanmax(curve.values)) for curve in panel.lines if _some(curve.values)]
    highest += [value for value in (panel.threshold, panel.forecast) if value is not None]
    count = max((len(curve.values) for curve in panel.lines), default=0)
    lowest = [float(np.nanmin(curve.values)) for curve in panel.lines if _some(curve.values)]
    lowest += [panel.forecast] if panel.forecast is not None else []
    low = min(lowest, default=panel.floor)
    floor = panel.floor if low >= panel.floor - 0.05 else max(float(np.floor(10 * low)) / 10, 0.0)
    top = _round_up(max(highest), floor, whole=panel.step)
    return ChartPlot(left + LABELS, left + width - right_room, floor, top, count)


def _some(values: np.ndarray) -> bool:
    return bool(len(values)) and not bool(np.isnan(values).all())


def _round_up(value: float, floor: float, *, whole: bool) -> float:
    """A round top of the axis that leaves some room above the largest value."""
    span = value - floor
    if whole:
        return floor + max(float(np.ceil(span - 1e-9)), 1.0)
    power = 10.0 ** np.floor(np.log10(max(span, 1e-6)))
    step = next(
        s * power for s in (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0) if span <= s * power
    )
    return floor + float(step)


def drawn(panel: Panel, plot: ChartPlot, *, x: float, width: float) -> str:
    """The chart without its cursor."""
    parts = [_heading(panel, x, width), *_axes(panel, plot)]
    lines = [curve for curve in panel.lines if _some(curve.values)]
    if not lines:
        where = (plot.left + plot.right) / 2
        parts.append(text(where, (TOP + BOTTOM) / 2 + 4, "not known", size=11, text_anchor="middle"))
        return "".join(parts)
    if len(panel.lines) == 1:
        parts.append(_ghost(plot, panel.lines[0].values))
        parts.append(_area(panel, plot, panel.lines[0].values))
    for curve in lines:
        style = (
            {"stroke": var("ink"), "stroke_width": "2", "stroke_dasharray": "5 3"}
            if curve.bold
            else {"stroke": var("ink2"), "stroke_width": "1.75" if len(panel.lines) == 1 else "1.5"}
        )
        parts.append(path(_course(panel, plot, curve.values), fill="none", stroke_linejoin="round", **style))
    parts.append(_end_labels(panel, plot))
    parts.append(_marks(panel, plot))
    parts.append(_forecast(panel, plot))
    return "".join(parts)


def heading_only(panel: Panel, plot: ChartPlot, *, x: float, width: float) -> str:
    """The frame of a chart that has nothing to show."""
    bounds = line(plot.left, TOP, plot.right, TOP) + line(
        plot.left, BOTTOM, plot.right, BOTTOM, stroke="line2"
    )
    return _heading(panel, x, width) + bounds


def _heading(panel: Panel, x: float, width: float) -> str:
    after = x + text_width(panel.title, size=13, weight=600) + 8
    unit = next((words for words in panel.units if after + text_width(words) < x + width - panel.value), "")
    return text(x, 16, panel.title, size=13, fill="ink", weight=600) + text(after, 16, unit)


def _axes(panel: Panel, plot: ChartPlot) -> list[str]:
    """Hairlines at floor and top with their values, the threshold dotted, first and last id."""

    def label(y: float, value: float) -> str:
        return text(
            plot.left - 6,
            y + 4,
            f"{value:.{0 if panel.step else panel.decimals}f}",
            size=11,
            text_anchor="end",
        )

    parts = [
        line(plot.left, TOP, plot.right, TOP),
        line(plot.left, BOTTOM, plot.right, BOTTOM, stroke="line2"),
    ]
    parts += [label(TOP, plot.top), label(BOTTOM, plot.floor)]
    if panel.threshold is not None and plot.floor < panel.threshold < plot.top:
        y = plot.y(panel.threshold)
        parts.append(line(plot.left, y, plot.right, y, stroke="line2", stroke_dasharray="1 3"))
        if TOP + 11 < y < BOTTOM - 11:
            parts.append(label(y, panel.threshold))
    parts.append(text(plot.left, BOTTOM + 18, panel.first, size=11))
    if plot.right - plot.left > text_width(panel.first + panel.last, size=11) + 12:
        parts.append(text(plot.right, BOTTOM + 18, panel.last, size=11, text_anchor="end"))
    return parts


def _ghost(plot: ChartPlot, values: np.ndarray) -> str:
    """A hatch over the oldest commits whose number is not known any more."""
    places = np.flatnonzero(~np.isnan(values))
    if not len(places) or not places[0]:
        return ""
    width = places[0] * plot.step
    ghost = rect(plot.left, TOP, width, BOTTOM - TOP, fill="url(#lw-ghost)")
    if width > text_width("expired", size=11) + 8:
        ghost += text(plot.left + 4, TOP + 12, "expired", size=11, fill="ink3")
    return ghost


def _spans(plot: ChartPlot, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(x, least, most) of each pixel, where there are more commits than pixels."""
    places = int(plot.right - plot.left)
    if len(values) <= places:
        return None
    starts = np.linspace(0, len(values), places, endpoint=False).astype(np.int64)
    low = np.minimum.reduceat(np.where(np.isnan(values), np.inf, values), starts)
    high = np.maximum.reduceat(np.where(np.isnan(values), -np.inf, values), starts)
    return plot.left + np.arange(places) + 0.5, low, high


def _course(panel: Panel, plot: ChartPlot, values: np.ndarray) -> list[str]:
    """The commands of a line; a new piece begins after each gap."""
    if len(panel.lines) > 1 and plot.step < MEAN_BELOW:
        return _means(plot, values)
    spans = _spans(plot, values)
    if spans is not None:
        return _binned(plot, *spans)
    steps: list[str] = []
    pen = False
    for index, value in enumerate(values.tolist()):
        if value != value:  # NaN
            pen = pen and _joins(panel, values, index)
            continue
        x, y = plot.x(index), plot.y(value)
        if not pen:
            steps.append(f"M{num(x)} {num(y)}")
        else:
            steps.append(f"H{num(x)}V{num(y)}" if panel.step else f"L{num(x)} {num(y)}")
        pen = True
    return steps


def _joins(panel: Panel, values: np.ndarray, index: int) -> bool:
    """Whether a line goes on over a commit that was not measured: between two that were."""
    return not panel.step and bool((~np.isnan(values[index:])).any())


def _binned(plot: ChartPlot, xs: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[str]:
    finite = np.isfinite(low)
    ends = zip(xs[finite].tolist(), low[finite].tolist(), high[finite].tolist(), strict=True)
    steps: list[str] = []
    for x, lowest, highest in ends:
        low_y, other = plot.y(lowest), plot.y(highest)
        steps.append(f"{'L' if steps else 'M'}{num(x)} {num(low_y)}V{num(other)}")
    return steps


def _means(plot: ChartPlot, values: np.ndarray) -> list[str]:
    """The mean of each few pixels: of two lines the spans would hide each other."""
    places = max(int((plot.right - plot.left) // MEAN_BELOW), 1)
    starts = np.unique(np.linspace(0, len(values), places, endpoint=False).astype(np.int64))
    valid = ~np.isnan(values)
    sums = np.add.reduceat(np.where(valid, values, 0.0), starts)
    counts = np.add.reduceat(valid.astype(np.int64), starts)
    middles = (starts + np.r_[starts[1:], len(values)] - 1) / 2
    points = [(plot.x(at), plot.y(s / n)) for at, s, n in zip(middles, sums, counts, strict=True) if n]
    return [f"{'L' if number else 'M'}{num(x)} {num(y)}" for number, (x, y) in enumerate(points)]


def _area(panel: Panel, plot: ChartPlot, values: np.ndarray) -> str:
    """A faint ground under a single line."""
    course = _course(panel, plot, values)
    if len(course) < 2 or sum(part.startswith("M") for part in course) > 1:
        return ""
    places = np.flatnonzero(~np.isnan(values))
    first, last = plot.x(int(places[0])), plot.x(int(places[-1]))
    if _spans(plot, values) is not None:
        first, last = max(first, plot.left + 0.5), plot.right - 0.5
    closed = [*course, f"L{num(last)} {num(BOTTOM)}H{num(first)}Z"]
    return path(closed, fill=var("ink2"), fill_opacity="0.1")


def _end_labels(panel: Panel, plot: ChartPlot) -> str:
    """The letter and last value of each of several lines, with room between them where they would overlap."""
    labels: list[tuple[float, str, bool]] = []
    for curve in panel.lines:
        numbers = curve.values[~np.isnan(curve.values)]
        if curve.label and len(numbers):
            labels.append(
                (plot.y(float(numbers[-1])), f"{curve.label} {numbers[-1]:.{panel.decimals}f}", curve.bold)
            )
    labels.sort(key=lambda entry: entry[0])
    ys = [y for y, _, _ in labels]
    for at in range(1, len(ys)):
        ys[at] = max(ys[at], ys[at - 1] + 15)
    over = max(ys[-1] - BOTTOM, 0.0) if ys else 0.0
    parts = []
    for y, (_, words, bold) in zip(ys, labels, strict=True):
        weight, fill = (600, "ink") if bold else (400, "ink2")
        parts.append(text(plot.right + 8, y - over + 4, words, weight=weight, fill=fill))
    return "".join(parts)


def _marks(panel: Panel, plot: ChartPlot) -> str:
    """▴ on the axis at each compaction; those that would meet share one."""
    if panel.compacted is None:
        return ""
    steps, last = [], -1e9
    for index in np.flatnonzero(panel.compacted).tolist():
        x = plot.x(index)
        if x - last >= 7:
            steps.append(f"M{num(x - 3)} {num(BOTTOM + 5)}h6l-3 -5z")
            last = x
    return path(steps, fill=var("compact")) if steps else ""


def _forecast(panel: Panel, plot: ChartPlot) -> str:
    """An orange ring at the right: what the next compaction would leave."""
    if panel.forecast is None or not panel.lines:
        return ""
    places = np.flatnonzero(~np.isnan(panel.lines[0].values))
    if not len(places):
        return ""
    start = plot.y(float(panel.lines[0].values[places[-1]]))
    x, y = plot.right + 11, plot.y(panel.forecast)
    dashed = {"stroke": "compact", "stroke_width": "1.5", "stroke_dasharray": "3 2"}
    ring = tag("circle", cx=x, cy=y, r=3.5, fill=var("bg"), stroke=var("compact"), stroke_width="2")
    words = text(x + 7, y + 4, panel.forecast_text, fill="compact", weight=600)
    return line(plot.x(int(places[-1])), start, x - 3, y, **dashed) + ring + words


def cursor(plots: Sequence[ChartPlot], values: Sequence[float | None], index: int) -> str:
    """The cursor through all charts, a dot on each line: what the page draws in the same way."""
    parts = []
    for plot, value in zip(plots, values, strict=True):
        x = plot.x(index)
        parts.append(line(x, TOP - 4, x, BOTTOM, stroke="ink", stroke_width=2))
        if value is not None:
            dot = {"fill": var("ink"), "stroke": var("bg"), "stroke_width": "1.5"}
            parts.append(tag("circle", cx=x, cy=plot.y(value), r=4.5, **dot))
    return "".join(parts)


def ids(ends: np.ndarray) -> tuple[str, str]:
    """The labels of the first and last commit."""
    return (fmt.snapshot_id(int(ends[0])), fmt.snapshot_id(int(ends[-1]))) if len(ends) else ("", "")
