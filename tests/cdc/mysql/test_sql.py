"""The SQL connector `mysql-cdc` on a real server: the rows alone, columns of metadata, what is refused."""

from __future__ import annotations

import time

import pytest

import tablestore as ts
from tablestore.sql import Session
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.streaming.follow import follow
from tablestore.sql.streaming.plan import planned
from tests.cdc.databases.sources import MariaDbSource
from tests.cdc.databases.sql_tables import changes, rows, table


def test_the_rows_alone_are_a_stream_that_ends(source: MariaDbSource, session: Session) -> None:
    source.made(10, "t")
    options = {"scan__startup__mode": "snapshot", "scan__incremental__snapshot__chunk__size": "3"}
    table(session, source, **options)
    assert sorted(changes(session, "SELECT k FROM t WHERE v > 14")) == [("+I", 16), ("+I", 18)]
    assert sorted(changes(session, "SELECT s, count(*), sum(v) FROM t GROUP BY s"))[-1][1:] == ("x", 10, 90)


def test_changes_go_only_where_they_find_their_rows(source: MariaDbSource, session: Session) -> None:
    source.made(1, "t")
    table(session, source, "k INT, v BIGINT")
    session.sql("CREATE TABLE adds (k INT, v BIGINT)")
    session.sql("CREATE TABLE by_v (v BIGINT, PRIMARY KEY (v) NOT ENFORCED)")
    session.settings.set("execution.runtime-mode", "streaming")
    with pytest.raises(ts.Unsupported, match="it needs a primary key"):
        session.sql("INSERT INTO adds SELECT * FROM t")
    with pytest.raises(ts.Unsupported, match="select k as they are"):
        session.sql("INSERT INTO by_v SELECT v FROM t")
    shown = session.sql("EXPLAIN SELECT k FROM t").text(width=None)
    assert "rows in chunks of 200,000 first, then its binlog" in shown
    assert "rows may be taken back" in shown


METADATA = (
    "k INT, src STRING NOT NULL METADATA FROM 'database_name' VIRTUAL, table_name STRING METADATA, s STRING, "
    "at TIMESTAMP_LTZ(3) METADATA FROM 'op_ts' VIRTUAL, PRIMARY KEY (k) NOT ENFORCED"
)


def test_what_is_known_beside_the_row_are_columns_too(session: Session, source: MariaDbSource) -> None:
    source.made(3, "t")
    table(session, source, METADATA)
    actual = rows(session, "SELECT src, table_name, k, CAST(at AS STRING) FROM t ORDER BY k")
    assert [row[:2] for row in actual] == [(source.name, "t")] * 3
    assert {row[3] for row in actual} == {"1970-01-01 00:00:00.000"}
    (wanted,) = rows(session, "SELECT COUNT(*) FROM t WHERE src <> 'x' AND at < CURRENT_TIMESTAMP")
    assert wanted == (3,)
    query, began = "SELECT k, at, src FROM t", int(time.time())
    followed = follow(planned(session, reader(()).read(pieces(query)[0]), query))
    next(followed)
    source.run("INSERT INTO t (k, v, s) VALUES (1000, 1, 'x')")
    seen = (row for batch, _ in followed for row in batch.to_pylist())
    row = next(row for row in seen if row["k"] == 1000)
    assert began <= row["at"].timestamp() <= time.time() + 1
    assert row["src"] == source.name


def test_columns_of_metadata_are_shown_and_taken_over(session: Session, source: MariaDbSource) -> None:
    table(session, source, METADATA)
    shown = rows(session, "SHOW CREATE TABLE t")[0][0]
    assert "`src` STRING NOT NULL METADATA FROM 'database_name' VIRTUAL" in shown
    assert "`table_name` STRING METADATA FROM 'table_name'," in shown
    described = {row["name"]: row["extras"] for row in session.sql("DESCRIBE t").to_arrow().to_pylist()}
    assert described["at"] == "METADATA FROM 'op_ts' VIRTUAL"
    session.sql("CREATE TEMPORARY TABLE u LIKE t (EXCLUDING METADATA)")
    assert [row[0] for row in rows(session, "DESCRIBE u")] == ["k", "s"]
    session.sql("CREATE TEMPORARY TABLE w LIKE t")
    assert [row[0] for row in rows(session, "DESCRIBE w")] == ["k", "src", "table_name", "s", "at"]


@pytest.mark.parametrize(
    ("column", "error", "said"),
    [
        ("x STRING METADATA FROM 'op_tz'", ts.NotFound, "op_ts"),
        ("op_ts INT METADATA", ts.SchemaMismatch, "'op_ts' is TIMESTAMP.*, not INT"),
    ],
)
def test_other_metadata_is_refused(
    session: Session, source: MariaDbSource, column: str, error: type, said: str
) -> None:
    source.made(1, "t")
    table(session, source, f"k INT, {column}")
    with pytest.raises(error, match=said):
        session.sql("SELECT * FROM t").to_arrow()
    session.sql("CREATE TEMPORARY TABLE g (k INT, o STRING METADATA) WITH ('connector' = 'datagen')")
    with pytest.raises(ts.Unsupported, match=r"METADATA column 'o'.*connector 'datagen'"):
        session.sql("SELECT * FROM g LIMIT 1").to_arrow()


def test_a_table_that_declares_metadata_alone_has_the_columns_of_the_source(
    session: Session, source: MariaDbSource
) -> None:
    source.made(1, "t")
    table(session, source, "db STRING METADATA FROM 'database_name'")
    names = [row[0] for row in rows(session, "DESCRIBE t")]
    assert names == ["k", "v", "s", "db"]
    assert rows(session, "SELECT db FROM t") == [(source.name,)]
