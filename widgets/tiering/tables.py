"""Tables by state: a row a table with a sign in the column of its state, its epoch, what its lake lacks, and
its rounds over time.

Invariants: columns are the states in the order of the circle and never move, rows the tables by path; the
number at the head of a column counts all tables, also those that are not drawn. From 1,000 px on the rounds
stand in the rows of their tables, below that in a section of their own. Pure. Called by `figure`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tablestore import TableState
from widgets.kit import format as fmt
from widgets.kit import svg
from widgets.kit.svg import fit, line, num, path, rect, tag, text, text_width
from widgets.kit.theme import var
from widgets.tiering.model import STATES, TieringModel, age_text, column_of, lag_text, shown_tables
from widgets.tiering.strip import AXIS, BEATS, cross, rounds_strip, time_axis

MARGIN, ROW, REASON, MOST = 16, 26, 15, 12
BESIDE, COLUMNS = 1000, 700
EPOCH, BEHIND, AGO = 48, 82, 120


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where columns stand: names end at `states`, each state has `pitch` (0: as words), then `numbers`."""

    width: float
    states: float
    pitch: float

    @property
    def wide(self) -> bool:
        """Whether there is room to say when a lake was complete."""
        return self.pitch > 0 or self.width >= 520

    @property
    def numbers(self) -> float:
        if self.pitch:
            return self.states + self.pitch * len(STATES)
        return self.width - MARGIN - EPOCH - BEHIND - (AGO if self.wide else 0) + 6

    @property
    def end(self) -> float:
        return self.numbers + EPOCH + BEHIND + (AGO if self.wide else 0)

    def x(self, state: str) -> float:
        """The middle of the column of a state."""
        return self.states + self.pitch * (STATES.index(state) + 0.5)


def tables_section(model: TieringModel, y: float, width: float) -> tuple[str, float, list[list[Any]]]:
    """The section from `y` on, where it ends, its spots."""
    shown = shown_tables(model, MOST)
    names = max((text_width(table.table, weight=600) for table in shown), default=0.0) + 20
    beside = width >= BESIDE
    left = MARGIN + min(max(names, 96.0), 260.0 if width >= COLUMNS else 180.0, 0.24 * width)
    at = _Layout(width, left, 0.0 if width < COLUMNS else 58.0 if width < 1300 else 66.0)
    if not beside and at.pitch:  # the rows take the whole width
        at = _Layout(width, left, at.pitch + (width - MARGIN - at.end) / len(STATES))
    parts = [_head(model, at, y)]
    top = y + 52
    rows, spots, row_y = list[tuple[TableState, float]](), list[list[Any]](), top
    edge = at.end + 14 if beside else width - MARGIN
    for table in shown:
        tall = ROW + (REASON if table.reason or table.warning else 0)
        if table is model.table and len(model.tables) > 1:
            wide = (at.end if beside else width - MARGIN) - MARGIN + 16
            parts.append(rect(MARGIN - 8, row_y, wide, tall, rx=4, fill=var("sel-tint"), class_="box"))
        parts.append(_row(model, table, at, row_y, edge))
        rows.append((table, row_y + ROW / 2))
        spots.append([MARGIN - 8, row_y, at.end - MARGIN + 8, tall, *_card(model, table), table.table, None])
        row_y += tall
    if not shown:
        parts.append(text(MARGIN, row_y + 16, "No table yet: no heartbeat has brought one.", fill="ink3"))
        row_y += ROW
    if len(model.tables) > len(shown):
        words = f"… {fmt.plural(len(model.tables) - len(shown), 'more table')}"
        parts.append(text(MARGIN, row_y + 17, words, fill="ink3"))
        row_y += ROW
    if beside:
        drawn, strip_spots = _strip_beside(model, rows, at.end + 24, y, row_y, width)
        return "".join([*parts, drawn]), row_y + BEATS + AXIS + 10, spots + strip_spots
    drawn, end, strip_spots = _strip_below(model, shown, row_y + 6, width)
    return "".join([*parts, line(0, row_y + 6, width, row_y + 6), drawn]), end, spots + strip_spots


def _head(model: TieringModel, at: _Layout, y: float) -> str:
    """The heading, and a number and a name a column."""
    count = f"{len(model.tables):,}" if model.tables else "none yet"
    after = MARGIN + text_width("Tables", size=13, weight=600) + 6
    parts = [text(MARGIN, y + 26, "Tables", size=13, fill="ink", weight=600), text(after, y + 26, count)]
    base = y + 44
    if at.pitch:
        for state in STATES:
            number = model.counts[state]
            colour = "ink3" if not number else "err" if state == "Failed" else "ink"
            middle: dict[str, Any] = {"text_anchor": "middle"}
            parts.append(text(at.x(state), y + 28, f"{number:,}", size=13, fill=colour, weight=600, **middle))
            parts.append(text(at.x(state), base, state, size=11, **middle))
    else:
        parts.append(text(at.states, base, "state", size=11))
    parts.append(text(at.numbers + EPOCH - 6, base, "epoch", size=11, text_anchor="end"))
    parts.append(text(at.numbers + EPOCH + BEHIND - 6, base, "rows behind", size=11, text_anchor="end"))
    if at.wide:
        parts.append(text(at.end - 6, base, "lake complete", size=11, text_anchor="end"))
    return "".join(parts)


def _row(model: TieringModel, state: TableState, at: _Layout, y: float, edge: float) -> str:
    """Name, sign, epoch, rows behind, how long ago the lake was complete; below them why it failed."""
    base, middle = y + 17, y + ROW / 2
    chosen = state is model.table
    name = fit(state.table, at.states - MARGIN - 12, weight=600 if chosen else 400)
    parts = [text(MARGIN, base, name, fill="ink", weight=600 if chosen else 400)]
    if at.pitch:
        parts.append(line(at.x(STATES[0]), middle, at.x(STATES[-1]), middle))
        parts.append(_sign(column_of(state), at.x(column_of(state)), middle))
    else:
        parts += [_sign(column_of(state), at.states + 6, middle), text(at.states + 16, base, state.state)]
    epoch = fmt.ABSENT if state.tiering_epoch is None else str(state.tiering_epoch)
    late = model.late(state)
    lag = fmt.count(state.lag_rows) if (state.lag_rows or 0) < 10_000_000 else fmt.short_count(state.lag_rows)
    end: dict[str, Any] = {"text_anchor": "end"}
    parts.append(text(at.numbers + EPOCH - 6, base, epoch, **end))
    parts.append(
        text(at.numbers + EPOCH + BEHIND - 6, base, lag, fill="ink" if state.lag_rows else "ink3", **end)
    )
    if at.wide:
        age = model.age(state)
        words = "never" if age is None else f"{fmt.seconds_text(age)} ago"
        shown = f"▲ {words}" if late else words
        parts.append(
            text(at.end - 6, base, shown, fill="warn" if late else "ink2", weight=600 if late else 400, **end)
        )
    if state.reason or state.warning:
        x = at.states if at.pitch else MARGIN
        words = fit(f"✕ {state.reason}" if state.reason else f"▲ {state.warning}", edge - x - 8, size=11)
        parts.append(text(x, y + ROW + 9, words, size=11, fill="err" if state.reason else "warn"))
    return "".join(parts)


def _sign(state: str, x: float, y: float) -> str:
    """The sign of a state."""
    if state == "Failed":
        return path([cross(x, y)], fill="none", stroke=var("err"), stroke_width="2.5")
    if state == "Tiered":
        steps = f"M{num(x - 5)} {num(y)}l3.5 4 6.5-8"
        return path([steps], fill="none", stroke=var("ok"), stroke_width="2.5")
    if state == "Tiering":
        return path([f"M{num(x - 4)} {num(y - 6)}v12l10-6z"], fill=var("append"), class_="box")
    if state == "Pending":
        return tag("circle", cx=x, cy=y, r=4.0, fill=var("ink2"), class_="box")
    dash = "2 2" if state == "Scheduled" else None
    return tag(
        "circle",
        cx=x,
        cy=y,
        r=4.5,
        fill=var("bg"),
        stroke=var("ink2"),
        stroke_width="1.5",
        stroke_dasharray=dash,
    )


def _card(model: TieringModel, state: TableState) -> tuple[str, list[list[str]]]:
    """Heading and facts of a table."""
    facts = [
        ["state", f"{state.state} since {fmt.clock(state.since)} UTC"],
        ["table id", f"#{state.table_id}"],
        ["tiering epoch", fmt.ABSENT if state.tiering_epoch is None else str(state.tiering_epoch)],
        ["lake", lag_text(state)],
        *([["rows", state.where(model.now)]] if state.marks else []),
        ["complete", age_text(model, state)],
        *([["reason", state.reason]] if state.reason else []),
        *([["warning", state.warning]] if state.warning else []),
    ]
    return fmt.value(state.table) or "", [[k, fmt.value(v) or ""] for k, v in facts]


def _strip_beside(
    model: TieringModel, rows: list[tuple[TableState, float]], x: float, y: float, bottom: float, width: float
) -> tuple[str, list[list[Any]]]:
    """The rounds in the rows of their tables."""
    axis = time_axis(model, x, width - MARGIN)
    drawn, spots = rounds_strip(model, axis, rows, y + 46, bottom)
    title = text(x, y + 26, "Rounds", size=13, fill="ink", weight=600)
    after = x + text_width("Rounds", size=13, weight=600) + 14
    label = text(x - 8, bottom + BEATS / 2 + 4, "heartbeats", size=11, text_anchor="end")
    return drawn + title + legend(after, y + 26, width - MARGIN, again=x) + label, spots


def _strip_below(
    model: TieringModel, shown: list[TableState], y: float, width: float
) -> tuple[str, float, list[list[Any]]]:
    """The rounds in a section of their own, with the names of the tables again."""
    names = max((text_width(table.table, size=11) for table in shown), default=0.0) + 16
    left = MARGIN + min(max(names, 84.0), 0.26 * width)
    pitch = 20
    rows = [(table, y + 40 + pitch * (number + 0.5)) for number, table in enumerate(shown)]
    bottom = y + 40 + pitch * len(rows)
    axis = time_axis(model, left, width - MARGIN)
    drawn, spots = rounds_strip(model, axis, rows, y + 38, bottom)
    parts = [text(MARGIN, y + 26, "Rounds", size=13, fill="ink", weight=600)]
    after = MARGIN + text_width("Rounds", size=13, weight=600) + 14
    parts += [legend(after, y + 26, width - MARGIN), drawn]
    parts += [
        text(MARGIN, at + 4, fit(table.table, left - MARGIN - 10, size=11), size=11) for table, at in rows
    ]
    parts.append(text(MARGIN, bottom + BEATS / 2 + 4, "heartbeats", size=11))
    return "".join(parts), bottom + BEATS + AXIS + 10, spots


def legend(x: float, y: float, right: float, *, again: float | None = None) -> str:
    """What the signs of rounds mean, as many as fit; the rest in a line below from `again` on."""
    note = path(["M6 -4l4 4-4 4-4-4z"], fill="none", stroke=var("ink"), stroke_width="1.5")
    entries = [
        (10.0, rect(0, -6, 12, 12, fill=var("append"), class_="box"), "committed"),
        (10.0, rect(0.5, -5.5, 11, 11, fill=var("bg"), stroke=var("ink2"), class_="box"), "under way"),
        (10.0, path([cross(6, 0)], fill="none", stroke=var("err"), stroke_width="2"), "failed"),
        (10.0, path(["M6 -4v8"], fill="none", stroke=var("line2")), "nothing new"),
        (10.0, note, "with a note"),
    ]
    rows = 1 if again is None else 2
    return svg.legend(entries, (x, y), right, top=4, share=0.94, rows=rows, left=again, pitch=18)[0]
