"""SHOW, DESCRIBE, catalogs, databases and views: what there is, with the columns that Flink gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, TablestoreError
from tablestore.sql import Session, SqlProblem


def rows(session: Session, text: str, parameters: Any = None) -> list[dict[str, Any]]:
    return session.sql(text, parameters).to_arrow().to_pylist()


def column(session: Session, text: str) -> list[Any]:
    (values,) = session.sql(text).to_arrow().columns
    return values.to_pylist()


def test_catalogs_come_and_go(tmp_path: Path) -> None:
    session = ts.sql_session()
    with pytest.raises(ts.InvalidRequest, match="there is no catalog yet"):
        session.sql("SHOW TABLES FROM x")
    for name in ("one", "two"):
        session.sql(f"CREATE CATALOG {name} WITH ('type' = 'table-store', 'warehouse' = '{tmp_path}/{name}')")
    session.sql("CREATE CATALOG IF NOT EXISTS one")
    assert column(session, "SHOW CATALOGS") == ["one", "two"]
    assert column(session, "SHOW CATALOGS LIKE 't%'") == ["two"]
    session.sql("USE CATALOG one; CREATE DATABASE shop; USE shop; CREATE TABLE t (a INT)")
    session.sql("CREATE TABLE two.`default`.t2 (a INT)")
    assert column(session, "SHOW CURRENT CATALOG") == ["one"]
    assert column(session, "SHOW CURRENT DATABASE") == ["shop"]
    assert column(session, "SHOW TABLES IN two.`default`") == ["t2"]
    assert column(session, "SHOW DATABASES FROM two") == ["default"]
    with pytest.raises(ts.InvalidRequest, match="is the current one"):
        session.sql("DROP CATALOG one")
    session.sql("DROP CATALOG two; DROP CATALOG IF EXISTS two")
    assert (tmp_path / "two" / "default.db" / "t2").is_dir()
    with pytest.raises(ts.NotFound, match="no catalog 'two'"):
        session.sql("DROP CATALOG two")


def test_a_jdbc_catalog(tmp_path: Path) -> None:
    session = ts.sql_session()
    place = f"'warehouse' = '{tmp_path}', 'uri' = 'sqlite:{tmp_path}/c.sqlite'"
    session.sql(f"CREATE CATALOG c WITH ('type' = 'paimon', 'metastore' = 'jdbc', {place}); USE CATALOG c")
    session.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT)")
    assert ts.connect(metastore="jdbc", warehouse=tmp_path, uri=f"sqlite:{tmp_path}/c.sqlite").tables() == [
        "shop.t"
    ]


def test_secrets_of_a_catalog_are_not_echoed(tmp_path: Path) -> None:
    session = ts.sql_session()
    session.sql(f"CREATE CATALOG c WITH ('warehouse' = '{tmp_path}', 's3.secret-key' = 'hush')")
    (text,) = column(session, "SHOW CREATE CATALOG c")
    assert text == (
        "CREATE CATALOG `c`\nWITH (\n  's3.secret-key' = '***',\n  'type' = 'paimon',\n"
        f"  'warehouse' = '{tmp_path}'\n)\n"
    )
    described = rows(session, "DESCRIBE CATALOG EXTENDED c")
    assert {"info name": "option:s3.secret-key", "info value": "***"} in described
    with pytest.raises(TablestoreError) as e:
        session.sql("CREATE CATALOG d WITH ('type' = 'jdbc', 'password' = 'hush')")
    assert "a catalog of type 'jdbc'" in str(e.value)


def test_databases(session: Session) -> None:
    session.sql("CREATE DATABASE `a b`; CREATE DATABASE IF NOT EXISTS `a b`; CREATE TABLE `a b`.t (x INT)")
    assert column(session, "SHOW DATABASES") == ["a b", "shop"]
    assert column(session, "SHOW DATABASES NOT LIKE 'a%'") == ["shop"]
    assert column(session, "SHOW DATABASES ILIKE 'SHO_'") == ["shop"]
    with pytest.raises(ts.InvalidRequest, match="holds 1 tables: drop them, or write CASCADE"):
        session.sql("DROP DATABASE `a b`")
    session.sql("DROP DATABASE lake.`a b` CASCADE; DROP DATABASE IF EXISTS `a b`")
    with pytest.raises(ts.Unsupported, match="ALTER DATABASE"):
        session.sql("ALTER DATABASE shop SET ('a' = 'b')")
    assert "without its comment" in session.sql("CREATE DATABASE d COMMENT 'x'").message
    with pytest.raises(ts.NotFound, match=r"line 2, column 6: no database 'shp'; did you mean shop"):
        session.sql("\n USE shp")


def test_tables_and_columns(session: Session) -> None:
    session.sql("CREATE TEMPORARY TABLE words (w STRING) WITH ('connector' = 'datagen')")
    session.sql("CREATE TEMPORARY VIEW large AS SELECT * FROM orders")
    assert column(session, "SHOW TABLES") == ["events", "large", "orders", "words"]
    assert column(session, "SHOW TABLES IN shop LIKE '%s'") == ["events", "orders", "words"]
    assert column(session, "SHOW VIEWS") == ["large"]
    assert [r["name"] for r in rows(session, "SHOW COLUMNS FROM orders LIKE '%t'")] == ["amount"]
    assert rows(session, "SHOW TBLPROPERTIES orders ('bucket')") == [{"key": "bucket", "value": "2"}]
    assert rows(session, "SHOW TBLPROPERTIES words") == [{"key": "connector", "value": "datagen"}]


def test_describe_has_the_columns_of_flink(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (k INT COMMENT 'it''s', d STRING DEFAULT 'x', w AS k * 2, ts TIMESTAMP(3), "
        "WATERMARK FOR ts AS ts, PRIMARY KEY (k, d) NOT ENFORCED) PARTITIONED BY (d)"
    )
    nothing = dict.fromkeys(["key", "extras", "watermark", "comment"])
    described = [
        {**nothing, "name": "k", "type": "INT", "null": False, "key": "PRI(k, d)", "comment": "it's"},
        {
            **nothing,
            "name": "d",
            "type": "STRING",
            "null": False,
            "key": "PRI(k, d)",
            "extras": "DEFAULT 'x'",
        },
        {**nothing, "name": "w", "type": "INT", "null": False, "extras": "AS `k` * 2"},
        {**nothing, "name": "ts", "type": "TIMESTAMP(3)", "null": True, "watermark": "`ts`"},
    ]
    assert rows(session, "DESCRIBE t") == described
    assert rows(session, "DESC EXTENDED t") == described
    assert "comment" not in rows(session, "DESCRIBE events")[0]
    assert rows(session, "DESCRIBE orders$snapshots")[0]["name"] == "snapshot_id"


def test_describe_database(session: Session) -> None:
    (name, comment, location) = rows(session, "DESCRIBE DATABASE shop")
    assert (name["info value"], comment["info value"]) == ("shop", None)
    assert location["info value"].endswith("/shop.db")


def test_describe_detail(session: Session) -> None:
    (detail,) = rows(session, "DESCRIBE DETAIL TABLE orders")
    assert list(detail) == [
        "name",
        "log.kafka.bootstrap.servers",
        "log.retention",
        "file.path",
        "log.kafka.topic",
        "watermark",
        "file.format",
        "bucket",
        "last-modified",
        "compacted",
        "change-tracking",
        "num-files",
    ]
    orders = session.lake().table("shop.orders")
    assert (detail["name"], detail["file.path"], detail["bucket"]) == ("shop.orders", orders.location, 2)
    files = orders.inspect.files().num_rows
    assert (detail["num-files"], detail["compacted"], detail["change-tracking"]) == (files, False, True)
    orders.compact(full=True)
    assert rows(session, "DESCRIBE DETAIL TABLE orders")[0]["compacted"]


def test_change_tracking_of_a_partition(session: Session) -> None:
    session.sql(
        "CREATE TABLE days (dt DATE, region STRING, k INT, v INT, PRIMARY KEY (dt, region, k) NOT ENFORCED) "
        "PARTITIONED BY (dt, region) WITH ('bucket' = '1', 'changelog-producer' = 'input')"
    )
    both = "INSERT INTO days VALUES (DATE '2026-01-01', 'eu', 1, 1), (DATE '2026-01-02', 'eu', 1, 1)"
    session.sql(both)
    of_first = "ALTER TABLE days PARTITION (dt = '2026-01-01', region = 'eu')"
    session.sql(f"{of_first} SET ('change-tracking' = 'false')")
    detail = "DESCRIBE DETAIL TABLE days PARTITION (region = 'eu')"
    assert [row["change-tracking"] for row in rows(session, detail)] == [False, True]
    session.sql(both)
    t = session.lake().table("shop.days")
    assert t.options["tablestore.change-tracking.dt=2026-01-01/region=eu"] == "false"
    assert t.changes(since=1, mode="delta").num_rows == 2
    assert sum(f.file.row_count for f in t.store.manifests.changelog_entries(t.store.snapshots.get(2))) == 1
    created = rows(session, "SHOW CREATE TABLE days")[0]["result"]
    session.sql(created.replace("`days`", "`again`"))
    assert session.lake().table("shop.again").options.keys() == t.options.keys()
    session.sql(f"{of_first} RESET ('change-tracking')")
    assert [row["change-tracking"] for row in rows(session, detail)] == [True, True]
    session.sql("ALTER TABLE days SET ('change-tracking' = 'false')")
    assert [row["change-tracking"] for row in rows(session, detail)] == [False, False]
    with pytest.raises(InvalidOption, match="of whole tables"):
        session.sql(f"{of_first} SET ('bucket' = '2')")


def test_describe_detail_of_partitions(session: Session) -> None:
    (detail,) = rows(session, "DESCRIBE DETAIL TABLE events")
    assert list(detail)[-1] == "bucket"
    (actual,) = rows(session, "DESCRIBE DETAIL TABLE events PARTITION (day = '2026-01-01')")
    assert list(actual) == [
        "partition",
        "file.path",
        "last-modified",
        "compacted",
        "change-tracking",
        "num-files",
    ]
    assert (actual["partition"], actual["num-files"], actual["compacted"]) == ("day=20454", 1, True)
    assert actual["file.path"].startswith(session.lake().table("shop.events").location)
    with pytest.raises(ts.NotFound, match="no partition day=2027-01-01 of events holds files"):
        session.sql("DESCRIBE DETAIL TABLE events PARTITION (day = '2027-01-01')")


def test_partitions(session: Session) -> None:
    assert column(session, "SHOW PARTITIONS events") == [
        "day=20454",
        "day=20455",
    ]  # as directories, and Flink
    assert column(session, "SHOW PARTITIONS events PARTITION (day = DATE '2026-01-02')") == ["day=20455"]
    assert column(session, "SHOW PARTITIONS events PARTITION (day = NULL)") == []
    with pytest.raises(ts.InvalidRequest, match="is not partitioned"):
        session.sql("SHOW PARTITIONS orders")
    with pytest.raises(ts.NotFound, match="no partition column 'dya'; did you mean day"):
        session.sql("SHOW PARTITIONS events PARTITION (dya = 1)")


def test_views_keep_their_query_with_whole_names(session: Session) -> None:
    session.sql(
        "CREATE TEMPORARY VIEW large (id, `a b` COMMENT 'it''s') COMMENT 'big' AS\n"
        "WITH c AS (SELECT * FROM orders) SELECT order_id, amount FROM c WHERE amount > ? -- big\n"
        "AND order_id IN (SELECT order_id FROM orders AS o)",
        [10],
    )
    (text,) = column(session, "SHOW CREATE VIEW large")
    assert text == (
        "CREATE TEMPORARY VIEW `lake`.`shop`.`large` (\n  `id`,\n  `a b` COMMENT 'it''s'\n)\n"
        "COMMENT 'big'\nAS "
        "WITH c AS (SELECT * FROM `lake`.`shop`.`orders`) SELECT order_id, amount FROM c WHERE amount > 10 "
        "AND order_id IN (SELECT order_id FROM `lake`.`shop`.`orders` AS o)"
    )
    assert [(r["name"], r["type"], r["comment"]) for r in rows(session, "DESCRIBE large")] == [
        ("id", "INT", None),
        ("a b", "DECIMAL(8, 2)", "it's"),
    ]
    session.sql("DROP VIEW large; " + text)
    assert column(session, "SHOW CREATE VIEW large") == [text]


@pytest.mark.parametrize(
    ("text", "error", "problem"),
    [
        ("CREATE VIEW v AS SELECT 1 AS a", ts.Unsupported, "a permanent view"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1 AS a", ts.Unsupported, "a permanent view"),
        (
            "CREATE TEMPORARY VIEW v (a) AS SELECT 1 AS a, 2 AS b",
            ts.InvalidRequest,
            "2 columns, and 1 are named",
        ),
        ("CREATE TEMPORARY VIEW v AS SELECT * FROM nope", ts.NotFound, "no table 'shop.nope'"),
        ("DROP VIEW v", ts.NotFound, "no view 'v'"),
        ("SHOW CREATE VIEW orders", ts.NotFound, "no view 'orders'"),
        ("SHOW TABLES LIKE t", SqlProblem, "a pattern in single quotes is expected"),
        ("SHOW TABLES FROM nope", ts.NotFound, "no database 'nope'"),
        ("DESCRIBE ordrs", ts.NotFound, "column 10: no table 'shop.ordrs'; did you mean shop.orders"),
        ("SHOW CREATE TABLE orders$snapshots", ts.InvalidRequest, "is a system table"),
        ("SHOW TBLPROPERTIES orders ('buckt')", ts.NotFound, "did you mean bucket"),
    ],
)
def test_what_is_refused(session: Session, text: str, error: type[TablestoreError], problem: str) -> None:
    with pytest.raises(error) as e:
        session.sql(text)
    assert problem in str(e.value)
    assert session.views == {}


def test_values_of_partitions_may_be_texts(session: Session) -> None:
    session.sql("CREATE TABLE p (v INT, d DATE, b BOOLEAN, n INT) PARTITIONED BY (d, b, n)")
    session.sql("INSERT INTO p PARTITION (d = '2026-01-01', b = 'true', n = '7') VALUES (1)")
    session.sql("INSERT INTO p PARTITION (d = '2026-01-01', b = FALSE, n = 8) VALUES (2)")
    assert column(session, "SHOW PARTITIONS p PARTITION (b = 'true')") == ["d=20454/b=true/n=7"]
    session.sql("ALTER TABLE p DROP PARTITION (n = '8'); TRUNCATE TABLE p PARTITION (b = 'true', n = '9')")
    assert column(session, "SELECT v FROM p") == [1]
    with pytest.raises(ts.SchemaMismatch):
        session.sql("SHOW PARTITIONS p PARTITION (n = 'x')")
