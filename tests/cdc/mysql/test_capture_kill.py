"""SIGKILL for the process that carries out a capture, and for the server, at any moment, while the database
is written and altered: after each of them the lake holds what the source holds, and each batch once."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.capture.journal import CaptureJournal
from tests.cdc.mysql.local_capture import USER, LocalCapture, run
from tests.cdc.mysql.traffic import COLUMNS, WHOLE, Traffic, differences
from tests.servers.mariadb import MariaDb

pytestmark = pytest.mark.large

KILLS = 2  # a seed
PATIENCE_SECONDS = 300
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.cdc.mysql.local_capture"])


@pytest.mark.parametrize("kinds", [(), COLUMNS + WHOLE], ids=["rows", "ddl"])
@pytest.mark.sample(1, all=1)
def test_after_a_kill_at_any_moment_the_lake_holds_what_the_source_holds(
    mariadb: MariaDb, database: str, tmp_path: Path, seeds: tuple[int, ...], kinds: tuple[str, ...]
) -> None:
    """Two kills in a new capture for each seed, of the process or of the server. Where no table is altered,
    its changelog has each change once. Both kinds are in each run of all in `test_local_kill.py`."""
    for seed in seeds[:: 1 if len(seeds) > 5 else 3]:
        r = random.Random(seed)
        mariadb.run(f"DROP DATABASE IF EXISTS {database}")
        traffic = Traffic(mariadb, database, seed=seed, ddl=kinds, ddl_pause=0.2).make()
        how = {"chunk_rows": r.choice([40, 100]), "chunks": r.choice([1, 2])}
        options = {} if kinds else {"changelog-producer": "lookup"}
        at = tmp_path / str(seed), mariadb.url, database, how, options
        victims = []
        for kill in range(KILLS):
            traffic = Traffic(mariadb, database, seed=seed + 1000 * kill, ddl=kinds, ddl_pause=0.2)
            with traffic, running(*at) as process:
                await_batches(at[0] / "checkpoint", process, r.randint(0, 4))
                time.sleep(r.uniform(0, 0.3))
                victims.append(r.choice(["process", "process", "server"]))
                if victims[-1] == "server":
                    restart(mariadb, r)
                    await_batches(at[0] / "checkpoint", process, 1)
                assert process.is_alive(), "it ended by itself"
            capture = LocalCapture(*at)
            capture.catch_up()
            assert differences(capture.lake, capture.url, database) == [], (seed, traffic.statements)
        tables = [capture.lake.table(name) for name in capture.lake.tables()]
        assert [table.check() for table in tables] == [[]] * len(tables)
        assert sum(require_each_batch_once(table) for table in tables) >= len(tables)
        for table in [] if kinds else tables:
            require_each_change_once(table)
        print(seed, how, victims, f"{capture.batches} batches")


@contextlib.contextmanager
def running(*capture: Any, target: Callable[..., None] = run) -> Iterator[Any]:
    """A process that captures, which is killed at the end."""
    process = PROCESSES.Process(target=target, args=capture)
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


def restart(server: MariaDb, r: random.Random) -> None:
    """Kill it and start it again in a moment."""
    server.kill()
    try:
        time.sleep(r.uniform(0, 0.3))
    finally:
        server.start()


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
