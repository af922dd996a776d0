"""Threads of a write: results in order, errors after everything has ended, flushes beside their writer."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from tablestore.core.errors import Unavailable
from tablestore.io.fileio import LocalFileIO
from tablestore.lsm.writing import memory
from tablestore.lsm.writing.memory import MemoryPool, Workers
from tests.lsm.bucket import LiveBucket

TRIGGER = "num-sorted-run.compaction-trigger"


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "_BACKGROUND_BYTES", 0)
    created = Workers(2)
    yield created
    created.close()


class Held(LocalFileIO):
    """Files open once they are let go; `broken` ones never do."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.broken, self.threads = threading.Event(), False, set[str]()
        self.go.set()

    def open_output(self, path: str) -> pa.NativeFile:
        assert self.go.wait(240)
        self.threads.add(threading.current_thread().name)
        if self.broken:
            raise Unavailable(28, f"{path}: No space left on device")
        return super().open_output(path)


def test_results_come_in_the_order_of_the_jobs(workers: Workers) -> None:
    second_done = threading.Event()

    def first() -> int:
        assert second_done.wait(240)
        return 1

    def second() -> int:
        second_done.set()
        return 2

    assert workers.every([first, second]) == [1, 2]


def test_an_error_is_raised_once_all_jobs_have_ended(workers: Workers) -> None:
    failing, ended = threading.Event(), list[int]()

    def fails() -> None:
        failing.set()
        raise ValueError("the first")

    def goes_on() -> None:
        assert failing.wait(240)
        ended.append(1)

    with pytest.raises(ValueError, match="the first"):
        workers.every([fails, goes_on])
    assert ended == [1]


def test_without_threads_jobs_run_in_the_callers() -> None:
    names = Workers(0).every([lambda: threading.current_thread().name] * 2)
    assert names == [threading.current_thread().name] * 2


@pytest.mark.parametrize("compact", [False, True])
def test_flushes_beside_their_writer_end_as_flushes_in_it(
    tmp_path: Path, workers: Workers, compact: bool
) -> None:
    collected = []
    for number, given in enumerate((None, workers)):
        io = Held()
        bucket = LiveBucket(str(tmp_path / f"bucket-{number}"), {TRIGGER: "3"}, io=io)
        pool = MemoryPool(4_000)
        writer = bucket.writer(pool, compact=compact, changelog=True, workers=given)
        for i in range(100):
            writer.append(bucket.batch([(i % 40, f"v{i}" * 50), (1000 - i, "w")]))
        message = writer.prepare()
        assert pool.used_bytes == 0
        bucket.commit(message)
        named = {f.file_name for f in (*message.new_files, *message.changelog_files, *message.compact_after)}
        assert bucket.on_disk() == named
        assert len(message.new_files) > 2
        changes = sorted(row for f in message.changelog_files for row in bucket.file_rows(f))
        collected.append((bucket.rows(), changes))
        beside = {name for name in io.threads if name.startswith("tablestore-write")}
        assert bool(beside) == (given is not None)
    assert collected[0] == collected[1]


def test_rows_come_in_while_a_flush_is_under_way(tmp_path: Path, workers: Workers) -> None:
    bucket = LiveBucket(str(tmp_path / "bucket-0"), io=(io := Held()))
    pool = MemoryPool(100_000)
    writer = bucket.writer(pool, workers=workers)
    writer.append(bucket.batch([(1, "a")]))
    io.go.clear()
    writer.flush()
    used = pool.used_bytes
    writer.append(bucket.batch([(1, "b")]))
    assert 0 < used < pool.used_bytes  # what is being written still counts
    assert writer.levels.files == ()
    io.go.set()
    bucket.commit(writer.prepare())
    assert (bucket.rows(), len(bucket.live)) == ([(1, "b")], 2)


@pytest.mark.parametrize("last", ["append", "prepare", "flush"])
def test_a_flush_that_fails_beside_its_writer_is_reported_by_the_next_call(
    tmp_path: Path, workers: Workers, last: str
) -> None:
    bucket = LiveBucket(str(tmp_path / "bucket-0"), io=(io := Held()))
    writer = bucket.writer(MemoryPool(1), workers=workers, changelog=True)
    io.broken = True
    with pytest.raises(Unavailable, match="No space left"):  # a pool of one byte waits for its flush
        writer.append(bucket.batch([(1, "a")]))
    with pytest.raises(Unavailable, match="lost its rows"):
        {"append": lambda: writer.append(bucket.batch([(2, "b")]))}.get(last, getattr(writer, last))()
    writer.abort()
    assert bucket.on_disk() == set()


def test_abort_waits_for_the_flush_and_deletes_its_files(tmp_path: Path, workers: Workers) -> None:
    bucket = LiveBucket(str(tmp_path / "bucket-0"), io=(io := Held()))
    pool = MemoryPool(1 << 20)
    writer = bucket.writer(pool, workers=workers, changelog=True)
    writer.append(bucket.batch([(1, "a")]))
    io.go.clear()
    writer.flush()
    threading.Thread(target=io.go.set).start()
    writer.abort()
    assert (bucket.on_disk(), pool.used_bytes) == (set(), 0)
