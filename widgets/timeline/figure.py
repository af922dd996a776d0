"""The timeline as SVG: one glyph and two bars a commit, or density with a lens when commits stand too close.

Invariants: x is commit order; both bars are linear from 0; the height depends on the number of commits
only, so it never changes while one scrubs. Hit regions and the words of each visible commit go into
`Figure.meta`. Pure: model → `Figure`. Called by the widget and by the static export.
"""

from widgets.kit.svg import Figure, group, hatch, line, num, path, rect, tag, text, text_width
from widgets.kit.theme import var
from widgets.timeline import density
from widgets.timeline.model import KINDS, PAGE, TimelineModel, page_of
from widgets.timeline.strip import (
    BIN,
    COMMIT,
    GHOST,
    GUTTER,
    IDS,
    MARGIN,
    MIN_STEP,
    PILL,
    REFS,
    REWRITTEN,
    ROWS,
    Strip,
    glyph,
    strip_figure,
)

LENS_INSET = 12
RING = 4
"""Room for the ring of focus around the picture."""
TALL = PILL + REFS + ROWS + COMMIT + REWRITTEN + IDS
MAX_SPOKEN = 240
"""More commits than this in view get no words each; the view asks for the words of the chosen one."""


def is_dense(model: TimelineModel, width: float) -> bool:
    """Whether single commits would stand closer than 6 px."""
    room = width - 2 * MARGIN - GUTTER - _ghosts(model) * GHOST
    return len(model) * MIN_STEP > room


def commits_a_bar(model: TimelineModel, width: float) -> int:
    """How many commits one bar of the density stands for."""
    room = width - MARGIN - density.left_of(model)
    return -(-len(model) // int(room // BIN))


def shown_at(
    model: TimelineModel, index: int, width: float, chosen: tuple[int, int] | None
) -> tuple[int, int]:
    """The positions [from, to) that stand one by one: what was chosen, else all, or a page around `index`."""
    if chosen is not None and chosen[1] > chosen[0]:
        return chosen
    if not is_dense(model, width):
        return 0, len(model)
    first = page_of(index) * PAGE
    return first, min(first + PAGE, len(model))


def timeline_figure(
    model: TimelineModel,
    *,
    index: int,
    width: float,
    cursor: bool = True,
    chosen: tuple[int, int] | None = None,
) -> Figure:
    """The picture with the commit at `index` selected. `cursor=False` leaves the selection to the page;
    `chosen` are the positions [from, to) to show, by default as many as can stand one by one."""
    if not len(model):
        return _empty(width)
    first, last = shown_at(model, index, width, chosen)
    body, regions, dense = [hatch()], [], is_dense(model, width)
    if dense:
        tall = TALL + 8
        left = density.left_of(model)
        body.append(density.density(model, width=width, shown=(first, last), tall=tall))
        over = {"y": 0, "h": density.LENS - 4, "axis": density.UNDER + density.DOWN, "cursor": density.CURSOR}
        regions.append({"x": left, "w": width - MARGIN - left, "n": len(model), **over})
        body.append(density.cursor(model, index, left, width - MARGIN - left) if cursor else "")
        room = width - 2 * MARGIN - GUTTER - 2 * LENS_INSET
        strip = Strip(MARGIN + GUTTER + LENS_INSET, density.LENS + 4, room, first, last, LENS_INSET)
        height = density.LENS + tall
    else:
        lead = float(_ghosts(model) * GHOST) if first == 0 else 0.0
        left = MARGIN + GUTTER + lead
        strip, height = Strip(left, RING, width - MARGIN - left, first, last, lead=lead), TALL + 2 * RING
    body.append(strip_figure(model, strip))
    body.append(_cursor(model, strip, index, width) if cursor else "")
    regions.append({"x": strip.x, "y": strip.y, "h": height - strip.y, "step": strip.step, "first": first})
    meta = _meta(model, strip) | {"regions": regions}
    return Figure(width, height, "".join(body), _label(model, index), meta)


def _meta(model: TimelineModel, strip: Strip) -> dict[str, object]:
    """Where the cursor goes, and the words of every commit in view unless they are too many."""
    shown = range(strip.first, min(strip.last, strip.first + MAX_SPOKEN))
    spoken = shown if strip.last - strip.first <= MAX_SPOKEN else ()
    return {
        "first": strip.first,
        "last": strip.last,
        "count": len(model),
        "ids": model.spans,
        "lineY": strip.line_y,
        "top": strip.y,
        "bottom": strip.under + REWRITTEN - 6,
        "says": [model.sentence(i) for i in spoken],
        "spoken": [model.spoken(i) for i in spoken],
        "kinds": "".join(str(int(model.kinds[i])) for i in spoken),
    }


def _label(model: TimelineModel, index: int) -> str:
    return f"Snapshots: {len(model):,} commits, selected {model.spoken(index)}"


def _empty(width: float) -> Figure:
    y = PILL + REFS + ROWS
    body = line(MARGIN + GUTTER, y, width - MARGIN, y) + line(
        MARGIN + GUTTER, y + COMMIT, width - MARGIN, y + COMMIT
    )
    body += text(MARGIN, y + 18, "commit") + text(
        MARGIN + GUTTER, y - 24, "Nothing written yet.", fill="ink", weight=600
    )
    body += text(MARGIN + GUTTER, y - 8, "The first commit appears here after refresh().")
    meta: dict[str, object] = {
        "regions": [],
        "first": 0,
        "last": 0,
        "count": 0,
        "ids": [],
        "says": [],
        "spoken": [],
    }
    return Figure(width, TALL + 2 * RING, body, "Snapshots: nothing written yet", meta)


def _ghosts(model: TimelineModel) -> int:
    return min(model.expired - model.kept, 4) if model.expired > model.kept else 0


def _cursor(model: TimelineModel, strip: Strip, index: int, width: float) -> str:
    """Ring on the glyph, line through the view, pill above, handle below."""
    if not strip.first <= index < strip.last:
        return ""
    x, top, y = strip.at(index), strip.y, strip.line_y
    bottom = strip.under + REWRITTEN - 6
    says = model.sentence(index)
    wide = text_width(says, size=12, weight=600) + 20
    left = min(max(x - wide / 2, MARGIN), width - MARGIN - wide)
    return group(
        line(x, top + 20, x, y - 9, stroke="ink", stroke_width=2),
        line(x, y + 9, x, bottom, stroke="ink", stroke_width=2),
        tag("circle", cx=x, cy=y, r=9, fill="none", stroke=var("ink"), stroke_width=2),
        path([f"M{num(x - 5)} {num(bottom)}h10v5l-5 5l-5 -5Z"], fill=var("ink")),
        rect(left, top, wide, 22, rx=4, fill=var("ink")),
        text(left + wide / 2, top + 15, says, fill="bg", weight=600, text_anchor="middle"),
        class_="cursor",
    )


def legend(width: float, *, expired: bool = False) -> Figure:
    """The four kinds with their words, fewer of them when it is narrow; the sign of expiry if needed."""
    words = ("APPEND adds rows", "COMPACT rewrites, adds none", *KINDS[2:]) if width >= 1440 else KINDS
    parts, x = [], 0.0
    for kind, word in enumerate(words):
        parts.append(glyph(kind, x + 6, 10) + text(x + 16, 14, word, size=11))
        x += text_width(word, size=11) + 30
    if expired:
        ring = {"fill": "none", "stroke": var("ink3"), "stroke_dasharray": "2 2"}
        parts.append(tag("circle", cx=x + 6, cy=10, r=4, **ring) + text(x + 16, 14, "expired", size=11))
        x += text_width("expired", size=11) + 30
    return Figure(x - 10, 20, group(*parts), ", ".join(KINDS))
