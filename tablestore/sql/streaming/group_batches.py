"""A batch of a GROUP BY in a job: its state first, then the target follows the state's changelog.

Tasks compute by how much the changes of pieces change groups, other tasks write the new rows of each bucket
of the state, one commit completes it; with the same identifier the target then gets what changed since the
position that it remembers. Killed in between, the batch that comes again finds the state done and the target
behind. Rows never leave the workers, only parts of changes of groups do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tablestore.cdc.stream_batch import Batch, Work
from tablestore.cdc.stream_sink import SinkBatch, StreamSink
from tablestore.cdc.stream_source import Offset
from tablestore.format.schema import TableSchema
from tablestore.sql.filling import Filling
from tablestore.sql.streaming.computation import MEMORY, StepChanges, View
from tablestore.sql.streaming.group_partials import Partials
from tablestore.sql.streaming.group_state import Basis, GroupState
from tablestore.sql.streaming.grouping import GROUPS

T = TypeVar("T")
R = TypeVar("R")
Part = tuple[int, bytes]


@dataclass(frozen=True)
class PartsTask:
    """The task that gives the parts of one piece, as (bucket, part)."""

    partials: Partials
    views: tuple[View, ...]
    at: Mapping[str, int] = field(default_factory=dict)

    def __call__(self, work: Work) -> list[Part]:
        view = self.views[work.source]
        changes = work.piece.read(view.columns, view.where)
        return list(self.partials.of(view.name, changes, memory=MEMORY, at=self.at))


@dataclass(frozen=True)
class BucketTask:
    """The task that writes one bucket of the state; gives what its commit needs."""

    state: GroupState
    basis: Basis

    def __call__(self, bucket: tuple[int, list[bytes]]) -> list[bytes]:
        number, parts = bucket
        return self.state.apply(number, parts, self.basis, memory=MEMORY)


@dataclass(frozen=True, slots=True)
class ChangedGroups:
    """What a batch changed in the groups, as a batch of its own: a `Batch`."""

    batch: Batch
    end: Offset
    found: Sequence[Work]

    @property
    def number(self) -> int:
        return self.batch.number

    def works(self) -> list[Work]:
        return list(self.found)

    def over_works(self, task: Callable[[Work], R]) -> list[R]:
        return self.batch.over(task, self.found)

    def over(self, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return self.batch.over(task, items)


@dataclass(frozen=True)
class GroupBatches:
    """How batches of a grouped INSERT are carried out. `followed` gives the offset of the groups that the
    sink has reached, None before the first."""

    state: GroupState
    views: tuple[View, ...]
    filling: Filling
    schema: TableSchema | None
    sink: StreamSink
    user: str
    fingerprint: str
    followed: Callable[[], Offset | None]

    def carry_out(self, batch: Batch, identifier: int) -> tuple[int, Offset]:
        """How many changes the sink took, and the offset of the groups that it has reached."""
        basis = self.state.begin(identifier)
        if basis is not None:
            self._change_groups(batch, identifier, basis)
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

    def _change_groups(self, batch: Batch, identifier: int, basis: Basis) -> None:
        parts = PartsTask(self.state.partials(), self.views, batch.end.get("lookups", {}))
        buckets: dict[int, list[bytes]] = {}
        for found in batch.over_works(parts):
            for bucket, part in found:
                buckets.setdefault(bucket, []).append(part)
        messages = batch.over(BucketTask(self.state, basis), sorted(buckets.items()))
        position = json.dumps({**batch.end, "plan": self.fingerprint})
        self.state.commit([m for some in messages for m in some], identifier, position)
