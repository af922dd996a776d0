"""The upper lane: the log, its files from offset to offset, what has expired, what no snapshot names yet; and
the axis of offsets below it.

Invariants: a single file is pale, a segment that was rolled up is darker and has a tick for each transaction;
what has expired is ghost hatch; what lies behind the newest snapshot is on a tint. A row a bucket, up to
four; each row says its own offsets, since the axis adds them up. Pure. Called by `figure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from widgets.kit import format as fmt
from widgets.kit.svg import fit, group, line, num, path, rect, text, text_width
from widgets.kit.theme import var
from widgets.log.axis import OffsetAxis, OffsetGroup
from widgets.log.model import LogModel, LogSegment, Transaction, offsets_text

MARGIN, BOX, ROW, MOST_ROWS = 16, 18, 26, 4
Spot = list[Any]


def log_lane(model: LogModel, scale: OffsetAxis, y: float, width: float) -> tuple[str, float, list[Spot]]:
    """The section from `y` on: its markup, where it ends, and what is where."""
    rows = _rows(model)
    top = y + 54
    parts, spots = [_heading(model, y, width)], list[Spot]()
    for at, buckets in enumerate(rows):
        row = top + at * ROW
        parts.append(_row(model, scale, buckets, row, width))
        drawn, box_spots = _boxes(model, scale, buckets, row)
        parts.append(drawn)
        spots += box_spots
    bottom = top + len(rows) * ROW - (ROW - BOX)
    parts.append(_ticks(model, scale, bottom + 4, width))
    return "".join(parts), bottom + 26, spots


def _rows(model: LogModel) -> list[tuple[int, ...]]:
    """The buckets of each row."""
    if model.topic is None and 1 < len(model.shown) <= MOST_ROWS:
        return [(bucket,) for bucket in model.shown]
    return [model.shown]


def _heading(model: LogModel, y: float, width: float) -> str:
    """Log, what holds it, and what the signs mean."""
    name = text(MARGIN, y + 26, "Log", size=13, fill="ink", weight=600)
    x = width - MARGIN
    legend = [] if model.topic is not None else [("single", "one transaction"), ("segment", "rolled up")]
    legend += [("gone", "expired")] if model.at(model.start) else []
    legend = legend if width >= 480 else []
    wide = sum(text_width(word, size=11) * 0.94 + 32 for _, word in legend) - 14
    parts, at = [name], x - wide
    for sign, word in legend:
        parts += [_sample(sign, at, y + 15), text(at + 18, y + 26, word, size=11)]
        at += text_width(word, size=11) * 0.94 + 32
    after = MARGIN + text_width("Log", size=13, weight=600) + 8
    parts.append(text(after, y + 26, fit(_what(model), x - wide - after - 16)))
    return "".join(parts)


def _what(model: LogModel) -> str:
    if model.topic is not None:
        parts = [f"{b}: {model.start.get(b, 0):,} … {model.end[b]:,}" for b in model.shown]
        return f"offsets of partitions {' · '.join(parts)}; its segments are the brokers' own"
    files = model.files
    rolled_up = sum(segment.rolled_up for segment in files)
    words = fmt.plural(len(files) - rolled_up, "single file")
    return f"{words}, {fmt.plural(rolled_up, 'segment')}" if rolled_up else words


def _sample(sign: str, x: float, y: float) -> str:
    if sign == "gone":
        return _ghost(x, y, 12, 12)
    fill = var("l3") if sign == "segment" else var("l0")
    return rect(x + 0.5, y + 0.5, 11, 11, rx=2, fill=fill, stroke=var("edge"), class_="box")


def _row(model: LogModel, scale: OffsetAxis, buckets: tuple[int, ...], y: float, width: float) -> str:
    """Name and offsets of a row, and what has expired of it."""
    noun = "bucket" if model.topic is None else "partition"
    name = f"{noun} {buckets[0]}" if len(buckets) == 1 else f"{len(buckets)} {noun}s"
    parts = [text(MARGIN, y + 13, fit(name, scale.left - MARGIN - 8))]
    begin, end = (sum(place.get(b, 0) for b in buckets) for place in (model.start, model.end))
    words = f"{begin:,} … {end:,}"
    parts.append(text(width - MARGIN, y + 13, words, fill="ink", text_anchor="end"))
    start = scale.x(model.at(model.start))
    if model.at(model.start):
        parts.append(_ghost(scale.left, y, start - scale.left - 1, BOX))
        said = fit(f"{begin:,} gone", start - scale.left - 8, size=11)
        tall = rect(scale.left + 3, y + 3, text_width(said, size=11) + 2, 12, fill=var("bg"))
        parts += [tall, text(scale.left + 4, y + 13, said, size=11, fill="ink3")]
    if model.topic is not None and end > begin:
        x = scale.x(model.at(model.end))
        parts.append(rect(start + 0.5, y + 0.5, max(x - start - 1, 2), BOX - 1, rx=2, **_FILE))
    elif not model.files and not model.at(model.start):
        parts.append(line(scale.left, y + BOX / 2, scale.right, y + BOX / 2))
        parts.append(text(scale.left + 8, y + 13, "no rows yet", fill="ink3"))
    return "".join(parts)


_FILE = {"fill": var("l1"), "stroke": var("edge"), "class_": "box"}


def _ghost(x: float, y: float, wide: float, tall: float) -> str:
    """What is no longer there."""
    dashed = {"stroke": var("line2"), "stroke_dasharray": "2 3", "fill": "none"}
    return rect(x, y, wide, tall, fill="url(#lw-ghost)") + rect(
        x + 0.5, y + 0.5, wide - 1, tall - 1, **dashed
    )


def _boxes(model: LogModel, scale: OffsetAxis, buckets: tuple[int, ...], y: float) -> tuple[str, list[Spot]]:
    """The files with rows of these buckets."""
    parts, spots, files = list[str](), list[Spot](), model.files
    borders = _borders(model)
    for files_group in scale.groups:
        some = [
            f for f in files[files_group.first : files_group.last + 1] if any(b in f.end for b in buckets)
        ]
        if not some:
            continue
        x, right = scale.x(files_group.begin), scale.x(files_group.end)
        wide = max(right - x - 1, 2.0)
        segment = len(some) > 1 or some[0].rolled_up
        fill = var("l3") if segment else var("l0")
        parts.append(
            rect(x + 0.5, y + 0.5, wide - 1, BOX - 1, rx=2, fill=fill, stroke=var("edge"), class_="box")
        )
        if segment:
            parts.append(_inner(scale, files_group, borders, y))
        label = _box_label(some, buckets)
        if text_width(label, size=11) + 12 <= wide:
            middle = x + wide / 2
            ground = text_width(label, size=11) * 0.96 + 6
            if segment:
                parts.append(rect(middle - ground / 2, y + 2, ground, BOX - 4, fill=var("l3")))
            ink = var("on-iw") if segment else "ink"
            parts.append(text(middle, y + 13, label, size=11, fill=ink, text_anchor="middle"))
        spots.append([round(x, 1), y, round(wide, 1), BOX, *_card(model, some, buckets)])
    for begin, end in scale.gaps:
        x, right = scale.x(begin), scale.x(end)
        parts.append(text((x + right) / 2, y + 13, "≈", fill="ink3", text_anchor="middle"))
    return group(*parts), spots


def _borders(model: LogModel) -> list[int]:
    """Where transactions begin, on the axis."""
    at, borders = dict(model.start), list[int]()
    for transaction in model.transactions:
        borders.append(model.at({**at, **transaction.start}))
        at.update(transaction.end)
    return borders


def _inner(scale: OffsetAxis, group_: OffsetGroup, borders: Sequence[int], y: float) -> str:
    """The transactions in a segment, where there is room for their borders."""
    inside = sorted({scale.x(place) for place in borders if group_.begin < place < group_.end})
    if not inside or (scale.x(group_.end) - scale.x(group_.begin)) / (len(inside) + 1) < 4:
        return ""
    return path([f"M{num(x - 0.5)} {num(y + 1)}v{BOX - 2}" for x in inside], stroke=var("edge"), fill="none")


def _box_label(some: Sequence[LogSegment], buckets: tuple[int, ...]) -> str:
    if len(some) > 1:
        return f"{len(some):,} files"
    rows = sum(some[0].rows.get(bucket, 0) for bucket in buckets)
    return fmt.short_count(rows)


def _card(
    model: LogModel, some: Sequence[LogSegment], buckets: tuple[int, ...]
) -> tuple[str, list[list[str]]]:
    """Heading and facts of files."""
    first, last = some[0], some[-1]
    shown = [b for b in buckets if b in first.start or b in last.end]
    rows, size = (
        sum(of(segment).get(b, 0) for segment in some for b in buckets) for of in (_rows_of, _bytes_of)
    )
    name = first.name.lstrip("0") if len(some) == 1 else f"{len(some):,} files"
    facts = [
        ["offsets", f"{offsets_text(first.start, shown)} to {offsets_text(last.end, shown)}"],
        ["rows", fmt.count(rows)],
        ["bytes", fmt.bytes_text(size)],
        ["transactions", fmt.count(sum(segment.transactions for segment in some))],
        ["appended", fmt.stamp(last.last_time)],
    ]
    if len(some) == 1 and not first.rolled_up:
        facts.append(["mark", mark_text(_transaction_of(model, first))])
    return name, facts


def _rows_of(segment: LogSegment) -> Any:
    return segment.rows


def _bytes_of(segment: LogSegment) -> Any:
    return segment.bytes


def _transaction_of(model: LogModel, file: LogSegment) -> Transaction | None:
    return next((transaction for transaction in model.transactions if transaction.start == file.start), None)


def mark_text(transaction: Transaction | None) -> str:
    """Whose commit a transaction is."""
    if transaction is None or transaction.user is None:
        return "none: its rows were seen at once"
    number = (
        ""
        if transaction.identifier is None or transaction.identifier >= 1 << 62
        else f" · batch {transaction.identifier}"
    )
    return f"{fmt.value(transaction.user)}{number}"


def _ticks(model: LogModel, scale: OffsetAxis, y: float, width: float) -> str:
    """Offsets under the edges of files, as many as fit; the ends always."""
    edges = sorted({0, model.at(model.start), model.at(model.end), *(g.begin for g in scale.groups)})
    wanted = [model.at(model.end), model.at(model.start), 0, *edges[::-1]]
    parts = [line(scale.left, y, scale.right, y, stroke="line2")]
    taken = list[tuple[float, float]]()
    for offset in dict.fromkeys(wanted):
        x, words = scale.x(offset), f"{offset:,}"
        half = text_width(words, size=11) / 2 + 5
        if any(x - half < right and left < x + half for left, right in taken):
            continue
        taken.append((x - half, x + half))
        parts.append(line(x, y, x, y + 3, stroke="line2"))
        parts.append(text(x, y + 15, words, size=11, text_anchor="middle"))
    summed = len(model.shown) > 1
    parts.append(text(MARGIN, y + 15, "Σ offsets" if summed else "offsets", size=11, fill="ink3"))
    if summed and width >= 700:
        words = f"sum of {len(model.shown)} buckets"
        parts.append(text(width - MARGIN, y + 15, words, size=11, fill="ink3", text_anchor="end"))
    return "".join(parts)
