"""The ingest as a job of the widget: what the batches tell, Stop, and a worker that starts too late."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.errors import StreamingQueryException

from notebooks.demo import pipeline, watch
from tablestore.cdc.source import Chunk, ChunkMark, LogRange, Position
from tablestore.spark import BatchStarted, FinishedBatch
from widgets import IngestProgress

FILE = "00001.jsonl"
LATE = StreamingQueryException("[X] Python worker failed to connect back.")


class Directory:
    """Two chunks of ten rows read at the start of a log of 100 bytes."""

    primary_key = ("id", "line")
    snapshot_rows = 20
    chunk_marks = tuple(
        ChunkMark(n, 10, n * 10, n * 10 + 9, Position(0, FILE, 0), Position(0, FILE, 0)) for n in range(2)
    )

    def end(self) -> Position:
        return Position(2, FILE, 100)

    def log_bytes(self, position: Position) -> int:
        return position.offset


class Tracker:
    """One task is running."""

    def getActiveStageIds(self) -> list[int]:
        return [1]

    def getStageInfo(self, _stage: int) -> SimpleNamespace:
        return SimpleNamespace(numActiveTasks=1)


SPARK = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=Tracker))
RUN = SimpleNamespace(directory=Directory(), position=Position)


def test_chunks_the_log_and_commits_are_shown_as_they_are():
    progress, read = IngestProgress("t"), {}
    look = watch.IngestWatch(SPARK, RUN, progress)
    chunks = tuple(Chunk(n, f"c{n}", 10) for n in range(2))
    look.started(BatchStarted(0, Position(), Position(2), chunks, lambda: read))
    assert progress.progress.chunks == {0: "reading"}, "as many as tasks run, in order"
    read[0] = 10
    look.look()
    assert progress.progress.chunks == {0: "read", 1: "reading"}
    assert (progress.progress.rows, progress.progress.committed) == (10, 0)
    look.committed(FinishedBatch(0, "full", 20, 0.0, 1.0, 1, Position(2)))
    assert progress.progress.counts["committed"] == 2
    assert (progress.progress.committed, progress.progress.commit, progress.progress.lag_bytes) == (
        20,
        1,
        100,
    )

    end = Position(2, FILE, 60)
    look.started(BatchStarted(1, Position(2), end, (LogRange(FILE, 0, 60),), dict))
    assert not progress.progress.marks[-1].committed
    look.committed(FinishedBatch(1, "increment", 7, 0.0, 1.0, 2, end))
    last = progress.progress.marks[-1]
    assert (last.name, last.low, last.high, last.note, last.committed) == (
        "batch 1",
        0,
        60,
        "7 changes",
        True,
    )
    assert (progress.progress.rows, progress.progress.lag_bytes, progress.progress.commits) == (27, 40, 2)


@pytest.mark.parametrize(("failures", "state"), [(1, "done"), (2, "done"), (3, "failed")])
def test_a_worker_that_starts_too_late_is_waited_for_again(
    failures: int, state: str, monkeypatch: pytest.MonkeyPatch
):
    calls = []

    def run_queries(*_: object, **__: object) -> None:
        calls.append(1)
        if len(calls) <= failures:
            raise LATE

    monkeypatch.setattr(watch, "run_queries", run_queries)
    progress = IngestProgress("t").run(watch.ingest_job(SPARK, RUN))
    progress._worker.join(20)
    assert progress.progress.state == state
    assert len(calls) == min(failures + 1, pipeline.ATTEMPTS)


def test_other_failures_are_raised_and_stop_ends_the_job(monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object, **__: object) -> None:
        raise StreamingQueryException("no space left")

    monkeypatch.setattr(watch, "run_queries", fails)
    with pytest.raises(StreamingQueryException, match="no space left"):
        IngestProgress("t").run(watch.ingest_job(SPARK, RUN)).wait(20)

    def polls(_spark: object, _run: object, report: object, **_: object) -> None:
        while True:
            report("load", 0.0, 20.0, "")

    monkeypatch.setattr(watch, "run_queries", polls)
    progress = IngestProgress("t").run(watch.ingest_job(SPARK, RUN))
    progress.stop().wait(20)
    assert progress.progress.state == "stopped"
