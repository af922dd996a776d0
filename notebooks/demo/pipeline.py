"""The demo step by step: source → tables → full load and increments, with the summary beside them →
compaction.

Every step can be called again after a kill: it looks at the tables and goes on. `show(step, done, total,
note)` is called from the thread that called the step, a few times a second, with rows or tasks done; a
caller that stops listening may raise from it, and the step ends with that error.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import tablestore as ts
from datasets import cdc
from notebooks.demo import summary_job, tables
from notebooks.demo.journal import Journal, Places
from tablestore.cdc.source import ChangeDirectory, Position
from tablestore.io.fileio import LocalFileIO
from tablestore.spark import ingest
from tablestore.spark.compaction import Compacted, compact

ShowProgress = Callable[[str, float, float, str], None]
ATTEMPTS = 3
_LATE = "Python worker failed to connect back"  # within 10 s, which Spark does not let one choose
_POLL_SECONDS = 0.15


class Query(Protocol):
    """What runs beside others until it is stopped."""

    def exception(self) -> BaseException | None:
        """What it failed with."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


class Watch(Protocol):
    """Somebody who looks on, batch by batch. Both are called in the thread of the query, which waits."""

    def started(self, batch: ingest.BatchStarted) -> None:
        """A batch is about to be read."""
        ...

    def committed(self, batch: ingest.FinishedBatch) -> None:
        """A batch is in a snapshot."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `interval_seconds` None: batches follow one another without a pause."""

    scale_factor: str
    pairs: int = 10
    seed: int = 0
    chunks_per_batch: int = 8
    interval_seconds: float | None = None
    cores: int | None = None


@dataclass(frozen=True)
class Run:
    """One warehouse and everything in it."""

    places: Places
    plan: Plan
    source: cdc.Source
    lineitem: ts.Table
    summary: ts.Table

    @property
    def journal(self) -> Journal:
        return Journal(self.places.journal)

    @property
    def chunks(self) -> int:
        """Chunks of the full snapshot."""
        return len(self.source.chunks)

    @property
    def snapshot_rows(self) -> int:
        """Rows of the full snapshot."""
        return sum(c.rows for c in self.source.chunks)

    @property
    def directory(self) -> ChangeDirectory:
        """The source as the ingest sees it."""
        return ChangeDirectory(LocalFileIO(), str(self.places.source), "lineitem")

    def position(self) -> Position:
        """How far the table of line items is."""
        known = self.lineitem.position(tables.LINEITEM_USER)
        return Position.of(known[1]) if known and known[1] else Position()

    def loaded(self) -> bool:
        """Whether the full phase is over."""
        return self.position().chunks >= self.chunks

    def ingested(self) -> bool:
        """Whether every change of a finished source is in the table."""
        end = cdc.open_source(self.places.source).log_end()
        here = self.position()
        return self.loaded() and (self.source.pairs == 0 or (here.file, here.offset) >= tuple(end))


def prepare(places: Places, plan: Plan, *, progress: bool = True) -> Run:
    """The source (made if need be, or gone on with) and the tables."""
    places.own.mkdir(parents=True, exist_ok=True)
    source = cdc.generate(
        places.source, plan.scale_factor, pairs=plan.pairs, seed=plan.seed, progress=progress
    )
    lake = ts.connect(str(places.warehouse))
    columns = ChangeDirectory(LocalFileIO(), str(places.source), "lineitem").schema
    return Run(places, plan, source, tables.lineitem(lake, columns), tables.summary(lake))


def patiently(work: Callable[[], None], *, again: Callable[[], None] = lambda: None) -> None:
    """Do `work`, which goes on from the last commit, and up to twice more where Spark gave up on a Python
    worker that a busy machine was slow to start; `again` is called before each further try.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            return work()
        except (StreamingQueryException, ts.Unavailable) as late:
            transient = isinstance(late, ts.Unavailable) or _LATE in str(late)
            if not left or not transient:
                raise
        again()


def run_queries(spark: SparkSession, run: Run, show: ShowProgress, *, watch: Watch | None = None) -> None:
    """Ingest everything, keep the summary in step, return when both have seen the last change.

    Raises what a query failed with.
    """
    began = time.monotonic()
    state = _Progress(run, watch)
    queries: list[Query] = []
    try:
        with _failing_together(queries):
            job = _job(run)
            load = ingest.start(spark, job, on_batch=state.batch_done, on_start=state.batch_started)
            queries.append(load)
            following = False
            while load.isActive:
                if not following and run.loaded():
                    queries.append(_follow(spark, run))
                    following = True
                if run.plan.interval_seconds is not None and run.ingested():
                    load.stop()
                state.report(show)
                _raise_failure(queries)
                time.sleep(_POLL_SECONDS)
            _raise_failure(queries)
            if not following:
                queries.append(_follow(spark, run))
            _await_summary(run, queries, state, show)
    finally:
        for query in queries:
            query.stop()
    run.journal.add("queries", seconds=time.monotonic() - began)


def _job(run: Run) -> ingest.Ingest:
    return ingest.Ingest(
        tables.load_of(str(run.places.source), run.lineitem),
        str(run.places.checkpoint("lineitem")),
        chunks_per_batch=run.plan.chunks_per_batch,
        interval_seconds=run.plan.interval_seconds,
    )


def _follow(spark: SparkSession, run: Run) -> summary_job.SummaryJob:
    return summary_job.SummaryJob(spark, ts.connect(str(run.places.warehouse)))


@contextmanager
def _failing_together(queries: list[Query]) -> Iterator[None]:
    """A failed query ends the step with its own error, not with what its failure led to."""
    try:
        yield
    except BaseException:
        _raise_failure(queries)
        raise


def _raise_failure(queries: list[Query]) -> None:
    for query in queries:
        failed = query.exception()
        if failed is not None:
            raise failed


def last_change(run: Run) -> int:
    """The newest snapshot of line items that holds changes."""
    return summary_job.newest_change(run.lineitem)


def summary_position(run: Run) -> int:
    """The snapshot of line items that the summary has reached."""
    return summary_job.reached(str(run.places.warehouse))


def _await_summary(run: Run, queries: list[Query], state: _Progress, show: ShowProgress) -> None:
    goal = last_change(run)
    while summary_position(run) < goal:
        state.report(show)
        _raise_failure(queries)
        time.sleep(_POLL_SECONDS)
    state.report(show)


class _Progress:
    """What is done, gathered from the threads of the queries, shown from the caller's."""

    def __init__(self, run: Run, watch: Watch | None) -> None:
        self._run, self._watch, self._lock = run, watch, threading.Lock()
        here = run.position()
        self._rows = sum(c.rows for c in run.source.chunks[: here.chunks])
        self._changes, self._summary_at = 0, summary_position(run)
        self._reading: ingest.BatchStarted | None = None

    def batch_started(self, batch: ingest.BatchStarted) -> None:
        with self._lock:
            self._reading = batch
        if self._watch is not None:
            self._watch.started(batch)

    def batch_done(self, batch: ingest.FinishedBatch) -> None:
        with self._lock:
            self._reading = None
            if batch.phase == "full":
                self._rows += batch.rows
            else:
                self._changes += batch.rows
        facts = {"phase": batch.phase, "rows": batch.rows, "started": batch.started, "ended": batch.ended}
        self._run.journal.add("batch", snapshot=batch.snapshot, **facts)
        if self._watch is not None:
            self._watch.committed(batch)

    def _look_at_summary(self) -> None:
        at = summary_position(self._run)
        if at > self._summary_at:
            self._summary_at = at
            self._run.journal.add("summary", reached=at, ended=summary_job.newest_commit(self._run.summary))

    def report(self, show: ShowProgress) -> None:
        self._look_at_summary()
        with self._lock:
            rows, changes, at = self._rows, self._changes, self._summary_at
            read = sum(self._reading.read().values()) if self._reading is not None else 0
        total = self._run.snapshot_rows
        if rows < total:
            show("load", min(rows + read, total), total, "")
            return
        show("load", total, total, "")
        show("changes", changes, 0, f"summary at snapshot {at}" if at else "")


def _share_done(spark: SparkSession) -> float:
    """Share of the tasks of running jobs that are done."""
    tracker = spark.sparkContext.statusTracker()
    found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    total = sum(s.numTasks for s in found if s)
    return sum(s.numCompletedTasks for s in found if s) / total if total else 0.0


def compact_fully(spark: SparkSession, run: Run, show: ShowProgress) -> Compacted:
    """Every bucket rewritten into one run, as Spark tasks; one COMPACT snapshot."""
    started = time.time()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(compact, spark, run.lineitem.location, full=True)
        while not done.done():
            show("compaction", _share_done(spark), 1.0, "")
            time.sleep(_POLL_SECONDS)
        found = done.result()
    show("compaction", 1.0, 1.0, "")
    facts: dict[str, Any] = {"snapshot": found.snapshot, "buckets": found.buckets}
    facts |= {"bytes_read": found.bytes_read, "bytes_written": found.bytes_written}
    run.journal.add("compacted", started=started, seconds=found.seconds, **facts)
    return found
