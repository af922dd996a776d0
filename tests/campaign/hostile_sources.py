"""Turns at random that stand against a capture of a MariaDB: DDL, other keys, statements in the log through
views, logs that begin anew, other tables chosen, read again. Whenever it has settled, the lake holds what the
source holds, by value. It is stepped in this process, without Spark."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tablestore.cdc.capture.names import Patterns
from tablestore.cdc.databases.address import PASSWORD_VARIABLE, Address
from tablestore.cdc.mysql.database import MysqlDatabase
from tablestore.cdc.mysql.table_choice import TableChoice
from tablestore.core.errors import NotFound, TablestoreError
from tests.campaign.outcome import Outcome
from tests.cdc.databases.memory_lake import LastRowsLake
from tests.cdc.databases.sources import MariaDbSource
from tests.servers import mariadb
from tests.suite import counterparts

STATEMENT = "SET SESSION binlog_format = STATEMENT, sql_mode = ''"
DATABASE = "captured"
TURNS = 14
"""Of a life."""


def see_definitions(source: MariaDbSource) -> None:
    """Let the reader see what triggers and views do, as `./workbench cdc --plan` asks for."""
    source.run("GRANT TRIGGER, SHOW VIEW ON *.* TO reader@'127.0.0.1'", "CREATE OR REPLACE DATABASE o")


class HostileLife:
    """A source, the lake that captures it, and what a seed does to both."""

    def __init__(self, source: MariaDbSource, seed: int) -> None:
        self.r, self.source, self.done = random.Random(seed), source, list[str]()
        self.how: dict[str, Any] = {"chunk_rows": self.r.choice([10, 50]), "chunks": self.r.choice([1, 3])}
        source.run(f"DROP DATABASE {source.name}", f"CREATE DATABASE {source.name}")
        source.run("CREATE OR REPLACE DATABASE o")
        source.made(40, "ac")
        source.run(f"CREATE VIEW o.w AS SELECT * FROM {source.name}.a")
        self.lake = LastRowsLake(self.opened())

    def opened(self, exclude: str = "", again: str = "") -> MysqlDatabase:
        patterns = Patterns.of("*", exclude or (), database=self.source.name)
        actual = Patterns.of(again, database=self.source.name) if again else Patterns(())
        checkpoint = str(self.source.checkpoint)
        return MysqlDatabase.open(
            self.source.address, TableChoice(patterns), checkpoint=checkpoint, read_again=actual, **self.how
        )

    def turn(self) -> None:
        r = self.r
        for _ in range(r.randrange(4)):
            self.lake.batch(repeat=r.random() < 0.2)
        action = r.choice([self.rows, self.rows, self.text, self.key, self.columns, self.anew, self.choice])
        action()
        self.rows()
        if r.random() < 0.4:
            self.settle()

    def settle(self) -> None:
        self.lake.catch_up()
        self.lake.equals(self.source)

    def run(self, *statements: str) -> None:
        """Statements one by one; one that the server does not like is passed over."""
        with self.source.server.connect(database=self.source.name) as connection, connection.cursor() as c:
            for statement in statements:
                self.done.append(statement)
                try:
                    c.execute(statement)
                except pymysql.Error as e:
                    self.done[-1] += f" -- {e.args[0]}"

    def rows(self) -> None:
        n, m = self.r.randrange(90), self.r.randrange(1_000)
        self.run(
            "SET sql_mode = ''",
            *self.r.sample(
                [
                    f"INSERT IGNORE INTO a (k, v) SELECT seq, {m} FROM seq_{n}_to_{n + 9}",
                    f"UPDATE IGNORE a SET v = v + {m} WHERE k > {n}",
                    f"UPDATE IGNORE a SET k = k + 7 WHERE k BETWEEN {n} AND {n + 5}",
                    f"DELETE FROM a WHERE k BETWEEN {n} AND {n + 3}",
                    f"UPDATE c SET v = {m} ORDER BY k LIMIT 5",
                    "DELETE FROM c ORDER BY k DESC LIMIT 1",
                ],
                3,
            ),
        )

    def text(self) -> None:
        n = self.r.randrange(90)
        self.run(
            STATEMENT,
            self.r.choice(
                [
                    f"UPDATE IGNORE o.w SET v = v + 5 WHERE k < {n}",
                    f"DELETE FROM o.w WHERE k > {n}",
                    f"DELETE FROM a WHERE k = {n}",
                    "SET STATEMENT max_statement_time = 60 FOR UPDATE c SET v = 11",
                ]
            ),
        )

    def key(self) -> None:
        self.run(
            self.r.choice(
                [
                    "ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (k, v)",
                    "ALTER IGNORE TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (k)",
                    "ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (v, k)",
                ]
            )
        )

    def columns(self) -> None:
        name = f"n{len(self.done)}"
        self.run(
            self.r.choice(
                [
                    f"ALTER TABLE a ADD {name} INT DEFAULT 5",
                    f"ALTER TABLE a ADD {name} VARCHAR(9) FIRST",
                    "ALTER TABLE c MODIFY s VARCHAR(90)",
                    "TRUNCATE c",
                    "RENAME TABLE c TO d, a TO c, d TO a",
                ]
            )
        )

    def anew(self) -> None:
        """The log begins anew: nothing goes on, nor is taken for the old one, until all is read again."""
        if self.lake.offset["position"] is None:
            return
        self.run("RESET MASTER")
        self.rows()
        before = dict(self.lake.rows)
        with pytest.raises(NotFound, match="--read-again"):
            self.lake.batch()
        assert self.lake.rows == before
        self.lake.source = self.opened(again="*.*")
        self.settle()

    def choice(self) -> None:
        """A table is left out for a while, and taken in again."""
        if self.lake.offset["position"] is None:
            return
        self.lake.source = self.opened(exclude=self.r.choice("ac"))
        self.lake.batch()
        self.rows()
        if self.r.random() < 0.5:
            self.lake.catch_up()
        self.lake.source = self.opened(again=self.r.choice(["", "", "a"]))


def live(source: MariaDbSource, seed: int) -> Counter[str]:
    """A life of `TURNS` turns; what was done, by its first word. Raises what broke, with the statements."""
    life = HostileLife(source, seed)
    try:
        for _ in range(TURNS):
            life.turn()
        life.settle()
    except Exception as e:
        e.add_note(f"seed {seed}: {life.done}")
        raise
    assert len(life.done) > TURNS
    return Counter(statement.split()[0] for statement in life.done)


def run(seed: int, folder: Path) -> Outcome:
    """One life with a server of its own; without MariaDB on this machine no case."""
    if missing := counterparts.missing("MariaDB"):
        return Outcome(0, {f"turns without MariaDB ({missing})": 1})
    with mariadb.mariadb() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv(PASSWORD_VARIABLE, mariadb.PASSWORD)
        server.run(f"CREATE DATABASE {DATABASE}")
        source = MariaDbSource(server, Address.parse(f"{server.url}/{DATABASE}"), folder)
        see_definitions(source)
        try:
            counts = live(source, seed)
        except (AssertionError, TablestoreError) as e:
            return Outcome(TURNS, {}, ("\n".join((f"{type(e).__name__}: {e}", *e.__notes__)),))
    return Outcome(TURNS, {f"captures: {word}": n for word, n in counts.items()})
