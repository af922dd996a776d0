"""The health of a table as a picture: verdict, key figures, what each commit touched, the buckets over time,
the worst of them, and what the last compactions bought.

Pure: `HealthModel` → `Figure`. x is commit order in the strip and in the grid; a cell is the state after the
last commit of its column. `meta` says where the grid is and which snapshots its columns end with, for cursor
and pointer. Called by `widget`.
"""

from typing import Literal

import numpy as np

from widgets.health.model import Bad, HealthModel, amplification_facts
from widgets.kit import format as fmt
from widgets.kit.svg import (
    Figure,
    esc,
    fit,
    fit_place,
    group,
    legend,
    line,
    num,
    path,
    rect,
    tag,
    text,
    text_width,
    wrap,
)
from widgets.kit.theme import level_fill, var

ColourBy = Literal["runs", "bytes", "files", "due"]
MARGIN, LEFT, STEPS = 16, 98, 6
SIGNS = {
    "healthy": ("✓", "ok"),
    "due": ("▲", "warn"),
    "risk": ("✕", "err"),
    "broken": ("✕", "err"),
    "empty": ("○", "ink2"),
    "reading": ("…", "ink3"),
}
UP, DOWN, ROW, TWO_LINES, LEGEND, KEY = 28, 20, 24, 38, 44, 132
BESIDE, TWO_BELOW = 1100, 560


def plot_width(width: float) -> float:
    """Pixels of the grid in a picture of this width."""
    return _left_part(width) - 2 * MARGIN - LEFT


def _left_part(width: float) -> float:
    """How far the history goes: where it is wide, the list of the worst stands beside it."""
    return float(round(width * 0.6)) if width >= BESIDE else width


def health_figure(
    model: HealthModel,
    *,
    width: float,
    colour_by: ColourBy = "runs",
    opened: str = "",
    chosen: tuple[str, ...] = (),
    cursor: bool = False,
) -> Figure:
    """The whole picture; with `cursor` the snapshot shown is marked, which the live view does by itself."""
    numbers, top = _key_figures(model, width)
    height = top
    body = [_verdict(model, width), numbers]
    meta: dict[str, object] = {}
    if model.grid is not None and model.commits is not None and len(model.grid.places):
        drawn, meta, height = _history(model, (_left_part(width), top), colour_by, opened, cursor)
        body.append(drawn)
    beside = bool(meta) and _left_part(width) < width
    lower, end = (_beside if beside else _lower)(model, width, top if beside else height, opened, chosen)
    height = max(height, end)
    body.append(lower)
    return Figure(width, height, "".join(body), model.verdict, meta)


def _verdict(model: HealthModel, width: float) -> str:
    sign, colour = SIGNS.get(model.state, SIGNS["empty"])
    room = width - 2 * MARGIN - 24
    whole = text_width(model.verdict, size=15, weight=600) <= room
    # of a telephone's width two smaller lines, which take no more height
    rows = [model.verdict] if whole else wrap(model.verdict, room * 0.92, size=13, lines=2)
    size, first = (15, 26) if whole else (13, 18 if len(rows) > 1 else 26)
    parts = [text(MARGIN, first, sign, size=15, fill=colour, weight=600)]
    parts += [
        text(MARGIN + 22, first + 17 * at, row, size=size, fill="ink", weight=600)
        for at, row in enumerate(rows)
    ]
    return "".join(parts)


def _facts(model: HealthModel) -> tuple[tuple[str, str], ...]:
    more = (
        amplification_facts(model.amplification) if model.amplification else (("…", "write amplification"),)
    )
    return (*model.facts, *(more if model.facts else ()))


def _columns(model: HealthModel, width: float) -> int:
    """How many key figures stand side by side."""
    return min(int((width - 2 * MARGIN) // KEY), max(len(_facts(model)), 6))


def _key_figures(model: HealthModel, width: float) -> tuple[str, float]:
    """The numbers with their nouns below, in columns of one width; and where they end."""
    facts, columns = _facts(model), _columns(model, width)
    if not facts:
        return "", 40
    wide = (width - 2 * MARGIN) / columns
    parts = []
    for at, (number, noun) in enumerate(facts):
        x, y = MARGIN + at % columns * wide, at // columns * 44
        shown = fit(number, wide - 8, size=20, weight=600)
        parts.append(text(x, y + 62, shown, size=20, fill="ink", weight=600))
        parts.append(text(x, y + 80, fit(noun, wide - 6, size=11), size=11))
    return "".join(parts), 92.0 + (len(facts) - 1) // columns * 44


def _history(
    model: HealthModel, place: tuple[float, float], colour_by: ColourBy, opened: str, cursor: bool
) -> tuple[str, dict[str, object], float]:
    """The strip of commits above the grid; `place` is the picture's width and where the strip begins."""
    assert model.grid is not None, "there is a history"
    width, above = place
    ends, left, wide = model.grid.ends, MARGIN + LEFT, width - 2 * MARGIN - LEFT
    pitch = wide / len(ends)
    values = model.rows("runs") if colour_by == "due" else model.rows(colour_by)
    tall = max(4.0, min(16.0, 256 / len(values)))
    base = above + 12 + UP
    top = base + DOWN + 14
    bottom = top + tall * len(values)
    body = [_strip(model, left, pitch, base), _cells(model, values, (left, top, pitch, tall), colour_by)]
    body.append(_row_names(model, top, tall))
    body.append(_axis(ends, left, pitch, bottom + 15))
    body.append(_legend(model, width, colour_by, int(values.max(initial=0)), bottom + 36))
    row = model.row_of(opened) if opened else None
    if row is not None:
        body.append(_opened(left, left + pitch * len(ends), top + (row + 0.5) * tall))
    if cursor and model.snapshot is not None:
        x = left + (model.grid.column(model.snapshot) + 0.5) * pitch
        body.append(line(x, base - UP - 2, x, bottom + 3, stroke="ink", stroke_width=2))
    meta: dict[str, object] = {
        "plot": [left, top, pitch, tall],
        "strip": base - UP - 2,
        "ends": ends.tolist(),
        "rows": len(values),
        "group": model.group,
        "unit": colour_by,
        "values": [_lengths(row) for row in values],
    }
    return "".join(body), meta, bottom + LEGEND


def _opened(left: float, right: float, y: float) -> str:
    """Marks the row of the opened bucket at both ends, and hides none of it."""
    ends = [f"M{num(left - 2)} {num(y)}l-6 -4v8z", f"M{num(right + 2)} {num(y)}l6 -4v8z"]
    return path(ends, fill=var("ink"), class_="opened")


def _lengths(row: np.ndarray) -> list[int]:
    """Values and how often each repeats, one after the other: short for what seldom changes."""
    starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    lengths = np.diff(np.r_[starts, len(row)])
    return np.stack([row[starts], lengths], axis=1).ravel().tolist()


def _strip(model: HealthModel, left: float, pitch: float, base: float) -> str:
    """What each commit touched: buckets above the line, by compactions below it."""
    assert model.commits is not None, "there is a history"
    assert model.grid is not None, "there is a history"
    commits = model.commits
    column = np.minimum(np.searchsorted(model.grid.ends, commits.ids), model.grid.columns - 1)
    compact = np.array([kind == "COMPACT" for kind in commits.kinds], bool)
    most = max(int(commits.touched.max(initial=0)), 1)
    parts = [
        text(MARGIN, base - 12, "buckets touched", size=11),
        text(MARGIN, base + 2, f"most {most:,}", size=11),
        text(MARGIN, base + 16, "compacted", size=11, fill="compact"),
    ]
    bar = max(min(pitch * 0.62, 14.0), 1.0)
    for mine, colour, sign, room in ((~compact, "append", -1, UP), (compact, "compact", 1, DOWN)):
        tops = np.zeros(model.grid.columns, np.int64)
        np.maximum.at(tops, column[mine], commits.touched[mine])
        foot = num(base + sign)
        steps = (
            f"M{num(left + at * pitch + (pitch - bar) / 2)} {foot}v{num(sign * max(room * n / most, 1.0))}"
            f"h{num(bar)}V{foot}z"
            for at, n in enumerate(tops.tolist())
            if n
        )
        parts.append(path(steps, fill=var(colour)))
    parts.append(line(left, base, left + pitch * model.grid.columns, base, stroke="line2"))
    return "".join(parts)


def _cells(
    model: HealthModel, values: np.ndarray, place: tuple[float, float, float, float], colour_by: ColourBy
) -> str:
    """The grid: one path a shade, neighbours of one shade in a row as one box."""
    assert model.grid is not None, "there is a history"
    left, top, pitch, tall = place
    files = model.rows("files")
    shade = _shades(model, values, colour_by)
    shade = np.where(files > 0, shade, -1)
    cells: dict[int, list[str]] = {}
    gap = 1.0 if tall >= 6 else 0.5
    for at, row in enumerate(shade):
        starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
        ends = np.r_[starts[1:], len(row)]
        y = num(top + at * tall)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            if row[start] >= 0:
                x, wide = num(left + start * pitch), num((end - start) * pitch)
                cells.setdefault(int(row[start]), []).append(f"M{x} {y}h{wide}v{num(tall - gap)}h-{wide}z")
    shapes = [path(steps, fill=_fill(step, colour_by)) for step, steps in sorted(cells.items())]
    whole = rect(left, top, pitch * model.grid.columns, tall * len(values), fill=var("bg"))
    return group(whole, *shapes, class_="heat")


def _shades(model: HealthModel, values: np.ndarray, colour_by: ColourBy) -> np.ndarray:
    """The step of each cell: 0 the least, STEPS − 1 the most; of "due" 1 where runs reach beyond the
    trigger."""
    if colour_by == "due":
        return (values > model.trigger).astype(np.int64)
    return np.minimum(values * STEPS // max(_largest(model, values, colour_by) + 1, 1), STEPS - 1)


def _largest(model: HealthModel, values: np.ndarray, colour_by: ColourBy) -> int:
    most = int(values.max(initial=0))
    return min(max(model.stop, 1), most) if colour_by == "runs" and model.stop else most


def _fill(step: int, colour_by: ColourBy) -> str:
    if colour_by == "due":
        return var("compact") if step else level_fill(0, STEPS)
    return level_fill(step, STEPS)


def _row_names(model: HealthModel, top: float, tall: float) -> str:
    """The place of every row that has room for its name."""
    assert model.grid is not None, "there is a history"
    parts, free = [], -1e9
    for at in range(-(-len(model.grid.places) // model.group)):
        partition, bucket = model.grid.places[at * model.group]
        y = top + at * tall + tall / 2 + 4
        if y - free < 14:
            continue
        free = y
        name = f"{fmt.short_partition(partition)}/{bucket}" if partition else f"bucket {bucket}"
        parts.append(text(MARGIN, y, fit_place(name, LEFT - 8, size=11), size=11))
    return "".join(parts)


def _axis(ends: np.ndarray, left: float, pitch: float, y: float) -> str:
    """Snapshot ids below the grid."""
    parts, free = [], -1e9
    last = left + len(ends) * pitch
    final = fmt.snapshot_id(int(ends[-1]))
    room = last - text_width(final, size=11) - 10
    for at in range(0, len(ends), max(len(ends) // 8, 1)):
        name = fmt.snapshot_id(int(ends[at]))
        x = left + at * pitch
        if name != final and x > free and x + text_width(name, size=11) < room:
            parts.append(text(x, y, name, size=11))
            free = x + text_width(name, size=11) + 24
    parts.append(text(max(last, left + text_width(final, size=11)), y, final, size=11, text_anchor="end"))
    return "".join(parts)


def _legend(model: HealthModel, width: float, colour_by: ColourBy, most: int, y: float) -> str:
    """What a shade, a column and a row are."""
    assert model.grid is not None, "there is a history"
    assert model.commits is not None, "there is a history"
    x, parts = float(MARGIN + LEFT), []
    if colour_by == "due":
        says = f"up to trigger {model.trigger}", f"runs above trigger {model.trigger}"
        boxes = [rect(0, 0, 11, 12, rx=2, fill=_fill(n, colour_by), stroke=var("edge")) for n in (0, 1)]
        drawn, x, _ = legend(zip((11.0, 11.0), boxes, says, strict=True), (x, y), width, top=10)
        parts.append(drawn)
    else:
        for step in range(STEPS):
            parts.append(
                rect(x + step * 13, y - 10, 11, 12, rx=2, fill=_fill(step, colour_by), stroke=var("edge"))
            )
        x += STEPS * 13 + 6
        least, cut = "0 … ", colour_by == "runs" and model.stop and most > model.stop
        number = f"{model.stop}+" if cut else fmt.count(most)
        shown = fmt.bytes_text(most) if colour_by == "bytes" else f"{number} {colour_by}"
        parts.append(text(x, y, least + shown, size=11))
        x += text_width(least + shown, size=11) + 14
    each = -(-len(model.commits.ids) // model.grid.columns)
    rules = [f"1 column = {each} commits, after the last"] if each > 1 else []
    rules += [f"1 row = {model.group} buckets, the largest"] if model.group > 1 else []
    parts.append(text(x, y, fit(" · ".join(rules), width - MARGIN - x, size=11), size=11, fill="ink3"))
    return "".join(parts)


def _beside(
    model: HealthModel, width: float, top: float, opened: str, chosen: tuple[str, ...]
) -> tuple[str, float]:
    """The worst buckets in lines of two rows, below them what compactions bought; and where they end."""
    x = _left_part(width) + MARGIN
    wide = width - MARGIN - x
    parts = [text(0, 18, "Worst buckets", size=13, fill="ink", weight=600)]
    y = 28.0
    for bad in model.worst:
        parts.append(_bad(bad, y, wide, opened=bad.id == opened, chosen=bad.id in chosen, left=0, two=True))
        y += TWO_LINES
    if not model.worst:
        words = "Every bucket is one sorted run." if model.merges else "No files to combine."
        parts.append(text(0, y + 16, words if model.facts else "", size=12))
        y += ROW
    if model.more:
        parts.append(text(24, y + 16, f"{model.more:,} more with work", size=11))
        y += ROW
    y += 22
    parts.append(text(0, y, "What the last compaction bought", size=13, fill="ink", weight=600))
    for sentence in model.bought:
        y += 4
        for words in wrap(sentence, wide, size=12, lines=4):
            y += 17
            parts.append(text(0, y, words, size=12))
    return group(*parts, transform=f"translate({num(x)} {num(top)})"), top + y + 14


def _lower(
    model: HealthModel, width: float, top: float, opened: str, chosen: tuple[str, ...]
) -> tuple[str, float]:
    """The worst buckets, beside or above what compactions bought; and where they end."""
    beside = width >= 900
    wide = (width - 2 * MARGIN) * (0.66 if beside else 1.0)
    parts = [line(MARGIN, top, width - MARGIN, top)]
    parts.append(text(MARGIN, top + 24, "Worst buckets", size=13, fill="ink", weight=600))
    y = top + 34
    for bad in model.worst:
        two = wide < TWO_BELOW
        parts.append(_bad(bad, y, wide, opened=bad.id == opened, chosen=bad.id in chosen, two=two))
        y += TWO_LINES if two else ROW
    if not model.worst:
        words = "Every bucket is one sorted run." if model.merges else "No files to combine."
        parts.append(text(MARGIN, y + 16, words if model.facts else "", size=12))
        y += ROW
    if model.more:
        parts.append(text(MARGIN + 24, y + 16, f"{model.more:,} more with work", size=11))
        y += ROW
    x = MARGIN + wide + 24 if beside else MARGIN
    at = top + 24 if beside else y + 20
    parts.append(text(x, at, "What the last compaction bought", size=13, fill="ink", weight=600))
    for sentence in model.bought:
        at += 4
        for words in wrap(sentence, width - MARGIN - x, size=12, lines=4):
            at += 17
            parts.append(text(x, at, words, size=12))
    return "".join(parts), max(y, at) + 14


def _bad(
    bad: Bad, y: float, wide: float, *, opened: bool, chosen: bool, two: bool, left: float = MARGIN
) -> str:
    """A line of the list: a box to choose it, its name, its numbers, what is due, which stands below in lines
    of `two` rows."""
    tick = path([f"M{num(left + 3)} {num(y + 11)}l3 4l5 -7"], fill="none", stroke=var("bg"), stroke_width=2)
    box = rect(left, y + 5, 14, 14, rx=3, fill=var("ink") if chosen else var("bg"), stroke=var("line2"))
    tall = TWO_LINES if two else ROW
    ground = rect(left - 6, y, wide + 6, tall, rx=4, fill=var("sel-tint") if opened else "none", class_="hit")
    name_wide = wide - 24 - 214 if two else min(wide * 0.30, 260)
    x = left + 24 + name_wide
    parts = [ground, box, tick if chosen else ""]
    weight = 600 if opened and text_width(bad.place, weight=600) <= name_wide - 8 else 400
    name = fit_place(bad.place, name_wide - 8, weight=weight)
    parts.append(text(left + 24, y + 16, name, fill="ink", weight=weight))
    for words, room in (
        (fmt.plural(bad.runs, "run"), 64),
        (fmt.plural(bad.files, "file"), 72),
        (fmt.bytes_text(bad.bytes), 78),
    ):
        parts.append(text(x + room - 14, y + 16, words, text_anchor="end", fill="ink"))
        x += room
    due = f"due {bad.due}" if bad.due else "nothing due"
    x, down = (left + 24, 31) if two else (x, 16)
    whole, rule = (f"{due} · {words}" if words else due for words in (bad.reason, bad.reason.split(":")[0]))
    words = whole if text_width(whole, size=11) <= left + wide - x else fit(rule, left + wide - x, size=11)
    parts.append(text(x, y + down, words, size=11, fill="compact" if bad.due else "ink3"))
    label = f"{bad.place}: {bad.runs} runs, {bad.files} files, {due}, {bad.reason}"
    return group(
        tag("title", esc(label)),
        *parts,
        class_="bad",
        data_bucket=bad.id,
        role="option",
        aria_selected=str(chosen).lower(),
        aria_label=label,
    )
