"""Racing processes with kills: what an exception says was not committed is not there, the rest is there once.

Writers, compactors, expirers and readers share one table; each is killed some times at an operation drawn
beforehand, with all it started, and started again. At the end the rows are those of all steps, each once, and
every invariant holds.
"""

from __future__ import annotations

import multiprocessing
import random
import shutil
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

WRITERS, STEPS, KILLS = 3, 12, 10
STUCK_SECONDS = 300
KILLED = -9


def run(seed: int, folder: Path) -> Outcome:
    """One race on a kind of table that the seed draws."""
    life = LIVES[random.Random(f"{seed} life").choice(sorted(LIVES))]
    return race(life, seed, folder)


def race(life: Life, seed: int, folder: Path) -> Outcome:
    table = life.create(ts.connect(str(folder / "lake")), writers=WRITERS, seed=seed)
    roles = ["writer"] * WRITERS + ["compactor", "expirer", "reader"]
    racers = [
        Racer(role, n, life.name, seed, STEPS, table.location, str(folder)) for n, role in enumerate(roles)
    ]
    kills, wrong = _run_all(racers, random.Random(f"{seed} kills"))
    counts = Counter({"kills": kills, f"races on {life.name}": 1})
    if not wrong:
        counts["commits"] = table.store.snapshots.latest_id() or 0
        wrong = verify(life, seed, ts.open(table.location))
    shutil.rmtree(folder / "lake")
    return Outcome(1, counts, tuple(f"{life.name}, seed {seed}: {text}" for text in wrong))


def verify(life: Life, seed: int, table: ts.Table) -> list[str]:
    """What is not as it must be after the last process ended."""
    if life.lagging:
        table.compact(until_quiet=True)
        table.compact(full=True)
    expected, found = life.expected(seed, [STEPS] * WRITERS), rows_of(table)
    wrong = [str(v) for v in table.check()]
    if found != expected:
        wrong.append(f"rows lost {expected - found}, rows too many {found - expected}")
    return wrong


def _run_all(racers: list[Racer], draw: random.Random) -> tuple[int, list[str]]:
    """(kills, failures). Each process that was killed is started again; the last ones are not killed."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.campaign.racer"])
    kills, running = 0, dict[str, tuple[Racer, Any]]()

    def start(racer: Racer) -> None:
        dies_at = int(draw.lognormvariate(4.5, 1.0)) if kills < KILLS else None
        racer = replace(racer, dies_at=dies_at, incarnation=racer.incarnation + 1)
        process = processes.Process(target=run_racer, args=(racer,))
        process.start()
        running[racer.name] = racer, process

    for racer in racers:
        start(racer)
    until, failures = time.monotonic() + STUCK_SECONDS, list[str]()
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
                failures.append(
                    racer.failure.read_text() if racer.failure.exists() else f"{name}: {process.exitcode}"
                )
        if not any(racer.role == "writer" for racer, _ in running.values()):
            racers[0].finish.touch()
    for _, process in running.values():
        process.kill()
        process.join()
    return kills, failures
