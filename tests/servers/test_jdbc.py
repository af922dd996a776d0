"""Java Paimon's jdbc catalog and ours on one SQL database: each works on the tables of the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.servers.java_catalog import JavaCatalog

COLUMNS = {"k": ts.INT, "v": ts.STRING}


@pytest.fixture
def options(sql_uri: str, tmp_path: Path) -> dict[str, Any]:
    """Options that both understand.

    With locks on PostgreSQL only: where the lock table is there already, Java 2.0.0 leaves a result set open,
    which keeps a SQLite file locked for everybody else.
    """
    given = {"metastore": "jdbc", "warehouse": str(tmp_path / "lake"), "catalog_key": tmp_path.name}
    if "sqlite" in sql_uri:
        return {**given, "uri": sql_uri, "lock_enabled": "false"}
    uri = sql_uri.replace("postgresql://postgres@", "jdbc:postgresql://")
    return {**given, "uri": uri, "jdbc.user": "postgres", "lock_enabled": "true"}


def rows(table: ts.Table) -> list[list[str]]:
    return sorted([str(r["k"]), r["v"]] for r in table.scan().to_arrow().to_pylist())


@pytest.mark.large
def test_each_goes_on_with_the_tables_of_the_other(options: dict[str, Any], java_jdbc: JavaCatalog) -> None:
    java = java_jdbc.open(**options)
    java.ask("createdb", "java")
    java.ask("create", "java", "t")
    java.ask("write", "java", "t", 1, "1:a,2:b")
    lake = ts.connect(**options)
    assert lake.tables() == ["java.t"]
    lake.table("java.t").write([{"k": 2, "v": "c"}, {"k": 3, "v": "d"}])
    assert java.ask("rows", "java", "t") == [["1", "a"], ["2", "c"], ["3", "d"]]

    lake.create_table("ours.t", schema=COLUMNS, primary_key=["k"]).write([{"k": 1, "v": "x"}])
    assert (java.names("databases"), java.names("tables", "ours")) == (["java", "ours"], ["t"])
    java.ask("write", "ours", "t", 1, "7:z")
    assert rows(lake.table("ours.t")) == [["1", "x"], ["7", "z"]]
    assert lake.table("ours.t").check() == []


@pytest.mark.large
@pytest.mark.sample(1)
def test_each_sees_what_the_other_altered_renamed_and_dropped(
    options: dict[str, Any], java_jdbc: JavaCatalog
) -> None:
    lake = ts.connect(**options)
    java = java_jdbc.open(**options)
    lake.create_table("shop.a", schema=COLUMNS, primary_key=["k"]).write([{"k": 1, "v": "x"}])
    java.ask("add", "shop", "a", "w")
    java.ask("set", "shop", "a", "write-only", "true")
    assert lake.table("shop.a").schema.names == ["k", "v", "w"]
    assert lake.table("shop.a").options["write-only"] == "true"
    lake.table("shop.a").alter(ts.reset_options("write-only"), ts.drop("w"))
    assert "write-only" not in dict(java.ask("options", "shop", "a"))
    java.ask("rename", "shop", "a", "shop", "b")
    assert lake.tables() == ["shop.b"]
    lake.create_database("old")
    lake.rename_table("shop.b", "old.c")
    assert java.ask("rows", "old", "c") == [["1", "x"]]
    with pytest.raises(AssertionError, match="AlreadyExist"):
        java.ask("create", "old", "c")
    java.ask("drop", "old", "c")
    assert "old.c" not in lake
    java.ask("create", "shop", "d")
    lake.drop_table("shop.d")
    assert java.names("tables", "shop") == []
    lake.drop_database("shop")
    java.ask("dropdb", "old")
    assert lake.databases() == java.names("databases") == []


def test_the_registry_holds_what_java_writes(options: dict[str, Any], java_jdbc: JavaCatalog) -> None:
    lake = ts.connect(**options)
    java = java_jdbc.open(**options)
    java.ask("createdb", "java")
    lake.create_database("ours")
    java.ask("create", "java", "t", "write-only=true")
    lake.create_table("ours.t", schema=COLUMNS, primary_key=["k"], options={"bucket": 1, "write-only": True})
    java.ask("set", "java", "t", "bucket", "1")

    def stored_rows(table: str, database: str) -> list[tuple[object, ...]]:
        select = f"SELECT * FROM {table} WHERE catalog_key = ? AND database_name = ?"
        with lake._catalog.server.session() as session:
            rows = session.rows(select, options["catalog_key"], database)
        plain = [tuple(str(c).replace(f"/{database}.db", "/x.db") for c in row[2:]) for row in rows]
        return sorted(row for row in plain if "tablestore.uuid" not in row)

    for table in ("paimon_tables", "paimon_database_properties", "paimon_table_properties"):
        assert stored_rows(table, "ours") == stored_rows(table, "java") != [], table


@pytest.mark.parametrize("sql_uri", ["postgres"], indirect=True)
@pytest.mark.large
def test_a_lock_of_ours_stops_java_until_it_is_given_back(
    options: dict[str, Any], java_jdbc: JavaCatalog
) -> None:
    lake = ts.connect(**options)
    lake.create_table("shop.a", schema=COLUMNS, primary_key=["k"], options={"commit.max-retries": 1})
    hasty = {**options, "lock_acquire_timeout": "1 s", "lock_check_max_sleep": "100 ms"}
    java = java_jdbc.open(**hasty)
    with lake._catalog.hold("shop", "a"), pytest.raises(AssertionError, match="Commit failed"):
        java.ask("write", "shop", "a", 1, "1:a")
    java.ask("write", "shop", "a", 2, "2:b")
    assert rows(lake.table("shop.a")) == [["2", "b"]]


def test_views_and_properties_of_databases_are_the_same_to_both(
    options: dict[str, Any], java_jdbc: JavaCatalog
) -> None:
    lake = ts.connect(**options)
    java = java_jdbc.open(**options)
    java.ask("createdbwith", "shop", "comment=of Java,team=a")
    assert {k: v for k, v in lake.database_properties("shop").items() if k != "location"} == {
        "comment": "of Java",
        "team": "a",
    }
    lake.alter_database("shop", {"team": "b", "comment": None})
    assert [pair for pair in java.ask("dbproperties", "shop") if pair[0] != "location"] == [["team", "b"]]
    lake.create_table("shop.t", schema=COLUMNS, primary_key=["k"]).write([{"k": 1, "v": "x"}])
    lake.sql("CREATE VIEW shop.ours (n COMMENT 'the key') COMMENT 'made here' AS SELECT k FROM shop.t")
    java.ask("createview", "shop", "theirs", "n=INT", "SELECT k + 1 FROM `shop`.`t`", "made there")
    assert java.names("views", "shop") == lake.views("shop") == ["ours", "theirs"]
    assert java.ask("view", "shop", "ours") == [
        ["n", "INT NOT NULL", "the key"],
        ["query", "SELECT k FROM `shop`.`t`"],
        ["comment", "made here"],
    ]
    assert lake.sql("SELECT n FROM shop.theirs").to_arrow().to_pylist() == [{"n": 2}]
    java.ask("renameview", "shop", "ours", "shop", "renamed")
    lake.rename_view("shop.theirs", "shop.other")
    assert java.names("views", "shop") == lake.views("shop") == ["other", "renamed"]
    java.ask("dropview", "shop", "other")
    lake.drop_view("shop.renamed")
    assert java.names("views", "shop") == lake.views("shop") == []
