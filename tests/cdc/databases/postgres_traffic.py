"""Traffic on a database of PostgreSQL: who writes tables a and b, and who alters them."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator

import psycopg

TABLES = ("a", "b")
KEYS, WRITERS = 400, 6


@contextlib.contextmanager
def traffic(url: str, seed: int, *, altered: bool, pause_seconds: float) -> Iterator[None]:
    """Six who write, and maybe one who alters tables, while the block runs."""
    stopping = threading.Event()
    pause = pause_seconds + altered * 0.02
    threads = [
        threading.Thread(target=write, args=(url, seed * 9 + i, stopping, pause)) for i in range(WRITERS)
    ]
    threads += [threading.Thread(target=alter, args=(url, seed, stopping))] * altered
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def write(url: str, seed: int, stopping: threading.Event, pause_seconds: float) -> None:
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
