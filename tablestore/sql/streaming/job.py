"""A job: INSERTs that follow their sources, each by one streaming query, exactly once into tables.

Commits to a table are of the user that has the job's name, and keep the position of the sources: a job whose
checkpoint is lost goes on from there.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tablestore.cdc.job_errors import plain_error
from tablestore.cdc.stream_batch import Batch
from tablestore.core.env import SYSTEM
from tablestore.core.errors import TablestoreError
from tablestore.sql.streaming.job_directory import JobDirectories, JobRecord, JobStatus, PartStatus
from tablestore.sql.streaming.job_part import JobPart, PartBatches
from tablestore.table.features import feature

RUNNING, FINISHED, FAILED, STOPPED = "RUNNING", "FINISHED", "FAILED", "STOPPED"


class Job:
    """A job that this process runs. Safe to share between threads."""

    def __init__(
        self, name: str, parts: tuple[JobPart, ...], statements: tuple[str, ...], places: JobDirectories
    ) -> None:
        self.name, self.parts, self.places = name, parts, places
        self.started_ms = SYSTEM.now_ms()
        facts = tuple(p.facts for p in parts)
        self.record = JobRecord(name, SYSTEM.uuid()[:8], self.started_ms, statements, facts)
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
        known = self.places.record(self.name)
        self.record = self.record if known is None else known
        opened = [self._opened(number) for number in range(len(self.parts))]
        if known is None:
            self.places.keep(self.record)
        before = self.places.status(self.name)
        if before is not None and len(before.parts) == len(self.parts):
            self._status = replace(self._status, parts=before.parts)
        self._note(self._status)
        start_stream = feature("streams by Spark")
        try:
            for part, batches in zip(self.parts, opened, strict=True):
                query = start_stream(
                    spark,
                    part.streams,
                    batches,
                    checkpoint=batches.checkpoint,
                    start=batches.start,
                    interval_seconds=interval_seconds,
                    variables=part.streams.variables,
                )
                self._queries.append(query)
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

    def caught_up(self) -> bool:
        """Whether its targets have all that its sources hold now. Raises what it failed with."""
        if self.error is not None:
            raise self.error
        for part, status in zip(self.parts, self.status.parts, strict=True):
            reached = part.streams.initial() if status.offset is None else dict(status.offset)
            if part.streams.next(reached) != reached:
                return False
        return True

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
