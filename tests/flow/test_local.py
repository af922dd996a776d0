"""Streams without Spark: batches between offsets, the end of what ends, a checkpoint that goes on, and
workers that carry out tasks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.cdc.change_feed import ChangeFeed
from tablestore.cdc.table_stream import TableStream
from tablestore.core.errors import Unavailable
from tablestore.flow.batch import Batch, Streams
from tablestore.flow.checkpoint import KEPT, Checkpoint
from tablestore.flow.local import TaskWorkers
from tablestore.flow.runner import LocalRunner, Stream
from tablestore.flow.source import Offset, RowsStream
from tests.flow.summed import Summed

SECONDS = 240


def doubled(n: int) -> int:
    return 2 * n


@dataclass
class NumberedPlan:
    """A plan of numbered batches of one item each; `last` is where it ends, None: it goes on."""

    last: int | None = None

    def initial(self) -> Offset:
        return {"at": 0}

    def next(self, start: Offset) -> Offset:
        return {"at": start["at"] + 1}

    def ended(self, offset: Offset) -> bool:
        return offset["at"] == self.last

    def works(self, start: Offset, end: Offset) -> Sequence[Any]:
        return range(start["at"], end["at"])

    def done(self, end: Offset) -> None:
        """Nothing to let go of."""


def start(plan: Any, on_batch: Any, path: Path, **more: Any) -> Stream:
    return LocalRunner(2).start(plan, on_batch, checkpoint=str(path), interval_seconds=0, **more)


def test_sources_that_end_end_the_stream_and_are_read_once(tmp_path: Path):
    streams = Streams((RowsStream(pa.table({"n": [1, 2]})), RowsStream(pa.table({"n": [5]}))))
    collected: list[list[int]] = []

    def on_batch(batch: Batch) -> None:
        collected.append(batch.over(Summed("n"), batch.works()))
        collected.append(batch.over(doubled, [3, 4], count=doubled))
        collected.append(list(batch.counted().values()))
        assert [w.source for w in batch.works()] == [0, 1]

    for _ in range(2):  # the second time all has been read
        job = start(streams, on_batch, tmp_path)
        assert job.wait(SECONDS)
        assert (job.failure(), job.running) == (None, False)
    assert collected == [[3, 5], [6, 8], [12, 16]]


def test_a_table_is_followed_until_somebody_stops(tmp_path: Path):
    table = ts.connect(tmp_path / "lake").create_table("shop.t", schema={"n": ts.INT})
    table.write(pa.table({"n": [1]}))
    sums: list[int] = []
    enough = threading.Event()

    def on_batch(batch: Batch) -> None:
        sums.extend(batch.over(Summed("n"), batch.works()))
        if len(sums) == 1:
            table.write(pa.table({"n": [7]}))
        else:
            enough.set()

    job = start(Streams((TableStream(ChangeFeed(table.location)),)), on_batch, tmp_path / "c")
    assert enough.wait(SECONDS)
    job.stop()
    assert (job.failure(), job.running) == (None, False)
    assert sums == [1, 7]


def test_a_batch_that_fails_comes_again_with_its_number_and_offsets(tmp_path: Path):
    seen: list[tuple[int, Offset, Offset]] = []

    def on_batch(batch: Batch) -> None:
        seen.append((batch.number, batch.start, batch.end))
        if len(seen) == 2:
            raise ts.SchemaMismatch("it does not fit")

    job = start(NumberedPlan(last=3), on_batch, tmp_path)
    assert job.wait(SECONDS)
    assert isinstance(job.failure(), ts.SchemaMismatch)
    assert start(NumberedPlan(last=3), on_batch, tmp_path).wait(SECONDS)
    assert [(n, a["at"], b["at"]) for n, a, b in seen] == [(0, 0, 1), (1, 1, 2), (1, 1, 2), (2, 2, 3)]


def test_a_new_checkpoint_begins_where_it_is_asked_to_and_an_old_one_goes_on(tmp_path: Path):
    seen: list[int] = []
    for last in (8, 9):
        job = start(
            NumberedPlan(last), lambda batch: seen.append(batch.start["at"]), tmp_path, start={"at": 6}
        )
        assert job.wait(SECONDS)
    assert seen == [6, 7, 8]


def test_no_batch_begins_while_it_is_paused(tmp_path: Path):
    seen: list[int] = []
    some, there = threading.Semaphore(0), threading.Event()

    def on_batch(batch: Batch) -> None:
        seen.append(batch.number)
        if batch.number == 1:
            assert there.wait(SECONDS)
            job.pause()
        some.release()

    job = start(NumberedPlan(), on_batch, tmp_path)
    there.set()
    assert some.acquire(timeout=SECONDS)
    assert some.acquire(timeout=SECONDS)
    assert not some.acquire(timeout=1)
    assert seen == [0, 1]
    job.resume()
    assert some.acquire(timeout=SECONDS)
    job.pause()
    job.stop()  # also where it is paused
    assert not job.running
    assert seen == list(range(len(seen)))


def test_two_processes_do_not_share_a_checkpoint(tmp_path: Path):
    def on_batch(batch: Batch) -> None:
        Checkpoint.at(str(tmp_path)).note_planned(batch.number + 1, {"at": 9})

    job = start(NumberedPlan(), on_batch, tmp_path)
    assert job.wait(SECONDS)
    with pytest.raises(ts.InvalidRequest, match=r"batch 1 of .* is another process's"):
        raise job.failure() or AssertionError("it has ended")


def test_a_checkpoint_keeps_the_newest_batches(tmp_path: Path):
    checkpoint = Checkpoint.at(str(tmp_path))
    with pytest.raises(ts.Unavailable, match="is away"):
        checkpoint.note_planned(0, {"at": 1})
    assert not [*tmp_path.iterdir()], "nothing is begun anew where it is not mounted"
    checkpoint.begin()
    for number in range(2 * KEPT + 1):
        checkpoint.note_planned(number, {"at": number + 1})
        assert checkpoint.pending() == number
        checkpoint.note_done(number)
    assert (checkpoint.planned(), checkpoint.pending()) == (2 * KEPT, None)
    for which in ("offsets", "commits"):
        assert {int(path.name) for path in (tmp_path / which).iterdir()} == set(range(KEPT, 2 * KEPT + 1))


def test_an_offset_that_is_cut_off_is_named(tmp_path: Path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1\n{}\n")
    with pytest.raises(ts.Corrupt, match="offsets/0"):
        Checkpoint.at(str(tmp_path)).end(0)


def test_how_long_nothing_comes_is_known_while_it_plans_and_nothing_between_two_batches(tmp_path: Path):
    hangs = threading.Event()

    @dataclass
    class Hanging(NumberedPlan):
        def next(self, start: Offset) -> Offset:
            hangs.wait(SECONDS)
            return start

    job = start(Hanging(), print, tmp_path)
    try:
        while job.quiet_seconds() < 0.2:
            assert not job.wait(0.01)
        hangs.set()
        while job.quiet_seconds() > 0:
            assert not job.wait(0.01)
    finally:
        hangs.set()
        job.stop()
    assert job.quiet_seconds() == 0


ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 300


def process_of(_: int) -> int:
    return os.getpid()


def variable(_: int) -> str | None:
    return os.environ.get("TABLESTORE_OF_A_TEST")


def odd_ones_fail(n: int) -> int:
    if n % 2:
        raise ts.SchemaMismatch(f"row {n} does not fit")
    return n


def killed(n: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return n


class Unpicklable(Exception):
    def __reduce__(self) -> str:
        raise TypeError("not by pickle")


def strange(_: int) -> int:
    raise Unpicklable("words of it")


def announce_and_wait(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    time.sleep(PATIENCE_SECONDS)


@pytest.fixture
def workers():
    opened = TaskWorkers(2)
    yield opened
    opened.close()


def test_results_are_in_order_and_reported_as_they_come(workers: TaskWorkers):
    announced: dict[int, int] = {}
    assert workers.run(doubled, range(9), done=announced.__setitem__) == [2 * n for n in range(9)]
    assert announced == {n: 2 * n for n in range(9)}
    assert workers.run(doubled, []) == []


def test_one_item_is_done_here_and_more_in_as_many_processes_as_there_may_be(workers: TaskWorkers):
    assert workers.run(process_of, [0]) == [os.getpid()]
    there = set(workers.run(process_of, range(20)))
    assert os.getpid() not in there
    assert len(there) <= 2
    assert set(workers.run(process_of, range(20))) & there, "they are used again"
    assert set(TaskWorkers(1).run(process_of, range(3))) == {os.getpid()}


def test_tasks_see_the_environment_of_now(workers: TaskWorkers, monkeypatch: pytest.MonkeyPatch):
    assert set(workers.run(variable, range(4))) == {None}
    monkeypatch.setenv("TABLESTORE_OF_A_TEST", "later")
    assert set(workers.run(variable, range(4))) == {"later"}
    monkeypatch.delenv("TABLESTORE_OF_A_TEST")
    assert set(workers.run(variable, range(4))) == {None}


def test_an_error_is_what_it_was_and_the_workers_go_on(workers: TaskWorkers):
    with pytest.raises(ts.SchemaMismatch, match="row 1 does not fit"):
        workers.run(odd_ones_fail, [0, 1, 2])
    with pytest.raises(RuntimeError, match="words of it"):
        workers.run(strange, [0, 1])
    assert workers.run(doubled, [1, 2]) == [2, 4]


def test_a_killed_process_is_an_error_that_passes_and_another_takes_its_place(workers: TaskWorkers):
    with pytest.raises(Unavailable, match="has ended"):
        workers.run(killed, [0, 1])
    assert workers.run(doubled, [1, 2]) == [2, 4]


def test_processes_end_with_the_one_they_work_for_even_amid_a_task(tmp_path: Path):
    code = (
        "from tablestore.flow.local import TaskWorkers; "
        "from tests.flow.test_local import announce_and_wait; "
        f"TaskWorkers(2).run(announce_and_wait, [{str(tmp_path)!r}] * 2)"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while len(list(tmp_path.iterdir())) < 2:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        at_work = [psutil.Process(int(mark.name)) for mark in tmp_path.iterdir()]
    finally:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(at_work, timeout=PATIENCE_SECONDS)
    assert alive == []
