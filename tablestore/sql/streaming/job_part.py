"""One INSERT of a job: what it is, where its batches begin, how they are carried out.

A batch of a GROUP BY has its state first, then the target follows the state's changelog. Tasks compute by how
much the changes of pieces change groups, other tasks write the new rows of each bucket of the state, one
commit completes it; with the same identifier the target then gets what changed since the position that it
remembers. Killed in between, the batch that comes again finds the state done and the target behind. This
process only hands parts of changes on and commits: parts beyond a few megabytes of a piece go through files
beside the state, so that no process holds more, however many groups a batch has.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest
from tablestore.flow.batch import Batch, Streams, Work
from tablestore.flow.checkpoint import Origin, origin_of
from tablestore.flow.journal import JournalFiles
from tablestore.flow.sink import SinkBatch, StreamSink, TableSink
from tablestore.flow.source import Changes, Offset
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.schema import TableSchema
from tablestore.io.paths import is_object_location, join
from tablestore.io.routed import file_io_for
from tablestore.sql.filling import Filling
from tablestore.sql.query.connection import DuckConnection
from tablestore.sql.streaming.group_columns import GROUPS
from tablestore.sql.streaming.group_state import Basis, GroupState
from tablestore.sql.streaming.lookups import Snapshots
from tablestore.sql.streaming.plan import Input, StreamPlan
from tablestore.sql.streaming.row_step import RowStep, RowSteps
from tablestore.write.conform import conform

_LOCAL_CHECKPOINTS = "tablestore-workbench/checkpoints"
_FOLLOWED = "followed.json"  # the offset of groups that a sink without positions has reached
_STATE_BUCKETS = 2


@dataclass(frozen=True, slots=True)
class JobPart:
    """One INSERT of a job: the stream of its query, and the table `target` that it fills. With a `schema` the
    sink gets exactly its columns."""

    target: str
    plan: StreamPlan
    filling: Filling
    sink: StreamSink
    schema: TableSchema | None = None

    @property
    def facts(self) -> dict[str, str]:
        """What makes it this INSERT and no other, by what each is."""
        plan, grouping = self.plan, self.plan.grouping
        inputs = [f"{i.name} {list(i.columns)} {i.where!r}" for i in plan.inputs]
        constants = [f"{f.name} = {v}" for f, v in self.filling.constants]
        columns = ", ".join([*(f.name for f in self.filling.fields), *constants])
        facts = {"target": self.target, "columns": columns, "sources": "; ".join(inputs)}
        facts["query"] = plan.step.sql
        if grouping is not None:
            functions = [f"{a.function} {a.argument} {a.distinct}" for a in grouping.aggregates]
            facts["grouping"] = f"{list(grouping.keys)} {functions} {grouping.after.sql}"
        return facts

    @property
    def fingerprint(self) -> str:
        """The facts as a short text that differs where they do."""
        return hashlib.sha256(json.dumps(self.facts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def streams(self) -> Streams:
        """What it reads."""
        return Streams(tuple(i.source for i in self.plan.inputs), self.plan.step.lookups)


class PartBatches:
    """Carries out the batches of one INSERT. What a restart needs is in the tables and in `directory`;
    commits are of `user`. `noted` gets each batch and how many changes it had.

    Raises InvalidRequest where the target has commits of another query by that user, or the state of its
    groups is lost.
    """

    def __init__(
        self,
        part: JobPart,
        directory: str,
        user: str,
        *,
        job_id: str,
        noted: Callable[[Batch, int], None],
    ) -> None:
        self._part, self._directory, self._user, self._noted = part, directory, user, noted
        self._job_id = job_id
        self._views = tuple(SourceView.of(i) for i in part.plan.inputs)
        self._state: GroupState | None = None
        if part.plan.grouping is not None:
            buckets = _STATE_BUCKETS if part.plan.grouping.keys else 1
            self._state = GroupState.create(join(directory, "state"), part.plan, user=user, buckets=buckets)
        self._require_own_commits()
        self.origin = self._origin()

    @property
    def checkpoint(self) -> str:
        """The directory of the query's checkpoint. Spark keeps it on a local disk: it may get lost, because
        targets and state remember where they are."""
        if not is_object_location(self._directory):
            return join(self._directory, "checkpoint")
        name = hashlib.sha256(f"{self._directory} {self._job_id}".encode()).hexdigest()[:32]
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return join(cache, _LOCAL_CHECKPOINTS, name)

    @property
    def start(self) -> Offset | None:
        """Where the first batch begins, None: at the beginning."""
        return None if self.origin.position is None else json.loads(self.origin.position)

    def __call__(self, batch: Batch) -> None:
        part, identifier = self._part, self.origin.identifier + batch.number
        position = json.dumps({**batch.end, "plan": part.fingerprint})
        if self._state is None:
            at = batch.end.get("lookups", {})
            changes = StepChanges(part.plan.step, self._views, part.filling, at, part.schema)
            rows = part.sink.write(SinkBatch(batch, changes, self._user, identifier, position, self._job_id))
        else:
            advance(self._state, batch, identifier=identifier, position=position)
            rows = self._follow_groups(self._state, batch, identifier)
        self._noted(batch, rows)

    def _follow_groups(self, state: GroupState, batch: Batch, identifier: int) -> int:
        """Give the sink what changed in the groups since it was given something; how many changes it took."""
        part, stream = self._part, state.changes()
        assert part.plan.grouping is not None, "a plan that groups"
        start = self._groups_reached() or stream.initial()
        end = stream.next(start)
        pieces = stream.pieces(start, end) if start != end else []
        works = [Work(0, i, piece) for i, piece in enumerate(pieces)]
        view = SourceView(GROUPS, tuple(stream.schema.names))
        changes = StepChanges(part.plan.grouping.after, (view,), part.filling, {}, part.schema)
        position = json.dumps({"v": 1, "groups": end, "plan": part.fingerprint})
        changed = ChangedGroups(batch, end, works)
        rows = part.sink.write(SinkBatch(changed, changes, self._user, identifier, position))
        if not isinstance(part.sink, TableSink):
            JournalFiles.at(self._directory).put(_FOLLOWED, end)
        return rows

    def _groups_reached(self) -> Offset | None:
        """The offset of the groups that the sink has reached."""
        position = self._position()
        if position is not None:
            reached: Offset = position["groups"]
            return reached
        return JournalFiles.at(self._directory).fields(_FOLLOWED)

    def _position(self) -> dict[str, Any] | None:
        """What the target remembers of commits of the user; None where there are none."""
        if not isinstance(self._part.sink, TableSink):
            return None
        remembered = self._part.sink.opened().position(self._user)
        if remembered is None or remembered[1] is None:
            return None
        try:
            position = json.loads(remembered[1])
        except ValueError:
            position = None
        return position if isinstance(position, dict) else {}

    def _require_own_commits(self) -> None:
        position, part = self._position(), self._part
        if position is None:
            return
        remedy = "give this one another name: SET 'pipeline.name' = '…'"
        if position.get("plan") != part.fingerprint:
            raise InvalidRequest(
                f"{part.target} has commits of a job {self._user!r} with another query; {remedy}"
            )
        if self._state is not None and self._state.position() is None:
            raise InvalidRequest(
                f"{part.target} has commits of job {self._user!r}, whose state is gone; {remedy}, and "
                "TRUNCATE the table first"
            )

    def _origin(self) -> Origin:
        if self._state is not None:
            return origin_of(self.checkpoint, self._state.groups, self._user)
        if isinstance(self._part.sink, TableSink):
            return origin_of(self.checkpoint, self._part.sink.opened(), self._user)
        return Origin(0, None)


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
    def of(source_input: Input) -> SourceView:
        """That of an input of a plan."""
        return SourceView(source_input.view, source_input.columns, source_input.where)


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
