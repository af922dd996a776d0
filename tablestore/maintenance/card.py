"""The card of a maintenance service in a notebook: the newest work with its numbers, then what waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tablestore.core.quantities import many, size
from tablestore.insight.cards import html
from tablestore.insight.cards.html import TextCell

if TYPE_CHECKING:
    from tablestore.maintenance.report import MaintenanceReport, WorkDone

_SHOWN, _LONGEST = 10, 400
_HEADS = [("table", False), ("what", False), ("runs", True), ("read", True), ("wrote", True), ("why", False)]


def maintenance_card(report: MaintenanceReport) -> str:
    """HTML; everything from data is escaped."""
    state = "risk" if report.state == "failed" or report.troubles else "due" if report.waiting else "healthy"
    done = [_cells(work) for work in report.done[-_SHOWN:]]
    waits = [[TextCell(work.text, colour="ink2", wraps=True)] for work in report.waiting[:_SHOWN]]
    waiting = html.folded(
        f"{many(len(report.waiting), 'piece')} of work waiting", html.rows([("", False)], waits)
    )
    troubles = (html.esc(f"{table}: {error}", longest=_LONGEST) for table, error in report.troubles)
    return html.card(
        report.name,
        "maintenance",
        chip=(state, report.state),
        body=[html.rows(_HEADS, done) if done else "", waiting if waits else "", *troubles],
        note=report.summary,
    )


def _cells(work: WorkDone) -> list[TextCell]:
    read, wrote = (size(count) if count else "" for count in (work.read, work.written))
    return [
        TextCell(work.table),
        TextCell(work.where or work.kind),
        TextCell(f"{work.runs_before} → {work.runs_after}" if work.runs_before else ""),
        TextCell(read),
        TextCell(wrote),
        TextCell(work.error or work.why, colour="err" if work.error else "ink2", wraps=True),
    ]
