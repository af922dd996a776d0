"""Changes of a stream as SVG: how many of each kind, rows a second, then the last rows as a table.

Invariants: every kind has its place, seen or not; rows have one height and the table keeps room for all rows
that are kept, so nothing moves but what is written. Pure: model → `Figure`. Called by the widget and by the
static export.
"""

from typing import Any

import pyarrow as pa

from widgets.kit import format as fmt
from widgets.kit.svg import Figure, fit, group, line, rect, text, text_width, wrap
from widgets.kit.theme import var
from widgets.stream.model import KINDS, OP, StreamModel, cell, counts_text, sign, state_text

MARGIN, ROW, HEAD, GAP = 16, 20, 60, 16
OP_WIDTH, LEAST, MOST = 34, 48, 320
COLOURS = {"+I": "ins", "-U": "ink3", "+U": "append", "-D": "dele"}


def stream_figure(model: StreamModel, *, keep: int, width: float) -> Figure:
    """The whole picture without its button; `keep` is how many rows have room."""
    body = [line(0, 1, width, 1), _figures(model, width), line(0, HEAD, width, HEAD)]
    table, bottom = _table(model, keep, width)
    body.append(table)
    if model.error:
        for row in wrap(model.error, width - 2 * MARGIN, size=12, lines=4):
            body.append(text(MARGIN, bottom + 16, row, fill="err"))
            bottom += 16
    label = f"{model.title}: {counts_text(model)}, {state_text(model)}"
    return Figure(width, bottom + 8, "".join(body), label, {"rows": model.last.num_rows})


def _figures(model: StreamModel, width: float) -> str:
    """Changes, one number a kind, rows a second."""
    figures = [("changes", model.rows, "ink")]
    figures += [(sign(kind), model.counts.get(kind, 0), COLOURS[kind]) for kind in KINDS]
    step = (width - 2 * MARGIN) / (len(figures) + 1)
    parts = []
    for at, (name, number, colour) in enumerate(figures):
        x = MARGIN + at * step
        parts += [text(x, 22, name, size=11), _number(x, fmt.short_count(number), colour)]
    x = MARGIN + len(figures) * step
    parts += [text(x, 22, "rows/s", size=11), _number(x, fmt.short_count(model.speed), "ink")]
    return "".join(parts)


def _number(x: float, value: str, colour: str) -> str:
    return text(x, 46, value, size=20, fill=colour, weight=600)


def _table(model: StreamModel, keep: int, width: float) -> tuple[str, float]:
    """The last rows, the newest at the bottom, and where the table ends."""
    rows = model.last.to_pylist()
    names = model.names
    sizes = _sizes(names, rows, width - 2 * MARGIN - OP_WIDTH)
    right = [_is_number(model.last.schema.field(name).type) for name in names]
    y = HEAD + ROW
    parts = [text(MARGIN, y - 6, OP, size=11)]
    parts += _cells(names, sizes, right, y, size=11)
    for row in rows:
        y += ROW
        colour = COLOURS.get(row[OP], "ink")
        shown = [cell(row[name]) for name in names]
        old = "ink3" if row[OP] in ("-U", "-D") else "ink"
        cells = _cells(shown, sizes, right, y, fill=old)
        kind = fit(sign(row[OP]), OP_WIDTH)
        parts.append(group(text(MARGIN, y - 6, kind, fill=colour, weight=600), *cells, class_="row"))
    bottom = HEAD + ROW * (keep + 1)
    hidden = len(names) - len(sizes)
    if hidden:
        words = f"… {fmt.plural(hidden, 'more column')}: {', '.join(names[-hidden:])}"
        parts.append(text(MARGIN, bottom + 16, fit(words, width - 2 * MARGIN, size=11), size=11))
        bottom += 20
    if not rows:
        parts.append(rect(MARGIN, y + 6, width - 2 * MARGIN, ROW, rx=4, fill=var("panel")))
        parts.append(text(MARGIN + 8, y + 20, "no rows yet" if model.live else "no rows"))
    return "".join(parts), bottom


def _cells(
    texts: list[str], sizes: list[float], right: list[bool], y: float, *, size: int = 12, fill: str = "ink2"
) -> list[str]:
    cells, x = [], float(MARGIN + OP_WIDTH)
    for content, wide, at_right in zip(texts, sizes, right, strict=False):
        shown = fit(fmt.value(content) or "", wide, size=size)
        end: dict[str, Any] = {"text_anchor": "end"} if at_right else {}
        cells.append(text(x + wide if at_right else x, y - 6, shown, size=size, fill=fill, **end))
        x += wide + GAP
    return cells


def _sizes(names: list[str], rows: list[dict[str, Any]], room: float) -> list[float]:
    """Widths of the columns: what their texts take, less where that is too much; what has no room is left
    out at the end."""
    texts = [[name, *(cell(row[name])[:80] for row in rows)] for name in names]
    wanted = [min(max(max(map(text_width, column)) + 2, LEAST), MOST) for column in texts]
    count = max(min(len(wanted), int((room + GAP) // (LEAST + GAP))), 0)
    column_sizes = wanted[:count]
    over = sum(column_sizes) + GAP * max(count - 1, 0) - room
    if over > 0:
        spare = sum(size - LEAST for size in column_sizes)
        column_sizes = (
            [size - (size - LEAST) * min(over / spare, 1.0) for size in column_sizes]
            if spare
            else column_sizes
        )
    return column_sizes


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
