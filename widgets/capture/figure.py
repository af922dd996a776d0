"""A capture as SVG: the figures, the tables with their chunks, the strips over time, the schema changes.

Invariants: figures and sections keep their order and their places; sections grow downwards only. Pure: model
→ `Figure`. Called by the widget and by the static export.
"""

from __future__ import annotations

from tablestore import CaptureModel
from widgets.capture.charts import distribution, over_time, schema_list
from widgets.capture.lanes import chunk_map
from widgets.kit import format as fmt
from widgets.kit.panel import MARGIN, ShownNumber, failure, numbers
from widgets.kit.svg import Figure, line

BESIDE = 860
RESTART = "Mend the cause and start it again: it goes on behind the last batch that is committed."
MOST_CHANGES = 6


def capture_figure(model: CaptureModel, *, width: float) -> Figure:
    """The whole picture without its buttons."""
    figures, y = _figures(model, width)
    body = [line(0, 1, width, 1), figures, line(0, y, width, y)]
    chunks, y, meta = chunk_map(model, y, width)
    body += [chunks, line(0, y, width, y)]
    wide = width >= BESIDE
    inner = width - 2 * MARGIN
    left = inner * 0.64 - 24 if wide else inner
    strips, end, times = over_time(model, MARGIN, y + 8, left)
    body.append(strips)
    if wide:
        x = MARGIN + left + 40
        body.append(distribution(model, x, y + 8, width - MARGIN - x, bottom=times["bottom"]))
    else:
        body.append(distribution(model, MARGIN, end + 6, inner, bottom=end + 142))
        end += 166
    y = end + 6
    body.append(line(0, y, width, y))
    listed, y = schema_list(model, y, width, most=MOST_CHANGES)
    body.append(listed)
    if model.error:
        box, y = failure("The capture has failed.", model.error, RESTART, y + 4, width)
        body.append(box)
        y += 8
    return Figure(width, y + 4, "".join(body), _label(model), meta | times)


def _label(model: CaptureModel) -> str:
    totals = model.totals
    said = [
        f"{totals['snapshot_rows']:,} rows read",
        fmt.plural(totals["changes"], "change"),
        fmt.plural(len(model.changes), "schema change"),
    ]
    return f"Capture {model.title}, {model.state_text.partition(' · last')[0]}: {', '.join(said)}"


def _figures(model: CaptureModel, width: float) -> tuple[str, float]:
    """Rows, changes, speed, freshness, log behind, commits, bad rows: name, value, remark."""
    totals, last = model.totals, model.last
    behind, _, unit = fmt.bytes_text(last.bytes_behind if last else None).partition(" ")
    p95, p99 = (fmt.seconds_text(model.quantile(share)) for share in (0.95, 0.99))
    bad = totals["bad_rows"]
    when, schemas = "now" if model.live else "on average", fmt.plural(len(model.changes), "schema change")
    figures = [
        ShownNumber("rows read", fmt.short_count(totals["snapshot_rows"]), _rows_remark(model)),
        ShownNumber("changes", fmt.short_count(totals["changes"]), _log_remark(model)),
        ShownNumber("speed", fmt.short_count(model.speed), when, unit="rows/s"),
        ShownNumber("freshness p50", fmt.seconds_text(model.quantile(0.5)), f"p95 {p95} · p99 {p99}"),
        ShownNumber("log behind", behind, "at the last batch", unit=unit),
        ShownNumber("commits", f"{totals['commits']:,}", schemas),
        ShownNumber("bad rows", f"▲ {bad:,}" if bad else "0", _bad_remark(model), "warn" if bad else "ink"),
    ]
    return numbers(figures, width, per_row=7 if width >= 940 else 4)


def _rows_remark(model: CaptureModel) -> str:
    if not model.lanes:
        return ""
    if not model.snapshotting:
        return "all tables read"
    if model.left_s is not None and model.live:
        return f"≈ {fmt.duration(model.left_s)} left"
    return f"{fmt.plural(model.snapshotting, 'table')} to go"


def _log_remark(model: CaptureModel) -> str:
    size = model.totals["log_bytes"]
    return f"{fmt.bytes_text(size)} of log" if size else ""


def _bad_remark(model: CaptureModel) -> str:
    tables = [lane.table or lane.source for lane in model.lanes if lane.bad_rows]
    if not tables:
        return "none"
    return f"of {tables[0]}" if len(tables) == 1 else f"of {len(tables)} tables"
