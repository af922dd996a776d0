"""Four writers that change a database, in transactions of several changes, while a `with` block runs."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.cdc.databases.sources import Source

PATIENCE_SECONDS = 120
PAUSE_SECONDS = 0.004
"""Of a writer after a transaction: a server in memory would else take in more than a test can follow."""


class FourWriters:
    """A subclass says what a change is; `written` counts transactions, also those that were rolled back."""

    def __init__(self, source: Source, seed: int, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._source, self._stop = source, threading.Event()
        self._pause_seconds = pause_seconds
        self.written = 0
        self._threads = [threading.Thread(target=self._write, args=(seed * 10 + i,)) for i in range(4)]

    def __enter__(self) -> Any:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def await_more(self, transactions: int = 4) -> None:
        """Until that many more are written: what comes next is amid them."""
        until, wanted = time.monotonic() + PATIENCE_SECONDS, self.written + transactions
        while self.written < wanted:
            assert time.monotonic() < until, "nobody writes"
            time.sleep(0.001)

    def _write(self, seed: int) -> None:
        r = random.Random(seed)
        with self._source.connect() as connection, connection.cursor() as cursor:
            while not self._stop.wait(self._pause_seconds):
                try:
                    cursor.execute("BEGIN")
                    for _ in range(r.choice([1, 1, 3])):
                        self._change(cursor, r)
                    cursor.execute(r.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
                    self.written += 1
                except self._source.errors:  # a deadlock, a key that is taken, a table that is altered
                    cursor.execute("ROLLBACK")

    def _change(self, cursor: Any, r: random.Random) -> None:
        raise NotImplementedError


class TableWriters(FourWriters):
    """Over tables with k, v and s: inserts, updates, deletes and moves of keys in transactions."""

    def __init__(
        self, source: Source, seed: int, keys: int, tables: Sequence[str] = "abc", **pause: float
    ) -> None:
        self._keys, self._tables = keys, tables
        super().__init__(source, seed, **pause)

    def _change(self, cursor: Any, r: random.Random) -> None:
        table = r.choice(self._tables)
        key, other = (self._source.key(table, r.randrange(self._keys)) for _ in range(2))
        action = r.randrange(4)
        if action == 0:
            self._source.put(cursor, table, (key, r.randrange(1000), "é" * r.randrange(9)))
        elif action == 1:
            cursor.execute(f"UPDATE {table} SET v = v + 1 WHERE k = %s", (key,))
        elif action == 2:
            cursor.execute(f"DELETE FROM {table} WHERE k = %s", (key,))
        else:
            cursor.execute(f"UPDATE {table} SET k = %s WHERE k = %s", (other, key))
