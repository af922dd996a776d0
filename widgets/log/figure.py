"""The log and the lake as SVG: key figures, the log above, the snapshots below, a reader through both.

Invariants: one axis of offsets for all lanes; the newest snapshot's offsets are a line through all of them,
and what lies to its right is on a tint. Pure: model → `Figure`. Called by the widget and the static export.
"""

from __future__ import annotations

from widgets.kit import format as fmt
from widgets.kit.panel import ShownNumber, numbers
from widgets.kit.svg import Figure, hatch, line, rect, text, text_width
from widgets.kit.theme import var
from widgets.log.axis import axis
from widgets.log.lake import lake_lane
from widgets.log.lanes import log_lane
from widgets.log.model import LogModel, kept_in
from widgets.log.reader import reader_lane


def log_figure(model: LogModel, *, width: float) -> Figure:
    """The whole picture without its buttons."""
    figures, y = _figures(model, width)
    left, right = (112.0, 150.0) if width >= 700 else (92.0, 108.0)
    scale = axis(
        start=model.at(model.start),
        end=model.at(model.end),
        spans=model.spans,
        left=left,
        right=width - right,
    )
    log, log_end, spots = log_lane(model, scale, y, width)
    lake, lake_end, more = lake_lane(model, scale, log_end, width)
    reader, end = reader_lane(model, scale, lake_end, width)
    place, last = scale.x(model.at(model.in_files)), scale.x(model.at(model.end))
    top = y + 52
    behind = [hatch(), line(0, 1, width, 1), figures, line(0, y, width, y)]
    if model.log_only:
        behind.append(rect(place, top, last - place + 4, lake_end - top - 4, fill=var("sel-tint")))
    between = [line(0, log_end, width, log_end), line(0, lake_end, width, lake_end)]
    body = [*behind, *between[: 1 if model.reader is None else 2], log, lake, reader]
    if model.newest is not None:
        ends = [(top, log_end - 22), (log_end + 36, log_end + 70)]
        ends += [(lake_end + 38, lake_end + 60)] if model.reader is not None else []
        body += [line(place, a, place, b, stroke="ink", stroke_width=2, class_="newest") for a, b in ends]
        body.append(_pill(fmt.snapshot_id(model.newest.id), place, top, width))
    meta = {"spots": spots + more, "buckets": list(model.buckets)}
    return Figure(width, end + 4, "".join(body), _label(model), meta)


def _pill(words: str, x: float, y: float, width: float) -> str:
    """The id of the newest snapshot, above the line at its offsets."""
    wide = text_width(words, size=11) + 12
    left = min(max(x - wide / 2, 0), width - wide)
    box = rect(left, y - 16, wide, 16, rx=8, fill=var("ink"))
    return box + text(left + wide / 2, y - 4, words, size=11, fill="bg", text_anchor="middle")


def _label(model: LogModel) -> str:
    newest = model.newest
    named = "no snapshot" if newest is None else f"newest snapshot {fmt.snapshot_id(newest.id)}"
    return f"Log and lake of {model.title}, {kept_in(model)}: {named}, {model.rest_words}"


def _figures(model: LogModel, width: float) -> tuple[str, float]:
    """What is in the log, in files, in the log only; rows and bytes that the log holds."""
    start, end, files = (model.at(place) for place in (model.start, model.end, model.in_files))
    newest, topic = model.newest, model.topic is not None
    seen = "no rows are hidden" if not model.hidden else f"{_count(model.hidden)} hidden from readers"
    figures = [
        ShownNumber("log ends at", _count(end), f"starts at {_count(start)}"),
        ShownNumber(
            "in files up to", _count(files), "no snapshot" if newest is None else f"snapshot #{newest.id}"
        ),
        ShownNumber("in the log only", _count(model.log_only), seen),
        ShownNumber(
            "rows in the log", _count(model.rows), "the brokers know" if topic else fmt.bytes_text(model.size)
        ),
        ShownNumber("log files", fmt.ABSENT, "the brokers' own")
        if topic
        else ShownNumber("log files", f"{len(model.files):,}", _kinds(model)),
        ShownNumber("readers see rows", model.consistency, _seen(model)),
    ]
    return numbers(figures, width, per_row=6 if width >= 860 else 3)


def _count(value: int | None) -> str:
    return fmt.count(value) if value is None or value < 1_000_000 else fmt.short_count(value)


def _kinds(model: LogModel) -> str:
    rolled_up = sum(segment.rolled_up for segment in model.files)
    if not rolled_up:
        return "of a transaction each"
    return f"{fmt.plural(rolled_up, 'segment')}, rolled up"


def _seen(model: LogModel) -> str:
    if model.consistency == "eventual":
        return "at once"
    return "with their snapshot" if model.system == "embedded" else "with their transaction"
