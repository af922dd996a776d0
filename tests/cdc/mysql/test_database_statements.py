"""Statements that alter the tables of a source, each followed in the log and while rows are read."""

from __future__ import annotations

import pytest

from tablestore.cdc.capture.source import ALTERED, CAPTURED, DROPPED, EMPTIED, RENAMED
from tests.cdc.databases.sources import MariaDbSource

CAPTURE_ALL = [(CAPTURED, "a"), (CAPTURED, "b"), (CAPTURED, "c")]
ADDED = "INSERT INTO a (k, v, s) VALUES (1001, 1, 'n')"
STATEMENTS: dict[str, tuple[list[str], list[tuple[str, str]]]] = {
    "add": (["ALTER TABLE a ADD w INT AFTER k", ADDED, "UPDATE a SET w = k WHERE k < 20"], [(ALTERED, "a")]),
    "add with a value": (["ALTER TABLE a ADD w INT DEFAULT 7", ADDED], [(ALTERED, "a")]),
    "add with a default": (["ALTER TABLE a ADD w INT NOT NULL DEFAULT 7 FIRST", ADDED], [(ALTERED, "a")]),
    "generated": (["ALTER TABLE a ADD w INT AS (v * 2) STORED", ADDED], [(ALTERED, "a")]),
    "drop": (["DELETE FROM a WHERE k = 2", "ALTER TABLE a DROP s", "UPDATE a SET v = 1"], [(ALTERED, "a")]),
    "rename a column": (["ALTER TABLE a RENAME COLUMN s TO t, ADD u INT"], [(ALTERED, "a")]),
    "swap columns": (["ALTER TABLE a CHANGE v s INT, CHANGE s v VARCHAR(20)"], [(ALTERED, "a")]),
    "widen": (["ALTER TABLE a MODIFY v BIGINT", "UPDATE a SET v = 5000000000 WHERE k = 4"], [(ALTERED, "a")]),
    "convert": (["ALTER TABLE a MODIFY v VARCHAR(9)", ADDED], [(ALTERED, "a")]),
    "cut": (
        ["UPDATE a SET s = 'long'", "SET sql_mode = ''", "ALTER TABLE a MODIFY s CHAR(2)"],
        [(ALTERED, "a")],
    ),
    "index": (["CREATE INDEX i ON a (v)", "ALTER TABLE a ADD INDEX j (s)", ADDED], []),
    "another key": (
        [
            "UPDATE a SET s = k",
            "ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (k, v)",
            "INSERT INTO a (k, v, s) VALUES (2, 77, 'n')",
        ],
        [(ALTERED, "a"), (EMPTIED, "a")],
    ),
    "a key with a prefix": (
        [
            "UPDATE a SET s = k",
            "ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (s(2), k)",
            "INSERT INTO a (k, v, s) VALUES (2, 77, 'n')",
        ],
        [(ALTERED, "a"), (EMPTIED, "a")],
    ),
    "a key in another order": (
        [
            "ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (v, k)",
            "INSERT INTO a (k, v, s) VALUES (2, 77, 'n')",
        ],
        [(ALTERED, "a"), (EMPTIED, "a")],
    ),
    "truncate": (["TRUNCATE a", ADDED], [(EMPTIED, "a")]),
    "delete all": (["DELETE FROM a", ADDED], []),
    "rename": (["RENAME TABLE a TO z", "INSERT INTO z VALUES (1001, 1, 'n')"], [(RENAMED, "a")]),
    "rename and alter": (
        ["ALTER TABLE a ADD w INT DEFAULT 3, RENAME TO z", "DELETE FROM z WHERE k = 4"],
        [(RENAMED, "a"), (ALTERED, "z")],
    ),
    "rename away": (["RENAME TABLE a TO _a_old", "ALTER TABLE _a_old ADD w INT"], [(DROPPED, "a")]),
    "drop a table": (["DROP TABLE a", "UPDATE b SET v = 3"], [(DROPPED, "a")]),
    "create": (
        ["CREATE TABLE z (k INT PRIMARY KEY, e ENUM('x', 'y'))", "INSERT INTO z VALUES (1, 'y')"],
        [(CAPTURED, "z")],
    ),
    "create as": (["CREATE TABLE z (PRIMARY KEY (k)) AS SELECT * FROM a", ADDED], [(CAPTURED, "z")]),
    "create like": (["CREATE TABLE z LIKE a", "INSERT INTO z SELECT * FROM a"], [(CAPTURED, "z")]),
    "drop and create": (
        ["DROP TABLE a", "CREATE TABLE a (k INT PRIMARY KEY, u UUID)", "INSERT INTO a VALUES (9, UUID())"],
        [(DROPPED, "a"), (CAPTURED, "a"), (EMPTIED, "a")],
    ),
    "replace": (
        ["CREATE OR REPLACE TABLE a (k INT PRIMARY KEY, x DATE)", "INSERT INTO a VALUES (9, '2024-02-29')"],
        [(ALTERED, "a"), (EMPTIED, "a")],
    ),
    "replace as": (
        ["CREATE OR REPLACE TABLE a (k INT PRIMARY KEY, x INT) SELECT 7 AS k, 8 AS x", "UPDATE a SET x = 9"],
        [(ALTERED, "a"), (EMPTIED, "a")],
    ),
    "gh-ost": (
        [
            "CREATE TABLE _a_gho LIKE a",
            "ALTER TABLE _a_gho ADD w INT DEFAULT 5",
            "INSERT INTO _a_gho (k, v, s) SELECT * FROM a",
            "RENAME TABLE a TO _a_del, _a_gho TO a",
            "DELETE FROM a WHERE k = 6",
        ],
        [(ALTERED, "a")],
    ),
    "swap": (
        [
            "CREATE TABLE _n_old (k INT PRIMARY KEY, v INT)",
            "INSERT INTO _n_old VALUES (5, 5), (6, 6)",
            "RENAME TABLE a TO _a_old, _n_old TO a",
            "UPDATE a SET v = 7 WHERE k = 5",
        ],
        [(ALTERED, "a"), (EMPTIED, "a")],
    ),
    "swap of two": (
        ["CREATE TABLE z LIKE a", "INSERT INTO z VALUES (1, 1, '')", "RENAME TABLE a TO y, z TO a, y TO z"],
        [(CAPTURED, "z"), (ALTERED, "a"), (EMPTIED, "a"), (ALTERED, "z"), (EMPTIED, "z")],
    ),
    "rotate": (
        [
            "CREATE TABLE _n_new LIKE a",
            "RENAME TABLE a TO a1, _n_new TO a",
            "INSERT INTO a VALUES (3, 3, '')",
        ],
        [(RENAMED, "a"), (CAPTURED, "a")],
    ),
    "chain": (["RENAME TABLE b TO b2, a TO b", "UPDATE b SET v = 2"], [(RENAMED, "b"), (RENAMED, "a")]),
    "partition": (
        [
            "ALTER TABLE a PARTITION BY RANGE (k) (PARTITION p VALUES LESS THAN (20), PARTITION q VALUES LESS"
            " THAN MAXVALUE)",
            "ALTER TABLE a DROP PARTITION p",
        ],
        [(ALTERED, "a"), (EMPTIED, "a")],
    ),
    "comment": (["ALTER TABLE a MODIFY v INT COMMENT 'how many'"], [(ALTERED, "a")]),
    "two with rows between": (
        [
            "ALTER TABLE a ADD w INT",
            ADDED,
            "UPDATE a SET w = 4",
            "ALTER TABLE a MODIFY w VARCHAR(9)",
            "DELETE FROM a WHERE k = 8",
        ],
        [(ALTERED, "a"), (ALTERED, "a")],
    ),
    "several at once": (
        [
            "ALTER TABLE a ADD w INT",
            "ALTER TABLE a RENAME COLUMN w TO x",
            "ALTER TABLE a CHANGE v s INT, CHANGE s v VARCHAR(20)",
            "RENAME TABLE a TO z",
            "ALTER TABLE z ADD y UUID",
            "UPDATE z SET x = 3, y = UUID() WHERE k < 10",
        ],
        [(ALTERED, "a"), (RENAMED, "a")],
    ),
    "altered and dropped": (["ALTER TABLE a ADD w INT", "DROP TABLE a"], [(DROPPED, "a")]),
    "altered, used and dropped": (
        ["ALTER TABLE a ADD w INT, MODIFY s CHAR(9)", "UPDATE a SET w = 1", "DROP TABLE a"],
        [(ALTERED, "a"), (DROPPED, "a")],
    ),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_are_followed_in_the_log(source: MariaDbSource, name: str) -> None:
    """Statements between two batches; the batches with their events are repeated."""
    statements, wanted = STATEMENTS[name]
    source.made(20)
    lake = source.lake()
    lake.catch_up()
    assert lake.kinds() == CAPTURE_ALL
    source.run(*statements)
    while lake.batch(repeat=True):
        pass
    assert lake.kinds(3) == wanted
    lake.equals(source)


@pytest.mark.sample(1, all=18)
@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_are_followed_while_rows_are_read(source: MariaDbSource, name: str) -> None:
    """Statements when some chunks are read, and between the planning of chunks and their reading."""
    statements, _ = STATEMENTS[name]
    source.made(20)
    lake = source.lake(chunk_rows=10, chunks=1)
    for _ in range(2):
        lake.batch()
    assert lake.progress("snapshot")
    source.run("UPDATE a SET v = v + 1", "DELETE FROM a WHERE k = 2")
    end = lake.source.next(lake.offset)
    source.run(*statements)
    for piece in lake.source.pieces(lake.offset, end):
        lake.apply(piece)
    lake.offset = end
    lake.catch_up()
    lake.equals(source)
