"""The SQL connector `mysql-cdc` on a real server: batch and streaming, GROUP BY of changes, what is
refused."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.databases.address import Address
from tablestore.format import rowkind
from tablestore.sql import Session
from tablestore.sql.dialect.parser import reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.streaming.follow import follow
from tablestore.sql.streaming.plan import planned
from tests.cdc.databases.sources import MariaDbSource
from tests.cdc.databases.writers import TableWriters
from tests.cdc.mysql.test_stream import made
from tests.servers.mariadb import PASSWORD, MariaDb

VARIABLE = "OUR_SOURCE_PASSWORD"
COLUMNS = "k INT, v BIGINT, s STRING, PRIMARY KEY (k) NOT ENFORCED"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv(VARIABLE, PASSWORD)
    lake = ts.connect(tmp_path / "lake")
    session = ts.sql_session(lake)
    session.sql("CREATE DATABASE shop")
    session.sql("USE shop")
    return session


def table(
    session: Session, address: Address, columns: str = COLUMNS, name: str = "t", **options: str
) -> None:
    """A temporary table over table t of the source."""
    given = {
        "connector": "mysql-cdc",
        "hostname": address.host,
        "port": str(address.port),
        "username": address.user,
        "password": f"${{env:{VARIABLE}}}",
        "database-name": address.database,
        "table-name": "t",
        **{key.replace("__", ".").replace("_", "-"): value for key, value in options.items()},
    }
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in given.items() if value)
    session.sql(f"CREATE TEMPORARY TABLE {name} {f'({columns})' if columns else ''} WITH ({pairs})")


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in session.sql(query).to_arrow().to_pylist()]


def changes(session: Session, sql: str) -> list[tuple[Any, ...]]:
    found = []
    for batch, kinds in follow(planned(session, reader(()).read(pieces(sql)[0]), sql)):
        found += zip(rowkind.texts(kinds).to_pylist(), *batch.to_pydict().values(), strict=True)
    return found


def test_batch_mode_gives_the_rows_of_now(mariadb: MariaDb, address: Address, session: Session) -> None:
    made(mariadb, address, 100)
    table(session, address)
    assert rows(session, "SELECT count(*), sum(v), max(s) FROM t WHERE k >= 100") == [(50, 7450, "x")]
    mariadb.run(f"DELETE FROM {address.database}.t WHERE k > 4", f"UPDATE {address.database}.t SET s = 'é'")
    assert rows(session, "SELECT * FROM t ORDER BY k") == [(0, 0, "é"), (2, 2, "é"), (4, 4, "é")]
    both = "SELECT count(*) FROM t JOIN t AS other ON t.k = other.k + 2 WHERE other.v = 0"
    assert rows(session, both) == [(1,)]
    table(session, address, "s STRING, k DECIMAL(12, 2)", "narrow", table_name="t")
    assert [str(k) for _, k in rows(session, "SELECT s, k FROM narrow ORDER BY k DESC")] == [
        "4.00",
        "2.00",
        "0.00",
    ]


def test_a_table_without_columns_has_those_of_the_source(
    mariadb: MariaDb, address: Address, session: Session
) -> None:
    mariadb.run(
        f"USE {address.database}",
        "CREATE TABLE t (b VARCHAR(9), a BIGINT UNSIGNED NOT NULL, at TIMESTAMP(3) NULL, PRIMARY KEY (a, b))",
        "INSERT INTO t VALUES ('x', 18446744073709551615, '2024-01-02 03:04:05.678')",
    )
    table(session, address, "")
    shown = session.sql("SHOW CREATE TABLE t").to_arrow().column(0)[0].as_py()
    assert "`a` DECIMAL(20, 0) NOT NULL" in shown
    assert "PRIMARY KEY (`a`, `b`) NOT ENFORCED" in shown
    assert [(str(a), b) for a, b in rows(session, "SELECT a, b FROM t")] == [("18446744073709551615", "x")]
    session.sql("CREATE TABLE copied LIKE t (EXCLUDING OPTIONS)")
    assert session.lake().table("shop.copied").schema.names == ["b", "a", "at"]
    with pytest.raises(ts.InvalidRequest, match="the columns are expected"):
        session.sql("CREATE TEMPORARY TABLE d WITH ('connector' = 'datagen')")


def test_the_rows_alone_are_a_stream_that_ends(mariadb: MariaDb, address: Address, session: Session) -> None:
    made(mariadb, address, 10)
    options = {"scan__startup__mode": "snapshot", "scan__incremental__snapshot__chunk__size": "3"}
    table(session, address, **options)
    assert sorted(changes(session, "SELECT k FROM t WHERE v > 14")) == [("+I", 16), ("+I", 18)]
    assert sorted(changes(session, "SELECT s, count(*), sum(v) FROM t GROUP BY s"))[-1][1:] == ("x", 10, 90)


@pytest.mark.spark
@pytest.mark.large
def test_jobs_keep_tables_like_the_source_while_it_changes(
    mariadb: MariaDb,
    address: Address,
    session: Session,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    spark: Any,
) -> None:
    """Rows, groups and what a lookup adds; a word of the password is in no file and no log."""
    caplog.set_level("DEBUG")
    made(mariadb, address, 1_500)
    table(session, address, scan__incremental__snapshot__chunk__size="200")
    session.sql(f"CREATE TABLE rows_now ({COLUMNS}) WITH ('bucket' = '1')")
    session.sql(
        "CREATE TABLE groups (g INT, n BIGINT, total BIGINT, largest BIGINT, PRIMARY KEY (g) NOT ENFORCED)"
    )
    session.spark = spark
    session.settings.set("execution.runtime-mode", "streaming")
    session.settings.set("execution.checkpointing.interval", "50 ms")
    with TableWriters(
        MariaDbSource(mariadb, address, tmp_path), 7, 3_000, "t", pause_seconds=0.05
    ) as writers:
        session.sql(
            "EXECUTE STATEMENT SET BEGIN INSERT INTO rows_now SELECT k, v, s FROM t; "
            "INSERT INTO groups SELECT k % 7, count(*), sum(v), max(v) FROM t GROUP BY k % 7; END"
        )
        until = time.monotonic() + 240
        while not now(session, "SELECT k FROM rows_now LIMIT 1") and time.monotonic() < until:
            time.sleep(0.3)
    assert writers.written > 20
    source = f"FROM {address.database}.t"
    wanted = [(k, v, s) for k, v, s in mariadb.run(f"SELECT k, v, s {source} ORDER BY k")]
    await_rows(session, "SELECT k, v, s FROM rows_now ORDER BY k", wanted)
    groups = mariadb.run(f"SELECT k % 7, count(*), sum(v), max(v) {source} GROUP BY 1 ORDER BY 1")
    await_rows(session, "SELECT * FROM groups ORDER BY g", [tuple(int(n) for n in row) for row in groups])
    session.jobs.stop_all()
    for name in ("rows_now", "groups"):
        assert session.lake().table(f"shop.{name}").check() == []
    assert PASSWORD not in caplog.text + session.sql("SHOW CREATE TABLE t").text(width=None)
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and PASSWORD.encode() in p.read_bytes()]


def now(session: Session, query: str) -> list[tuple[Any, ...]]:
    session.settings.set("execution.runtime-mode", "batch")
    found = rows(session, query)
    session.settings.set("execution.runtime-mode", "streaming")
    return found


def await_rows(session: Session, query: str, wanted: list[tuple[Any, ...]]) -> None:
    until = time.monotonic() + 240
    while (found := now(session, query)) != wanted:
        assert not session.jobs.failures()
        assert time.monotonic() < until, (found[:10], wanted[:10])
        time.sleep(0.3)


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        (COLUMNS, {"password": "typed"}, r"'password' is a secret: \$\{env:NAME\}, .*, not \*\*\*"),
        (COLUMNS, {"tablestore.password-file": "f"}, "'password' or 'tablestore.password-file', not both"),
        (COLUMNS, {"hostname": ""}, "needs option 'hostname'"),
        (COLUMNS, {"table-name": "u"}, r"table in d\w+ 'u'"),
        (COLUMNS, {"debezium.snapshot.mode": "never"}, "read from the binlog itself"),
        (COLUMNS, {"scan.startup.mode": "timestamp"}, "needs option 'scan.startup.timestamp-millis'"),
        (COLUMNS, {"scan.startup.mode": "specific-offset"}, "specific-offset.file' or "),
        (COLUMNS, {"scan.startup.mode": "latest-offset"}, "'latest-offset' in batch mode"),
        (COLUMNS, {"scan.startup.specific-offset.skip-rows": "1"}, "between two transactions"),
        (COLUMNS, {"server-time-zone": "Atlantis"}, "a time zone such as"),
        (COLUMNS, {"scan.incremental.snapshot.chunk.key-column": "v"}, "begins with 'k'"),
        ("k INT, w INT", {}, r"column of d\w+\.t 'w'"),
        ("k INT, s INT, v DATE", {}, r"'s' is varchar\(20\), not INT; 'v' is int\(11\), not DATE"),
        ("k INT, v INT, PRIMARY KEY (v) NOT ENFORCED", {}, r"as \(v\), and that of d\w+\.t is \(k\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    mariadb: MariaDb, address: Address, session: Session, columns: str, options: dict[str, str], says: str
) -> None:
    made(mariadb, address, 1)

    def tried() -> None:
        table(session, address, columns, **options)
        session.sql("SELECT * FROM t")

    with pytest.raises(ts.TablestoreError, match=says) as refused:
        tried()
    assert "typed" not in str(refused.value).replace("is typed", "")


def test_a_password_in_a_file_and_none_at_all(
    mariadb: MariaDb, address: Address, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(mariadb, address, 1)
    (tmp_path / "secret").write_text(PASSWORD + "\n")
    table(session, address, name="f", password="", tablestore__password_file=str(tmp_path / "secret"))
    table(session, address, name="e", password="")
    for name in ("f", "e"):
        assert rows(session, f"SELECT k FROM {name}") == [(0,)]
    monkeypatch.setenv(VARIABLE, "wrong")
    table(session, address)
    with pytest.raises(ts.InvalidRequest, match=f"password comes from environment variable {VARIABLE}"):
        session.sql("SELECT * FROM t")


def test_changes_go_only_where_they_find_their_rows(
    mariadb: MariaDb, address: Address, session: Session
) -> None:
    made(mariadb, address, 1)
    table(session, address, "k INT, v BIGINT")
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


def test_what_is_known_beside_the_row_are_columns_too(
    session: Session, address: Address, mariadb: MariaDb
) -> None:
    made(mariadb, address, 3)
    table(session, address, METADATA)
    found = rows(session, "SELECT src, table_name, k, CAST(at AS STRING) FROM t ORDER BY k")
    assert [row[:2] for row in found] == [(address.database, "t")] * 3
    assert {row[3] for row in found} == {"1970-01-01 00:00:00.000"}
    (wanted,) = rows(session, "SELECT COUNT(*) FROM t WHERE src <> 'x' AND at < CURRENT_TIMESTAMP")
    assert wanted == (3,)
    query, began = "SELECT k, at, src FROM t", int(time.time())
    followed = follow(planned(session, reader(()).read(pieces(query)[0]), query))
    next(followed)
    mariadb.run(f"INSERT INTO {address.database}.t (k, v, s) VALUES (1000, 1, 'x')")
    seen = (row for batch, _ in followed for row in batch.to_pylist())
    row = next(row for row in seen if row["k"] == 1000)
    assert began <= row["at"].timestamp() <= time.time() + 1
    assert row["src"] == address.database


def test_columns_of_metadata_are_shown_and_taken_over(session: Session, address: Address) -> None:
    table(session, address, METADATA)
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
    session: Session, address: Address, mariadb: MariaDb, column: str, error: type, said: str
) -> None:
    made(mariadb, address, 1)
    table(session, address, f"k INT, {column}")
    with pytest.raises(error, match=said):
        session.sql("SELECT * FROM t").to_arrow()
    session.sql("CREATE TEMPORARY TABLE g (k INT, o STRING METADATA) WITH ('connector' = 'datagen')")
    with pytest.raises(ts.Unsupported, match=r"METADATA column 'o'.*connector 'datagen'"):
        session.sql("SELECT * FROM g LIMIT 1").to_arrow()


def test_a_table_that_declares_metadata_alone_has_the_columns_of_the_source(
    session: Session, address: Address, mariadb: MariaDb
) -> None:
    made(mariadb, address, 1)
    table(session, address, "db STRING METADATA FROM 'database_name'")
    names = [row[0] for row in rows(session, "DESCRIBE t")]
    assert names == ["k", "v", "s", "db"]
    assert rows(session, "SELECT db FROM t") == [(address.database,)]
