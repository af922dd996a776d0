"""The timeline as SVG: one glyph and two bars a commit, or density with a lens when commits stand too close.

Invariants: x is commit order; both bars are linear from 0; the height depends on the number of commits
only, so it never changes while one scrubs. Hit regions and the words of each visible commit go into
`Figure.meta`. Pure: model → `Figure`. Called by the widget and by the static export.
"""

from dataclasses import dataclass

import numpy as np

from widgets import _format as fmt
from widgets._svg import Figure, group, hatch, line, num, path, rect, tag, text, text_width
from widgets._theme import var
from widgets.timeline.model import (
    ANALYZE,
    APPEND,
    COMPACT,
    KINDS,
    OVERWRITE,
    PAGE,
    TimelineModel,
    bins,
    page_of,
)

MARGIN, GUTTER = 16, 84
LENS, GHOST = 12, 20
PILL, REFS, ROWS, COMMIT, REWRITTEN, IDS = 26, 18, 42, 28, 32, 22
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

    @property
    def step(self) -> float:
        """Pixels from one commit to the next."""
        return min(self.width / max(self.last - self.first, 1), 44.0)

    def at(self, index: int) -> float:
        """The x of a commit."""
        return self.x + (index - self.first + 0.5) * self.step

    @property
    def line_y(self) -> float:
        """The y of the commit line."""
        return self.y + PILL + REFS + ROWS + COMMIT / 2


def is_dense(model: TimelineModel, width: float) -> bool:
    """Whether single commits would stand closer than 6 px."""
    room = width - 2 * MARGIN - GUTTER - _ghosts(model) * GHOST
    return len(model) * MIN_STEP > room


def timeline_figure(model: TimelineModel, *, index: int, width: float, cursor: bool = True) -> Figure:
    """The picture with the commit at `index` selected. `cursor=False` leaves the selection to the page."""
    if not len(model):
        return _empty(width)
    dense = is_dense(model, width)
    body, regions = [hatch()], []
    if dense:
        body.append(_density(model, width=width, index=index))
        regions.append(
            {"x": MARGIN + GUTTER, "y": 0, "h": 136, "w": width - 2 * MARGIN - GUTTER, "n": len(model)}
        )
        first = page_of(index) * PAGE
        room = width - 2 * MARGIN - GUTTER - 2 * LENS
        strip = Strip(MARGIN + GUTTER + LENS, 168, room, first, min(first + PAGE, len(model)), LENS)
        height = strip.y + PILL + REFS + ROWS + COMMIT + REWRITTEN + IDS + 12
    else:
        lead = float(_ghosts(model) * GHOST)
        strip = Strip(MARGIN + GUTTER + lead, 0, width - 2 * MARGIN - GUTTER - lead, 0, len(model))
        height = PILL + REFS + ROWS + COMMIT + REWRITTEN + IDS
        body.append(_expired(model, strip, lead))
    body.append(_strip(model, strip))
    body.append(_cursor(model, strip, index, width) if cursor else "")
    regions.append(
        {"x": strip.x, "y": strip.y, "h": height - strip.y, "step": strip.step, "first": strip.first}
    )
    shown = range(strip.first, strip.last)
    meta: dict[str, object] = {
        "regions": regions,
        "first": strip.first,
        "last": strip.last,
        "count": len(model),
        "lineY": strip.line_y,
        "top": strip.y,
        "bottom": strip.line_y + COMMIT / 2 + REWRITTEN - 6,
        "says": [model.sentence(i) for i in shown],
        "spoken": [model.spoken(i) for i in shown],
    }
    return Figure(width, height, "".join(body), _label(model, index), meta)


def _label(model: TimelineModel, index: int) -> str:
    return f"Snapshots: {len(model):,} commits, selected {model.spoken(index)}"


def _empty(width: float) -> Figure:
    height = PILL + REFS + ROWS + COMMIT + REWRITTEN + IDS
    y = PILL + REFS + ROWS
    body = line(MARGIN + GUTTER, y, width - MARGIN, y) + line(
        MARGIN + GUTTER, y + COMMIT, width - MARGIN, y + COMMIT
    )
    body += text(MARGIN, y + 18, "commit") + text(
        MARGIN + GUTTER, y - 24, "Nothing written yet.", fill="ink", weight=600
    )
    body += text(MARGIN + GUTTER, y - 8, "The first commit appears here after refresh().")
    meta: dict[str, object] = {"regions": [], "first": 0, "last": 0, "count": 0, "says": [], "spoken": []}
    return Figure(width, height, body, "Snapshots: nothing written yet", meta)


def _ghosts(model: TimelineModel) -> int:
    return min(model.expired, 4)


def _expired(model: TimelineModel, strip: Strip, lead: float) -> str:
    """Hollow dashed glyphs on a hatch for the commits before the oldest one left."""
    if not lead:
        return ""
    top = strip.y + PILL + REFS
    x = strip.x - lead
    parts = [rect(x, top, lead - 6, ROWS + COMMIT + REWRITTEN, fill="url(#lw-ghost)")]
    for i in range(round(lead / GHOST)):
        ring = {"fill": var("bg"), "stroke": var("ink3"), "stroke_dasharray": "2 2"}
        parts.append(tag("circle", cx=x + 7 + i * 19.0, cy=strip.line_y, r=3.5, **ring))
    parts.append(
        text(x, top + ROWS + COMMIT + REWRITTEN + 14, f"expired 1–{model.expired}", size=11, fill="ink3")
    )
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
        return tag(
            "circle", cx=float(x), cy=float(y), r=size - 1, fill=var("bg"), stroke=fill, stroke_width="1.75"
        )
    return tag("circle", cx=float(x), cy=float(y), r=float(size), fill=fill)


def _strip(model: TimelineModel, strip: Strip) -> str:
    """Rows added above the commit line, bytes rewritten below it, ids under both."""
    shown = slice(strip.first, strip.last)
    rows, rewritten = model.rows[shown], model.rewritten[shown]
    base, under = strip.line_y - COMMIT / 2, strip.line_y + COMMIT / 2
    left = strip.x - (0 if strip.inset else _ghosts(model) * GHOST)
    end = strip.x + strip.width
    bar = min(max(strip.step * 0.62, 3.0), 14.0)
    up, down = ROWS / max(int(rows.max()), 1), (REWRITTEN - 2) / max(int(rewritten.max()), 1)
    parts = [line(left, base, end, base), line(left, under, end, under)]
    parts += _gutter(MARGIN + strip.inset, strip.y + PILL + REFS, int(rows.max()), int(rewritten.max()))
    size = 4.5 if strip.step >= 12 else 3.0
    for i in range(strip.first, strip.last):
        x, kind = strip.at(i), int(model.kinds[i])
        if model.rows[i]:
            tall = max(float(model.rows[i]) * up, 1.0)
            parts.append(rect(x - bar / 2, base - tall, bar, tall, rx=1, fill=var(FILLS[kind])))
        if model.rewritten[i]:
            tall = max(float(model.rewritten[i]) * down, 1.0)
            parts.append(rect(x - bar / 2, under, bar, tall, rx=1, fill=var("compact")))
        parts.append(glyph(kind, x, strip.line_y, size=size))
    parts.append(_ids(model, strip, under + REWRITTEN + 17))
    parts.append(_flags(model, strip))
    return "".join(parts)


def _gutter(x: float, top: float, rows: int, rewritten: int, *, dense: bool = False) -> list[str]:
    """The words at the left: what the bars count and their largest value."""
    height = 64 if dense else ROWS
    y = top + 12
    middle = top + height + COMMIT / 2 + 4
    below = top + height + COMMIT + 10
    return [
        text(x, y, "rows added", size=11),
        text(x, y + 14, f"max {fmt.short_count(rows)}", size=11),
        text(x, middle, "rare" if dense else "commit", size=11),
        text(x, below, "rewritten", size=11),
        text(x, below + 14, f"max {fmt.bytes_text(rewritten)}" if rewritten else "nothing yet", size=11),
    ]


def _ids(model: TimelineModel, strip: Strip, y: float) -> str:
    """Ids at round numbers, as many as fit without touching."""
    widest = text_width(f"#{model.ids[strip.last - 1]}", size=11) + 18
    every = next(n for n in _rounds() if n * strip.step >= widest)
    parts = []
    for i in range(strip.first, strip.last):
        if int(model.ids[i]) % every == 0:
            parts.append(text(strip.at(i), y, f"#{model.ids[i]}", size=11, text_anchor="middle"))
    if not parts:
        parts.append(text(strip.at(strip.first) - 4, y, f"#{model.ids[strip.first]}", size=11))
    return "".join(parts)


def _rounds() -> list[int]:
    return [n * 10**power for power in range(12) for n in (1, 2, 5)]


def _flags(model: TimelineModel, strip: Strip) -> str:
    """Tags as flags on a pole; those that would meet become one with a count."""
    parts: list[str] = []
    waiting: list[tuple[float, str, int]] = []
    for name, snapshot in model.tags:
        index = model.index_of(snapshot)
        if index is None or not strip.first <= index < strip.last:
            continue
        x = strip.at(index)
        if waiting and x < waiting[-1][0] + text_width(waiting[-1][1], size=11) + 48:
            waiting[-1] = (waiting[-1][0], waiting[-1][1], waiting[-1][2] + 1)
        else:
            waiting.append((x, name if len(name) <= 14 else f"{name[:13]}…", 0))
    for x, name, more in waiting:
        shown = f"{name} +{more}" if more else name
        wide = text_width(shown, size=11) + 16
        top, right = strip.y + PILL, x + wide
        outline = f"M{num(x)} {num(top)}H{num(right)}l-5 7l5 7H{num(x)}"
        parts.append(path([outline], fill=var("sel-tint"), stroke=var("ink2")))
        parts.append(line(x, top, x, strip.line_y - 8, stroke="ink2"))
        parts.append(text(x + 5, top + 11, shown, size=11, fill="ink"))
    return "".join(parts)


def _cursor(model: TimelineModel, strip: Strip, index: int, width: float) -> str:
    """Ring on the glyph, line through the view, pill above, handle below."""
    if not strip.first <= index < strip.last:
        return ""
    x, top = strip.at(index), strip.y
    bottom = strip.line_y + COMMIT / 2 + REWRITTEN - 6
    says = model.sentence(index)
    wide = text_width(says, size=12, weight=600) + 20
    left = min(max(x - wide / 2, MARGIN), width - MARGIN - wide)
    return group(
        line(x, top + 20, x, strip.line_y - 9, stroke="ink", stroke_width=2),
        line(x, strip.line_y + 9, x, bottom, stroke="ink", stroke_width=2),
        tag("circle", cx=x, cy=strip.line_y, r=9, fill="none", stroke=var("ink"), stroke_width=2),
        path([f"M{num(x - 5)} {num(bottom)}h10v5l-5 5l-5 -5Z"], fill=var("ink")),
        rect(left, top, wide, 22, rx=4, fill=var("ink")),
        text(left + wide / 2, top + 15, says, fill="bg", weight=600, text_anchor="middle"),
        class_="cursor",
    )


def _density(model: TimelineModel, *, width: float, index: int) -> str:
    """All commits as bins: rows up, rewritten bytes down, rare kinds as glyphs, a brush over the page."""
    left, right = MARGIN + GUTTER, width - MARGIN
    binned = bins(model, int((right - left) // BIN))
    places = len(binned.append)
    pitch = (right - left) / places
    base, under = 72.0, 72.0 + COMMIT
    total = binned.append + binned.overwrite
    up, down = 64 / max(int(total.max()), 1), 40 / max(int(binned.rewritten.max()), 1)
    xs = left + np.arange(places) * pitch
    parts = _gutter(MARGIN, 8, int(total.max()), int(binned.rewritten.max()), dense=True)
    parts += [
        _columns(xs, np.full(places, base), -binned.append * up, pitch, "append"),
        _columns(xs, base - binned.append * up, -binned.overwrite * up, pitch, "overwrite"),
        _columns(xs, np.full(places, under), binned.rewritten * down, pitch, "compact"),
        line(left, base, right, base, stroke="line2"),
        line(left, under, right, under, stroke="line2"),
        _rare(binned.rare, left, pitch, base + COMMIT / 2),
    ]
    parts.append(_density_ids(model, left, right))
    first = page_of(index) * PAGE
    share = (right - left) / len(model)
    x, wide = left + first * share, max(min(PAGE, len(model) - first) * share, 8.0)
    x = min(x, right - wide)
    wedge = f"M{num(x)} 144L{num(MARGIN)} 164H{num(right)}L{num(x + wide)} 144Z"
    parts.insert(0, path([wedge], fill=var("panel")))
    parts.insert(0, rect(MARGIN, 164, right - MARGIN, 180, rx=6, fill=var("panel")))
    parts.append(rect(x - 1.5, 4, wide + 3, 140, rx=4, fill="none", stroke=var("ink"), stroke_width=2))
    return "".join(parts)


def _columns(xs: np.ndarray, ys: np.ndarray, heights: np.ndarray, pitch: float, fill: str) -> str:
    """Bars of one colour as a single path."""
    steps = [
        f"M{num(x)} {num(y)}v{num(tall)}h{num(pitch - 1)}v{num(-tall)}z"
        for x, y, tall in zip(xs.tolist(), ys.tolist(), heights.tolist(), strict=True)
        if abs(tall) >= 0.05
    ]
    return path(steps, fill=var(fill)) if steps else ""


def _rare(rare: tuple[tuple[int, int, int], ...], left: float, pitch: float, y: float) -> str:
    """Single glyphs of rare kinds; those that would meet become one group, a glyph a kind with `×3`."""
    groups: list[tuple[float, dict[int, int]]] = []
    for place, kind, number in rare:
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


def _density_ids(model: TimelineModel, left: float, right: float) -> str:
    """First and last id, and round ones between them."""
    parts = [text(left, 156, f"#{model.ids[0]}", size=11)]
    count = len(model)
    every = next(n for n in _rounds() if n * (right - left) / count >= 120)
    for at in range(0, count):
        if int(model.ids[at]) % every == 0:
            x = left + (at + 0.5) * (right - left) / count
            if left + 60 < x < right - 70:
                parts.append(text(x, 156, f"#{model.ids[at]}", size=11, text_anchor="middle"))
    parts.append(text(right, 156, f"#{model.ids[-1]}", size=11, text_anchor="end"))
    return "".join(parts)


def legend(width: float) -> Figure:
    """The four kinds with their words, fewer of them when it is narrow."""
    words = ("APPEND adds rows", "COMPACT rewrites, adds none", *KINDS[2:]) if width >= 900 else KINDS
    parts, x = [], 0.0
    for kind, word in enumerate(words):
        parts.append(glyph(kind, x + 6, 10) + text(x + 16, 14, word, size=11))
        x += text_width(word, size=11) + 30
    return Figure(x - 10, 20, group(*parts), ", ".join(KINDS))
