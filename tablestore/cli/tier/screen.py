"""A tiering service on a terminal: a picture that moves, or a line for each round where nobody looks."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tablestore.cli.event_log import emit
from tablestore.core.quantities import duration, many
from tablestore.tiering.report import RoundReport, SplitReport, TableState, TieringReport

MOST_TABLES, MOST_SPLITS, MOST_HEARTBEATS = 20, 12, 3
STYLES = {"Failed": "red", "Tiering": "cyan", "Tiered": "green"}


def picture(report: TieringReport, *, title: str, now: float) -> Group:
    """Tables with state, epoch, lag and freshness, the splits under way, the last words with the
    coordinator."""
    rounds = [run for run in report.rounds if run.ended is None]
    done = [run for run in report.rounds if run.is_committed]
    rows = sum(run.rows for run in done)
    head = Text.assemble((title, "bold"), "  ", report.state, f"  {many(len(done), 'round')} {rows:,} rows")
    parts: list[object] = [head, _tables(report.tables, now)]
    for run in rounds:
        parts.append(Text(f"{run.table} epoch {run.tiering_epoch}: {run.phase}", style="cyan"))
        parts += [_splits(run.splits)] if run.splits else []
    for beat in report.heartbeats[-MOST_HEARTBEATS:]:
        parts.append(Text(f"{beat.sent} → {beat.received}", style="dim", overflow="ellipsis", no_wrap=True))
    return Group(*parts)  # type: ignore[arg-type]  # all of them can be shown


def _tables(tables: tuple[TableState, ...], now: float) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("table", "state", "epoch", "lag", "in both", "lake only", "tiered", "why"):
        right = title in ("epoch", "lag", "in both", "lake only")
        grid.add_column(title, justify="right" if right else "left", no_wrap=True)
    late = sorted(
        tables, key=lambda table: (not table.reason, table.state != "Tiering", -(table.lag_rows or 0))
    )
    for state in late[:MOST_TABLES]:
        grid.add_row(
            state.table,
            Text(state.state, style=STYLES.get(state.state, "")),
            "" if state.tiering_epoch is None else str(state.tiering_epoch),
            "" if state.lag_rows is None else f"{state.lag_rows:,}",
            f"{sum(mark.warm_rows for mark in state.marks):,}" if state.marks else "",
            f"{sum(mark.cold_rows for mark in state.marks):,}" if state.marks else "",
            age_text(state, now),
            _why(state),
        )
    if len(tables) > MOST_TABLES:
        grid.add_row(f"… {many(len(tables) - MOST_TABLES, 'more table')}")
    return grid


def _why(state: TableState) -> Text:
    """Why it failed, and what may be lost."""
    why = Text(state.reason, style="red", overflow="ellipsis")
    return (
        why.append(f"{' · ' if state.reason else ''}{state.warning}", style="yellow")
        if state.warning
        else why
    )


def age_text(state: TableState, now: float) -> str:
    """`2.1 s ago of 5 s`: when the lake last had all, and how fresh it should be."""
    if state.tiered_at is None:
        return "never"
    wanted = "" if state.freshness is None else f" of {duration(int(1000 * state.freshness))}"
    return f"{duration(int(1000 * max(now - state.tiered_at, 0)))} ago{wanted}"


def _splits(splits: tuple[SplitReport, ...]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for split in splits[:MOST_SPLITS]:
        name = f"bucket {split.bucket}" if split.partition is None else f"{split.partition}/{split.bucket}"
        whole, read = max(split.stop - split.start, 1), (split.offset or split.start) - split.start
        bar = ProgressBar(total=whole, completed=min(read, whole), width=24)
        table.add_row(f"  {name}", split.kind, bar, f"{split.rows:,}", f"[{split.start:,}, {split.stop:,})")
    if len(splits) > MOST_SPLITS:
        table.add_row(f"  … {len(splits) - MOST_SPLITS} more")
    return table


def round_line(report: RoundReport) -> str:
    """A round that ended, in a line."""
    seconds = (report.ended or report.started) - report.started
    speed = f", {report.rows / seconds:,.0f} rows/s" if report.rows and seconds > 0 else ""
    snapshot = "" if report.snapshot_id is None else f" in snapshot {report.snapshot_id}"
    why = f": {report.reason}" if report.reason else ""
    notes = "".join(f"; {note}" for note in report.notes)
    took = duration(int(1000 * seconds))
    return f"{report.table} {report.outcome}{why} {report.rows:,} rows{snapshot}, {took}{speed}{notes}"


def emit_round(report: RoundReport) -> None:
    """A round that ended as an event."""
    emit(
        "round",
        round_line(report),
        table=report.table,
        outcome=report.outcome,
        snapshot=report.snapshot_id,
        rows=report.rows,
        error=report.reason,
    )


def fresh_rounds(report: TieringReport, shown: set[int]) -> Iterator[RoundReport]:
    """Rounds that ended and were not shown; empty ones are not."""
    for run in report.rounds:
        if run.ended is not None and run.number not in shown:
            shown.add(run.number)
            if run.outcome != "empty":
                yield run


def summary(report: TieringReport) -> str:
    """What there was in all."""
    done = [part for part in report.rounds if part.is_committed]
    failed = [part for part in report.tables if part.reason]
    text = f"{sum(part.rows for part in done):,} rows in {many(len(done), 'round')}"
    text += f" of {many(len(report.tables), 'table')}"
    began = min(
        (part.started for part in report.rounds), default=float("inf")
    )  # a journal has older events, too
    text += "".join(
        f"\n{part.table} {part.name}: {part.text}" for part in report.events if part.time >= began
    )
    return text + "".join(f"\n{part.table} failed: {part.reason}" for part in failed)
