"""What a capture would do, before anything is made: its tables with their targets, and what is left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.shapes import TargetShape, united
from tablestore.cdc.capture.source import CAPTURED, SKIPPED, CaptureSource, PreviewSource, TableShape
from tablestore.core.errors import InvalidRequest, NotFound


@dataclass(frozen=True, slots=True)
class PreviewTable:
    """A table of the source. `target` is the table of the lake and `columns` what it is to be; empty and None
    where `reason` says why it is not captured. `rows` is about how many it has; `warning` says which of its
    changes its log lacks, and which values the lake will not have as they are."""

    source: SourceName
    target: str = ""
    columns: TargetShape | None = None
    shape: TableShape | None = None
    rows: int | None = None
    reason: str = ""
    refused: bool = False  # by the rules, so that a capture would not start
    warning: str = ""


def preview(source: CaptureSource, rules: CaptureRules) -> list[PreviewTable]:
    """The tables that the first batch of a capture finds, in the order of their targets; those left out
    last. Tables that the rules refuse say why."""
    start = source.initial()
    end = source.next(start)
    foreseen = source.foreseen(end) if isinstance(source, PreviewSource) else {}
    previews: list[PreviewTable] = []
    for event in source.events(start, end):
        if event.kind == SKIPPED:
            previews.append(PreviewTable(event.table, reason=event.reason))
        elif event.kind == CAPTURED and event.shape is not None:
            planned = _planned(event.table, event.shape, event.rows, rules)
            words = (event.reason, foreseen.get(event.table, ""))
            previews.append(replace(planned, warning="; ".join(text for text in words if text)))
    previews = _together(previews, rules)
    return sorted(previews, key=lambda each: (bool(each.reason), each.target, each.source))


def _planned(name: SourceName, shape: TableShape, rows: int | None, rules: CaptureRules) -> PreviewTable:
    try:
        return PreviewTable(name, rules.target(name), rules.target_shape(name, shape), shape, rows)
    except (InvalidRequest, NotFound) as e:
        return PreviewTable(name, shape=shape, rows=rows, reason=str(e), refused=True)


def _together(tables: list[PreviewTable], rules: CaptureRules) -> list[PreviewTable]:
    """The tables with the columns of their common targets; refused where they cannot share one."""
    done = []
    of_target: dict[str, dict[SourceName, PreviewTable]] = {}
    for table in tables:
        if table.columns is not None:
            of_target.setdefault(table.target, {})[table.source] = table
    for table in tables:
        others = of_target.get(table.target, {})
        if table.columns is None or len(others) == 1:
            done.append(table)
            continue
        try:
            rules.plan({name: each.shape for name, each in others.items() if each.shape is not None})
            shapes = {name: each.columns for name, each in others.items() if each.columns is not None}
            done.append(replace(table, columns=united(table.target, shapes)))
        except InvalidRequest as e:
            done.append(replace(table, columns=None, target="", reason=str(e), refused=True))
    return done
