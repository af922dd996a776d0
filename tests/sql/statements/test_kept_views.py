"""Views and properties of databases that a catalog keeps: here a SQL catalog; Hive and Java: `servers/`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.sql import Session


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    warehouse = str(tmp_path / "lake")
    return {"metastore": "jdbc", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": warehouse}


@pytest.fixture
def session(options: dict[str, Any]) -> Session:
    session = ts.sql_session(ts.connect(options))
    session.sql("CREATE DATABASE shop; USE shop; CREATE TABLE orders (id INT, amount INT, note STRING)")
    session.sql("INSERT INTO orders VALUES (1, 5, 'a'), (2, 15, 'b'), (3, 25, NULL)")
    return session


def rows(session: Session, text: str) -> list[dict[str, Any]]:
    return session.sql(text).to_arrow().to_pylist()


def column(session: Session, text: str) -> list[Any]:
    (values,) = session.sql(text).to_arrow().columns
    return values.to_pylist()


def test_a_view_outlives_the_session(session: Session, options: dict[str, Any]) -> None:
    session.sql(
        "CREATE VIEW large (id COMMENT 'which', `how much`) COMMENT 'it''s big' AS "
        "SELECT id, amount FROM orders WHERE amount > 10"
    )
    text = column(session, "SHOW CREATE VIEW large")[0]
    other = ts.sql_session()
    other.sql(
        "CREATE CATALOG elsewhere WITH ({})".format(", ".join(f"'{k}' = '{v}'" for k, v in options.items()))
    )
    other.sql("USE CATALOG elsewhere")
    assert rows(other, "SELECT sum(`how much`) AS s, max(id) AS m FROM shop.large") == [{"s": 40, "m": 3}]
    assert column(other, "SHOW VIEWS IN shop") == ["large"]
    assert column(other, "SHOW TABLES IN shop") == ["large", "orders"]
    described = rows(other, "DESCRIBE shop.large")
    assert [(r["name"], r["type"], r["comment"]) for r in described] == [
        ("id", "INT", "which"),
        ("how much", "INT", None),
    ]
    assert text == (
        "CREATE VIEW `lake`.`shop`.`large` (\n  `id` COMMENT 'which',\n  `how much`\n)\nCOMMENT 'it''s big'\n"
        "AS SELECT id, amount FROM `shop`.`orders` WHERE amount > 10"
    )
    session.sql("DROP VIEW large")
    session.sql(text)
    assert column(session, "SHOW CREATE VIEW large") == [text]
    with pytest.raises(ts.NotFound, match="no view 'large'"):
        session.sql("DROP VIEW large; SHOW CREATE VIEW large")


def test_stars_are_written_out(session: Session) -> None:
    session.sql("CREATE VIEW everything AS SELECT * FROM orders")
    session.sql("ALTER TABLE orders ADD paid BOOLEAN")
    assert session.sql("SELECT * FROM everything").to_arrow().column_names == ["id", "amount", "note"]
    session.sql("CREATE VIEW of_view AS SELECT everything.*, 1 AS one FROM everything WHERE id = 1")
    assert rows(session, "SELECT * FROM of_view") == [{"id": 1, "amount": 5, "note": "a", "one": 1}]


def test_views_are_altered_replaced_and_renamed(session: Session) -> None:
    session.sql("CREATE VIEW v COMMENT 'kept' AS SELECT id FROM orders")
    session.sql("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS other")
    assert len(rows(session, "SELECT * FROM v")) == 3
    session.sql("ALTER VIEW v AS SELECT amount FROM orders WHERE id = 1")
    assert rows(session, "SELECT * FROM v") == [{"amount": 5}]
    assert "COMMENT 'kept'" in column(session, "SHOW CREATE VIEW v")[0]
    session.sql("CREATE OR REPLACE VIEW v AS SELECT note FROM orders WHERE id = 2")
    assert "COMMENT" not in column(session, "SHOW CREATE VIEW v")[0]
    session.sql("ALTER VIEW v RENAME TO w; ALTER VIEW IF EXISTS v RENAME TO x")
    assert rows(session, "SELECT * FROM w") == [{"note": "b"}]
    session.sql("ALTER TABLE w RENAME TO x; DROP VIEW IF EXISTS w; DROP VIEW x")
    assert column(session, "SHOW VIEWS") == []


def test_a_temporary_view_hides_one_that_is_kept(session: Session) -> None:
    session.sql("CREATE VIEW v AS SELECT 1 AS a; CREATE TEMPORARY VIEW v AS SELECT 2 AS a")
    assert rows(session, "SELECT * FROM v") == [{"a": 2}]
    session.sql("ALTER VIEW v AS SELECT 3 AS a")
    assert rows(session, "SELECT * FROM v") == [{"a": 3}]
    session.sql("DROP VIEW v")
    assert rows(session, "SELECT * FROM v") == [{"a": 1}]
    with pytest.raises(ts.NotFound, match="no temporary view"):
        session.sql("DROP TEMPORARY VIEW v")


@pytest.mark.parametrize(
    ("statement", "error", "text"),
    [
        ("CREATE VIEW orders AS SELECT 1 AS a", ts.AlreadyExists, "is a table"),
        ("CREATE VIEW v AS SELECT 1 AS a", ts.AlreadyExists, "view v exists"),
        ("CREATE TABLE v (a INT)", ts.AlreadyExists, "v is a view"),
        ("DROP TABLE v", ts.InvalidRequest, "write DROP VIEW"),
        ("CREATE OR REPLACE VIEW v AS SELECT * FROM v", ts.InvalidRequest, "of itself"),
        ("CREATE VIEW w AS SELECT * FROM t", ts.InvalidRequest, "t is temporary"),
        ("CREATE VIEW w AS SELECT id, id FROM orders", ts.InvalidRequest, "two columns 'id'"),
        (
            "CREATE VIEW w AS SELECT * FROM orders a JOIN orders b ON a.id = b.id",
            ts.InvalidRequest,
            "behind *",
        ),
        ("CREATE VIEW w (a) AS SELECT 1 AS a, 2 AS b", ts.InvalidRequest, "has 2 columns, and 1 are named"),
        ("CREATE VIEW nope.w AS SELECT 1 AS a", ts.NotFound, "no database 'nope'"),
        ("ALTER VIEW v RENAME TO orders", ts.AlreadyExists, "is a table"),
        ("ALTER VIEW w AS SELECT 1 AS a", ts.NotFound, "no view 'w'"),
        ("ALTER TABLE orders RENAME TO v", ts.AlreadyExists, "is a view"),
        ("DROP DATABASE shop", ts.InvalidRequest, "holds 2"),
    ],
)
def test_refusals(session: Session, statement: str, error: type[Exception], text: str) -> None:
    session.sql("CREATE TEMPORARY VIEW t AS SELECT 1 AS a; CREATE VIEW v AS SELECT 1 AS a")
    with pytest.raises(error, match=text):
        session.sql(statement)
    assert rows(session, "SELECT * FROM v") == [{"a": 1}]


def test_properties_of_a_database(session: Session, options: dict[str, Any]) -> None:
    session.sql("CREATE DATABASE stock COMMENT 'what is there' WITH ('team' = 'a', 'size' = '2')")
    session.sql("ALTER DATABASE stock SET ('team' = 'b'); ALTER DATABASE stock RESET ('size')")
    actual = {r["info name"]: r["info value"] for r in rows(session, "DESCRIBE DATABASE EXTENDED stock")}
    assert actual.pop("location").endswith("/stock.db")
    assert actual == {"name": "stock", "comment": "what is there", "property:team": "b"}
    with pytest.raises(ts.InvalidRequest, match="the catalog's own"):
        session.sql("ALTER DATABASE stock SET ('location' = '/elsewhere')")
    session.sql("CREATE VIEW stock.v AS SELECT 1 AS a; DROP DATABASE stock CASCADE")
    assert ts.connect(options).databases() == ["shop"]
