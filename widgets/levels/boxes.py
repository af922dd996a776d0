"""The files of a lane as SVG: boxes with their size, hatch, folded corner and rings, or columns of count.

Invariants: rings stand off their box by background, never on a fill; text inside a box only if it fits with
12 px to spare; coordinates of boxes are whole pixels, so edges are sharp. `cards` and `bucket_facts` are what
hover and selection say of a file and of the bucket. Pure.
Called by the figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc

from widgets.kit import format as fmt
from widgets.kit.svg import esc, group, line, num, path, rect, text, text_width
from widgets.kit.theme import level_fill, level_text, var
from widgets.levels.layout import Frame, LevelsLayout, Placed
from widgets.levels.model import FileBox, LsmModel

FillBy = Literal["level", "origin"]
AGES = 6
EVEN = 4
DASHED: dict[str, Any] = {
    "fill": "none",
    "stroke": var("compact"),
    "stroke_width": "1.75",
    "stroke_dasharray": "4 3",
}


@dataclass(frozen=True, slots=True)
class Paint:
    """Fill and text colour of each shade."""

    model: LsmModel
    fill_by: FillBy

    def of(self, level: int, age: float) -> tuple[str, str]:
        """Fill and text colour of a file: by its level, or by the age of its rows (newest as level 0)."""
        if self.fill_by == "level":
            return level_fill(level, self.model.num_levels), level_text(level, self.model.num_levels)
        step = min(int(age * AGES), AGES - 1)
        return level_fill(step, AGES), level_text(step, AGES)


@dataclass(frozen=True, slots=True)
class BoxSpot:
    """Where one box stands."""

    x: float
    y: float
    wide: float
    tall: float

    def grown(self, by: float) -> tuple[float, float, float, float]:
        """A rectangle around it."""
        return self.x - by, self.y - by, self.wide + 2 * by, self.tall + 2 * by


def lane_boxes(layout: LevelsLayout, at: int, model: LsmModel, paint: Paint, selected: str) -> str:
    """The files of a lane as boxes, or as columns when they stand too close."""
    placed, frame = layout.lanes[at], layout.frame
    if placed.boxes is None:
        return _columns(placed, at, model, frame)
    halved = model.plan.running is not None and placed.lane.level == model.plan.output_level
    ages = model.columns.age[placed.at].tolist()
    parts = []
    spans = zip(placed.boxes, placed.x.tolist(), placed.end.tolist(), ages, strict=True)
    for file, x, end, age in spans:
        spot = _spot(x, end, frame, at, halved=halved)
        parts.append(
            _box(model, file, spot, paint.of(file.level, age), frame.labels and not halved, selected)
        )
    if halved:
        parts.append(_output(layout, at, model, paint))
    return "".join(parts)


def _spot(x: float, end: float, frame: Frame, at: int, *, halved: bool) -> BoxSpot:
    left = round(min(x, frame.right - 3)) + 0.5
    wide = max(round(end) - round(x) - 2, 2)
    tall = frame.lane / 2 - 1 if halved else frame.lane
    return BoxSpot(left, frame.y(at) + 0.5, float(wide), tall - 1)


def _box(
    model: LsmModel, file: FileBox, spot: BoxSpot, colours: tuple[str, str], labels: bool, selected: str
) -> str:
    """One file: fill, hatch for deletes, its size, a folded corner, the rings of plan and selection."""
    fill, ink = colours
    planned = file.name in model.plan.inputs
    inner = BoxSpot(*spot.grown(-1)) if planned and spot.tall > 12 and spot.wide > 6 else spot
    parts = [_plain(inner, fill)]
    if file.many_deletes:
        parts.append(rect(*inner.grown(0), rx=2, fill="url(#lw-minus)", fill_opacity="0.55"))
    if labels:
        parts.append(_size(file, inner, fill, ink))
    if file.masked is not None and inner.wide >= 14 and inner.tall >= 8:
        parts.append(_fold(inner))
    if planned:
        parts.append(_planned(model, spot))
    if file.name == selected:
        ring = spot.grown(4 if planned else 3)
        parts.append(rect(*ring, rx=5, fill="none", stroke=var("ink"), stroke_width=2))
    label = esc(model.spoken(file))
    head = f'<g class="file" data-name="{esc(file.name)}" role="gridcell" aria-label="{label}">'
    return f"{head}{''.join(parts)}</g>"


def _plain(spot: BoxSpot, fill: str) -> str:
    """The box alone; written out because a picture has hundreds."""
    place = f'x="{num(spot.x)}" y="{num(spot.y)}" width="{num(spot.wide)}" height="{num(spot.tall)}"'
    radius = ' rx="2"' if spot.wide > 6 else ""
    return f'<rect {place}{radius} fill="{fill}" stroke="{var("edge")}" class="box"/>'


def _size(file: FileBox, spot: BoxSpot, fill: str, ink: str) -> str:
    """The size inside the box if it fits; on a plain patch where the box is hatched."""
    size = fmt.bytes_text(file.bytes)
    wide = text_width(size)
    if wide + 12 + (9 if file.masked is not None else 0) > spot.wide:
        return ""
    words = text(spot.x + 8, spot.y + spot.tall / 2 + 4.5, size, fill=ink)
    if not file.many_deletes:
        return words
    return rect(spot.x + 4, spot.y + 2, wide + 8, spot.tall - 4, rx=2, fill=fill) + words


def _fold(spot: BoxSpot) -> str:
    """The folded corner of a file with a deletion vector."""
    x, y, fold = spot.x + spot.wide, spot.y, min(9.0, spot.tall - 2)
    cut = f"M{num(x - fold)} {num(y - 1)}H{num(x + 1)}V{num(y + fold)}z"
    flap = f"M{num(x - fold)} {num(y)}V{num(y + fold)}H{num(x)}z"
    return path([cut], fill=var("bg")) + path([flap], fill=var("l0"), stroke=var("edge"))


def _planned(model: LsmModel, spot: BoxSpot) -> str:
    """The dashed ring of an input; what a compaction at work has merged of it is faded."""
    ring = rect(*spot.grown(2.5), rx=4, **DASHED)
    return ring if model.plan.running is None else f'<g class="input">{ring}</g>'


def frontier(layout: LevelsLayout, model: LsmModel) -> float | None:
    """The x up to which a compaction at work has merged its inputs."""
    running = model.plan.running
    spans = [
        (float(p.x[chosen].min()), float(p.end[chosen].max()))
        for p in layout.lanes
        if (chosen := model.columns.planned[p.at]).any()
    ]
    if running is None or not spans:
        return None
    low, high = min(low for low, _ in spans), max(high for _, high in spans)
    return low + min(max(running.share, 0.0), 1.0) * (high - low)


def merged_veil(layout: LevelsLayout, at: int, model: LsmModel) -> str:
    """What of the inputs in a lane is merged already, at 22 % of its strength."""
    edge, placed = frontier(layout, model), layout.lanes[at]
    if edge is None or not len(placed.at):
        return ""
    chosen = model.columns.planned[placed.at] & (placed.x < edge)
    tall = layout.frame.lane
    if placed.lane.level == model.plan.output_level:
        tall = tall / 2
    veil = {"fill": var("bg"), "fill_opacity": "0.78"}
    return "".join(
        rect(x, layout.frame.y(at) - 0.5, min(end, edge) - x, tall + 1, **veil)
        for x, end in zip(placed.x[chosen].tolist(), placed.end[chosen].tolist(), strict=True)
    )


def frontier_line(layout: LevelsLayout, model: LsmModel) -> str:
    """The ink line at the current key, from the top down to the output."""
    x, levels = frontier(layout, model), [placed.lane.level for placed in layout.lanes]
    if x is None or model.plan.output_level not in levels:
        return ""
    bottom = layout.frame.y(levels.index(model.plan.output_level)) + layout.frame.lane + 3
    handle = path([f"M{num(x - 5)} 0h10v5l-5 5l-5 -5z"], fill=var("ink"))
    return line(x, 4, x, bottom, stroke="ink", stroke_width=2) + handle


def _output(layout: LevelsLayout, at: int, model: LsmModel, paint: Paint) -> str:
    """The file being written: a solid ring up to the frontier, the rest still to write dashed."""
    x, frame = frontier(layout, model), layout.frame
    if x is None:
        return ""
    spans = [p for p in layout.lanes if model.columns.planned[p.at].any()]
    left = min(float(p.x[model.columns.planned[p.at]].min()) for p in spans)
    right = max(float(p.end[model.columns.planned[p.at]].max()) for p in spans)
    y, tall = frame.y(at) + frame.lane / 2 + 2, frame.lane / 2 - 3
    ring = {"fill": "none", "stroke": var("compact")}
    fill, _ = paint.of(
        placed_level := layout.lanes[at].lane.level, placed_level / max(model.num_levels - 1, 1)
    )
    parts = [rect(x, y - 2, right - x, tall + 4, rx=3, stroke_dasharray="2 3", **ring)]
    parts.append(rect(left + 1, y, max(x - left - 3, 1), tall, rx=1, fill=fill))
    parts.append(rect(left - 1.5, y - 2, max(x - left, 2), tall + 4, rx=3, stroke_width="1.75", **ring))
    return "".join(parts)


def _columns(placed: Placed, at: int, model: LsmModel, frame: Frame) -> str:
    """One column a pixel, its height by how many files touch the pixel; boxes come back on zoom."""
    lane, places = placed.lane, int(frame.width)
    counts = _evened(_counts(placed.x - frame.left, placed.end - frame.left, places))
    tall = (frame.lane * counts / max(int(counts.max()), 1)).round(1)
    bottom = frame.y(at) + frame.lane
    edges = np.flatnonzero(np.r_[True, tall[1:] != tall[:-1]])
    widths = np.diff(np.r_[edges, places])
    steps = [
        f"M{num(frame.left + x)} {num(bottom)}v{num(-high)}h{w}v{num(high)}z"
        for x, w, high in zip(edges.tolist(), widths.tolist(), tall[edges].tolist(), strict=True)
        if high
    ]
    what = fmt.plural(lane.merged, "older run") if lane.merged else fmt.plural(len(placed.at), "file")
    label = f"{what}, up to {int(counts.max()):,} a pixel" + (
        "" if lane.merged or not model.keyed else ": zoom for boxes"
    )
    fill = {"fill": level_fill(lane.level, model.num_levels), "stroke": var("edge"), "stroke_width": "0.5"}
    drawn = path(steps, **fill) + _dense_plan(placed, at, model, frame)
    if frame.labels:
        y, wide = frame.y(at) + frame.lane / 2, text_width(label, size=11) + 10
        after = float(placed.end.max()) + 4
        x = after if after + wide < frame.right else frame.left + 6
        drawn += rect(x, y - 8, wide, 16, rx=2, fill=var("bg")) + text(x + 5, y + 4, label, size=11)
    return group(drawn, class_="columns", aria_label=label)


def _dense_plan(placed: Placed, at: int, model: LsmModel, frame: Frame) -> str:
    """One ring around all inputs among columns."""
    chosen = model.columns.planned[placed.at]
    if not chosen.any():
        return ""
    x, end = float(placed.x[chosen].min()), float(placed.end[chosen].max())
    return rect(x - 2.5, frame.y(at) - 2.5, max(end - x, 3) + 5, frame.lane + 5, rx=4, **DASHED)


def _evened(counts: np.ndarray) -> np.ndarray:
    """The most within every four pixels: where files abut, single pixels would draw a comb."""
    blocks = np.maximum.reduceat(counts, np.arange(0, len(counts), EVEN)) if len(counts) else counts
    return np.repeat(blocks, EVEN)[: len(counts)]


def _counts(first: np.ndarray, last: np.ndarray, places: int) -> np.ndarray:
    """How many spans touch each pixel."""
    begin = np.clip(first.astype(np.int64), 0, places - 1)
    end = np.clip(np.ceil(last).astype(np.int64), begin + 1, places)
    change = np.zeros(places + 1, dtype=np.int64)
    np.add.at(change, begin, 1)
    np.add.at(change, end, -1)
    return np.cumsum(change)[:places]


FACTS = ("name", "level", "bytes", "rows", "deletes", "masked", "min_key", "max_key", "source", "origin")


def cards(model: LsmModel, files: Sequence[tuple[int, FileBox]]) -> list[dict[str, object]]:
    """The facts of each file that is drawn as a box, with the position of its lane; the page words them."""
    return [
        {name: getattr(file, name) for name in FACTS}
        | {
            "lane": at,
            "run": model.lanes[at].note if file.level == 0 else f"L{file.level}",
            "sequence": [file.min_sequence, file.max_sequence],
            "lo": round(file.lo, 6),
            "hi": round(file.hi, 6),
            "planned": file.name in model.plan.inputs,
        }
        for at, file in files
    ]


def bucket_facts(model: LsmModel) -> dict[str, object]:
    """What is said of the whole bucket as long as no file is selected; empty if it has none."""
    columns = model.columns
    if not model.count:
        return {}
    low, high = columns.table["min_key"], columns.table["max_key"]
    first, last = (pc.min_max(columns.table[name]).as_py() for name in ("min_sequence", "max_sequence"))
    return {
        "name": model.place,
        "runs": model.runs if model.keyed else None,
        "files": model.count,
        "bytes": model.bytes,
        "rows": model.rows,
        "deletes": int(columns.deletes.sum()),
        "masked": int(columns.masked[columns.masked > 0].sum()) or None,
        "min_key": low[int(np.argmin(columns.lo))].as_py(),
        "max_key": high[int(np.argmax(columns.hi))].as_py(),
        "sequence": [first["min"] or 0, last["max"] or 0],
    }
