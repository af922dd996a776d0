"""Traffic on a database: writers, and statements that alter its tables, until they are told to stop.

    with Traffic(server, "shop", seed=1) as traffic:
        …                              errors of threads are raised at the end of the block

Whatever a statement meets (a column that is gone, a deadlock, a server that was killed) is passed over: the
point is what the source holds at the end, not how it got there.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from types import TracebackType
from typing import Any

import pyarrow as pa
import pymysql

import tablestore as ts
from tablestore.cdc.capture.names import Patterns, SourceName
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.server import Connection
from tablestore.cdc.mysql.snapshot import read_range
from tests.servers.mariadb import MariaDb

TABLES = ("t0", "t1", "t2", "größe")
_COLUMNS = ("a INT", "b VARCHAR(20)", "c DECIMAL(9,2)", "d DATETIME(3) NULL")
_VALUES = {"int": "{n}", "bigint": "{n}", "varchar": "'é{n}'", "decimal": "{n}.25", "text": "'long {n}'"}
_MOST_ROWS = 400


def name(table: str) -> str:
    return f"`{table}`"


class Traffic:
    """`writers` threads with transactions, and one with DDL (`ddl` says of which kinds; none: no thread),
    which alters tables `most_ddl` times at most."""

    def __init__(
        self,
        server: MariaDb,
        database: str,
        *,
        seed: int,
        writers: int = 4,
        ddl: tuple[str, ...] = (),
        pause: float = 0.01,
        ddl_pause: float = 0.15,
        most_ddl: int = 1_000_000,
    ) -> None:
        self.server, self.database, self.seed = server, database, seed
        self.pause, self.ddl_pause, self.ddl, self.most_ddl = pause, ddl_pause, ddl, most_ddl
        self._stopping = threading.Event()
        self._errors: list[BaseException] = []
        self.statements: list[str] = []
        jobs = [(self._write, seed * 100 + i) for i in range(writers)]
        jobs += [(self._alter, seed * 100 + 99)] if ddl else []
        self._threads = [threading.Thread(target=self._guarded, args=job) for job in jobs]

    def make(self, rows: int = 200) -> Traffic:
        """The tables, before there is any traffic."""
        created = [f"CREATE DATABASE IF NOT EXISTS {self.database}", f"USE {self.database}"]
        for table in TABLES:
            columns = ", ".join(_COLUMNS)
            created.append(
                f"CREATE TABLE {name(table)} (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4"
            )
            created.append(
                f"INSERT INTO {name(table)} (id, a, b) SELECT seq, seq, 'first' FROM mysql.seq_1_to_{rows}"
            )
        self.server.run(*created)
        return self

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        if self._errors and error is None:
            raise self._errors[0]

    def _guarded(self, job: Any, seed: int) -> None:
        try:
            job(random.Random(seed))
        except BaseException as e:
            self._errors.append(e)

    def _cursor(self) -> Any:
        """A cursor, once the server is there; None at the end."""
        while not self._stopping.is_set():
            with contextlib.suppress(pymysql.Error, OSError):
                return self.server.connect(
                    database=self.database, autocommit=True, init_command="SET lock_wait_timeout = 2"
                ).cursor()
            time.sleep(0.05)
        return None

    def _run(self, cursor: Any, statements: list[str]) -> Any:
        """The cursor to go on with: another one where the server went away."""
        try:
            for statement in statements:
                cursor.execute(statement)
        except pymysql.err.OperationalError as e:
            if e.args[0] in (2006, 2013, 2014, 1927, 1053):
                with contextlib.suppress(Exception):
                    cursor.connection._force_close()
                return self._cursor()
            with contextlib.suppress(pymysql.Error):
                cursor.execute("ROLLBACK")
        except pymysql.err.InterfaceError:
            return self._cursor()
        except pymysql.Error:
            with contextlib.suppress(pymysql.Error):
                cursor.execute("ROLLBACK")
        return cursor

    # writers

    def _write(self, r: random.Random) -> None:
        cursor = self._cursor()
        while cursor is not None and not self._stopping.wait(r.random() * 2 * self.pause):
            statements = [
                statement for _ in range(r.choice([1, 1, 2, 4])) for statement in self._change(cursor, r)
            ]
            if len(statements) > 1:
                statements = ["BEGIN", *statements, r.choice(["COMMIT"] * 5 + ["ROLLBACK"])]
            cursor = self._run(cursor, statements)
        if cursor is not None:
            cursor.connection.close()

    def _change(self, cursor: Any, r: random.Random) -> list[str]:
        table = name(r.choice(TABLES))
        key, n = r.randrange(_MOST_ROWS), r.randrange(1000)
        kind = r.choice(["insert", "insert", "update", "update", "range", "delete", "move", "upsert"])
        if kind == "delete":
            return [f"DELETE FROM {table} WHERE id BETWEEN {key} AND {key + r.randrange(4)}"]
        if kind == "move":
            return [f"UPDATE IGNORE {table} SET id = {r.randrange(_MOST_ROWS)} WHERE id = {key}"]
        columns = self._columns(cursor, table)
        if not columns:
            return []
        column, type_ = r.choice(columns)
        value = _VALUES.get(type_, "NULL").format(n=n)
        if kind == "insert":
            return [f"INSERT IGNORE INTO {table} (id, `{column}`) VALUES ({key}, {value})"]
        if kind == "upsert":
            return [f"REPLACE INTO {table} (id, `{column}`) VALUES ({key}, {value}), ({key + 1}, {value})"]
        until = key + (20 if kind == "range" else 0)
        return [f"UPDATE {table} SET `{column}` = {value} WHERE id BETWEEN {key} AND {until}"]

    def _columns(self, cursor: Any, table: str) -> list[tuple[str, str]]:
        """Columns beside the key, and their types."""
        try:
            cursor.execute(f"SHOW COLUMNS FROM {table}")
        except (pymysql.Error, AttributeError):
            return []
        rows = cursor.fetchall()
        return [(row[0], row[1].partition("(")[0]) for row in rows if row[0] != "id"]

    # DDL

    def _alter(self, r: random.Random) -> None:
        cursor = self._cursor()
        number = 0
        while cursor is not None and not self._stopping.wait(r.random() * 2 * self.ddl_pause):
            if number >= self.most_ddl:
                continue
            number += 1
            table = name(r.choice(TABLES))
            columns = self._columns(cursor, table)
            n = (
                1_000 * (self.seed % 1_000_000) + number
            )  # a name comes with one type, also after earlier traffic
            for statement in self._statement(r, r.choice(self.ddl), table, columns, n):
                self.statements.append(statement)
                cursor = cursor and self._run(cursor, [statement])
        if cursor is not None:
            cursor.connection.close()

    def _statement(
        self, r: random.Random, kind: str, table: str, columns: list[tuple[str, str]], n: int
    ) -> list[str]:
        column = f"`{r.choice(columns)[0]}`" if columns else "`a`"
        integers = [c for c, type_ in columns if type_ == "int"] or ["a"]
        if kind == "add":
            where = r.choice(["", " FIRST", f" AFTER {column}"])
            return [f"ALTER TABLE {table} ADD n{n} {r.choice(['INT', 'VARCHAR(10)', 'BIGINT'])}{where}"]
        if kind == "default":
            return [f"ALTER TABLE {table} ADD n{n} INT NOT NULL DEFAULT {n}"]
        if kind == "drop column":
            return [f"ALTER TABLE {table} DROP {column}"] if len(columns) > 2 else []
        if kind == "rename column":
            return [f"ALTER TABLE {table} RENAME COLUMN {column} TO r{n}"]
        if kind == "widen":
            return [f"ALTER TABLE {table} MODIFY `{r.choice(integers)}` BIGINT"]
        if kind == "several":
            return [f"ALTER TABLE {table} ADD x{n} INT, RENAME COLUMN {column} TO y{n}, ADD z{n} VARCHAR(5)"]
        if kind == "truncate":
            return [f"TRUNCATE {table}"]
        if kind == "replace":
            rows = r.choice(["", " SELECT seq id, seq a FROM mysql.seq_1_to_50"])
            return [f"CREATE OR REPLACE TABLE {table} (id INT PRIMARY KEY, a INT, k{n} VARCHAR(20)){rows}"]
        if kind == "drop":
            return [f"DROP TABLE {table}", f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, k{n} INT)"]
        if kind == "rename":
            return [f"RENAME TABLE {table} TO `away{n}`", f"RENAME TABLE `away{n}` TO {table}"]
        if kind == "swap":
            other = name(r.choice([t for t in TABLES if name(t) != table]))
            return [f"RENAME TABLE {table} TO tmp_x, {other} TO {table}, tmp_x TO {other}"]
        if kind == "gh-ost":
            plain = table.strip("`")
            return [
                f"CREATE TABLE `_{plain}_gho` LIKE {table}",
                f"ALTER TABLE `_{plain}_gho` ADD g{n} INT DEFAULT 7",
                f"LOCK TABLES {table} WRITE, `_{plain}_gho` WRITE",
                f"INSERT INTO `_{plain}_gho` SELECT *, {n} FROM {table}",
                f"RENAME TABLE {table} TO `_{plain}_del`, `_{plain}_gho` TO {table}",
                "UNLOCK TABLES",
                f"DROP TABLE IF EXISTS `_{plain}_del`, `_{plain}_gho`",
            ]
        raise ValueError(kind)


COLUMNS = ("add", "default", "drop column", "rename column", "widen", "several")
WHOLE = ("truncate", "replace", "drop", "rename", "swap", "gh-ost")
CRASH_SAFE = tuple(kind for kind in COLUMNS + WHOLE if kind != "truncate")
"""What a server may be killed at: a MariaDB 10.11 that is killed at a TRUNCATE may have emptied the table and
have no word of it in its log (in 51 of 147 kills, with `DURABLE` settings)."""


def differences(lake: ts.Lake, url: str, database: str) -> list[str]:
    """Where database `ods` of the lake does not hold what the source holds now, but for what a kill has left
    of an online schema change, which is not captured."""
    actual, patterns = [], Patterns.of("*", database=database)
    with Connection.open(Address.parse(f"{url}/{database}")) as connection:
        for name, table in sorted(SourceTable.read_all(connection, database).items()):
            if not patterns.choose(SourceName(database, name)):
                continue
            if f"ods.{name}" not in lake:
                actual.append(f"{name} is not there")
                continue
            want = pa.Table.from_batches(list(read_range(connection, table)), table.schema)
            actual += [
                f"{name}: {text}" for text in _unequal(want, lake.table(f"ods.{name}").scan().to_arrow())
            ]
    return actual


def _unequal(want: pa.Table, have: pa.Table) -> list[str]:
    if sorted(want.column_names) != sorted(have.column_names):
        return [f"columns {want.column_names} are {have.column_names}"]
    nullable = pa.schema([field.with_nullable(True) for field in want.schema])
    have = have.select(want.column_names).cast(nullable)
    if have.num_rows != len(set(have["id"].to_pylist())):
        return ["a key twice"]
    a, b = ({row["id"]: row for row in side.to_pylist()} for side in (want, have))
    lines = [f"{key} is {b.get(key)}, not {a.get(key)}" for key in sorted(a | b) if a.get(key) != b.get(key)]
    return [f"{len(lines)} of {len(a)} rows", *lines[:5]] if lines else []
