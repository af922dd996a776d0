"""Four writers that change a database, in transactions of several changes, while a `with` block runs."""

from __future__ import annotations

import random
import threading
from typing import Any

import pymysql

from tests.servers.mariadb import MariaDb


class FourWriters:
    """A subclass says what a change is; `written` counts transactions, also those that were rolled back."""

    def __init__(self, server: MariaDb, database: str, seed: int) -> None:
        self._server, self._database, self._stop = server, database, threading.Event()
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

    def _write(self, seed: int) -> None:
        r = random.Random(seed)
        with self._server.connect(database=self._database) as connection, connection.cursor() as cursor:
            while not self._stop.is_set():
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
