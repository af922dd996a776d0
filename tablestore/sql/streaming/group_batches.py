"""A batch of a GROUP BY in a job: its state first, then the target follows the state's changelog.

Tasks compute by how much the changes of pieces change groups, other tasks write the new rows of each bucket
of the state, one commit completes it; with the same identifier the target then gets what changed since the
position that it remembers. Killed in between, the batch that comes again finds the state done and the target
behind. Rows never leave the workers, only parts of changes of groups do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tablestore.flow.batch import Batch, Work
from tablestore.flow.sink import SinkBatch, StreamSink
from tablestore.flow.source import Offset
from tablestore.format.schema import TableSchema
from tablestore.sql.filling import Filling
from tablestore.sql.streaming.computation import StepChanges, View
from tablestore.sql.streaming.group_state import GroupState
from tablestore.sql.streaming.group_tasks import advance
from tablestore.sql.streaming.grouping import GROUPS

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ChangedGroups:
    """What a batch changed in the groups, as a batch of its own: a `Batch`."""

    batch: Batch
    end: Offset
    found: Sequence[Work]

    @property
    def number(self) -> int:
        return self.batch.number

    @property
    def start(self) -> Offset:
        return self.batch.start

    def works(self) -> list[Work]:
        return list(self.found)

    def over(
        self, task: Callable[[T], R], items: Sequence[T], *, count: Callable[[R], int] | None = None
    ) -> list[R]:
        return self.batch.over(task, items, count=count)

    def counted(self) -> Mapping[int, int]:
        return self.batch.counted()


@dataclass(frozen=True)
class GroupBatches:
    """How batches of a grouped INSERT are carried out. `followed` gives the offset of the groups that the
    sink has reached, None before the first."""

    state: GroupState
    filling: Filling
    schema: TableSchema | None
    sink: StreamSink
    user: str
    fingerprint: str
    followed: Callable[[], Offset | None]

    def carry_out(self, batch: Batch, identifier: int) -> tuple[int, Offset]:
        """How many changes the sink took, and the offset of the groups that it has reached."""
        reached = json.dumps({**batch.end, "plan": self.fingerprint})
        advance(self.state, batch, identifier=identifier, position=reached)
        stream, grouping = self.state.changes(), self.state.plan.grouping
        assert grouping is not None, "a plan that groups"
        start = self.followed() or stream.initial()
        end = stream.next(start)
        pieces = stream.pieces(start, end) if start != end else []
        found = [Work(0, i, piece) for i, piece in enumerate(pieces)]
        view = View(GROUPS, tuple(stream.schema.names))
        changes = StepChanges(grouping.after, (view,), self.filling, {}, self.schema)
        position = json.dumps({"v": 1, "groups": end, "plan": self.fingerprint})
        changed = ChangedGroups(batch, end, found)
        return self.sink.write(SinkBatch(changed, changes, self.user, identifier, position)), end
