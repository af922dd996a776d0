"""The SQL connectors of databases on real servers: batch mode, jobs, what is refused."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.databases.address import PASSWORD_VARIABLE
from tablestore.sql import Session
from tests.cdc.databases.sources import MariaDbSource, PostgresSource, Source
from tests.cdc.databases.sql_tables import COLUMNS, await_rows, now, rows, table
from tests.cdc.databases.writers import TableWriters
from tests.servers.mariadb import PASSWORD


def test_batch_mode_gives_the_rows_of_now(source: Source, session: Session) -> None:
    source.made(100, "t")
    table(session, source)
    assert rows(session, "SELECT count(*), sum(v), max(s) FROM t WHERE k >= 100") == [(50, 7450, "x")]
    source.run("DELETE FROM t WHERE k > 4", "UPDATE t SET s = 'é'")
    assert rows(session, "SELECT * FROM t ORDER BY k") == [(0, 0, "é"), (2, 2, "é"), (4, 4, "é")]
    both = "SELECT count(*) FROM t JOIN t AS other ON t.k = other.k + 2 WHERE other.v = 0"
    assert rows(session, both) == [(1,)]
    table(session, source, "s STRING, k DECIMAL(12, 2)", "narrow")
    actual = rows(session, "SELECT s, k FROM narrow ORDER BY k DESC")
    assert [str(k) for _, k in actual] == ["4.00", "2.00", "0.00"]
    assert not isinstance(source, PostgresSource) or source.slots() == []


def test_a_table_without_columns_has_those_of_the_source(source: Source, session: Session) -> None:
    source.run(
        f"CREATE TABLE t (b VARCHAR(9), a {source.key_types['c']} NOT NULL, at {source.time_type}, "
        "PRIMARY KEY (a, b))",
        "INSERT INTO t VALUES ('x', 18446744073709551615, '2024-01-02 03:04:05.678')",
    )
    table(session, source, "")
    shown = session.sql("SHOW CREATE TABLE t").to_arrow().column(0)[0].as_py()
    assert "`a` DECIMAL(20, 0) NOT NULL" in shown
    assert "PRIMARY KEY (`a`, `b`) NOT ENFORCED" in shown
    assert [(str(a), b) for a, b in rows(session, "SELECT a, b FROM t")] == [("18446744073709551615", "x")]
    session.sql("CREATE TABLE copied LIKE t (EXCLUDING OPTIONS)")
    assert session.lake().table("shop.copied").schema.names == ["b", "a", "at"]


REFUSED = [
    (COLUMNS, {"password": "typed"}, r"'password' is a secret: \$\{env:NAME\}, .*, not \*\*\*"),
    (COLUMNS, {"password": "${env:X}", "tablestore.password-file": "f"}, "password-file', not both"),
    (COLUMNS, {"hostname": ""}, "needs option 'hostname'"),
    (COLUMNS, {"table-name": "u"}, r"table in d\w+ 'u'|no table public\.u"),
    (COLUMNS, {"debezium.snapshot.mode": "never"}, "read from the log itself"),
    (COLUMNS, {"scan.startup.mode": "latest-offset"}, "'latest-offset' in batch mode"),
    (COLUMNS, {"server-time-zone": "Atlantis"}, "a time zone such as"),
    (COLUMNS, {"scan.incremental.snapshot.chunk.key-column": "v"}, "begins with 'k'"),
    ("k INT, w INT", {}, r"column of \w+\.t 'w'"),
    ("k INT, s INT, v DATE", {}, r"'s' is \D+\(20\), not INT; 'v' is int\S+, not DATE"),
    ("k INT, v INT, PRIMARY KEY (v) NOT ENFORCED", {}, r"as \(v\), and that of \w+\.t is \(k\)"),
]  # fmt: skip
"""Columns and options that batch mode refuses, and what it says."""
REFUSED_BY = {
    MariaDbSource.kind: [
        (COLUMNS, {"scan.startup.mode": "timestamp"}, "needs option 'scan.startup.timestamp-millis'"),
        (COLUMNS, {"scan.startup.mode": "specific-offset"}, "specific-offset.file' or "),
        (COLUMNS, {"scan.startup.specific-offset.skip-rows": "1"}, "between two transactions"),
    ],
    PostgresSource.kind: [
        (COLUMNS, {"schema-name": ""}, "needs option 'schema-name'"),
        (COLUMNS, {"decoding.plugin.name": "wal2json"}, "'decoding.plugin.name' is .*pgoutput"),
        (COLUMNS, {"changelog-mode": "upsert"}, "'changelog-mode' is .*all"),
        (COLUMNS, {"scan.startup.mode": "earliest-offset"}, "initial, snapshot, latest-offset"),
        (COLUMNS, {"slot.nam": "s"}, "slot.name"),
        ("k INT, d STRING METADATA FROM 'database_name'", {}, "schema_name"),
    ],
}  # fmt: skip


def test_what_does_not_fit_is_refused(source: Source, session: Session) -> None:
    source.made(1, "t")
    for place, (columns, options, says) in enumerate([*REFUSED, *REFUSED_BY[source.kind]]):

        def tried(name: str = f"t{place}", columns: str = columns, options: dict[str, str] = options) -> None:
            table(session, source, columns, name, **options)
            session.sql(f"SELECT * FROM {name}").to_arrow()

        with pytest.raises(ts.TablestoreError, match=says) as refused:
            tried()
        assert "typed" not in str(refused.value).replace("is typed", "")


@pytest.mark.spark
@pytest.mark.large
def test_jobs_keep_tables_like_the_source_while_it_changes(
    source: Source, session: Session, tmp_path: Path, caplog: pytest.LogCaptureFixture, spark: Any
) -> None:
    """Rows and groups; a word of the password is in no file and no log."""
    caplog.set_level("DEBUG")
    source.made(1_500, "t")
    source.let_stream("t")
    for name in ("t", "u"):
        table(session, source, name=name, **source.stream_options(name))
    session.sql(f"CREATE TABLE rows_now ({COLUMNS}) WITH ('bucket' = '1')")
    session.sql(
        "CREATE TABLE sums (g INT, n BIGINT, total BIGINT, largest BIGINT, PRIMARY KEY (g) NOT ENFORCED)"
    )
    session.spark = spark
    session.settings.set("execution.runtime-mode", "streaming")
    session.settings.set("execution.checkpointing.interval", "50 ms")
    with TableWriters(source, 7, 3_000, "t", pause_seconds=0.05) as writers:
        session.sql(
            "EXECUTE STATEMENT SET BEGIN INSERT INTO rows_now SELECT k, v, s FROM t; "
            "INSERT INTO sums SELECT k % 7, count(*), sum(v), max(v) FROM u GROUP BY k % 7; END"
        )
        until = time.monotonic() + 240
        while not now(session, "SELECT k FROM rows_now LIMIT 1") and time.monotonic() < until:
            time.sleep(0.3)
    assert writers.written > 20
    there = sorted(tuple(row.values()) for row in source.table("t")[1])
    await_rows(session, "SELECT k, v, s FROM rows_now ORDER BY k", there)
    sums = {g: [v for k, v, _ in there if k % 7 == g] for g in range(7)}
    groups = [(g, len(values), sum(values), max(values)) for g, values in sums.items()]
    await_rows(session, "SELECT * FROM sums ORDER BY g", groups)
    session.jobs.stop_all()
    for name in ("rows_now", "sums"):
        assert session.lake().table(f"shop.{name}").check() == []
    assert PASSWORD not in caplog.text + session.sql("SHOW CREATE TABLE t").text(width=None)
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and PASSWORD.encode() in p.read_bytes()]


def test_a_password_in_a_file_and_in_the_variable(
    source: Source, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.made(1, "t")
    (tmp_path / "secret").write_text(PASSWORD + "\n")
    table(session, source, name="f", password="", tablestore__password_file=str(tmp_path / "secret"))
    table(session, source, name="e", password="")
    monkeypatch.setenv("ANOTHER", PASSWORD)
    table(session, source, name="v", password="${env:ANOTHER}")
    for name in ("f", "e", "v"):
        assert rows(session, f"SELECT k FROM {name}") == [(0,)]
    monkeypatch.delenv(PASSWORD_VARIABLE)
    if isinstance(source, MariaDbSource):  # which asks for it
        monkeypatch.setenv("ANOTHER", "wrong")
        table(session, source, password="${env:ANOTHER}")
        with pytest.raises(ts.InvalidRequest, match="password comes from environment variable ANOTHER"):
            session.sql("SELECT * FROM t")
