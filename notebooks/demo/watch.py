"""The ingest as a job of an `IngestProgress` widget: chunks, log and commits in, Pause and Stop out."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from pyspark.sql import SparkSession

from notebooks.demo.pipeline import Run, patiently, run_queries
from tablestore.cdc.source import Chunk
from tablestore.spark import BatchStarted, FinishedBatch
from widgets import IngestProgress


class _Stopped(Exception):
    """The person pressed Stop."""


def ingest_job(spark: SparkSession, run: Run) -> Callable[[IngestProgress], None]:
    """What `IngestProgress.run` wants: load and follow; on Stop the queries end, and what was committed
    stays. Pause takes effect before the next batch: a batch is whole or not at all. On a busy machine, where
    Spark gives up on a worker that is slow to start, it goes on from the last commit."""

    def attempt(progress: IngestProgress) -> None:
        watch = IngestWatch(spark, run, progress)

        def show(step: str, done: float, total: float, note: str) -> None:
            if progress.stopped.is_set():
                raise _Stopped
            watch.look()
            if step != "load" or done < total:
                progress.update(phase=" · ".join(part for part in (step, note) if part))

        run_queries(spark, run, show, watch=watch)

    def job(progress: IngestProgress) -> None:
        def again() -> None:
            progress.update(phase="Spark waited 10 s for a worker in vain: going on")

        with contextlib.suppress(_Stopped):
            patiently(lambda: attempt(progress), again=again)

    return job


class IngestWatch:
    """What the batches of the ingest report, as the widget shows it.

    `started` and `committed` are called by the query, `look` by whoever polls.
    """

    def __init__(self, spark: SparkSession, run: Run, progress: IngestProgress) -> None:
        self._spark, self._run, self._progress = spark, run, progress
        self._directory, self._lock = run.directory, threading.Lock()
        self._batch: BatchStarted | None = None
        marks, here = self._directory.chunk_marks, run.position()
        self._rows = sum(mark.rows for mark in marks[: here.chunks])
        progress.describe(marks, key=self._directory.primary_key[0])
        for number in range(here.chunks):
            progress.update(chunk=(number, "committed"))
        end = self._directory.end()
        progress.update(
            rows=self._rows,
            committed=self._rows,
            total=self._directory.snapshot_rows,
            log_done=self._directory.log_bytes(here),
            log_head=self._directory.log_bytes(end),
            log_name=end.file,
        )

    def started(self, batch: BatchStarted) -> None:
        """Wait here while paused; then show what the batch will read."""
        self._progress.proceed()
        with self._lock:
            self._batch = batch
        self._mark(batch, note="reading", committed=False)
        self.look()

    def look(self) -> None:
        """What the tasks have read of the batch so far; as many pieces as tasks run are being read."""
        with self._lock:
            batch = self._batch
            if batch is None:
                return
            read = dict(batch.read())
            open_ = [at for at in range(len(batch.pieces)) if at not in read][: tasks_running(self._spark)]
            for at, piece in enumerate(batch.pieces):
                if isinstance(piece, Chunk) and (at in read or at in open_):
                    self._progress.update(chunk=(piece.number, "read" if at in read else "reading"))
            self._progress.update(rows=self._rows + sum(read.values()))

    def committed(self, done: FinishedBatch) -> None:
        """The batch is in a snapshot."""
        with self._lock:
            batch, self._batch = self._batch, None
            self._rows += done.rows
        if batch is not None:
            for piece in batch.pieces:
                if isinstance(piece, Chunk):
                    self._progress.update(chunk=(piece.number, "committed"))
            note = f"{done.rows:,} changes" if done.phase != "full" else ""
            self._mark(batch, note=note, committed=True)
        self._progress.update(
            rows=self._rows,
            committed=self._rows,
            commit=done.snapshot,
            log_done=self._directory.log_bytes(done.position),
            log_head=self._directory.log_bytes(self._directory.end()),
        )

    def _mark(self, batch: BatchStarted, *, note: str, committed: bool) -> None:
        """A chunk lies between its own watermarks, a batch of changes between its two positions."""
        where = self._directory.log_bytes
        for piece in batch.pieces:
            if isinstance(piece, Chunk):
                mark = self._directory.chunk_marks[piece.number]
                low, high = where(mark.low), where(mark.high)
                text = "rows as of here; what changed later is in the log" if high == low else note
                self._progress.mark(
                    f"chunk {piece.number}", low=low, high=high, note=text, committed=committed
                )
        if not any(isinstance(piece, Chunk) for piece in batch.pieces):
            low, high = where(batch.start), where(batch.end)
            self._progress.mark(f"batch {batch.number}", low=low, high=high, note=note, committed=committed)


def tasks_running(spark: SparkSession) -> int:
    """Tasks that run now."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage)
