"""A server that crashes while it writes a transaction to its binlog: no row of it is taken over."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.binlog import RowImages, read_log
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.events import LogPosition
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.core.errors import Corrupt
from tests.servers.mariadb import MariaDb, mariadb

_LAST_EVENT = 31  # bytes of the event that ends a transaction


class Shop:
    """A table of a server that crashes, and a lake that follows it."""

    def __init__(self, server: MariaDb, folder: Path) -> None:
        self.server, self._folder = server, folder
        self.lake = ts.connect(folder / "lake")
        self.rows = set[int]()
        server.run("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, n INT)")
        self.insert(0)

    @property
    def end(self) -> LogPosition:
        with Connection.open(self.address) as connection:
            return dialect_of(connection).position(connection)

    @property
    def address(self) -> Address:
        return Address.parse(f"{self.server.url}/shop", password_file=str(self.server.password_file))

    def inserted_since(self, start: LogPosition) -> list[int]:
        """Keys of new rows in the log by itself, without a scan of it before."""
        with Connection.open(self.address) as connection:
            table = SourceTable.read(connection, "shop", "t")
        changes = read_log(self.address, [table], start=start, until=self.end)
        return [key for c in changes if isinstance(c, RowImages) for key in c.batch["id"].to_pylist()]

    def insert(self, key: int) -> None:
        """A transaction that stays."""
        self.server.run(f"INSERT INTO shop.t VALUES ({key}, {key})")
        self.rows.add(key)

    def crash(self, cut: Callable[[int], int], *, rows: int = 2) -> None:
        """The server crashes while it writes a transaction of so many rows to its log: the last `cut` bytes
        of its size are not there yet."""
        (log,) = (file for file in self.server.folder.rglob(self.end.file) if file.is_file())
        before = log.stat().st_size
        with self.server.connect(database="shop") as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("UPDATE t SET n = n - 1")
            cursor.execute(f"REPLACE INTO t SELECT seq, -1 FROM seq_1000000_to_{999_999 + rows}")
            cursor.execute("COMMIT")
        self.server.kill()
        size = log.stat().st_size
        os.truncate(log, size - cut(size - before))
        self.server.start()

    def follow(self) -> None:
        """All up to now is captured; the lake has the rows that stay, and no other."""
        job = self.lake.ingest(
            f"{self.server.url}/shop",
            into="ods",
            checkpoint=self._folder / "checkpoint",
            engine="local",
            processes=1,
            follow=False,
            password_file=str(self.server.password_file),
        )
        job.wait()
        rows = self.lake.table("ods.t").scan().to_arrow().sort_by("id")
        assert rows.to_pydict() == {"id": sorted(self.rows), "n": sorted(self.rows)}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with mariadb() as server:
        shop = Shop(server, tmp_path)
        shop.follow()
        yield shop


def test_a_transaction_without_its_end_is_not_taken_over(shop: Shop, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        draw = random.Random(seed)
        start = shop.end
        shop.crash(lambda _: _LAST_EVENT)
        shop.insert(10 * seed + 1)
        shop.follow()
        shop.insert(10 * seed + 2)
        shop.crash(partial(draw.randrange, 1))  # within an event, nearly always
        shop.follow()
        shop.insert(10 * seed + 3)
        shop.follow()
        keys = [10 * seed + n for n in (1, 2, 3)]
        assert shop.inserted_since(start) == keys


@pytest.mark.large
def test_a_large_transaction_without_its_end(shop: Shop) -> None:
    shop.insert(1)
    start = shop.end
    shop.crash(lambda size: size // 4, rows=900_000)
    shop.insert(2)
    with pytest.raises(Corrupt, match="a large transaction before this has no end"):
        shop.inserted_since(start)
    shop.follow()
