"""The levels of one bucket as SVG: lanes, boxes, the next compaction, runs to read per key.

Invariants: rings stand off their box by 1 px of background; boxes under 3 px become columns of count; every
lane keeps its y whatever it holds; text inside a box only if it fits with 12 px to spare. Pure: model →
`Figure`. Called by the widget, by the overview and by the static export.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from widgets import _format as fmt
from widgets._svg import Figure, fit, group, hatch, line, num, path, rect, tag, text, text_width
from widgets._theme import level_fill, level_text, var
from widgets.levels.model import FileBox, Lane, LsmModel

Mode = Literal["keys", "bytes"]
MARGIN, LEFT = 16, 96
STRIP, AXIS, LEGEND = 42, 19, 26


@dataclass(frozen=True, slots=True)
class Frame:
    """Where things stand: the plot, the lanes, and the part of the axis that is shown."""

    left: float
    right: float
    gutter: float
    lane: float
    pitch: float
    top: float
    view: tuple[float, float]
    labels: bool

    def x(self, place: float) -> float:
        """The x of a position on the axis."""
        low, high = self.view
        return self.left + (place - low) / (high - low) * (self.right - self.left)

    def y(self, lane: int) -> float:
        """The top of a lane."""
        return self.top + lane * self.pitch


def frame_of(model: LsmModel, width: float, view: tuple[float, float]) -> Frame:
    """The geometry for a width: thinner lanes when there are many, no run bars when it is narrow."""
    lanes = len(model.lanes)
    lane, pitch = (24, 32) if lanes <= 12 else (18, 24) if lanes <= 24 else (8, 10)
    gutter = 112.0 if width >= 710 else 78.0
    return Frame(MARGIN + LEFT, width - MARGIN - gutter, gutter, lane, pitch, 8, view, lanes <= 24)


def levels_figure(
    model: LsmModel,
    *,
    width: float,
    mode: Mode = "keys",
    view: tuple[float, float] | None = None,
    selected: str = "",
) -> Figure:
    """The picture of one bucket. `view` is the shown part of the key axis, by default all of it."""
    frame = frame_of(model, width, view or (0.0, 1.0))
    bottom = frame.y(len(model.lanes)) + 6
    boxes = [_positions(model, lane, mode) for lane in model.lanes]
    body = [hatch(), _ground(model, frame, mode, bottom)]
    for at, (lane, places) in enumerate(zip(model.lanes, boxes, strict=True)):
        body.append(_lane_labels(model, lane, at, frame))
        body.append(_lane_boxes(model, lane, places, at, frame, selected))
    body.append(_bracket(model, frame))
    if mode == "keys":
        body.append(_strip(model, frame, bottom + 8))
    height = bottom + 8 + STRIP + AXIS
    body.append(_axis(model, frame, mode, bottom + 8 + STRIP))
    body.append(_legend(model, MARGIN, height + 18))
    meta: dict[str, object] = {
        "plot": [frame.left, frame.top, frame.right - frame.left, bottom - frame.top],
        "view": list(frame.view),
        "lanes": [frame.top, frame.pitch],
    }
    return Figure(width, height + LEGEND, "".join(body), _label(model), meta)


def _label(model: LsmModel) -> str:
    at = f" at {fmt.snapshot_id(model.snapshot)}" if model.snapshot is not None else ""
    return f"Levels{at}, {model.place}: {fmt.plural(model.runs, 'sorted run')}, {fmt.bytes_text(model.bytes)}"


def _positions(model: LsmModel, lane: Lane, mode: Mode) -> list[tuple[float, float]]:
    """Where each file of a lane begins and ends, on an axis of 0 … 1."""
    if mode == "keys":
        return [(file.lo, file.hi) for file in lane.files]
    largest = max((other.bytes for other in model.lanes), default=0) or 1
    ends = np.cumsum([file.bytes for file in lane.files]) / largest
    return list(zip(np.r_[0.0, ends[:-1]].tolist(), ends.tolist(), strict=True)) if len(ends) else []


def _ground(model: LsmModel, frame: Frame, mode: Mode, bottom: float) -> str:
    """Hairlines of empty lanes, key grid, and the dotted line between level 0 and the rest."""
    parts = []
    for place, _ in model.ticks if mode == "keys" else ():
        if frame.view[0] <= place <= frame.view[1]:
            parts.append(line(frame.x(place), frame.top - 4, frame.x(place), bottom))
    level0 = sum(1 for lane in model.lanes if lane.level == 0)
    for at, lane in enumerate(model.lanes):
        if not lane.files:
            middle = frame.y(at) + frame.lane / 2
            parts.append(line(frame.left, middle, frame.right, middle))
    y = frame.y(level0) - (frame.pitch - frame.lane) / 2
    parts.append(line(MARGIN, y, frame.right + frame.gutter, y, stroke="line2", stroke_dasharray="1 3"))
    return "".join(parts)


def _lane_labels(model: LsmModel, lane: Lane, at: int, frame: Frame) -> str:
    """The level at the left (on an orange tab if it is the output), the run's size and bar at the right."""
    if not frame.labels:
        show = lane.label and (lane.level == 0 or at == len(model.lanes) - 1)
        return text(MARGIN, frame.y(at) + 8, lane.label, size=11) if show else ""
    middle = frame.y(at) + frame.lane / 2 + 4
    parts = []
    if lane.label and lane.level == model.plan.output_level:
        parts.append(rect(MARGIN - 4, middle - 15, 28, 21, rx=4, fill=var("compact")))
    fill = "bg" if parts else "ink"
    parts.append(text(MARGIN, middle, lane.label, size=13, weight=600, fill=fill))
    parts.append(text(MARGIN + 28, middle, lane.note, size=11, fill="ink2" if lane.files else "ink3"))
    if lane.files:
        x, largest = frame.right + 12, max(other.bytes for other in model.lanes) or 1
        parts.append(text(x, middle, fmt.bytes_text(lane.bytes), fill="ink"))
        if frame.gutter > 100:
            bar = frame.right + frame.gutter - 28
            parts.append(rect(bar, middle - 7, 26, 6, rx=1, fill=var("line")))
            share = max(26 * lane.bytes / largest, 1)
            parts.append(rect(bar, middle - 7, share, 6, rx=1, fill=level_fill(lane.level, model.num_levels)))
            parts.append(
                rect(bar, middle - 7, share, 6, rx=1, fill="none", stroke=var("edge"), stroke_width="0.5")
            )
    return "".join(parts)


def _lane_boxes(
    model: LsmModel,
    lane: Lane,
    places: list[tuple[float, float]],
    at: int,
    frame: Frame,
    selected: str,
) -> str:
    """The files of a lane as boxes, or as columns when they stand too close."""
    low, high = frame.view
    shown = _in_view(lane, places, frame)
    if lane.merged or _too_dense(len(shown), frame):
        return _columns(model, lane, shown, at, frame)
    parts = []
    for file, lo, hi in shown:
        x, end = frame.x(max(lo, low)), frame.x(min(hi, high))
        wide = max(end - x - 1, 2.0)
        x = min(x, frame.right - wide)
        parts.append(_box(model, file, (x, frame.y(at), wide, frame.lane), frame.labels, selected))
    return "".join(parts)


def _in_view(
    lane: Lane, places: list[tuple[float, float]], frame: Frame
) -> list[tuple[FileBox, float, float]]:
    low, high = frame.view
    held = zip(lane.files, places, strict=True)
    return [(file, lo, hi) for file, (lo, hi) in held if hi >= low and lo <= high]


def _too_dense(files: int, frame: Frame) -> bool:
    """Whether boxes would be under 3 px."""
    return files * 3 > frame.right - frame.left


def boxed(
    model: LsmModel, *, width: float, mode: Mode, view: tuple[float, float] | None
) -> list[tuple[int, FileBox]]:
    """The files that `levels_figure` draws as boxes, with the position of their lane."""
    frame = frame_of(model, width, view or (0.0, 1.0))
    found: list[tuple[int, FileBox]] = []
    for at, lane in enumerate(model.lanes):
        shown = _in_view(lane, _positions(model, lane, mode), frame)
        if not lane.merged and not _too_dense(len(shown), frame):
            found += [(at, file) for file, _, _ in shown]
    return found


def _box(
    model: LsmModel, file: FileBox, box: tuple[float, float, float, float], labels: bool, selected: str
) -> str:
    """One file: fill by level, hatch for deletes, its size, the rings of plan and selection."""
    x, y, wide, tall = box
    planned = file.name in model.plan.inputs
    inset = 3 if planned and labels else 0
    inner = (x + inset, y + inset, max(wide - 2 * inset, 2.0), tall - 2 * inset)
    radius = 2 if wide > 6 else 0
    fill = level_fill(file.level, model.num_levels)
    parts = [rect(*inner, rx=radius, fill=fill, stroke=var("edge"), class_="box")]
    size = fmt.bytes_text(file.bytes)
    room = text_width(size) + 12
    if file.many_deletes:
        parts.append(rect(*inner, rx=radius, fill="url(#lw-minus)", fill_opacity="0.55"))
        if labels and room <= inner[2]:
            patch = text_width(size) + 8
            parts.append(rect(inner[0] + 4, inner[1] + 2, patch, inner[3] - 4, rx=2, fill=fill))
    if labels and room <= inner[2]:
        colour = level_text(file.level, model.num_levels)
        parts.append(text(inner[0] + 8, y + tall / 2 + 4, size, fill=colour))
    if planned:
        ring = {"fill": "none", "stroke": var("compact"), "stroke_width": "1.75", "stroke_dasharray": "4 3"}
        parts.append(rect(x - 1, y - 1, wide + 2, tall + 2, rx=4, **ring))
    if file.name == selected:
        parts.append(
            rect(x - 4, y - 4, wide + 8, tall + 8, rx=5, fill="none", stroke=var("ink"), stroke_width=2)
        )
    label = model.spoken(file)
    return group(*parts, class_="file", data_name=file.name, role="gridcell", aria_label=label)


def _columns(
    model: LsmModel, lane: Lane, shown: list[tuple[FileBox, float, float]], at: int, frame: Frame
) -> str:
    """One column a pixel, its height by how many files touch the pixel; boxes come back on zoom."""
    places = int(frame.right - frame.left)
    spans = np.array([(frame.x(lo), frame.x(hi)) for _, lo, hi in shown]) - frame.left
    first = np.clip(spans[:, 0].astype(np.int64), 0, places - 1)
    last = np.clip(np.ceil(spans[:, 1]).astype(np.int64), first + 1, places)
    change = np.zeros(places + 1, dtype=np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, last, -1)
    counts = np.cumsum(change)[:places]
    tall = frame.lane * counts / max(int(counts.max()), 1)
    bottom = frame.y(at) + frame.lane
    edges = np.flatnonzero(np.r_[True, tall[1:] != tall[:-1]])
    widths = np.diff(np.r_[edges, places])
    steps = [
        f"M{num(frame.left + x)} {num(bottom)}v{num(-tall[x])}h{w}v{num(tall[x])}z"
        for x, w in zip(edges.tolist(), widths.tolist(), strict=True)
        if tall[x]
    ]
    what = f"{fmt.plural(lane.merged, 'older run')}" if lane.merged else fmt.plural(len(shown), "file")
    label = f"{what}, up to {int(counts.max()):,} a pixel" + ("" if lane.merged else ": zoom for boxes")
    fill = {"fill": level_fill(lane.level, model.num_levels), "stroke": var("edge"), "stroke_width": "0.5"}
    patch = text_width(label, size=11) + 10
    words = ""
    if frame.labels:
        y = frame.y(at) + frame.lane / 2
        words = rect(frame.left + 6, y - 8, patch, 16, rx=2, fill=var("bg"))
        words += text(frame.left + 11, y + 4, label, size=11)
    return group(path(steps, **fill), words, class_="columns", aria_label=label)


def _bracket(model: LsmModel, frame: Frame) -> str:
    """From every input lane to an arrow at the output lane."""
    out = model.plan.output_level
    rows = [at for at, lane in enumerate(model.lanes) if any(f.name in model.plan.inputs for f in lane.files)]
    if not rows or out is None:
        return ""
    target = next((at for at, lane in enumerate(model.lanes) if lane.level == out), rows[-1])
    x, end = frame.left - 12.0, frame.left - 4.0
    ys = [frame.y(at) + frame.lane / 2 for at in rows]
    goal = frame.y(target) + frame.lane / 2
    steps = [f"M{num(x + 5)} {num(y)}H{num(x)}" for y in ys if y != goal]
    steps.append(f"M{num(x)} {num(min(ys))}V{num(goal)}H{num(end)}m-5 -4l5 4l-5 4")
    return path(steps, fill="none", stroke=var("compact"), stroke_width="1.75")


def _strip(model: LsmModel, frame: Frame, top: float) -> str:
    """How many runs a reader opens at each key; the scale is fixed to the stop trigger."""
    bottom = top + STRIP - 8
    parts = [text(MARGIN, bottom - 14, "runs to read", size=11), text(MARGIN, bottom, "per key", size=11)]
    parts.append(line(frame.left, bottom, frame.right, bottom, stroke="line2"))
    if not model.overlap:
        return "".join(parts)
    segments = _segments(model, frame)
    top_seen = max((count for _, _, count in segments), default=0)
    scale = (STRIP - 16) / max(model.stop_trigger, max(count for _, count in model.overlap))
    area, top_line = [], []
    for x, end, count in segments:
        tall, wide = count * scale, end - x
        area.append(f"M{num(x)} {num(bottom)}v{num(-tall)}h{num(wide)}v{num(tall)}z")
        top_line.append(f"M{num(x)} {num(bottom - tall)}h{num(wide)}")
        if wide >= 26:
            y = bottom - 4 if tall >= 15 else bottom - tall - 3
            middle = {"text_anchor": "middle", "weight": 600, "fill": "ink"}
            parts.append(text(x + wide / 2, y, count, size=11, **middle))
    parts.insert(2, path(area, fill=var("ink2"), fill_opacity="0.22"))
    parts.insert(3, path(top_line, fill="none", stroke=var("ink2"), stroke_width="1.75"))
    parts.append(text(frame.right + 12, bottom - 14, f"max {top_seen}", fill="ink", weight=600))
    parts.append(text(frame.right + 12, bottom, f"of {fmt.plural(model.runs, 'run')}", size=11))
    return "".join(parts)


def _segments(model: LsmModel, frame: Frame) -> list[tuple[float, float, int]]:
    """The steps in view as (x, end, runs). A dip under 2 px, the gap between two files, is left out."""
    low, high = frame.view
    ends = [x for x, _ in model.overlap[1:]] + [1.0]
    found: list[tuple[float, float, int]] = []
    for (start, count), end in zip(model.overlap, ends, strict=True):
        lo, hi = max(start, low), min(end, high)
        if hi <= lo or not count:
            continue
        x, right = frame.x(lo), frame.x(hi)
        if found and right - x < 2 and count < found[-1][2]:
            found[-1] = (found[-1][0], right, found[-1][2])
        elif found and found[-1][2] == count and x - found[-1][1] < 2:
            found[-1] = (found[-1][0], right, count)
        else:
            found.append((x, right, count))
    return found


def _axis(model: LsmModel, frame: Frame, mode: Mode, y: float) -> str:
    """Key labels under the plot, or bytes."""
    low, high = frame.view
    if mode == "bytes":
        largest = max((lane.bytes for lane in model.lanes), default=0)
        ticks = tuple(
            (share, fmt.bytes_text(round(share * largest))) for share in (0.0, 0.25, 0.5, 0.75, 1.0)
        )
    else:
        ticks = model.ticks
    shown = [(place, label) for place, label in ticks if low - 1e-9 <= place <= high + 1e-9]
    room = (frame.right - frame.left) / max(len(shown), 1) - 8
    parts, end = [], -1e9
    for place, label in shown:
        words, x = fit(label, max(room, 60), size=11), frame.x(place)
        wide = text_width(words, size=11)
        left = min(max(x - wide / 2, frame.left - 8), frame.right + 8 - wide)
        if left > end + 8:
            parts.append(text(left, y + 12, words, size=11))
            end = left + wide
    return "".join(parts)


def _legend(model: LsmModel, x: float, y: float) -> str:
    """What fills, rings and hatches mean."""
    parts = []
    for level in range(model.num_levels):
        box = (x + level * 17, y - 10, 15, 12)
        parts.append(rect(*box, rx=2, fill=level_fill(level, model.num_levels), stroke=var("edge")))
    x += model.num_levels * 17 + 6
    words = f"L0 … L{model.num_levels - 1}"
    parts.append(text(x, y, words, size=11))
    x += text_width(words, size=11) + 14
    dashed = {"fill": "none", "stroke": var("compact"), "stroke_width": "1.75", "stroke_dasharray": "4 3"}
    parts.append(rect(x, y - 11, 20, 13, rx=3, **dashed) + text(x + 26, y, "next inputs", size=11))
    x += 26 + text_width("next inputs", size=11) + 14
    parts.append(tag("rect", x=x, y=y - 12, width=22, height=15, rx=4, fill=var("compact")))
    parts.append(
        text(x + 4, y, "L", size=11, fill="bg", weight=600) + text(x + 28, y, "output level", size=11)
    )
    x += 28 + text_width("output level", size=11) + 14
    parts.append(rect(x, y - 11, 20, 13, rx=2, fill=level_fill(0, model.num_levels), stroke=var("edge")))
    parts.append(rect(x, y - 11, 20, 13, rx=2, fill="url(#lw-minus)", fill_opacity="0.55"))
    parts.append(text(x + 26, y, "−D rows ≥ 20 %", size=11))
    return "".join(parts)
