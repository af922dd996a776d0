"""SIGKILL for the process of a service, and for one that reads its splits, at any moment: no row is lost, and
none comes twice. Tables have a log in files, the coordinator is ours."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil
import pytest

import tablestore as ts
from tablestore.tiering.journal import read_report
from tablestore.tiering.opening import journal_directory
from tests.campaign.held_rounds import KINDS, Life
from tests.tiering.waiting import until

pytestmark = pytest.mark.large

KILLS = 3  # a seed
DRIVER, WORKER = "driver", "worker"
WORKERS = "tablestore.flow.worker"  # in their command lines
_PROCESSES = multiprocessing.get_context("forkserver")


def serve(warehouse: str, address: str) -> None:
    """The process of a service."""
    logging.disable(logging.WARNING)
    lake = ts.connect(warehouse)
    lake.tier(f"fluss://{address}", engine="local", processes=2, name="service", poll="50ms").wait()


def workers(process: ForkServerProcess) -> list[psutil.Process]:
    """The processes that read splits now."""
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children()
        return [child for child in children if WORKERS in " ".join(child.cmdline())]
    return []


def committed(life: Life) -> int:
    """How many rounds have brought rows, as the journal says."""
    rounds = read_report(journal_directory(life.warehouse, "service")).rounds
    return sum(report.outcome == "committed" for report in rounds)


def test_after_a_kill_at_any_moment_each_row_is_there_once(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds[:: 1 if len(seeds) > 5 else 3]:
        life = Life(seed, tmp_path / str(seed))
        victims = [WORKER, DRIVER, *life.rng.choices([DRIVER, WORKER], k=KILLS - 2)]
        for victim in life.rng.sample(victims, KILLS):
            kill(life, victim)
            life.look()
        assert committed(life) > 0
        life.hold.touch()
        with life.lake.coordinator() as coordinator:
            life.end(coordinator)


def kill(life: Life, victim: str) -> None:
    """Write while a service tiers, and kill that process of it; a service without a worker goes on."""
    with life.lake.coordinator() as coordinator:
        process = _PROCESSES.Process(target=serve, args=(life.warehouse, coordinator.address))
        process.start()
        try:
            life.write()
            until(lambda: workers(process))
            for _ in range(life.rng.randint(1, 4)):
                life.write()
                time.sleep(life.rng.uniform(0, 0.2))
            if victim == WORKER:
                kill_a_worker(process, life)
                life.write()
                until(lambda: all(life.in_files(name) for name in KINDS))
            assert process.is_alive(), "it ended by itself"
        finally:
            process.kill()
            process.join()


def kill_a_worker(process: ForkServerProcess, life: Life) -> None:
    """Kill a process that reads splits, where there is one at that moment."""
    with contextlib.suppress(psutil.NoSuchProcess, IndexError):
        life.rng.choice(workers(process)).kill()
