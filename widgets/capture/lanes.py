"""The chunk map of a capture: a lane a table, its ranges of keys filling from the left as they are read.

Invariants: a box is as wide as its chunk has rows, of the rows of its table; what is read and committed is
solid, what is written and not committed pale, what is still to be read an empty outline; brackets below join
the chunks of a batch and name the position of the log from which they are followed; lanes keep their places.
Up to six tables have two lines each; of more, one line; of more than twelve, those that are being read come
first. Pure: called by `figure`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tablestore import CaptureChunk, CaptureModel, CaptureTable
from widgets.kit import format as fmt
from widgets.kit.svg import code, fit, num, path, text, text_width
from widgets.kit.theme import var

MARGIN, BOX, TALL_LANE, LANE = 16, 16, 42, 24
MOST, MOST_TALL, LEAST_BOX, MOST_CARDS = 12, 6, 4.0, 600
CARD_NAMES = ("keys", "rows", "read in", "batch", "followed from")


@dataclass(frozen=True, slots=True)
class Box:
    """Chunks that are drawn as one, from x to `right`."""

    x: float
    right: float
    chunks: tuple[CaptureChunk, ...]

    @property
    def committed(self) -> bool:
        return all(chunk.committed for chunk in self.chunks)


def chunk_map(model: CaptureModel, y: float, width: float) -> tuple[str, float, dict[str, Any]]:
    """The section from `y` on: its markup, where it ends, and where its boxes are."""
    tall = len(model.lanes) <= MOST_TALL
    shown = model.shown(MOST)
    longest = max((text_width(lane.source) for lane in shown), default=0.0) + 16
    left, right = (min(max(longest, 120.0), 0.24 * width), 196.0) if width >= 620 else (104.0, 92.0)
    room = width - 2 * MARGIN - left - right
    parts = [_heading(model, y, width)]
    top, boxes = y + 42, list[list[Any]]()
    for lane in shown:
        drawn_boxes = list(_boxes(lane, MARGIN + left, room))
        parts += [_names(lane, top, left, tall=tall), _counts(lane, top, width, right, tall=tall)]
        parts += [_drawn(lane, drawn_boxes, top, MARGIN + left, room)]
        if tall:
            parts.append(_watermarks(lane, drawn_boxes, top + BOX + 3))
        boxes += [_spot(lane, box, top) for box in drawn_boxes]
        top += TALL_LANE if tall else LANE
    if not shown:
        parts.append(text(MARGIN, top + 12, "No table yet: the first batch has not come.", fill="ink3"))
        top += LANE
    if len(model.lanes) > len(shown):
        words = f"… {fmt.plural(len(model.lanes) - len(shown), 'more table')}"
        parts.append(text(MARGIN, top + 12, words, fill="ink3"))
        top += LANE
    return "".join(parts), top + 2, {"boxes": boxes[-MOST_CARDS:], "chunk_names": list(CARD_NAMES)}


def _heading(model: CaptureModel, y: float, width: float) -> str:
    """How many tables there are and how many are read, and what the signs mean."""
    count, behind = len(model.lanes), model.snapshotting
    words = f"{count:,}, all read" if not behind else f"{count - behind:,} of {count:,} read"
    words = words if count else "none yet"
    after = MARGIN + text_width("Tables", size=13, weight=600) + 6
    parts = [text(MARGIN, y + 26, "Tables", size=13, fill="ink", weight=600), text(after, y + 26, words)]
    legend = [("solid", "read"), ("empty", "to be read")]
    if width >= 720:
        legend.append(("bracket", "a batch, and the log position it is followed from"))
    x = width - MARGIN - sum(text_width(word, size=11) * 0.94 + 30 for _, word in legend) + 14
    if x > after + text_width(words) + 16:
        for sign, word in legend:
            parts += [_sample(sign, x, y + 16), text(x + 18, y + 26, word, size=11)]
            x += text_width(word, size=11) * 0.94 + 30
    return "".join(parts)


def _sample(sign: str, x: float, y: float) -> str:
    if sign == "bracket":
        return path([_bracket(x, x + 12, y + 4)], fill="none", stroke=var("ink2"))
    if sign == "solid":
        return path([_outline(x, x + 12, y, 12)], fill=var("append"), class_="box")
    return path([_outline(x + 0.5, x + 11.5, y + 0.5, 11)], fill="none", stroke=var("line2"))


def _names(lane: CaptureTable, top: float, left: float, *, tall: bool) -> str:
    """The table of the source, and that of the lake where its name is another one."""
    gone = "ink3" if lane.ended else "ink"
    name = text(MARGIN, top + 12, fit(lane.source, left - 12), fill=gone)
    if not tall or not lane.table or lane.table == lane.source:
        return name
    return name + text(MARGIN, top + 28, fit(f"→ {lane.table}", left - 12, size=11), size=11, fill="ink3")


def _counts(lane: CaptureTable, top: float, width: float, room: float, *, tall: bool) -> str:
    """Rows read, changes, rows that could not be read; at the right."""
    passes = f"{lane.passes}× " if lane.passes > 1 else ""
    rows = passes + lane.text
    if text_width(rows) > room - 12:
        rows = f"{passes}{fmt.short_count(lane.rows)} rows" if lane.chunks else fit(rows, room - 12)
    extra = [] if lane.changes is None else [f"{lane.changes:,} changes" if lane.changes != 1 else "1 change"]
    x = width - MARGIN
    if not tall:
        short = f" · {fmt.short_count(lane.changes)} changes" if lane.changes else ""
        whole = rows + short if text_width(rows + short) <= room - 12 else rows
        bad = f"▲ {lane.bad_rows:,} bad"
        if lane.bad_rows:
            return text(x, top + 12, bad, fill="warn", weight=600, text_anchor="end")
        return text(x, top + 12, whole, fill="ink2", text_anchor="end")
    counts = text(x, top + 12, rows, fill="ink", text_anchor="end")
    if lane.bad_rows:
        bad = f"▲ {fmt.plural(lane.bad_rows, 'bad row')}"
        counts += text(x, top + 28, bad, size=11, fill="warn", weight=600, text_anchor="end")
        x -= text_width(bad, size=11, weight=600) + 10
    if extra and text_width(extra[0], size=11) < room - (width - MARGIN - x) - 4:
        counts += text(x, top + 28, extra[0], size=11, text_anchor="end")
    return counts


def _boxes(lane: CaptureTable, x: float, room: float) -> Iterator[Box]:
    """Boxes as wide as their rows; neighbours that would be narrower than 4 px are drawn as one."""
    remaining = lane.remaining
    share = room * 0.85 if remaining is None else room  # how much is to come is not known
    whole = max(lane.rows + (remaining or 0), 1)
    begin, at, taken = x, x, list[CaptureChunk]()
    empty = not lane.rows and bool(lane.chunks)
    for place, chunk in enumerate(lane.chunks):
        at += share / len(lane.chunks) if empty else share * chunk.report.rows / whole
        taken.append(chunk)
        last = place == len(lane.chunks) - 1
        if at - begin >= LEAST_BOX or last:
            yield Box(begin, max(at, begin + 2), tuple(taken))
            begin, taken = at, []


def _drawn(lane: CaptureTable, boxes: list[Box], top: float, x: float, room: float) -> str:
    """What is read, solid; what is to come, an empty outline, dashed where nobody knows how much it is."""
    fill = var("line2") if lane.ended else var("append")
    parts = []
    for committed, opacity in ((True, None), (False, "0.4")):
        some = [box for box in boxes if box.committed is committed]
        drawn = [_outline(box.x, max(box.right - 1, box.x + 1), top, BOX) for box in some]
        parts += [path(drawn, fill=fill, fill_opacity=opacity, class_="box")] if drawn else []
    end = boxes[-1].right if boxes else x
    if lane.snapshotting and x + room - end >= 4:
        dash = "3 3" if lane.remaining is None else None
        rest = _outline(end + 0.5, x + room - 0.5, top + 0.5, BOX - 1)
        parts.append(path([rest], fill="none", stroke=var("line2"), stroke_dasharray=dash))
    elif not boxes:
        words = "its rows are read; the log is followed" if not lane.ended else lane.ended
        parts.append(text(x + 8, top + 12, fit(words, room - 16, size=11), size=11, fill="ink3"))
    return "".join(parts)


def _watermarks(lane: CaptureTable, boxes: list[Box], y: float) -> str:
    """A bracket under the chunks of a batch; the log position where it fits, at least its end."""
    parts, steps, free = list[str](), list[str](), 0.0
    batches = groupby((box for box in boxes if box.committed), key=lambda box: box.chunks[-1].batch)
    for _, group in batches:
        some = list(group)
        begin, end = some[0].x, some[-1].right - 1
        if end - begin < 6:
            continue
        steps.append(_bracket(begin, end, y))
        position = some[-1].chunks[-1].position
        place = position.partition(" ")[0]  # without the GTID behind it
        for words in (position, place, place.rpartition(":")[2]):
            half = text_width(words, size=11, monospace=True) / 2
            middle = (begin + end) / 2
            if words and half * 2 <= end - begin + 24 and middle - half > free:
                parts.append(code(middle, y + 16, words, text_anchor="middle", fill="ink3"))
                free = middle + half + 8
                break
    return path(steps, fill="none", stroke=var("ink2")) + "".join(parts) if steps else ""


def _bracket(begin: float, end: float, y: float) -> str:
    """⊏ and ⊐ lying below boxes."""
    return f"M{num(begin + 0.5)} {num(y - 2)}v4H{num(end - 0.5)}v-4"


def _outline(begin: float, end: float, y: float, tall: float) -> str:
    """A box with round corners where it is wide enough."""
    wide = end - begin
    if wide < 6:
        return f"M{num(begin)} {num(y)}h{num(wide)}v{num(tall)}h{num(-wide)}z"
    across, down = num(wide - 4), num(tall - 4)
    return f"M{num(begin + 2)} {num(y)}h{across}q2 0 2 2v{down}q0 2-2 2h-{across}q-2 0-2-2v-{down}q0-2 2-2z"


def _spot(lane: CaptureTable, box: Box, top: float) -> list[Any]:
    """Where a box is, and the words of its card in the order of `CARD_NAMES`."""
    first, last = box.chunks[0], box.chunks[-1]
    rows = sum(chunk.report.rows for chunk in box.chunks)
    low = "the first" if first.report.low is None else fmt.key(first.report.low)
    high = "the last" if last.report.high is None else fmt.key(last.report.high)
    took = sum(chunk.report.ended - chunk.report.started for chunk in box.chunks)
    many = f" in {len(box.chunks):,} chunks" if len(box.chunks) > 1 else ""
    position = last.position or "not committed yet"
    words = [f"{low} … {high}", f"{rows:,}{many}", fmt.seconds_text(took), f"#{last.batch}", position]
    heading = fmt.value(lane.source) or ""
    return [round(box.x, 1), top, round(box.right - box.x, 1), BOX, heading, *(fmt.value(w) for w in words)]
