"""A maintenance service on a terminal: what it did, what waits and for what."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tablestore.cli.event_log import emit
from tablestore.core.quantities import many, size
from tablestore.maintenance.report import MaintenanceReport, WorkDone

_DONE, _WAITING = 12, 8


def picture(report: MaintenanceReport) -> Group:
    """The newest work with its numbers, then what waits, then tables in trouble."""
    head = Text.assemble(("maintain", "bold"), f"  {report.summary}")
    parts: list[Text | Table] = [head]
    if report.done:
        parts.append(_done(report))
    for work in report.waiting[:_WAITING]:
        parts.append(Text(f"waits: {work.text}", style="dim", overflow="ellipsis", no_wrap=True))
    if len(report.waiting) > _WAITING:
        parts.append(
            Text(f"… {many(len(report.waiting) - _WAITING, 'more piece')} of work wait", style="dim")
        )
    parts += [Text(f"{table}: {error}", style="red") for table, error in report.troubles]
    return Group(*parts)


def emit_work(work: WorkDone) -> None:
    """A piece of work as an event."""
    emit(
        "work",
        work.text,
        table=work.table,
        kind=work.kind,
        where=work.where,
        read_bytes=work.read,
        written_bytes=work.written,
        seconds=work.seconds,
        error=work.error,
    )


def _done(report: MaintenanceReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("table", "where", "what", "runs", "read", "wrote", "why"):
        table.add_column(
            title, justify="right" if title in ("runs", "read", "wrote") else "left", no_wrap=True
        )
    for work in report.done[-_DONE:]:
        runs = f"{work.runs_before} → {work.runs_after}" if work.runs_before else ""
        read, wrote = (size(count) if count else "" for count in (work.read, work.written))
        why = Text(work.error or work.why, style="red" if work.error else "")
        table.add_row(work.table, work.where, work.kind, runs, read, wrote, why)
    return table
