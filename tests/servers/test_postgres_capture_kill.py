"""SIGKILL for a capture of PostgreSQL at any moment, beside writers: afterwards the lake holds what the
server holds, and each batch once."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from tests.cdc.mysql.test_capture_kill import await_batches, require_each_batch_once, running
from tests.servers.postgres_database import KEYS, Database, database, run, started, write

__all__ = ["database"]
pytestmark = pytest.mark.large
KILLS, WRITERS = 3, 3


def test_after_a_kill_at_any_moment_the_lake_holds_what_the_server_holds(
    database: Database, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds[:2]:
        r, path = random.Random(seed), tmp_path / str(seed)
        for table in ("a", "b"):
            database.run(
                f"DROP TABLE IF EXISTS {table}",
                f"CREATE TABLE {table} (id int PRIMARY KEY, n int, long text)",
                f"ALTER TABLE {table} ALTER long SET STORAGE EXTERNAL",
                f"INSERT INTO {table} SELECT i, 0, repeat(i || '*', 1200) "
                f"FROM generate_series(1, {KEYS}, 2) i",
            )
        stopping = threading.Event()
        writers = [
            threading.Thread(target=write, args=(database.url, seed * 9 + i, stopping))
            for i in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        try:
            for _ in range(KILLS):
                with running(path, database.url, target=run) as process:
                    await_batches(path / "checkpoint", process, r.randint(1, 4))
                    time.sleep(r.uniform(0, 0.3))
        finally:
            stopping.set()
            for writer in writers:
                writer.join()
        job = started(path, database.url, follow=False)
        assert job.wait(300)
        for table in ("a", "b"):
            target = job.lake.table(f"ods.{table}")
            rows = target.scan().to_arrow().sort_by("id").to_pylist()
            there = database.connection.execute(f"SELECT id, n, long FROM {table} ORDER BY id").fetchall()
            assert [tuple(row.values()) for row in rows] == there, seed
            assert target.check() == []
            require_each_batch_once(target)
