"""Four writers that change a database, in transactions of several changes, while a `with` block runs."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pymysql

from tests.servers.mariadb import MariaDb

PATIENCE_SECONDS = 120
PAUSE_SECONDS = 0.004
"""Of a writer after a transaction: a server in memory would else take in more than a test can follow."""


class FourWriters:
    """A subclass says what a change is; `written` counts transactions, also those that were rolled back."""

    def __init__(
        self, server: MariaDb, database: str, seed: int, *, pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        self._server, self._database, self._stop = server, database, threading.Event()
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
        with self._server.connect(database=self._database) as connection, connection.cursor() as cursor:
            while not self._stop.wait(self._pause_seconds):
                try:
                    cursor.execute("BEGIN")
                    for _ in range(r.choice([1, 1, 3])):
                        self._change(cursor, r)
                    cursor.execute(r.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
                    self.written += 1
                except pymysql.Error:  # a deadlock, a key that is taken, a table that is altered
                    cursor.execute("ROLLBACK")

    def _change(self, cursor: Any, r: random.Random) -> None:
        raise NotImplementedError
