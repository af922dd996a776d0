"""A merge as SVG: keys across and runs down, or one key's columns under their sequence groups.

Invariants: the height depends on the runs and the mode only, so stepping moves nothing; what is not merged
yet is drawn as it lies in its run, what is merged shows its part by outline and strike as well as by colour;
the level of a run is the lightness of its rows, as in every other picture. Pure: model → `Figure`. Called by
the widget and by the static export.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from widgets.kit import format as fmt
from widgets.kit.svg import Figure, code, fit, group, line, num, rect, text, text_width, wrap
from widgets.kit.theme import var
from widgets.merge.cells import (
    BOX,
    MARGIN,
    box,
    cards,
    column_cards,
    gone_box,
    outlines,
    spoken_input,
    spoken_output,
)
from widgets.merge.model import KeyStep, MergeModel, RunInput

GUTTER, NUMBERS = 112, 52
ROW, HEAD, WHY = 32, 30, 16
COLUMN, ROOMY, LEAST, GAP = 112, 80, 62, 22
WIDEST, SLIMMEST = 132, 50  # pixels from one key to the next; where more do not fit, keys are turned in pages
NARROW = 860


def shown_columns(model: MergeModel, wanted: tuple[str, ...], *, width: float) -> tuple[str, ...]:
    """The columns there is room for: those wanted, else the first ones; those of one group side by side."""
    names = [n for n in wanted if n in model.columns] or list(model.columns)
    order = {names_: at for at, (names_, _) in enumerate(model.groups)}
    grouped = sorted(names, key=lambda n: order.get(model.group_of(n), len(order)))
    room = width - 2 * MARGIN - _gutter(width) - NUMBERS
    least = ROOMY if room > 700 else LEAST
    limit = min(int(room / (least + 7)) + 1, len(grouped))  # without any gap there is room for no more
    for count in range(limit, 1, -1):
        if _column_width(model, grouped[:count], width) >= least:
            return tuple(grouped[:count])
    return tuple(grouped[:1])


def _gutter(width: float) -> float:
    return GUTTER if width >= NARROW else 84


def _column_width(model: MergeModel, columns: Sequence[str], width: float) -> float:
    """The width that so many columns and the gaps between their groups leave each."""
    room = width - 2 * MARGIN - _gutter(width) - NUMBERS
    gaps = len({model.group_of(n) for n in columns}) - 1
    return min((room - gaps * GAP) / len(columns) - 7, COLUMN)


def merge_figure(
    model: MergeModel, *, cursor: int, mode: str, columns: tuple[str, ...], width: float
) -> Figure:
    """The window merged up to the key at `cursor` (−1: nothing yet), in mode keys or columns."""
    if not model.steps:
        return _empty(model, width)
    at = min(max(cursor, -1), len(model.steps) - 1)
    shown = shown_columns(model, columns, width=width)
    by_keys = mode == "keys" or not shown  # a table may have key columns only
    draw, words = (_keys_figure, cards) if by_keys else (_columns_figure, column_cards)
    drawn = draw(model, at, shown, width)
    return replace(drawn, meta={**drawn.meta, "cards": words(model, cursor=at, columns=shown)})


def _empty(model: MergeModel, width: float) -> Figure:
    what, then = "No keys in this window.", "Show all keys again, or choose another bucket."
    if model.absent:
        what, then = model.absent, "Choose another snapshot, or another bucket."
    body = text(MARGIN, 40, fit(what, width - 2 * MARGIN, weight=600), fill="ink", weight=600)
    body += text(MARGIN, 58, then)
    return Figure(width, 96, body, f"Merge {model.engine}: no keys", {"steps": 0, "cards": {}})


# keys across


@dataclass(frozen=True, slots=True)
class ColumnGrid:
    """Where keys and runs stand."""

    left: float
    step: float
    top: float
    runs: int
    keys: range

    def x(self, step: int) -> float:
        """The left edge of a key's boxes."""
        return self.left + (step - self.keys.start) * self.step

    def y(self, row: int) -> float:
        """The top of a run's boxes."""
        return self.top + row * ROW

    @property
    def out(self) -> float:
        """The top of the output's boxes."""
        return self.y(self.runs) + 16

    @property
    def wide(self) -> float:
        """The width of a box."""
        return self.step - 7


def _grid(model: MergeModel, cursor: int, width: float) -> ColumnGrid:
    left = MARGIN + _gutter(width)
    room, keys = width - MARGIN - left, len(model.steps)
    many = min(keys, max(int(room // SLIMMEST), 1))
    first = max(cursor, 0) // many * many
    shown = range(min(first, keys - many), min(first, keys - many) + many)
    return ColumnGrid(left, min(room / many, WIDEST), HEAD + 6, len(model.runs), shown)


def _keys_figure(model: MergeModel, cursor: int, columns: tuple[str, ...], width: float) -> Figure:
    grid = _grid(model, cursor, width)
    column = columns[0] if columns else ""
    end = grid.x(grid.keys.stop) - 7
    body = [_names(model, grid.left, width, grid.y)]
    if cursor >= 0:
        tall = grid.out + BOX - 2
        body.append(rect(grid.x(cursor) - 5, 4, grid.wide + 10, tall, rx=4, fill=var("sel-tint")))
    for row in range(len(model.runs)):
        middle = grid.y(row) + BOX / 2
        body.append(line(grid.left - 8, middle, end, middle))
    body.append(line(MARGIN, grid.out - 9, end, grid.out - 9, stroke="line2"))
    body.append(_out_label(model, grid.out, ""))
    for at in grid.keys:
        step, x, now = model.steps[at], grid.x(at), at == cursor
        key = fit(fmt.key(step.key), grid.wide, size=12, weight=600 if now else 400)
        ink = "ink" if now else "ink2"
        weight = 600 if now else 400
        centre = x + grid.wide / 2
        body.append(text(centre, 22, key, fill=ink, weight=weight, text_anchor="middle"))
        for row, run in enumerate(model.runs):
            entry = step.inputs.get(run.number)
            if entry is not None:
                cell = _input(model, entry, column, done=at <= cursor, grid=grid, x=x, y=grid.y(row))
                words = spoken_input(model, step, entry, column, done=at <= cursor)
                body.append(_marked(cell, f"{at}|{run.number}", words))
        out = _output(model, step, column, done=at <= cursor, grid=grid, x=x)
        words = spoken_output(step, column) if at <= cursor else "not merged yet"
        body.append(_marked(out, f"{at}|out", f"key {step.key}, output {words}"))
    if cursor >= 0:
        body.append(_rings(model, model.steps[cursor], grid, cursor))
    why, height = _why(model, cursor, grid.left, grid.out + BOX + 24, width)
    return _finished(
        model,
        cursor,
        column,
        width,
        height,
        [*body, why],
        outlines(model, width, columns=False, numbered=grid.wide >= 62),
    )


def _names(model: MergeModel, left: float, width: float, y_of: Callable[[int], float]) -> str:
    """Key names above, run names at the left."""
    keys = fit(", ".join(model.key_names), left - MARGIN - 12, size=12)
    parts = [text(MARGIN, 22, keys)]
    for row, run in enumerate(model.runs):
        name = fit(run.name, left - MARGIN - 12, size=13)
        y = y_of(row) + (10 if model.waits(run) else 17)
        parts.append(text(MARGIN, y, name, size=13, fill="ink"))
        if model.waits(run):
            parts.append(text(MARGIN, y + 14, "not read yet", size=11, fill="warn"))
    return "".join(parts)


def _out_label(model: MergeModel, y: float, key: str) -> str:
    words = ", ".join(part for part in ("out", model.output, key) if part)
    return text(MARGIN, y + 17, words, size=13, fill="ink", weight=600)


def _marked(markup: str, name: str, spoken: str) -> str:
    """A box that can be pointed at."""
    return group(markup, class_="cell", data_cell=name, role="gridcell", aria_label=spoken)


def _input(
    model: MergeModel, entry: RunInput, column: str, *, done: bool, grid: ColumnGrid, x: float, y: float
) -> str:
    """A row of a run: as it lies before its key is merged, then by what became of it."""
    part = entry.parts.get(column, entry.part) if done else "kept"
    part = "superseded" if part == "null" else part
    value = entry.kind if entry.retracts else entry.values.get(column, "row") if column else entry.kind
    return box(
        x, y, grid.wide, value, part, level=model.level_of(entry.run), levels=model.num_levels,
        number=str(entry.sequence), bold=entry.retracts,
    )  # fmt: skip


def _output(model: MergeModel, step: KeyStep, column: str, *, done: bool, grid: ColumnGrid, x: float) -> str:
    """What the key becomes: empty until it is merged."""
    y, wide = grid.out, grid.wide
    if not done:
        return rect(x + 0.5, y + 0.5, wide - 1, BOX - 1, rx=3, fill=var("bg"), stroke=var("line"))
    if step.fate != "kept":
        return gone_box(x, y, wide, step.fate)
    oldest = model.num_levels - 1
    if not step.there:
        return box(x, y, wide, step.kind, "kept", level=oldest, levels=model.num_levels, bold=True)
    value = step.values.get(column) if column else "row"
    origin = step.origins.get(column)
    mark = "Σ" if origin is not None and origin.how == "computed" else str(step.sequence)
    return box(x, y, wide, value, "kept", level=oldest, levels=model.num_levels, number=mark)


def _rings(model: MergeModel, step: KeyStep, grid: ColumnGrid, at: int) -> str:
    """The rows that count, and the output: 2 px of ink that stand off the box."""
    rows = [
        row
        for row, run in enumerate(model.runs)
        if (entry := step.inputs.get(run.number)) is not None and entry.part in ("kept", "added")
    ]
    ring = {"fill": "none", "stroke": var("ink"), "stroke_width": "2", "rx": 5, "class_": "ring"}
    places = [*(grid.y(row) for row in rows), grid.out]
    return "".join(rect(grid.x(at) - 3, y - 3, grid.wide + 6, BOX + 6, **ring) for y in places)


# columns of one key


def _columns_figure(model: MergeModel, cursor: int, columns: tuple[str, ...], width: float) -> Figure:
    step = model.steps[max(cursor, 0)]
    done = cursor >= 0
    left = MARGIN + _gutter(width) + NUMBERS
    body = [_key_strip(model, cursor, width)]
    top = 118
    places = _places(model, columns, left, width)
    wide = _column_width(model, columns, width)
    body.append(_headings(model, columns, places, width))

    def y_of(row: int) -> float:
        return top + row * ROW

    for row, run in enumerate(model.runs):
        name = fit(run.name, left - NUMBERS - MARGIN - 4, size=13)
        entry = step.inputs.get(run.number)
        ink = "ink" if entry else "ink3"
        body.append(text(MARGIN, y_of(row) + 17, name, size=13, fill=ink))
        if entry is None:
            body.append(line(left, y_of(row) + BOX / 2, places[columns[-1]] + wide, y_of(row) + BOX / 2))
            continue
        words = f"{entry.kind} {entry.sequence}" if entry.retracts else str(entry.sequence)
        body.append(code(left - 12, y_of(row) + 16, words, text_anchor="end"))
        for column in columns:
            cell = _column_input(model, entry, column, done=done, x=places[column], y=y_of(row), wide=wide)
            spoken = spoken_input(model, step, entry, column, done=done)
            body.append(_marked(cell, f"{max(cursor, 0)}|{run.number}|{column}", spoken))
    out = y_of(len(model.runs)) + 16
    body.append(line(MARGIN, out - 9, places[columns[-1]] + wide, out - 9, stroke="line2"))
    body.append(_out_label(model, out, ""))
    if done and step.sequence is not None:
        body.append(code(left - 12, out + 16, step.sequence, text_anchor="end"))
    body.append(_column_outputs(model, step, columns, places, out, wide, done=done, at=max(cursor, 0)))
    why, height = _why(model, cursor, left, out + BOX + 24, width)
    return _finished(
        model,
        cursor,
        columns[0],
        width,
        height,
        [*body, why],
        outlines(model, width, columns=True, numbered=True),
    )


def _key_strip(model: MergeModel, cursor: int, width: float) -> str:
    """All keys of the window, the current one in ink."""
    keys = fit(", ".join(model.key_names), _gutter(width) - 8)
    parts = [text(MARGIN, 26, keys)]
    x = MARGIN + _gutter(width) + NUMBERS
    room = (width - MARGIN - x) / len(model.steps)
    wide = min(room - 6, 78)
    for at, step in enumerate(model.steps):
        now = at == max(cursor, 0)
        label = fit(fmt.key(step.key), wide - 12, weight=600 if now else 400)
        stroke = {"stroke": var("ink"), "stroke_width": "2"} if now else {"stroke": var("line2")}
        inset = 1 if now else 0.5
        chip = rect(
            x + inset, 10 + inset, wide - 2 * inset, 24 - 2 * inset, rx=4,
            fill=var("sel-tint" if now else "bg"), **stroke,
        )  # fmt: skip
        ink, weight = ("ink", 600) if now else ("ink2", 400)
        chip += text(x + wide / 2, 26, label, fill=ink, weight=weight, text_anchor="middle")
        parts.append(_marked(chip, f"{at}|key", f"key {step.key}, {fmt.plural(len(step.inputs), 'row')}"))
        x += wide + 6
    return "".join(parts)


def _places(model: MergeModel, columns: tuple[str, ...], left: float, width: float) -> dict[str, float]:
    """Where each column stands; a gap between groups."""
    places, x, before = {}, left, None
    wide = _column_width(model, columns, width)
    for column in columns:
        mine = model.group_of(column)
        x += GAP if before is not None and mine != before else 0
        places[column] = x
        x += wide + 7
        before = mine
    return places


def _headings(model: MergeModel, columns: tuple[str, ...], places: dict[str, float], width: float) -> str:
    """Groups with what they guard, then the names of columns with their function."""
    parts, wide = [], _column_width(model, columns, width)
    for name in dict.fromkeys(model.group_of(c) for c in columns):
        mine = [c for c in columns if model.group_of(c) == name]
        x, end = places[mine[0]], places[mine[-1]] + wide
        title, rule = _heading(model, name)
        room = (width - MARGIN if mine[-1] == columns[-1] else end + GAP - 4) - x
        parts.append(text(x, 58, fit(title, room, weight=600), fill="ink", weight=600))
        parts.append(text(x, 74, fit(rule, room, size=11), size=11))
        parts.append(line(x, 82, end, 82, stroke="line2"))
    for column in columns:
        function = model.functions.get(column, "")
        label = fit(column, wide - 4)
        parts.append(text(places[column] + 2, 100, label, fill="ink"))
        after = text_width(label) + 6
        if function and after + text_width(function, size=11) <= wide:
            parts.append(text(places[column] + after, 100, function, size=11, fill="ink3"))
    return "".join(parts)


def _heading(model: MergeModel, group_names: str) -> tuple[str, str]:
    if group_names:
        guarded = next(guarded for names, guarded in model.groups if names == group_names)
        return f"sequence group {group_names}", f"newest {group_names} wins {', '.join(guarded)}"
    if model.engine == "aggregation":
        return "aggregation", "each column by its function"
    if model.engine == "partial-update":
        return ("no group" if model.groups else "partial-update"), "newest non-null"
    return model.engine, "the whole row of one run"


def _column_input(
    model: MergeModel, entry: RunInput, column: str, *, done: bool, x: float, y: float, wide: float
) -> str:
    part = entry.parts.get(column, entry.part) if done else "kept"
    level = model.level_of(entry.run)
    return box(x, y, wide, entry.values.get(column), part, level=level, levels=model.num_levels)


def _column_outputs(
    model: MergeModel,
    step: KeyStep,
    columns: tuple[str, ...],
    places: dict[str, float],
    y: float,
    wide: float,
    *,
    done: bool,
    at: int,
) -> str:
    """The output's cells, each with the run its value is from."""
    end = places[columns[-1]] + wide - places[columns[0]]
    if done and (step.fate != "kept" or not step.there):
        fate = step.fate if step.fate != "kept" else f"{step.kind} kept"
        return _marked(gone_box(places[columns[0]], y, end, fate), f"{at}|out", f"key {step.key}, {fate}")
    parts = []
    for column in columns:
        x = places[column]
        if not done:
            cell = rect(x + 0.5, y + 0.5, wide - 1, BOX - 1, rx=3, fill=var("bg"), stroke=var("line"))
        else:
            origin = step.origins.get(column)
            computed = origin is not None and origin.how == "computed"
            mark = "Σ" if computed else model.name_of(origin.run if origin else None)
            oldest = model.num_levels - 1
            cell = box(
                x, y, wide, step.values.get(column), "kept", level=oldest, levels=model.num_levels,
                number=mark, bold=True,
            )  # fmt: skip
        words = spoken_output(step, column) if done else "not merged yet"
        parts.append(_marked(cell, f"{at}|out|{column}", f"{column}, {words}"))
    return "".join(parts)


# words under the picture


def _why(model: MergeModel, cursor: int, left: float, y: float, width: float) -> tuple[str, float]:
    """The engine's sentence about the current key, in a fixed number of lines."""
    lines = 2 if width >= NARROW else 3
    height = y + lines * WHY + 2
    if cursor < 0:
        runs, keys = fmt.plural(len(model.runs), "run"), fmt.plural(len(model.steps), "key")
        content = fmt.plural(len(model.steps), "event") if model.events else f"{runs} hold {keys}"
        words = f"Nothing is merged yet: {content}. Step with → or play."
        return text(left, y, words), height
    step = model.steps[cursor]
    lead = f"key {fit(fmt.key(step.key), 160, weight=600)}"
    following = model.steps[cursor + 1].key if cursor + 1 < len(model.steps) else ""
    after = "Key of the next event" if model.events else "Next smallest key"
    words = step.why + (f" {after}: {fmt.key(following)}." if following else "")
    rows = wrap(words, width - left - MARGIN, lines=lines)
    parts = [text(MARGIN, y, fit(lead, left - MARGIN - 8, weight=600), fill="ink", weight=600)]
    parts += [text(left, y + at * WHY, row, fill="ink") for at, row in enumerate(rows)]
    return "".join(parts), height


def _finished(
    model: MergeModel, cursor: int, column: str, width: float, height: float, body: list[str], legend: str
) -> Figure:
    drawn = "".join(body) + group(legend, transform=f"translate(0 {num(height)})")
    for note in wrap(model.unseen, width - 2 * MARGIN, size=11, lines=2) if model.unseen else ():
        drawn += text(MARGIN, height + 40, note, size=11, fill="warn")
        height += 16
    words = model.steps[cursor].why if cursor >= 0 else "nothing merged yet"
    lead = f"key {model.steps[cursor].key}: " if cursor >= 0 else ""
    meta: dict[str, object] = {
        "steps": len(model.steps),
        "cursor": cursor,
        "says": f"{lead}{words}",
        "column": column,
    }
    label = (
        f"Merge {model.engine}: {fmt.plural(len(model.runs), 'run')}, {fmt.plural(len(model.steps), 'key')}"
    )
    return Figure(width, height + 28, drawn, label, meta)
