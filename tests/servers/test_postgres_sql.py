"""The SQL connector `postgres-cdc` on a real server: streams, and what they lack."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.sql import Session
from tests.cdc.databases.sources import PostgresSource
from tests.cdc.databases.sql_tables import changes, table


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = ts.sql_session(ts.connect(tmp_path / "lake"))
    session.sql("CREATE DATABASE shop")
    session.sql("USE shop")
    return session


def filled(database: PostgresSource, rows: int) -> None:
    """Table t of the source, whose log has old rows."""
    database.run(
        "CREATE TABLE t (k int PRIMARY KEY, v bigint, s varchar(20))",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        f"INSERT INTO t SELECT i * 2, i * 2, 'x' FROM generate_series(0, {rows - 1}) i",
    )


def test_a_stream_has_the_rows_and_then_each_change_with_its_row_before(
    database: PostgresSource, session: Session
) -> None:
    filled(database, 3)
    table(session, database)
    actual = changes(session, "SELECT k, v, s FROM t")
    assert sorted(itertools.islice(actual, 3)) == [("+I", k, k, "x") for k in (0, 2, 4)]
    assert database.slots() == [f"slot_{database.name}"]
    database.run(
        "UPDATE t SET v = 9 WHERE k = 2", "DELETE FROM t WHERE k = 0", "UPDATE t SET k = 5 WHERE k = 4"
    )
    assert list(itertools.islice(actual, 5)) == [
        ("-U", 2, 2, "x"),
        ("+U", 2, 9, "x"),
        ("-D", 0, 0, "x"),
        ("-D", 4, 4, "x"),
        ("+I", 5, 4, "x"),
    ]
    other = changes(session, "SELECT k FROM t")
    with pytest.raises(ts.InvalidRequest, match=r"is there already.*pg_drop_replication_slot"):
        next(other)
    database.run("INSERT INTO t VALUES (7, 7, 'y')")
    assert next(actual) == ("+I", 7, 7, "y")
    database.run("ALTER TABLE t ADD more int")
    with pytest.raises(ts.Unsupported, match="altered, truncated or rewrote it"):
        next(actual)


LACKS = [
    ({"slot.name": ""}, "SELECT 1", "needs option 'slot.name'"),
    ({"scan.startup.mode": "snapshot"}, "SELECT 1", "'execution.runtime-mode' = 'batch'"),
    ({}, "ALTER TABLE t REPLICA IDENTITY DEFAULT", "ALTER TABLE .* REPLICA IDENTITY FULL"),
    ({}, "DROP PUBLICATION tablestore", 'CREATE PUBLICATION "tablestore"'),
    ({"tablestore.publication": "other"}, "CREATE PUBLICATION other", 'PUBLICATION "other" ADD TABLE'),
    ({"scan.startup.mode": "committed-offset"}, "SELECT 1", "no replication slot 'slot_"),
]
"""Options, what is done in the source, and what a stream then says."""


def test_what_a_stream_lacks_is_said_with_its_remedy(database: PostgresSource, session: Session) -> None:
    filled(database, 1)
    for place, (options, statement, says) in enumerate(LACKS):
        database.run(statement)
        table(session, database, name=f"t{place}", **options)
        with pytest.raises(ts.TablestoreError, match=says):
            next(changes(session, f"SELECT k FROM t{place}"))
        database.run("ALTER TABLE t REPLICA IDENTITY FULL", "DROP PUBLICATION IF EXISTS tablestore")
        database.run("CREATE PUBLICATION tablestore FOR ALL TABLES")
    assert database.slots() == []
