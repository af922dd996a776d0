"""The SQL connector `postgres-cdc` on a real server: batch and streaming, each change once, refusals."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.postgres.server import parse_address
from tablestore.format import rowkind
from tablestore.sql import Session
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.streaming.follow import follow
from tablestore.sql.streaming.plan import planned
from tests.cdc.databases.sources import PostgresSource
from tests.cdc.mysql.test_sql import await_rows

COLUMNS = "k INT, v BIGINT, s STRING, PRIMARY KEY (k) NOT ENFORCED"


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


def table(
    session: Session, database: PostgresSource, columns: str = COLUMNS, name: str = "t", **more: str
) -> None:
    """A temporary table over table t of the source."""
    address = parse_address(database.url)
    given = {
        "connector": "postgres-cdc",
        "hostname": address.host,
        "port": str(address.port),
        "username": address.user,
        "database-name": database.name,
        "schema-name": "public",
        "table-name": "t",
        "slot.name": f"slot_{database.name}",
        **{key.replace("__", ".").replace("_", "-"): value for key, value in more.items()},
    }
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items() if value)
    session.sql(f"CREATE TEMPORARY TABLE {name} {f'({columns})' if columns else ''} WITH ({pairs})")


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in session.sql(query).to_arrow().to_pylist()]


def changes(session: Session, sql: str) -> Any:
    """Kind and row of what a query gives as long as somebody asks."""
    for batch, kinds in follow(planned(session, reader(()).read(pieces(sql)[0]), sql)):
        yield from zip(rowkind.texts(kinds).to_pylist(), *batch.to_pydict().values(), strict=True)


def test_batch_mode_gives_the_rows_of_now(database: PostgresSource, session: Session) -> None:
    filled(database, 100)
    database.run("ALTER TABLE t REPLICA IDENTITY DEFAULT")  # it is for streams
    table(session, database)
    assert rows(session, "SELECT count(*), sum(v), max(s) FROM t WHERE k >= 100") == [(50, 7450, "x")]
    database.run("DELETE FROM t WHERE k > 4", "UPDATE t SET s = 'é'")
    assert rows(session, "SELECT * FROM t ORDER BY k") == [(0, 0, "é"), (2, 2, "é"), (4, 4, "é")]
    both = "SELECT count(*) FROM t JOIN t AS other ON t.k = other.k + 2 WHERE other.v = 0"
    assert rows(session, both) == [(1,)]
    declared = "s STRING, k DECIMAL(12, 2), sc STRING METADATA FROM 'schema_name'"
    table(session, database, declared, "narrow", table_name="t")
    found = rows(session, "SELECT sc, k FROM narrow ORDER BY k DESC")
    assert [(sc, str(k)) for sc, k in found] == [("public", n) for n in ("4.00", "2.00", "0.00")]
    assert database.slots() == []


def test_a_table_without_columns_has_those_of_the_source(database: PostgresSource, session: Session) -> None:
    database.run(
        "CREATE TABLE t (b varchar(9), a numeric(20) NOT NULL, at timestamp(3), PRIMARY KEY (a, b))",
        "INSERT INTO t VALUES ('x', 18446744073709551615, '2024-01-02 03:04:05.678')",
    )
    table(session, database, "")
    shown = session.sql("SHOW CREATE TABLE t").to_arrow().column(0)[0].as_py()
    assert "`a` DECIMAL(20, 0) NOT NULL" in shown
    assert "PRIMARY KEY (`a`, `b`) NOT ENFORCED" in shown
    assert [(str(a), b) for a, b in rows(session, "SELECT a, b FROM t")] == [("18446744073709551615", "x")]


def test_a_stream_has_the_rows_and_then_each_change_with_its_row_before(
    database: PostgresSource, session: Session
) -> None:
    filled(database, 3)
    table(session, database)
    found = changes(session, "SELECT k, v, s FROM t")
    assert sorted(itertools.islice(found, 3)) == [("+I", k, k, "x") for k in (0, 2, 4)]
    assert database.slots() == [f"slot_{database.name}"]
    database.run(
        "UPDATE t SET v = 9 WHERE k = 2", "DELETE FROM t WHERE k = 0", "UPDATE t SET k = 5 WHERE k = 4"
    )
    assert list(itertools.islice(found, 5)) == [
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
    assert next(found) == ("+I", 7, 7, "y")
    database.run("ALTER TABLE t ADD more int")
    with pytest.raises(ts.Unsupported, match="altered, truncated or rewrote it"):
        next(found)


REFUSED = [
    (COLUMNS, {"password": "typed"}, r"'password' is a secret: \$\{env:NAME\}, .*, not \*\*\*"),
    (COLUMNS, {"tablestore.password-file": "f", "password": "${env:X}"}, "password-file', not both"),
    (COLUMNS, {"hostname": ""}, "needs option 'hostname'"),
    (COLUMNS, {"schema-name": ""}, "needs option 'schema-name'"),
    (COLUMNS, {"table-name": "u"}, r"no table public\.u"),
    (COLUMNS, {"decoding.plugin.name": "wal2json"}, "'decoding.plugin.name' is .*pgoutput"),
    (COLUMNS, {"changelog-mode": "upsert"}, "'changelog-mode' is .*all"),
    (COLUMNS, {"debezium.snapshot.mode": "never"}, "read from the slot itself"),
    (COLUMNS, {"scan.startup.mode": "earliest-offset"}, "initial, snapshot, latest-offset"),
    (COLUMNS, {"scan.startup.mode": "latest-offset"}, "'latest-offset' in batch mode"),
    (COLUMNS, {"server-time-zone": "Atlantis"}, "a time zone such as"),
    (COLUMNS, {"slot.nam": "s"}, "slot.name"),
    ("k INT, w INT", {}, r"column of public\.t 'w'"),
    ("k INT, s INT, v DATE", {}, r"'s' is character varying\(20\), not INT; 'v' is bigint, not DATE"),
    ("k INT, v INT, PRIMARY KEY (v) NOT ENFORCED", {}, r"as \(v\), and that of public\.t is \(k\)"),
    ("k INT, d STRING METADATA FROM 'database_name'", {}, "schema_name"),
]  # fmt: skip
"""Columns and options that batch mode refuses, and what it says."""


def test_what_does_not_fit_is_refused(database: PostgresSource, session: Session) -> None:
    filled(database, 1)
    for place, (columns, options, says) in enumerate(REFUSED):

        def tried(name: str = f"t{place}", columns: str = columns, options: dict[str, str] = options) -> None:
            table(session, database, columns, name, **options)
            session.sql(f"SELECT * FROM {name}").to_arrow()

        with pytest.raises(ts.TablestoreError, match=says) as refused:
            tried()
        assert "typed" not in str(refused.value).replace("is typed", "")


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


@pytest.mark.spark
@pytest.mark.large
def test_jobs_keep_tables_like_the_source_while_it_changes(
    database: PostgresSource, session: Session, spark: Any
) -> None:
    """Rows and groups, each INSERT by a slot of its own."""
    filled(database, 500)
    for name in ("t", "u"):
        table(session, database, name=name, slot__name=f"{name}_{database.name}")
    session.sql(f"CREATE TABLE rows_now ({COLUMNS}) WITH ('bucket' = '1')")
    session.sql("CREATE TABLE sums (g INT, n BIGINT, total BIGINT, PRIMARY KEY (g) NOT ENFORCED)")
    session.spark = spark
    session.settings.set("execution.runtime-mode", "streaming")
    session.settings.set("execution.checkpointing.interval", "50 ms")
    session.sql(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO rows_now SELECT k, v, s FROM t; "
        "INSERT INTO sums SELECT k % 7, count(*), sum(v) FROM u GROUP BY k % 7; END"
    )
    for i in range(30):
        database.run(
            f"UPDATE t SET v = v + 1 WHERE k % 5 = {i % 5}",
            f"DELETE FROM t WHERE k = {i * 6}",
            f"UPDATE t SET k = k + 10000 WHERE k = {i * 10 + 2}",
        )
    for query, wanted in (
        ("SELECT * FROM rows_now ORDER BY k", "SELECT * FROM t ORDER BY k"),
        (
            "SELECT * FROM sums ORDER BY g",
            "SELECT k % 7, count(*), sum(v)::bigint FROM t GROUP BY 1 ORDER BY 1",
        ),
    ):
        await_rows(session, query, database.connection.execute(wanted).fetchall())
    session.jobs.stop_all()
    for name in ("rows_now", "sums"):
        assert session.lake().table(f"shop.{name}").check() == []
