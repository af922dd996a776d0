"""Lanes of steps as SVG: a box a step, the table's snapshots between the lanes, and the chosen step in words.

Invariants: x is the order of steps and the same in every lane; steps after the chosen one are outlines; the
height depends on the story alone, never on the chosen step; a published snapshot has the glyph of its kind
and a line from the step that made it; a lost or refused one a dashed line that ends in a cross. Pure:
model → `Figure`. Called by the widget and by the static export.
"""

from dataclasses import dataclass
from typing import Any

from widgets.kit import format as fmt
from widgets.kit.svg import (
    Figure,
    LegendEntry,
    fit,
    group,
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
from widgets.kit.theme import var
from widgets.steps.model import KILLED, LOST, NAMES, REFUSED, StepsModel, StoryStep, Track

MARGIN, GUTTER, RIGHT = 16, 96, 16
PILL, LANE, TABLE, TRACK, BOX, FEET = 30, 44, 40, 38, 24, 12
MAX_STEP, MAX_BOX, LETTER_STEP = 104.0, 72.0, 14.0
COMMITS = {"APPEND": "append", "COMPACT": "compact", "OVERWRITE": "overwrite", "ANALYZE": "analyze"}
FILLS = {"data": ("l1", "edge"), "manifest": ("sel-tint", "line2"), "publish": ("ink2", "ink2")}
SHOWN = {"read": "R", "data": "D", "manifest": "M", "publish": "P", "hint": "H", "clean": "C", "wait": "W"}

EMPTY = StoryStep(0, "", "Nothing has happened yet", "Each button lets one of them take one step.")


@dataclass(frozen=True, slots=True)
class StepsLayout:
    """Where things stand at one width."""

    model: StepsModel
    width: float

    @property
    def left(self) -> float:
        """The x where the first step begins."""
        return MARGIN + GUTTER

    @property
    def step(self) -> float:
        """Pixels from one step to the next."""
        room = self.width - self.left - MARGIN - RIGHT
        return min(room / max(len(self.model.steps), self.model.room, 1), MAX_STEP)

    def x(self, index: int) -> float:
        """The middle of a step."""
        return self.left + (index + 0.5) * self.step

    @property
    def has_table(self) -> bool:
        """Whether there are snapshots to show."""
        return self.model.before is not None or bool(self.model.published())

    @property
    def table_place(self) -> int:
        """How many lanes stand above the table's."""
        return 1

    def lane_y(self, lane: int) -> float:
        """The middle of a lane."""
        below = TABLE if self.has_table and lane >= self.table_place else 0
        return PILL + LANE * lane + below + LANE / 2

    @property
    def table_y(self) -> float:
        """The middle of the table's lane."""
        return PILL + LANE * self.table_place + TABLE / 2

    @property
    def tracks_y(self) -> float:
        """Where the tracks begin."""
        return PILL + LANE * len(self.model.lanes) + (TABLE if self.has_table else 0)

    @property
    def bottom(self) -> float:
        """Where the lanes and tracks end."""
        return self.tracks_y + TRACK * len(self.model.tracks)

    @property
    def box(self) -> float:
        """The width of a box."""
        return min(max(self.step - 8, self.step * 0.8), MAX_BOX)


def steps_figure(model: StepsModel, *, index: int, width: float) -> Figure:
    """The picture with the step at `index` chosen."""
    at = StepsLayout(model, width)
    chosen = 0 <= index < len(model.steps)
    parts = [_frames(at), _cursor_line(at, index) if chosen else ""]
    parts += [_table_lane(at, index)] if at.has_table else []
    parts += [_box(at, place, index) for place in range(len(model.steps))]
    parts += [
        _track(at, track, at.tracks_y + TRACK * place, index) for place, track in enumerate(model.tracks)
    ]
    parts.append(_cursor(at, index) if chosen else "")
    panel, bottom = _panel(at, index, at.bottom + FEET)
    kinds, bottom = _legend(at, bottom + 8)
    meta: dict[str, object] = {
        "count": len(model.steps),
        "lanes": list(model.lanes),
        "x": at.left,
        "step": at.step,
        "bottom": at.bottom + FEET,
        "says": [model.says(place) for place in range(len(model.steps))],
    }
    label = f"{model.title}: step {model.says(index)}"
    return Figure(width, bottom, "".join(parts) + panel + kinds, label, meta)


def _frames(at: StepsLayout) -> str:
    """Lane names and hairlines."""
    parts, right = [], at.width - MARGIN
    for lane, name in enumerate(at.model.lanes):
        y = at.lane_y(lane)
        shown = fit(name, GUTTER - 8, size=13, weight=600)
        parts += [line(at.left, y, right, y), text(MARGIN, y + 4, shown, size=13, fill="ink", weight=600)]
    return "".join(parts)


def _box(at: StepsLayout, place: int, index: int) -> str:
    """One step: filled by what it does once it is reached, an outline before."""
    step, state, reached = at.model.steps[place], at.model.state(place, index), place <= index
    x, y = at.x(place) - at.box / 2, at.lane_y(step.lane) - BOX / 2
    failed = state in (REFUSED, KILLED)
    if not reached:
        shape: dict[str, Any] = {"fill": var("bg"), "stroke": var("line2"), "stroke_dasharray": "2 3"}
        ink = "ink3"
    elif failed or state == LOST:
        shape = {
            "fill": var("err-tint"),
            "stroke": var("err"),
            "stroke_dasharray": "4 3" if not failed else None,
        }
        ink = "err"
    elif step.kind == "publish" and step.commit:
        fill = var(COMMITS.get(step.commit, "ink2"))
        shape, ink = {"fill": fill, "stroke": fill}, "bg"
    else:
        fill, edge = FILLS.get(step.kind, ("bg", "line2"))
        shape, ink = {"fill": var(fill), "stroke": var(edge)}, "bg" if fill == "ink2" else "ink"
    parts = [rect(x, y, at.box, BOX, rx=2, class_="box", **shape)]
    shown = step.mark if step.mark and text_width(step.mark) + 6 <= at.box else step.letter
    shown = "✕" if state == KILLED else shown
    if at.step >= LETTER_STEP and shown:
        parts.append(
            text(
                at.x(place),
                y + 16,
                shown,
                size=12 if at.step >= 20 else 11,
                fill=ink,
                weight=600 if failed else 400,
                text_anchor="middle",
                text_decoration="line-through" if state == LOST and reached else None,
            )
        )
    return group(*parts, class_="step", data_step=place)


def _table_lane(at: StepsLayout, index: int) -> str:
    """The snapshots in the order they came, each tied to the step that made it."""
    y = at.table_y
    parts = [line(at.left, y, at.width - MARGIN, y, stroke="line2")]
    parts.append(text(MARGIN, y + 4, "table", size=13, fill="ink", weight=600))
    places = {step.snapshot: at.x(place) for place, step in at.model.published()}
    if at.model.before is not None:
        places.setdefault(at.model.before, at.left - 6)
        parts.append(_glyph(at.left - 6, y, "", reached=True))
        words = fmt.snapshot_id(at.model.before)
        parts.append(text(at.left - 14, y + 4, words, size=11, text_anchor="end"))
    for place, step in enumerate(at.model.steps):
        reached, x = place <= index, at.x(place)
        side = 1 if at.lane_y(step.lane) < y else -1
        start, end = at.lane_y(step.lane) + side * (BOX / 2 + 1), y - side * 7
        if step.commit:
            stroke = COMMITS.get(step.commit, "ink2") if reached else "line2"
            dash = None if reached else "2 3"
            parts.append(line(x, start, x, end, stroke=stroke, stroke_width="1.75", stroke_dasharray=dash))
            parts.append(_glyph(x, y, step.commit, reached=reached))
            words = fmt.snapshot_id(step.snapshot)
            if at.step >= 30:
                ink = "ink" if reached else "ink3"
                parts.append(text(x + 9, y + 14 if side < 0 else y - 5, words, size=11, fill=ink))
        elif reached and step.against is not None and step.against in places:
            parts.append(_line_to_conflict(x, start, y - side * 9, places[step.against], side))
        elif reached and step.state == LOST:
            parts.append(line(x, start, x, end, stroke="err", stroke_width="1.75", stroke_dasharray="3 3"))
    return "".join(parts)


def _line_to_conflict(x: float, start: float, y: float, target: float, side: int) -> str:
    """A dashed line from a step to the snapshot it met."""
    away = 6 if target < x else -6
    steps = [f"M{num(x)} {num(start)}V{num(y)}H{num(target + away)}"]
    dashed = {"fill": "none", "stroke": var("err"), "stroke_width": "1.75", "stroke_dasharray": "3 3"}
    tip = f"M{num(target + away)} {num(y)}l{num(-away * 0.8)} {num(side * 4.0)}"
    return path(steps, **dashed) + path([tip], fill="none", stroke=var("err"), stroke_width="1.75")


def _glyph(x: float, y: float, commit: str, *, reached: bool) -> str:
    """● APPEND, ◆ COMPACT, ■ OVERWRITE; one that is not there yet is hollow."""
    colour = var(COMMITS.get(commit, "ink2"))
    shape = (
        {"fill": colour}
        if reached
        else {"fill": var("bg"), "stroke": var("line2"), "stroke_dasharray": "2 2"}
    )
    ground = tag("circle", cx=float(x), cy=float(y), r=7, fill=var("bg"))
    if commit == "COMPACT":
        return ground + path([f"M{num(x)} {num(y - 6)}l6 6l-6 6l-6 -6Z"], **shape)
    if commit == "OVERWRITE":
        return ground + rect(x - 4.5, y - 4.5, 9, 9, **shape)
    return ground + tag("circle", cx=float(x), cy=float(y), r=5, **shape)


def _track(at: StepsLayout, track: Track, y: float, index: int) -> str:
    """Bars from 0 for numbers, plateaus for texts; what is beyond the chosen step is pale."""
    name = fit(track.label, GUTTER - 8, size=11)
    parts = [text(MARGIN, y + 22, name, size=11)]
    floor = y + TRACK - 8
    if not track.numeric:
        return "".join(parts) + _plateaus(at, track, y, index)
    largest = max((float(value) for value in track.values), default=0) or 1.0
    parts.append(line(at.left, floor, at.width - MARGIN, floor))
    for place, value in enumerate(track.values):
        tall = (TRACK - 20) * float(value) / largest
        if not value:
            continue
        wide = min(at.box, 14.0)
        fill = var("ink2") if place == index else var("line2")
        parts.append(rect(at.x(place) - wide / 2, floor - tall, wide, tall, fill=fill))
    chosen = track.values[index]
    words = f"{chosen:,} {track.unit}".strip()
    parts.append(text(MARGIN, y + 35, words if chosen else "", size=11, fill="ink"))
    return "".join(parts)


def _plateaus(at: StepsLayout, track: Track, y: float, index: int) -> str:
    """Equal neighbours as one bar with their text."""
    parts, start = [], 0
    for place in range(1, len(track.values) + 1):
        if place < len(track.values) and track.values[place] == track.values[start]:
            continue
        left, right = at.left + start * at.step, at.left + place * at.step
        here = start <= index < place
        edge = {"stroke": var("ink") if here else var("line2")}
        parts.append(rect(left + 1.5, y + 6.5, right - left - 3, 21, rx=2, fill=var("sel-tint"), **edge))
        shown = str(track.values[start])
        middle = (left + right) / 2
        if text_width(shown, size=11) <= right - left - 8:
            ink = "ink" if here else "ink2"
            parts.append(text(middle, y + 21, shown, size=11, fill=ink, text_anchor="middle"))
        start = place
    return "".join(parts)


def _cursor_line(at: StepsLayout, index: int) -> str:
    """The line of the chosen step through all lanes, and its handle; boxes and glyphs lie on it."""
    x, bottom = at.x(index), at.bottom
    steps = [f"M{num(x)} {num(PILL - 4.0)}V{num(bottom)}"]
    handle = path([f"M{num(x - 5)} {num(bottom)}h10v5l-5 5l-5 -5Z"], fill=var("ink"))
    return group(path(steps, stroke=var("ink"), stroke_width=2), handle, class_="cursor")


def _cursor(at: StepsLayout, index: int) -> str:
    """The chosen step: ring around its box, pill above."""
    x, y, ink = at.x(index), at.lane_y(at.model.steps[index].lane), var("ink")
    half = BOX / 2 + 3
    ring = {"fill": "none", "stroke": ink, "stroke_width": 2, "class_": "ring"}
    parts = [rect(x - at.box / 2 - 3, y - half, at.box + 6, BOX + 6, rx=4, **ring)]
    words = fit(at.model.says(index), at.width - 2 * MARGIN - 20, weight=600)
    wide = text_width(words, weight=600) + 20
    left = min(max(x - wide / 2, MARGIN), at.width - MARGIN - wide)
    parts.append(rect(left, 4, wide, 22, rx=4, fill=ink))
    parts.append(text(left + wide / 2, 19, words, fill="bg", weight=600, text_anchor="middle"))
    return group(*parts, class_="cursor")


def _panel(at: StepsLayout, index: int, y: float) -> tuple[str, float]:
    """The chosen step in words; as tall as the longest step needs."""
    x, wide = MARGIN, at.width - 2 * MARGIN
    inner = wide - 28
    steps, room = at.model.steps, at.model.room
    rows = [wrap(step.detail, inner, lines=3) for step in steps]
    largest = max([len(row) for row in rows] + [2 if room else 1])
    has_facts = room > 0 or any(step.facts for step in steps)
    tall = 34 + 16 * largest + (40 if has_facts else 4)
    step = steps[index] if 0 <= index < len(steps) else EMPTY
    bad = bool(steps) and at.model.state(index, index) in (LOST, REFUSED)
    parts = [rect(x + 0.5, y + 0.5, wide - 1, tall, rx=6, fill=var("panel"), stroke=var("line"))]
    if bad:
        parts.append(rect(x, y + 6, 3, tall - 12, fill=var("err")))
    title = fit(step.title, inner, size=13, weight=600)
    parts.append(text(x + 14, y + 24, title, size=13, fill="err" if bad else "ink", weight=600))
    for place, row in enumerate(rows[index] if steps else (step.detail,)):
        parts.append(text(x + 14, y + 43 + 16 * place, row))
    facts = y + 34 + 16 * largest
    left, columns = float(x + 14), _columns(at, inner)
    for (name, value), column in zip(step.facts, columns, strict=False):
        parts.append(text(left, facts + 12, fit(name, column - 10, size=11), size=11))
        parts.append(text(left, facts + 28, fit(value, column - 10), fill="ink"))
        left += column
    return "".join(parts), y + tall + 4


def _columns(at: StepsLayout, room: float) -> list[float]:
    """Widths of the columns of facts: what the longest of all steps needs, so that they do not move."""
    lines = [step.facts for step in at.model.steps if step.facts]
    count = max((len(facts) for facts in lines), default=0)
    needs = [
        max(
            max(text_width(name, size=11), text_width(value))
            for name, value in (f[place] for f in lines if place < len(f))
        )
        for place in range(count)
    ]
    spare = (room - sum(needs)) / max(count, 1)
    return [need + spare for need in needs] if spare >= 0 else [need * room / sum(needs) for need in needs]


def _legend(at: StepsLayout, y: float) -> tuple[str, float]:
    """The kinds that occur (with room to come: may occur), and what a box of each looks like."""
    marked = at.model.room > 0 or any(step.mark for step in at.model.steps if step.kind == "read")
    entries: list[LegendEntry] = []
    for kind, name in NAMES.items():
        expected = at.model.room > 0 and kind not in ("hint", "wait")
        if not expected and not any(step.kind == kind for step in at.model.steps):
            continue
        letter, wide = ("#4", 24.0) if kind == "read" and marked else (SHOWN[kind], 16.0)
        words = "looks: the newest is #4" if wide > 16 else name
        fill, edge = FILLS.get(kind, ("bg", "line2"))
        ink = "bg" if fill == "ink2" else "ink"
        mark = rect(0.5, 2.5, wide, 16, rx=2, fill=var(fill), stroke=var(edge))
        mark += text(wide / 2 + 0.5, 14, letter, size=11, fill=ink, text_anchor="middle")
        entries.append((wide, mark, words))
    start, right = (MARGIN, y + 15), at.width - MARGIN
    drawn, _, last = legend(entries, start, right, top=15, gap=16, share=0.9, rows=9, pitch=22)
    return drawn, last + 13
