"""measures what commits and compactions cost, and checks the cluster of `Table.what_if` against real runs

First it counts the requests that a table in an object store (one in memory) makes, by number of buckets. Then
runs of different kinds (many commits, many buckets, many rows, wide rows, full compactions) give the CPU
seconds of a commit, a file, a row and a byte on this machine: `Costs`. Other tables are written for real,
with compaction, in this process, and their CPU is compared with what the simulated cluster says of the same
commits. Other work on the machine makes a second of CPU do less, by up to a half. So runs of both kinds take
turns, and medians count: the fastest run of each kind would be one of a quiet moment for short runs only.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import obstore.store
import pyarrow as pa
import pyarrow.compute as pc

import tablestore as ts
from tablestore.insight.simulator.cluster import Costs, simulated, snapshots
from tablestore.insight.simulator.simulator import compaction_options
from tablestore.io.object_store import ObjectStoreFileIO
from tablestore.io.requests import Requests

KEY = "k"
WRITE_ONLY = {"write-only": True}


@dataclass(frozen=True)
class Run:
    """Commits of so many rows, upserts of `keys` alike, with `columns` of numbers."""

    name: str
    commits: int
    rows: int
    keys: int
    buckets: int = 1
    columns: int = 3
    compacts: bool = True


@dataclass(frozen=True)
class Measured:
    """CPU seconds of a run, and what they were for: a value for each field of `Costs`."""

    cpu: float
    work: tuple[float, ...]
    row_bytes: float


CALIBRATION = (
    Run("many commits", 60, 10, 1_000, compacts=False),
    Run("many buckets", 12, 640, 1_000_000, buckets=32, compacts=False),
    Run("small files", 30, 6_000, 100_000, buckets=3, compacts=False),
    Run("many rows", 5, 200_000, 1_000_000, compacts=False),
    Run("wide rows", 5, 200_000, 1_000_000, columns=12, compacts=False),
    Run("small merges", 40, 2_000, 20_000, buckets=4),
    Run("tiny merges", 50, 400, 5_000),
    Run("large merges", 8, 60_000, 200_000),
)
CHECKED = (
    Run("few large commits", 12, 100_000, 400_000, buckets=2),
    Run("many small commits", 60, 5_000, 100_000, buckets=2),
    Run("eight buckets", 15, 80_000, 400_000, buckets=8),
    Run("wide commits", 12, 50_000, 200_000, buckets=2, columns=12),
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./workbench bench cluster", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--repeat", type=int, default=5, help="rounds of all runs, of which the median counts"
    )
    asked = parser.parse_args(arguments)
    print(f"{'requests of':<22}{'1 bucket':>12}{'8 buckets':>12}{'64 buckets':>12}")
    for step, totals in counted_requests((1, 8, 64)).items():
        print(f"{step:<22}" + "".join(f"{asked_for.total:>12,}" for asked_for in totals))
    print()
    folder = Path(tempfile.mkdtemp(prefix="bench-cluster-"))
    try:
        _measured(Run("warm", 3, 50_000, 100_000), folder)
        rounds = [_round(folder) for _ in range(asked.repeat)]
        measured = {name: _median([each[name] for each in rounds]) for name in rounds[0]}
        checked = [(run, measured.pop(run.name)) for run in CHECKED]
        costs = _solved(list(measured.values()))
        print(f"Costs({', '.join(f'{f.name}={getattr(costs, f.name):.3g}' for f in fields(costs))})\n")
        print(f"{'run':<22}{'CPU s':>8}{'simulated':>11}{'off':>8}")
        for run, real in checked:
            said = predicted(run, costs, real.row_bytes)
            print(f"{run.name:<22}{real.cpu:>8.2f}{said:>11.2f}{100 * (said / real.cpu - 1):>+7.0f}%")
    finally:
        shutil.rmtree(folder)
    return 0


def counted_requests(buckets: Sequence[int]) -> dict[str, list[Requests]]:
    """What steps of a table ask of an object store, for each number of buckets."""
    counted: dict[str, list[Requests]] = {}
    store = obstore.store.MemoryStore()
    lake = ts.connect("s3://bench/lake", io=ObjectStoreFileIO(open_bucket=lambda *_: store))
    for number in buckets:
        schema = {KEY: ts.BIGINT, "c0": ts.BIGINT}
        options = {"bucket": number} | WRITE_ONLY
        table = lake.create_table(f"d.t{number}", schema=schema, primary_key=[KEY], options=options)
        for k in range(4):
            table.write(_batch(Run("", 1, 1_000, 10_000, columns=2), np.random.default_rng(k)))
        for name, step in _steps(lake, table).items():
            before = table.inspect.requests()
            step()
            counted.setdefault(name, []).append(table.inspect.requests() - before)
    return counted


def _steps(lake: ts.Lake, table: ts.Table) -> dict[str, Callable[[], object]]:
    rows = pa.table({KEY: range(1_000), "c0": range(1_000)})
    return {
        "a commit": lambda: table.write(rows),
        "a plan, first": lambda: lake.table(table.name).scan().plan(),
        "a plan, again": lambda: table.scan().plan(),
        "a scan of 5 runs": lambda: table.scan().to_arrow(),
        "a full compaction": lambda: table.compact(full=True),
        "a scan, compacted": lambda: table.scan().to_arrow(),
    }


def predicted(run: Run, costs: Costs, row_bytes: float) -> float:
    """CPU seconds of a run, by the simulated cluster."""
    rows, keys = run.rows / run.buckets, run.keys / run.buckets
    options = compaction_options({})
    tasks = simulated(rows, keys, row_bytes, options, buckets=run.buckets, commits=run.commits)
    work = sum(t.writing(costs) + t.merging(costs) for commit in tasks for t in commit)
    return work + snapshots(tasks, run.buckets) * costs.snapshot


def _round(folder: Path) -> dict[str, Measured]:
    """Every run once; those of the calibration with the full compaction of what they wrote."""
    measured = {}
    for run in (*CALIBRATION, *CHECKED):
        measured[run.name] = _measured(run, folder)
        if run in CALIBRATION:
            measured[f"{run.name}, compacted"] = _compacted(folder)
    return measured


def _median(rounds: Sequence[Measured]) -> Measured:
    return sorted(rounds, key=lambda m: m.cpu)[len(rounds) // 2]


def _measured(run: Run, folder: Path) -> Measured:
    shutil.rmtree(folder / "lake", ignore_errors=True)
    schema = {KEY: ts.BIGINT, **{f"c{i}": ts.BIGINT for i in range(run.columns - 1)}}
    options = {"bucket": run.buckets} | ({} if run.compacts else WRITE_ONLY)
    table = ts.connect(folder / "lake").create_table("d.t", schema=schema, primary_key=[KEY], options=options)
    chance = np.random.default_rng(7)
    batches = [_batch(run, chance) for _ in range(run.commits)]
    began = time.process_time()
    for batch in batches:
        table.write(batch)
    cpu = time.process_time() - began
    table = table.refresh()
    outputs, inputs, rows, size = _merged(table.inspect.compactions())
    files = run.commits * run.buckets
    commits = table.inspect.commits()
    flushed = pc.sum(commits.filter(pc.equal(commits["commit_kind"], "APPEND"))["bytes_added"]).as_py()
    counts = (table.inspect.snapshot_count(), files, files if run.compacts else 0, outputs, inputs)
    return Measured(cpu, (*counts, run.commits * run.rows, flushed, rows, size), _row_bytes(table))


def _merged(compactions: pa.Table) -> tuple[float, float, float, float]:
    """Files that compactions wrote, files, rows and bytes that they read."""
    names = ("files_written", "files_read", "rows_in", "bytes_read")
    outputs, inputs, rows, size = (float(pc.sum(compactions[name]).as_py() or 0) for name in names)
    return outputs, inputs, rows, size


def _row_bytes(table: ts.Table) -> float:
    files = table.inspect.files()
    rows, size = (pc.sum(files[name]).as_py() for name in ("record_count", "file_size_in_bytes"))
    return float(size / rows)


def _batch(run: Run, chance: np.random.Generator) -> pa.Table:
    keys = chance.integers(0, run.keys, run.rows)
    values = {f"c{i}": chance.integers(0, 1 << 40, run.rows) for i in range(run.columns - 1)}
    return pa.table({KEY: keys, **values})


def _compacted(folder: Path) -> Measured:
    table = ts.connect(folder / "lake").table("d.t")
    before, row_bytes = _merged(table.inspect.compactions()), _row_bytes(table)
    began = time.process_time()
    table.compact(full=True)
    cpu = time.process_time() - began
    after = _merged(table.refresh().inspect.compactions())
    outputs, inputs, rows, size = (b - a for a, b in zip(before, after, strict=True))
    return Measured(cpu, (1, 0, outputs, outputs, inputs, 0, 0, rows, size), row_bytes)


def _solved(runs: list[Measured]) -> Costs:
    """Costs that explain the runs best, each run alike, none below 0."""
    work = np.array([m.work for m in runs]) / np.array([[m.cpu] for m in runs])
    kept = list(range(work.shape[1]))
    while True:
        solved = np.linalg.lstsq(work[:, kept], np.ones(len(runs)), rcond=None)[0]
        if (solved >= 0).all():
            values = np.zeros(work.shape[1])
            values[kept] = solved
            return Costs(*(float(v) for v in values))
        kept.pop(int(solved.argmin()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
