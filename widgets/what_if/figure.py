"""The what-if as SVG: two level pictures on the same scales, two lanes of commits, three charts of A and B.

Invariants: everything over commits shares one x, so one cursor goes through lanes and charts; rows of levels
stand at the same y on both sides and at every commit; A is thin, grey and solid, B bold and dashed, and
letters say which is which. Pure: model → `Figure`. Called by the widget and by the export.
"""

import numpy as np

from widgets.amplification import chart
from widgets.amplification.chart import HEIGHT, ChartPlot, Line, Panel
from widgets.amplification.model import READ, SPACE, WRITE
from widgets.kit import format as fmt
from widgets.kit.svg import (
    Figure,
    esc,
    fit,
    group,
    hatch,
    line,
    num,
    path,
    rect,
    stack,
    tag,
    text,
    text_width,
    wrap,
)
from widgets.kit.theme import var
from widgets.levels.figure import levels_figure
from widgets.levels.model import LsmModel
from widgets.timeline.model import KINDS
from widgets.timeline.strip import glyph
from widgets.what_if.model import Chip, Side, WhatIfModel, unused_levels

MARGIN, HEAD, LANES, GAP = 16.0, 44.0, 76.0, 24.0
GUTTER = 28.0
LANE_Y = (24.0, 50.0)


def halves(width: float) -> tuple[int, float]:
    """(level pictures a row, width of one)."""
    return (2, width / 2) if width >= 640 else (1, width)


def levels_part(model: WhatIfModel, pair: tuple[LsmModel, LsmModel], *, width: float) -> Figure:
    """Both level pictures with their options above them."""
    many, wide = halves(width)
    largest = max((lane.bytes for drawn in pair for lane in drawn.lanes), default=1) or 1
    figures = []
    for side, drawn in zip(model.sides, pair, strict=True):
        levels = levels_figure(drawn, width=wide, beside=largest)
        figures.append(stack([_side_head(side, drawn, wide), levels]))
    label = "; ".join(f"{s.letter}: {f.label}" for s, f in zip(model.sides, figures, strict=True))
    if many == 1:
        both = stack(figures)
        return _noted(model, Figure(width, both.height, hatch() + both.body, label))
    height = max(figure.height for figure in figures)
    body = hatch() + figures[0].body + line(wide + 0.5, 4, wide + 0.5, height - 4)
    body += group(figures[1].body, transform=f"translate({num(wide)} 0)")
    return _noted(model, Figure(width, height, body, label))


def _noted(model: WhatIfModel, levels: Figure) -> Figure:
    """The level pictures, and which levels have no row because nothing ever lay there."""
    if not (unused := unused_levels(model)):
        return levels
    words = f"not drawn: {unused}, empty at every commit"
    rows = wrap(words, levels.width - 2 * MARGIN, size=11, lines=3)
    notes = [text(MARGIN, levels.height + 4 + 14 * at, row, size=11) for at, row in enumerate(rows)]
    return Figure(
        levels.width, levels.height + 2 + 14 * len(rows), levels.body + "".join(notes), levels.label
    )


def _side_head(side: Side, drawn: LsmModel, wide: float) -> Figure:
    """`[A] as it was  (trigger 5) (size-ratio 1 %)   5 runs`."""
    dashed = {"stroke_dasharray": "4 3"} if side.letter == "B" else {}
    box = rect(MARGIN, 12, 22, 22, rx=4, fill=var("bg"), stroke=var("ink"), stroke_width="1.75", **dashed)
    body = box + text(MARGIN + 11, 27, side.letter, size=13, fill="ink", weight=600, text_anchor="middle")
    x = MARGIN + 32
    if side.name:
        body += text(x, 27, side.name, size=13, fill="ink", weight=600)
        x += text_width(side.name, size=13, weight=600) + 10
    runs = fmt.plural(drawn.runs, "run")
    body += text(wide - MARGIN, 27, runs, text_anchor="end")
    end = wide - MARGIN - text_width(runs) - 10
    for chip in sorted(side.chips, key=lambda chip: not chip.differs):
        took, shown = _chip(chip, x)
        if x + took > end:
            break
        body += shown
        x += took + 6
    return Figure(wide, HEAD, body, f"{side.name} {runs}".strip())


def _chip(chip: Chip, x: float) -> tuple[float, str]:
    """(width, markup) of an option; one that differs from the other side's has an ink border."""
    name, value = f"{chip.name} ", chip.value
    wide = text_width(name, size=11) + text_width(value, size=11, weight=600) + 18
    edge = var("ink" if chip.differs else "line2")
    body = rect(
        x + 0.5, 13.5, wide, 19, rx=9.5, fill="none", stroke=edge, stroke_width="1.5" if chip.differs else "1"
    )
    words = tag("tspan", esc(name)) + tag("tspan", esc(value), font_weight=600, fill=var("ink"))
    body += tag("text", words, x=x + wide / 2, y=27.0, font_size=11, fill=var("ink2"), text_anchor="middle")
    return wide, body


def course_part(model: WhatIfModel, *, width: float) -> Figure:
    """Commit lanes and charts; where the page puts the cursor is in `meta`."""
    lanes, plot = _lanes(model, width)
    charts, places = _charts(model, width)
    top = LANES + 10
    body = lanes + line(0, LANES, width, LANES) + group(charts, transform=f"translate(0 {num(top)})")
    rows = 1 if width >= 600 else 3
    height = top + rows * HEIGHT + (rows - 1) * 16 + 6
    spots = [{"x": plot.left, "w": plot.right - plot.left, "top": 8.0, "bottom": LANES - 14, "handle": 1}]
    spots += [{**place, "top": place["top"] + top, "bottom": place["bottom"] + top} for place in places]
    meta: dict[str, object] = {"charts": spots, "count": len(model)}
    return Figure(width, height, body, f"What if: {model.verdict}", meta)


def _lanes(model: WhatIfModel, width: float) -> tuple[str, ChartPlot]:
    """A glyph a commit on both lanes, or bars of how many compacted where commits stand too close."""
    plot = ChartPlot(MARGIN + GUTTER, width - MARGIN, 0.0, 1.0, len(model))
    parts = []
    for side, y in zip(model.sides, LANE_Y, strict=True):
        parts.append(text(MARGIN, y + 4, side.letter, size=13, fill="ink", weight=600))
        parts.append(line(plot.left, y, plot.right, y))
        parts.append(_glyphs(side, plot, y) if plot.step >= 6 else _density(side, plot, y))
    return "".join(parts), plot


def _glyphs(side: Side, plot: ChartPlot, y: float) -> str:
    size = 4.0 if plot.step >= 12 else 2.75
    parts = []
    for index, kind in enumerate(side.kinds):
        if kind in KINDS:
            small = size - 1.25 if kind == "APPEND" else size
            parts.append(glyph(KINDS.index(kind), plot.x(index), y, size=small))
        elif kind:
            ring = {"fill": var("bg"), "stroke": var("ink3"), "stroke_dasharray": "2 2"}
            parts.append(tag("circle", cx=plot.x(index), cy=y, r=3.5, **ring))
    return "".join(parts)


def commits_a_bar(model: WhatIfModel, width: float) -> int:
    """How many commits a bar of the lanes stands for; 0 where each has its glyph."""
    room = width - 2 * MARGIN - GUTTER
    return 0 if room / max(len(model), 1) >= 6 else -(-len(model) // max(int(room // 4), 1))


def _density(side: Side, plot: ChartPlot, y: float) -> str:
    """How many of the commits of each 4 pixels compacted, as a bar from the lane's line up."""
    places = max(int((plot.right - plot.left) // 4), 1)
    done = np.array([kind == "COMPACT" for kind in side.kinds], dtype=float)
    starts = np.linspace(0, len(done), places, endpoint=False).astype(np.int64)
    share = np.add.reduceat(done, starts) / np.diff(np.r_[starts, len(done)]).clip(1)
    pitch = (plot.right - plot.left) / places
    steps = [
        f"M{num(plot.left + at * pitch)} {num(y)}v{num(-14 * value)}h{num(pitch - 1)}v{num(14 * value)}z"
        for at, value in enumerate(share.tolist())
        if value > 0.03
    ]
    return path(steps, fill=var("compact")) if steps else ""


def _charts(model: WhatIfModel, width: float) -> tuple[str, list[dict[str, float]]]:
    """The three numbers of both sides, and where each plot stands."""
    many = 3 if width >= 600 else 1
    wide = (width - 2 * MARGIN - (many - 1) * GAP) / many
    body, places = "", []
    for at, panel in enumerate(_panels(model)):
        row, column = divmod(at, many)
        x, y = MARGIN + column * (wide + GAP), row * (HEIGHT + 16)
        plot = chart.plot_of(panel, left=x, width=wide, right_room=60 if wide >= 190 else 48)
        parts = [chart.drawn(panel, plot, x=x, width=wide), _change(at, model.change(at), x + wide)]
        parts.append(text(plot.right + 8, chart.BOTTOM + 18, "last", size=11))
        body += group(*parts, transform=f"translate(0 {num(y)})")
        places.append(
            {"x": plot.left, "w": plot.right - plot.left, "top": y + chart.TOP, "bottom": y + chart.BOTTOM}
        )
    return body, places


def _panels(model: WhatIfModel) -> tuple[Panel, ...]:
    first, last = chart.ids(model.ids)
    words = {
        WRITE: ("Write", ("written / ingested", "written / in")),
        READ: ("Read", ("sorted runs", "runs")),
        SPACE: ("Space", ("live / compacted", "live / comp.")),
    }
    panels = []
    for at, (series, (title, units)) in enumerate(words.items()):
        lines = tuple(
            Line(side.numbers.series[series], bold=side.letter == "B", label=side.letter)
            for side in model.sides
        )
        step = series == READ
        panels.append(
            Panel(
                title,
                units,
                lines,
                0.0 if step else 1.0,
                0 if step else 2,
                first,
                last,
                step=step,
                value=text_width(_compared(at, model.change(at)), size=13, weight=600) + 6,
            )
        )
    return tuple(panels)


def _change(series: int, by: float | None, right: float) -> str:
    """`mean: B −31 %` of runs, `last: B +26 %` of write and space, at the right of a heading: what is
    compared is named, as the labels at the ends of the lines are always the last values."""
    return text(right, 17, _compared(series, by), size=13, fill="ink", weight=600, text_anchor="end")


def _compared(series: int, by: float | None) -> str:
    return f"{'mean' if series == READ else 'last'}: B {signed(by)}"


def signed(by: float | None) -> str:
    """`−31 %`, `+26 %`, `±0`."""
    if by is None:
        return fmt.ABSENT
    whole = round(100 * by)
    return "±0" if not whole else f"{'+' if whole > 0 else fmt.MINUS}{abs(whole):,} %"


def cursor_body(model: WhatIfModel, course: Figure, index: int) -> str:
    """The cursor through lanes and charts: what the page draws in the same way."""
    parts = []
    for spot in course.meta["charts"]:
        x = spot["x"] + (index + 0.5) * spot["w"] / max(len(model), 1)
        parts.append(line(x, spot["top"], x, spot["bottom"], stroke="ink", stroke_width=2))
        if spot.get("handle"):
            parts.append(path([f"M{num(x - 5)} {num(spot['bottom'])}h10v5l-5 5l-5 -5Z"], fill=var("ink")))
    return group(*parts, class_="cursor")


def what_if_figure(
    model: WhatIfModel, pair: tuple[LsmModel, LsmModel], *, index: int, width: float
) -> Figure:
    """The whole picture: levels, lanes, charts with the cursor, and the verdict under them."""
    levels, course = levels_part(model, pair, width=width), course_part(model, width=width)
    marked = Figure(width, course.height, course.body + cursor_body(model, course, index))
    verdict = _verdict(model, width)
    whole = stack([levels, Figure(width, 1, line(0, 0.5, width, 0.5)), marked, verdict])
    return Figure(width, whole.height, whole.body, f"What if: {model.verdict}")


def _verdict(model: WhatIfModel, width: float) -> Figure:
    """The sentence on a panel, and how far to trust it."""
    lines = wrap(model.verdict, width - 2 * MARGIN - 20, size=12)
    height = 22 + 17 * len(lines) + 15 * len(model.trust)
    body = rect(0, 0, width, height, fill=var("panel")) + line(0, 0.5, width, 0.5)
    y = 20.0
    for row in lines:
        body += text(MARGIN, y, row, fill="ink", weight=600 if row is lines[0] else 400)
        y += 17
    for at, row in enumerate(model.trust):
        mark = "" if at or model.reproduced is None else "✓ " if model.reproduced else "▲ "
        body += text(MARGIN, y + 1, fit(mark + row, width - 2 * MARGIN, size=11), size=11)
        y += 15
    return Figure(width, height, body)


def skeleton(width: float) -> Figure:
    """What stands there while both sides are replayed: the same frame, still."""
    many, wide = halves(width)
    body = ""
    for at in range(2):
        x, y = (at % many) * wide, (at // many) * 240.0
        body += rect(x + MARGIN, y + 14, 180, 18, rx=4, fill=var("line"))
        for row in range(5):
            inset = (4 - row) * wide * 0.05
            room = wide - 2 * MARGIN - 180
            bar = (x + MARGIN + 90 + inset, y + 52 + 32 * row, max(room - 2 * inset, 20), 22)
            body += rect(*bar, rx=4, fill=var("sel-tint"))
    return Figure(width, 240.0 * (2 // many), body, "What if: replaying")
