"""The alarms of a lake as a picture: a line an alarm with its figure over time, then the figures of a table.

Pure: `AlarmsModel` → `Figure`. x is time, the same for all lines. A step is the value from one moment that
was looked at to the next, linear from 0 (amplification: from 1 in the figures of a table). Dashed is the
limit; tinted is the time during which the alarm held. Called by `widget`.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from widgets.alarms.model import (
    FIGURES,
    SHOWN,
    AlarmLine,
    AlarmsModel,
    Points,
    value_text,
    when,
)
from widgets.kit import format as fmt
from widgets.kit.svg import Figure, code, esc, fit, group, line, num, path, rect, tag, text, wrap
from widgets.kit.theme import var
from widgets.kit.time_axis import TimeAxis

MARGIN, INDENT, HEAD, PLOT, SMALL = 16, 22, 100, 44, 56
WIDE = 760  # from here on plots stand beside the words
NUMBERS = 84  # right of a plot
DAY = 86_400


def alarms_figure(model: AlarmsModel, *, width: float, selected: str = "") -> Figure:
    """The picture; `selected` is the id of the alarm that is marked."""
    sign, colour = ("…", "ink3") if model.reading else ("✓", "ok")
    if model.holding:
        sign, colour = model.holding[0].sign
    elif not model.tables:
        sign, colour = "○", "ink2"
    body = [text(MARGIN, 26, sign, size=15, fill=colour, weight=600)]
    y = 26.0
    for at, words in enumerate(wrap(model.verdict, (width - 2 * MARGIN - INDENT) * 0.9, size=15, lines=2)):
        y = 26.0 + 20 * at
        body.append(text(MARGIN + INDENT, y, words, size=15, fill="ink", weight=600))
    y += 10
    axis = _axis(model, width)
    chosen = model.line(selected)
    for each in model.lines[:SHOWN]:
        drawn, tall = _alarm(each, y, width, axis, marked=selected != "" and each is chosen)
        body.append(drawn)
        y += tall
    rest = [fmt.plural(len(model.lines) - SHOWN, "more alarm")] if len(model.lines) > SHOWN else []
    rest += [model.progress] if model.progress else []
    if model.lines:
        body.append(axis.times(y + 16, clock_of(model), above=14))
        y += 24
    if rest:
        for row in wrap(" · ".join(rest), width - 2 * MARGIN - INDENT, size=11, lines=2):
            body.append(text(MARGIN + INDENT, y + 16, row, size=11))
            y += 16
        y += 8
    table = model.shown_table(selected)
    if table:
        drawn, y = _figures(model, table, y + 8, width)
        body.append(drawn)
    return Figure(width, y + 10, "".join(body), model.verdict)


def clock_of(model: AlarmsModel) -> Callable[[float], str]:
    """How times are written: of days where the history is long, in UTC."""
    began, until = model.span
    pattern = "%H:%M:%S" if until - began < DAY / 2 else "%d %b %H:%M" if until - began < 3 * DAY else "%d %b"
    return lambda time: f"{datetime.fromtimestamp(int(time), UTC):{pattern}}"


def _axis(model: AlarmsModel, width: float) -> TimeAxis:
    left = MARGIN + INDENT if width < WIDE else MARGIN + INDENT + _words_width(width) + 16
    return TimeAxis(left, width - MARGIN - NUMBERS, *model.span)


def _words_width(width: float) -> float:
    """The room for the words of an alarm beside its plot."""
    return (width - 2 * MARGIN - INDENT - NUMBERS) * 0.5 - 16


def _alarm(each: AlarmLine, y: float, width: float, axis: TimeAxis, *, marked: bool) -> tuple[str, float]:
    """An alarm: its words, and beside or below them its figure over time; and how tall it is."""
    beside = width >= WIDE
    room = _words_width(width) if beside else width - 2 * MARGIN - INDENT
    sign, colour = each.sign
    head = f"{each.table} · {each.kind}"
    parts = [text(MARGIN, y + 20, sign, size=13, fill=colour, weight=600)]
    parts.append(text(MARGIN + INDENT, y + 20, fit(head, room, weight=600), fill="ink", weight=600))
    at = y + 36
    where = "" if each.where == "table" else f"{each.where}: "
    for row in wrap(f"{where}{each.what}", room, size=11):
        parts.append(text(MARGIN + INDENT, at, row, size=11, fill="ink2"))
        at += 15
    if each.ended is None and each.remedy:
        verb = "mend" if each.mends else "look"
        parts.append(text(MARGIN + INDENT, at, verb, size=11, fill="ink3"))
        for words in wrap(each.remedy, room - 36, size=11, monospace=True):
            parts.append(code(MARGIN + INDENT + 36, at, words, fill="ink"))
            at += 15
    top = y + 8 if beside else at
    drawn, end = _plot(each, axis, top)
    parts.append(drawn)
    height = max(at, end) + 4 - y
    ground = rect(
        *(MARGIN - 8, y + 2, width - 2 * MARGIN + 16, height - 3),
        rx=4,
        fill=var("sel-tint") if marked else "none",
        class_="hit",
    )
    label = f"{each.severity}, {head}, {each.what}, {when(each, fmt.clock)}, {each.numbers}"
    whole = group(
        *(tag("title", esc(label)), ground, *parts),
        line(MARGIN, y + height, width - MARGIN, y + height),
        class_="alarm",
        data_alarm=each.id,
        role="option",
        aria_selected=str(marked).lower(),
        aria_label=label,
    )
    return whole, height


def _plot(each: AlarmLine, axis: TimeAxis, top: float) -> tuple[str, float]:
    """The figure of an alarm with its limit, the time during which it held, and when that was."""
    right = axis.right + 8
    if not any(v is not None for _, v in each.points):
        return text(
            axis.left, top + 14, fit(when(each, fmt.clock), axis.right - axis.left, size=11), size=11
        ), top + 20
    most = max([v for _, v in each.points if v is not None] + [each.limit or 0]) or 1
    base = top + PLOT

    def y_of(value: float) -> float:
        return base - (PLOT - 4) * min(value / most, 1.0)

    risk = "err-tint" if each.severity == "risk" else "warn-tint"
    held = [(began, ended, "line") for began, ended in each.before]
    if each.began is not None:
        now = each.ended is None
        held.append((each.began, axis.until if now else each.ended or 0.0, risk if now else "line"))
    parts = [
        rect(axis.x(began), top, max(axis.x(ended) - axis.x(began), 2), PLOT, fill=var(tint), class_="held")
        for began, ended, tint in held
    ]
    parts.append(line(axis.left, base, axis.right, base, stroke="line2"))
    if each.limit:
        y = y_of(each.limit)
        parts.append(line(axis.left, y, axis.right, y, stroke="ink2", stroke_dasharray="4 3"))
    parts.append(_steps(each.points, axis, y_of))
    colour = each.sign[1] if each.ended is None else "ink2"
    worst = value_text(each.measure, each.worst)
    parts.append(
        text(right, top + 16, fit(worst, NUMBERS - 8, size=15, weight=600), size=15, fill=colour, weight=600)
    )
    if each.limit is not None:
        limit = f"limit {value_text(each.measure, each.limit)}"
        parts.append(text(right, top + 32, fit(limit, NUMBERS - 8, size=11), size=11))
    room = axis.right + NUMBERS - axis.left
    words = wrap(f"{when(each, fmt.clock)} · {each.numbers}", room, size=11, lines=2)
    parts += [text(axis.left, base + 14 + 14 * at, row, size=11) for at, row in enumerate(words)]
    return "".join(parts), base + 4 + 14 * len(words)


def _steps(points: Points, axis: TimeAxis, y_of: Callable[[float], float]) -> str:
    """A line that keeps a value until the next; broken where none is known."""
    steps, open_ = [], False
    for at, (time, value) in enumerate(points):
        if value is None:
            open_ = False
            continue
        x, y = num(axis.x(time)), num(y_of(value))
        steps.append(f"H{x}V{y}" if open_ else f"M{x} {y}")
        open_ = True
        if at + 1 == len(points):
            steps.append(f"H{num(axis.x(axis.until))}")
        elif points[at + 1][1] is None:
            steps.append(f"H{num(axis.x(points[at + 1][0]))}")
    return path(steps, fill="none", stroke=var("ink"), stroke_width=1.75, class_="value") if steps else ""


def _figures(model: AlarmsModel, table: str, y: float, width: float) -> tuple[str, float]:
    """The figures of a table over the same time, in columns; and where they end."""
    figures = [(name, words) for name, words in FIGURES if name in model.figures[table]]
    columns = 3 if width >= 1100 else 2 if width >= 560 else 1
    gap = 24
    wide = (width - 2 * MARGIN - gap * (columns - 1)) / columns
    parts = [
        line(MARGIN, y, width - MARGIN, y),
        text(
            MARGIN,
            y + 26,
            fit(table, width - 2 * MARGIN, size=13, weight=600),
            size=13,
            fill="ink",
            weight=600,
        ),
    ]
    y += 38
    for place, (name, words) in enumerate(figures):
        left, top = MARGIN + place % columns * (wide + gap), y + place // columns * (SMALL + 44)
        points = model.figures[table][name]
        axis = TimeAxis(left, left + wide, *model.span)
        least = 1.0 if name.endswith("amplification") else 0.0
        most = max([v for _, v in points if v is not None] + [least + 1])
        base, tall = top + 18 + SMALL, SMALL - 4

        def y_of(
            value: float, base: float = base, tall: float = tall, least: float = least, most: float = most
        ) -> float:
            return base - tall * max(value - least, 0) / (most - least)

        newest = value_text(name, points[-1][1])
        shown = f"{value_text(name, least)} … {value_text(name, most)}"
        parts += [
            text(left, top + 12, fit(words, wide - 80, size=11), size=11, fill="ink"),
            text(left + wide, top + 12, newest, fill="ink", weight=600, text_anchor="end"),
            line(left, base, left + wide, base, stroke="line2"),
            _steps(points, axis, y_of),
            text(left, base + 13, shown, size=11, fill="ink3"),
        ]
    rows = -(-len(figures) // columns)
    return "".join(parts), y + rows * (SMALL + 44)
