"""A change capture on a terminal, from the reports of its batches: a picture that moves, or plain lines where
nobody looks."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tablestore.cdc.capture.report import BatchReport
from tablestore.cdc.capture.state import SPEED_SECONDS, CaptureModel, CaptureTable, clock
from tablestore.cli.event_log import emit
from tablestore.core.quantities import elapsed, many, one_line, short_count, size

MOST_LANES, MOST_CHANGES = 24, 3


def picture(model: CaptureModel) -> Group:
    """The state of the capture: totals, a row for each table, freshness, the last schema changes."""
    totals, last = model.totals, model.last
    head = Text.assemble(
        (model.title, "bold"), "  ", model.state_text, f"  position {last.position}" if last else ""
    )
    speed = f"{short_count(model.speed)} rows/s" if model.speed is not None else "no batch yet"
    figures = f"read {totals['snapshot_rows']:,}  changes {totals['changes']:,}  {speed}"
    lines = [Text(figures), Text(f"freshness {model.freshness_text}  log behind {model.log_text}")]
    if totals["bad_rows"]:
        lines.append(Text(f"bad rows {totals['bad_rows']:,}, in dead-letter tables", style="red"))
    for change in model.changes[-MOST_CHANGES:]:
        words = f"{clock(change.time)} {change.report.kind} {change.report.source}: {change.cause}"
        lines.append(
            Text(f"{words} → {change.report.done}", style="yellow", overflow="ellipsis", no_wrap=True)
        )
    return Group(head, _tables(model), *lines)


def _tables(model: CaptureModel) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("table", "", "rows", "chunks", "rows/s", "left", "changes"):
        right = title in ("rows", "chunks", "rows/s", "left", "changes")
        grid.add_column(title, justify="right" if right else "left", no_wrap=True)
    lanes = model.shown(MOST_LANES)
    for lane in lanes:
        grid.add_row(*_lane(lane))
    if len(model.lanes) > len(lanes):
        grid.add_row(f"… {many(len(model.lanes) - len(lanes), 'more table')}")
    return grid


def _lane(lane: CaptureTable) -> tuple[Text | ProgressBar | str, ...]:
    goes_to = "" if lane.table in ("", lane.source) else f" → {lane.table}"
    whole = lane.rows + (lane.remaining or 0)
    bar = ProgressBar(total=max(whole, 1), completed=lane.rows if whole else 1, width=20)
    speed = lane_speed(lane) if lane.snapshotting else None
    left = lane.remaining / speed if speed and lane.remaining is not None else None
    return (
        Text(one_line(f"{lane.source}{goes_to}")),
        bar if lane.chunks or not lane.snapshotting else "",
        lane.text,
        f"{len(lane.chunks):,}" if lane.chunks else "",
        f"{speed:,.0f}" if speed else "",
        elapsed(left) if left is not None else "",
        "" if lane.changes is None else f"{lane.changes:,}",
    )


def lane_speed(lane: CaptureTable) -> float | None:
    """Rows of its snapshot a second, over the last chunks that were read."""
    read = [chunk.report for chunk in lane.chunks if chunk.committed]
    if not read:
        return None
    newest = max(chunk.ended for chunk in read)
    recent = [chunk for chunk in read if chunk.ended > newest - SPEED_SECONDS]
    span = newest - min(chunk.started for chunk in recent)
    return sum(chunk.rows for chunk in recent) / span if span > 0 else None


def plain_lines(report: BatchReport) -> Iterator[str]:
    """What a batch did, a line for each event and one for its rows; none for a batch of nothing."""
    at = clock(report.ended)
    for event in report.events:
        cause = f" by {event.statement}" if event.statement else ""
        goes_to = f" → {event.table}" if event.table else ""
        yield f"{at} {one_line(f'{event.kind} {event.source}{goes_to}{cause}: {event.done}')}"
    rows, bad = report.rows, sum(table.bad_rows for table in report.tables)
    if not rows and not bad:
        return
    tables = [(table.table, table.snapshot_rows + table.changes) for table in report.tables]
    each = ", ".join(f"{one_line(name)} {count:,}" for name, count in tables if count)
    late = report.worst_freshness
    parts = [
        f"{many(rows, 'row')} in {elapsed(report.ended - report.started)} ({each})",
        *([many(bad, "bad row")] if bad else []),
        *([f"visible {elapsed(late)} after their commit"] if late is not None else []),
        *([f"{size(report.bytes_behind)} of log to read"] if report.bytes_behind else []),
        *([f"reading {one_line(', '.join(report.snapshotting))}"] if report.snapshotting else []),
    ]
    yield f"{at} batch {report.number}: {', '.join(parts)}"


def emit_batch(report: BatchReport) -> None:
    """What a batch did as events: those of its source, then one for each table that it changed."""
    for each in report.events:
        text = f"{each.kind} {each.source}: {each.done}"
        emit(each.kind, text, table=each.table, source=each.source, rows=each.rows)
    for table in report.tables:
        rows = table.snapshot_rows + table.changes
        if rows or table.bad_rows:
            emit(
                "batch",
                f"batch {report.number}: {many(rows, 'row')} into {table.table}",
                table=table.table,
                snapshot=table.snapshot,
                rows=rows,
                bad_rows=table.bad_rows or None,
                batch=report.number,
                freshness_seconds=report.worst_freshness,
            )


def summary(model: CaptureModel) -> str:
    """What all batches did, in a line."""
    totals = model.totals
    parts = [
        many(len(model.lanes), "table"),
        f"{totals['snapshot_rows']:,} rows read",
        many(totals["changes"], "change"),
        *([many(totals["bad_rows"], "bad row")] if totals["bad_rows"] else []),
        f"freshness {model.freshness_text}",
    ]
    return " · ".join(parts)
