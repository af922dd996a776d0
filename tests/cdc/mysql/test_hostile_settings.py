"""A server whose settings would change what is read: a session sets them, and rows are counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tablestore.cdc.mysql import server
from tablestore.cdc.mysql.columns import SourceTable
from tablestore.cdc.mysql.server import Connection, dialect_of
from tablestore.cdc.mysql.snapshot import read_range, read_view
from tablestore.core.errors import Corrupt
from tests.cdc.databases.sources import MariaDbSource

HOSTILE = {
    "sql_select_limit": "7",
    "max_statement_time": "0.000001",
    "sql_mode": "'ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES'",
    "time_zone": "'+05:30'",
    "character_set_results": "latin1",
    "character_set_client": "latin1",
    "tx_isolation": "'READ-COMMITTED'",
    "completion_type": "'CHAIN'",
    "sql_quote_show_create": "0",
    "sql_auto_is_null": "1",
    "system_versioning_asof": "'2001-01-01 00:00:00'",
    "init_connect": "'SET NAMES latin1, sql_select_limit = 3'",
}


@pytest.fixture
def hostile(source: MariaDbSource) -> Iterator[None]:
    before = {name: source.server.run(f"SELECT @@global.{name}")[0][0] for name in HOSTILE}
    with source.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_select_limit = DEFAULT, max_statement_time = 0")
        try:
            for name, value in HOSTILE.items():
                cursor.execute(f"SET GLOBAL {name} = {value}")
            yield
        finally:
            for name, value in before.items():
                shown = "DEFAULT" if name == "system_versioning_asof" else "%s"
                cursor.execute(f"SET GLOBAL {name} = {shown}", (value,) if shown == "%s" else None)


def test_settings_of_the_server_change_nothing_of_what_is_read(
    source: MariaDbSource, request: pytest.FixtureRequest
) -> None:
    source.run(
        "CREATE TABLE t (k INT PRIMARY KEY, s VARCHAR(9), c CHAR(5), at TIMESTAMP NULL, j TEXT)",
        "INSERT INTO t (k, s, c, at, j) SELECT seq, "
        "'é→\\\\', 'x', '2024-05-06 01:02:03', 'ß' FROM seq_1_to_60",
        "CREATE TABLE a (k INT PRIMARY KEY, v INT)",
        "INSERT INTO a SELECT seq, seq FROM seq_1_to_50",
    )
    calm = source.lake()
    calm.catch_up()
    assert len(calm.rows["a"]) == 50
    request.getfixturevalue("hostile")
    lake = source.lake(chunk_rows=20)
    lake.catch_up()
    assert lake.rows == calm.rows
    assert len(lake.rows["t"]) == 60


@pytest.mark.usefixtures("hostile")
def test_a_transaction_beside_a_snapshot_is_not_in_it(source: MariaDbSource) -> None:
    with source.server.connect(database=source.name) as writer, writer.cursor() as cursor:
        cursor.execute("SET max_statement_time = 0")
        cursor.execute("CREATE TABLE a (k INT PRIMARY KEY, v INT)")
        cursor.execute("INSERT INTO a VALUES (1, 1)")
        with Connection.open(source.address) as connection:
            table = SourceTable.read(connection, source.name, "a")
            with read_view(connection, dialect_of(connection)):
                cursor.execute("INSERT INTO a VALUES (2, 2)")
                (batch,) = read_range(connection, table)
    assert batch["k"].to_pylist() == [1]


def test_rows_that_do_not_come_are_counted(source: MariaDbSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a proxy that gives a limit to whoever connects."""
    source.made(30, "a")
    monkeypatch.setattr(server, "_SESSION", server._SESSION.replace("18446744073709551615", "7"))
    with Connection.open(source.address) as connection:
        table = SourceTable.read(connection, source.name, "a")
        with pytest.raises(Corrupt, match=r"30 rows of .* are there, 7 came"):
            list(read_range(connection, table))
