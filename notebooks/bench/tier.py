"""measures rounds of tiering: rows a second from a Fluss into lake tables, by fetch, decode, write and commit

A private cluster on the same machine gets rows of four columns, into a log table and into a keyed one, whose
keys come once and then again in part. Then one round of each copies them into a new lake. The parts are those
of the round's threads, added up; decoding is measured inside of fetching and taken out of it. CPU time is
that of this process alone: the cluster's servers work beside it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tablestore as ts
from notebooks.bench.parts import report
from notebooks.demo.fluss import FlussCluster, missing
from tablestore.fluss import log_scan
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.tables import FlussColumn, FlussTable, TableDescriptor, TablePath
from tablestore.fluss.write import TableWriter

GOALS = {"log": 1_000_000, "keyed": 500_000}
_COLUMNS = {"id": ts.BIGINT.not_null(), "customer": ts.BIGINT, "price": ts.DECIMAL(15, 2), "note": ts.STRING}
_BUCKETS, _BATCH, _STRIDE = 2, 100_000, 7_368_787
_LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "1h"}
_OPTIONS = {"write-buffer-size": "256 mb"}
_DECODING = ("check", "decode")  # what a scan does with the bytes of a batch


@dataclass(frozen=True)
class Measured:
    """A round: rows, wall and CPU seconds, and seconds of its parts."""

    kind: str
    rows: int
    wall: float
    cpu: float
    parts: dict[str, float]


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    if absent := missing():
        print(f"bench tier: {absent}", file=sys.stderr)
        return 2
    print(f"{report.command('tier', arguments)}\n{report.machine()}", flush=True)
    settings = {"log.segment.file-size": "64mb", "kv.snapshot.interval": "1h"}
    with FlussCluster(settings) as servers, Cluster(servers.address) as cluster:
        for kind in chosen.kinds:
            table = made(Admin(cluster), kind)
            fill(TableWriter(cluster, table), kind, chosen.rows)
            runs = [measured(servers.address, table, kind, chosen.threads) for _ in range(chosen.runs)]
            best = min(runs, key=lambda one: one.wall)
            print(line(best), flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="workbench bench tier", description=__doc__)
    p.add_argument("--rows", type=int, default=2_000_000, help="of each table (default %(default)s)")
    p.add_argument("--runs", type=int, default=3, help="the best of so many (default %(default)s)")
    p.add_argument("--threads", type=int, default=2, help="that read splits (default %(default)s)")
    p.add_argument(
        "--kinds", nargs="+", choices=GOALS, default=list(GOALS), metavar="KIND", help="log, keyed"
    )
    return p


def made(admin: Admin, kind: str) -> FlussTable:
    """A new table of the cluster."""
    columns = tuple(FlussColumn(name, t) for name, t in _COLUMNS.items())
    key = ("id",) if kind == "keyed" else ()
    descriptor = TableDescriptor(columns, key, (), (), _BUCKETS, _LAKE)
    return admin.create_table(TablePath("fluss", f"bench_{kind}"), descriptor)


def fill(writer: TableWriter, kind: str, rows: int) -> None:
    """Write rows; of a keyed table the last fifth are keys that were there."""
    fresh = rows if kind == "log" else rows * 4 // 5
    for at in range(0, rows, _BATCH):
        ids = np.arange(at, min(at + _BATCH, rows)) * _STRIDE % fresh  # keys come in no order
        batch = some_rows(ids, at)
        if kind == "log":
            writer.append(batch)
        else:
            writer.upsert(batch)


def some_rows(ids: np.ndarray, seed: int) -> pa.Table:
    """Rows of these ids."""
    rng = np.random.default_rng(seed)
    price = pa.array(rng.integers(0, 10_000_000, len(ids))).cast(pa.decimal128(19, 0))
    notes = np.array([f"note of {n}" for n in range(1000)])[rng.integers(0, 1000, len(ids))]
    customers = pa.array(rng.integers(0, 10**6, len(ids)))
    columns = [pa.array(ids), customers, price.cast(pa.decimal128(15, 2)), pa.array(notes)]
    return pa.table(columns, list(_COLUMNS))


def measured(address: str, table: FlussTable, kind: str, threads: int) -> Measured:
    """One round into a new lake."""
    with tempfile.TemporaryDirectory(prefix="bench-tier-") as folder, _DecodeClock() as decoding:
        lake = ts.connect(Path(folder))
        began, cpu = time.perf_counter(), time.process_time()
        service = lake.tier(
            f"fluss://{address}", tables=[str(table.path)], follow=False, threads=threads, options=_OPTIONS
        )
        service.wait()
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        (one,) = service.rounds()
        if one.outcome != "committed":
            raise SystemExit(f"the round {one.outcome}: {one.reason}")
        parts = dict(one.seconds)
        parts["fetch"] -= decoding.seconds
        parts["decode"] = decoding.seconds
        return Measured(kind, one.rows, wall, cpu, parts)


class _DecodeClock:
    """Adds up the time that scans take to check and decode batches."""

    def __init__(self) -> None:
        self.seconds, self._lock = 0.0, threading.Lock()
        self._before = {name: getattr(log_scan, name) for name in _DECODING}

    def _timed(self, what: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return what(*arguments)
            finally:
                with self._lock:
                    self.seconds += time.perf_counter() - began

        return timed

    def __enter__(self) -> _DecodeClock:
        for name, what in self._before.items():
            setattr(log_scan, name, self._timed(what))
        return self

    def __exit__(self, *_: object) -> None:
        for name, what in self._before.items():
            setattr(log_scan, name, what)


def line(one: Measured) -> str:
    """The measurement in a line, beside its goal."""
    parts = ", ".join(
        f"{name} {one.parts.get(name, 0.0):.2f}" for name in ("plan", "fetch", "decode", "write", "commit")
    )
    speed = one.rows / one.wall
    reached = f"{speed / GOALS[one.kind]:.2f} of the goal of {GOALS[one.kind]:,}"
    return (
        f"{one.kind:<6} {one.rows:,} rows in {one.wall:.2f} s: {speed:,.0f} rows/s, {reached}; "
        f"CPU {one.cpu:.2f} s ({one.rows / one.cpu:,.0f} rows a CPU second); s of threads: {parts}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
