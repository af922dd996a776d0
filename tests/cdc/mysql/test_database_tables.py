"""Which tables of a database are captured, and by which key."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.capture.names import Patterns
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.source import CAPTURED, DROPPED, SKIPPED
from tablestore.cdc.capture.targets import name_refusal
from tablestore.cdc.databases.address import Address
from tablestore.cdc.mysql.database import MysqlDatabase
from tablestore.cdc.mysql.server import Connection
from tablestore.cdc.mysql.table_choice import TableChoice
from tablestore.core.errors import NotFound, Unsupported
from tests.cdc.databases.memory_lake import LastRowsLake
from tests.cdc.databases.sources import MariaDbSource
from tests.servers.mariadb import MariaDb


def test_tables_that_cannot_be_captured_are_skipped_with_the_reason(source: MariaDbSource) -> None:
    source.made(3, "a")
    source.run(
        "CREATE TABLE n (x INT, y VARCHAR(9))",
        "INSERT INTO n VALUES (1, 'a'), (2, 'b'), (NULL, 'c')",
        "CREATE TABLE g (k INT PRIMARY KEY, p POINT)",
    )
    lake = source.lake()
    lake.catch_up()
    assert lake.kinds() == [(CAPTURED, "a"), (SKIPPED, "g"), (SKIPPED, "n")]
    reasons = [event.reason for event in lake.events if event.kind == SKIPPED]
    assert "column 'p' of type point" in reasons[0]
    assert "it has no primary key" in reasons[1]
    source.run("UPDATE n SET y = 'd'", "DELETE FROM n WHERE x IS NULL", "ALTER TABLE n ADD PRIMARY KEY (x)")
    lake.catch_up()
    lake.source = source.opened(left_out=((f"{source.name}.g", ("p",)),))
    source.run("INSERT INTO g VALUES (1, NULL)")
    lake.catch_up()
    assert lake.kinds(3) == [(CAPTURED, "n"), (CAPTURED, "g")]
    assert lake.rows["n"] == {(1,): {"x": 1, "y": "d"}, (2,): {"x": 2, "y": "d"}}
    assert lake.rows["g"] == {(1,): {"k": 1}}
    source.run("ALTER TABLE n DROP PRIMARY KEY")
    lake.catch_up()
    assert lake.kinds(5) == [(SKIPPED, "n")]
    with pytest.raises(Unsupported, match="it has no primary key"):
        source.lake("a,n")
    with pytest.raises(NotFound, match="nowhere"):
        source.lake("a,nowhere")


def test_a_key_may_be_named_by_others(source: MariaDbSource) -> None:
    source.run("CREATE TABLE n (x INT, y VARCHAR(9))")
    source.run("INSERT INTO n SELECT seq, 'a' FROM seq_1_to_30", "INSERT INTO n VALUES (NULL, 'z')")
    lake = source.lake(chunk_rows=10, primary_keys=((f"{source.name}.n", ("x",)),))
    lake.catch_up()
    source.run("UPDATE n SET y = 'b' WHERE x > 20 OR x IS NULL", "DELETE FROM n WHERE x = 1")
    source.run("UPDATE n SET x = NULL WHERE x = 2", "UPDATE n SET x = 40 WHERE x = 3")
    lake.catch_up()
    rows = source.server.run(f"SELECT x, y FROM {source.name}.n WHERE x IS NOT NULL")
    assert lake.rows["n"] == {(x,): {"x": x, "y": y} for x, y in rows}
    assert len(rows) == 28
    shown = [(bad.kind, json.loads(bad.row), bad.seconds is None) for bad in lake.bad]
    assert shown == [
        (0, {"x": None, "y": "z"}, True),
        (2, {"x": None, "y": "b"}, False),
        (0, {"x": None, "y": "a"}, False),
    ]
    assert {bad.reason for bad in lake.bad} == {"column 'x' of the key has no value"}


def test_a_table_whose_foreign_key_changes_rows_unlogged_says_so(
    mariadb: MariaDb, database: str, address: Address, tmp_path: Path
):
    with mariadb.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE parent (k INT PRIMARY KEY)")
        cursor.execute(
            "CREATE TABLE child (k INT PRIMARY KEY, p INT, CONSTRAINT up FOREIGN KEY (p) "
            "REFERENCES parent (k) ON DELETE CASCADE ON UPDATE RESTRICT)"
        )
        cursor.execute("CREATE TABLE safe (k INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (k))")
    patterns = Patterns.of("*", database=database)
    lake = LastRowsLake(MysqlDatabase.open(address, TableChoice(patterns), checkpoint=str(tmp_path)))
    lake.catch_up()
    reasons = {event.table.table: event.reason for event in lake.events}
    assert reasons.keys() == {"parent", "child", "safe"}
    assert (reasons["parent"], reasons["safe"]) == ("", "")
    assert "foreign key 'up' (ON DELETE CASCADE)" in reasons["child"]


def test_a_name_that_no_table_of_the_lake_can_have_is_skipped_by_name(source: MariaDbSource) -> None:
    source.made(2, "ab")
    source.run("CREATE TABLE `b.c` (k INT PRIMARY KEY)", "CREATE TABLE `c$d` (k INT PRIMARY KEY)")
    rules = CaptureRules.of("*", database=source.name, into="ods")
    lake = source.lake(refusal=partial(name_refusal, rules))
    lake.catch_up()
    assert lake.kinds() == [(CAPTURED, "a"), (CAPTURED, "b"), (SKIPPED, "b.c"), (SKIPPED, "c$d")]
    assert "'b.c' has a dot" in lake.events[2].reason
    source.run("RENAME TABLE a TO `a.a`", "INSERT INTO `a.a` VALUES (77, 7, 'x')", "RENAME TABLE `b.c` TO c")
    lake.catch_up()
    assert lake.kinds(4) == [(DROPPED, "a"), (SKIPPED, "a.a"), (CAPTURED, "c")]
    assert (77,) not in lake.rows["a"]
    with pytest.raises(Unsupported, match="has a dot"):
        source.opened(f"{source.name}.a.a", refusal=partial(name_refusal, rules))


def test_a_plan_asks_the_schema_of_the_server_in_one_go(
    source: MariaDbSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    rows = Connection.rows

    def counted(connection: Connection, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        asked.append(statement)
        return rows(connection, statement, *values)

    monkeypatch.setattr(Connection, "rows", counted)
    times = []
    for tables in ("ab", "cdefghijkl"):
        source.run(*(f"CREATE TABLE {name} (k INT PRIMARY KEY)" for name in tables))
        captured = source.opened()
        asked.clear()
        end = captured.next(captured.initial())
        times.append(sum("information_schema" in statement for statement in asked))
    assert len(captured.events(captured.initial(), end)) == 12
    assert times[0] == times[1] > 0


def test_one_table_of_an_address_ends_when_all_is_read(lake: ts.Lake, source: MariaDbSource) -> None:
    source.run(
        "CREATE TABLE t (id INT PRIMARY KEY, d DATE)", "INSERT INTO t VALUES (1, '2024-02-03'), (2, NULL)"
    )
    more: dict[str, Any] = {"computed": {"y": "year(d)"}, "follow": False, "engine": "local"}
    job = lake.ingest(f"{source.url}.t", into="mine", interval="50ms", **more)
    assert job.wait(300)
    rows = lake.table("default.mine").scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["y"]) for row in rows] == [(1, 2024), (2, None)]
