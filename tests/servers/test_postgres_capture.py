"""Capture of a real PostgreSQL: what is in the lake is what the server has, by value."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported


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


def captured(database: Database, path: Path, **how: Any) -> Any:
    """The job of a capture that reads all there is, and ends."""
    how = {"into": "ods", "options": {"bucket": 1}, "interval": "10ms", **how}
    checkpoint = str(path / "checkpoint")
    job = ts.connect(str(path / "lake")).ingest(
        database.url, engine="local", checkpoint=checkpoint, follow=False, **how
    )
    assert job.wait(120)
    return job


def rows_of(job: Any, name: str, key: str = "id") -> list[dict[str, Any]]:
    found = job.lake.table(f"ods.{name}").scan().to_arrow().sort_by(key)
    return found.to_pylist()


def test_rows_then_changes_arrive_by_value(database: Database, tmp_path: Path) -> None:
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY, name text, price numeric(12,2), at timestamptz, day date)",
        "INSERT INTO t SELECT i, 'n' || i, i * 1.5, '2024-01-01'::timestamptz + i * interval '1 hour', "
        "'2024-01-01'::date + i FROM generate_series(1, 1000) i",
    )
    job = captured(database, tmp_path, chunk_rows=137)
    same = "SELECT id, name, price, at, day FROM t"
    assert [tuple(row.values()) for row in rows_of(job, "t")] == sorted(database.connection.execute(same).fetchall())
    database.run(
        "UPDATE t SET price = -price, name = NULL WHERE id % 7 = 0",
        "DELETE FROM t WHERE id % 5 = 0",
        "UPDATE t SET id = id + 5000 WHERE id % 11 = 0",
        "INSERT INTO t VALUES (0, E'a\\tb\\\\N', 0.01, '1999-12-31 23:59:59.123456+05', '0001-01-01')",
    )
    job = captured(database, tmp_path, chunk_rows=137)
    assert [tuple(row.values()) for row in rows_of(job, "t")] == sorted(database.connection.execute(same).fetchall())
    assert job.lake.table("ods.t").check() == []
