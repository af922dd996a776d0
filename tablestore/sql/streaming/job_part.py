"""One INSERT of a job: what it is, where its batches begin, how they are carried out."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tablestore.core.errors import InvalidRequest
from tablestore.flow.batch import Batch, Streams
from tablestore.flow.journal import JournalFiles
from tablestore.flow.origin import Origin, origin_of
from tablestore.flow.sink import SinkBatch, StreamSink, TableSink
from tablestore.flow.source import Offset
from tablestore.format.schema import TableSchema
from tablestore.io.paths import is_object_location, join
from tablestore.sql.filling import Filling
from tablestore.sql.streaming.group_state import GroupState
from tablestore.sql.streaming.group_tasks import GroupBatches, SourceView, StepChanges
from tablestore.sql.streaming.plan import StreamPlan

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
        self._groups = self._opened_groups() if part.plan.grouping is not None else None
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
        if self._groups is not None:
            rows, reached = self._groups.carry_out(batch, identifier)
            if not isinstance(part.sink, TableSink):
                JournalFiles.at(self._directory).put(_FOLLOWED, reached)
        else:
            at = batch.end.get("lookups", {})
            changes = StepChanges(part.plan.step, self._views, part.filling, at, part.schema)
            position = json.dumps({**batch.end, "plan": part.fingerprint})
            rows = part.sink.write(SinkBatch(batch, changes, self._user, identifier, position, self._job_id))
        self._noted(batch, rows)

    def _opened_groups(self) -> GroupBatches:
        part = self._part
        assert part.plan.grouping is not None, "a plan that groups"
        buckets = _STATE_BUCKETS if part.plan.grouping.keys else 1
        state = GroupState.create(join(self._directory, "state"), part.plan, user=self._user, buckets=buckets)
        return GroupBatches(
            state,
            part.filling,
            part.schema,
            part.sink,
            self._user,
            part.fingerprint,
            self._groups_reached,
        )

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
        if self._groups is not None and self._groups.state.position() is None:
            raise InvalidRequest(
                f"{part.target} has commits of job {self._user!r}, whose state is gone; {remedy}, and "
                "TRUNCATE the table first"
            )

    def _origin(self) -> Origin:
        if self._groups is not None:
            return origin_of(self.checkpoint, self._groups.state.groups, self._user)
        if isinstance(self._part.sink, TableSink):
            return origin_of(self.checkpoint, self._part.sink.opened(), self._user)
        return Origin(0, None)
