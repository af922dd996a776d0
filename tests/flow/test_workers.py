"""Tasks in processes of this machine: in order, with their errors, in its environment, ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import tablestore as ts
from tablestore.core.errors import Unavailable
from tablestore.flow.local import TaskWorkers

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 300


def doubled(n: int) -> int:
    return 2 * n


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


def test_results_are_in_order_and_told_as_they_come(workers: TaskWorkers):
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
        "from tests.flow.test_workers import announce_and_wait; "
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
