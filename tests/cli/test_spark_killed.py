"""`cdc --engine spark` whose processes are killed: of Python it goes on, without Java it ends by 3."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import tablestore as ts
from notebooks.soak.services import Services
from tablestore.cli.door import ExitCode
from tests.servers import mariadb as servers
from tests.suite import ending

pytestmark = pytest.mark.large
SECONDS = 180.0


def kill_child(process: int, words: str) -> None:
    """Kill the descendant of a process whose command has these words, once there is one."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for child in ending.below(process, words)[:1]:
            child.kill()
            return
        time.sleep(0.05)
    raise AssertionError(f"no process has {words}")


def test_a_capture_by_spark_bears_lost_workers_and_ends_without_java(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    with servers.mariadb(servers.FAST) as server, Services(trusted="") as services:
        server.run("CREATE DATABASE shop", "CREATE TABLE shop.t (k INT PRIMARY KEY)")
        server.run("INSERT INTO shop.t VALUES (0)")
        source = ("--from", f"{server.url}/shop", "--password-file", str(server.password_file))
        where = ("--warehouse", str(tmp_path), "--into", "ods", "--engine", "spark", "--cores", "2")
        services.add("cdc", "tablestore.cli", "cdc", *source, *where)
        services.start("cdc")
        process = services.numbers("cdc")[0]

        def until_there(rows: int) -> None:
            end, lake = time.monotonic() + SECONDS, ts.connect(tmp_path)
            while "ods.t" not in lake.tables() or lake.table("ods.t").scan().to_arrow().num_rows < rows:
                assert time.monotonic() < end, services.output("cdc")[-2_000:]
                time.sleep(0.2)

        until_there(1)
        for number, words in enumerate(("streaming_source_runner", "pyspark.daemon"), 1):
            kill_child(process, words)
            server.run(f"INSERT INTO shop.t VALUES ({number})")
            until_there(1 + number)
        kill_child(process, "pyspark-shell")
        end = time.monotonic() + SECONDS
        while not (codes := services.ended()):
            assert time.monotonic() < end
            time.sleep(0.1)
    assert codes == {"cdc": ExitCode.FAILED}
