"""An ingest as SVG: five figures and a sparkline, the bar, then the sections of chunks and of the log.

Invariants: figures and sections keep their places; the bar is linear, committed is solid with a gap at each
commit, read but not committed striped, waiting grey. Pure: progress → `Figure`. Called by the widget and by
the static export.
"""

from collections.abc import Sequence
from typing import Any

from widgets.ingest.chunks import chunk_map
from widgets.ingest.model import IngestState
from widgets.ingest.watermarks import watermarks
from widgets.kit import format as fmt
from widgets.kit.panel import MARGIN, ShownNumber, failure, number
from widgets.kit.svg import Figure, fit, line, num, path, rect, tag, text, text_width
from widgets.kit.theme import var

SPARK_W, SPARK_H = 173, 44


def ingest_figure(progress: IngestState, *, width: float) -> Figure:
    """The whole picture without its buttons."""
    body = [_stripes(), line(0, 1, width, 1), _figures(progress, width)]
    body.append(_bar(progress, MARGIN, 80, width - 2 * MARGIN))
    y, meta = 124.0, dict[str, Any]()
    if progress.places:
        chunks, end, grid = chunk_map(progress, y, width)
        body.append(line(0, y, width, y) + chunks)
        y, meta = end, {"states": states_text(progress), "grid": grid}
    if progress.log_head is not None or progress.marks:
        log, end = watermarks(progress, y, width)
        body.append(line(0, y, width, y) + log)
        y = end
    if progress.error:
        heading = f"Stopped after {progress.rows:,} rows."
        box, y = failure(heading, progress.error, progress.next_step, y + 4, width)
        body.append(box)
        y += 8
    return Figure(width, y + 4, "".join(body), _label(progress), meta)


def states_text(progress: IngestState) -> str:
    """One letter a chunk: w, r (reading), d (read), c; for the page's cards."""
    letters = {"waiting": "w", "reading": "r", "read": "d", "committed": "c"}
    return "".join(letters[progress.chunks.get(n, "waiting")] for n in range(min(progress.places, 600)))


def _label(progress: IngestState) -> str:
    of = f" of {progress.total:,}" if progress.total else ""
    commits = fmt.plural(progress.commits, "commit")
    return f"Ingest {progress.title}, {progress.state}: {progress.rows:,}{of} rows, {commits}"


def _stripes() -> str:
    bar = tag("path", d="M1 0V4", stroke=var("append"), stroke_width=2)
    return tag("defs", tag("pattern", bar, id="lw-read", width=4, height=4, patternUnits="userSpaceOnUse"))


def _figures(progress: IngestState, width: float) -> str:
    """Rows, speed with its sparkline, time left, lag, commits: name, value, remark."""
    total = _of_total(progress)
    speeds = progress.speeds
    spread = f"{fmt.short_count(min(speeds))} … {fmt.short_count(max(speeds))}" if speeds else ""
    speed = progress.speed if progress.state == "running" else progress.mean_speed
    wide = width >= 900
    first = [
        ShownNumber("rows", fmt.short_count(progress.rows), total),
        ShownNumber("speed", fmt.short_count(speed), spread, unit="rows/s")
        if wide
        else ShownNumber("rows/s", fmt.short_count(speed), spread),
    ]
    rest = [
        ShownNumber("time left", fmt.duration(progress.left_s), f"elapsed {fmt.duration(progress.elapsed)}"),
        _lag(progress),
        ShownNumber("commits", f"{progress.commits:,}", _last_commit(progress)),
    ]
    spark = SPARK_W + 28 if wide else 0
    step = (width - 2 * MARGIN - spark) / 5
    parts = [number(each, MARGIN + at * step, 0, step - 8) for at, each in enumerate(first)]
    if wide:
        parts.append(_sparkline(progress, MARGIN + 2 * step, 14))
    parts += [number(each, MARGIN + spark + (2 + at) * step, 0, step - 8) for at, each in enumerate(rest)]
    return "".join(parts)


def _of_total(progress: IngestState) -> str:
    """`of 60.0 M`, and what came on top of it."""
    if not progress.total:
        return progress.phase
    if progress.rows <= progress.total:
        return f"of {fmt.short_count(progress.total)}"
    return f"{fmt.short_count(progress.total)} + {fmt.short_count(progress.rows - progress.total)} changes"


def _lag(progress: IngestState) -> ShownNumber:
    """Seconds behind the source if they are known, else the bytes of log that are not committed."""
    if progress.lag_s is not None:
        return ShownNumber("lag", fmt.duration(progress.lag_s), "behind the source")
    value, _, unit = fmt.bytes_text(progress.lag_bytes).partition(" ")
    remark = "of log not committed" if progress.lag_bytes is not None else ""
    return ShownNumber("lag", value, remark, unit=unit)


def _last_commit(progress: IngestState) -> str:
    """`#12, 1.9 s ago`."""
    if progress.commit is None:
        return ""
    last = f"last {fmt.snapshot_id(progress.commit)}"
    if not progress.live or progress.commit_at is None:
        return last
    return f"{last}, {fmt.duration(max(progress.elapsed - progress.commit_at, 0.0))} ago"


def _sparkline(progress: IngestState, x: float, y: float) -> str:
    """Rows a second over the last samples, from 0; a pause is a tick with its word."""
    speeds: Sequence[float] = progress.speeds
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
    first = progress.samples - len(speeds)
    pauses = [x + (at - first) * step for at in progress.stalls if first <= at <= progress.samples]
    parts += [line(at, bottom - 6, at, bottom + 3, stroke="ink2", stroke_width=2) for at in pauses]
    if pauses and pauses[-1] <= x + SPARK_W - 48:
        parts.append(text(pauses[-1] + 5, bottom - 4, "paused", size=11))
    return "".join(parts)


def _bar(progress: IngestState, x: float, y: float, width: float) -> str:
    """Rows of the total; once they are all there, or without a total, bytes of the log; else words. Before
    the first row what happens instead."""
    if progress.awaited:
        words = fit(progress.awaited, width)
        return rect(x, y, width, 10, rx=4, fill=var("line")) + text(x, y + 27, words, fill="ink")
    if progress.total and (progress.rows < progress.total or not progress.log_head):
        committed = progress.rows if progress.committed is None else min(progress.committed, progress.rows)
        word = "read" if progress.committed is None else "committed"
        ticks = [tick for tick in progress.ticks if tick < committed]
        return _shares(committed, progress.rows, progress.total, (x, y, width), ticks=ticks, word=word)
    if progress.log_head and progress.log_done is not None:
        ends = [mark.high for mark in progress.marks if mark.high is not None]
        read = max([progress.log_done, *(end for end in ends if end <= progress.log_head)])
        ticks = [mark.high for mark in progress.marks if mark.committed and mark.high is not None]
        ticks = [tick for tick in ticks if tick < progress.log_done]
        place, word = (x, y, width), "of the log committed"
        return _shares(progress.log_done, read, progress.log_head, place, ticks=ticks, word=word)
    words = f"{progress.rows:,} rows, total not known"
    return rect(x, y, width, 10, rx=4, fill=var("line")) + text(x, y + 27, words)


def _shares(
    committed: int,
    read: int,
    total: int,
    place: tuple[float, float, float],
    *,
    ticks: Sequence[int],
    word: str,
) -> str:
    """Committed solid with gaps at the commits, read striped, waiting grey; the words below their parts."""
    x, y, width = place
    read = min(read, total)
    done, reached = width * min(committed, total) / total, width * read / total
    parts = [rect(x, y, width, 10, rx=4, fill=var("line"))]
    if reached - done >= 1:
        parts.append(rect(x + done, y, reached - done, 10, fill="url(#lw-read)"))
    if done >= 1:
        parts.append(rect(x, y, done, 10, rx=4, fill=var("append")))
    if len(ticks) * 8 <= done:
        parts.append(path([f"M{num(x + width * at / total)} {num(y)}v10" for at in ticks], stroke=var("bg")))
    label = f"{fmt.percent(committed, total)} {word}"
    parts.append(text(x, y + 27, label, fill="ink"))
    left = x + text_width(label) + 20
    waiting = f"{fmt.percent(total - read, total)} waiting"
    parts.append(text(x + width, y + 27, waiting, text_anchor="end"))
    if read > committed:
        words = f"{fmt.percent(read - committed, total)} read, not committed"
        room = x + width - text_width(waiting) - 20 - text_width(words)
        if room >= left:
            parts.append(text(min(max(x + done, left), room), y + 27, words, fill="ink"))
    return "".join(parts)
