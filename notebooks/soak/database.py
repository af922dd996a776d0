"""A bank in a private database that never rests: transfers, orders that come and go, a beat each time.

The sum over `accounts` is the same after every transaction, so each snapshot of a lake that holds whole
transactions has it, too. `orders` keeps about `KEPT` rows however long it goes on.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from decimal import Decimal
from typing import Any

from notebooks.demo.postgres import Postgres
from notebooks.demo.private_database import PrivateDatabase
from tablestore.core.extras import required

DATABASE, ACCOUNTS, CENTS, KEPT = "bank", 500, 100_000, 5_000
TABLES = ("accounts", "beat", "orders")
_DEFINITIONS = (
    "CREATE TABLE accounts (id INT PRIMARY KEY, cents BIGINT NOT NULL, note VARCHAR(40))",
    "CREATE TABLE beat (id INT PRIMARY KEY, n BIGINT NOT NULL)",
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, account INT, amount DECIMAL(12,2), "
    "note VARCHAR(60), changed {time}(6))",
    f"INSERT INTO accounts VALUES {','.join(f'({n}, {CENTS}, NULL)' for n in range(ACCOUNTS))}",
    "INSERT INTO beat VALUES (1, 0)",
)
_NOW = "CURRENT_TIMESTAMP(6)"
_EVERY = 0.25
_AGAIN_SECONDS = 0.5
_MOST_MARKS = 100_000


class Progress:
    """How much was written, and when; so what a reader sees tells how late it is. Safe to share."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque(maxlen=_MOST_MARKS)
        self.count = 0

    def note(self, count: int) -> None:
        """So much is written now."""
        if count > self.count:
            self._marks.append((time.monotonic(), count))
            self.count = count

    def lag(self, seen: int) -> float:
        """Seconds since the first of what is not `seen` was written; 0 where all is."""
        marks = self._marks
        while marks and marks[0][1] <= seen:
            marks.popleft()
        return time.monotonic() - marks[0][0] if marks else 0.0


class Bank:
    """Writes `rate` rows a second in transactions, in a thread from `open` to `shut`. Where the server is
    away it comes back to it, and goes on from what the server has."""

    def __init__(self, server: PrivateDatabase, seed: int, *, rate: float) -> None:
        self._server, self._draw = server, random.Random(seed)
        self._rows = max(round(rate * _EVERY), 4)
        self.progress, self.reconnects = Progress(), 0
        self._shut, self._error = threading.Event(), list[BaseException]()
        self._thread = threading.Thread(target=self._work, name="bank", daemon=True)
        in_postgres = isinstance(server, Postgres)
        self._driver = required("psycopg" if in_postgres else "pymysql", by="a soak")
        server.run(f"CREATE DATABASE {DATABASE}")
        with server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
            for definition in _DEFINITIONS:
                cursor.execute(definition.format(time="TIMESTAMP" if in_postgres else "DATETIME"))

    def open(self) -> None:
        """Begin to write."""
        self._thread.start()

    def shut(self) -> None:
        """Write no more. Raises what ended it before."""
        self._shut.set()
        if self._thread.is_alive():
            self._thread.join()
        for error in self._error:
            raise error

    def _work(self) -> None:
        away = (self._driver.OperationalError, self._driver.InterfaceError, OSError)
        try:
            while not self._shut.is_set():
                try:
                    with self._server.connect(database=DATABASE) as connection:
                        self._follow(connection)
                except away:
                    self.reconnects += 1  # killed or frozen: what it has is asked when it is back
                    self._shut.wait(_AGAIN_SECONDS)
        except BaseException as e:  # `shut` raises it
            self._error.append(e)

    def _follow(self, connection: Any) -> None:
        """One transaction after another, until shut or the server is gone."""
        with connection.cursor() as cursor:
            beat = _number(cursor, "SELECT n FROM beat")
            order = _number(cursor, "SELECT COALESCE(MAX(id), -1) FROM orders") + 1
            self.progress.note(beat)
            while not self._shut.wait(_EVERY):
                cursor.execute("BEGIN")
                beat, order = beat + 1, self._transaction(cursor, order, beat + 1)
                cursor.execute("COMMIT")
                self.progress.note(beat)

    def _transaction(self, cursor: Any, first: int, beat: int) -> int:
        """Half of the rows are new orders, as many go; a quarter changes, a quarter are transfers."""
        draw, new = self._draw, max(self._rows // 2, 1)
        rows = [(n, draw.randrange(ACCOUNTS), _amount(draw), _note(draw)) for n in range(first, first + new)]
        cursor.executemany(f"INSERT INTO orders VALUES (%s, %s, %s, %s, {_NOW})", rows)
        cursor.execute("DELETE FROM orders WHERE id < %s", (first + new - KEPT,))
        changed = [
            (_amount(draw), _note(draw), draw.randrange(max(first + new - KEPT, 0), first + new))
            for _ in range(max(self._rows // 4, 1))
        ]
        for row in changed:
            cursor.execute(f"UPDATE orders SET amount = %s, note = %s, changed = {_NOW} WHERE id = %s", row)
        for _ in range(max(self._rows // 8, 1)):
            giver, taker = draw.sample(range(ACCOUNTS), 2)
            cents = draw.randrange(1, 1_000)
            for account, change in ((giver, -cents), (taker, cents)):
                cursor.execute("UPDATE accounts SET cents = cents + %s WHERE id = %s", (change, account))
        cursor.execute("UPDATE beat SET n = %s", (beat,))
        return first + new


def _number(cursor: Any, query: str) -> int:
    cursor.execute(query)
    return int(cursor.fetchone()[0])


def _amount(draw: random.Random) -> Decimal:
    return Decimal(draw.randrange(10_000_000)) / 100


def _note(draw: random.Random) -> str | None:
    return None if draw.random() < 0.05 else f"note ü {draw.getrandbits(64):x}"
