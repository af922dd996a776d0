"""The pictures that are answered in: runs of a bucket, a grid of cells, a ruler; with what was clicked.

Invariants: a picture shows nothing that gives the answer away before there is a verdict; what is chosen is
ringed in ink, what the engine says in green (dashed where it was not chosen), a wrong choice in red, each
with its sign; rings stand off the fills. Pure: question → `Figure`. Called by the figure and the widget.
"""

from dataclasses import dataclass
from typing import Any

from widgets.kit import format as fmt
from widgets.kit.svg import Figure, esc, fit, group, hatch, line, num, path, rect, tag, text, text_width
from widgets.kit.theme import var
from widgets.levels.figure import levels_figure
from widgets.levels.layout import lay_out
from widgets.levels.model import lsm_model
from widgets.task.model import Cell, Grid, Ruler, RunPicture, TaskQuestion, TaskSpot, Verdict

MARGIN, REACH = 16, 24
ROW, HEAD, GUTTER, WIDEST = 34, 26, 120, 190
SIZE = 80
"""What the size of a file and the gaps around a name take of its box."""
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class DrawnTask:
    """A picture and where its spots are."""

    figure: Figure
    boxes: dict[str, Box]


def picture_figure(
    question: TaskQuestion, value: Any, verdict: Verdict | None, *, width: float
) -> Figure | None:
    """The picture of a question at a width, with the answer so far; None if it has none."""
    if question.ruler is not None:
        return _ruler(question.ruler, value, verdict, width)
    if question.picture is None:
        return None
    picture = question.picture
    drawn = _runs(picture, width) if isinstance(picture, RunPicture) else _grid(picture, width)
    chosen = {str(each) for each in value or ()}
    own = {str(each) for each in (verdict.own or ())} if verdict else set()
    judged, radio = verdict is not None, question.kind == "each"
    spots = [
        _spot(spot, drawn.boxes[spot.id], chosen, own, judged=judged, radio=radio)
        for spot in question.spots
        if spot.id in drawn.boxes
    ]
    return Figure(
        drawn.figure.width,
        drawn.figure.height,
        drawn.figure.body + "".join(spots),
        f"{question.name}: {fmt.plural(len(question.spots), 'spot')} to click",
    )


def _spot(spot: TaskSpot, box: Box, chosen: set[str], own: set[str], *, judged: bool, radio: bool) -> str:
    """What takes the click, and the ring of its state."""
    x, y, wide, tall = box
    more = max(REACH - wide, 0) / 2, max(REACH - tall, 0) / 2
    hit = rect(x - more[0], y - more[1], wide + 2 * more[0], tall + 2 * more[1], fill="transparent")
    inner, picked = hit, spot.id in chosen
    if judged:
        inner += _mark(box, right=spot.id in own, picked=picked) if picked or spot.id in own else ""
    elif picked:
        inner += ring(box, "ink")
    said = ", the engine's answer" if judged and spot.id in own else ""
    return tag(
        "g",
        inner,
        class_="spot",
        data_spot=spot.id,
        data_group=spot.group,
        data_box=" ".join(num(each) for each in box),
        role="radio" if radio else "checkbox",
        aria_checked=str(picked).lower(),
        aria_label=spot.label + said,
    )


def ring(box: Box, token: str, *, dashed: bool = False) -> str:
    """A ring that stands off its box."""
    x, y, wide, tall = box
    return rect(
        x - 3,
        y - 3,
        wide + 6,
        tall + 6,
        rx=5,
        fill="none",
        stroke=var(token),
        stroke_width=2,
        stroke_dasharray="4 3" if dashed else None,
        class_="pick",
    )


def _mark(box: Box, *, right: bool, picked: bool) -> str:
    """The ring of a judged spot, with a sign on its corner."""
    token = "ok" if right else "err"
    x, y = box[0] + box[2] + 3, box[1] - 3
    badge = tag("circle", cx=float(x), cy=float(y), r=8, fill=var(token), stroke=var("bg"), stroke_width=2)
    sign = text(x, y + 4, "✓" if right else "✗", size=11, fill="bg", weight=600, text_anchor="middle")
    return ring(box, token, dashed=not picked) + badge + sign


def _runs(picture: RunPicture, width: float) -> DrawnTask:
    """The levels of a bucket; a line at the key that is asked for."""
    model = lsm_model(picture.files, num_levels=picture.num_levels)
    layout = lay_out(model, width=width)
    frame, head = layout.frame, 24 if picture.key is not None else 4
    largest = max((lane.bytes for lane in model.lanes), default=1)
    drawn = levels_figure(model, width=width, beside=largest, layout=layout)
    body = group(drawn.body, transform=f"translate(0 {head})")
    file_boxes: dict[str, Box] = {}
    for at, placed in enumerate(layout.lanes):
        names = model.columns.table["file_name"].take(placed.at).to_pylist() if len(placed.at) else []
        for name, x, end in zip(names, placed.x.tolist(), placed.end.tolist(), strict=True):
            wide = max(round(end) - round(x) - 2.0, 2.0)
            file_boxes[name] = (
                round(min(x, frame.right - 3)) + 0.5,
                frame.y(at) + 0.5 + head,
                wide,
                frame.lane - 1,
            )
    boxes = {
        name: _union([file_boxes[file] for file in files if file in file_boxes])
        for name, files in picture.named.items()
        if any(file in file_boxes for file in files)
    }
    if picture.by == "file":
        body += "".join(_file_name(name, box) for name, box in boxes.items())
    height = drawn.height + head
    if picture.key is not None and model.axis.slope:
        place = (picture.key - model.axis.start) / model.axis.slope
        x = frame.x(min(max(place, 0.0), 1.0))
        label = f"key {fmt.count(round(picture.key))}"
        wide = text_width(label, size=11, weight=600) + 16
        left = min(max(x - wide / 2, MARGIN), width - MARGIN - wide)
        body += line(x, 20, x, height - 28, stroke="ink", stroke_width=2, stroke_dasharray="2 3")
        body += rect(left, 2, wide, 18, rx=9, fill=var("ink"))
        body += text(left + wide / 2, 15, label, size=11, fill="bg", weight=600, text_anchor="middle")
    return DrawnTask(Figure(width, height, body), boxes)


def _file_name(name: str, box: Box) -> str:
    """The name of a file at the end of its box, in place of its size where both do not fit; nothing in a box
    that is too small."""
    x, y, wide, tall = box
    long = text_width(name, size=11)
    if wide < long + 4:
        return ""
    left, room = (x + wide - long - 11, long + 8) if wide > long + SIZE else (x + 2, wide - 4)
    patch = rect(left, y + 3, room, tall - 6, rx=2, fill=var("bg"))
    return patch + text(left + room / 2, y + tall / 2 + 4, name, size=11, fill="ink", text_anchor="middle")


def _union(boxes: list[Box]) -> Box:
    x, y = min(box[0] for box in boxes), min(box[1] for box in boxes)
    end, bottom = max(box[0] + box[2] for box in boxes), max(box[1] + box[3] for box in boxes)
    return x, y, end - x, bottom - y


def _grid(grid: Grid, width: float) -> DrawnTask:
    """Cells under their heads."""
    gutter = GUTTER if any(label for label, _ in grid.rows) else 0
    pitch = min((width - 2 * MARGIN - gutter) / max(len(grid.heads), 1), WIDEST)
    left, parts, boxes = MARGIN + gutter, [hatch()], dict[str, list[Box]]()
    for at, head in enumerate(grid.heads):
        parts.append(text(left + at * pitch + 6, 18, fit(head, pitch - 10, size=11), size=11))
    for row, (label, cells) in enumerate(grid.rows):
        y = HEAD + row * ROW
        parts.append(text(MARGIN, y + 19, fit(label, gutter - 12), fill="ink"))
        for at, cell in enumerate(cells):
            if cell is None:
                continue
            box = (left + at * pitch + 4.5, y + 2.5, pitch - 11, ROW - 9.0)
            parts.append(_cell(cell, box))
            if cell.id:
                boxes.setdefault(cell.id, []).append(box)
    height = HEAD + len(grid.rows) * ROW + 6
    return DrawnTask(
        Figure(width, height, "".join(parts)), {name: _union(each) for name, each in boxes.items()}
    )


def _cell(cell: Cell, box: Box) -> str:
    """One cell: a value, null, or a delete; its note at the right."""
    x, y, wide, tall = box
    plain = cell.tone == "plain"
    drawn = rect(*box, rx=2, fill=var("l0" if plain else "panel"), stroke=var("edge" if plain else "line2"))
    if cell.tone == "minus":
        drawn += rect(*box, rx=2, fill="url(#lw-minus)", fill_opacity="0.35")
    note = fit(cell.note, wide * 0.45, size=11)
    room = wide - 14 - (text_width(note, size=11) + 6 if note else 0)
    words = fit(cell.words, room)
    if cell.tone == "minus":
        drawn += rect(x + 4, y + 4, text_width(words) + 8, tall - 8, rx=2, fill=var("bg"))
    drawn += text(x + 8, y + tall / 2 + 4, words, fill="ink3" if cell.tone == "null" else "ink")
    return drawn + text(x + wide - 6, y + tall / 2 + 4, note, size=11, text_anchor="end")


def _ruler(ruler: Ruler, value: Any, verdict: Verdict | None, width: float) -> Figure:
    """A line of numbers: the guess below it, what the engine says above."""
    left, right, y = MARGIN + 12.0, width - MARGIN - 12.0, 44.0
    span = ruler.high - ruler.low

    def x(number: float) -> float:
        return left + (min(max(number, ruler.low), ruler.high) - ruler.low) / span * (right - left)

    parts = [line(left, y, right, y, stroke="line2", stroke_width=2)]
    count = round(span / ruler.step)
    every = _round_up(-(-count // max(int((right - left) / 64), 1)))
    if (right - left) / max(count, 1) >= 5:
        parts += [
            line(x(ruler.low + n * ruler.step), y - 4, x(ruler.low + n * ruler.step), y + 4, stroke="line2")
            for n in range(count + 1)
        ]
    for n in range(0, count + 1, every):
        at = ruler.low + n * ruler.step
        parts.append(line(x(at), y - 6, x(at), y + 6, stroke="ink3"))
        parts.append(
            text(
                x(at), y + 38, ruler.said(at).removesuffix(ruler.unit).strip(), size=11, text_anchor="middle"
            )
        )
    if value is not None:
        right_one = verdict is not None and verdict.state == "right"
        token = "ink" if verdict is None else "ok" if right_one else "err"
        at = x(float(value))
        parts.append(path([f"M{num(at)} {num(y + 3)}l7 12h-14z"], fill=var(token), class_="guess"))
        sign = "" if verdict is None else "✓ " if right_one else "✗ "
        parts.append(_pinned(at, y + 25, f"{sign}{ruler.said(float(value))}", token, width))
    if verdict is not None and isinstance(verdict.own, int | float):
        at = x(float(verdict.own))
        parts.append(path([f"M{num(at)} {num(y - 3)}l7 -12h-14z"], fill=var("ok")))
        parts.append(_pinned(at, y - 20, f"engine: {verdict.engine}", "ok", width))
    meta = {"ruler": [left, right, ruler.low, ruler.high, ruler.step, y], "unit": ruler.unit}
    return Figure(
        width,
        y + 46,
        "".join(parts),
        f"a ruler from {ruler.said(ruler.low)} to {ruler.said(ruler.high)}",
        meta,
    )


def _round_up(steps: int) -> int:
    """A round number of steps between two labels."""
    scale = 10 ** max(len(str(steps)) - 1, 0)
    return next(n * scale for n in (1, 2, 5, 10) if n * scale >= steps)


def _pinned(x: float, y: float, words: str, token: str, width: float) -> str:
    """A short text over a place, kept inside the picture, on a plain patch."""
    wide = text_width(words, weight=600)
    left = min(max(x - wide / 2, MARGIN), width - MARGIN - wide)
    patch = rect(left - 4, y - 11, wide + 8, 15, fill=var("bg"))
    return patch + text(left, y, words, fill=token, weight=600, class_="guess" if token == "ink" else None)


__all__ = ["DrawnTask", "esc", "picture_figure", "ring"]
