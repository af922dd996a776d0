"""A job: INSERTs that follow their sources, each by one streaming query, exactly once into tables.

`JobPart` says what one INSERT does, `PartBatches` carries out its batches, `Job` holds what runs. Commits to
a table are of the user that has the job's name, and keep the position of the sources: a job whose checkpoint
is lost goes on from there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tablestore.cdc.checkpoint import Origin, origin_of
from tablestore.cdc.stream_batch import Batch, Streams
from tablestore.cdc.stream_sink import SinkBatch, StreamSink, TableSink
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, TablestoreError, Unavailable, Unsupported
from tablestore.format.schema import TableSchema
from tablestore.sql.filling import Filling
from tablestore.sql.streaming.computation import StepChanges, View
from tablestore.sql.streaming.job_directory import JobDirectories, JobRecord, JobStatus, PartStatus
from tablestore.sql.streaming.plan import StreamPlan
from tablestore.table.features import feature

RUNNING, FINISHED, FAILED, STOPPED = "RUNNING", "FINISHED", "FAILED", "STOPPED"


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
        filled = [
            *(f.name for f in self.filling.fields),
            *(f"{f.name} = {v}" for f, v in self.filling.constants),
        ]
        found = {"target": self.target, "columns": ", ".join(filled), "sources": "; ".join(inputs)}
        found["query"] = plan.step.sql
        if grouping is not None:
            functions = [f"{a.function} {a.argument} {a.distinct}" for a in grouping.aggregates]
            found["grouping"] = f"{list(grouping.keys)} {functions} {grouping.after.sql}"
        return found

    @property
    def fingerprint(self) -> str:
        """The facts as a short text that differs where they do."""
        return hashlib.sha256(json.dumps(self.facts, sort_keys=True).encode()).hexdigest()[:16]


class PartBatches:
    """Carries out the batches of one INSERT; what a restart needs is in the tables and the checkpoint."""

    def __init__(self, part: JobPart, user: str, first: int, noted: Callable[[Batch, int], None]) -> None:
        self._part, self._user, self._first, self._noted = part, user, first, noted
        self._views = tuple(View.of(i) for i in part.plan.inputs)

    def __call__(self, batch: Batch) -> None:
        part = self._part
        at = batch.end.get("lookups", {})
        changes = StepChanges(part.plan.step, self._views, part.filling, at, part.schema)
        position = json.dumps({**batch.end, "plan": part.fingerprint})
        rows = part.sink.write(SinkBatch(batch, changes, self._user, self._first + batch.number, position))
        self._noted(batch, rows)


class Job:
    """A job that this process runs. Safe to share between threads."""

    def __init__(
        self, name: str, parts: tuple[JobPart, ...], statements: tuple[str, ...], places: JobDirectories
    ) -> None:
        self.name, self.parts, self.places = name, parts, places
        self.started_ms = SYSTEM.now_ms()
        self.record = JobRecord(name, self.started_ms, statements, tuple(p.facts for p in parts))
        self._queries: list[Any] = []  # what the feature "streams by Spark" gives
        self._lock = threading.Lock()  # protects what follows
        self._status = JobStatus(RUNNING, self.started_ms, tuple(PartStatus() for _ in parts))
        self._stopping = False
        self._over = threading.Event()
        self.error: BaseException | None = None

    @property
    def status(self) -> JobStatus:
        """How it is now."""
        with self._lock:
            return self._status

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._over.is_set()

    def start(self, spark: Any, *, interval_seconds: float) -> None:
        """Start its queries. Raises InvalidRequest where a target has commits of another query of its name;
        none runs then."""
        origins = [self._origin(number) for number in range(len(self.parts))]
        known = self.places.record(self.name)
        if known is None:
            self.places.keep(self.record)
        before = self.places.status(self.name)
        if before is not None and len(before.parts) == len(self.parts):
            self._status = replace(self._status, parts=before.parts)
        self._note(self._status)
        start_stream = feature("streams by Spark")
        try:
            for number, origin in enumerate(origins):
                streams = Streams(tuple(i.source for i in self.parts[number].plan.inputs))
                batches = PartBatches(
                    self.parts[number], self._user(number), origin.identifier, self._counting(number)
                )
                begin = None if origin.position is None else json.loads(origin.position)
                self._queries.append(
                    start_stream(
                        spark,
                        streams,
                        batches,
                        checkpoint=self._place(number, "checkpoint"),
                        start=begin,
                        interval_seconds=interval_seconds,
                    )
                )
        except BaseException as e:
            self._end(e)
            raise
        threading.Thread(target=self._watch, name=f"tablestore-{self.name}", daemon=True).start()

    def stop(self) -> None:
        """End it between two batches; returns when it has ended."""
        self._stopping = True
        for query in self._queries:
            query.stop()
        self._over.wait()

    def wait(self) -> None:
        """Wait for its end. Raises what it failed with."""
        while not self._over.wait(0.2):  # so that Ctrl-C is heard
            pass
        if self.error is not None:
            raise self.error

    def _user(self, number: int) -> str:
        """The user of the commits of an INSERT."""
        return self.name if len(self.parts) == 1 else f"{self.name}/{number}"

    def _place(self, number: int, *parts: str) -> str:
        return self.places.place(self.name, str(number), *parts)

    def _origin(self, number: int) -> Origin:
        """Where the first batch of an INSERT begins, if it has no checkpoint."""
        part = self.parts[number]
        if part.plan.grouping is not None:
            raise Unsupported("GROUP BY in a job")
        if not isinstance(part.sink, TableSink):
            return Origin(0, None)
        found = origin_of(self._place(number, "checkpoint"), part.sink.opened(), self._user(number))
        if found.position is not None:
            plan = _plan_of(found.position)
            if plan != part.fingerprint:
                raise InvalidRequest(
                    f"{part.target} has commits of a job {self.name!r} with another query; give this one "
                    "another name: SET 'pipeline.name' = '…'"
                )
        return found

    def _counting(self, number: int) -> Callable[[Batch, int], None]:
        def noted(batch: Batch, rows: int) -> None:
            with self._lock:
                parts = list(self._status.parts)
                one = parts[number]
                parts[number] = PartStatus(one.batches + 1, one.rows + rows, batch.end)
                self._status = replace(self._status, parts=tuple(parts))
                status = self._status
            self.places.note(self.name, status)

        return noted

    def _watch(self) -> None:
        """Wait for the end of all queries, or of one that failed: then the others are stopped."""
        error: BaseException | None = None
        waiting = list(self._queries)
        while waiting and error is None:
            for query in list(waiting):
                if query.wait(0.5):
                    waiting.remove(query)
                    error = error or query.failure()
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        for query in self._queries:
            query.stop()
        self.error = None if error is None else plain_error(self.name, error)
        state = FAILED if error is not None else STOPPED if self._stopping else FINISHED
        with self._lock:
            self._status = replace(self._status, state=state, error="" if error is None else str(self.error))
        self._note(self._status)
        self._over.set()

    def _note(self, status: JobStatus) -> None:
        with contextlib.suppress(TablestoreError, OSError):  # where its directory is gone nobody asks
            self.places.note(self.name, status)


def _plan_of(position: str) -> str | None:
    try:
        found: Mapping[str, Any] = json.loads(position)
        return found.get("plan")
    except (ValueError, AttributeError):
        return None


def plain_error(name: str, error: BaseException) -> BaseException:
    """The error that ended a job, as one of ours that names the job, in one line where it is Spark's."""
    if isinstance(error, TablestoreError):
        if error.args and isinstance(error.args[0], str) and not hasattr(error, "job"):
            error.args = (f"job {name!r}: {error.args[0]}", *error.args[1:])
            error.job = name  # type: ignore[attr-defined]  # said once
        return error
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0][:400] if lines else type(error).__name__
    return Unavailable(0, f"job {name!r}: {text}; the same statement under the same name goes on")
