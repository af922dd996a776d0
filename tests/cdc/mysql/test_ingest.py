"""A whole database of a real MariaDB through `lake.ingest`: rows, changes, statements, and a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tablestore as ts
from tablestore.cdc.databases.address import PASSWORD_VARIABLE
from tests.servers.mariadb import PASSWORD, MariaDb


@pytest.fixture
def shop(mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)  # after Spark was started
    mariadb.run("CREATE DATABASE shopping")
    yield "shopping"
    mariadb.run("DROP DATABASE shopping")


def content(lake: ts.Lake, table: str) -> list[tuple[Any, ...]]:
    found = lake.table(table).scan().to_arrow()
    return sorted(zip(*(c.to_pylist() for c in found.columns), strict=True))


def soon(claim: Callable[[], bool], job: Any, seconds: float = 300) -> None:
    """Wait until it holds."""
    until = time.monotonic() + seconds
    while not claim():
        assert job.running, repr(job.error)
        assert time.monotonic() < until, repr(job)
        time.sleep(0.1)


@pytest.mark.large
def test_a_database_is_followed_with_its_statements_and_goes_on_after_a_stop(
    lake: ts.Lake, mariadb: MariaDb, shop: str
):
    run = mariadb.run
    run(f"CREATE TABLE {shop}.orders (id BIGINT PRIMARY KEY, v INT, note VARCHAR(20))")
    run(f"CREATE TABLE {shop}.people (name VARCHAR(20) PRIMARY KEY, age INT)")
    run(f"CREATE TABLE {shop}.log (line TEXT)")
    run(f"INSERT INTO {shop}.orders SELECT seq, seq * 2, concat('n', seq) FROM {shop}.seq_1_to_500")
    run(f"INSERT INTO {shop}.people VALUES ('ann', 1), ('bob', 2)")

    def ingest() -> Any:
        url = f"{mariadb.url}/{shop}"
        more: dict[str, Any] = {"chunk_rows": 200, "engine": "local"}
        return lake.ingest(url, into="ods", interval="100ms", **more)

    job = ingest()
    soon(lambda: "ods.people" in lake.tables() and len(content(lake, "ods.people")) == 2, job)
    run(f"UPDATE {shop}.orders SET v = -1 WHERE id <= 10")
    run(f"ALTER TABLE {shop}.orders ADD city VARCHAR(9) AFTER id")
    run(f"INSERT INTO {shop}.orders VALUES (1000, 'Bonn', 5, 'x')")
    run(f"TRUNCATE {shop}.people")
    run(f"CREATE TABLE {shop}.late (id INT PRIMARY KEY)")
    run(f"INSERT INTO {shop}.late VALUES (7)")
    soon(lambda: "ods.late" in lake.tables() and content(lake, "ods.late") == [(7,)], job)
    soon(lambda: content(lake, "ods.people") == [], job)
    job.stop()
    run(f"RENAME TABLE {shop}.late TO {shop}.later")
    run(f"DELETE FROM {shop}.orders WHERE id > 100 AND id < 1000")
    run(f"INSERT INTO {shop}.later VALUES (8)")
    job = ingest()
    soon(lambda: "ods.later" in lake.tables() and content(lake, "ods.later") == [(7,), (8,)], job)
    job.stop()
    assert job.error is None
    expected = [(i, None, -1 if i <= 10 else 2 * i, f"n{i}") for i in range(1, 101)]
    assert content(lake, "ods.orders") == [*expected, (1000, "Bonn", 5, "x")]
    assert sorted(lake.tables()) == ["ods.later", "ods.orders", "ods.people"]
    done = {(e.kind, e.source): e for report in job.reports() for e in report.events}
    assert done["skipped", f"{shop}.log"].table == ""
    assert "added city" in done["altered", f"{shop}.orders"].done
    statements = lake.table("ods.orders").store.snapshots
    noted = [(statements.get(i).properties or {}).get("tablestore.statement", "") for i in statements.ids()]
    assert any("ADD city" in text for text in noted)
    assert job.freshness().quantile(0.5) < 30


def test_one_table_of_an_address_ends_when_all_is_read(lake: ts.Lake, mariadb: MariaDb, shop: str):
    mariadb.run(f"CREATE TABLE {shop}.t (id INT PRIMARY KEY, d DATE)")
    mariadb.run(f"INSERT INTO {shop}.t VALUES (1, '2024-02-03'), (2, NULL)")
    url = f"{mariadb.url}/{shop}.t"
    more: dict[str, Any] = {"computed": {"y": "year(d)"}, "follow": False, "engine": "local"}
    job = lake.ingest(url, into="mine", interval="50ms", **more)
    assert job.wait(300)
    assert [(r[0], r[2]) for r in content(lake, "default.mine")] == [(1, 2024), (2, None)]
