"""A job: INSERTs that follow their sources, each by one streaming query, exactly once into tables.

Commits to a table are of the user that has the job's name, and keep the position of the sources: a job whose
checkpoint is lost goes on from there. A job that fails for a reason that may pass is started again, as its
restart strategy says.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tablestore import doors
from tablestore.core.env import SYSTEM
from tablestore.core.errors import TablestoreError
from tablestore.core.options.environment import are_looked_up
from tablestore.flow.batch import Batch
from tablestore.flow.job_errors import plain_error
from tablestore.flow.restarts import Restarts, RestartStrategy
from tablestore.sql.concealment import conceal
from tablestore.sql.streaming.job_directory import JobDirectories, JobRecord, JobStatus, PartStatus
from tablestore.sql.streaming.job_part import JobPart, PartBatches

log = logging.getLogger(__name__)
RUNNING, RESTARTING = "RUNNING", "RESTARTING"
FINISHED, FAILED, STOPPED = "FINISHED", "FAILED", "STOPPED"


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
        self._carried_out = 0  # batches, by this process
        self._stopping = threading.Event()
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

    def start(self, spark: Any, *, interval_seconds: float, strategy: RestartStrategy) -> None:
        """Start its queries. Raises InvalidRequest where a target has commits of another query of its name;
        none runs then."""
        known = self.places.record(self.name)
        self.record = self.record if known is None else known
        opened = self._all_opened()
        if known is None:
            self.places.keep(self.record)
        before = self.places.status(self.name)
        if before is not None and len(before.parts) == len(self.parts):
            self._status = replace(self._status, parts=before.parts)
        self._note(self._status)
        are_looked_up(name for part in self.parts for name in part.streams.variables)
        try:
            self._start_queries(spark, opened, interval_seconds)
        except BaseException as e:
            self._end(e)
            raise
        again = partial(self._start_again, spark, interval_seconds)
        watch = partial(self._watch, Restarts(strategy), again)
        threading.Thread(target=watch, name=f"tablestore-{self.name}", daemon=True).start()

    def _all_opened(self) -> list[PartBatches]:
        return [self._opened(number) for number in range(len(self.parts))]

    def _start_queries(self, spark: Any, opened: Sequence[PartBatches], interval_seconds: float) -> None:
        for part, batches in zip(self.parts, opened, strict=True):
            query = doors.start_stream(
                spark,
                part.streams,
                batches,
                checkpoint=batches.checkpoint,
                start=batches.start,
                interval_seconds=interval_seconds,
                variables=part.streams.variables,
            )
            self._queries.append(query)

    def _start_again(self, spark: Any, interval_seconds: float) -> None:
        """Start all queries where their checkpoints are."""
        self._queries = []
        self._start_queries(spark, self._all_opened(), interval_seconds)
        self._set_state(RUNNING)

    def stop(self) -> None:
        """End it between two batches; returns when it has ended."""
        self._stopping.set()
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
                self._carried_out += 1
                parts[number] = PartStatus(one.batches + 1, one.rows + rows, batch.end)
                self._status = replace(self._status, parts=tuple(parts))
                status = self._status
            self.places.note(self.name, status)

        return noted

    def _watch(self, restarts: Restarts, again: Callable[[], None]) -> None:
        """Wait for the end of all queries; start them again where that may help."""
        error = self._end_of_queries()
        while error is not None and not self._stopping.is_set():
            wait = restarts.wait_after(error, self._carried_out)
            if wait is None:
                break
            shown = plain_error(self.name, error)
            conceal(shown)
            self._set_state(RESTARTING, f"again in {wait:g} s after {str(shown)[:300]}")
            log.warning("%s", self.status.error)
            if self._stopping.wait(wait):
                error = None
                break
            try:
                again()
                error = self._end_of_queries()
            except Exception as e:  # Spark's, or of a store that is away
                self._stop_queries()
                error = e
        self._end(error)

    def _end_of_queries(self) -> BaseException | None:
        """Wait for the end of all queries, or of one that failed: then the others are stopped."""
        error: BaseException | None = None
        waiting = list(self._queries)
        while waiting and error is None:
            for query in list(waiting):
                if self._stopping.is_set():  # it may have come while they were started
                    query.stop()
                if query.wait(0.5):
                    waiting.remove(query)
                    error = error or query.failure()
        if error is not None:
            self._stop_queries()
        return error

    def _stop_queries(self) -> None:
        for query in self._queries:
            query.stop()

    def _end(self, error: BaseException | None) -> None:
        self._stop_queries()
        self.error = None if error is None else plain_error(self.name, error)
        if self.error is not None:
            conceal(self.error)
        state = FAILED if error is not None else STOPPED if self._stopping.is_set() else FINISHED
        self._set_state(state, "" if error is None else str(self.error))
        self._over.set()

    def _set_state(self, state: str, error: str = "") -> None:
        with self._lock:
            self._status = replace(self._status, state=state, error=error)
            status = self._status
        self._note(status)

    def _note(self, status: JobStatus) -> None:
        with contextlib.suppress(TablestoreError, OSError):  # where its directory is gone nobody asks
            self.places.note(self.name, status)
