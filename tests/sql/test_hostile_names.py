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
