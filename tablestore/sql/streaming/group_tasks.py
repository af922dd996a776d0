"""A batch of a GROUP BY in a job: its state first, then the target follows the state's changelog.

Tasks compute by how much the changes of pieces change groups, other tasks write the new rows of each bucket
of the state, one commit completes it; with the same identifier the target then gets what changed since the
position that it remembers. Killed in between, the batch that comes again finds the state done and the target
behind. This process only hands parts of changes on and commits: parts beyond a few megabytes of a piece go
through files beside the state, so that no process holds more, however many groups a batch has.
"""

from __future__ import annotations

import json
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tablestore.core.env import SYSTEM
from tablestore.flow.batch import Batch, Work
from tablestore.flow.sink import SinkBatch, StreamSink
from tablestore.flow.source import Changes, Offset
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.schema import TableSchema
from tablestore.io.paths import join
from tablestore.io.routed import file_io_for
from tablestore.sql.filling import Filling
from tablestore.sql.query.connection import DuckConnection
from tablestore.sql.streaming.group_columns import GROUPS
from tablestore.sql.streaming.group_state import Basis, GroupState
from tablestore.sql.streaming.lookups import Snapshots
from tablestore.sql.streaming.plan import Input
from tablestore.sql.streaming.row_step import RowStep, RowSteps
from tablestore.write.conform import conform

_KEPT = 4  # steps at work in one thread
_MEMORY = "1GB"  # of DuckDB in a worker, for a step that holds a batch at a time
_HANDED_BYTES = 4 << 20  # of parts of a piece that go through this process
Handed = tuple[int, bytes | str]  # the bucket, and a part or the file that it is in
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SourceView:
    """The changes of one source: its columns, and the condition on them."""

    name: str
    columns: tuple[str, ...]
    where: Predicate | None = None

    @staticmethod
    def of(one: Input) -> SourceView:
        """That of an input of a plan."""
        return SourceView(one.view, one.columns, one.where)


@dataclass(frozen=True)
class StepChanges:
    """Calls give the changes that a step makes of a piece, as the columns that are filled. `at` are the
    snapshots of looked-up tables. With a `schema` rows have exactly its columns. Picklable."""

    step: RowStep
    views: tuple[SourceView, ...]
    filling: Filling
    at: Mapping[str, int] = field(default_factory=dict)
    schema: TableSchema | None = None

    def __call__(self, work: Work) -> Changes:
        steps, view = steps_of(self.step, self.at), self.views[work.source]
        for batch, kinds in work.piece.read(view.columns, view.where):
            rows, new_kinds = steps.rows(view.name, batch, kinds)
            if rows.num_rows:
                filled = self.filling.filled(rows)
                yield (filled if self.schema is None else conform(filled, self.schema)), new_kinds


_here = threading.local()


def steps_of(step: RowStep, at: Mapping[str, int]) -> RowSteps:
    """A step at work in this thread, with looked-up tables at these snapshots; the last few are kept."""
    kept: OrderedDict[bytes, RowSteps] = _here.__dict__.setdefault("kept", OrderedDict())
    key = pickle.dumps(step)
    if key not in kept:
        kept[key] = RowSteps(step, memory=_MEMORY)
    kept.move_to_end(key)
    kept[key].look_up_at(at)
    while len(kept) > _KEPT:
        kept.popitem(last=False)[1].__exit__()
    return kept[key]


T = TypeVar("T")


def advance(state: GroupState, batch: Batch, *, identifier: int, position: str) -> bool:
    """Commit a batch to the state; False where it was there before. The same identifier and the same changes
    may come again after a crash, at any point of it."""
    basis = state.begin(identifier)
    if basis is None:
        state.commit([], identifier, position)  # compacts what a kill left
        return False
    exchange = join(state.directory, "exchange")
    io = file_io_for(exchange)
    io.delete_tree(exchange)
    by_bucket: dict[int, list[bytes | str]] = {}
    task = PartsTask(state, batch.end.get("lookups", {}), exchange)
    for handed in batch.over(task, batch.works()):
        for bucket, part in handed:
            by_bucket.setdefault(bucket, []).append(part)
    messages = batch.over(UpdateTask(state, basis), sorted(by_bucket.items()))
    state.commit([message for some in messages for message in some], identifier, position)
    io.delete_tree(exchange)
    return True


@dataclass(frozen=True)
class PartsTask:
    """The task that computes the parts of a piece. `at` are the snapshots of looked-up tables."""

    state: GroupState
    at: Snapshots
    exchange: str

    def __call__(self, work: Work) -> list[Handed]:
        stream_input, partials = self.state.plan.inputs[work.source], self.state.partials()
        changes = work.piece.read(stream_input.columns, stream_input.where)
        if partials.step.lookups:
            parts = partials.of(stream_input.view, changes, memory=_MEMORY, at=self.at)
        else:
            parts = partials.on(_connection(), stream_input.view, changes, None)
        handed: list[Handed] = []
        size = 0
        for bucket, part in parts:
            size += len(part)
            handed.append((bucket, part if size <= _HANDED_BYTES else self._filed(part)))
        return handed

    def _filed(self, part: bytes) -> str:
        path = join(self.exchange, f"{SYSTEM.uuid()}.arrow")
        file_io_for(path).write(path, part)
        return path


@dataclass(frozen=True)
class UpdateTask:
    """The task that updates a bucket of the state by its parts, and gives commit messages."""

    state: GroupState
    basis: Basis

    def __call__(self, item: tuple[int, list[bytes | str]]) -> list[bytes]:
        bucket, parts = item
        return self.state.apply_on(_connection(), bucket, _read(parts), self.basis)


def _read(parts: Iterable[bytes | str]) -> Iterator[bytes]:
    for part in parts:
        yield part if isinstance(part, bytes) else file_io_for(part).read(part)


def _connection() -> DuckConnection:
    """A connection of this thread that stays open from batch to batch."""
    if "connection" not in _here.__dict__:
        _here.connection = DuckConnection(memory=_MEMORY)
    connection: DuckConnection = _here.connection
    return connection


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
        works = [Work(0, i, piece) for i, piece in enumerate(pieces)]
        view = SourceView(GROUPS, tuple(stream.schema.names))
        changes = StepChanges(grouping.after, (view,), self.filling, {}, self.schema)
        position = json.dumps({"v": 1, "groups": end, "plan": self.fingerprint})
        changed = ChangedGroups(batch, end, works)
        return self.sink.write(SinkBatch(changed, changes, self.user, identifier, position)), end
