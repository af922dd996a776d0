"""The ingest as a job of an `IngestProgress` widget: progress in, Stop out."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from notebooks.demo.pipeline import Run, run_queries
from widgets import IngestProgress


class _Stopped(Exception):
    """The person pressed Stop."""


def ingest_job(spark: SparkSession, run: Run) -> Callable[[IngestProgress], None]:
    """What `IngestProgress.run` wants: load and follow; on Stop the queries end, and what was committed
    stays."""

    def job(progress: IngestProgress) -> None:
        def tell(step: str, done: float, total: float, note: str) -> None:
            if progress.stopped.is_set():
                raise _Stopped
            latest = run.lineitem.store.snapshots.latest_id()
            commit = latest if latest != seen[-1] else None
            seen.append(latest)
            progress.update(
                rows=int(done), total=int(total) or None, phase=f"{step} {note}".strip(), commit=commit
            )

        seen = [run.lineitem.store.snapshots.latest_id()]
        try:
            run_queries(spark, run, tell)
        except _Stopped:
            return

    return job
