"""Databases of PostgreSQL, captures of them in processes that may be killed, and those who write."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tablestore as ts

USER = "job"
KEYS = 400


class Database:
    """A database of its own, with a publication of all its tables."""

    def __init__(self, server: str, name: str) -> None:
        self.server, self.name = server, name
        self.url = server.rpartition("/")[0] + f"/{name}"
        self.connection: Any = psycopg.connect(self.url, autocommit=True)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return sorted(self.connection.execute(statement).fetchall(), key=repr)

    def slots(self) -> list[str]:
        found = self.rows(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{self.name}'")
        return [name for (name,) in found]


@pytest.fixture
def database(postgres: str, request: pytest.FixtureRequest) -> Iterator[Database]:
    name = f"capture_{random.SystemRandom().randrange(1 << 40):x}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        found = Database(postgres, name)
        found.run("SET synchronous_commit = on", "CREATE PUBLICATION tablestore FOR ALL TABLES")
        yield found
        for slot in found.slots():
            admin.execute(f"SELECT pg_drop_replication_slot('{slot}')")
        found.connection.close()
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


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
