"""A stream computed in this process: what a SELECT in streaming mode shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from tablestore.cdc.stream_source import Offset
from tablestore.core.env import SYSTEM
from tablestore.sql.streaming.follow_groups import GroupsInProcess
from tablestore.sql.streaming.plan import StreamPlan
from tablestore.sql.streaming.row_step import RowSteps

_LOOK_SECONDS = 0.05  # between two looks for something new


def follow(
    plan: StreamPlan, *, memory: str = "", stopped: Callable[[], bool] = lambda: False
) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """Changes of the result with their row kinds, until `stopped` or all sources have ended."""
    if plan.grouping is not None:
        yield from _follow_groups(plan, memory, stopped)
        return
    offsets: list[Offset] = [i.source.initial() for i in plan.inputs]
    with RowSteps(plan.step, memory=memory) as steps:
        while not stopped():
            ends = [i.source.next(o) for i, o in zip(plan.inputs, offsets, strict=True)]
            for one, start, end in zip(plan.inputs, offsets, ends, strict=True):
                for piece in one.source.pieces(start, end) if start != end else ():
                    for batch, kinds in piece.read(one.columns, one.where):
                        rows, found = steps.rows(one.view, batch, kinds)
                        if rows.num_rows:
                            yield rows, found
                one.source.done(end)
            if all(i.source.ended(e) for i, e in zip(plan.inputs, ends, strict=True)):
                return
            if ends == offsets:
                SYSTEM.sleep(_LOOK_SECONDS)
            offsets = ends


def _follow_groups(
    plan: StreamPlan, memory: str, stopped: Callable[[], bool]
) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    offsets: list[Offset] = [i.source.initial() for i in plan.inputs]
    with GroupsInProcess(plan, memory=memory) as groups:
        while not stopped():
            ends = [i.source.next(o) for i, o in zip(plan.inputs, offsets, strict=True)]
            changed = [c for c in zip(plan.inputs, offsets, ends, strict=True) if c[1] != c[2]]
            if changed:
                yield from groups.batch(
                    (one.view, piece.read(one.columns, one.where))
                    for one, start, end in changed
                    for piece in one.source.pieces(start, end)
                )
            for one, _, end in changed:
                one.source.done(end)
            if all(i.source.ended(e) for i, e in zip(plan.inputs, ends, strict=True)):
                return
            if not changed:
                SYSTEM.sleep(_LOOK_SECONDS)
            offsets = ends
