"""Rows that a statement of the log changes, without images of them: the tables are read again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tablestore.core.errors import Unsupported
from tests.cdc.databases.sources import MariaDbSource

STATEMENT = "SET SESSION binlog_format = STATEMENT"
WAYS: dict[str, tuple[list[str], list[str]]] = {
    "itself": ([], ["UPDATE a SET v = v + 100", "DELETE FROM a WHERE k < 4"]),
    "a view": (
        ["CREATE VIEW o.w AS SELECT k, v FROM {name}.a WHERE v > 3", "CREATE VIEW o.x AS SELECT * FROM o.w"],
        ["UPDATE o.x SET v = v + 100"],
    ),
    "a trigger": (
        [
            "CREATE TABLE o.t (x INT)",
            "CREATE TRIGGER o.g AFTER INSERT ON o.t FOR EACH ROW DELETE FROM {name}.a WHERE k = NEW.x",
        ],
        ["INSERT INTO o.t VALUES (4), (6)"],
    ),
    "a trigger of a view": (
        [
            "CREATE TABLE o.t (x INT)",
            "CREATE VIEW o.w AS SELECT * FROM o.t",
            "CREATE TRIGGER o.g AFTER INSERT ON o.t FOR EACH ROW DELETE FROM {name}.a WHERE k = NEW.x",
        ],
        ["INSERT INTO o.w VALUES (4), (6)"],
    ),
    "a function": (
        [
            "CREATE FUNCTION o.f() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN DELETE FROM {name}.a "
            "WHERE k = 4; RETURN 1; END",
        ],
        ["DO o.f()", "SELECT o.f()"],
    ),
    "a prefix": ([], ["SET STATEMENT max_statement_time = 9 FOR DELETE FROM a WHERE k = 4"]),
    "executable comments": ([], ["/*!50001 DELETE */ FROM a WHERE k = 4"]),
    "images of another beside it": (
        ["SET SESSION binlog_format = ROW"],
        [
            "SET SESSION binlog_format = MIXED",
            "START TRANSACTION",
            "INSERT INTO b VALUES (UUID(), 7, 'x')",
            "DELETE FROM a WHERE k = 4",
            "INSERT INTO b VALUES (UUID(), 8, 'x')",
            "COMMIT",
        ],
    ),
}


@pytest.fixture
def seen(source: MariaDbSource) -> Iterator[MariaDbSource]:
    """A source whose triggers and views the reader may see; beside it is a database o."""
    source.run("GRANT TRIGGER, SHOW VIEW ON *.* TO reader@'127.0.0.1'", "CREATE OR REPLACE DATABASE o")
    source.run("SET GLOBAL log_bin_trust_function_creators = 1")
    yield source
    source.run("REVOKE TRIGGER, SHOW VIEW ON *.* FROM reader@'127.0.0.1'", "DROP DATABASE o")
    source.run("SET GLOBAL log_bin_trust_function_creators = 0")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sample(1)
def test_a_table_that_a_statement_changes_is_read_again(seen: MariaDbSource, way: str) -> None:
    before, changes = WAYS[way]
    seen.made(10)
    seen.run("ALTER TABLE b MODIFY k VARCHAR(40)")
    seen.run(*(statement.format(name=seen.name) for statement in before))
    lake = seen.lake()
    lake.catch_up()
    begin = len(lake.events)
    seen.run(STATEMENT, *changes)
    seen.run("INSERT INTO a VALUES (1001, 1, 'n')")
    lake.catch_up()
    lake.equals(seen)
    assert len(lake.rows["a"]) in (9, 10, 11)
    assert ("altered", "a") in lake.kinds(begin)
    assert ("altered", "c") not in lake.kinds(begin)


def test_load_data_as_a_statement(seen: MariaDbSource) -> None:
    seen.made(3, "a")
    lake = seen.lake()
    lake.catch_up()
    file = seen.checkpoint / "rows.csv"
    file.write_text("901\t1\tx\n902\t2\ty\n")
    seen.run(STATEMENT, f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE a")
    lake.catch_up()
    lake.equals(seen)
    assert len(lake.rows["a"]) == 5


def test_statements_about_others_are_passed_over(seen: MariaDbSource) -> None:
    seen.made(3, "a")
    seen.run("CREATE TABLE o.t (x INT)")
    lake = seen.lake()
    lake.catch_up()
    begin = len(lake.events)
    seen.run(STATEMENT, "INSERT INTO o.t VALUES (1)", "UPDATE o.t SET x = 2")
    seen.run("INSERT INTO a VALUES (1001, 1, 'n')")
    lake.catch_up()
    lake.equals(seen)
    assert lake.kinds(begin) == []


def test_who_may_not_see_triggers_stops_with_the_right_to_grant(source: MariaDbSource) -> None:
    source.made(3, "a")
    source.run("CREATE OR REPLACE DATABASE o", "CREATE TABLE o.t (x INT)")
    try:
        lake = source.lake()
        lake.catch_up()
        source.run(STATEMENT, "INSERT INTO o.t VALUES (1)")
        with pytest.raises(Unsupported, match="GRANT TRIGGER, SHOW VIEW") as raised:
            lake.catch_up()
        assert str(source.address.user) in str(raised.value)
        source.run("GRANT TRIGGER, SHOW VIEW ON *.* TO reader@'127.0.0.1'")
        lake.catch_up()
        lake.equals(source)
    finally:
        source.run("DROP DATABASE o", "REVOKE TRIGGER, SHOW VIEW ON *.* FROM reader@'127.0.0.1'")
