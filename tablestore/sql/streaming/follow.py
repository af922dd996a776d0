"""A stream computed in this process: what a SELECT in streaming mode gives, its groups in a temporary
directory.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from sqlglot import exp

from tablestore.core.env import SYSTEM
from tablestore.flow.batch import Streams
from tablestore.flow.source import Changes, Offset, StreamSource
from tablestore.format import rowkind
from tablestore.io.scratch import scratch_folder
from tablestore.sql.query.connection import DuckConnection
from tablestore.sql.query.embedded import free_names
from tablestore.sql.session import Session
from tablestore.sql.streaming.group_columns import GROUPS
from tablestore.sql.streaming.group_state import GroupState
from tablestore.sql.streaming.plan import StreamPlan, planned
from tablestore.sql.streaming.row_step import RowSteps

OP = "op"


_USER = "follow"

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
        source = plan.inputs[work.source]
        yield source.view, _until(work.piece.read(source.columns, source.where), stopped)


def _until(changes: Rows, stopped: Callable[[], bool]) -> Rows:
    for change in changes:
        if stopped():
            return
        yield change


def _rows(steps: RowSteps, changes: Iterator[tuple[str, Rows]]) -> Rows:
    for view, some in changes:
        for batch, kinds in some:
            rows, new_kinds = steps.rows(view, batch, kinds)
            if rows.num_rows:
                yield rows, new_kinds


class GroupsInProcess:
    """The groups of a plan, batch by batch; `steps` are those of its rows. Not thread-safe; the state goes
    with `close`, or with the process."""

    def __init__(self, plan: StreamPlan, steps: RowSteps, *, memory: str = "") -> None:
        assert plan.grouping is not None, "a plan that groups"
        self._number, self._steps = 0, steps
        self._folder = scratch_folder(self)
        self._state = GroupState.create(self._folder, plan, user=_USER)
        self._stream = self._state.changes()
        self._offset = self._stream.initial()
        self._partials = self._state.partials()
        self._connection = DuckConnection(memory=memory)
        self._after = RowSteps(plan.grouping.after, memory=memory)

    def close(self) -> None:
        """Remove the state."""
        self._after.__exit__()
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def batch(self, changes: Iterable[tuple[str, Changes]]) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """Changes of the result that these changes of views make together, with their kinds."""
        state = self._state
        basis = state.begin(self._number)
        assert basis is not None, "batches are numbered by this object alone"
        parts = [
            part
            for view, some in changes
            for _, part in self._partials.on(self._connection, view, some, self._steps)
        ]
        if parts:
            messages = state.apply_on(self._connection, 0, parts, basis)
            state.commit(messages, self._number, str(self._number))
        self._number += 1
        end = self._stream.next(self._offset)
        for piece in self._stream.pieces(self._offset, end):
            for rows, kinds in piece.read(self._stream.schema.names):
                results, kinds = self._after.rows(GROUPS, rows, kinds)
                if results.num_rows:
                    yield results, kinds
        self._offset = end


class LiveRows:
    """Changes of a query, batch by batch, until `stop` or all its sources have ended; read once. `endless`:
    a source has no end. `stop` may be called from any thread."""

    def __init__(self, session: Session, tree: exp.Expression, text: str) -> None:
        plan = planned(session, tree, text)
        self._stopped = threading.Event()
        memory = session.settings["execution.memory-limit"]
        self._changes = follow(plan, memory=memory, stopped=self._stopped.is_set)
        self.endless = not all(_ends(i.source) for i in plan.inputs)
        names = free_names([OP, *plan.schema.names])
        fields = [pa.field(OP, pa.string()), *plan.schema]
        self.schema = pa.schema([f.with_name(name) for f, name in zip(fields, names, strict=True)])

    def stop(self) -> None:
        """End it at its next look."""
        self._stopped.set()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for rows, kinds in self._changes:
            yield pa.RecordBatch.from_arrays([rowkind.texts(kinds), *rows.columns], schema=self.schema)


def _ends(source: StreamSource) -> bool:
    """Whether nothing comes after what there is now."""
    latest = source.latest()
    return latest is not None and source.ended(latest)
