"""The levels of one bucket as SVG: lanes, boxes, the next compaction, runs to read per key.

Invariants: every lane keeps its y whatever it holds, and the height depends on the lanes alone; what a
compaction at work has merged is veiled, what it writes is ringed. Pure: model → `Figure`. Called by the
widget, by the overview and by the static export.
"""

from dataclasses import replace

import numpy as np

from widgets.kit import format as fmt
from widgets.kit.svg import (
    Figure,
    LegendEntry,
    fit,
    group,
    hatch,
    labels,
    legend,
    line,
    num,
    path,
    rect,
    tag,
    text,
    text_width,
    wrap,
)
from widgets.kit.theme import level_fill, level_text, var
from widgets.levels import boxes
from widgets.levels.boxes import AGES, DASHED, FillBy, Paint
from widgets.levels.layout import MARGIN, TOP, Frame, LevelsLayout, Mode, lay_out
from widgets.levels.model import LevelLane, LsmModel

STRIP, AXIS, LEGEND = 42, 19, 20


def levels_figure(
    model: LsmModel,
    *,
    width: float,
    mode: Mode = "keys",
    view: tuple[float, float] | None = None,
    selected: str = "",
    fill_by: FillBy = "level",
    layout: LevelsLayout | None = None,
    beside: int | None = None,
    hint: str = "The first commit appears after refresh().",
) -> Figure:
    """The picture of one bucket. `view` is the shown part of the key axis, by default all of it; `layout`
    is `lay_out` of the same arguments, if it is at hand. `beside` makes it one of two on the same scales:
    the bytes of the largest run of both; then it has neither strip nor legend. `hint`: what makes the first
    file, where there is none."""
    placed = layout or lay_out(model, width=width, mode=mode, view=view)
    frame, paint = placed.frame, Paint(model, fill_by)
    bottom = frame.y(len(model.lanes)) + 6
    body = [hatch(), _ground(model, placed, bottom)]
    for at, lane in enumerate(model.lanes):
        body.append(_lane_labels(model, lane, at, frame, beside))
        drawn = boxes.lane_boxes(placed, at, model, paint, selected)
        name = f"{lane.label or 'L0'} {lane.note}".strip()
        body.append(group(drawn, role="row", aria_label=name) if drawn else "")
        body.append(boxes.merged_veil(placed, at, model))
    body += [_bracket(model, frame), boxes.frontier_line(placed, model)]
    if not model.count:
        body.append(_nothing(frame, bottom, hint))
    top = bottom + 8
    if placed.mode == "keys" and beside is None:
        body.append(_strip(model, frame, top))
    strip = STRIP if model.keyed and beside is None else 0
    body.append(_axis(model, placed, top + strip))
    shades, rows = ("", 0) if beside is not None else _legend(model, width, top + strip + AXIS + 18, fill_by)
    meta: dict[str, object] = {
        "plot": [frame.left, TOP, frame.width, bottom - TOP],
        "axis": [top + strip - 6, AXIS + 8],
        "view": list(frame.view),
        "lanes": [TOP, frame.pitch],
        "binned": [at for at, lane in enumerate(placed.lanes) if lane.boxes is None],
    }
    height = top + strip + AXIS + 8 + LEGEND * rows
    return Figure(width, height, "".join([*body, shades]), _label(model), meta)


def sheet(model: LsmModel, *, width: float) -> dict[str, object]:
    """What the page needs to draw other moments of this bucket itself: colours, the legend."""
    levels, ages = range(model.num_levels), range(AGES)
    fills = {"level": [level_fill(n, model.num_levels) for n in levels]}
    inks = {"level": [level_text(n, model.num_levels) for n in levels]}
    fills["origin"], inks["origin"] = [level_fill(n, AGES) for n in ages], [level_text(n, AGES) for n in ages]
    legends = {fill_by: _legend(model, width, 0, fill_by) for fill_by in ("level", "origin")}
    shared: dict[str, object] = {"num_levels": model.num_levels, "stop": model.stop_trigger}
    shared |= {"fills": fills, "inks": inks, "hatch": hatch()}
    return shared | {"legends": legends | {"none": _legend(replace(model, keyed=False), width, 0, "level")}}


def _label(model: LsmModel) -> str:
    at = f" at {fmt.snapshot_id(model.snapshot)}" if model.snapshot is not None else ""
    return f"Levels{at}, {model.place}: {model.runs_text}, {fmt.bytes_text(model.bytes)}"


def _nothing(frame: Frame, bottom: float, hint: str) -> str:
    """The picture of an empty bucket."""
    x, y = frame.left + 12, bottom - 20
    words = "Nothing written yet."
    after = x + text_width(words, weight=600) + 8
    right = frame.right + frame.gutter
    if hint and after + text_width(hint) > right:
        rows = wrap(hint, right - x, lines=2)
        y -= 16 * len(rows)
        below = "".join(text(x, y + 16 + 16 * at, row) for at, row in enumerate(rows))
        patch = rect(x - 6, y - 14, right - x + 6, 20 + 16 * len(rows), fill=var("bg"))
        return patch + text(x, y, words, fill="ink", weight=600) + below
    patch = rect(x - 6, y - 14, after + text_width(hint) - x + 12, 20, fill=var("bg"))
    return patch + text(x, y, words, fill="ink", weight=600) + text(after, y, hint)


def _ground(model: LsmModel, layout: LevelsLayout, bottom: float) -> str:
    """Hairlines of empty lanes, key grid, and the dotted line between level 0 and the rest."""
    frame, parts = layout.frame, []
    for place, _ in model.axis.ticks(frame.view) if layout.mode == "keys" else ():
        x = round(frame.x(place)) + 0.5
        parts.append(line(x, TOP - 4, x, bottom))
    for at, lane in enumerate(model.lanes):
        if not lane.count:
            middle = frame.y(at) + frame.lane / 2 + 0.5
            parts.append(line(frame.left, middle, frame.right, middle))
    if model.keyed:
        level0 = sum(1 for lane in model.lanes if lane.level == 0)
        y = round(frame.y(level0) - (frame.pitch - frame.lane) / 2) + 0.5
        end = frame.right + frame.gutter
        parts.append(line(MARGIN, y, end, y, stroke="line2", stroke_dasharray="1 3"))
    return "".join(parts)


def _lane_labels(model: LsmModel, lane: LevelLane, at: int, frame: Frame, beside: int | None = None) -> str:
    """The level at the left (on an orange tab if it is the output), the run's size and bar at the right."""
    if not frame.labels:
        show = lane.label and (lane.level == 0 or at == len(model.lanes) - 1)
        return text(MARGIN, frame.y(at) + 8, lane.label, size=11) if show else ""
    middle = frame.y(at) + frame.lane / 2 + 4
    output = bool(lane.label) and lane.level == model.plan.output_level
    parts = [rect(MARGIN - 4, middle - 15, 28, 21, rx=4, fill=var("compact"))] if output else []
    size = 12 if "–" in lane.label else 13  # several empty levels
    parts.append(text(MARGIN, middle, lane.label, size=size, weight=600, fill="bg" if output else "ink"))
    note = lane.note if model.keyed or not lane.count else f"{lane.note} · {lane.count:,}"
    after = MARGIN + (max(28, 0.9 * text_width(lane.label, weight=600) + 5) if model.keyed else 0)
    parts.append(text(after, middle, note, size=11, fill="ink2" if lane.count else "ink3"))
    return "".join(parts) + _run_size(model, lane, middle, frame, output, beside)


def _run_size(
    model: LsmModel, lane: LevelLane, middle: float, frame: Frame, output: bool, beside: int | None
) -> str:
    """The size of the run at the right, with its bar; of a run being written what there is of it."""
    x, running = frame.right + 12, model.plan.running
    if output and running is not None:
        done, whole = fmt.bytes_text(running.written), fmt.bytes_text(running.expected)
        same = done.split(" ")[-1] == whole.split(" ")[-1]
        words = f"{done.split(' ')[0] if same else done} of ≈ {whole}"
        words = words if frame.gutter > 100 else fmt.percent(running.share, 1)
        return text(x, middle, words, size=11, fill="compact")
    if not lane.count:
        return ""
    largest = beside or max(other.bytes for other in model.lanes) or 1
    parts = [text(x, middle, fmt.bytes_text(lane.bytes), fill="ink")]
    if frame.gutter > 100:
        bar, share = frame.right + frame.gutter - 28, max(26 * lane.bytes / largest, 1)
        fill, edge = level_fill(lane.level, model.num_levels), {"stroke": var("edge"), "stroke_width": "0.5"}
        parts.append(rect(bar, middle - 7, 26, 6, rx=1, fill=var("line")))
        parts.append(rect(bar, middle - 7, share, 6, rx=1, fill=fill, **edge))
    return "".join(parts)


def _bracket(model: LsmModel, frame: Frame) -> str:
    """From every input lane to an arrow at the output lane."""
    out = model.plan.output_level
    rows = [at for at, lane in enumerate(model.lanes) if lane.planned]
    if not rows or out is None:
        return ""
    target = next((at for at, lane in enumerate(model.lanes) if lane.level == out), rows[-1])
    x, end = frame.left - 12.5, frame.left - 4.0
    ys = [frame.y(at) + frame.lane / 2 for at in rows]
    goal = frame.y(target) + frame.lane / 2
    steps = [f"M{num(x + 6)} {num(y)}H{num(x)}" for y in ys if y != goal]
    steps.append(f"M{num(x)} {num(min(ys))}V{num(goal)}H{num(end)}m-4 -4l4 4l-4 4")
    return path(steps, fill="none", stroke=var("compact"), stroke_width="1.75")


def _strip(model: LsmModel, frame: Frame, top: float) -> str:
    """How many runs a reader opens at each key; the scale is fixed to the stop trigger."""
    bottom = top + STRIP - 8
    parts = [text(MARGIN, bottom - 14, "runs to read", size=11), text(MARGIN, bottom, "per key", size=11)]
    xs, runs = model.steps
    if not len(xs):
        return "".join(parts) + line(frame.left, bottom, frame.right, bottom, stroke="line2")
    segments = _visible_peaks(_segments(xs, runs, frame))
    peak = max((count for _, _, count in segments), default=0)
    scale = (STRIP - 16) / max(model.stop_trigger, int(runs.max()))
    area, edge, numbers = [], [], []
    for x, end, count in segments:
        tall, wide = count * scale, end - x
        area.append(f"M{num(x)} {num(bottom)}v{num(-tall)}h{num(wide)}v{num(tall)}z")
        edge.append(f"M{num(x)} {num(bottom - tall)}h{num(wide)}")
        if wide >= 26:
            y = bottom - 4 if tall >= 15 else bottom - tall - 3
            numbers.append(
                text(x + wide / 2, y, count, size=11, fill="ink", weight=600, text_anchor="middle")
            )
    parts.append(path(area, fill=var("ink2"), fill_opacity="0.22"))
    parts.append(path(edge, fill="none", stroke=var("ink2"), stroke_width="1.75"))
    parts.append(line(frame.left, bottom, frame.right, bottom, stroke="line2"))
    parts += numbers
    parts.append(text(frame.right + 12, bottom - 14, f"max {peak}", fill="ink", weight=600))
    parts.append(text(frame.right + 12, bottom, f"of {fmt.plural(model.runs, 'run')}", size=11))
    return "".join(parts)


def _segments(xs: np.ndarray, runs: np.ndarray, frame: Frame) -> list[tuple[float, float, int]]:
    """The steps in view as (x, end, runs), at most one a pixel. A dip under 2 px, the gap between two files,
    is left out."""
    low, high = frame.view
    ends = np.r_[xs[1:], 1.0]
    overlapping = (ends > low) & (xs < high) & (runs > 0)
    left = frame.x(np.maximum(xs[overlapping], low))
    right = frame.x(np.minimum(ends[overlapping], high))
    counts = runs[overlapping]
    if len(counts) > 2 * frame.width:
        left, right, counts = _by_pixel(left, right, counts, frame)
    segments: list[tuple[float, float, int]] = []
    for x, end, count in zip(left.tolist(), right.tolist(), counts.tolist(), strict=True):
        if segments and end - x < 2 and count < segments[-1][2]:
            segments[-1] = (segments[-1][0], end, segments[-1][2])
        elif segments and segments[-1][2] == count and x - segments[-1][1] < 2:
            segments[-1] = (segments[-1][0], end, count)
        else:
            segments.append((x, end, count))
    return segments


def _visible_peaks(segments: list[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """The steps with every peak at least 2 px wide: a file of a single key is one."""
    counts = [0, *(count for _, _, count in segments), 0]
    return [
        (x, max(end, x + 2.0) if counts[at] < count > counts[at + 2] else end, count)
        for at, (x, end, count) in enumerate(segments)
    ]


def _by_pixel(
    left: np.ndarray, right: np.ndarray, counts: np.ndarray, frame: Frame
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The most runs at each pixel column."""
    edges = frame.left + np.arange(int(frame.width) + 1)
    first = np.searchsorted(right, edges[:-1], side="right")
    after = np.searchsorted(left, edges[1:], side="left")
    highest = np.maximum.reduceat(np.r_[counts, 0], np.c_[first, after].ravel())[::2]
    at = np.flatnonzero(after > first)
    return edges[at], edges[at] + 1.0, highest[at]


def _axis(model: LsmModel, layout: LevelsLayout, y: float) -> str:
    """Key labels under the plot, or bytes."""
    frame = layout.frame
    shown = model.axis.ticks(frame.view)
    if layout.mode == "bytes":
        largest = max((lane.bytes for lane in model.lanes), default=0)
        shown = tuple((part, fmt.bytes_text(round(part * largest))) for part in (0.0, 0.25, 0.5, 0.75, 1.0))
        shown = shown if largest else ()
    room = frame.width / max(len(shown), 1) - 8
    places = [(frame.x(place), fit(label, max(room, 60), size=11)) for place, label in shown]
    return labels(places, y + 12, (frame.left - 8, frame.right + 8))


def _legend(model: LsmModel, width: float, y: float, fill_by: FillBy) -> tuple[str, int]:
    """What fills, rings, hatches and corners mean, in as many rows as it takes."""
    shades = model.num_levels if fill_by == "level" else AGES
    ramp = "".join(
        rect(n * 17 + 0.5, 0.5, 15, 12, rx=2, fill=level_fill(n, shades), stroke=var("edge"))
        for n in range(shades)
    )
    last = f"L{model.num_levels - 1}"
    words = f"L0 … {last}" if fill_by == "level" else "newest … oldest rows"
    deep = rect(0.5, 0.5, 20, 13, rx=2, fill=level_fill(shades - 2, shades), stroke=var("edge"))
    fold = path(["M11.5 -1H22V9.5z"], fill=var("bg")) + path(
        ["M11.5 0.5V9.5H20.5z"], fill=var("l0"), stroke=var("edge")
    )
    pale = rect(0.5, 0.5, 20, 13, rx=2, fill=level_fill(0, shades), stroke=var("edge"))
    hatched = pale + rect(0.5, 0.5, 20, 13, rx=2, fill="url(#lw-minus)", fill_opacity="0.55")
    tab = tag("rect", x=0, y=-1, width=24, height=15, rx=4, fill=var("compact"))
    output = last if model.plan.output_level is None else f"L{model.plan.output_level}"
    tab += text(4, 11, output, size=11, fill="bg", weight=600)
    planned = rect(3.5, 2.5, 18, 9, rx=2, fill=level_fill(0, shades), stroke=var("edge"))
    planned += rect(0.5, -0.5, 24, 15, rx=4, **DASHED)
    entries: list[LegendEntry] = [(shades * 17 - 1.0, ramp, words)] if model.keyed else []
    entries += [(25.0, planned, "next inputs")]
    entries += [(24.0, tab, "output level"), (20.0, hatched, "−D rows ≥ 20 %")] if model.keyed else []
    entries.append((20.0, deep + fold, "deletion vector"))
    drawn, _, last_y = legend(entries, (MARGIN, y), width - MARGIN, rows=len(entries), pitch=LEGEND)
    return drawn, round((last_y - y) / LEGEND) + 1
