"""An ingest as SVG: five figures and a sparkline, the bar, and the map of its chunks.

Invariants: figures keep their places; the bar is linear; committed is solid, read but not committed
striped, waiting empty; more than 600 chunks become columns of 4 px that say how many they stand for. Pure:
progress → `Figure`. Called by the widget and by the static export.
"""

from collections.abc import Sequence

from widgets import _format as fmt
from widgets._svg import Figure, code, fit, line, num, path, rect, tag, text, text_width, wrap
from widgets._theme import var
from widgets.ingest.model import Progress

MARGIN = 16
CHUNK_W, CHUNK_H, PER_ROW, MAX_CHUNKS = 15, 24, 50, 600
SPARK_W, SPARK_H = 173, 44


def ingest_figure(progress: Progress, *, width: float) -> Figure:
    """The whole picture without its buttons."""
    body, y = [_stripes(), _figures(progress, width)], 76.0
    body.append(_bar(progress, MARGIN, y, width - 2 * MARGIN))
    y += 40
    if progress.places:
        chunks, y = _chunks(progress, y, width)
        body.append(chunks)
    if progress.error:
        failure, y = _failure(progress, y, width)
        body.append(failure)
    return Figure(width, y + 8, "".join(body), _label(progress))


def _label(progress: Progress) -> str:
    of = f" of {progress.total:,}" if progress.total else ""
    commits = fmt.plural(progress.commits, "commit")
    return f"Ingest {progress.title}, {progress.state}: {progress.rows:,}{of} rows, {commits}"


def _stripes() -> str:
    bar = tag("path", d="M1 0V4", stroke=var("append"), stroke_width=2)
    return tag("defs", tag("pattern", bar, id="lw-read", width=4, height=4, patternUnits="userSpaceOnUse"))


def _figures(progress: Progress, width: float) -> str:
    """Rows, speed with its sparkline, time left, lag, commits: name, value, remark."""
    total = f"of {fmt.short_count(progress.total)}" if progress.total is not None else progress.phase
    speeds = progress.speeds
    spread = f"{fmt.short_count(min(speeds))} … {fmt.short_count(max(speeds))}" if speeds else ""
    speed = progress.speed if progress.state == "running" else progress.mean_speed
    commit = f"last {fmt.snapshot_id(progress.commit)}" if progress.commit is not None else ""
    wide = width >= 900
    first = [
        ("rows", fmt.short_count(progress.rows), "", total),
        ("speed", fmt.short_count(speed), "rows/s", spread),
    ]
    rest = [
        ("time left", fmt.duration(progress.left_s), "", f"elapsed {fmt.duration(progress.elapsed)}"),
        ("lag", fmt.duration(progress.lag_s), "", "behind the source" if progress.lag_s is not None else ""),
        ("commits", f"{progress.commits:,}", "", commit),
    ]
    spark = SPARK_W + 28 if wide else 0
    step = (width - 2 * MARGIN - spark) / 5
    parts = [_figure(MARGIN + at * step, step - 8, *figure) for at, figure in enumerate(first)]
    if wide:
        parts.append(_sparkline(speeds, MARGIN + 2 * step, 10))
    parts += [_figure(MARGIN + spark + (2 + at) * step, step - 8, *figure) for at, figure in enumerate(rest)]
    return "".join(parts)


def _figure(x: float, room: float, name: str, value: str, unit: str, remark: str) -> str:
    parts = [text(x, 18, name, size=11), text(x, 42, value, size=20, fill="ink", weight=600)]
    after = x + text_width(value, size=20, weight=600) + 6
    if unit and after + text_width(unit) <= x + room:
        parts.append(text(after, 42, unit))
    parts.append(text(x, 60, fit(remark, room, size=11), size=11))
    return "".join(parts)


def _sparkline(speeds: Sequence[float], x: float, y: float) -> str:
    """Rows a second over the last samples, from 0."""
    bottom = y + SPARK_H
    parts = [line(x, bottom, x + SPARK_W, bottom, stroke="line2")]
    if len(speeds) < 2:
        return "".join(parts)
    top = max(speeds) or 1.0
    step = SPARK_W / (len(speeds) - 1)
    points = [(x + at * step, bottom - 38 * speed / top) for at, speed in enumerate(speeds)]
    trail = "L".join(f"{num(px)} {num(py)}" for px, py in points)
    parts.append(path([f"M{num(x)} {num(bottom)}L{trail}V{num(bottom)}Z"], fill=var("sel-tint")))
    parts.append(path([f"M{trail}"], fill="none", stroke=var("append"), stroke_width="1.75"))
    parts.append(tag("circle", cx=points[-1][0], cy=points[-1][1], r=2.5, fill=var("append")))
    return "".join(parts)


def _bar(progress: Progress, x: float, y: float, width: float) -> str:
    """Committed solid, read striped, waiting grey; without a total only words."""
    parts = [rect(x, y, width, 10, rx=4, fill=var("line"))]
    if not progress.total:
        words = f"{progress.rows:,} rows, total not known"
        return "".join(parts) + text(x, y + 27, words)
    committed = progress.rows if progress.committed is None else min(progress.committed, progress.rows)
    done = min(width * committed / progress.total, width)
    read = min(width * progress.rows / progress.total, width)
    if read - done >= 1:
        parts.append(rect(x + done, y, read - done, 10, fill="url(#lw-read)"))
    if done >= 1:
        parts.append(rect(x, y, done, 10, rx=4, fill=var("append")))
    word = "read" if progress.committed is None else "committed"
    parts.append(text(x, y + 27, f"{fmt.percent(committed, progress.total)} {word}", fill="ink"))
    waiting = max(progress.total - progress.rows, 0)
    parts.append(
        text(x + width, y + 27, f"{fmt.percent(waiting, progress.total)} waiting", text_anchor="end")
    )
    if progress.rows > committed:
        words = f"{fmt.percent(progress.rows - committed, progress.total)} read, not committed"
        parts.append(text(x + width / 2, y + 27, words, text_anchor="middle"))
    return "".join(parts)


def _chunks(progress: Progress, y: float, width: float) -> tuple[str, float]:
    """The map of chunks in key order under a legend with counts."""
    places, counts = progress.places, progress.counts
    parts = [line(0, y, width, y), text(MARGIN, y + 26, "Chunks", size=13, fill="ink", weight=600)]
    dense = places > MAX_CHUNKS
    per = -(-places // int((width - 2 * MARGIN) // 4)) if dense else 1
    remark = f"{places:,}, in key order" + (f" · 1 column = {per} chunks" if dense and per > 1 else "")
    parts.append(text(MARGIN + 58, y + 26, remark))
    if width >= 860:
        parts.append(_chunk_legend(progress, counts, width - MARGIN, y + 26))
        top = y + 40
    else:
        parts.append(_chunk_legend(progress, counts, width - MARGIN, y + 48))
        top = y + 62
    draw = _chunk_columns if dense else _chunk_boxes
    boxes, bottom = draw(progress, top, width)
    return "".join(parts) + boxes, bottom + 8


def _chunk_legend(progress: Progress, counts: dict[str, int], right: float, y: float) -> str:
    """From right to left: retried, waiting, reading, read, committed."""
    parts, x = [], right
    if progress.retried:
        words = f"2× retried {len(progress.retried)}"
        x -= text_width(words, size=11)
        parts.append(text(x, y, words, size=11))
        x -= 12
    words_of = {
        "read": "read, awaiting commit",
        "reading": "reading",
        "waiting": "waiting",
        "committed": "committed",
    }
    for state in ("waiting", "reading", "read", "committed"):
        words = f"{words_of[state]} {counts.get(state, 0):,}"
        x -= text_width(words, size=11)
        parts.append(text(x, y, words, size=11))
        x -= 18
        parts.append(_chunk(x, y - 10, 12, 12, state))
        x -= 12
    return "".join(parts)


def _chunk(x: float, y: float, wide: float, tall: float, state: str) -> str:
    """One chunk: empty, half filled with a ring, striped, or solid."""
    if state == "committed":
        return rect(x, y, wide, tall, rx=2, fill=var("append"), class_="box")
    if state == "read":
        return rect(x, y, wide, tall, rx=2, fill="url(#lw-read)", stroke=var("append"))
    outline = rect(x + 0.5, y + 0.5, wide - 1, tall - 1, rx=2, fill="none", stroke=var("line2"))
    if state == "reading":
        half = rect(x, y + tall / 2, wide, tall / 2, rx=1, fill=var("append"))
        return half + rect(
            x - 1, y - 1, wide + 2, tall + 2, rx=3, fill="none", stroke=var("ink"), stroke_width=2
        )
    return outline


def _chunk_boxes(progress: Progress, top: float, width: float) -> tuple[str, float]:
    """A box a chunk, fifty a row where they fit."""
    pitch = max((width - 2 * MARGIN + 4) / PER_ROW, CHUNK_W + 4)
    per_row = int((width - 2 * MARGIN + 4) // pitch)
    parts = []
    for number in range(progress.places):
        row, column = divmod(number, per_row)
        x, y = MARGIN + column * pitch, top + row * (CHUNK_H + 5)
        parts.append(_chunk(x, y, CHUNK_W, CHUNK_H, progress.chunks.get(number, "waiting")))
        if times := progress.retried.get(number):
            parts.append(rect(x, y + 6, CHUNK_W, 13, fill=var("bg")))
            parts.append(
                text(
                    x + CHUNK_W / 2,
                    y + 16,
                    f"{times}×" if times < 10 else "9+",
                    size=11,
                    fill="ink",
                    text_anchor="middle",
                )
            )
    rows = -(-progress.places // per_row)
    return "".join(parts), top + rows * (CHUNK_H + 5)


def _chunk_columns(progress: Progress, top: float, width: float) -> tuple[str, float]:
    """Columns of 4 px: the share committed solid from below, the share read striped on top of it."""
    columns = int((width - 2 * MARGIN) // 4)
    per = -(-progress.places // columns)
    parts = [rect(MARGIN, top, -(-progress.places // per) * 4, 48, fill=var("line"))]
    solid, striped = [], []
    for column in range(-(-progress.places // per)):
        members = range(column * per, min((column + 1) * per, progress.places))
        states = [progress.chunks.get(number) for number in members]
        done = 48 * states.count("committed") / len(states)
        read = 48 * (states.count("read") + states.count("reading")) / len(states)
        x = MARGIN + column * 4
        if done:
            solid.append(f"M{x} {num(top + 48)}v{num(-done)}h3v{num(done)}z")
        if read:
            striped.append(f"M{x} {num(top + 48 - done)}v{num(-read)}h3v{num(read)}z")
    parts.append(path(solid, fill=var("append")) + path(striped, fill="url(#lw-read)"))
    return "".join(parts), top + 48


def _failure(progress: Progress, y: float, width: float) -> tuple[str, float]:
    """What failed, in its own words, and the next step."""
    rows = wrap(progress.error, width - 2 * MARGIN - 30, size=11, monospace=True, lines=4)
    tall = 30 + 15 * len(rows) + (18 if progress.next_step else 0)
    parts = [rect(MARGIN, y, width - 2 * MARGIN, tall, rx=4, fill=var("err-tint"))]
    parts.append(rect(MARGIN, y, 3, tall, fill=var("err")))
    head = f"✕ Stopped after {progress.rows:,} rows."
    parts.append(text(MARGIN + 14, y + 20, head, fill="err", weight=600))
    parts += [code(MARGIN + 14, y + 38 + 15 * at, row) for at, row in enumerate(rows)]
    if progress.next_step:
        parts.append(text(MARGIN + 14, y + tall - 8, fit(progress.next_step, width - 60), fill="ink"))
    return "".join(parts), y + tall
