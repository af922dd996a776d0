"""Statements at random, at random moments: what a source gives equals its tables."""

from __future__ import annotations

import random

import pymysql
import pytest

from tests.cdc.databases.sources import MariaDbSource


class Alterations:
    """Statements at random about the tables of a database, whatever they are by then."""

    def __init__(self, source: MariaDbSource, r: random.Random) -> None:
        self._source, self._r, self._number = source, r, 0

    def one(self) -> str | None:
        """A statement that was carried out; None where the server did not like it."""
        r = self._r
        there = [row[0] for row in self._source.server.run(f"SHOW TABLES IN {self._source.name}")]
        name, other = r.choice(there), r.choice(there)
        columns = self._columns(name)
        column, second = r.choice(columns), r.choice(columns)
        self._number += 1
        n = self._number
        kinds = ["INT", "BIGINT", "VARCHAR(20)", "VARCHAR(90)", "CHAR(4)", "TEXT", "DECIMAL(12,2)", "UUID"]
        kind = r.choice(kinds)
        rest = "" if column == second else f", CHANGE `{second}` `{column}` {r.choice(kinds)}"
        actual = r.choice(
            [
                f"ALTER TABLE {name} ADD c{n} {kind}{r.choice(['', ' FIRST', f' AFTER `{column}`'])}",
                f"ALTER TABLE {name} ADD c{n} INT DEFAULT {n}",
                f"ALTER TABLE {name} DROP `{column}`" if len(columns) > 2 else "SELECT 1",
                f"ALTER TABLE {name} RENAME COLUMN `{column}` TO c{n}",
                f"ALTER TABLE {name} CHANGE `{column}` `{second}` {kind}{rest}",
                f"ALTER TABLE {name} MODIFY `{column}` {kind}",
                f"ALTER TABLE {name} MODIFY k {r.choice(['INT', 'BIGINT'])}",
                f"TRUNCATE {name}",
                f"RENAME TABLE {name} TO t{n}",
                f"RENAME TABLE {name} TO t{n}, {other} TO {name}",
                f"RENAME TABLE {name} TO _x_old, {other} TO {name}, _x_old TO {other}",
                f"CREATE OR REPLACE TABLE {name} (k INT PRIMARY KEY, v INT, s VARCHAR(20))",
                f"CREATE TABLE t{n} LIKE {name}",
                f"CREATE TABLE t{n} (PRIMARY KEY (k)) SELECT * FROM {name}",
                f"DROP TABLE {name}" if len(there) > 2 else "SELECT 1",
            ]
        )
        try:
            self._source.run("SET sql_mode = ''", actual)
        except pymysql.Error:
            return None
        return actual

    def _columns(self, name: str) -> list[str]:
        """All but the key."""
        rows = self._source.server.run(f"DESCRIBE {self._source.name}.{name}")
        return [row[0] for row in rows if row[0] != "k"]

    def write(self) -> None:
        """Some changes of rows of any table."""
        r = self._r
        for row in self._source.server.run(f"SHOW TABLES IN {self._source.name}"):
            name = row[0]
            if r.random() < 0.5:
                continue
            columns = self._columns(name)
            changes = [f"INSERT IGNORE INTO {name} (k) SELECT seq FROM seq_{r.randrange(30)}_to_60"]
            changes += [f"UPDATE IGNORE {name} SET `{r.choice(columns)}` = {r.randrange(99)} WHERE k > 30"]
            changes += [f"DELETE FROM {name} ORDER BY k LIMIT 2", f"UPDATE IGNORE {name} SET k = k + 5"]
            self._source.run("SET sql_mode = ''", *r.sample(changes, r.randrange(1, 4)))


@pytest.mark.large
def test_statements_at_random_moments_are_followed(source: MariaDbSource, seeds: tuple[int, ...]) -> None:
    """Statements and changes while rows are read, in the log, one or several between two batches."""
    for seed in seeds[::3]:
        r = random.Random(seed)
        source.run(f"DROP DATABASE {source.name}", f"CREATE DATABASE {source.name}")
        source.made(60, "ac")
        lake = source.lake(chunk_rows=r.choice([10, 50]), chunks=r.choice([1, 3]))
        alterations = Alterations(source, r)
        done: list[str | None] = []
        for _ in range(8):
            for _ in range(r.randrange(4)):
                lake.batch(repeat=r.random() < 0.2)
            if r.random() < 0.3:
                lake.catch_up()
            for _ in range(r.choice([1, 1, 2, 4])):
                done.append(alterations.one())
                if r.random() < 0.6:
                    alterations.write()
        try:
            lake.catch_up()
            lake.equals(source)
        except Exception as e:
            e.add_note(f"seed {seed}: {done}")
            raise
