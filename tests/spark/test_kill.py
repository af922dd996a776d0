"""SIGKILL for the driver at any moment, and again: afterwards no row is missing, none is there twice, every
invariant holds.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pyspark
import pytest

import tablestore as ts
from tests.cdc.items import USER, content, shop
from tests.spark.ingest_program import run

ROOT = Path(__file__).parents[2]
GONE_SECONDS = 300
CHUNKS, TRANSACTIONS = 6, 12
PROGRAM = "ingest_program.py"
pytestmark = [pytest.mark.spark, pytest.mark.large]


def started(program: str, *arguments: object) -> subprocess.Popen[str]:
    """A program of this folder in a process of its own, the first of a new group."""
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(program)), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str], *, whole_group: bool) -> None:
    """The Python driver alone (its JVM then ends by itself), or JVM and workers with it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL) if whole_group else os.kill(process.pid, signal.SIGKILL)
    process.wait()


def kill_after(process: subprocess.Popen[str], *, commits: int, seconds: float, whole_group: bool) -> int:
    """Kill a moment after that many commits, or where it is held; how many were told."""
    reported = 0
    for line in process.stdout:
        reported += line.startswith("snapshot")
        if reported >= commits or line == "held\n":
            break
    timer = threading.Timer(seconds, kill, [process], {"whole_group": whole_group})
    timer.start()
    reported += sum(line.startswith("snapshot") for line in process.stdout)
    timer.join()
    process.stdin.close()
    process.stdout.close()
    await_the_end_of_group(process.pid)
    return reported


def await_the_end_of_group(group: int) -> None:
    """Until the JVM has seen that its driver is gone."""
    until = time.monotonic() + GONE_SECONDS
    while any(in_group(p, group) for p in psutil.process_iter()):
        assert time.monotonic() < until, "the JVM of a dead driver goes on"
        time.sleep(0.1)


def in_group(process: psutil.Process, group: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_a_driver_killed_at_any_moment_loses_and_doubles_nothing(
    spark, tmp_path: Path, seeds: tuple[int, ...]
):
    random_ = random.Random(seeds[0])
    source, expected = shop(tmp_path / "s", chunks=CHUNKS, each=200, transactions=TRANSACTIONS)
    lake, checkpoint = tmp_path / "lake", tmp_path / "ck"
    for commits in (random_.randint(0, 3), random_.randint(5, 9)):  # in the load, then in the increments
        process = started(PROGRAM, source, lake, checkpoint, CHUNKS + TRANSACTIONS - 2)
        moment = {"commits": commits, "seconds": random_.uniform(0, 2)}
        kill_after(process, whole_group=random_.random() < 0.5, **moment)
        assert process.returncode == -signal.SIGKILL, "it ended by itself"
        if (lake / "shop.db").exists():
            assert ts.connect(str(lake)).table("shop.item").check() == []
    run(spark, str(source), str(lake), str(checkpoint))
    table = ts.connect(str(lake)).table("shop.item")
    assert content(table) == expected
    assert table.check() == []
    commits = table.inspect.commits().to_pylist()
    mine = [c["commit_identifier"] for c in commits if c["commit_user"] == USER]
    assert mine == list(range(1, 1 + CHUNKS + TRANSACTIONS))


def test_the_pipeline_runs_on_workers_of_their_own_with_the_code_shipped(spark, tmp_path: Path):
    del spark
    source, expected = shop(tmp_path / "s", chunks=2, transactions=2)
    process = started(
        PROGRAM, source, tmp_path / "lake", tmp_path / "ck", sys.maxsize, "local-cluster[1,2,1024]"
    )
    said, _ = process.communicate(timeout=600)
    shutil.rmtree(
        Path(pyspark.__file__).with_name("work"), ignore_errors=True
    )  # Spark's workers keep it there
    lines = said.splitlines()
    assert lines[-1] == "done"
    assert "tablestore.zip" in lines[-2]
    table = ts.connect(str(tmp_path / "lake")).table("shop.item")
    assert content(table) == expected
    assert table.check() == []
