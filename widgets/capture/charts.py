"""A capture over time, and its freshness as a distribution.

Invariants: the strips share one axis of time, so that what happens at once stands below each other; all y
axes are linear from 0 with their greatest value at the left; a schema change is a dashed line through all
strips with its number; batches closer than the columns of a strip share a column, which shows the greatest
value, of medians the mean. Pure: called by `figure`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from tablestore import BatchReport, CaptureModel
from widgets.kit import format as fmt
from widgets.kit.svg import code, fit, line, num, path, rect, tag, text, text_width
from widgets.kit.theme import var
from widgets.kit.time_axis import TimeAxis

GUTTER, STRIP, GAP, COLUMN = 62, 40, 30, 3.0
SHARES = (0.5, 0.95, 0.99)
CARD_NAMES = ("visible at", "log position", "rows read", "changes", "log", "behind", "freshness")
MOST_CARDS = 300


class CaptureAxis(TimeAxis):
    """Time to x, and to columns of bars."""

    @property
    def columns(self) -> int:
        """How many columns of bars there are."""
        return max(int((self.right - self.left) // COLUMN), 1)

    @property
    def column_seconds(self) -> float:
        """The time of a column."""
        return max(self.until - self.began, 1e-9) / self.columns

    def column(self, time: float) -> int:
        """The column of a moment."""
        return min(max(int((time - self.began) / self.column_seconds), 0), self.columns - 1)


def over_time(model: CaptureModel, x: float, y: float, width: float) -> tuple[str, float, dict[str, Any]]:
    """Rows a second, freshness and log behind, one below the other; where they end; what the page needs."""
    axis = CaptureAxis(x + GUTTER, x + width, model.began, max(model.until, model.began + 1.0))
    tops = [y + 26 + at * (STRIP + GAP) for at in range(4)]
    bottom = tops[-1] + STRIP
    parts = [_pauses(model, axis, tops[0], bottom)]
    strips = (_read, _changed, _freshness, _behind)
    parts += [strip(model, axis, top) for strip, top in zip(strips, tops, strict=True)]
    parts.append(_schema_marks(model, axis, tops, bottom + 12))
    parts.append(axis.times(bottom + 36, fmt.clock, above=36))
    spots = _spots(model, axis)
    meta = {"batches": spots, "batch_names": list(CARD_NAMES), "top": tops[0] - 4, "bottom": bottom}
    return "".join(parts), bottom + 42, meta | {"left": axis.left, "right": axis.right}


def _head(axis: CaptureAxis, top: float, title: str, remark: str, greatest: str) -> str:
    """Name, remark, the ends of the y axis and its hairlines."""
    x = axis.left - GUTTER
    after = x + text_width(title, size=13, weight=600) + 8
    return (
        text(x, top - 9, title, size=13, fill="ink", weight=600)
        + text(after, top - 9, fit(remark, axis.right - after, size=11), size=11)
        + line(axis.left, top, axis.right, top)
        + line(axis.left, top + STRIP, axis.right, top + STRIP, stroke="line2")
        + text(axis.left - 6, top + 8, greatest, size=11, text_anchor="end")
        + text(axis.left - 6, top + STRIP, "0", size=11, text_anchor="end")
    )


def _read(model: CaptureModel, axis: CaptureAxis, top: float) -> str:
    """Rows of snapshots a second of each column."""
    return _speeds(
        model, axis, top, ("Rows read", "of snapshots, a second", "append"), of=attrgetter("snapshot_rows")
    )


def _changed(model: CaptureModel, axis: CaptureAxis, top: float) -> str:
    """Changes a second of each column."""
    return _speeds(
        model, axis, top, ("Changes", "row images of the log, a second", "append"), of=attrgetter("changes")
    )


def _speeds(
    model: CaptureModel,
    axis: CaptureAxis,
    top: float,
    words: tuple[str, str, str],
    *,
    of: Callable[[BatchReport], int],
) -> str:
    values = np.zeros(axis.columns)
    for report in model.reports:
        _spread(values, axis, report, of(report))
    greatest = _round_up(float(values.max()))
    title, remark, fill = words
    steps = [
        f"M{num(axis.left + at * COLUMN)} {num(top + STRIP)}v{num(-STRIP * float(values[at]) / greatest)}"
        f"h{num(COLUMN)}V{num(top + STRIP)}z"
        for at in np.flatnonzero(values >= greatest * 0.3 / STRIP).tolist()
    ]
    drawn = path(steps, fill=var(fill)) if steps else ""
    return _head(axis, top, title, remark, fmt.short_count(greatest)) + drawn


def _spread(into: np.ndarray, axis: CaptureAxis, report: BatchReport, rows: int) -> None:
    """Rows of a batch as rows a second of the columns that it took."""
    if not rows:
        return
    first, last = axis.column(report.planned), axis.column(report.ended)
    into[first : last + 1] += rows / ((last - first + 1) * axis.column_seconds)


def _freshness(model: CaptureModel, axis: CaptureAxis, top: float) -> str:
    """Of each column the freshness of half of the transactions, a dot, and of the slowest, a line above."""
    worst = _columns(model.reports, axis, attrgetter("worst_freshness"))
    median = _columns(model.reports, axis, attrgetter("median_freshness"), of=np.mean)
    places = np.flatnonzero(~np.isnan(worst))
    greatest = _round_up(float(np.nanmax(worst)) if len(places) else 1.0)
    head = _head(axis, top, "Freshness", "dot: half of the transactions · line: up to the slowest", "")
    head += text(axis.left - 6, top + 8, fmt.seconds_text(greatest), size=11, text_anchor="end")
    lines, dots = list[str](), list[str]()
    for at in places.tolist():
        x = axis.left + (at + 0.5) * COLUMN
        low, high = (top + STRIP * (1 - float(each[at]) / greatest) for each in (median, worst))
        lines.append(f"M{num(x)} {num(low)}V{num(min(high, low - 1))}")
        dots.append(f"M{num(x - 1.5)} {num(low - 1.5)}h3v3h-3z")
    return (
        head + path(lines, fill="none", stroke=var("line2"), stroke_width="1.5") + path(dots, fill=var("ink"))
    )


def _behind(model: CaptureModel, axis: CaptureAxis, top: float) -> str:
    """Bytes of the log beyond the end of each batch, as stairs."""
    values = _columns(model.reports, axis, lambda report: float(report.bytes_behind))
    places = np.flatnonzero(~np.isnan(values))
    top_value = float(np.nanmax(values)) if len(places) else 0.0
    greatest = 1024.0
    while greatest < top_value:
        greatest *= 2
    head = _head(axis, top, "Log behind", "bytes beyond the end of each batch", fmt.bytes_text(int(greatest)))
    if not len(places):
        return head
    foot = top + STRIP
    steps = [f"M{num(axis.left + int(places[0]) * COLUMN)} {num(foot)}"]
    for at in places.tolist():
        steps.append(f"H{num(axis.left + at * COLUMN)}V{num(foot - STRIP * float(values[at]) / greatest)}")
    steps.append(f"H{num(axis.left + (int(places[-1]) + 1) * COLUMN)}")
    area = path([*steps, f"V{num(foot)}Z"], fill=var("ink2"), fill_opacity="0.1")
    return head + area + path(steps, fill="none", stroke=var("ink2"), stroke_width="1.75")


def _columns(
    reports: Sequence[BatchReport],
    axis: CaptureAxis,
    value: Callable[[BatchReport], float | None],
    *,
    of: Callable[[list[float]], Any] = max,
) -> np.ndarray:
    """The greatest value, or another one `of` them, of the batches that end in each column; NaN without."""
    by_column: dict[int, list[float]] = {}
    for report in reports:
        each = value(report)
        if each is not None:
            by_column.setdefault(axis.column(report.ended), []).append(each)
    values = np.full(axis.columns, np.nan)
    for at, some in by_column.items():
        values[at] = of(some)
    return values


def _round_up(value: float) -> float:
    """A round end of an axis."""
    if value <= 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(value))
    return float(next(step * power for step in (1, 1.5, 2, 3, 5, 7.5, 10) if value <= step * power * 1.0001))


def _pauses(model: CaptureModel, axis: CaptureAxis, top: float, bottom: float) -> str:
    """Spans in which no batch began, with their word."""
    parts = []
    for begin, end in model.paused:
        x, right = axis.x(begin), axis.x(axis.until if end is None else end)
        if right - x < 1:
            continue
        parts.append(rect(x, top, right - x, bottom - top, fill=var("sel-tint")))
        if right - x > text_width("paused", size=11) + 8:
            parts.append(text(x + 4, top + 16, "paused", size=11))
    return "".join(parts)


def _schema_marks(model: CaptureModel, axis: CaptureAxis, tops: Sequence[float], y: float) -> str:
    """A dashed line a schema change through each strip, its number below; numbers that would meet are left
    out."""
    steps, parts, free = list[str](), list[str](), -1e9
    for number, change in enumerate(model.changes, start=1):
        x = axis.x(change.time)
        steps += [f"M{num(x)} {num(top)}v{STRIP}" for top in tops]
        if x - 9 > free:
            parts.append(schema_sign(number, x, y))
            free = x + 9
    if not steps:
        return ""
    return path(steps, fill="none", stroke=var("ink"), stroke_dasharray="2 3") + "".join(parts)


def schema_sign(number: int, x: float, y: float) -> str:
    """The number of a schema change in a box."""
    words = str(number)
    half = max(text_width(words, size=11) / 2 + 3, 8)
    box = rect(x - half, y - 8, 2 * half, 16, rx=2, fill=var("bg"), stroke=var("ink"))
    return box + text(x, y + 4, words, size=11, fill="ink", text_anchor="middle")


def _spots(model: CaptureModel, axis: CaptureAxis) -> list[list[Any]]:
    """The newest batches: x, number, and the words of their cards in the order of `CARD_NAMES`."""
    return [[round(axis.x(r.ended), 1), r.number, *batch_words(r)] for r in model.reports[-MOST_CARDS:]]


def batch_words(report: BatchReport) -> list[str]:
    """The words of a batch's card."""
    slowest, half = report.worst_freshness, report.median_freshness
    fresh = fmt.ABSENT if slowest is None else f"{fmt.seconds_text(half)} … {fmt.seconds_text(slowest)}"
    return [
        f"{fmt.clock(report.ended)} UTC, took {fmt.seconds_text(report.ended - report.planned)}",
        fmt.value(report.position) or "",
        fmt.count(report.snapshot_rows),
        fmt.count(report.changes),
        fmt.bytes_text(report.log_bytes),
        fmt.bytes_text(report.bytes_behind),
        fresh,
    ]


def distribution(model: CaptureModel, x: float, y: float, width: float, *, bottom: float) -> str:
    """The share of transactions that were visible within so many seconds, with p50, p95 and p99."""
    count = int(model.freshness.counts.sum()) if len(model.freshness.counts) else 0
    left, right, top, foot = x + 40, x + width - 8, y + 26, bottom
    of = fmt.plural(count, "transaction")
    parts = [text(x, y + 17, "Freshness, all", size=13, fill="ink", weight=600)]
    after = x + text_width("Freshness, all", size=13, weight=600) + 8
    parts.append(text(after, y + 17, fit(f"{of}, commit to visible", x + width - after, size=11), size=11))
    for share in (0.0, 0.5, 1.0):
        at = foot - share * (foot - top)
        parts.append(line(left, at, right, at, stroke="line2" if share == 0 else "line"))
        parts.append(text(left - 6, at + 4, f"{share * 100:.0f} %", size=11, text_anchor="end"))
    if not count:
        parts.append(
            text((left + right) / 2, (top + foot) / 2 - 14, "no transaction yet", text_anchor="middle")
        )
        return "".join(parts)
    greatest = max(float(model.freshness.seconds[-1]), 1e-3)
    log = greatest > 20 * max(float(model.quantile(0.5) or 0), 0.05)
    ends = (0.05 if log else 0.0, greatest * 1.05)

    def place(seconds: float) -> float:
        if log:
            share = np.log(max(seconds, ends[0]) / ends[0]) / np.log(ends[1] / ends[0])
        else:
            share = seconds / ends[1]
        return left + float(share) * (right - left)

    parts.append(_staircase(model, place, right, top, foot))
    parts += _ticks(ends, place, foot, log=log, room=right - left)
    parts += _percentiles(model, place, (left, right, top, foot))
    return "".join(parts)


def _staircase(
    model: CaptureModel, place: Callable[[float], float], right: float, top: float, foot: float
) -> str:
    """The share as a line that only rises, one point a pixel."""
    shares = np.cumsum(model.freshness.counts) / model.freshness.counts.sum()
    steps, last = [f"M{num(place(float(model.freshness.seconds[0])))} {num(foot)}"], -1e9
    for seconds, share in zip(model.freshness.seconds.tolist(), shares.tolist(), strict=True):
        x, y = place(seconds), foot - share * (foot - top)
        if x - last < 1 and steps[-1].startswith("H"):
            steps[-1] = f"H{num(last)}V{num(y)}"
            continue
        steps.append(f"H{num(x)}V{num(y)}")
        last = x
    steps.append(f"H{num(right)}")
    area = path([*steps, f"V{num(foot)}Z"], fill=var("ink2"), fill_opacity="0.1")
    return area + path(steps, fill="none", stroke=var("ink"), stroke_width="1.75")


def _ticks(
    ends: tuple[float, float], place: Callable[[float], float], foot: float, *, log: bool, room: float
) -> list[str]:
    """Round seconds below the axis: powers of ten where it is logarithmic."""
    if log:
        values = [0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0]
    else:
        step = _round_up(ends[1] / max(room // 64, 1))
        values = [step * at for at in range(int(ends[1] / step) + 1)]
    parts = []
    for value in values:
        if ends[0] <= value <= ends[1]:
            words = "0" if value == 0 else fmt.seconds_text(value)
            parts.append(text(place(value), foot + 16, words, size=11, text_anchor="middle"))
    return parts


def _percentiles(
    model: CaptureModel, place: Callable[[float], float], frame: tuple[float, float, float, float]
) -> list[str]:
    """A dot on the line for each of p50, p95, p99; their words in a column where the line leaves room."""
    _, right, top, foot = frame
    percentiles = [(share, float(model.quantile(share) or 0.0)) for share in SHARES]
    parts = []
    for share, seconds in percentiles:
        x, y = place(seconds), foot - share * (foot - top)
        dot = {"fill": var("ink"), "stroke": var("bg"), "stroke_width": "1.5"}
        parts.append(tag("circle", cx=x, cy=y, r=4.5, **dot))
    y = foot - 10.0 - 17 * (len(percentiles) - 1)
    for at, (share, seconds) in enumerate(percentiles):
        words = f"p{share * 100:.0f}  {fmt.seconds_text(seconds)}"
        wide = text_width(words, weight=600)
        parts.append(
            rect(right - wide - 6, y + 17 * at - 12, wide + 6, 16, fill=var("bg"), fill_opacity="0.8")
        )
        parts.append(text(right, y + 17 * at, words, fill="ink", weight=600, text_anchor="end"))
    return parts


def schema_list(model: CaptureModel, y: float, width: float, *, most: int) -> tuple[str, float]:
    """The newest schema changes: number, time, what happened to which table, the statement, what was done."""
    parts = [text(16, y + 26, "Schema changes", size=13, fill="ink", weight=600)]
    after = 16 + text_width("Schema changes", size=13, weight=600) + 8
    count = len(model.changes)
    says = f"the newest {most} of {count:,}" if count > most else "" if count else "none yet"
    parts.append(text(after, y + 26, says))
    y += 40
    first = max(count - most, 0)
    wide = width >= 620
    for number, change in list(enumerate(model.changes, start=1))[first:]:
        event = change.report
        parts += [schema_sign(number, 26, y + 8), text(44, y + 12, fmt.clock(change.time), size=11)]
        target = f"{event.kind} {event.source}"
        parts.append(text(100, y + 12, fit(target, 176 if wide else width - 116), fill="ink"))
        x = 284.0 if wide else 44.0
        room = width - 16 - x
        if not wide:
            y += 18
        if event.statement:
            done = f"→ {event.done}" if event.done else ""
            most_done = min(text_width(done, size=11), room * 0.45)
            parts.append(
                code(
                    x,
                    y + 12,
                    fit(event.statement, room - most_done - 12, monospace=True, size=11),
                    fill="ink",
                )
            )
            parts.append(
                text(width - 16, y + 12, fit(done, most_done + 1, size=11), size=11, text_anchor="end")
            )
        else:
            parts.append(text(x, y + 12, fit(event.done, room)))
        y += 24
    return "".join(parts), y + 4
