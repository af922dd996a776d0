"""SIGKILL for a capture of PostgreSQL at any moment, beside writers: afterwards the lake holds what the
server holds, and each batch once."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tablestore as ts
from tests.cdc.mysql.test_capture_kill import USER, await_batches, require_each_batch_once, running
from tests.servers.test_postgres_capture import Database, database

__all__ = ["database"]
pytestmark = pytest.mark.large
KILLS, WRITERS, KEYS = 3, 3, 400


def started(path: Path, url: str, **how: Any) -> Any:
    how = {"into": "ods", "name": USER, "interval": "10ms", "chunk_rows": 40, "chunks": 2, **how}
    lake, options = ts.connect(str(path / "lake")), {"bucket": 1}
    checkpoint = str(path / "checkpoint")
    return lake.ingest(url, engine="local", processes=2, checkpoint=checkpoint, options=options, **how)


def run(path: Path, url: str) -> None:
    """Capture until this process is killed."""
    started(path, url).wait()


def write(url: str, seed: int, stopping: threading.Event) -> None:
    """Transactions of a few statements: rows that come, change, move to another key and go; some roll
    back."""
    r = random.Random(seed)
    with psycopg.connect(url) as connection:
        connection.execute("SET synchronous_commit = " + r.choice(["on", "off"]))
        connection.commit()
        while not stopping.is_set():
            try:
                for _ in range(r.randint(1, 4)):
                    connection.execute(statement(r))
                connection.rollback() if r.random() < 0.1 else connection.commit()
            except (psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
                connection.rollback()
            time.sleep(0.002)


def statement(r: random.Random) -> str:
    table, key, other = r.choice(["a", "b"]), r.randrange(KEYS), r.randrange(KEYS)
    return r.choice(
        [
            f"INSERT INTO {table} VALUES ({key}, {other}, repeat('{other}-', 1200)) "
            f"ON CONFLICT (id) DO UPDATE SET n = {table}.n + 1",
            f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN {key} AND {key + 5}",
            f"UPDATE {table} SET long = repeat('{other}+', 1200), n = {other} WHERE id = {key}",
            f"UPDATE {table} SET id = {other} WHERE id = {key}",
            f"DELETE FROM {table} WHERE id = {key}",
        ]
    )


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
                f"INSERT INTO {table} SELECT i, 0, repeat(i || '*', 1200) FROM generate_series(1, {KEYS}, 2) i",
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
