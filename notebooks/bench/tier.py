"""measures rounds of tiering: rows a second from a Fluss into lake tables, by fetch, decode, write and commit

A private cluster on the same machine gets rows of four columns, into a log table and into a keyed one, whose
keys come once and then again in part. Then one round of each copies them into a new lake. The parts are those
of the round's threads, added up; decoding is measured inside of fetching and taken out of it. CPU time is
that of this process alone: the cluster's servers work beside it.

Flink with Fluss's own connector and Java Paimon copies the same rows of the same tables, in turns with ours;
both lake tables must hold the same in the end.
"""

from __future__ import annotations

import argparse
import contextlib
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
import pyarrow.compute as pc

import tablestore as ts
from notebooks.bench.contenders import contender, registry
from notebooks.bench.contenders.contender import Contender, Refused
from notebooks.bench.parts import report
from notebooks.demo.fluss import FlussCluster, missing
from tablestore.fluss import log_scan
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.tables import FlussColumn, FlussTable, TableDescriptor, TablePath
from tablestore.fluss.write import TableWriter
from tablestore.tiering.fluss_cluster import FlussTieringCluster
from tablestore.tiering.paimon.writer import lake_table

GOALS = {"log": 1_000_000, "keyed": 500_000}
_COLUMNS = {"id": ts.BIGINT.not_null(), "customer": ts.BIGINT, "price": ts.DECIMAL(15, 2), "note": ts.STRING}
_BUCKETS, _BATCH, _STRIDE = 2, 100_000, 7_368_787
_LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "1h"}
_OPTIONS = {"write-buffer-size": "256 mb"}
_FLINK_OPTIONS = {**_OPTIONS, "write-only": "true"}  # compacts as little as a round of ours
_DECODING = ("check", "decode")  # what a scan does with the bytes of a batch


@dataclass(frozen=True)
class Measured:
    """A round: rows, wall and CPU seconds, seconds of its parts, and what the lake table holds then."""

    kind: str
    rows: int
    wall: float
    cpu: float
    parts: dict[str, float]
    content: tuple[int, ...]


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    if absent := missing():
        print(f"bench tier: {absent}", file=sys.stderr)
        return 2
    try:
        entries, missing_peers = registry.peers(registry.chosen(chosen.peers, registry.STREAMS))
    except ValueError as e:
        print(f"bench tier: {e}", file=sys.stderr)
        return 2
    print("\n".join([report.command("tier", arguments), report.machine(), *missing_peers]), flush=True)
    settings = {"log.segment.file-size": "64mb", "kv.snapshot.interval": "1h"}
    with (
        FlussCluster(settings) as servers,
        Cluster(servers.address) as cluster,
        contextlib.ExitStack() as peers,
    ):
        flink = next((peers.enter_context(entry.start()) for entry in entries), None)
        for kind in chosen.kinds:
            table = made(Admin(cluster), kind)
            fill(TableWriter(cluster, table), kind, chosen.rows)
            compare(servers.address, table, kind, chosen, flink)
    return 0


def compare(
    address: str, table: FlussTable, kind: str, chosen: argparse.Namespace, flink: Contender | None
) -> None:
    """Rounds of ours and jobs of Flink in turns; print the best of each."""
    ours: list[Measured] = []
    theirs: list[contender.Measured] = []
    for _ in range(chosen.runs):
        ours.append(measured(address, table, kind, chosen.threads))
        if flink is not None:
            try:
                theirs.append(of_flink(flink, address, table, ours[-1]))
            except Refused as e:
                print(f"{kind:<6} {e}", flush=True)
                flink = None
    best = min(ours, key=lambda each: each.wall)
    print(line(best), flush=True)
    if theirs:
        print(flink_line(min(theirs, key=lambda each: each.seconds), best), flush=True)


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="./workbench bench tier", description=__doc__.partition("\n")[0])
    p.add_argument("--rows", type=int, default=2_000_000, help="of each table (default %(default)s)")
    p.add_argument("--runs", type=int, default=3, help="the best of so many (default %(default)s)")
    p.add_argument("--threads", type=int, default=2, help="that read splits (default %(default)s)")
    peers = "what to compare with: %(default)s (default) or none"
    p.add_argument("--peers", default=",".join(registry.STREAMS), help=peers)
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
        (tiered,) = service.rounds()
        if tiered.outcome != "committed":
            raise SystemExit(f"the round {tiered.outcome}: {tiered.reason}")
        parts = dict(tiered.seconds)
        parts["fetch"] -= decoding.seconds
        parts["decode"] = decoding.seconds
        return Measured(kind, tiered.rows, wall, cpu, parts, content(lake.table(str(table.path))))


def content(table: ts.Table) -> tuple[int, ...]:
    """How many rows there are, and sums of their columns of numbers."""
    rows = table.scan(columns=["id", "customer", "price"]).to_arrow()
    return (rows.num_rows, *(int(pc.sum(column).as_py()) for column in rows.columns))


def of_flink(flink: Contender, address: str, table: FlussTable, ours: Measured) -> contender.Measured:
    """One job of Flink into a new lake. Raises Refused if it fails, or if its table holds something else."""
    with tempfile.TemporaryDirectory(prefix="bench-tier-") as folder:
        warehouse = Path(folder) / "lake"
        lake, cluster = ts.connect(warehouse), FlussTieringCluster(address)
        with contextlib.closing(cluster):
            source = cluster.table(str(table.path))
            records = sum(at.latest for at in cluster.bounds(source, [None]).values())
        target = lake_table(lake, source, log_columns=False, options=_FLINK_OPTIONS)
        answer = flink.step("tier", address, table.path, records, warehouse, Path(folder) / "savepoint")
        if (has := content(target)) != ours.content:
            raise Refused(f"flink: its table has {has}, ours {ours.content}")
        return answer


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


def line(each: Measured) -> str:
    """The measurement in a line, beside its goal."""
    parts = ", ".join(
        f"{name} {each.parts.get(name, 0.0):.2f}" for name in ("plan", "fetch", "decode", "write", "commit")
    )
    speed = each.rows / each.wall
    reached = f"{speed / GOALS[each.kind]:.2f} of the goal of {GOALS[each.kind]:,}"
    return (
        f"{each.kind:<6} {each.rows:,} rows in {each.wall:.2f} s: {speed:,.0f} rows/s, {reached}; "
        f"CPU {each.cpu:.2f} s ({each.rows / each.cpu:,.0f} rows a CPU second); s of threads: {parts}"
    )


def flink_line(theirs: contender.Measured, ours: Measured) -> str:
    """What Flink took, beside ours."""
    first = float(theirs.answer["first"])
    moving = f"{theirs.seconds - first:.2f} s from its first row on"
    return (
        f"flink  the same in {theirs.seconds:.2f} s, {moving}: {theirs.seconds / ours.wall:.2f} times ours, "
        f"{(theirs.seconds - first) / ours.wall:.2f} from its first row on; "
        f"CPU {theirs.cpu_seconds:.2f} s, {theirs.cpu_seconds / ours.cpu:.2f} times ours"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
