"""Databases of PostgreSQL, captures of them in processes that may be killed, and those who write."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tablestore as ts
from tests.servers.postgres import Postgres

USER = "job"
KEYS = 400


class Database:
    """A database of its own, with a publication of all its tables."""

    def __init__(self, server: Postgres, name: str) -> None:
        self.server, self.name = server, name
        self.url = server.owner_url.rpartition("/")[0] + f"/{name}"
        self.connect()

    def connect(self) -> None:
        self.connection: Any = psycopg.connect(self.url, autocommit=True)
        self.connection.execute("SET synchronous_commit = on")

    def restart(self, pause_seconds: float) -> None:
        """Kill the server, and start it again in a moment."""
        self.server.kill()
        try:
            time.sleep(pause_seconds)
        finally:
            self.server.start()
        self.connect()

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return sorted(self.connection.execute(statement).fetchall(), key=repr)

    def slots(self) -> list[str]:
        found = self.rows(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{self.name}'")
        return [name for (name,) in found]


@pytest.fixture
def database(postgres_server: Postgres) -> Iterator[Database]:
    name = f"capture_{random.SystemRandom().randrange(1 << 40):x}"
    with psycopg.connect(postgres_server.owner_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    found = Database(postgres_server, name)
    try:
        found.run("CREATE PUBLICATION tablestore FOR ALL TABLES")
        yield found
    finally:
        with psycopg.connect(postgres_server.owner_url, autocommit=True) as admin:
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


def write(url: str, seed: int, stopping: threading.Event, pause_seconds: float = 0.002) -> None:
    """Transactions of a few statements: rows that come, change, move to another key and go; some roll
    back. It goes on after the server was away."""
    r = random.Random(seed)
    while not stopping.is_set():
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url) as connection:
            connection.execute("SET synchronous_commit = " + r.choice(["on", "off"]))
            connection.commit()
            while not stopping.is_set():
                try:
                    for _ in range(r.randint(1, 4)):
                        connection.execute(statement(r))
                    connection.rollback() if r.random() < 0.1 else connection.commit()
                except (psycopg.IntegrityError, psycopg.errors.DeadlockDetected, psycopg.ProgrammingError):
                    connection.rollback()
                time.sleep(pause_seconds)


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
            f"UPDATE {table} SET e{r.randrange(3)} = {other} WHERE id = {key}",
        ]
    )


def alter(url: str, seed: int, stopping: threading.Event) -> None:
    """Statements that alter tables a and b beside those who write, with rows or without; some roll back."""
    r = random.Random(seed)
    while not stopping.is_set():
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(url) as connection:
            connection.execute("SET lock_timeout = '300ms'")
            connection.commit()
            while not stopping.wait(r.uniform(0, 0.2)):
                try:
                    for ddl in alteration(r):
                        connection.execute(ddl)
                        if r.random() < 0.5:
                            connection.execute(statement(r))
                        if r.random() < 0.5:
                            connection.commit()
                    connection.rollback() if r.random() < 0.1 else connection.commit()
                except psycopg.errors.Error as e:
                    if connection.closed:
                        raise psycopg.OperationalError from e
                    connection.rollback()


def alteration(r: random.Random) -> list[str]:
    """One that stays, or some that end where they began."""
    table, extra = r.choice(["a", "b"]), f"e{r.randrange(3)}"
    alter = f"ALTER TABLE {table} "
    return r.choice(
        [
            [f"{alter} ADD {extra} bigint"],
            [f"{alter} ADD {extra} bigint DEFAULT 7"],
            [f"{alter} DROP {extra}"],
            [f"{alter} ADD {extra} bigint", f"{alter} DROP {extra}"],
            [f"{alter} RENAME n TO m", f"{alter} RENAME m TO n"],
            [f"{alter} RENAME TO other", f"ALTER TABLE other RENAME TO {table}"],
            [f"{alter} REPLICA IDENTITY {r.choice(['FULL', 'DEFAULT'])}"],
            [f"TRUNCATE {table}"],
            [f"DROP TABLE {table}", *creation(table)],
        ]
    )


def creation(table: str) -> list[str]:
    return [
        f"CREATE TABLE {table} (id int PRIMARY KEY, n int, long text)",
        f"ALTER TABLE {table} ALTER long SET STORAGE EXTERNAL",
        f"INSERT INTO {table} SELECT i, 0, repeat(i || '*', 1200) FROM generate_series(1, {KEYS}, 2) i",
    ]


def restore(database: Database) -> None:
    """Have both tables, whatever was at work when it ended."""
    for table in ("a", "b"):
        if database.rows(f"SELECT to_regclass('{table}') IS NULL") == [(True,)]:
            renamed = database.rows("SELECT to_regclass('other') IS NOT NULL") == [(True,)]
            database.run(*([f"ALTER TABLE other RENAME TO {table}"] if renamed else creation(table)))
