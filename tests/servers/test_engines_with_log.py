"""Engines that write to tables with a log, to their end: a change directory, a captured database, SQL and its
jobs. Afterwards files, log, union read and a stream from the log's first row all hold what the source holds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.cdc.items import USER, content, ingested, item_table, shop
from tests.log import held
from tests.servers.kafka import Broker
from tests.servers.mariadb import PASSWORD, MariaDb
from tests.spark.test_kill import ROOT, await_the_end_of_group

pytestmark = pytest.mark.large
EMBEDDED = {"log.system": "embedded"}
SECONDS = 240
KILLED_AFTER_ITS_LOG = """
import os, signal, sys
from pathlib import Path
import tablestore as ts
from tablestore.log.embedded.appender import EmbeddedAppender
from tests.cdc.items import ingest

commit, commits = EmbeddedAppender.commit, []

def commit_and_die(self, *arguments):
    found = commit(self, *arguments)
    commits.append(found)
    if len(commits) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return found

EmbeddedAppender.commit = commit_and_die
source, warehouse, checkpoint = sys.argv[1:]
how = {"engine": "local", "checkpoint": checkpoint, "log_bytes": 1}
ingest(ts.connect(warehouse), Path(source), **how).wait()
"""


def require_same_everywhere(lake: ts.Lake, name: str) -> list[dict[str, Any]]:
    """The rows of a table whose log and files hold the same."""
    table = lake.table(name)
    assert table.log is not None
    assert table.log.finish() == (), "the files have all rows of the log"
    held.require_prefix(lake, table)
    rows = sorted(table.scan().to_arrow().to_pylist(), key=str)
    assert sorted(table.scan(log=True).to_arrow().to_pylist(), key=str) == rows
    assert sorted(replayed(table), key=str) == rows
    return rows


def replayed(table: ts.Table) -> list[dict[str, Any]]:
    """What is left when the changes of the whole log are applied in order, each to what it claims."""
    state: dict[tuple[Any, ...], dict[str, Any]] = {}
    start = {"log": dict.fromkeys(map(str, held.position(table)), 0)}
    for step in table.stream(start=start, timeout=0.0):
        assert step.source == "log"
        for row in step.to_arrow().to_pylist():
            kind, key = row.pop("rowkind"), tuple(row[name] for name in table.primary_key)
            if kind in ("-U", "-D"):
                assert state.pop(key) == row
            else:
                assert key not in state
                state[key] = row
    return list(state.values())


def test_an_ingest_killed_between_log_and_files_ends_as_its_source(tmp_path: Path) -> None:
    source, expected = shop(tmp_path / "s")
    lake = ts.connect(tmp_path / "lake")
    table = item_table(lake, **EMBEDDED)
    command = [sys.executable, "-c", KILLED_AFTER_ITS_LOG, str(source), lake.warehouse, str(tmp_path / "ck")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment, start_new_session=True
    )
    said = process.communicate(timeout=SECONDS)[1]
    await_the_end_of_group(process.pid)
    assert process.returncode == -9, said
    assert held.end(table) != held.position(table), "the log is ahead of the files"
    ingested(lake, source, engine="local", checkpoint=tmp_path / "ck", log_bytes=1)
    assert content(lake.table("shop.item")) == expected
    require_same_everywhere(lake, "shop.item")
    commits = [c for c in table.inspect.commits().to_pylist() if c["commit_kind"] == "APPEND"]
    assert {c["commit_user"] for c in commits} == {USER}
    numbers = [c["commit_identifier"] for c in commits]
    assert numbers == sorted(set(numbers))


def test_a_captured_database_is_in_the_topics_of_its_tables(
    kafka: Broker, mariadb: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABLESTORE_SOURCE_PASSWORD", PASSWORD)
    lake = ts.connect(tmp_path / "lake")
    log = {"log.system": "kafka", "kafka.bootstrap.servers": kafka.address}
    more: dict[str, Any] = {"options": {"bucket": 2, **log}, "follow": False, "engine": "local"}
    mariadb.run(
        "CREATE DATABASE logged",
        "CREATE TABLE logged.orders (id INT PRIMARY KEY, v INT, note VARCHAR(20))",
        "INSERT INTO logged.orders SELECT seq, seq * 2, concat('n', seq) FROM logged.seq_1_to_50",
    )
    try:
        for changes in (
            "UPDATE logged.orders SET v = -1 WHERE id < 9",
            "DELETE FROM logged.orders WHERE id > 40",
        ):
            job = lake.ingest(f"{mariadb.url}/logged", into="ods", interval="50ms", **more)
            assert job.wait(SECONDS)
            assert job.error is None
            mariadb.run(changes)
        job = lake.ingest(f"{mariadb.url}/logged", into="ods", interval="50ms", **more)
        assert job.wait(SECONDS)
        wanted = mariadb.run("SELECT id, v, note FROM logged.orders ORDER BY id")
    finally:
        mariadb.run("DROP DATABASE logged")
    actual = require_same_everywhere(lake, "ods.orders")
    assert sorted((r["id"], r["v"], r["note"]) for r in actual) == list(wanted)


@pytest.mark.spark
def test_inserts_and_jobs_of_sql_from_log_to_log(spark: Any, tmp_path: Path) -> None:
    lake = ts.connect(tmp_path / "lake")
    session = ts.sql_session(lake)
    session.spark = spark
    kept = "PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'log.system' = 'embedded')"
    for statement in (
        "CREATE DATABASE shop",
        "USE shop",
        f"CREATE TABLE orders (id INT, customer STRING, amount INT, {kept}",
        f"CREATE TABLE large (id INT, who STRING, {kept}",
        "CREATE TABLE sums (id STRING, total BIGINT, PRIMARY KEY (id) NOT ENFORCED) "
        "WITH ('bucket' = '1', 'log.system' = 'embedded')",
        "INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 20), (3, 'cem', 30)",
        "SET 'execution.runtime-mode' = 'streaming'",
        "SET 'execution.checkpointing.interval' = '50 ms'",
    ):
        session.sql(statement)
    large = "SELECT id, upper(customer) AS who FROM orders WHERE amount > 15"
    sums = "SELECT customer AS id, sum(amount) AS total FROM orders GROUP BY customer"
    session.sql(f"EXECUTE STATEMENT SET BEGIN INSERT INTO large {large}; INSERT INTO sums {sums}; END")
    session.sql("SET 'execution.runtime-mode' = 'batch'")
    for statement in (
        "INSERT INTO orders VALUES (4, 'dan', 40), (2, 'bob', 5)",
        "UPDATE orders SET amount = 50, customer = 'eve' WHERE id = 1",
        "DELETE FROM orders WHERE id = 3",
    ):
        session.sql(statement)
    until = time.monotonic() + SECONDS
    for target, query in (("large", large), ("sums", sums)):
        wanted = sorted(session.sql(query).to_arrow().to_pylist(), key=str)
        while sorted(session.sql(f"SELECT * FROM {target}").to_arrow().to_pylist(), key=str) != wanted:
            assert not session.jobs.failures()
            assert time.monotonic() < until, session.sql("SHOW JOBS").text(width=None)
            time.sleep(0.1)
    session.jobs.stop_all()
    for name in ("orders", "large", "sums"):
        require_same_everywhere(lake, f"shop.{name}")
