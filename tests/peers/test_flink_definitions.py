"""Definitions made by our statements as Flink sees them, and those made by Flink's as we do."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tests.peers.flink_sql import FlinkSql

pytestmark = [pytest.mark.peer, pytest.mark.large]

MADE = (
    "CREATE TABLE t (k INT NOT NULL COMMENT 'the key', v DECIMAL(10, 2), d AS DATE_FORMAT(ts, 'yyyy-MM-dd') "
    "COMMENT 'it''s', w AS -k*2 + 1, n VARCHAR(5), ts TIMESTAMP(3), `a b` AS CAST(n AS STRING), "
    "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (k) NOT ENFORCED) "
    "COMMENT 'hello' WITH ('bucket' = '2')"
)
CHANGES = (
    "ALTER TABLE t ADD (x INT AFTER k, y AS k + 1)",
    "ALTER TABLE t DROP w",
    "ALTER TABLE t RENAME d TO d2",
    "ALTER TABLE t MODIFY (x BIGINT COMMENT 'c' FIRST)",
    "ALTER TABLE t MODIFY WATERMARK FOR ts AS ts",
    "ALTER TABLE t DROP WATERMARK",
)


def ours(lake: ts.Lake) -> list[list[str | None]]:
    session = ts.sql_session(lake)
    session.sql("USE `default`")
    rows = session.sql("DESCRIBE t").to_arrow().to_pylist()
    return [[str(v).upper() if isinstance(v, bool) else v for v in row.values()] for row in rows]


def test_both_describe_a_table_alike_whoever_makes_and_alters_it(flink: FlinkSql, tmp_path: Path) -> None:
    for maker in ("ours", "flink"):
        flink.start(tmp_path / maker)
        lake = ts.connect(tmp_path / maker)
        session = ts.sql_session(lake)
        session.sql("USE `default`")
        for statement in (MADE, *CHANGES):
            if maker == "ours":
                session.sql(statement)
                flink.start(tmp_path / maker)  # its catalog keeps schemas in a cache
            else:
                flink.run(statement)
            assert ours(lake) == flink.run("DESCRIBE t").rows, f"{maker}: {statement}"


def test_both_compute_the_columns_of_our_tables(flink: FlinkSql, tmp_path: Path) -> None:
    flink.start(tmp_path)
    session = ts.sql_session(ts.connect(tmp_path))
    session.sql("USE `default`; " + MADE)
    flink.run("INSERT INTO t VALUES (1, 2.5, 'a', TIMESTAMP '2024-01-02 03:04:05')")
    text = "SELECT d, w, `a b` FROM t"
    result = session.sql(text).to_arrow().to_pylist()
    assert result == [{"d": "2024-01-02", "w": -1, "a b": "a"}]
    assert flink.run(text).rows == [["2024-01-02", "-1", "a"]]


def test_what_flink_shows_makes_the_same_table_here(flink: FlinkSql, tmp_path: Path) -> None:
    flink.start(tmp_path)
    flink.run(MADE)
    ((statement,),) = flink.run("SHOW CREATE TABLE t").rows
    assert statement is not None
    before = ours(ts.connect(tmp_path))
    statement = statement.replace(f",\n  'path' = '{tmp_path}/default.db/t'", "")
    session = ts.sql_session(ts.connect(tmp_path / "other"))
    session.sql("CREATE DATABASE `default`; " + statement)
    assert ours(session.lake()) == before
