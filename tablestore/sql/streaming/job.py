"""A job: INSERTs that follow their sources, each by one stream, exactly once into tables.

Commits to a table are of the user that has the job's name, and keep the position of the sources: a job whose
checkpoint is lost goes on from there. What runs the streams may differ from start to start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from tablestore.core.env import SYSTEM
from tablestore.core.errors import TablestoreError
from tablestore.core.options.environment import are_looked_up
from tablestore.flow.batch import Batch
from tablestore.flow.job import ENDED, FAILED, PAUSED, RUNNING, STOPPED, WAITING, FlowJob
from tablestore.flow.restarts import RestartStrategy
from tablestore.flow.runner import Runner, Stream
from tablestore.flow.together import StreamsTogether
from tablestore.sql.concealment import conceal
from tablestore.sql.streaming.job_directory import JobDirectories, JobRecord, JobStatus, PartStatus
from tablestore.sql.streaming.job_part import JobPart, PartBatches

STATES = MappingProxyType(
    {
        **{RUNNING: "RUNNING", PAUSED: "PAUSED", WAITING: "RESTARTING"},
        **{ENDED: "FINISHED", STOPPED: "STOPPED", FAILED: "FAILED"},
    }
)
"""The words of Flink for the states of jobs, which SHOW JOBS and `status.json` have."""


class Job(FlowJob):
    """A job of SQL that this process runs. Safe to share between threads."""

    def __init__(
        self,
        name: str,
        parts: tuple[JobPart, ...],
        statements: tuple[str, ...],
        places: JobDirectories,
        strategy: RestartStrategy | None = None,
    ) -> None:
        super().__init__(name, strategy)
        self.parts, self.places = parts, places
        started_ms = SYSTEM.now_ms()
        facts = tuple(p.facts for p in parts)
        self.record = JobRecord(name, SYSTEM.uuid()[:8], started_ms, statements, facts)
        self._status = JobStatus(STATES[RUNNING], started_ms, tuple(PartStatus() for _ in parts))

    @property
    def status(self) -> JobStatus:
        """How it is now."""
        with self._lock:
            return replace(self._status, state=STATES[self._present])

    def start(self, runner: Runner, *, interval_seconds: float) -> None:
        """Start its streams. Raises InvalidRequest where a target has commits of another query of its name;
        none runs then."""
        record = self.places.record(self.name)
        self.record = self.record if record is None else record
        opened = [self._all_opened()]
        if record is None:
            self.places.keep(self.record)
        before = self.places.status(self.name)
        if before is not None and len(before.parts) == len(self.parts):
            self._status = replace(self._status, parts=before.parts)
        are_looked_up(name for part in self.parts for name in part.streams.variables)
        try:
            self._launch(partial(self._begin, runner, interval_seconds, opened))
        except BaseException as e:
            self._end(e)
            raise

    def _begin(
        self, runner: Runner, interval_seconds: float, opened: list[list[PartBatches]]
    ) -> StreamsTogether:
        """Start all streams where their checkpoints are; the first time those that are `opened`."""
        batches = opened.pop() if opened else self._all_opened()
        return StreamsTogether.started(
            partial(_stream, runner, part, of_part, interval_seconds)
            for part, of_part in zip(self.parts, batches, strict=True)
        )

    def caught_up(self) -> bool:
        """Whether its targets have all that its sources hold now. Raises what it failed with."""
        if self.error is not None:
            raise self.error
        for part, status in zip(self.parts, self.status.parts, strict=True):
            reached = part.streams.initial() if status.offset is None else dict(status.offset)
            if part.streams.next(reached) != reached:
                return False
        return True

    def _all_opened(self) -> list[PartBatches]:
        return [self._opened(number) for number in range(len(self.parts))]

    def _opened(self, number: int) -> PartBatches:
        """What carries out the batches of an INSERT."""
        user = self.name if len(self.parts) == 1 else f"{self.name}/{number}"
        directory = self.places.place(self.name, str(number))
        counted = self._counting(number)
        return PartBatches(self.parts[number], directory, user, job_id=self.record.id, noted=counted)

    def _counting(self, number: int) -> Callable[[Batch, int], None]:
        def noted(batch: Batch, rows: int) -> None:
            with self._lock:
                parts = list(self._status.parts)
                part = parts[number]
                self._batches += 1
                parts[number] = PartStatus(part.batches + 1, part.rows + rows, batch.end)
                self._status = replace(self._status, parts=tuple(parts))
                status = self._status
            self.places.note(self.name, status)

        return noted

    def _plain(self, error: BaseException) -> BaseException:
        plain = super()._plain(error)
        conceal(plain)
        return plain

    def _note(self, state: str, reason: str) -> None:
        """Set its state, and write that."""
        super()._note(state, reason)
        with self._lock:
            self._status = replace(self._status, state=STATES[state], error=reason)
            status = self._status
        with contextlib.suppress(TablestoreError, OSError):  # where its directory is gone nobody asks
            self.places.note(self.name, status)


def _stream(runner: Runner, part: JobPart, batches: PartBatches, interval_seconds: float) -> Stream:
    """The stream of an INSERT."""
    return runner.start(
        part.streams,
        batches,
        checkpoint=batches.checkpoint,
        start=batches.start,
        interval_seconds=interval_seconds,
        variables=part.streams.variables,
    )
