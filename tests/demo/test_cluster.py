"""The demo on a real cluster, over a store that is all that driver and workers share: a worker, the master
and the driver are killed in the middle."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tablestore as ts
from notebooks.cli import cluster as verb
from notebooks.demo.journal import Journal, Places
from notebooks.demo.spark_cluster import SparkCluster
from tablestore.cdc.databases.address import PASSWORD_VARIABLE
from tests.servers.mariadb import PASSWORD, MariaDb
from tests.servers.s3 import KEY, SECRET, S3Server, moto

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "notebooks" / "guide" / "cluster.md"
pytestmark = [pytest.mark.spark, pytest.mark.large]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with moto(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=2) as running:
        yield running


def environment(store: S3Server, home: Path) -> dict[str, str]:
    """What the driver knows: the store, and directories of its own."""
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("AWS_")},
        "PYTHONPATH": str(ROOT),
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
    }


def started(environment: dict[str, str], said: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "notebooks.cli", "demo", *options]
    with said.open("ab") as out:
        return subprocess.Popen(
            command, stdout=out, stderr=out, cwd=said.parent, env=environment, start_new_session=True
        )


def until(happened: Callable[[], bool], process: subprocess.Popen[bytes], said: Path) -> None:
    """Wait for something to happen while a process runs."""
    deadline = time.monotonic() + 600
    while not happened():
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < deadline, said.read_text()
        time.sleep(0.1)


def test_the_demo_on_a_cluster_survives_kills_of_worker_master_and_driver(
    cluster: SparkCluster, store: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    warehouse, said, figures = f"{store.bucket()}/lake", tmp_path / "said.txt", tmp_path / "demo.json"
    variables = environment(store, tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    options = ["--master", cluster.url, "--warehouse", warehouse]
    options += ["--scale-factor", "0.002", "--pairs", "2", "--chunks-per-batch", "1"]
    journal = Journal(Places.of(warehouse).journal)

    driver = started(variables, said, *options)
    until(lambda: len(journal.events("batch")) >= 1, driver, said)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    assert driver.returncode == -signal.SIGKILL, said.read_text()
    batches = len(journal.events("batch"))

    driver = started(variables, said, *options, "--json", str(figures))
    until(lambda: len(journal.events("batch")) > batches, driver, said)
    cluster.kill("worker-1")
    cluster.kill("master")
    cluster.start("master")
    cluster.start("worker-1")
    assert driver.wait(900) == 0, said.read_text()
    assert "going on after chunk" in said.read_text()
    facts = json.loads(figures.read_text())
    assert (facts["verified"], facts["pairs"]) == (True, 2)
    assert facts["read_amplification"] == 1.0, "it was compacted on the cluster"
    table = ts.open(f"{warehouse}/tpch.db/dwd_lineitem")
    assert table.check() == []
    log = Places.of(warehouse).spark_log.read_text()
    assert SECRET not in log + said.read_text()
    assert any("workbench demo" in name for name in cluster.states())


def test_workers_know_nothing_of_the_checkout(cluster: SparkCluster, tmp_path: Path):
    """They have neither its directory nor its variables; the code comes with the job."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "from tablestore.spark.sessions import session\n"
        "def place(_):\n"
        "    import tablestore\n"
        "    return os.getcwd(), tablestore.__file__, os.environ.get('OF_THE_DRIVER')\n"
        "spark = session('where', spark__master=sys.argv[1])\n"
        "print(spark.sparkContext.parallelize([1, 2], 2).map(place).collect())\n"
        "spark.stop()\n"
    )
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OF_THE_DRIVER": "yes"}
    done = subprocess.run(
        [sys.executable, str(program), cluster.url],
        capture_output=True,
        text=True,
        timeout=600,
        env=variables,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for folder, code, variable in ast.literal_eval(done.stdout.strip().splitlines()[-1]):
        assert folder.startswith(str(cluster.folder))
        assert code == "./tablestore.zip/tablestore/__init__.py"
        assert variable is None


def test_the_guide_followed_literally(
    cluster: SparkCluster, store: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its first example on the cluster, whose second ships an environment."""
    first, second = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), flags=re.S)
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        text = f'#!/bin/sh\nexport BY=archive\nexec {sys.executable} "$@"\n'.encode()
        member = tarfile.TarInfo("bin/python")
        member.size, member.mode = len(text), 0o755
        packed.addfile(member, io.BytesIO(text))
    where = "print(spark.sparkContext.range(1).map(lambda _: __import__('os').environ.get('BY')).collect())\n"
    program = "\n".join([first, second, where, "spark.stop()"])
    program = program.replace("spark://HOST:7077", cluster.url).replace("s3://bucket", store.bucket())
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=tmp_path,
        env=environment(store, tmp_path),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "4 buckets are compacted\n10 rows\n['archive']" in done.stdout


def test_two_drivers_write_one_table(cluster: SparkCluster, store: S3Server, tmp_path: Path):
    """Each commits six times, in keys that they share in part; the store decides who is first."""
    program = (
        "import sys, tablestore as ts\n"
        "master, warehouse, first = sys.argv[1], sys.argv[2], int(sys.argv[3])\n"
        "spark = ts.spark.session(spark__master=master, spark__cores__max=1)\n"
        "table = ts.connect(warehouse).table('shop.shared')\n"
        "for commit in range(6):\n"
        "    rows = spark.range(first, first + 100)\n"
        "    rows = rows.selectExpr('id', f'{commit} AS n', f'{first} AS driver')\n"
        "    ts.spark.write_df(rows, table)\n"
        "spark.stop()\n"
    )
    warehouse = f"{store.bucket()}/shared"
    place = {k.replace("_", "."): v for k, v in store.options.items()}
    schema = {"id": ts.BIGINT, "n": ts.INT, "driver": ts.INT}
    table = ts.connect(warehouse, **place).create_table(
        "shop.shared", schema=schema, primary_key=["id"], options={"bucket": 2, "write-only": True}
    )
    command = [sys.executable, "-c", program, cluster.url, warehouse]
    drivers = [
        subprocess.Popen(
            [*command, first],
            env=environment(store, tmp_path),
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        for first in ("0", "50")
    ]
    for driver in drivers:
        _, said = driver.communicate(timeout=900)
        assert driver.returncode == 0, said[-3000:]
    rows = table.refresh().scan().to_arrow().to_pylist()
    assert sorted(row["id"] for row in rows) == list(range(150))
    assert {row["driver"] for row in rows if row["id"] < 50} == {0}
    assert {row["driver"] for row in rows if row["id"] >= 100} == {50}
    assert all(row["n"] == 5 for row in rows if not 50 <= row["id"] < 100)
    assert table.inspect.snapshot_count() == 12
    assert table.check() == []


def test_captures_and_tiering_run_on_a_cluster(
    cluster: SparkCluster, store: S3Server, mariadb: MariaDb, tmp_path: Path
):
    """`cdc` of a MariaDB into an object store, `tier` of a log in a directory; workers have no variables."""
    name = f"d{uuid.uuid4().hex[:12]}"
    mariadb.run(f"CREATE DATABASE {name}")
    mariadb.run(f"CREATE TABLE {name}.orders (id INT PRIMARY KEY, note TEXT)")
    mariadb.run(f"INSERT INTO {name}.orders VALUES " + ", ".join(f"({k}, 'n{k}')" for k in range(500)))
    variables = environment(store, tmp_path) | {PASSWORD_VARIABLE: PASSWORD}
    place = {k.replace("_", "."): v for k, v in store.options.items()}
    warehouse = f"{store.bucket()}/captured"
    master = ["--engine", "spark", "--master", cluster.url, "--cores", "2"]
    source = ["--from", f"{mariadb.url}/{name}", "--into", "ods", "--chunk-rows", "100"]
    checkpoint = ["--checkpoint", str(tmp_path / "checkpoint")]
    run_verb(variables, "cdc", *source, "--warehouse", warehouse, *checkpoint, *master, "--once")
    captured = ts.connect(warehouse, **place).table("ods.orders")
    assert captured.scan().count() == 500
    assert captured.get({"id": 7}) == {"id": 7, "note": "n7"}
    mariadb.run(f"DROP DATABASE {name}")

    lake = ts.connect(tmp_path / "tiered")
    options = {"log.system": "embedded", "tablestore.tiering.enabled": True, "bucket": 2}
    table = lake.create_table("shop.orders", schema={"id": ts.BIGINT}, primary_key=["id"], options=options)
    table.write([{"id": n} for n in range(100)])
    with lake.coordinator() as coordinator:
        address = f"fluss://{coordinator.address}"
        run_verb(
            variables, "tier", "--from", address, "--warehouse", str(tmp_path / "tiered"), *master, "--once"
        )
    assert table.log.in_files == table.log.end
    assert table.refresh().scan().count() == 100
    names = [name for name in cluster.states() if "application" in name]
    assert {verb for verb in ("cdc", "tier") for name in names if f"tablestore {verb}" in name} == {
        "cdc",
        "tier",
    }


def run_verb(variables: dict[str, str], *arguments: str) -> None:
    """A verb of the program, to its end."""
    command = [sys.executable, "-P", "-m", "tablestore.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=variables, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_cannot_be_a_cluster_is_refused(capsys: pytest.CaptureFixture[str]):
    assert verb.main(["--workers", "0"]) == verb.REFUSED
    assert "workers 0 must be a number above 0" in capsys.readouterr().out
