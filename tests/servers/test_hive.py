"""Java Paimon's Hive catalog, Spark and ours on one metastore: each sees what the others made."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.catalog import metastore
from tablestore.catalog.metastore import types
from tablestore.core.errors import AlreadyExists, InvalidRequest, Unavailable, Unsupported
from tablestore.format.types.arrow_types import DataField
from tablestore.format.types.type_text import parse_type
from tests.servers.hive import JARS
from tests.servers.java_catalog import JavaCatalog
from tests.suite import counterparts

COLUMNS = {"k": ts.INT, "v": ts.STRING}
TYPES = {
    "a": "BOOLEAN",
    "b": "TINYINT",
    "c": "SMALLINT",
    "d": "BIGINT",
    "e": "FLOAT",
    "f": "DOUBLE",
    "g": "DECIMAL(20, 4)",
    "h": "CHAR(10)",
    "i": "VARCHAR(100)",
    "j": "BINARY(4)",
    "l": "BYTES",
    "m": "DATE",
    "n": "TIME(3)",
    "o": "TIMESTAMP(3)",
    "p": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "q": "ARRAY<INT>",
    "r": "MAP<STRING, ARRAY<INT>>",
    "s": "MULTISET<STRING>",
    "t": "ROW<x INT, y ROW<z STRING>>",
    "u": "CHAR(300)",
}


@pytest.fixture
def options(hive: str, tmp_path: Path) -> dict[str, Any]:
    return {"metastore": "hive", "uri": hive, "warehouse": str(tmp_path / "lake")}


@pytest.fixture
def lake(options: dict[str, Any]) -> ts.Lake:
    """The metastore is shared by the tests of a run, so what they made before goes first."""
    actual = ts.connect(**options)
    for database in set(actual.databases()) - {"default"}:
        actual.drop_database(database, cascade=True)
    return actual


def rows(table: ts.Table) -> list[list[str]]:
    return sorted([str(r["k"]), r["v"]] for r in table.scan().to_arrow().to_pylist())


def entry(lake: ts.Lake, database: str, table: str) -> Any:
    with lake._catalog.server.session() as client:
        return client.get_table(database, table)


def plain(actual: Any) -> dict[str, Any]:
    """What of a metastore's table says what it is; times, sizes and ids are not."""
    own = ("transient_lastDdlTime", "totalSize", "numFiles", "tablestore.uuid")
    parameters = {k: v for k, v in actual.parameters.items() if k not in own}
    sd = actual.sd
    return {
        "columns": [(c.name, c.type, c.comment) for c in sd.cols],
        "classes": (sd.inputFormat, sd.outputFormat, sd.serdeInfo.serializationLib, sd.serdeInfo.parameters),
        "location": sd.location.replace(f"/{actual.tableName}", "/T"),
        "kind": (actual.tableType, actual.owner, actual.retention, actual.partitionKeys),
        "parameters": parameters,
    }


@pytest.mark.large
def test_views_and_properties_of_databases_are_the_same_to_both(
    lake: ts.Lake, options: dict[str, Any], java_hive: JavaCatalog
) -> None:
    java = java_hive.open(**options)
    java.ask("createdbwith", "shop", "comment=of Java,team=a")
    actual = lake.database_properties("shop")
    assert (actual["comment"], actual["team"]) == ("of Java", "a")
    lake.alter_database("shop", {"team": "b"})
    assert {"comment": "of Java", "team": "b"}.items() <= dict(java.ask("dbproperties", "shop")).items()
    with pytest.raises(Unsupported, match="this metastore keeps the first"):
        lake.alter_database("shop", {"team": "c", "comment": "ours"})
    assert lake.database_properties("shop")["team"] == "b"
    lake.create_table("shop.t", schema=COLUMNS, primary_key=["k"]).write([{"k": 1, "v": "x"}])
    lake.sql("CREATE VIEW shop.ours (n COMMENT 'the key') COMMENT 'made here' AS SELECT k FROM shop.t")
    java.ask("createview", "shop", "theirs", "n=INT", "SELECT k + 1 FROM `shop`.`t`", "made there")
    assert java.names("views", "shop") == lake.views("shop") == ["ours", "theirs"]
    assert (java.names("tables", "shop"), lake.tables("shop")) == (["t"], ["t"])
    assert java.ask("view", "shop", "ours") == [
        ["n", "INT", "the key"],
        ["query", "SELECT k FROM `shop`.`t`"],
        ["comment", "made here"],
    ]
    assert lake.view("shop.theirs").comment == "made there"
    assert lake.sql("SELECT n FROM shop.theirs").to_arrow().to_pylist() == [{"n": 2}]
    lake.sql("ALTER VIEW shop.ours AS SELECT v FROM shop.t")
    assert java.ask("view", "shop", "ours")[0] == ["v", "STRING", ""]
    java.ask("renameview", "shop", "ours", "shop", "renamed")
    lake.rename_view("shop.theirs", "shop.other")
    assert java.names("views", "shop") == lake.views("shop") == ["other", "renamed"]
    java.ask("dropview", "shop", "other")
    with pytest.raises(AlreadyExists, match="is a view"):
        lake.create_table("shop.renamed", schema=COLUMNS)
    lake.drop_view("shop.renamed")
    assert java.names("views", "shop") == lake.views("shop") == []


def test_each_goes_on_with_the_tables_of_the_other(
    lake: ts.Lake, options: dict[str, Any], java_hive: JavaCatalog
) -> None:
    java = java_hive.open(**options, lock_enabled="true")
    java.ask("createdb", "shop")
    java.ask("create", "shop", "theirs")
    java.ask("write", "shop", "theirs", 1, "1:a,2:b")
    assert lake.tables() == ["shop.theirs"]
    locked = ts.connect(**options, lock_enabled=True)
    locked.table("shop.theirs").write([{"k": 2, "v": "c"}, {"k": 3, "v": "d"}])
    assert java.ask("rows", "shop", "theirs") == [["1", "a"], ["2", "c"], ["3", "d"]]

    locked.create_table("shop.ours", schema=COLUMNS, primary_key=["k"]).write([{"k": 1, "v": "x"}])
    java.ask("write", "shop", "ours", 1, "7:z")
    java.ask("add", "shop", "ours", "w")
    java.ask("rename", "shop", "ours", "shop", "mine")
    assert lake.tables() == ["shop.mine", "shop.theirs"]
    assert rows(lake.table("shop.mine")) == [["1", "x"], ["7", "z"]]
    assert lake.table("shop.mine").check() == []
    locked.rename_table("shop.mine", "shop.yours")
    assert java.ask("rows", "shop", "yours") == [["1", "x"], ["7", "z"]]
    locked.drop_table("shop.yours")
    java.ask("drop", "shop", "theirs")
    assert (lake.tables("shop"), java.names("tables", "shop")) == ([], [])


@pytest.mark.large
def test_the_metastore_holds_what_java_writes(
    lake: ts.Lake, options: dict[str, Any], java_hive: JavaCatalog
) -> None:
    java = java_hive.open(**options)
    lake.create_database("shop")
    java.ask("createdb", "java")
    java.ask("create", "shop", "t1", "target-file-size=1 mb")
    schema = [DataField(0, "k", ts.INT.not_null(), "the key"), DataField(1, "v", ts.STRING)]
    lake.create_table(
        "shop.t2",
        schema=schema,
        primary_key=["k"],
        options={"bucket": 1, "target-file-size": "1 mb"},
        comment="made by Java",
    )
    assert plain(entry(lake, "shop", "t2")) == plain(entry(lake, "shop", "t1"))
    for change in (["add", "w"], ["set", "write-only", "true"], ["unset", "target-file-size"]):
        java.ask(change[0], "shop", "t1", *change[1:])
    ours = lake.table("shop.t2").alter(ts.add("w", ts.STRING))
    ours.alter(ts.set_options({"write-only": "true"})).alter(ts.reset_options("target-file-size"))
    assert plain(entry(lake, "shop", "t2")) == plain(entry(lake, "shop", "t1"))
    with lake._catalog.server.session() as client:
        ours, theirs = (client.get_database(name) for name in ("shop", "java"))
    assert ours.locationUri.replace("shop", "java") == theirs.locationUri
    assert ours.parameters == theirs.parameters


@pytest.mark.large
def test_columns_have_the_types_java_gives_them(
    lake: ts.Lake, options: dict[str, Any], java_hive: JavaCatalog
) -> None:
    lake.create_database("shop")
    java = java_hive.open(**options)
    lake.create_table("shop.ours", schema=TYPES)
    schema = lake.table("shop.ours").store.schema
    java.ask("createtypes", "shop", "theirs", json.dumps({f.name: f.type.to_json() for f in schema.fields}))
    ours = metastore.columns(schema)
    assert [(c.name, c.type) for c in ours] == [
        (c.name, c.type) for c in entry(lake, "shop", "theirs").sd.cols
    ]


CONNECTOR = {
    "PaimonStorageHandler": "extends org.apache.hadoop.hive.ql.metadata.DefaultStorageHandler",
    "PaimonSerDe": "extends org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
    "mapred.PaimonInputFormat": "extends org.apache.hadoop.mapred.TextInputFormat",
    "mapred.PaimonOutputFormat": "extends org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
}


def connector(folder: Path) -> Path:
    """Classes of the names a table's entry holds, without Paimon's code.

    Spark loads them to describe a table, and the real connector is in no registry at hand.
    """
    sources = []
    for name, parent in CONNECTOR.items():
        package, _, simple = f"org.apache.paimon.hive.{name}".rpartition(".")
        source = folder / f"{simple}.java"
        source.write_text(
            f"package {package}; public class {simple} {parent} {{ public {simple}() throws Exception {{}} }}"
        )
        sources.append(str(source))
    classes = folder / "classes"
    command = ["javac", "-nowarn", "-cp", f"{JARS}/*", "-d", str(classes), *sources]
    counterparts.need("Java Paimon")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return classes


@pytest.mark.spark
@pytest.mark.large
def test_spark_describes_our_table(lake: ts.Lake, hive: str, tmp_path: Path) -> None:
    columns = {**COLUMNS, "price": "DECIMAL(10, 2)", "tags": "ARRAY<STRING>"}
    lake.create_table("shop.orders", schema=columns, primary_key=["k"], comment="what was sold")
    program = f"""
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.hadoop.hive.metastore.uris", {hive!r})
    .config("spark.driver.extraClassPath", {str(connector(tmp_path))!r})
    .config("spark.sql.warehouse.dir", {str(tmp_path / "spark")!r}).enableHiveSupport().getOrCreate())
print("TABLES", [r.tableName for r in spark.sql("SHOW TABLES IN shop").collect()])
print("COLUMNS", [(r.col_name, r.data_type) for r in spark.sql("DESCRIBE shop.orders").collect()])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    described = [("k", "int"), ("v", "string"), ("price", "decimal(10,2)"), ("tags", "array<string>")]
    assert "TABLES ['orders']" in done.stdout
    assert f"COLUMNS {described}" in done.stdout


@pytest.mark.large
def test_an_external_table_keeps_its_files(
    lake: ts.Lake, options: dict[str, Any], java_hive: JavaCatalog, tmp_path: Path
) -> None:
    place = tmp_path / "elsewhere"
    table = lake.create_table("shop.x", schema=COLUMNS, primary_key=["k"], options={"path": str(place)})
    table.write([{"k": 1, "v": "a"}])
    assert (table.location, entry(lake, "shop", "x").tableType) == (str(place), "EXTERNAL_TABLE")
    java = java_hive.open(**options)
    assert java.ask("rows", "shop", "x") == [["1", "a"]]
    lake.drop_table("shop.x")
    assert rows(ts.open(place)) == [["1", "a"]]
    again = lake.create_table("shop.y", schema=COLUMNS, primary_key=["k"], options={"path": str(place)})
    assert rows(again) == [["1", "a"]]
    lake.rename_table("shop.y", "shop.z")
    assert rows(lake.table("shop.z")) == [["1", "a"]]
    with pytest.raises(AlreadyExists, match="other columns"):
        lake.create_table("shop.w", schema={"other": ts.INT}, options={"path": str(place)})


def test_a_schema_that_the_metastore_refuses_is_taken_back(lake: ts.Lake) -> None:
    store = lake.create_table("shop.t", schema=COLUMNS, primary_key=["k"]).store
    with lake._catalog.server.session() as client:
        client.drop_table("shop", "t", False)
    with pytest.raises(ts.NotFound):
        store.schemas.commit(replace(store.schema, id=1))
    assert store.schemas.ids() == [0]
    lake.repair_table("shop.t")
    assert store.schemas.commit(replace(store.schema, id=1))
    assert lake.table("shop.t").store.schema.id == 1


def test_names_are_lower_case_there(lake: ts.Lake) -> None:
    with pytest.raises(InvalidRequest, match="lower-case"):
        lake.create_table("shop.Orders", schema=COLUMNS)
    with pytest.raises(InvalidRequest, match="lower-case"):
        lake.create_table("shop.orders", schema={"K": ts.INT})
    with pytest.raises(InvalidRequest, match="lower-case"):
        lake.create_database("Shop")
    assert lake.tables("shop") == []


def test_a_taken_lock_names_its_holder(lake: ts.Lake, options: dict[str, Any]) -> None:
    hasty = ts.connect(**options, lock_enabled=True, lock_acquire_timeout="500 ms")
    table = hasty.create_table("shop.t", schema=COLUMNS, primary_key=["k"])
    with hasty._catalog.hold("shop", "t"), pytest.raises(Unavailable, match=r"shop\.t is held by \S+@\S+"):
        table.write([{"k": 1, "v": "a"}])
    table.write([{"k": 2, "v": "b"}])
    assert rows(table) == [["2", "b"]]


def test_other_tables_of_the_metastore_are_not_ours(lake: ts.Lake) -> None:
    lake.create_database("shop")
    with lake._catalog.server.session() as client:
        client.create_table(a_table_of_text())
    assert lake.tables("shop") == []
    with pytest.raises(AlreadyExists, match="not of Paimon's format"):
        lake.create_table("shop.csv", schema=COLUMNS)


def a_table_of_text() -> Any:
    t = types()
    return t.Table(
        tableName="csv",
        dbName="shop",
        sd=t.StorageDescriptor(
            cols=[t.FieldSchema(name="a", type="int")],
            inputFormat="org.apache.hadoop.mapred.TextInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
            serdeInfo=t.SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
        ),
        parameters={},
        partitionKeys=[],
        tableType="MANAGED_TABLE",
    )


def test_a_metastore_that_is_not_there_is_named(tmp_path: Path) -> None:
    lake = ts.connect(metastore="hive", uri="thrift://127.0.0.1:1", warehouse=tmp_path)
    with pytest.raises(Unavailable, match=r"thrift://127\.0\.0\.1:1"):
        lake.databases()


@pytest.mark.parametrize("name", TYPES)
def test_types_of_views_come_back_from_their_names_in_hive(name: str) -> None:
    kind = parse_type(TYPES[name])
    back = metastore.paimon_type(metastore.hive_type(kind))
    assert metastore.hive_type(back) == metastore.hive_type(kind)
