"""The lower lane: the files of the table, a prefix of the log, and the snapshots at the offsets that they
name.

Invariants: each kind of commit has a line of its own, since all but APPEND repeat the offsets of the one
before: glyphs of several kinds are seen at one offset. Glyphs that would touch are one with their number; ids
stand where they fit, from the newest back, and committers where there is room beside. Pure. Called by
`figure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from widgets.kit import format as fmt
from widgets.kit.svg import code, fit, line, num, path, rect, text, text_width
from widgets.kit.theme import var
from widgets.log.axis import OffsetAxis
from widgets.log.model import LogModel, NamedSnapshot, offsets_text

MARGIN, TOUCH, BAR, PITCH = 16, 14.0, 10, 44
KINDS = ("APPEND", "COMPACT", "OVERWRITE", "ANALYZE")
Spot = list[Any]
_COLOURS = {"APPEND": "append", "COMPACT": "compact", "OVERWRITE": "overwrite", "ANALYZE": "analyze"}


def lake_lane(model: LogModel, scale: OffsetAxis, y: float, width: float) -> tuple[str, float, list[Spot]]:
    """The section from `y` on: its markup, where it ends, and what is where."""
    parts = [text(MARGIN, y + 26, "Lake", size=13, fill="ink", weight=600)]
    after = MARGIN + text_width("Lake", size=13, weight=600) + 8
    parts.append(text(after, y + 26, fit(_what(model), width - after - MARGIN)))
    top = y + 40
    parts += [text(MARGIN, top + 10, "files"), _prefix(model, scale, top, width)]
    bottom, spots = top + 30, list[Spot]()
    for kind in KINDS:
        some = [snapshot for snapshot in model.snapshots if snapshot.kind == kind]
        if some or kind == "APPEND":
            drawn, glyph_spots = _glyphs(model, scale, some, bottom, name=kind)
            parts.append(drawn)
            spots += glyph_spots
            bottom += PITCH
    return "".join(parts), bottom - 6, spots


def _what(model: LogModel) -> str:
    newest = model.newest
    if newest is None:
        return "no snapshot yet: every row is in the log only"
    older = f"; {fmt.plural(model.older_snapshots, 'older one')} not drawn" if model.older_snapshots else ""
    named = offsets_text(model.in_files, model.shown)
    return f"newest {fmt.snapshot_id(newest.id)} names {named}; {model.rest_words}{older}"


def _prefix(model: LogModel, scale: OffsetAxis, y: float, width: float) -> str:
    """The rows of the log that are in files: from its first to the offsets of the newest snapshot."""
    place = model.at(model.in_files)
    end = scale.x(place)
    words = text(width - MARGIN, y + 10, f"0 … {place:,}", fill="ink", text_anchor="end")
    if not place:
        return words + line(scale.left, y + BAR / 2, scale.right, y + BAR / 2)
    wide = max(end - scale.left, 2)
    return words + rect(scale.left, y, wide, BAR, rx=2, fill=var("append"), class_="box")


def _glyphs(
    model: LogModel, scale: OffsetAxis, snapshots: Sequence[NamedSnapshot], y: float, *, name: str
) -> tuple[str, list[Spot]]:
    """A line of commits from the newest to the oldest: glyphs, then ids and committers where they fit."""
    parts = [text(MARGIN, y + 4, name, size=11), line(scale.left, y, scale.right, y)]
    clusters = _clusters(model, scale, snapshots)
    ids, spots = _Row(scale.right + 60), list[Spot]()
    labelled = list[tuple[float, str]]()
    for x, some in clusters:
        newest = some[-1]
        parts.append(glyph(newest.kind, x, y))
        spots.append([round(x - 7, 1), y - 8, 14, 16, *_card(model, some)])
        label = fmt.snapshot_id(newest.id) + (f" ×{len(some)}" if len(some) > 1 else "")
        if ids.takes(x, text_width(label, size=11)):
            parts.append(text(x, y + 18, label, size=11, fill="ink", text_anchor="middle"))
            names = {snapshot.user for snapshot in some}
            labelled += [(x, _short(newest.user))] if len(names) == 1 else []
    users = _Row(scale.right + 60)
    for x, who in labelled:
        if users.takes(x, text_width(who, size=11, monospace=True)):
            parts.append(code(x, y + 31, who, text_anchor="middle", fill="ink3"))
    return "".join(parts), spots[::-1]


class _Row:
    """A line of labels that is filled from the right."""

    def __init__(self, end: float) -> None:
        self._free = end

    def takes(self, x: float, width: float) -> bool:
        """Whether a label around x fits before those that were taken."""
        fits = x + width / 2 <= self._free
        if fits:
            self._free = x - width / 2 - 8
        return fits


def _short(user: str) -> str:
    """The beginning of a committer's name: most are random."""
    return fit(user, 52, size=11, monospace=True)


def _clusters(
    model: LogModel, scale: OffsetAxis, snapshots: Sequence[NamedSnapshot]
) -> list[tuple[float, list[NamedSnapshot]]]:
    """The newest first: (x, snapshots whose glyphs would touch there, oldest first)."""
    clusters: list[tuple[float, list[NamedSnapshot]]] = []
    for snapshot in reversed(snapshots):
        if snapshot.offsets is None:
            continue
        x = scale.x(model.at(snapshot.offsets))
        if clusters and abs(clusters[-1][0] - x) < TOUCH:
            clusters[-1][1].insert(0, snapshot)
        else:
            clusters.append((x, [snapshot]))
    return clusters


def glyph(kind: str, x: float, y: float) -> str:
    """● APPEND, ◆ COMPACT, ■ OVERWRITE, ○ ANALYZE."""
    colour = var(_COLOURS.get(kind, "ink"))
    if kind == "COMPACT":
        return path([f"M{num(x)} {num(y - 6)}l6 6l-6 6l-6 -6z"], fill=colour, class_="mark")
    if kind == "OVERWRITE":
        return rect(x - 5, y - 5, 10, 10, fill=colour, class_="mark")
    circle = f"M{num(x - 5)} {num(y)}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"
    if kind == "ANALYZE":
        return path([circle], fill=var("bg"), stroke=colour, stroke_width=2, class_="mark")
    return path([circle], fill=colour, class_="mark")


def _card(model: LogModel, some: Sequence[NamedSnapshot]) -> tuple[str, list[list[str]]]:
    newest, oldest = some[-1], some[0]
    name = f"snapshot {fmt.snapshot_id(newest.id)}"
    if len(some) > 1:
        name = f"{len(some)} snapshots, {fmt.snapshot_id(oldest.id)} to {fmt.snapshot_id(newest.id)}"
    assert newest.offsets is not None, "those without any are not drawn"
    return name, [
        ["kind", newest.kind],
        ["names offsets", offsets_text(newest.offsets, model.shown)],
        ["committed by", fmt.value(newest.user) or fmt.ABSENT],
        ["committed", fmt.stamp(newest.time)],
    ]
