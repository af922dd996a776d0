"""Two processes commit to one table: no row is lost, no snapshot is made twice; one may be killed.

On S3 the conditional PUT decides. Where it is declared broken, and in the last tests the local files too, a
catalog's lock does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.servers.hive import LOCK_SECONDS
from tests.servers.s3 import S3Server

pytestmark = pytest.mark.large

COLUMNS = {"k": ts.BIGINT, "v": ts.STRING}
QUIET = {"write-only": "true", "snapshot.num-retained.min": "1000"}
QUIET |= {"commit.max-retries": "1000", "commit.max-retry-wait": "50 ms"}  # the slower one may lose often


def start(options: dict[str, Any], first: int, count: int) -> subprocess.Popen[str]:
    """A committer that is ready to go."""
    command = [sys.executable, "-m", "tests.servers.committer", json.dumps(options, default=str), "race.t"]
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [*command, str(first), str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert process.stdout.readline() == "ready\n"
    return process


def go(processes: Sequence[subprocess.Popen[str]]) -> None:
    for p in processes:
        p.stdin.write("\n")
        p.stdin.flush()


def finished(process: subprocess.Popen[str]) -> list[int]:
    """The keys it says it committed; it must have ended well."""
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return [int(line) for line in said.split()]


def create_table(options: dict[str, Any]) -> ts.Table:
    lake = ts.connect(**options)
    return lake.create_table("race.t", schema=COLUMNS, primary_key=["k"], options=QUIET)


def race(options: dict[str, Any], count: int) -> None:
    """`count` commits by each of two processes."""
    table = create_table(options)
    both = [start(options, first, count) for first in (0, 1_000_000)]
    go(both)
    said = sorted(k for p in both for k in finished(p))
    assert_all_there(table, said)
    assert table.store.snapshots.ids() == list(range(1, 2 * count + 1))


def assert_all_there(table: ts.Table, keys: list[int]) -> None:
    assert sorted(table.scan(columns=["k"]).to_arrow().column("k").to_pylist()) == keys
    snapshots = table.store.snapshots.all()
    assert len({s.uuid for s in snapshots}) == len({s.commit_user for s in snapshots}) == len(snapshots)
    assert table.check() == []


def test_s3_decides_by_conditional_put(s3: S3Server) -> None:
    race({"warehouse": s3.bucket(), **s3.options}, 50)


def test_a_lock_in_sql_decides_where_the_store_cannot(moto: S3Server, sql_uri: str) -> None:
    options = {"metastore": "jdbc", "uri": sql_uri, "warehouse": moto.bucket(), "catalog_key": moto.bucket()}
    race({**options, **moto.options, "s3.conditional-put": False, "lock_check_max_sleep": "100 ms"}, 15)


def test_a_lock_of_hive_decides_between_local_processes(hive: str, tmp_path: Path) -> None:
    options = {"metastore": "hive", "uri": hive, "warehouse": tmp_path / "lake", "lock_enabled": True}
    race({**options, "lock_check_max_sleep": "100 ms"}, 10)


def test_a_committer_that_is_killed_leaves_whole_commits(s3: S3Server) -> None:
    options = {"warehouse": s3.bucket(), **s3.options}
    table = create_table(options)
    survivor, victim = start(options, 0, 30), start(options, 1_000_000, 1000)
    go([survivor, victim])
    said = [int(victim.stdout.readline()) for _ in range(8)]
    victim.kill()
    said += [int(line) for line in victim.communicate()[0].split()]
    done = finished(survivor)
    rows = set(table.scan(columns=["k"]).to_arrow().column("k").to_pylist())
    assert set(done) | set(said) <= rows
    assert rows - set(done) - set(said) <= {said[-1] + 1}, "at most the commit it died in is there as well"
    assert table.check() == []


HOLD = """
import json, sys, time
import tablestore as ts
with ts.connect(**json.loads(sys.argv[1]))._catalog.hold("race", "t"):
    print("held", flush=True)
    time.sleep(600)
"""


def killed_while_it_holds(options: dict[str, Any]) -> None:
    """A process takes the table's lock and dies with it."""
    given = json.dumps(options, default=str)
    with subprocess.Popen([sys.executable, "-c", HOLD, given], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        process.kill()


def test_a_lock_of_a_dead_process_ends_with_its_time(sql_uri: str, tmp_path: Path) -> None:
    options = {"metastore": "jdbc", "uri": sql_uri, "warehouse": tmp_path / "lake", "lock_enabled": True}
    options |= {"catalog_key": "dead", "lock_acquire_timeout": "60 s", "lock_check_max_sleep": "200 ms"}
    table = create_table(options)
    killed_while_it_holds({**options, "lock_acquire_timeout": "2 s"})
    table.write([{"k": 1, "v": "x"}])
    assert_all_there(table, [1])


def test_a_lock_in_hive_of_a_dead_process_ends_with_its_time(hive: str, tmp_path: Path) -> None:
    options = {"metastore": "hive", "uri": hive, "warehouse": tmp_path / "lake", "lock_enabled": True}
    options["lock_acquire_timeout"] = f"{10 * LOCK_SECONDS} s"
    table = create_table(options)
    killed_while_it_holds(options)
    table.write([{"k": 1, "v": "x"}])
    assert_all_there(table, [1])


@pytest.fixture(autouse=True)
def _no_table_of_another_test(request: pytest.FixtureRequest) -> None:
    """The metastore is shared by all tests of a run."""
    if "hive" in request.fixturenames:
        uri, folder = request.getfixturevalue("hive"), request.getfixturevalue("tmp_path")
        lake = ts.connect(metastore="hive", uri=uri, warehouse=folder)
        lake.drop_database("race", cascade=True, if_exists=True)
