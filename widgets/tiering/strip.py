"""Rounds over time: a lane a table, each round as long as it took, and the heartbeats of the service below.

Invariants: all lanes share one axis of time; a round that committed is solid, one under way or without a
commit an outline, one that found nothing a tick; how it ended has a sign, too. A span without heartbeats is
tinted with its words through all lanes. Pure. Called by `tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tablestore import RoundReport, TableState
from widgets.kit import format as fmt
from widgets.kit.svg import line, num, path, rect, text, text_width
from widgets.kit.theme import var
from widgets.kit.time_axis import TimeAxis
from widgets.tiering.model import TieringModel, outcome_text, round_title, splits_text

WINDOW, BOX, LEAST = 300.0, 12, 3.0
MOST_SPOTS = 400
BEATS, AXIS = 22, 18


def time_axis(model: TieringModel, left: float, right: float) -> TimeAxis:
    """The axis of a picture: the last `WINDOW` seconds at most."""
    until = max(model.until, model.began + 1.0)
    return TimeAxis(left, right, max(model.began, until - WINDOW), until)


def rounds_strip(
    model: TieringModel, axis: TimeAxis, rows: Sequence[tuple[TableState, float]], top: float, bottom: float
) -> tuple[str, list[list[Any]]]:
    """The lanes of `rows` (a table, the middle of its lane), heartbeats and times below `bottom`; spots."""
    by_table: dict[str, list[RoundReport]] = {}
    for tiering_round in model.rounds:
        if (tiering_round.ended or axis.until) >= axis.began:
            by_table.setdefault(tiering_round.table, []).append(tiering_round)
    parts = [_silences(model, axis, top, bottom + BEATS)]
    spots = list[list[Any]]()
    for table, y in rows:
        parts.append(line(axis.left, y, axis.right, y))
        drawn, lane_spots = _lane(model, axis, by_table.get(table.table, []), y)
        parts.append(drawn)
        spots += lane_spots
    parts += [
        _heartbeats(model, axis, bottom + BEATS / 2),
        axis.times(bottom + BEATS + 14, fmt.clock, above=14),
    ]
    return "".join(parts), spots[-MOST_SPOTS:]


def _lane(
    model: TieringModel, axis: TimeAxis, rounds: Sequence[RoundReport], y: float
) -> tuple[str, list[list[Any]]]:
    """The rounds of one table: solid, outlines, ticks and signs, each kind as one path."""
    shapes: dict[str, list[str]] = {"committed": [], "open": [], "tick": [], "cross": [], "note": []}
    spots, chosen = list[list[Any]](), ""
    for tiering_round in rounds:
        x, right = (
            axis.x(tiering_round.started),
            axis.x(axis.until if tiering_round.ended is None else tiering_round.ended),
        )
        wide = max(right - x, LEAST)
        top, empty = y - BOX / 2, tiering_round.outcome == "empty"
        if empty:
            shapes["tick"].append(f"M{num(x + 0.5)} {num(y - 4)}v8")
        elif tiering_round.is_committed:
            shapes["committed"].append(f"M{num(x)} {num(top)}h{num(wide)}v{BOX}h{num(-wide)}z")
        elif not tiering_round.outcome or wide >= BOX:
            shapes["open"].append(f"M{num(x + 0.5)} {num(top + 0.5)}h{num(wide)}v{BOX - 1}h{num(-wide)}z")
        middle = x + wide / 2
        if tiering_round.outcome in ("failed", "dropped"):
            shapes["cross"].append(cross(middle, y))
        if tiering_round.outcome == "registered" or tiering_round.notes:
            shapes["note"].append(f"M{num(middle)} {num(y - 10)}l4 4-4 4-4-4z")
        if tiering_round is model.round:
            chosen = rect(
                x - 3, top - 3, wide + 6, BOX + 6, rx=4, fill="none", stroke=var("ink"), stroke_width="2"
            )
        spots.append(
            [
                round(x, 1),
                top,
                round(max(wide, 6.0), 1),
                BOX,
                *_card(tiering_round),
                tiering_round.table,
                tiering_round.number,
            ]
        )
    bg = var("bg")
    drawn = [
        path(shapes["tick"], fill="none", stroke=var("line2")) if shapes["tick"] else "",
        path(shapes["committed"], fill=var("append"), class_="box") if shapes["committed"] else "",
        path(shapes["open"], fill=bg, stroke=var("ink2"), class_="box") if shapes["open"] else "",
        path(shapes["cross"], fill="none", stroke=var("err"), stroke_width="2") if shapes["cross"] else "",
        path(shapes["note"], fill=bg, stroke=var("ink"), stroke_width="1.5") if shapes["note"] else "",
        chosen,
    ]
    return "".join(drawn), spots


def cross(x: float, y: float, half: float = 4) -> str:
    """The steps of a ✕."""
    wide = num(2 * half)
    return f"M{num(x - half)} {num(y - half)}l{wide} {wide}m0-{wide}l-{wide} {wide}"


def _card(report: RoundReport) -> tuple[str, list[list[str]]]:
    """Heading and facts of a round."""
    took = "under way" if report.ended is None else fmt.seconds_text(report.ended - report.started)
    facts = [
        ["table", report.table],
        ["began", f"{fmt.clock(report.started)} UTC, {took}"],
        ["read", f"{splits_text(report)}, {fmt.bytes_text(report.bytes)}"],
        ["outcome", outcome_text(report)],
        *(["note", note] for note in report.notes),
        *([name, fmt.seconds_text(seconds)] for name, seconds in report.seconds.items()),
    ]
    return round_title(report), [[fmt.value(k) or "", fmt.value(v) or ""] for k, v in facts]


def _silences(model: TieringModel, axis: TimeAxis, top: float, bottom: float) -> str:
    """Spans in which the service said nothing; the last one until now while it does not run."""
    parts = []
    for begin, end in model.silences:
        x, right = axis.x(begin), axis.x(end)
        if right - x < 2:
            continue
        parts.append(rect(x, top, right - x, bottom - top, fill=var("warn-tint")))
        for words in (
            f"no heartbeat for {fmt.seconds_text(end - begin)}",
            f"silent {fmt.seconds_text(end - begin)}",
        ):
            if right - x > text_width(words, size=11) + 6:
                parts.append(text(x + 4, top + 11, words, size=11, fill="warn"))
                break
    return "".join(parts)


def _heartbeats(model: TieringModel, axis: TimeAxis, y: float) -> str:
    """A tick each; one with errors or without an answer is a cross."""
    good, bad, last = list[str](), list[str](), -1e9
    for beat in model.report.heartbeats:
        if beat.time < axis.began:
            continue
        x = axis.x(beat.time)
        if beat.coordinator_epoch is None or beat.errors:
            bad.append(cross(x, y, 3))
        elif x - last >= 2:
            good.append(f"M{num(x)} {num(y - 4)}v8")
            last = x
    drawn = path(good, fill="none", stroke=var("ink3")) if good else ""
    drawn += path(bad, fill="none", stroke=var("err"), stroke_width="1.75") if bad else ""
    return line(axis.left, y, axis.right, y) + drawn
