"""SIGKILL for the process of a capture without Spark, for one that carries out its tasks, and for the
server, at any moment: after each of them the lake holds what the source holds, and each batch once."""

from __future__ import annotations

import contextlib
import os
import random
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import tablestore as ts
from tablestore.cdc.databases.address import PASSWORD_VARIABLE
from tests.cdc.mysql.test_capture_kill import (
    PATIENCE_SECONDS,
    USER,
    await_batches,
    newest,
    require_each_batch_once,
    require_each_change_once,
    restart,
    running,
)
from tests.cdc.mysql.traffic import COLUMNS, WHOLE, Traffic, differences
from tests.servers.mariadb import PASSWORD, MariaDb

pytestmark = pytest.mark.large

KILLS = 3  # a seed
DRIVER, WORKER, SERVER = "driver", "worker", "server"
WORKERS = "tablestore.flow.worker"  # in their command lines


def started(path: Path, url: str, database: str, **more: Any) -> Any:
    """The capture, started or going on."""
    os.environ[PASSWORD_VARIABLE] = PASSWORD  # what forks this process may be older than it
    how: dict[str, Any] = {"into": "ods", "name": USER, "interval": "10ms", "chunk_rows": 40, "chunks": 2}
    lake, checkpoint = ts.connect(str(path / "lake")), str(path / "checkpoint")
    return lake.ingest(f"{url}/{database}", engine="local", processes=2, checkpoint=checkpoint, **how, **more)


def run(path: Path, url: str, database: str, options: dict[str, Any]) -> None:
    """Capture until this process is killed."""
    started(path, url, database, options=options).wait()


@pytest.mark.parametrize("kinds", [(), COLUMNS + WHOLE], ids=["rows", "ddl"])
def test_after_a_kill_at_any_moment_the_lake_holds_what_the_source_holds(
    mariadb: MariaDb, database: str, tmp_path: Path, seeds: tuple[int, ...], kinds: tuple[str, ...]
) -> None:
    """Three kills in a new capture for each seed. Where no table is altered, its changelog has each change
    once."""
    for seed in seeds[:: 1 if len(seeds) > 5 else 3]:
        r = random.Random(seed)
        mariadb.run(f"DROP DATABASE IF EXISTS {database}")
        traffic = Traffic(mariadb, database, seed=seed, ddl=kinds, ddl_pause=0.2).make()
        options = {"bucket": 1} if kinds else {"bucket": 1, "changelog-producer": "lookup"}
        path, victims = tmp_path / str(seed), []
        for kill in range(KILLS):
            traffic = Traffic(mariadb, database, seed=seed + 1000 * kill, ddl=kinds, ddl_pause=0.2)
            with traffic, running(path, mariadb.url, database, options, target=run) as process:
                await_batches(path / "checkpoint", process, r.randint(1, 4))
                time.sleep(r.uniform(0, 0.3))
                victims.append(r.choice([DRIVER, WORKER, SERVER]))
                if victims[-1] == SERVER:
                    restart(mariadb, r)
                if victims[-1] == WORKER:
                    kill_a_worker(process.pid, r)
                if victims[-1] != DRIVER:
                    await_batches(path / "checkpoint", process, 1)
                assert process.is_alive(), "it ended by itself"
            job = started(path, mariadb.url, database, options=options, follow=False)
            assert job.wait(PATIENCE_SECONDS * 3)
            assert differences(job.lake, mariadb.url, database) == [], (seed, traffic.statements)
        tables = [job.lake.table(name) for name in job.lake.tables()]
        assert [table.check() for table in tables] == [[]] * len(tables)
        assert sum(require_each_batch_once(table) for table in tables) >= len(tables)
        for table in [] if kinds else tables:
            require_each_change_once(table)
        print(seed, victims, f"{newest(path / 'checkpoint') + 1} batches")


def kill_a_worker(driver: int, r: random.Random) -> None:
    """Kill a process that carries out tasks, where there is one."""
    with contextlib.suppress(psutil.NoSuchProcess):
        found = [p for p in psutil.Process(driver).children() if WORKERS in " ".join(p.cmdline())]
        if found:
            r.choice(found).kill()
