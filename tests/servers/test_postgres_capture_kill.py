"""SIGKILL for a capture of PostgreSQL at any moment, beside writers: afterwards the lake holds what the
server holds, and each batch once."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from tests.cdc.mysql.test_capture_kill import await_batches, require_each_batch_once, running
from tests.servers.postgres_database import Database, alter, creation, database, restore, run, started, write

__all__ = ["database"]
pytestmark = pytest.mark.large
KILLS, WRITERS = 3, 6


@pytest.mark.parametrize("altered", [False, True], ids=["rows", "ddl"])
def test_after_a_kill_at_any_moment_the_lake_holds_what_the_server_holds(
    database: Database, tmp_path: Path, seeds: tuple[int, ...], altered: bool
) -> None:
    """Kills of the process or of the server, beside six who write and one who alters tables."""
    for seed in seeds[: 2 if len(seeds) < 8 else None]:
        r, path = random.Random(seed), tmp_path / str(seed)
        for table in ("a", "b"):
            database.run(f"DROP TABLE IF EXISTS {table}, other", *creation(table))
        stopping = threading.Event()
        threads = [
            threading.Thread(
                target=write, args=(database.url, seed * 9 + i, stopping, 0.002 + altered * 0.02)
            )
            for i in range(WRITERS)
        ]
        threads += [threading.Thread(target=alter, args=(database.url, seed, stopping))] * altered
        for thread in threads:
            thread.start()
        victims = [r.choice(["process", "process", "server"]) for _ in range(KILLS)]
        try:
            for victim in victims:
                with running(path, database.url, target=run) as process:
                    await_batches(path / "checkpoint", process, r.randint(1, 4))
                    time.sleep(r.uniform(0, 0.3))
                    if victim == "server":
                        database.restart(r.uniform(0, 0.3))
                        await_batches(path / "checkpoint", process, 1)
        finally:
            stopping.set()
            for thread in threads:
                thread.join()
        restore(database)
        job = started(path, database.url, follow=False)
        assert job.wait(300)
        for table in ("a", "b"):
            target = job.lake.table(f"ods.{table}")
            cursor = database.connection.execute(f"SELECT * FROM {table} ORDER BY id")
            names = [column.name for column in cursor.description]
            rows = target.scan(columns=names).to_arrow().sort_by("id").to_pylist()
            assert [tuple(row[name] for name in names) for row in rows] == cursor.fetchall(), (seed, victims)
            assert target.check() == []
            require_each_batch_once(target)
