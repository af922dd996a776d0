"""SIGKILL for a process with SQL jobs, and for its workers, with Spark or without, at any moment: resumed by
name, or started again by itself, each job's target is what its query gives over the sources."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pytest

import tablestore as ts
from tablestore.sql import Session
from tests.spark.job_program import LARGE, SUMS, start
from tests.spark.test_kill import await_the_end_of_group, kill, started
from tests.suite import ending

pytestmark = [pytest.mark.spark, pytest.mark.large]
PATIENCE_SECONDS = 300
TASKS, PLANNER = "pyspark.daemon pyspark.worker", "python_streaming_source_runner"  # in their command lines
LOCAL_TASKS = "tablestore.flow.worker"
PAIRS = (("large", LARGE), ("counted", SUMS), ("log", "SELECT n, word FROM words"))


def made(path: Path) -> Session:
    session = ts.sql_session(ts.connect(path))
    for statement in (
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE orders (id INT, customer STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED) "
        "WITH ('bucket' = '2')",
        "CREATE TABLE words (n INT, word STRING)",
        "CREATE TABLE large (id INT, who STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2')",
        "CREATE TABLE counted (customer STRING, n BIGINT, total BIGINT, hi INT) WITH ('bucket' = '2', "
        "'write-mode' = 'change-log')",
        "CREATE TABLE log (n INT, word STRING)",
    ):
        session.sql(statement)
    return session


def change(session: Session, random_: random.Random, number: int) -> None:
    """Some inserts, updates and deletes."""
    rows = ", ".join(
        f"({random_.randint(1, 30)}, '{random_.choice(['ann', 'bob', 'cem'])}', {random_.randint(0, 40)})"
        for _ in range(8)
    )
    session.sql(f"INSERT INTO orders VALUES {rows}")
    session.sql(f"DELETE FROM orders WHERE id = {random_.randint(1, 30)}")
    session.sql(f"INSERT INTO words VALUES ({number}, 'a'), ({number}, 'b')")


def kill_amid_batches(process: subprocess.Popen[str], session: Session, random_: random.Random) -> None:
    """Change the sources while the jobs run, and kill the driver, or all of its group, amid that."""
    wanted = random_.randint(1, 3)
    reached = {wanted: (enough := threading.Event())}
    threading.Thread(target=count_batches, args=(process, reached)).start()
    number = 0
    until = time.monotonic() + PATIENCE_SECONDS
    while not enough.is_set():
        assert time.monotonic() < until
        change(session, random_, number)
        number += 1
        enough.wait(random_.uniform(0.2, 1))
    enough.wait(random_.uniform(0, 1))
    assert process.poll() is None, "it ended by itself"
    kill(process, whole_group=random_.random() < 0.5)
    process.stdin.close()
    await_the_end_of_group(process.pid)


def count_batches(process: subprocess.Popen[str], reached: Mapping[int, threading.Event]) -> None:
    """Set the events of the numbers of batches that the process has told."""
    batches = 0
    for line in process.stdout:
        batches += line == "batch\n"
        for number, event in reached.items():
            if batches >= number:
                event.set()


def kill_a_worker(random_: random.Random, kinds: Sequence[str]) -> None:
    """Kill a process that works for this one, once there is one of these kinds."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not (actual := [process for kind in kinds for process in workers(kind)]):
        assert time.monotonic() < until, f"there are no workers: {commands()}"
        time.sleep(0.05)
    with contextlib.suppress(psutil.NoSuchProcess):
        random_.choice(actual).send_signal(signal.SIGKILL)


def restarts(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What jobs said when they were about to start again."""
    return [r.getMessage() for r in caplog.records if r.name == "tablestore.flow.job"]


def commands() -> list[str]:
    """What runs below this process, for an error."""
    collected = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            collected.append(" ".join(process.cmdline())[-120:])
    return collected


def workers(kind: str) -> list[psutil.Process]:
    """Those that Spark has forked for tasks, those that plan batches, or those without Spark."""
    collected = {process.pid: process for process in ending.below(psutil.Process().pid, kind)}
    if kind != TASKS:
        return list(collected.values())
    return [
        process for process in collected.values() if _parent(process) in collected
    ]  # which is their daemon


def _parent(process: psutil.Process) -> int | None:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.ppid()
    return None


def await_same(session: Session) -> None:
    """Until each target is what its query gives."""
    until = time.monotonic() + PATIENCE_SECONDS
    waiting = list(PAIRS)
    while waiting:
        assert time.monotonic() < until, session.sql("SHOW JOBS").text(width=None)
        assert not session.jobs.failures()
        waiting = [
            (table, query)
            for table, query in waiting
            if content(session, f"SELECT * FROM {table}") != content(session, query)
        ]
        time.sleep(0.5)  # to look takes the cores from what is waited for


def content(session: Session, query: str) -> list[str]:
    return sorted(map(str, session.sql(query).to_arrow().to_pylist()))


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_jobs_killed_at_any_moment_lose_and_double_nothing(
    engine: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    seeds: tuple[int, ...],
    caplog: pytest.LogCaptureFixture,
):
    path = tmp_path / "lake"
    session = made(path)
    if engine == "spark":
        session.spark = request.getfixturevalue("spark")
    for seed in seeds[: max(1, len(seeds) // 5)]:  # a round takes a minute
        random_ = random.Random(seed)
        change(session, random_, 0)
        kill_amid_batches(started("job_program.py", path, engine), session, random_)
        start(session)  # goes on in this process, also when a worker is killed
        caplog.clear()
        while not restarts(caplog):
            change(session, random_, 1)
            kill_a_worker(random_, (TASKS, PLANNER) if engine == "spark" else (LOCAL_TASKS,))
            time.sleep(random_.uniform(0.2, 0.5))
        await_same(session)
        session.jobs.stop_all()
    lake = ts.connect(path)
    for table in ("large", "counted", "log"):
        assert lake.table(f"shop.{table}").check() == []
        commits = lake.table(f"shop.{table}").inspect.commits().to_pylist()
        mine = [c["commit_identifier"] for c in commits if c["commit_user"] in ("large", "sums/0", "sums/1")]
        assert mine == sorted(set(mine))
