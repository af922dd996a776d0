"""SIGKILL for the driver of a capture, for its Python workers and for the server, at any moment, while the
database is written and altered: the lake holds what the source holds, each batch once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.cdc.mysql.traffic import COLUMNS, WHOLE, Traffic, differences
from tests.servers import mariadb as servers
from tests.servers.mariadb import PASSWORD, MariaDb
from tests.spark.capture_program import DATABASE, start
from tests.spark.test_job_kill import count_batches, kill_a_worker
from tests.spark.test_kill import ROOT, await_the_end_of_group, kill

pytestmark = pytest.mark.spark
PATIENCE_SECONDS = 300


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A server of its own, since it is killed."""
    monkeypatch.setenv("TABLESTORE_SOURCE_PASSWORD", PASSWORD)
    (tmp_path / "password").write_text(PASSWORD)
    with servers.mariadb() as server:
        yield server


def started(lake: Path, server: MariaDb) -> subprocess.Popen[str]:
    program = str(Path(__file__).with_name("capture_program.py"))
    return subprocess.Popen(
        [sys.executable, program, str(lake), server.url, str(lake.parent / "password")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def kill_amid_batches(process: subprocess.Popen[str], random_: random.Random) -> None:
    """Kill the driver, or all of its group, after some batches."""
    wanted = random_.randint(1, 6)
    threading.Thread(target=count_batches, args=(process, wanted, enough := threading.Event())).start()
    try:
        assert enough.wait(PATIENCE_SECONDS)
        time.sleep(random_.uniform(0, 1))
        assert process.poll() is None, "it ended by itself"
    finally:
        kill(process, whole_group=random_.random() < 0.5)
        process.stdin.close()
    await_the_end_of_group(process.pid)


def restarted(server: MariaDb, random_: random.Random) -> None:
    """The server is killed, and away for a moment."""
    server.kill()
    time.sleep(random_.uniform(0, 1))
    server.start()


def some_batches(job: Any, random_: random.Random) -> None:
    """Wait until the capture has come on."""
    before, until = batches(job), time.monotonic() + PATIENCE_SECONDS
    while batches(job) < before + random_.randint(1, 4):
        assert job.running, repr(job.error)
        assert time.monotonic() < until, repr(job)
        time.sleep(0.05)
    time.sleep(random_.uniform(0, 0.5))


def batches(job: Any) -> int:
    return max((report.number for report in job.reports(1)), default=-1)


def test_a_capture_killed_at_any_moment_holds_what_the_source_holds(
    spark: Any, server: MariaDb, tmp_path: Path, seeds: tuple[int, ...]
):
    path = tmp_path / "lake"
    lake = ts.connect(path)
    Traffic(server, DATABASE, seed=seeds[0]).make()
    for seed in seeds[: max(1, len(seeds) // 5)]:
        random_ = random.Random(seed)
        with Traffic(server, DATABASE, seed=seed, ddl=COLUMNS + WHOLE, ddl_pause=2, pause=0.05) as traffic:
            kill_amid_batches(started(path, server), random_)
            job = start(lake, server.url, str(tmp_path / "password"), spark=spark)
            actions = [lambda r=random_: restarted(server, r), lambda r=random_: kill_a_worker(r)]
            random_.shuffle(actions)
            for action in actions:
                some_batches(job, random_)
                action()
            some_batches(job, random_)
        until = time.monotonic() + PATIENCE_SECONDS
        while found := differences(lake, server.url, DATABASE):
            assert job.running, repr(job.error)
            assert time.monotonic() < until, (seed, found, traffic.statements)
            time.sleep(0.2)
        job.stop()
        assert job.error is None
        print(seed, repr(job), f"{len(traffic.statements)} statements")
    for table in lake.tables():
        assert lake.table(table).check() == []
        commits = lake.table(table).inspect.commits().to_pylist()
        mine = [c["commit_identifier"] for c in commits if c["commit_user"] == "capture"]
        assert mine == sorted(mine)
