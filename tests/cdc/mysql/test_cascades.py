"""Rows that foreign keys change have no images in the binlog: the table is read again, and has the rows of
the source by value."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import pymysql
import pytest

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.preview import preview
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.source import PAUSED
from tablestore.cdc.mysql.stream import MysqlTable
from tablestore.core.errors import Unsupported
from tests.cdc.databases.sources import MariaDbSource

SILENT = "ON DELETE CASCADE ON UPDATE CASCADE"
VERSIONED = (
    "CREATE TABLE o.p (k INT PRIMARY KEY, v INT, z TIMESTAMP(6) GENERATED ALWAYS AS ROW START INVISIBLE, "
    "`e``d` TIMESTAMP(6) GENERATED ALWAYS AS ROW END INVISIBLE, PERIOD FOR SYSTEM_TIME (z, `e``d`)) "
    "WITH SYSTEM VERSIONING"
)
OUTSIDE = "CREATE TABLE o.p (k INT PRIMARY KEY, v INT)"
OF_O = "CREATE TABLE a (k INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES o.p (k) {})"
ROWS = ("INSERT INTO o.p VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)")
WAYS: dict[str, tuple[list[str], list[str]]] = {
    "a delete": (
        [
            "CREATE TABLE p (k INT PRIMARY KEY)",
            "CREATE TABLE a (k INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (k) ON DELETE CASCADE)",
            "INSERT INTO p VALUES (1), (2), (3)",
            "INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)",
        ],
        ["DELETE FROM p WHERE k = 2"],
    ),
    "a delete of a parent that is not captured": (
        [OUTSIDE, OF_O.format("ON DELETE CASCADE"), *ROWS],
        ["DELETE FROM o.p WHERE k = 2"],
    ),
    "set null": (
        [OUTSIDE, OF_O.format("ON DELETE SET NULL"), *ROWS],
        ["DELETE FROM o.p WHERE k = 2"],
    ),
    "another key": (
        [OUTSIDE, OF_O.format("ON UPDATE CASCADE"), *ROWS],
        ["UPDATE o.p SET k = 5 WHERE k = 2"],
    ),
    "another key, set null": (
        [OUTSIDE, OF_O.format("ON UPDATE SET NULL"), *ROWS],
        ["INSERT INTO o.p VALUES (2, 2) ON DUPLICATE KEY UPDATE k = 5"],
    ),
    "replace": ([OUTSIDE, OF_O.format(SILENT), *ROWS], ["REPLACE INTO o.p VALUES (2, 9)"]),
    "another key of the child": (
        [
            OUTSIDE,
            "CREATE TABLE a (k INT, p INT, PRIMARY KEY (p, k), FOREIGN KEY (p) REFERENCES o.p (k) "
            "ON UPDATE CASCADE)",
            *ROWS,
        ],
        ["UPDATE o.p SET k = 5 WHERE k = 2"],
    ),
    "two columns": (
        [
            "CREATE TABLE o.p (x VARCHAR(9), y INT, v INT, PRIMARY KEY (x, y))",
            "CREATE TABLE a (k INT PRIMARY KEY, x VARCHAR(9), y INT, CONSTRAINT `a ``b` FOREIGN KEY (x, y) "
            "REFERENCES o.p (x, y) ON UPDATE CASCADE)",
            "INSERT INTO o.p VALUES ('é', 1, 1), ('ü', 2, 2)",
            "INSERT INTO a VALUES (1, 'é', 1), (2, 'ü', 2)",
        ],
        ["UPDATE o.p SET x = 'ö' WHERE y = 2"],
    ),
    "a tree": (
        [
            "CREATE TABLE a (k INT PRIMARY KEY, p INT REFERENCES a (k) ON DELETE CASCADE)",
            "INSERT INTO a VALUES (1, NULL), (2, 1), (3, 2), (4, NULL)",
        ],
        ["DELETE FROM a WHERE k = 1"],
    ),
    "by way of another child": (
        [
            "CREATE TABLE o.g (k INT PRIMARY KEY)",
            "CREATE TABLE o.p (k INT PRIMARY KEY, v INT, FOREIGN KEY (v) REFERENCES o.g (k) "
            "ON DELETE CASCADE)",
            OF_O.format("ON DELETE CASCADE"),
            "INSERT INTO o.g VALUES (1), (2), (3)",
            *ROWS,
        ],
        ["DELETE FROM o.g WHERE k = 2"],
    ),
    "a key that another child got": (
        [
            "CREATE TABLE o.g (k INT PRIMARY KEY)",
            "CREATE TABLE o.p (k INT PRIMARY KEY, v INT, FOREIGN KEY (k) REFERENCES o.g (k) "
            "ON UPDATE CASCADE)",
            OF_O.format("ON UPDATE CASCADE"),
            "INSERT INTO o.g VALUES (1), (2), (3)",
            *ROWS,
        ],
        ["UPDATE o.g SET k = 7 WHERE k = 2"],
    ),
    "a parent WITH SYSTEM VERSIONING": (
        [
            "CREATE TABLE o.p (k INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
            OF_O.format("ON DELETE CASCADE"),
            *ROWS,
        ],
        ["DELETE FROM o.p WHERE k = 2"],
    ),
    "a parent whose periods have names": (
        [VERSIONED, OF_O.format("ON DELETE SET NULL"), *ROWS],
        ["DELETE FROM o.p WHERE k = 2"],
    ),
    "compressed": (
        [OUTSIDE, OF_O.format("ON UPDATE CASCADE"), *ROWS, "SET GLOBAL log_bin_compress = ON"],
        ["UPDATE o.p SET k = k + 10 ORDER BY k", "SET GLOBAL log_bin_compress = OFF"],
    ),
    "images without all columns": (
        [OUTSIDE, OF_O.format("ON UPDATE CASCADE"), *ROWS],
        ["SET SESSION binlog_row_image = MINIMAL", "UPDATE o.p SET k = 5 WHERE k = 2"],
    ),
    "without a key": (
        [
            OUTSIDE,
            "CREATE TABLE a (k INT, p INT, FOREIGN KEY (p) REFERENCES o.p (k) ON DELETE CASCADE)",
            *ROWS,
        ],
        ["DELETE FROM o.p WHERE k = 2"],
    ),
}


@pytest.fixture
def beside(source: MariaDbSource) -> Iterator[MariaDbSource]:
    """A source with a database o beside it, that is not captured."""
    source.run("CREATE OR REPLACE DATABASE o")
    yield source
    source.run("SET foreign_key_checks = 0", "DROP DATABASE o")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sample(2)
def test_what_a_foreign_key_changes_is_read_again(beside: MariaDbSource, way: str) -> None:
    before, changes = WAYS[way]
    beside.run(*before, "CREATE TABLE z (k INT PRIMARY KEY)")
    primary_keys = ((f"{beside.name}.a", ("k",)),) if way == "without a key" else ()
    lake = beside.lake(primary_keys=primary_keys)
    lake.catch_up()
    lake.equals(beside)
    begin, rows = len(lake.events), dict(lake.rows["a"])
    beside.run(*changes)
    lake.catch_up()
    lake.equals(beside)
    assert lake.rows["a"] != rows
    assert {table for _, table in lake.kinds(begin)} == {"a"}
    reasons = {event.reason for event in lake.events[begin:]}
    assert reasons == {"foreign keys have changed its rows, which the binlog does not have"}
    assert lake.offset["stale"] == []


QUIET: dict[str, tuple[str, list[str]]] = {
    "another column": (OUTSIDE, ["UPDATE o.p SET v = v + 1"]),
    "the same key": (OUTSIDE, ["UPDATE o.p SET k = k, v = 7"]),
    "without checks": (OUTSIDE, ["SET foreign_key_checks = 0", "DELETE FROM o.p WHERE k = 2"]),
    "a past": (VERSIONED, ["UPDATE o.p SET v = v + 1"]),
    "rows that come": (OUTSIDE, ["INSERT INTO o.p VALUES (7, 7)"]),
    "text that adds": (OUTSIDE, ["SET SESSION binlog_format = STATEMENT", "INSERT INTO o.p VALUES (7, 7)"]),
}


@pytest.mark.parametrize("way", QUIET)
@pytest.mark.sample(2)
def test_what_changes_no_child_has_nothing_read_again(beside: MariaDbSource, way: str) -> None:
    parent, changes = QUIET[way]
    beside.run(parent, OF_O.format("ON DELETE CASCADE" if way == "a past" else SILENT), *ROWS)
    beside.run("CREATE TABLE b (k INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES a (k))")
    beside.run("GRANT TRIGGER, SHOW VIEW ON *.* TO reader@'127.0.0.1'")
    lake = beside.lake()
    lake.catch_up()
    begin = len(lake.events)
    beside.run(*changes)
    beside.run("INSERT INTO b VALUES (1, 1)")
    lake.catch_up()
    beside.run("REVOKE TRIGGER, SHOW VIEW ON *.* FROM reader@'127.0.0.1'")
    lake.equals(beside)
    assert lake.kinds(begin) == []
    assert len(lake.rows["b"]) == 1


def test_a_plan_and_the_first_event_say_what_is_read_again(beside: MariaDbSource) -> None:
    beside.run(
        "CREATE TABLE o.g (k INT PRIMARY KEY)",
        "CREATE TABLE o.p (k INT PRIMARY KEY, FOREIGN KEY (k) REFERENCES o.g (k) ON DELETE CASCADE)",
        "CREATE TABLE a (k INT PRIMARY KEY, p INT, CONSTRAINT up FOREIGN KEY (p) REFERENCES o.p (k) "
        "ON DELETE CASCADE ON UPDATE RESTRICT)",
        "CREATE TABLE b (k INT PRIMARY KEY, p INT, CONSTRAINT of_b FOREIGN KEY (p) REFERENCES o.p (k) "
        "ON DELETE SET NULL)",
        "CREATE TABLE c (k INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES o.p (k) ON DELETE NO ACTION)",
    )
    rules = CaptureRules.of("*", database=beside.name, into="ods")
    planned = {table.source.table: table.warning for table in preview(beside.opened(), rules)}
    assert planned["c"] == ""
    assert planned["a"] == (
        "foreign key 'up' (ON DELETE CASCADE): the binlog does not have such changes; the table is emptied "
        "and read again after a delete or another key in o.g, o.p"
    )
    assert "'of_b' (ON DELETE SET NULL)" in planned["b"]
    assert "the table is read again after" in planned["b"]
    lake = beside.lake()
    lake.catch_up()
    assert {event.table.table: event.reason for event in lake.events} == planned


@pytest.mark.parametrize("text", ["DELETE FROM o.p WHERE k = 2", "CALL o.c()"])
@pytest.mark.sample(1)
def test_a_parent_that_a_statement_changes(beside: MariaDbSource, text: str) -> None:
    beside.run("GRANT TRIGGER, SHOW VIEW ON *.* TO reader@'127.0.0.1'")
    beside.run(OUTSIDE, OF_O.format(SILENT), *ROWS, "CREATE TABLE z (k INT PRIMARY KEY)")
    beside.run("CREATE PROCEDURE o.c() DELETE FROM o.p WHERE k = 2")
    lake = beside.lake()
    lake.catch_up()
    begin = len(lake.events)
    beside.run("SET SESSION binlog_format = STATEMENT", text)
    lake.catch_up()
    lake.equals(beside)
    assert {table for _, table in lake.kinds(begin)} == {"a"}
    assert len(lake.rows["a"]) == 2
    beside.run("REVOKE TRIGGER, SHOW VIEW ON *.* FROM reader@'127.0.0.1'")


def test_a_parent_in_a_prepared_transaction_pauses_its_children(beside: MariaDbSource) -> None:
    beside.run(OUTSIDE, OF_O.format(SILENT), *ROWS, "CREATE TABLE z (k INT PRIMARY KEY)")
    lake = beside.lake()
    lake.catch_up()
    with beside.server.connect() as connection, connection.cursor() as cursor:
        for text in ("XA START 'x'", "DELETE FROM o.p WHERE k = 2", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(text)
        lake.catch_up()
        assert lake.kinds()[-1] == (PAUSED, "a")
        cursor.execute("XA COMMIT 'x'")
    lake.source = beside.opened(read_again=lake.source.choice.patterns)
    lake.catch_up()
    lake.equals(beside)
    assert len(lake.rows["a"]) == 2


ADD = "ALTER TABLE a ADD CONSTRAINT up FOREIGN KEY (p) REFERENCES o.p (k) ON DELETE CASCADE"
LATER: dict[str, list[str]] = {
    "a key that comes": [ADD, "DELETE FROM o.p WHERE k = 2"],
    "a key that comes and goes": [
        ADD,
        "DELETE FROM o.p WHERE k = 2",
        "ALTER TABLE a DROP FOREIGN KEY up",
    ],
    "a parent with other names": [
        ADD,
        "RENAME TABLE o.p TO o.q",
        "DELETE FROM o.q WHERE k = 2",
        "RENAME TABLE o.q TO o.r",
    ],
    "a key with another name": [
        ADD.replace("DELETE", "UPDATE"),
        "ALTER TABLE o.p CHANGE k x INT",
        "UPDATE o.p SET x = 9 WHERE x = 2",
        "ALTER TABLE o.p CHANGE x y INT",
    ],
    "a parent that becomes a child": [
        ADD,
        "ALTER TABLE o.p ADD FOREIGN KEY (v) REFERENCES o.g (k) ON DELETE CASCADE",
        "DELETE FROM o.g WHERE k = 2",
    ],
    "a child with another name": [ADD, "RENAME TABLE a TO b", "DELETE FROM o.p WHERE k = 2"],
    "a parent that gets a past": [
        ADD,
        "SET SESSION system_versioning_alter_history = 1",
        "ALTER TABLE o.p ADD SYSTEM VERSIONING",
        "DELETE FROM o.p WHERE k = 2",
    ],
    "a table that comes": [
        "CREATE TABLE n (k INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES o.p (k) ON DELETE CASCADE)",
        "INSERT INTO n VALUES (1, 1), (2, 2)",
        "DELETE FROM a WHERE p = 2",
        "DELETE FROM o.p WHERE k = 2",
    ],
}


@pytest.mark.parametrize("followed", ["at once", "step by step"])
@pytest.mark.parametrize("way", LATER)
@pytest.mark.sample(2)
def test_keys_that_statements_of_the_log_make(beside: MariaDbSource, way: str, followed: str) -> None:
    beside.run(OUTSIDE, "CREATE TABLE o.g (k INT PRIMARY KEY)", "INSERT INTO o.g VALUES (1), (2), (3)")
    beside.run("CREATE TABLE a (k INT PRIMARY KEY, p INT)", *ROWS)
    lake = beside.lake()
    lake.catch_up()
    if followed == "at once":
        beside.run(*LATER[way])
    for text in LATER[way] if followed == "step by step" else ():
        beside.run(text)
        lake.catch_up()
    lake.catch_up()
    lake.equals(beside)
    assert 2 not in {row["p"] for rows in lake.rows.values() for row in rows.values() if "p" in row}


def test_a_key_that_is_gone_has_nothing_read_again(beside: MariaDbSource) -> None:
    beside.run(OUTSIDE, "CREATE TABLE a (k INT PRIMARY KEY, p INT)", ADD, *ROWS)
    lake = beside.lake()
    lake.catch_up()
    beside.run("ALTER TABLE a DROP FOREIGN KEY up", "DELETE FROM o.p WHERE k = 2")
    begin = len(lake.events)
    lake.catch_up()
    lake.equals(beside)
    assert lake.kinds(begin) == []


def test_an_offset_of_an_earlier_release_learns_its_parents(beside: MariaDbSource) -> None:
    beside.run(OUTSIDE, OF_O.format(SILENT), *ROWS)
    lake = beside.lake()
    lake.catch_up()
    for name in ("parents", "stale"):
        del lake.offset[name]
    beside.run("DELETE FROM o.p WHERE k = 2")
    lake.catch_up()
    lake.equals(beside)
    assert len(lake.rows["a"]) == 2
    assert not lake.batch()


def test_a_bounded_run_ends_once_the_table_is_read_again(beside: MariaDbSource) -> None:
    beside.run(OUTSIDE, OF_O.format(SILENT), *ROWS)
    lake = beside.lake(bounded=True)
    lake.catch_up()
    lake.source = beside.opened(bounded=True)
    beside.run("DELETE FROM o.p WHERE k = 2")
    lake.catch_up()
    lake.equals(beside)
    assert len(lake.rows["a"]) == 2
    assert lake.source.ended(lake.offset)


def test_rows_that_change_while_the_table_is_read(beside: MariaDbSource, seeds: tuple[int, ...]) -> None:
    r = random.Random(seeds[0])
    beside.run(OUTSIDE, OF_O.format(SILENT))
    keys = ", ".join(f"({k}, {k})" for k in range(100))
    beside.run(f"INSERT INTO o.p VALUES {keys}", f"INSERT INTO a VALUES {keys}")
    left = r.sample(range(100), 12)

    def change() -> None:
        if left:
            k = left.pop()
            beside.run(r.choice([f"DELETE FROM o.p WHERE k = {k}", f"REPLACE INTO o.p VALUES ({k}, 0)"]))

    lake = beside.lake(chunk_rows=10, chunks=1)
    while lake.batch(repeat=r.random() < 0.3, meanwhile=change) or left:
        assert lake.batches < 500
        change()
    lake.catch_up()
    lake.equals(beside)
    assert len(lake.rows["a"]) == 100 - 12


def change(r: random.Random) -> str:
    """A statement at random about the tables of the next test."""
    first, second = r.randrange(9), r.randrange(9)
    null = r.choice(["NULL", str(second)])
    return r.choice(
        [
            f"INSERT INTO {r.choice(['o.g', 'o.p', 'a', 'b', 't'])} VALUES ({first}, {null})",
            f"REPLACE INTO {r.choice(['o.g', 'o.p', 'a', 'b', 't'])} VALUES ({first}, {null})",
            f"DELETE FROM {r.choice(['o.g', 'o.p', 'a', 'b', 't'])} WHERE k = {first}",
            f"UPDATE {r.choice(['o.g', 'o.p', 'a', 'b', 't'])} SET k = {first} WHERE k = {second}",
            f"UPDATE {r.choice(['o.g', 'o.p', 'a', 'b', 't'])} SET p = {null} WHERE k = {first}",
            "RENAME TABLE o.p TO o.x, o.x TO o.p",
        ]
    )


RULES = ("RESTRICT", "CASCADE", "CASCADE", "SET NULL", "SET NULL")


def pointing(r: random.Random, to: str) -> str:
    """Columns with a foreign key whose rules are random. A table points to itself by `p`: the server takes no
    row whose primary key points to itself."""
    rule = f"ON DELETE {r.choice(RULES)} ON UPDATE {r.choice(RULES)}"
    column = "p" if "SET NULL" in rule or to == "t" else r.choice("kp")
    return f"(k INT PRIMARY KEY, p INT, FOREIGN KEY ({column}) REFERENCES {to} (k) {rule})"


def test_changes_at_random_of_tables_that_point_to_each_other(
    beside: MariaDbSource, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        r = random.Random(seed)
        names = (beside.name, "o")
        beside.run("SET foreign_key_checks = 0", *(f"CREATE OR REPLACE DATABASE {name}" for name in names))
        beside.run(
            "CREATE TABLE o.g (k INT PRIMARY KEY, p INT)",
            f"CREATE TABLE o.p {pointing(r, 'o.g')}",
            f"CREATE TABLE a {pointing(r, 'o.p')}",
            f"CREATE TABLE b {pointing(r, 'a')}",
            f"CREATE TABLE t {pointing(r, 't')}",
        )
        keys = ", ".join(f"({k}, {k})" for k in range(9))
        beside.run(*(f"INSERT INTO {table} VALUES {keys}" for table in ("o.g", "o.p", "a", "b", "t")))
        lake = beside.lake(chunk_rows=3, chunks=1)
        lake.catch_up()
        with beside.server.connect(database=beside.name) as connection, connection.cursor() as cursor:
            for _ in range(60):
                with contextlib.suppress(pymysql.Error):  # what a foreign key does not let be done
                    cursor.execute(change(r))
                if r.random() < 0.1:
                    lake.batch(repeat=r.random() < 0.3)
        lake.catch_up()
        lake.equals(beside)


@pytest.mark.parametrize("phase", ["snapshot", "log"])
def test_a_stream_of_one_table_ends_where_rows_are_missing_in_its_log(
    beside: MariaDbSource, phase: str
) -> None:
    beside.run(OUTSIDE, OF_O.format(SILENT), *ROWS)
    table = MysqlTable.open(beside.address, "a")
    start = table.next(table.initial()) if phase == "log" else table.initial()
    end = table.next(start) if phase == "snapshot" else start
    beside.run("UPDATE o.p SET v = 7", "DELETE FROM o.p WHERE k = 2", "INSERT INTO o.p VALUES (8, 8)")
    end = end if phase == "snapshot" else table.next(start)
    with pytest.raises(Unsupported, match=r"start with a new snapshot, or capture the database") as raised:
        [list(piece.read(table.schema.names)) for piece in table.pieces(start, end)]
    assert f"with those of {SourceName('o', 'p')}" in str(raised.value)
    again = MysqlTable.open(beside.address, "a")
    end = again.next(again.initial())
    batches = [batch for piece in again.pieces(again.initial(), end) for batch in piece.read(["k"])]
    assert sorted(k for rows, _ in batches for k in rows["k"].to_pylist()) == [1, 3]
