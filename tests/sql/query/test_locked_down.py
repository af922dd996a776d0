"""SQL text reaches nothing but tables: files, network, settings, environment, extensions are out of reach."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tablestore.core.errors import TablestoreError
from tablestore.sql import Session
from tablestore.sql.query.connection import DuckConnection

SECRET = "/etc/hosts"

STATEMENTS = [
    f"SELECT * FROM read_csv('{SECRET}')",
    f"SELECT * FROM read_text('{SECRET}')",
    f"SELECT * FROM read_blob('{SECRET}')",
    f"SELECT * FROM read_json('{SECRET}')",
    f"SELECT * FROM read_parquet('{SECRET}')",
    f"SELECT * FROM '{SECRET}'",
    f'SELECT * FROM "{SECRET}"',
    "SELECT * FROM 'http://localhost/x.parquet'",
    "SELECT * FROM glob('/etc/*')",
    f"SELECT * FROM sniff_csv('{SECRET}')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('orders')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM pragma_database_list()",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM duckdb_settings",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM range(1000000000000)",
    "SELECT * FROM generate_series(1, 10)",
    "SELECT range(1000000000000)",
    "SELECT getenv('HOME')",
    "SELECT current_setting('temp_directory')",
    "SELECT current_user",
    "SELECT current_database()",
    "SELECT version()",
    "SELECT write_log('x')",
    "SELECT getvariable('x')",
    "SELECT (SELECT content FROM read_text('/etc/hosts'))",
    "SELECT * FROM orders WHERE order_id IN (SELECT 1 FROM read_csv('/etc/hosts'))",
    "WITH x AS (SELECT * FROM read_csv('/etc/hosts')) SELECT * FROM x",
    "SELECT * FROM orders, LATERAL read_csv('/etc/hosts')",
    "SELECT * FROM orders JOIN read_csv('/etc/hosts') ON TRUE",
    "SELECT 1 UNION ALL SELECT * FROM read_text('/etc/hosts')",
    "COPY (SELECT 1) TO '{tmp}/stolen.csv'",
    "COPY orders FROM '/etc/hosts'",
    "ATTACH '/tmp/x.db'",
    "ATTACH ':memory:' AS x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "EXPORT DATABASE '/tmp/x'",
    "IMPORT DATABASE '/tmp/x'",
    "PRAGMA database_list",
    "SET memory_limit = '1TB'",
    "SET 'memory_limit' = '1TB'",
    "RESET lock_configuration",
    "CREATE SECRET s (TYPE s3)",
    "CREATE MACRO f(x) AS x",
    "CHECKPOINT",
    "VACUUM",
    "FORCE CHECKPOINT",
    "SELECT 1 INTO OUTFILE '/tmp/x'",
    "FROM orders",
    "SELECT $x",
    "SELECT * FROM orders PIVOT (sum(amount) FOR customer IN ('ann'))",
    "SELECT * FROM orders FOR UPDATE",
    "SELECT read_csv.a FROM read_csv('/etc/hosts') AS read_csv",
    "VALUES ((SELECT content FROM read_text('/etc/hosts')))",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_reaches_out_is_refused(session: Session, statement: str) -> None:
    with pytest.raises(TablestoreError) as e:
        session.sql(statement.replace("{tmp}", tempfile.gettempdir())).to_arrow()
    assert "127.0.0.1" not in str(e.value)
    assert not os.path.exists(f"{tempfile.gettempdir()}/stolen.csv")


def test_a_caller_s_variables_are_no_tables(session: Session) -> None:
    stolen = duckdb.sql("SELECT 42 AS a").to_arrow_table()
    with pytest.raises(TablestoreError, match="stolen"):
        session.sql("SELECT * FROM stolen").to_arrow()
    assert stolen.num_rows == 1


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT * FROM read_text('{SECRET}')",
        "COPY (SELECT 1) TO '{tmp}/stolen.csv'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "ATTACH '/tmp/stolen.db'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET allowed_paths = ['/etc/hosts']",
        "RESET memory_limit",
        "SELECT getenv('HOME')",
    ],
)
def test_the_engine_is_locked_even_if_a_text_got_through(statement: str, tmp_path: Path) -> None:
    allowed = tmp_path / "a.parquet"
    duckdb.sql("SELECT 1 AS a").write_parquet(str(allowed))
    with DuckConnection(files=(str(allowed),)) as connection:
        assert connection.duck.sql(f"SELECT a FROM read_parquet('{allowed}')").fetchall() == [(1,)]
        with pytest.raises(duckdb.Error):
            connection.duck.execute(statement.replace("{tmp}", tempfile.gettempdir())).fetchall()


def test_a_query_spills_to_a_directory_of_its_own_that_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with DuckConnection(memory="60MB") as connection:
        connection.duck.sql(
            "SELECT random() r, repeat('x', 100) FROM range(2000000) ORDER BY r"
        ).to_arrow_reader()
        assert [path.is_dir() for path in tmp_path.iterdir()] == [True]
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_stops_a_query() -> None:
    with DuckConnection() as connection:

        def look(_: float) -> None:
            raise KeyboardInterrupt

        began = time.monotonic()
        slow = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"
        with pytest.raises(KeyboardInterrupt):
            connection.run(lambda: connection.duck.sql(slow).fetchall(), look)
        assert time.monotonic() - began < 120
        assert connection.duck.sql("SELECT 1").fetchall() == [(1,)]


def test_an_error_of_a_scan_arrives_as_it_is(session: Session, lake: Any) -> None:
    orders = lake.table("shop.orders")
    for file in orders.inspect.files()["file_path"].to_pylist():
        actual = next(Path(orders.location).rglob(Path(file).name))
        actual.write_bytes(b"nonsense")
    with pytest.raises(TablestoreError, match="data-") as e:
        session.sql("SELECT sum(amount) FROM orders").to_arrow()
    assert type(e.value).__name__ == "Corrupt"
