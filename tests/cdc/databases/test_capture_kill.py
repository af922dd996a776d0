"""SIGKILL at any moment for the process of a capture, for one that carries out its tasks, and for the server,
while the database is written and altered: after each of them the lake holds what the source holds, and each
batch once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import tablestore as ts
from tablestore.cdc.capture.report import CaptureJournal
from tablestore.cdc.databases.address import PASSWORD_VARIABLE
from tests.cdc.databases.sources import Source
from tests.servers.mariadb import PASSWORD

pytestmark = pytest.mark.large

KILLS = 3  # a seed
PATIENCE_SECONDS = 300
DRIVER, WORKER, SERVER = "driver", "worker", "server"
WORKERS = "tablestore.flow.worker"  # in their command lines
USER = "job"
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.cdc.databases.test_capture_kill"])


def started(path: Path, url: str, **more: Any) -> Any:
    """The capture, started or going on."""
    os.environ[PASSWORD_VARIABLE] = PASSWORD  # what forks this process may be older than it
    how: dict[str, Any] = {"into": "ods", "name": USER, "interval": "10ms", "chunk_rows": 40, "chunks": 2}
    lake, checkpoint = ts.connect(str(path / "lake")), str(path / "checkpoint")
    return lake.ingest(url, engine="local", processes=2, checkpoint=checkpoint, **how, **more)


def run(path: Path, url: str, options: dict[str, Any]) -> None:
    """Capture until this process is killed."""
    started(path, url, options=options).wait()


@pytest.mark.parametrize("altered", [False, True], ids=["rows", "ddl"])
@pytest.mark.sample(1, all=2)
def test_after_a_kill_at_any_moment_the_lake_holds_what_the_source_holds(
    source: Source, tmp_path: Path, seeds: tuple[int, ...], altered: bool
) -> None:
    """Three kills in a new capture for each seed. Where no table is altered, its changelog has each change
    once."""
    for seed in seeds[:: 1 if len(seeds) > 5 else 3]:
        r = random.Random(seed)
        source.begin_traffic(seed)
        options = {"bucket": 1} if altered else {"bucket": 1, "changelog-producer": "lookup"}
        path, victims = tmp_path / str(seed), []
        for kill in range(KILLS):
            with (
                source.traffic(seed + 1000 * kill, altered=altered),
                running(path, source.url, options) as process,
            ):
                await_batches(path / "checkpoint", process, r.randint(1, 4))
                time.sleep(r.uniform(0, 0.3))
                victims.append(r.choice([DRIVER, WORKER, SERVER]))
                if victims[-1] == SERVER:
                    source.restart(r.uniform(0, 0.3))
                if victims[-1] == WORKER:
                    kill_a_worker(process.pid, r)
                if victims[-1] != DRIVER:
                    await_batches(path / "checkpoint", process, 1)
                assert process.is_alive(), "it ended by itself"
            job = started(path, source.url, options=options, follow=False)
            assert job.wait(PATIENCE_SECONDS * 3)
            assert source.differences(job.lake) == [], (seed, victims)
        tables = [job.lake.table(name) for name in job.lake.tables()]
        assert [table.check() for table in tables] == [[]] * len(tables)
        assert sum(require_each_batch_once(table) for table in tables) >= len(tables)
        for table in [] if altered else tables:
            require_each_change_once(table)
        print(seed, victims, f"{newest(path / 'checkpoint') + 1} batches")
        source.end_captures()


@contextlib.contextmanager
def running(*capture: Any) -> Iterator[Any]:
    """A process that captures, which is killed at the end."""
    process = PROCESSES.Process(target=run, args=capture)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def await_batches(checkpoint: Path, process: Any, wanted: int) -> None:
    """Until so many more of them are done."""
    until, begin = time.monotonic() + PATIENCE_SECONDS, newest(checkpoint)
    while newest(checkpoint) < begin + wanted:
        assert process.is_alive(), "it ended by itself"
        assert time.monotonic() < until, f"no {wanted} batches"
        time.sleep(0.01)


def newest(checkpoint: Path) -> int:
    return max(CaptureJournal(str(checkpoint)).numbers(), default=-1)


def kill_a_worker(driver: int, r: random.Random) -> None:
    """Kill a process that carries out tasks, where there is one."""
    with contextlib.suppress(psutil.NoSuchProcess):
        actual = [p for p in psutil.Process(driver).children() if WORKERS in " ".join(p.cmdline())]
        if actual:
            r.choice(actual).kill()


def require_each_batch_once(table: ts.Table) -> int:
    """No batch has put rows into it twice; how many have."""
    commits = table.inspect.commits().to_pylist()
    appended = [c for c in commits if c["commit_kind"] == "APPEND" and c["commit_user"] == USER]
    mine = [c["commit_identifier"] for c in appended]
    assert mine == sorted(set(mine))
    return len(mine)


def require_each_change_once(table: ts.Table) -> None:
    """A change takes away the row that is there, and adds one where there is none; they end at the table."""
    rows: dict[int, Any] = {}
    for change in table.changes(since=0).to_pylist():
        kind = change.pop("rowkind")
        if kind in ("-U", "-D"):
            assert rows.pop(change["id"]) == change
        else:
            assert change["id"] not in rows
            rows[change["id"]] = change
    assert rows == {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
