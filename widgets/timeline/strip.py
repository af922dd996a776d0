"""An ordinary timeline: rows added above the commit line, bytes rewritten below it, names above, ids below.

From 6 px a commit up each has its glyph and bars; below that bars are bins. What has expired stands on a
hatch; what a tag keeps of it is solid. Pure: a `Strip` of the model → SVG. Called by the figure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from widgets.kit import format as fmt
from widgets.kit.svg import line, num, path, rect, tag, text, text_width
from widgets.kit.theme import var
from widgets.timeline.model import (
    ANALYZE,
    APPEND,
    COMPACT,
    OVERWRITE,
    Bins,
    TimelineModel,
    action_of,
    bins,
)

MARGIN, GUTTER = 16, 84
GHOST = 20
PILL, REFS, ROWS, COMMIT, REWRITTEN, IDS = 24, 17, 32, 26, 26, 18
MIN_STEP, BIN = 6.0, 4
FILLS = {APPEND: "append", COMPACT: "compact", OVERWRITE: "overwrite", ANALYZE: "analyze"}


@dataclass(frozen=True, slots=True)
class Strip:
    """Where the commits first … last of an ordinary timeline stand."""

    x: float
    y: float
    width: float
    first: int
    last: int
    inset: float = 0.0
    """How far a lens stands inside the picture; 0 for the ordinary timeline."""
    lead: float = 0.0
    """The room before the first commit for those that have expired."""

    @property
    def step(self) -> float:
        """Pixels from one commit to the next."""
        return self.width / max(self.last - self.first, 1)

    @property
    def dense(self) -> bool:
        """Whether single commits would stand closer than 6 px."""
        return self.step < MIN_STEP

    def at(self, index: int) -> float:
        """The x of a commit."""
        return self.x + (index - self.first + 0.5) * self.step

    @property
    def line_y(self) -> float:
        """The y of the commit line."""
        return self.y + PILL + REFS + ROWS + COMMIT / 2

    @property
    def base(self) -> float:
        """The foot of the bars of rows."""
        return self.line_y - COMMIT / 2

    @property
    def under(self) -> float:
        """The head of the bars of rewritten bytes."""
        return self.line_y + COMMIT / 2


def strip_figure(model: TimelineModel, strip: Strip) -> str:
    """Everything of the strip but its cursor."""
    shown = slice(strip.first, strip.last)
    base, under, end = strip.base, strip.under, strip.x + strip.width
    parts = [_paused(model, strip), _expired(model, strip)]
    parts += [line(strip.x - strip.lead, y, end, y) for y in (base + 0.5, under + 0.5)]
    rows, rewritten = int(model.rows[shown].max()), int(model.rewritten[shown].max())
    if strip.dense:
        binned = bins(model, int(strip.width // BIN), strip.first, strip.last)
        rows, rewritten = int((binned.append + binned.overwrite).max()), int(binned.rewritten.max())
        parts.append(columns(binned, strip.x, strip.step * binned.per, (base, ROWS), (under, REWRITTEN - 2)))
        parts.append(rare(binned.rare, strip.x, strip.step * binned.per, strip.line_y))
    else:
        parts.append(_commits(model, strip, rows, rewritten))
    parts += gutter(MARGIN + strip.inset, strip.y + PILL + REFS, rows, rewritten, dense=strip.dense)
    parts.append(_ids(model, strip, under + REWRITTEN + 13))
    names = names_of(model, strip.first, strip.last)
    spots = [(strip.at(index), kind, name) for index, kind, name in names]
    parts.append(flags(spots, strip.y + PILL, strip.line_y - 9, end))
    return "".join(parts)


def _commits(model: TimelineModel, strip: Strip, rows: int, rewritten: int) -> str:
    """A glyph and two bars a commit."""
    bar = min(max(strip.step * 0.62, 3.0), 20.0)
    up, down = ROWS / max(rows, 1), (REWRITTEN - 2) / max(rewritten, 1)
    size, parts = 4.5 if strip.step >= 12 else 3.0, []
    for i in range(strip.first, strip.last):
        x, kind = strip.at(i), int(model.kinds[i])
        if model.rows[i]:
            tall = max(float(model.rows[i]) * up, 1.0)
            parts.append(rect(x - bar / 2, strip.base - tall, bar, tall, rx=1, fill=var(FILLS[kind])))
        if model.rewritten[i]:
            tall = max(float(model.rewritten[i]) * down, 1.0)
            parts.append(rect(x - bar / 2, strip.under + 1, bar, tall, rx=1, fill=var("compact")))
        parts.append(glyph(kind, x, strip.line_y, size=size))
    return "".join(parts)


def columns(binned: Bins, x: float, pitch: float, up: tuple[float, float], down: tuple[float, float]) -> str:
    """Bins as bars: rows above `up` = (foot, height), rewritten bytes below `down` = (head, height)."""
    append, overwrite, rewritten = binned.append, binned.overwrite, binned.rewritten
    xs = x + np.arange(len(append)) * pitch
    tall, deep = up[1] / max(int((append + overwrite).max()), 1), down[1] / max(int(rewritten.max()), 1)
    foot = np.full(len(append), up[0])
    return (
        _bars(xs, foot, -append * tall, pitch, "append")
        + _bars(xs, foot - append * tall, -overwrite * tall, pitch, "overwrite")
        + _bars(xs, np.full(len(append), down[0]), rewritten * deep, pitch, "compact")
    )


def _bars(xs: np.ndarray, ys: np.ndarray, heights: np.ndarray, pitch: float, fill: str) -> str:
    """Bars of one colour as a single path."""
    wide = num(max(pitch - 1, 1.0))
    steps = [
        f"M{num(x)} {num(y)}v{num(tall)}h{wide}v{num(-tall)}z"
        for x, y, tall in zip(xs.tolist(), ys.tolist(), heights.tolist(), strict=True)
        if abs(tall) >= 0.05
    ]
    return path(steps, fill=var(fill)) if steps else ""


def rare(places: tuple[tuple[int, int, int], ...], left: float, pitch: float, y: float) -> str:
    """Single glyphs of rare kinds; those that would meet become one group, a glyph a kind with `×3`."""
    groups: list[tuple[float, dict[int, int]]] = []
    for place, kind, number in places:
        x = left + (place + 0.5) * pitch
        if groups and x < groups[-1][0] + 30 * len(groups[-1][1]):
            groups[-1][1][kind] = groups[-1][1].get(kind, 0) + number
        else:
            groups.append((x, {kind: number}))
    parts = []
    for x, kinds in groups:
        for slot, (kind, number) in enumerate(kinds.items()):
            parts.append(glyph(kind, x + 30 * slot, y))
            if number > 1:
                parts.append(text(x + 30 * slot + 7, y + 4, f"×{number}", size=11))
    return "".join(parts)


def glyph(kind: int, x: float, y: float, *, size: float = 4.5) -> str:
    """● APPEND, ◆ COMPACT, ■ OVERWRITE, ○ ANALYZE: shape and hue say the same."""
    fill = var(FILLS[kind])
    if kind == COMPACT:
        reach = size + 1.2
        corners = ((x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y))
        points = " ".join(f"{num(px)},{num(py)}" for px, py in corners)
        return tag("polygon", points=points, fill=fill)
    if kind == OVERWRITE:
        return rect(x - size + 0.5, y - size + 0.5, 2 * size - 1, 2 * size - 1, fill=fill)
    if kind == ANALYZE:
        ring = {"fill": var("bg"), "stroke": fill, "stroke_width": "1.75"}
        return tag("circle", cx=float(x), cy=float(y), r=size - 1, **ring)
    return tag("circle", cx=float(x), cy=float(y), r=float(size), fill=fill)


def gutter(
    x: float, top: float, rows: int, rewritten: int, *, tall: int = ROWS, dense: bool = False
) -> list[str]:
    """The words at the left: what the bars count and their largest value."""
    y, middle, below = top + 12, top + tall + COMMIT / 2 + 4, top + tall + COMMIT + 10
    return [
        text(x, y, "rows added", size=11),
        text(x, y + 14, f"max {fmt.short_count(rows)}", size=11),
        text(x, middle, "rare kinds" if dense else "commit", size=11),
        text(x, below, "rewritten", size=11),
        text(x, below + 14, f"max {fmt.bytes_text(rewritten)}" if rewritten else "nothing yet", size=11),
    ]


def _expired(model: TimelineModel, strip: Strip) -> str:
    """A hatch under what has expired: hollow dashed glyphs, then the commits that a tag keeps."""
    kept = min(max(model.kept - strip.first, 0), strip.last - strip.first)
    if not (strip.lead or kept):
        return ""
    top, left = strip.y + PILL + REFS, strip.x - strip.lead
    end = strip.at(strip.first + kept) - strip.step / 2 if kept else strip.x - 6
    parts = [rect(left, top, end - left, ROWS + COMMIT + REWRITTEN, fill="url(#lw-ghost)")]
    ring = {"fill": var("bg"), "stroke": var("ink3"), "stroke_dasharray": "2 2"}
    for i in range(round(strip.lead / GHOST)):
        parts.append(tag("circle", cx=left + 7 + i * 19.0, cy=strip.line_y, r=3.5, **ring))
    words = f"expired 1–{model.expired}" if model.expired > 1 else "expired 1"
    if strip.lead:
        parts.append(text(left, top + ROWS + COMMIT + REWRITTEN + 13, words, size=11, fill="ink3"))
    if kept:
        says = "kept by tag"
        wide = text_width(says, size=11)
        parts.append(rect(left, strip.under + 5, wide + 4, 15, fill=var("bg")))
        parts.append(text(left + 2, strip.under + 17, says, size=11))
    return "".join(parts)


def _paused(model: TimelineModel, strip: Strip) -> str:
    """Spans in which automatic compaction was off."""
    parts = []
    for begin, end in model.paused:
        first, last = model.span(begin, int(model.ids[-1]) if end is None else end)
        first, last = max(first, strip.first), min(last, strip.last)
        if last <= first:
            continue
        x, right = strip.at(first) - strip.step / 2, strip.at(last - 1) + strip.step / 2
        top = strip.y + PILL + REFS
        parts.append(rect(x, top, right - x, ROWS + COMMIT + REWRITTEN, rx=4, fill=var("sel-tint")))
        says = "auto-compaction paused"
        wide = text_width(says, size=11)
        at = x + 4 if right - x > wide + 8 else x - wide - 6
        parts.append(text(max(at, strip.x), strip.under + REWRITTEN - 4, says, size=11))
    return "".join(parts)


def _ids(model: TimelineModel, strip: Strip, y: float) -> str:
    """Ids at round numbers, as many as fit without touching each other or the words about expiry."""
    widest = text_width(f"#{model.ids[strip.last - 1]}", size=11) + 18
    every = next(n for n in rounds() if n * strip.step >= widest)
    ids = model.ids[strip.first : strip.last]
    parts, taken = (
        [],
        strip.x - strip.lead + text_width(f"expired 1–{model.expired}", size=11) if strip.lead else 0,
    )
    for at in np.flatnonzero(ids % every == 0).tolist():
        x = strip.at(strip.first + at)
        if x - widest / 2 > taken:
            parts.append(text(x, y, f"#{ids[at]}", size=11, text_anchor="middle"))
            taken = x + widest / 2
    if not parts:
        parts.append(text(max(strip.at(strip.first) - 4, taken + 8), y, f"#{ids[0]}", size=11))
    return "".join(parts)


def rounds() -> Iterator[int]:
    """1, 2, 5, 10, 20, …"""
    return (n * 10**power for power in range(12) for n in (1, 2, 5))


def names_of(model: TimelineModel, first: int, last: int) -> list[tuple[int, str, str]]:
    """Position, kind and name of each tag, branch and statement among these commits, in order."""
    names = [(model.index_of(snapshot), "tag", name) for name, snapshot in model.tags]
    names += [(model.index_of(snapshot), "branch", name) for name, snapshot in model.branches]
    names += [(index, "statement", action_of(text)) for index, text in model.statements.items()]
    return sorted((i, kind, name) for i, kind, name in names if i is not None and first <= i < last)


def flags(spots: list[tuple[float, str, str]], top: float, foot: float, end: float) -> str:
    """Tags as flags on a pole, branches as a line that bends off, statements of a source as a rounded box on
    one; those that would meet are counted."""
    waiting: list[tuple[float, str, str, int]] = []
    for x, kind, name in spots:
        shown = name if len(name) <= 14 else f"{name[:13]}…"
        begin = x if x + text_width(shown, size=11) + 30 <= end else x - text_width(shown, size=11) - 30
        if waiting and begin < waiting[-1][0] + text_width(waiting[-1][2], size=11) + 48:
            waiting[-1] = (*waiting[-1][:3], waiting[-1][3] + 1)
        else:
            waiting.append((x, kind, shown, 0))
    return "".join(
        _flag(x, kind, f"{name} +{more}" if more else name, top, foot, end) for x, kind, name, more in waiting
    )


def _flag(x: float, kind: str, shown: str, top: float, foot: float, end: float) -> str:
    wide = text_width(shown, size=11) + 16
    back = x + wide + 14 > end  # no room to the right
    anchor = "end" if back else None
    if kind == "branch":
        direction = -1 if back else 1
        bend = path(
            [f"M{num(x)} {num(foot)}V{num(top + 13)}q0 -6 {6 * direction} -6h{8 * direction}"],
            fill="none",
            stroke=var("ink2"),
        )
        dot = tag(
            "circle",
            cx=x + 18.0 * direction,
            cy=top + 7,
            r=3.5,
            fill=var("bg"),
            stroke=var("ink2"),
            stroke_width="1.5",
        )
        return bend + dot + text(x + 25 * direction, top + 11, shown, size=11, fill="ink", text_anchor=anchor)
    if kind == "statement":
        left = x - wide if back else x
        outline = rect(left, top, wide, 14, rx=4, fill=var("bg"), stroke=var("ink"))
        words = text(x + (-8 if back else 8), top + 11, shown, size=11, fill="ink", text_anchor=anchor)
        return line(x, top + 7, x, foot, stroke="ink", stroke_dasharray="2 3") + outline + words
    side, notch = (-1, 5) if back else (1, -5)
    outline = f"M{num(x)} {num(top)}H{num(x + side * wide)}l{notch} 7l{-notch} 7H{num(x)}"
    words = text(x + side * 5, top + 11, shown, size=11, fill="ink", text_anchor=anchor)
    pole = line(x, top, x, foot, stroke="ink2")
    return path([outline], fill=var("sel-tint"), stroke=var("ink2")) + pole + words
