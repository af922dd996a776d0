"""Odd names of databases, tables and catalogs, and odd texts, through every statement that defines things."""

from __future__ import annotations

import pytest

import tablestore as ts
from tablestore.core.errors import TablestoreError
from tablestore.sql import Session
from tablestore.sql.text import literal_text, name_text

NAMES = [
    "a b",
    "é",
    "SELECT",
    "table",
    "-- c",
    "a;b",
    "(x)",
    "NOT",
    "1",
    "😀",
    "a,b",
    "IF EXISTS",
    "#{}",
    "%s",
    "a.b",
]
TEXTS = ["it's", "''", "; DROP TABLE t; --", "/* */", "`q`", '"d"', "\\", "\n", "😀", ":p ?", "", "%"]


@pytest.mark.parametrize("name", NAMES)
def test_names(session: Session, name: str) -> None:
    n = name_text(name)
    session.sql(f"CREATE DATABASE {n}; USE {n}; CREATE TABLE {n} ({n} INT, d STRING) PARTITIONED BY (d)")
    lake = session.lake()
    assert lake.databases() == sorted([name, "shop"])
    assert lake.tables(name) == [name]
    session.sql(
        f"USE shop; USE lake.{n}; ALTER TABLE lake.{n}.{n} ADD x INT; DESCRIBE {n}.{n}; SHOW PARTITIONS {n}"
    )
    assert session.sql("SHOW CURRENT DATABASE").to_arrow().to_pylist() == [{"current database name": name}]
    assert session.sql(f"SHOW TABLES FROM {n}").to_arrow().to_pylist() == [{"table name": name}]
    (statement,) = session.sql(f"SHOW CREATE TABLE {n}").to_arrow()["result"].to_pylist()
    session.sql(f"DROP TABLE {n}; {statement}; DESCRIBE DETAIL TABLE {n}; SHOW TBLPROPERTIES {n}")
    session.sql(
        f"CREATE TEMPORARY VIEW v AS SELECT {n}.{n} FROM {n}; USE shop; DESCRIBE lake.{n}.v; "
        f"SHOW VIEWS IN {n}"
    )
    session.sql(f"ALTER TABLE {n}.{n} RENAME TO t2; DROP TABLE {n}.t2; DROP DATABASE {n}")
    session.sql(f"CREATE TEMPORARY TABLE {n} ({n} INT) WITH ('connector' = 'print'); DESCRIBE {n}")
    session.sql(f"DROP TEMPORARY TABLE {n}; CREATE TEMPORARY VIEW {n} AS SELECT 1 AS {n}; DROP VIEW {n}")
    assert lake.databases() == ["shop"]


@pytest.mark.parametrize("name", ["_kind", "__kind", "__position", "__row", "__value_0", "op"])
def test_columns_that_are_called_as_our_own(session: Session, name: str) -> None:
    session.sql(f"CREATE TABLE t (id INT, v INT, {name} INT, PRIMARY KEY (id) NOT ENFORCED)")
    session.sql("INSERT INTO t VALUES (1, 0, 1), (2, 0, 0), (3, 0, 7)")
    session.sql(f"UPDATE t SET v = {name} + 10 WHERE id + v = 1; UPDATE t SET v = 5 WHERE id = 2")
    session.sql(
        "DELETE FROM t WHERE id + v = 3; MERGE INTO t USING (VALUES (2, 9), (4, 4)) AS s (i, j) ON id = i "
        f"WHEN MATCHED THEN UPDATE SET {name} = j WHEN NOT MATCHED THEN INSERT (id, v) VALUES (i, j)"
    )
    rows = session.sql("SELECT * FROM t ORDER BY id").to_arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, 11, 1), (2, 5, 9), (4, 4, None)]


TWICE = [
    "SELECT sum(V) AS a, sum(v) AS b FROM t",
    "SELECT * FROM t WHERE V < v",
    "SELECT b + 0 FROM (VALUES (1, 2)) AS s (B, b)",
    "SELECT b + 0 FROM (SELECT 1 AS B, 2 AS b) AS s",
    "WITH s AS (SELECT 1 AS B, 2 AS b) SELECT b + 0 FROM s",
    "UPDATE t SET v = V + 1 WHERE v + id = 21",
    "DELETE FROM t WHERE v + id = 21",
    "MERGE INTO t USING (VALUES (1)) AS s (i) ON id = i WHEN MATCHED THEN UPDATE SET v = V + 1",
]


@pytest.mark.parametrize("mode", ["batch", "streaming"])
@pytest.mark.parametrize("sql", TWICE)
def test_columns_that_differ_in_case_only_are_refused_where_one_is_read_for_the_other(
    session: Session, sql: str, mode: str
) -> None:
    session.sql("CREATE TABLE t (id INT, V INT, v INT, PRIMARY KEY (id) NOT ENFORCED)")
    session.sql("INSERT INTO t VALUES (1, 10, 20)")
    assert session.sql("SELECT v, V FROM t WHERE V = 10").to_arrow().to_pylist() == [{"v": 20, "V": 10}]
    assert session.sql("SELECT sum(v) AS n FROM t").to_arrow().to_pylist() == [{"n": 20}]
    session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
    with pytest.raises(ts.Unsupported, match="takes them for one"):
        session.sql(sql)


def test_a_stream_refuses_columns_that_are_called_as_its_own(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT, __kind INT); SET 'execution.runtime-mode' = 'streaming'")
    with pytest.raises(ts.Unsupported, match="'__kind' and '__kind' of t"):
        session.sql("SELECT * FROM t")


@pytest.mark.parametrize("name", NAMES)
def test_catalogs(session: Session, tmp_path: object, name: str) -> None:
    n = name_text(name)
    session.sql(f"CREATE CATALOG {n} WITH ('warehouse' = {literal_text(str(tmp_path) + '/other')})")
    place = f"{n}.`default`"
    session.sql(f"CREATE TABLE {place}.t (a INT); DESCRIBE {place}.t; SHOW DATABASES IN {n}")
    session.sql(f"USE CATALOG {n}; SHOW TABLES; SHOW CREATE TABLE t; USE CATALOG lake; DROP CATALOG {n}")
    assert list(session.catalogs) == ["lake"]


@pytest.mark.parametrize("text", TEXTS)
def test_texts(session: Session, text: str) -> None:
    quoted = literal_text(text)
    session.sql(
        f"CREATE TABLE t (a STRING DEFAULT {quoted} COMMENT {quoted}, w AS {quoted} COMMENT {quoted}) "
        f"COMMENT {quoted} WITH ('my.own' = {quoted})"
    )
    session.sql(
        "ALTER TABLE t ADD b STRING COMMENT ?; ALTER TABLE t ALTER COLUMN b SET DEFAULT ?", [text, text]
    )
    session.sql(f"ALTER TABLE t SET ('my.other' = {quoted}, 'comment' = {quoted})")
    (statement,) = session.sql("SHOW CREATE TABLE t").to_arrow()["result"].to_pylist()
    session.sql(f"DROP TABLE t; {statement}")
    schema = session.lake().table("shop.t").store.schema
    assert (schema.comment or "", schema.options["my.own"], schema.options["my.other"]) == (text, text, text)
    assert [(f.description or "", f.default) for f in schema.fields] == [(text, text), (text, text)]
    session.lake().table("shop.t").write([{"b": "x"}])
    assert session.sql("SELECT a, w FROM t").to_arrow().to_pylist() == [{"a": text, "w": text}]


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a\\b", "a:b", "a$b", "", "\0", "a`b", "x" * 300])
def test_names_that_no_table_can_have(session: Session, name: str) -> None:
    n = name_text(name)
    for text in (f"CREATE TABLE {n} (a INT)", f"CREATE DATABASE {n}", f"ALTER TABLE orders RENAME TO {n}"):
        with pytest.raises(TablestoreError):
            session.sql(text)
    assert session.lake().tables() == ["shop.events", "shop.orders"]
    assert session.lake().databases() == ["shop"]


def test_a_name_that_is_not_there_is_refused_with_the_nearest(session: Session) -> None:
    for text in ("DESCRIBE ordes", "SHOW CREATE TABLE ordes", "ALTER TABLE ordes DROP a", "DROP TABLE ordes"):
        with pytest.raises(
            ts.NotFound, match=r"line 1, column \d+: no table 'shop.ordes'; did you mean shop.orders"
        ):
            session.sql(text)
