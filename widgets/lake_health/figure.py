"""The tables of a lake as a picture: the verdict, the sums, a line a table with its newest commits.

Pure: `LakeModel` → `Figure`. Bars are rows added, commit by commit, linear from 0 within a table; a diamond
is a COMPACT. Called by `widget`.
"""

from datetime import datetime

from widgets.health.figure import SIGNS
from widgets.kit import format as fmt
from widgets.kit.svg import Figure, esc, fit, group, line, num, path, rect, tag, text, text_width
from widgets.kit.theme import var
from widgets.lake_health.model import COMMITS, SHOWN, LakeModel, TableRow

MARGIN, ROW, HEAD, SPARK = 16, 30, 112, 3.5
COLOURS = {"COMPACT": "compact", "OVERWRITE": "overwrite", "ANALYZE": "analyze"}


def lake_figure(
    model: LakeModel, *, width: float, selected: str = "", today: datetime | None = None
) -> Figure:
    """The picture; `selected` names the table whose line is marked."""
    sign, colour = SIGNS.get("reading" if model.reading else model.state, SIGNS["empty"])
    body = [text(MARGIN, 26, sign, size=15, fill=colour, weight=600)]
    room = width - 2 * MARGIN - 22
    body.append(
        text(MARGIN + 22, 26, fit(model.verdict, room, size=15, weight=600), size=15, fill="ink", weight=600)
    )
    files, size, rows = model.sums
    wide = min((width - 2 * MARGIN) / 4, 160)
    facts = [(fmt.short_count(len(model.rows)), "tables read"), (fmt.count(files), "files")]
    facts += [(fmt.bytes_text(size), "live"), (fmt.short_count(rows), "rows stored")]
    for at, (number, noun) in enumerate(facts):
        x = MARGIN + at * wide
        size = 20 if text_width(number, size=20, weight=600) <= wide - 8 else 15
        shown = fit(number, wide - 8, size=size, weight=600)
        body.append(text(x, 62, shown, size=size, fill="ink", weight=600))
        body.append(text(x, 80, noun, size=11))
    places = _places(width)
    for name, heading, anchor in (
        ("name", "table", "start"),
        ("verdict", "verdict", "start"),
        ("files", "files", "end"),
        ("bytes", "live", "end"),
        ("spark", "rows added, newest commits", "start"),
        ("last", "last commit", "end"),
    ):
        if name in places:
            body.append(text(places[name], HEAD - 6, heading, size=11, text_anchor=anchor))
    body.append(line(MARGIN, HEAD, width - MARGIN, HEAD))
    y, tall = float(HEAD), _row_height(places)
    for row in model.rows[:SHOWN]:
        body.append(_row(row, y, width, places, selected == row.name, today))
        y += tall
    words = [f"{fmt.plural(len(model.rows) - SHOWN, 'more table')}"] if len(model.rows) > SHOWN else []
    words += [model.progress] if model.progress else []
    if words:
        body.append(text(MARGIN + 22, y + 20, " · ".join(words), size=11))
        y += 28
    return Figure(width, max(y, HEAD + tall) + 8, "".join(body), model.verdict)


def _places(width: float) -> dict[str, float]:
    """Where each column begins (numbers: ends)."""
    spark = COMMITS * SPARK
    last = width - MARGIN
    places = {"name": MARGIN + 22.0, "last": last}
    right = last - 104
    if width >= 860:
        places["spark"] = right - spark
        right = places["spark"] - 20
    if width >= 560:
        places["bytes"] = right
        places["files"] = right - 84
        right = places["files"] - 64
    if width >= 560:
        places["verdict"] = MARGIN + 22 + min(max((right - MARGIN) * 0.34, 100), 220)
    return places | {"end": right}


def _row_height(places: dict[str, float]) -> int:
    """Where there is no column for it, the verdict is a second line of its table."""
    return ROW if "verdict" in places else ROW + 16


def _row(
    row: TableRow, y: float, width: float, places: dict[str, float], selected: bool, today: datetime | None
) -> str:
    sign, colour = SIGNS.get(row.state, SIGNS["empty"])
    tall = _row_height(places)
    ground = rect(
        MARGIN - 8,
        y + 2,
        width - 2 * MARGIN + 16,
        tall - 4,
        rx=4,
        fill=var("sel-tint") if selected else "none",
        class_="hit",
    )
    base = y + 20
    parts = [ground, text(MARGIN, base, sign, size=13, fill=colour, weight=600)]
    beside = "verdict" in places
    name_end = places["verdict"] if beside else places["end"]
    name = fit(row.name, name_end - places["name"] - 12, weight=600)
    parts.append(text(places["name"], base, name, fill="ink", weight=600))
    x, end = (places["verdict"], places["end"]) if beside else (places["name"], width - MARGIN)
    verdict = fit(row.verdict, end - x)
    parts.append(text(x, base + tall - ROW, verdict, fill="err" if row.state == "broken" else "ink2"))
    if row.state != "broken":
        for column, words in (("files", fmt.count(row.files)), ("bytes", fmt.bytes_text(row.bytes))):
            if column in places:
                parts.append(text(places[column], base, words, fill="ink", text_anchor="end"))
        parts.append(
            text(places["last"], base, fmt.stamp(row.committed, today=today), size=11, text_anchor="end")
        )
    if "spark" in places and row.commits:
        parts.append(_spark(row, places["spark"], y + 24))
    parts.append(line(MARGIN, y + tall, width - MARGIN, y + tall))
    label = f"{row.name}: {row.verdict}"
    return group(
        tag("title", esc(label)),
        *parts,
        class_="table",
        data_table=row.name,
        role="option",
        aria_selected=str(selected).lower(),
        aria_label=label,
    )


def _spark(row: TableRow, x: float, base: float) -> str:
    """A bar a commit, a diamond on the line for one that adds nothing."""
    most = max((count for kind, count in row.commits if kind != "COMPACT"), default=0)
    steps: dict[str, list[str]] = {}
    for at, (kind, count) in enumerate(row.commits):
        left, colour = x + at * SPARK, COLOURS.get(kind, "append")
        if kind == "COMPACT":
            steps.setdefault(colour, []).append(f"M{num(left + 1.3)} {num(base - 2)}l2 2l-2 2l-2 -2z")
        elif count > 0 and most:
            tall = max(18 * count / most, 1.0)
            steps.setdefault(colour, []).append(f"M{num(left)} {num(base)}v-{num(tall)}h2.6v{num(tall)}z")
    drawn = [path(some, fill=var(colour)) for colour, some in sorted(steps.items())]
    return line(x, base, x + COMMITS * SPARK, base, stroke="line2") + "".join(drawn)
