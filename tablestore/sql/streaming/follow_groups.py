"""A grouped stream computed in this process, its state in a temporary directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tablestore.flow.source import Changes
from tablestore.io.scratch import scratch_folder
from tablestore.sql.query.connection import Connection
from tablestore.sql.streaming.group_state import GroupState
from tablestore.sql.streaming.grouping import GROUPS
from tablestore.sql.streaming.plan import StreamPlan
from tablestore.sql.streaming.row_step import RowSteps

_USER = "follow"


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
        self._connection = Connection(memory=memory)
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
                found, kinds = self._after.rows(GROUPS, rows, kinds)
                if found.num_rows:
                    yield found, kinds
        self._offset = end
