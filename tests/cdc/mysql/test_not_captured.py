"""What would fail at the first row that is logged, or in the lake, is skipped at the start with its reason;
others go on."""

from __future__ import annotations

import pytest

from tablestore.cdc.capture.names import Patterns
from tablestore.cdc.capture.preview import preview
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.source import CAPTURED, SKIPPED
from tablestore.cdc.mysql.database import MysqlDatabase
from tablestore.cdc.mysql.stream import MysqlTable
from tablestore.core.errors import Unsupported
from tests.cdc.databases.sources import MariaDbSource

REASONS = {
    "z_versioned": ("(k INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING", "DROP SYSTEM VERSIONING"),
    "z_compressed": ("(k INT PRIMARY KEY, v TEXT COMPRESSED)", "without COMPRESSED"),
    "z_year": ("(k INT PRIMARY KEY, v YEAR(2))", r"YEAR\(2\)"),
    "z_big5": ("(k INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET big5)", "convert it to utf8mb4"),
    "z_dec8": ("(k INT PRIMARY KEY, v ENUM('a') CHARACTER SET dec8)", "convert it to utf8mb4"),
    "z_name": ("(k INT PRIMARY KEY, _SEQUENCE_NUMBER INT)", "left_out="),
    "z_point": ("(k INT PRIMARY KEY, v POINT)", "--leave-out db.table=v"),
}


def test_they_are_named_by_a_plan_and_skipped_while_others_go_on(source: MariaDbSource) -> None:
    source.made(3, "a")
    source.run(*(f"CREATE TABLE {name} {columns}" for name, (columns, _) in REASONS.items()))
    rules = CaptureRules.of("*", database=source.name, into="ods")
    planned = {
        planned_table.source.table: planned_table.reason for planned_table in preview(source.opened(), rules)
    }
    assert planned.keys() == {"a", *REASONS}
    lake = source.lake()
    lake.catch_up()
    skipped = {event.table.table: event.reason for event in lake.events if event.kind == SKIPPED}
    for name, (_, reason) in REASONS.items():
        with pytest.raises(Unsupported, match=reason):
            raise Unsupported(name, skipped[name])
        assert planned[name] == skipped[name]
        with pytest.raises(Unsupported, match=reason):
            MysqlTable.open(source.address, name)
    source.run("INSERT INTO a VALUES (901, 1, 'x')", "INSERT INTO z_big5 VALUES (1, 'a')")
    source.run("INSERT INTO z_versioned VALUES (1, 1)", "UPDATE z_versioned SET v = 2")
    lake.catch_up()
    assert (901,) in lake.rows["a"]
    out = ((f"{source.name}.z_[bnpd]*", ("v", "_SEQUENCE_NUMBER")),)
    lake.source = source.opened(left_out=out)
    source.run("INSERT INTO z_point VALUES (1, NULL)")
    lake.catch_up()
    names = {event.table.table for event in lake.events if event.kind == CAPTURED}
    assert names == {"a", "z_big5", "z_dec8", "z_name", "z_point"}
    assert lake.rows["z_point"] == {(1,): {"k": 1}}
    assert lake.rows["z_big5"] == {(1,): {"k": 1}}


def test_a_table_that_becomes_one_of_them_is_skipped_and_others_go_on(source: MariaDbSource) -> None:
    source.made(3)
    lake = source.lake()
    lake.catch_up()
    source.run("ALTER TABLE a ADD SYSTEM VERSIONING", "UPDATE a SET v = 9", "UPDATE c SET v = 9")
    source.run("ALTER TABLE b MODIFY s VARCHAR(9) CHARACTER SET ujis", "UPDATE b SET s = 'x'")
    lake.catch_up()
    assert lake.kinds(3) == [(SKIPPED, "a"), (SKIPPED, "b")]
    assert {row["v"] for row in lake.rows["c"].values()} == {9}
    assert isinstance(lake.source, MysqlDatabase)
    assert isinstance(lake.source.choice.patterns, Patterns)
