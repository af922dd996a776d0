"""A query leaves its instance of DuckDB to the next one that may do the same, and nothing of itself in it."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest
from tablestore.sql import Session
from tablestore.sql.query.connection import DuckConnection, DuckSettings, LockedDuck

ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture(autouse=True)
def own_instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Instances of one test: they spill below a directory of its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[DuckSettings]:
    """What the instances that begin from here on may do, in order."""
    allowed: list[DuckSettings] = []
    begin = LockedDuck.__init__

    def counted(self: LockedDuck, what: DuckSettings, *, kept: bool) -> None:
        allowed.append(what)
        begin(self, what, kept=kept)

    monkeypatch.setattr(LockedDuck, "__init__", counted)
    return allowed


def test_one_instance_serves_many_queries(session: Session, started: list[DuckSettings]) -> None:
    for _ in range(3):
        session.sql("SELECT count(*) FROM orders WHERE amount + 1 > 0").to_arrow()
        session.sql("INSERT INTO orders VALUES (77, 'dan', 1.5)")
        session.sql("UPDATE orders SET amount = amount + 1 WHERE order_id = 77")
    assert started == [DuckSettings("60%", (), "UTC")]
    session.sql("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    now = session.sql("SELECT CAST(TIMESTAMP '2026-01-01 00:00:00' AS TIMESTAMP_LTZ) AS t").to_arrow()["t"]
    assert str(now.type) == "timestamp[us, tz=Asia/Tokyo]"
    session.sql("SET 'execution.memory-limit' = '100MB'")
    session.sql("SELECT 1").to_arrow()
    assert started[1:] == [
        DuckSettings("60%", (), "Asia/Tokyo"),
        DuckSettings("100MB", (), "Asia/Tokyo"),
    ]


def test_a_query_sees_no_view_and_no_table_of_one_before_it(started: list[DuckSettings]) -> None:
    with DuckConnection(kept=True) as connection:
        connection.duck.register("rows", ROWS)
        connection.duck.execute("CREATE TEMP TABLE copied AS SELECT * FROM rows").fetchall()
        connection.duck.execute("CREATE TEMP VIEW doubled AS SELECT a * 2 AS a FROM rows").fetchall()
        assert connection.duck.sql("SELECT sum(a) FROM doubled").fetchall() == [(12,)]
    with DuckConnection(kept=True) as later:
        for name in ("rows", "copied", "doubled"):
            with pytest.raises(duckdb.Error, match=name):
                later.duck.sql(f"SELECT * FROM {name}").fetchall()
        later.duck.register("rows", ROWS.slice(0, 1))
        assert later.duck.sql("SELECT sum(a) FROM rows").fetchall() == [(1,)]
    assert len(started) == 1


def test_two_queries_at_once_have_two_instances(started: list[DuckSettings]) -> None:
    for _ in range(2):
        with DuckConnection(kept=True) as first, DuckConnection(kept=True) as second:
            first.duck.register("rows", ROWS)
            second.duck.register("rows", ROWS.slice(0, 1))
            assert first.duck.sql("SELECT sum(a) FROM rows").fetchall() == [(6,)]
            assert second.duck.sql("SELECT sum(a) FROM rows").fetchall() == [(1,)]
    assert len(started) == 2


def test_only_a_query_that_may_read_a_file_reaches_it(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    for path in paths:
        duckdb.sql("SELECT 1 AS a").write_parquet(path)
    for mine, other in (paths, paths[::-1]):
        with DuckConnection(files=(mine,), kept=True) as connection:
            assert connection.duck.sql(f"SELECT a FROM read_parquet('{mine}')").fetchall() == [(1,)]
            with pytest.raises(duckdb.Error, match="Permission"):
                connection.duck.sql(f"SELECT a FROM read_parquet('{other}')").fetchall()
    with DuckConnection(kept=True) as connection, pytest.raises(duckdb.Error, match="Permission"):
        connection.duck.sql(f"SELECT a FROM read_parquet('{paths[0]}')").fetchall()


@pytest.mark.parametrize("statement", ["SET enable_external_access = true", "SET TimeZone = 'Asia/Tokyo'"])
def test_no_connection_changes_a_setting_of_the_instance(statement: str) -> None:
    with DuckConnection(kept=True) as connection:
        with pytest.raises(duckdb.Error, match="locked"):
            connection.duck.execute(statement)
        assert connection.duck.sql("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]


def test_after_an_error_queries_get_another_instance(started: list[DuckSettings]) -> None:
    with DuckConnection(kept=True) as failing, pytest.raises(InvalidRequest):
        failing.run(lambda: failing.duck.execute("SELECT * FROM nothing"))
    with DuckConnection(kept=True) as after:
        assert after.duck.sql("SELECT 1").fetchall() == [(1,)]
    assert len(started) == 2


@pytest.mark.large
def test_an_instance_that_spilled_ends_with_its_query(own_instances: Path) -> None:
    slow = "SELECT random() r, repeat('x', 100) FROM range(2000000) ORDER BY r"
    with DuckConnection(memory="60MB", kept=True) as connection:
        connection.duck.sql(slow).to_arrow_reader()
        assert [path.is_dir() for path in own_instances.iterdir()] == [True]
    assert list(own_instances.iterdir()) == []
    with DuckConnection(memory="60MB", kept=True) as connection:
        connection.duck.sql(slow).to_arrow_reader()
        assert [path.is_dir() for path in own_instances.iterdir()] == [True]


def test_few_instances_wait(tmp_path: Path, started: list[DuckSettings]) -> None:
    zones = ["UTC", "Asia/Tokyo", "Europe/Berlin", "America/Lima", "Africa/Cairo", "Asia/Seoul"]
    for zone in [*zones, *zones[-2:], zones[0]]:
        with DuckConnection(zone=zone, kept=True) as connection:
            assert connection.duck.sql("SELECT current_setting('TimeZone')").fetchall() == [(zone,)]
    assert [allowed.zone for allowed in started] == [*zones, zones[0]]


def test_threads_ask_at_once(session: Session, lake: ts.Lake) -> None:
    """Each query has its own rows, also of a function that is worked out in Python."""
    sums: dict[int, list[int]] = {}

    def ask(number: int) -> None:
        own = ts.sql_session(lake)
        query = f"SELECT sum(CAST(INITCAP('{number}') AS INT)) AS s FROM (VALUES (1), (2), (3)) AS t (a)"
        sums[number] = [own.sql(query).to_arrow()["s"][0].as_py() for _ in range(5)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == {number: [3 * number] * 5 for number in range(8)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_begins_with_none_of_its_parent_s_instances() -> None:
    with DuckConnection(kept=True) as connection:
        connection.duck.sql("SELECT 1").fetchall()
    child = os.fork()
    if child == 0:
        with DuckConnection(kept=True) as connection:
            rows = connection.duck.sql("SELECT sum(range) FROM range(100000)").fetchall()
        os._exit(0 if rows == [(4999950000,)] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with DuckConnection(kept=True) as connection:
        assert connection.duck.sql("SELECT 1").fetchall() == [(1,)]
