"""Statements on the real server: no stored value changes without an image in the log and a reason to read the
table again. Sessions are not strict, so that a statement may lose as much as it can."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql import ddl
from tablestore.cdc.mysql.binlog import LogStatement, RowImages, read_log
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.cdc.mysql.snapshot import read_range
from tests.cdc.mysql.kinds import KINDS, columns, edges, statement
from tests.servers.mariadb import MariaDb

NUMBERS = ["-1", "0", "5", "300", "70000", "NULL"]
TEXTS = ["''", "'a '", "'é'", "'longer than ten'", "'5'", "NULL"]
KEEPING: list[tuple[str, list[str], str]] = [
    ("INT", NUMBERS, "ADD d INT"),
    ("INT", NUMBERS, "ADD d INT FIRST, ADD e VARCHAR(5) NULL DEFAULT NULL AFTER c"),
    ("INT", NUMBERS, "ADD COLUMN (d DATETIME NULL ON UPDATE CURRENT_TIMESTAMP, e TIMESTAMP NULL, INDEX (d))"),
    ("INT", NUMBERS, "ADD COLUMN IF NOT EXISTS c INT"),
    ("INT", NUMBERS, "DROP COLUMN x"),
    ("INT", NUMBERS, "DROP x, ADD d INT, RENAME COLUMN c TO x"),
    ("INT", NUMBERS, "RENAME COLUMN c TO x, RENAME COLUMN x TO c"),
    ("INT", NUMBERS, "CHANGE c C2 INT, ADD INDEX (x), COMMENT 'x, y'"),
    ("INT", NUMBERS, "CHANGE c C BIGINT"),
    ("INT", NUMBERS, "MODIFY c INT DEFAULT 7 COMMENT 'x' AFTER id"),
    ("INT", NUMBERS, "ALTER COLUMN c SET DEFAULT 7"),
    ("INT", NUMBERS, "ADD UNIQUE (id, c), ADD CONSTRAINT k CHECK (c < 100000)"),
    ("INT", NUMBERS, "ENGINE=MyISAM"),
    ("INT", NUMBERS, "ENGINE=InnoDB ROW_FORMAT=DYNAMIC"),
    ("INT", NUMBERS, "FORCE, ALGORITHM=COPY"),
    ("INT", NUMBERS, "MODIFY id BIGINT AUTO_INCREMENT, AUTO_INCREMENT=100"),
    ("INT", NUMBERS, "PARTITION BY HASH (id) PARTITIONS 3"),
    ("INT NOT NULL", NUMBERS[:-1], "MODIFY c INT NULL"),
    ("SMALLINT", NUMBERS[:3], "MODIFY c MEDIUMINT"),
    ("TINYINT UNSIGNED", ["0", "255", "NULL"], "MODIFY c SMALLINT"),
    ("INT UNSIGNED", ["0", "4294967295", "NULL"], "MODIFY c BIGINT UNSIGNED"),
    ("DECIMAL(9,2)", ["-1.25", "9999999.99", "NULL"], "MODIFY c DECIMAL(20,2)"),
    ("VARCHAR(20)", TEXTS, "MODIFY c VARCHAR(300)"),
    ("VARCHAR(20)", TEXTS, "MODIFY c TEXT"),
    ("VARCHAR(20) CHARACTER SET utf8mb3", TEXTS, "CONVERT TO CHARACTER SET utf8mb4"),
    ("TEXT CHARACTER SET utf8mb3", TEXTS, "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
    ("CHAR(20)", TEXTS, "MODIFY c CHAR(30)"),
    ("TEXT", TEXTS, "MODIFY c LONGTEXT"),
    ("VARBINARY(20)", TEXTS, "MODIFY c MEDIUMBLOB"),
    ("DATETIME", ["'2024-01-02 03:04:05'", "'0000-00-00'", "NULL"], "MODIFY c DATETIME(3)"),
    ("TIMESTAMP NULL", ["'2024-01-02 03:04:05'", "NULL"], "MODIFY c TIMESTAMP(6) NULL"),
    ("ENUM('a','B')", ["'a'", "'B'", "''", "NULL"], "MODIFY c ENUM('a','B','c')"),
    ("SET('a','b')", ["'a,b'", "''", "NULL"], "MODIFY c SET('a','b','c')"),
    ("FLOAT", ["0.1", "-0.0", "1e30", "NULL"], "MODIFY c FLOAT COMMENT 'x'"),
    ("DOUBLE", ["0.1", "1e300", "NULL"], "MODIFY c DOUBLE DEFAULT 0.1"),
]
"""Type of column c, its values, the clauses: nothing is to be read again."""
CHANGING: list[tuple[str, list[str], str]] = [
    ("INT", NUMBERS, "ADD d INT DEFAULT 5"),
    ("INT", NUMBERS, "ADD d INT NOT NULL"),
    ("INT", NUMBERS, "ADD d INT AS (c + 1)"),
    ("INT", NUMBERS, "ADD d INT AS (c + 1) PERSISTENT"),
    ("INT", NUMBERS, "ADD d TIMESTAMP DEFAULT CURRENT_TIMESTAMP"),
    ("INT", NUMBERS, "ADD (d INT, e VARCHAR(5) DEFAULT 'x')"),
    ("INT", NUMBERS, "DROP c, ADD c INT"),
    ("INT", NUMBERS, "DROP PRIMARY KEY, DROP id, ADD id SERIAL, ADD PRIMARY KEY (id)"),
    ("INT", NUMBERS, "MODIFY c INT NOT NULL"),
    ("INT", NUMBERS, "MODIFY c INT UNSIGNED"),
    ("INT", NUMBERS, "MODIFY c SMALLINT"),
    ("INT", NUMBERS, "CHANGE c d CHAR(1)"),
    ("INT", NUMBERS, "MODIFY c INT AS (LENGTH(x)) STORED"),
    ("INT", NUMBERS, "MODIFY c INT NOT NULL AUTO_INCREMENT UNIQUE, DROP PRIMARY KEY, MODIFY id BIGINT"),
    ("VARCHAR(20)", TEXTS, "MODIFY c VARCHAR(5)"),
    ("VARCHAR(20)", TEXTS, "MODIFY c VARCHAR(20) CHARACTER SET ascii"),
    ("VARCHAR(20)", TEXTS, "CONVERT TO CHARACTER SET ascii"),
    ("VARCHAR(20)", TEXTS, "MODIFY c BINARY(20)"),
    ("DECIMAL(9,2)", ["-1.25", "9999999.99"], "MODIFY c DECIMAL(9,1)"),
    ("DOUBLE", ["1.25", "1.125"], "MODIFY c DOUBLE(10,1)"),
    ("FLOAT", ["1.25", "-1.125"], "MODIFY c FLOAT UNSIGNED"),
    ("BINARY(4)", ["'a'", "'abcd'"], "MODIFY c BINARY(6)"),
    ("DATETIME(3)", ["'2024-01-02 03:04:05.678'"], "MODIFY c DATETIME"),
    ("DATETIME", ["'2024-01-02 03:04:05'"], "MODIFY c DATE"),
    ("TIME", ["'10:00:00'"], "MODIFY c TIME(3)"),
    ("ENUM('a','b')", ["'a'", "'b'"], "MODIFY c ENUM('b','c')"),
    ("ENUM('a','b')", ["'a'", "'b'"], "MODIFY c ENUM('A','b')"),
    ("SET('a','b')", ["'a,b'"], "MODIFY c SET('b','a')"),
    ("BIT(9)", ["b'1'"], "MODIFY c BIT(17)"),
]
"""Likewise, where values that are there do change, and a reason is wanted."""
GENERATED: list[tuple[str, str, str]] = [
    ("DATETIME", "VARCHAR(40) AS (CONCAT(c, 'x'))", "MODIFY c DATETIME(3)"),
    ("DATETIME", "VARCHAR(40) AS (CONCAT(c, 'x')) STORED", "MODIFY c DATETIME(3)"),
    ("VARCHAR(99)", "INT AS (1)", "MODIFY g INT AS (2)"),
    ("VARCHAR(99)", "INT AS (1) STORED", "MODIFY g INT AS (2) STORED"),
]
"""Type of c, of g, the clauses: g changes."""


@pytest.fixture
def session(mariadb: MariaDb, database: str) -> Iterator[pymysql.cursors.Cursor]:
    """A session of a user who may do all, not strict."""
    with mariadb.connect(database=database, autocommit=True, charset="utf8mb4") as open_, open_.cursor() as c:
        c.execute("SET sql_mode = '', explicit_defaults_for_timestamp = 1")
        yield c


def rows(connection: Connection, table: SourceTable) -> pa.Table:
    read = pa.Table.from_batches(list(read_range(connection, table)), table.schema)
    return read.sort_by("id")


def changed(before: pa.Table, after: pa.Table, renamed: dict[str, str]) -> bool:
    """Whether rows that were there have other values, but for columns that are gone or new and NULL."""
    if before.num_rows != after.num_rows:
        return True
    there = {name: name for name in before.column_names} | {new: old for old, new in renamed.items()}
    for name in after.column_names:
        column, old = after[name], before[there[name]] if name in there else None
        if old is None:
            if column.null_count != len(column):
                return True
            continue
        try:
            if not (old.cast(column.type).equals(column) and column.cast(old.type).equals(old)):
                return True
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return True
    return False


def altered(session: Any, connection: Connection, database: str, statement: str) -> tuple[bool, str]:
    """(whether stored values of table t changed, the reason to read them again) by a statement, whose text is
    that of the log."""
    old = SourceTable.read(connection, database, "t")
    before = rows(connection, old)
    start = dialect_of(connection).position(connection)
    session.execute(statement)
    end = dialect_of(connection).position(connection)
    new = SourceTable.read(connection, database, "t")
    after = rows(connection, new)
    log = list(read_log(connection.address, [new], start=start, until=end))
    assert not [change for change in log if isinstance(change, RowImages)]
    (text,) = [change for change in log if isinstance(change, LogStatement)]
    effect = ddl.effects(text.text, text.database)[0]
    reason = ddl.needs_read_again(effect, old, new)
    renamed = ddl.renamed_columns(effect, old, new)
    return changed(before, after, renamed), reason


def made(session: Any, kind: str, values: list[Any], more: str = "") -> None:
    session.execute("DROP TABLE IF EXISTS t")
    session.execute(
        f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, c {kind}, x VARCHAR(20) DEFAULT 'x'{more})"
        " CHARACTER SET utf8mb4"
    )
    session.execute(f"INSERT INTO t (c) VALUES {', '.join(f'({value})' for value in values)}")
    session.execute(f"UPDATE t SET id = id + 10 WHERE id = {len(values)}")


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "changed"])
@pytest.mark.sample(1)
def test_tables_are_read_again_where_values_change(
    session: Any, connection: Connection, address: Address, kept: bool
) -> None:
    for kind, values, clauses in KEEPING if kept else CHANGING:
        made(session, kind, values)
        actual, reason = altered(session, connection, address.database, f"ALTER TABLE t {clauses}")
        assert (actual, bool(reason)) == (not kept, not kept), (kind, clauses, reason)


def test_generated_columns(session: Any, connection: Connection, address: Address) -> None:
    for kind, generated, clauses in GENERATED:
        made(session, kind, ["'2024-01-02 03:04:05'"], f", g {generated}")
        actual, reason = altered(session, connection, address.database, f"ALTER TABLE t {clauses}")
        assert actual, clauses
        assert reason, clauses


def test_partitions_and_ignored_rows(session: Any, connection: Connection, address: Address) -> None:
    parts = "PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (3), PARTITION b VALUES LESS THAN (99))"
    for clauses in ("DROP PARTITION a", "TRUNCATE PARTITION a", "EXCHANGE PARTITION a WITH TABLE u"):
        made(session, "INT", NUMBERS)
        session.execute("CREATE OR REPLACE TABLE u LIKE t")
        session.execute(f"ALTER TABLE t {parts}")
        actual, reason = altered(session, connection, address.database, f"ALTER TABLE t {clauses}")
        assert actual, clauses
        assert reason, clauses
    made(session, "INT", ["1", "1", "2"])
    actual, reason = altered(session, connection, address.database, "ALTER IGNORE TABLE t ADD UNIQUE (c)")
    assert actual
    assert "IGNORE" in reason


def logged(session: Any, connection: Connection, *statements_: str) -> list[LogStatement]:
    start = dialect_of(connection).position(connection)
    for each in statements_:
        session.execute(each)
    end = dialect_of(connection).position(connection)
    log = read_log(connection.address, [], start=start, until=end)
    return [change for change in log if isinstance(change, LogStatement)]


def shown(statement_: LogStatement) -> list[str]:
    return [f"{e.kind} {e.table.table}" for e in ddl.effects(statement_.text, statement_.database)]


@pytest.mark.parametrize("charset", ["latin1", "gbk", "cp1251", "utf8mb4"])
@pytest.mark.sample(2)
def test_statements_in_the_character_set_of_their_client(
    session: Any, connection: Connection, charset: str
) -> None:
    name = {"latin1": "größe", "gbk": "誠中", "cp1251": "таблица", "utf8mb4": "表"}[charset]
    assert charset != "gbk" or "誠".encode("gbk")[1:] == b"\\"  # which would escape, as ASCII
    session.connection.set_character_set(charset)
    actual = logged(
        session,
        connection,
        f"CREATE TABLE `{name}` (a INT PRIMARY KEY)",
        f"ALTER TABLE `{name}` ADD b INT COMMENT '{name}'",
    )
    assert [shown(statement) for statement in actual] == [[f"create {name}"], [f"alter {name}"]]


def test_statements_as_the_server_writes_them(session: Any, connection: Connection) -> None:
    """Prepared, of procedures, of temporary tables, with ANSI quotes."""
    session.execute("CREATE TABLE t (a INT PRIMARY KEY)")
    session.execute("CREATE PROCEDURE p() ALTER TABLE t ADD b INT")
    actual = logged(
        session,
        connection,
        "CALL p()",
        "EXECUTE IMMEDIATE 'ALTER TABLE t DROP b'",
        "SET STATEMENT lock_wait_timeout = 5 FOR ALTER TABLE t ADD c INT",
        "BEGIN NOT ATOMIC ALTER TABLE t DROP c; END",
        "CREATE TEMPORARY TABLE u (a INT)",
        "ALTER TABLE u ADD b INT",
        "CREATE TABLE v LIKE u",
        "DROP TABLE u",
        "CREATE TABLE w SELECT * FROM t",
        "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
        """ALTER TABLE "t" COMMENT 'c:\\'""",
        'DROP TABLE IF EXISTS "v", "w"',
        "TRUNCATE t",
    )
    assert [effect for each in actual for effect in shown(each)] == [
        *("alter t", "alter t", "alter t", "alter t", "create v", "create w"),
        *("alter t", "drop v", "drop w", "truncate t"),
    ]


def test_any_type_into_any_other(
    session: Any, connection: Connection, address: Address, seeds: tuple[int, ...]
) -> None:
    """One statement gives each column of a table with all types the type of another; a column is judged as if
    it were alone. `--rounds 200` is about all pairs."""
    types = columns()
    kept = 0
    for seed in seeds:
        session.execute("DROP TABLE IF EXISTS t")
        session.execute(statement("t"))
        for number, row in enumerate(edges()):
            places = ", ".join(["%s"] * (len(row) + 1))
            session.execute(f"INSERT INTO t VALUES ({places})", (number, *row))
        before = SourceTable.read(connection, address.database, "t")
        old = rows(connection, before)
        into = dict(zip(types, random.Random(seed).sample(list(KINDS), len(types)), strict=True))
        while True:
            clauses = {name: f"MODIFY {name} {kind} NULL" for name, kind in into.items()}
            try:
                session.execute(f"ALTER TABLE t {', '.join(clauses.values())}")
                break
            except pymysql.Error as e:  # the server does not convert one of them
                (name,) = {name for name in into if re.search(rf"\b{name}\b", str(e))}
                del into[name]
        after = SourceTable.read(connection, address.database, "t")
        new = rows(connection, after)
        for name, clause in clauses.items():
            alone = [
                replace(table, columns=(table.column("id"), table.column(name))) for table in (before, after)
            ]
            (effect,) = ddl.effects(f"ALTER TABLE t {clause}", address.database)
            reason = ddl.needs_read_again(effect, *alone)
            actual = changed(old.select(["id", name]), new.select(["id", name]), {})
            assert reason or not actual, (types[name], into[name])
            kept += not reason
    print(f"{kept} kept their values")
