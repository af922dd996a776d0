"""Racing processes with kills: what an exception says was not committed is not there, the rest is there once.

Writers, compactors, expirers and readers share one table; each is killed some times at an operation drawn
beforehand, with all it started, and started again. At the end the rows are those of all steps, each once, and
every invariant holds.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import tablestore as ts
from tests.campaign.lives import LIVES, Life, rows_of
from tests.campaign.outcome import Outcome
from tests.campaign.racer import Racer
from tests.campaign.racer import run as run_racer
from tests.log import held
from tests.log.followed import Followed

WRITERS, STEPS, KILLS = 3, 12, 10
STUCK_SECONDS = 300
KILLED = -9


def run(seed: int, folder: Path) -> Outcome:
    """One race on a kind of table that the seed draws."""
    life = LIVES[random.Random(f"{seed} life").choice(sorted(LIVES))]
    return race(life, seed, folder)


def race(life: Life, seed: int, folder: Path, *, most_kills: int = KILLS) -> Outcome:
    """One race, with about so many kills."""
    table = life.create(ts.connect(str(folder / "lake")), writers=WRITERS, seed=seed)
    roles = ["writer"] * WRITERS + ["compactor", "expirer", "follower" if life.streams else "reader"]
    racers = [
        Racer(role, n, life.name, seed, STEPS, table.location, str(folder)) for n, role in enumerate(roles)
    ]
    kills, wrong = _run_all(racers, random.Random(f"{seed} kills"), most_kills)
    counts = Counter({"kills": kills, f"races on {life.name}": 1})
    if not wrong:
        counts["commits"] = table.store.snapshots.latest_id() or 0
        wrong = verify(life, seed, ts.open(table.location))
        if life.logged:
            wrong += verify_log(life, seed, ts.open(table.location), racers[-1].followed())
    shutil.rmtree(folder / "lake")
    return Outcome(1, counts, tuple(f"{life.name}, seed {seed}: {text}" for text in wrong))


def verify(life: Life, seed: int, table: ts.Table) -> list[str]:
    """What is not as it must be after the last process ended."""
    table.expire_snapshots()  # what a killed commit has left under an id that had expired
    if life.lagging:
        table.compact(until_quiet=True)
        table.compact(full=True)
    expected, actual = life.expected(seed, [STEPS] * WRITERS), rows_of(table)
    wrong = [str(v) for v in table.check()]
    if actual != expected:
        wrong.append(f"rows lost {expected - actual}, rows too many {actual - expected}")
    return wrong


def verify_log(life: Life, seed: int, table: ts.Table, followed: Followed | None) -> list[str]:
    """What is not as it must be between the log, the files and what a stream has given."""
    expected, wrong = life.expected(seed, [STEPS] * WRITERS), list[str]()
    if table.log is None or table.log.end != table.log.in_files:
        wrong.append("the files are not at the end of the log")
    if rows_of(table, log=True) != expected:
        wrong.append("a union read has other rows")
    actual = held.logged(table)
    if life.streams and (followed is None or followed.rows != expected):
        wrong.append(f"the stream lost {expected - followed.rows}" if followed else "nothing was followed")
    if life.merging != "deduplicate":  # whose writers delete again what they deleted, and no order is a truth
        steps = [life.step(seed, w, s) for w in range(WRITERS) for s in range(STEPS)]
        rows = sum(step.num_rows for step in steps)
        if rows != sum(batch.rows.num_rows for batch in actual):
            wrong.append(f"the log has not each of {rows} rows once")
    with tempfile.TemporaryDirectory() as folder:
        if held.merged(ts.connect(folder), table) != held.rows(table):
            wrong.append("the rows of the log, merged, are others than those of the files")
    return wrong


def _run_all(racers: list[Racer], draw: random.Random, most_kills: int) -> tuple[int, list[str]]:
    """(kills, failures). Each process that was killed is started again; the last ones are not killed."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.campaign.racer"])
    kills, running = 0, dict[str, tuple[Racer, Any]]()

    def start(racer: Racer) -> None:
        dies_at = int(draw.lognormvariate(4.5, 1.0)) if kills < most_kills else None
        racer = replace(racer, dies_at=dies_at, incarnation=racer.incarnation + 1)
        process = processes.Process(target=run_racer, args=(racer,))
        process.start()
        running[racer.name] = racer, process

    until, failures = time.monotonic() + STUCK_SECONDS, list[str]()
    try:
        for racer in racers:
            start(racer)
        while running and not failures:
            if time.monotonic() > until:
                failures.append(f"no end after {STUCK_SECONDS} s: {sorted(running)}")
            for name, (racer, process) in list(running.items()):
                process.join(0.01)
                if process.exitcode is None:
                    continue
                del running[name]
                if process.exitcode == KILLED:
                    kills += 1
                    start(racer)
                elif process.exitcode:
                    written = racer.failure.read_text() if racer.failure.exists() else ""
                    failures.append(written or f"{name}: {process.exitcode}")
            if not any(racer.role == "writer" for racer, _ in running.values()):
                racers[0].finish.touch()
    finally:
        for _, process in running.values():
            with contextlib.suppress(ProcessLookupError):  # it has ended, or has no group yet
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()
    return kills, failures
