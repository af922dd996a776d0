"""A stream computed in this process: what a SELECT in streaming mode gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from tablestore.core.env import SYSTEM
from tablestore.flow.batch import Streams
from tablestore.flow.source import Offset
from tablestore.sql.streaming.follow_groups import GroupsInProcess
from tablestore.sql.streaming.plan import StreamPlan
from tablestore.sql.streaming.row_step import RowSteps

_SHORTEST_WAIT, _LONGEST_WAIT = 0.05, 0.5  # seconds between two looks for something new
Rows = Iterator[tuple[pa.RecordBatch, pa.Array]]


def follow(plan: StreamPlan, *, memory: str = "", stopped: Callable[[], bool] = lambda: False) -> Rows:
    """Changes of the result with their row kinds, until `stopped` or all sources have ended."""
    streams = Streams(tuple(i.source for i in plan.inputs), plan.step.lookups)
    offset, wait = streams.initial(), _SHORTEST_WAIT
    with RowSteps(plan.step, memory=memory) as steps:
        groups = None if plan.grouping is None else GroupsInProcess(plan, steps, memory=memory)
        try:
            while not stopped():
                end = streams.next(offset)
                if end != offset:
                    steps.look_up_at(end["lookups"])
                    changes = _changes(plan, streams, offset, end, stopped)
                    yield from _rows(steps, changes) if groups is None else groups.batch(changes)
                    if stopped():
                        return
                    streams.done(end)
                if streams.ended(end):
                    return
                if end == offset:
                    SYSTEM.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT) if end == offset else _SHORTEST_WAIT
                offset = end
        finally:
            if groups is not None:
                groups.close()


def _changes(
    plan: StreamPlan, streams: Streams, start: Offset, end: Offset, stopped: Callable[[], bool]
) -> Iterator[tuple[str, Rows]]:
    """Changes of the views between two offsets; they break off where the stream is stopped."""
    for work in streams.works(start, end):
        one = plan.inputs[work.source]
        yield one.view, _until(work.piece.read(one.columns, one.where), stopped)


def _until(changes: Rows, stopped: Callable[[], bool]) -> Rows:
    for one in changes:
        if stopped():
            return
        yield one


def _rows(steps: RowSteps, changes: Iterator[tuple[str, Rows]]) -> Rows:
    for view, some in changes:
        for batch, kinds in some:
            rows, found = steps.rows(view, batch, kinds)
            if rows.num_rows:
                yield rows, found
