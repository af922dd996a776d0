"""SIGKILL for the driver of a capture, for its Python workers and for the server, at any moment, while the
database is written and altered: after each of them the lake holds what the source holds, each batch once."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.cdc.mysql.traffic import CRASH_SAFE, Traffic, differences
from tests.servers.mariadb import PASSWORD, MariaDb
from tests.spark.capture_program import DATABASE, USER, start
from tests.spark.test_job_kill import PLANNER, TASKS, count_batches, kill_a_worker
from tests.spark.test_kill import await_the_end_of_group, kill, started

pytestmark = [pytest.mark.spark, pytest.mark.large]
PATIENCE_SECONDS = 300
DRIVER, SERVER = "driver", "server"
OTHERS = (PLANNER, SERVER, TASKS, SERVER)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, mariadb: MariaDb, tmp_path: Path) -> Any:
    """The server of the run, which is there again after each kill."""
    monkeypatch.setenv("TABLESTORE_SOURCE_PASSWORD", PASSWORD)
    (tmp_path / "password").write_text(PASSWORD)
    mariadb.run(f"DROP DATABASE IF EXISTS {DATABASE}")
    yield mariadb
    mariadb.run(f"DROP DATABASE {DATABASE}")


def kill_amid_batches(process: subprocess.Popen[str], traffic: Traffic, random_: random.Random) -> None:
    """Let there be traffic once a driver has carried out its first batch, and kill it, or all of its group,
    some batches later."""
    wanted = random_.randint(2, 6)
    reached = {number: threading.Event() for number in (1, wanted)}
    threading.Thread(target=count_batches, args=(process, reached)).start()
    try:
        assert reached[1].wait(PATIENCE_SECONDS)
        with traffic:
            assert reached[wanted].wait(PATIENCE_SECONDS)
            time.sleep(random_.uniform(0, 1))
            assert process.poll() is None, "it ended by itself"
            kill(process, whole_group=random_.random() < 0.5)
    finally:
        kill(process, whole_group=True)
        process.stdin.close()
    await_the_end_of_group(process.pid)


def restarted(server: MariaDb, random_: random.Random) -> None:
    """The server is killed, and away for a moment."""
    server.kill()
    try:
        time.sleep(random_.uniform(0, 0.5))
    finally:
        server.start()


def some_batches(job: Any, wanted: int) -> None:
    """Wait until the capture has come on."""
    before, until = batches(job), time.monotonic() + PATIENCE_SECONDS
    while batches(job) < before + wanted:
        assert job.running, repr(job.error)
        assert time.monotonic() < until, repr(job)
        time.sleep(0.02)


def batches(job: Any) -> int:
    return max((report.number for report in job.reports(1)), default=-1)


def await_same(job: Any, server: MariaDb, about: Any) -> None:
    """Until the lake holds what the source holds, which is at rest."""
    until = time.monotonic() + PATIENCE_SECONDS
    while actual := differences(job.lake, server.url, DATABASE):
        assert job.running, repr(job.error)
        assert time.monotonic() < until, (about, actual)
        time.sleep(0.1)


def test_a_capture_killed_at_any_moment_holds_what_the_source_holds(
    spark: Any, server: MariaDb, tmp_path: Path, seeds: tuple[int, ...]
):
    """As many kills as `--rounds`: of each five one of the driver, of the process that plans batches and of
    one that carries out tasks, and two of the server; after each of them lake = source."""
    path, password = tmp_path / "lake", str(tmp_path / "password")
    lake = ts.connect(path)
    Traffic(server, DATABASE, seed=seeds[0]).make()
    job = None
    for number, seed in enumerate(seeds):
        random_ = random.Random(seed)
        victim = OTHERS[(number % 5 - 1 + seeds[0]) % 4] if number % 5 else DRIVER
        how: dict[str, Any] = {"ddl": CRASH_SAFE, "ddl_pause": 1, "most_ddl": 4, "pause": 0.15}
        traffic = Traffic(server, DATABASE, seed=seed, **how)
        if victim == DRIVER:
            if job is not None:
                job.stop()
            server.run(f"CREATE TABLE {DATABASE}.new{number} (id INT PRIMARY KEY)")  # a batch for it
            process = started("capture_program.py", path, server.url, tmp_path / "password")
            kill_amid_batches(process, traffic, random_)
            job = start(lake, server.url, password, spark=spark)
        else:
            with traffic:
                some_batches(job, random_.randint(0, 2))
                time.sleep(random_.uniform(0, 0.5))
                restarted(server, random_) if victim == SERVER else kill_a_worker(random_, [victim])
                some_batches(job, 1)
        await_same(job, server, (seed, victim, traffic.statements))
        print(seed, victim, f"{batches(job) + 1} batches, {len(traffic.statements)} statements")
    job.stop()
    assert job.error is None
    for table in map(lake.table, lake.tables()):
        assert table.check() == []
        commits = table.inspect.commits().to_pylist()
        appended = [c for c in commits if c["commit_kind"] == "APPEND" and c["commit_user"] == USER]
        mine = [c["commit_identifier"] for c in appended]
        assert mine == sorted(set(mine))
