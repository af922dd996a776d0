"""The demo step by step: source → tables → a capture, full load and increments, with the summary beside it →
compaction.

Every step can be called again after a kill: it looks at the tables and goes on. `show(step, done, total,
note)` is called from the thread that called the step, a few times a second, with rows or tasks done; a
caller that stops listening may raise from it, and the step ends with that error.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

import tablestore as ts
from datasets import cdc
from notebooks.demo import summary_job, tables
from notebooks.demo.journal import Journal, Places
from tablestore.cdc.capture.report import BatchProgress, BatchReport
from tablestore.cdc.directory_stream import position_of
from tablestore.cdc.source import ChangeDirectory, Position
from tablestore.io.fileio import LocalFileIO
from tablestore.io.routed import file_io_for
from tablestore.spark.compaction import Compacted, compact

ShowProgress = Callable[[str, float, float, str], None]
ATTEMPTS = 3
_POLL_SECONDS = 0.15


class Query(Protocol):
    """What runs beside others until it is stopped."""

    @property
    def error(self) -> BaseException | None:
        """What it failed with."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


class Watch(Protocol):
    """Somebody who looks on."""

    def look(self, batch: BatchProgress) -> None:
        """How far the batch under way is; called a few times a second by who called the step."""
        ...

    def committed(self, report: BatchReport) -> None:
        """A batch is done; called in the thread of the query, which waits."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `interval_seconds` None: batches follow one another without a pause. `master` None: Spark
    runs in this process."""

    scale_factor: str
    pairs: int = 10
    seed: int = 0
    chunks_per_batch: int = 8
    interval_seconds: float | None = None
    cores: int | None = None
    master: str | None = None


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
        """How far the table of line items is. Raises InvalidRequest for one that an older demo has loaded, or
        that somebody made in its place."""
        stored = self.lineitem.position(tables.LINEITEM_USER)
        try:
            if stored is not None:
                return position_of(json.loads(stored[1] or "")["end"])
            if not self.journal.events("batch"):
                return Position()
            why = "is another table than the one that was loaded"
        except (ValueError, KeyError, TypeError):
            why = "was loaded by an older version of the demo"
        raise ts.InvalidRequest(
            f"{tables.LINEITEM} {why}: add --fresh to start over, or choose another warehouse"
        )

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
    if places.shipped_source != str(places.source):
        ship(places.source, places.shipped_source)
    lake = ts.connect(str(places.warehouse))
    columns = ChangeDirectory(LocalFileIO(), str(places.source), "lineitem").schema
    return Run(places, plan, source, tables.lineitem(lake, columns), tables.summary(lake))


def ship(source: Path, target: str) -> None:
    """Copy the files of a source to a store, those that are not there; its description last, so that a
    directory that has one is complete."""
    io = file_io_for(target)
    files = [path for path in sorted(source.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    files.sort(key=lambda path: path.name == "source.json")
    for path in files:
        place = f"{target}/{path.relative_to(source)}"
        if not io.exists(place) or io.size(place) != path.stat().st_size:
            with path.open("rb") as read, io.open_output(place) as written:
                shutil.copyfileobj(read, written, 8 << 20)


def patiently(work: Callable[[], None], *, again: Callable[[], None] = lambda: None) -> None:
    """Do `work`, which goes on from the last commit, and up to twice more where a process that it needs was
    away, as on a busy machine; `again` is called before each further try.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            return work()
        except ts.Unavailable:
            if not left:
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
            load = _capture(spark, run, state.batch_done)
            queries.append(load)
            following = False
            while load.running:
                if not following and run.loaded():
                    queries.append(_follow(spark, run))
                    following = True
                state.look(load.progress())
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


def _capture(spark: SparkSession, run: Run, on_batch: Callable[[BatchReport], None]) -> Any:
    """The job that loads line items and follows them to the end of the source."""
    return ts.connect(str(run.places.warehouse)).ingest(
        run.places.shipped_source,
        tables="lineitem",
        into=tables.LINEITEM,
        **tables.LINEITEM_RULES,
        follow=False,
        interval=run.plan.interval_seconds or 0,
        compact_every=0,
        checkpoint=run.places.checkpoint("capture"),
        name=tables.LINEITEM_USER,
        spark=spark,
        on_batch=on_batch,
        chunks=run.plan.chunks_per_batch,
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
        failed = query.error
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
        self._reading, self._done = 0, -1  # rows of the batch under way; the newest batch that is done

    def look(self, batch: BatchProgress | None) -> None:
        """Take down how far the batch under way is."""
        with self._lock:
            if batch is None or batch.number <= self._done:
                return
            self._reading = batch.rows
        if self._watch is not None:
            self._watch.look(batch)

    def batch_done(self, report: BatchReport) -> None:
        """Take down what a batch did; the first one has no rows."""
        full = sum(progress.snapshot_rows for progress in report.tables)
        changes = sum(progress.changes for progress in report.tables)
        with self._lock:
            self._reading, self._done = 0, report.number
            self._rows, self._changes = self._rows + full, self._changes + changes
        phase = "full" if report.chunks else "increment"
        facts: dict[str, Any] = {"phase": phase, "rows": full + changes}
        facts |= {"started": report.started, "ended": report.ended}
        for progress in report.tables:
            if progress.snapshot is not None:
                self._run.journal.add("batch", snapshot=progress.snapshot, **facts)
        if self._watch is not None:
            self._watch.committed(report)

    def _look_at_summary(self) -> None:
        at = summary_position(self._run)
        if at > self._summary_at:
            self._summary_at = at
            self._run.journal.add("summary", reached=at, ended=summary_job.newest_commit(self._run.summary))

    def report(self, show: ShowProgress) -> None:
        self._look_at_summary()
        with self._lock:
            rows, changes, at, read = self._rows, self._changes, self._summary_at, self._reading
        total = self._run.snapshot_rows
        if rows < total:
            show("load", min(rows + read, total), total, "")
            return
        show("load", total, total, "")
        show("changes", changes, 0, f"summary at snapshot {at}" if at else "")


def _share_done(spark: SparkSession) -> float:
    """Share of the tasks of running jobs that are done."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    total = sum(s.numTasks for s in stages if s)
    return sum(s.numCompletedTasks for s in stages if s) / total if total else 0.0


def compact_fully(spark: SparkSession, run: Run, show: ShowProgress) -> Compacted:
    """Every bucket rewritten into one run, as Spark tasks; one COMPACT snapshot."""
    started = time.time()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(compact, spark, run.lineitem, full=True)
        while not done.done():
            show("compaction", _share_done(spark), 1.0, "")
            time.sleep(_POLL_SECONDS)
        compacted = done.result()
    show("compaction", 1.0, 1.0, "")
    facts: dict[str, Any] = {"snapshot": compacted.snapshot, "buckets": compacted.buckets}
    facts |= {"bytes_read": compacted.bytes_read, "bytes_written": compacted.bytes_written}
    run.journal.add("compacted", started=started, seconds=compacted.seconds, **facts)
    return compacted
