"""The ingest as a job of the widget: what the batches tell, Stop, and a process that is away."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import tablestore as ts
from notebooks.demo import pipeline, watch
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.source import ChunkFacts
from tablestore.cdc.source import ChunkMark, Position
from widgets import IngestProgress

FILE = "00001.jsonl"
AWAY = ts.Unavailable(0, "a worker failed to connect back")


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


def under_way(number: int, start: Position, end: Position, *pieces: ts.PieceProgress) -> ts.BatchProgress:
    offsets = [{"v": 1, "at": position.to_dict(), "until": None} for position in (start, end)]
    return ts.BatchProgress(number, 0.0, *offsets, pieces)


def done(number: int, snapshot: int, *, full: int = 0, changes: int = 0) -> ts.BatchReport:
    table = ts.TableReport("t", full, changes, snapshot=snapshot)
    chunk = ts.ChunkReport("s.t", None, None, True, full, 0.0, 1.0)
    return ts.BatchReport(number, 0.0, 0.0, 1.0, "", tables=(table,), chunks=(chunk,) if full else ())


def test_chunks_the_log_and_commits_are_shown_as_they_are():
    progress, run = IngestProgress("t"), SimpleNamespace(directory=Directory(), position=Position)
    look = watch.IngestWatch(SPARK, run, progress)
    waiting = ts.PieceProgress(ChunkFacts(SourceName("s", "t"), None, None))
    read = ts.PieceProgress(waiting.chunk, 10)
    look.look(under_way(1, Position(), Position(2), waiting, waiting))
    assert progress.progress.chunks == {0: "reading"}, "as many as tasks run, in order"
    look.look(under_way(1, Position(), Position(2), read, waiting))
    assert progress.progress.chunks == {0: "read", 1: "reading"}
    assert (progress.progress.rows, progress.progress.committed) == (10, 0)
    run.position = lambda: Position(2)
    look.committed(done(1, 1, full=20))
    look.look(under_way(1, Position(), Position(2), read, read))  # asked for before the commit
    assert progress.progress.counts["committed"] == 2
    assert (progress.progress.committed, progress.progress.commit, progress.progress.lag_bytes) == (
        20,
        1,
        100,
    )

    end = Position(2, FILE, 60)
    look.look(under_way(2, Position(2), end, ts.PieceProgress(None)))
    assert not progress.progress.marks[-1].committed
    run.position = lambda: end
    look.committed(done(2, 2, changes=7))
    last = progress.progress.marks[-1]
    assert (last.name, last.low, last.high, last.note, last.committed) == (
        "batch 2",
        0,
        60,
        "7 changes",
        True,
    )
    assert (progress.progress.rows, progress.progress.lag_bytes, progress.progress.commits) == (27, 40, 2)


@pytest.mark.parametrize(("failures", "state"), [(1, "done"), (2, "done"), (3, "failed")])
def test_a_process_that_is_away_is_waited_for(failures: int, state: str, monkeypatch: pytest.MonkeyPatch):
    calls = []

    def run_queries(*_: object, **__: object) -> None:
        calls.append(1)
        if len(calls) <= failures:
            raise AWAY

    monkeypatch.setattr(watch, "run_queries", run_queries)
    progress = IngestProgress("t").run(watch.ingest_job(SPARK, RUN))
    progress._worker.join(240)
    assert progress.progress.state == state
    assert len(calls) == min(failures + 1, pipeline.ATTEMPTS)


def test_other_failures_are_raised_and_stop_ends_the_job(monkeypatch: pytest.MonkeyPatch):
    def fails(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(watch, "run_queries", fails)
    with pytest.raises(OSError, match="no space left"):
        IngestProgress("t").run(watch.ingest_job(SPARK, RUN)).wait(240)

    def polls(_spark: object, _run: object, report: object, **_: object) -> None:
        while True:
            report("load", 0.0, 20.0, "")

    monkeypatch.setattr(watch, "run_queries", polls)
    progress = IngestProgress("t").run(watch.ingest_job(SPARK, RUN))
    progress.stop().wait(240)
    assert progress.progress.state == "stopped"
