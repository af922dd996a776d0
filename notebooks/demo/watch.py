"""The ingest as a job of an `IngestProgress` widget: chunks, log and commits in, Pause and Stop out."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from notebooks.demo.pipeline import Run, patiently, run_queries
from tablestore import BatchProgress, BatchReport
from tablestore.cdc.directory_stream import position_of
from tablestore.cdc.source import Position
from widgets import IngestProgress

STARTING = "Spark starts the query"


class _Stopped(Exception):
    """The person pressed Stop."""


def ingest_job(spark: SparkSession, run: Run) -> Callable[[IngestProgress], None]:
    """What `IngestProgress.run` wants: load and follow; on Stop the queries end, and what was committed
    stays. Pause takes effect before the next batch: a batch is whole or not at all. Where a process that it
    needs was away, as on a busy machine, it goes on from the last commit."""

    def attempt(progress: IngestProgress) -> None:
        chunks = len(run.directory.chunk_marks)
        progress.update(phase=f"planning {chunks} chunks")
        watch = IngestWatch(spark, run, progress)
        progress.update(phase=STARTING)

        def show(step: str, done: float, total: float, note: str) -> None:
            if progress.stopped.is_set():
                raise _Stopped
            if watch.begun and (step != "load" or done < total):
                progress.update(phase=" · ".join(part for part in (step, note) if part))

        run_queries(spark, run, show, watch=watch)

    def job(progress: IngestProgress) -> None:
        def again() -> None:
            progress.update(phase="a process was away: going on")

        with contextlib.suppress(_Stopped):
            patiently(lambda: attempt(progress), again=again)

    return job


class IngestWatch:
    """What the capture reports, as the widget shows it.

    `committed` is called by the query, `look` by whoever polls.
    """

    def __init__(self, spark: SparkSession, run: Run, progress: IngestProgress) -> None:
        self._spark, self._run, self._progress = spark, run, progress
        self._directory, self._lock = run.directory, threading.Lock()
        self._marked = self._done = -1  # batches: the newest one that is marked in the log, that is committed
        marks, self._here = self._directory.chunk_marks, run.position()
        self._rows = sum(mark.rows for mark in marks[: self._here.chunks])
        progress.describe(marks, key=self._directory.primary_key[0])
        for number in range(self._here.chunks):
            progress.update(chunk=(number, "committed"))
        end = self._directory.end()
        progress.update(
            rows=self._rows,
            committed=self._rows,
            total=self._directory.snapshot_rows,
            log_done=self._directory.log_bytes(self._here),
            log_head=self._directory.log_bytes(end),
            log_name=end.file,
        )

    @property
    def begun(self) -> bool:
        """Whether a batch is being read, or has been."""
        return max(self._marked, self._done) >= 0

    def look(self, batch: BatchProgress) -> None:
        """What the tasks have read of the batch so far; as many pieces as tasks run are being read."""
        with self._lock:
            if batch.number <= self._done:
                return
            start, end = position_of(batch.start), position_of(batch.end)
            if self._marked < batch.number:
                self._marked = batch.number
                self._mark(batch.number, start, end, note="reading", committed=False)
            running = tasks_running(self._spark)
            open_ = [at for at, piece in enumerate(batch.pieces) if piece.rows is None][:running]
            for at, piece in enumerate(batch.pieces):
                if piece.chunk is not None and (piece.rows is not None or at in open_):
                    state = "reading" if piece.rows is None else "read"
                    self._progress.update(chunk=(start.chunks + at, state))
            self._progress.update(rows=self._rows + batch.rows)

    def committed(self, report: BatchReport) -> None:
        """The batch is in a snapshot. Waits here while paused."""
        rows = sum(table.snapshot_rows + table.changes for table in report.tables)
        with self._lock:
            start, self._here, self._done = self._here, self._run.position(), report.number
            self._rows += rows
            for number in range(start.chunks, self._here.chunks):
                self._progress.update(chunk=(number, "committed"))
            note = "" if report.chunks else f"{rows:,} changes"
            self._mark(report.number, start, self._here, note=note, committed=True)
            for table in report.tables:
                self._progress.update(rows=self._rows, committed=self._rows, commit=table.snapshot)
            self._progress.update(
                log_done=self._directory.log_bytes(self._here),
                log_head=self._directory.log_bytes(self._directory.end()),
            )
        self._progress.proceed()

    def _mark(self, batch: int, start: Position, end: Position, *, note: str, committed: bool) -> None:
        """A chunk lies between its own watermarks, a batch of changes between its two positions."""
        where = self._directory.log_bytes
        for number in range(start.chunks, end.chunks):
            mark = self._directory.chunk_marks[number]
            low, high = where(mark.low), where(mark.high)
            text = "rows as of here; what changed later is in the log" if high == low else note
            self._progress.mark(f"chunk {number}", low=low, high=high, note=text, committed=committed)
        if start.chunks == end.chunks and start != end:
            low, high = where(start), where(end)
            self._progress.mark(f"batch {batch}", low=low, high=high, note=note, committed=committed)


def tasks_running(spark: SparkSession) -> int:
    """Tasks that run now."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage)
