"""measures a service of tiering over many tables and buckets: seconds a round, CPU, what it leaves open

Tables with a log of one lake behind its own coordinator, or of a private Fluss (`--cluster fluss`), get rows
again and again, and one service brings them into files. The first tables fail for ever: those of a Fluss have
a lake table of other columns in their way, those of the lake have lost their manifests. All others must reach
the end of their logs each time; threads and open files are counted after the first time, and at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import psutil
import pyarrow as pa

import tablestore as ts
from notebooks.bench.parts import report
from notebooks.demo.fluss import FlussCluster, missing
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.tables import FlussColumn, FlussTable, TableDescriptor, TablePath
from tablestore.fluss.write import TableWriter
from tablestore.meta import manifest_cache
from tablestore.tiering.report import RoundReport, TieringReport
from tablestore.tiering.service import TieringService

DATABASE = "scale"
_MORE = 18  # threads of rounds come as they are needed
_TRIES, _LEADER_SECONDS = 5, 30.0
_LOOK_SECONDS, _REST_SECONDS, _MOST_SECONDS = 0.05, 30.0, 1800.0


class Source(Protocol):
    """A cluster with tables."""

    address: str
    paths: Sequence[str]

    def write(self, times: int) -> None:
        """Add rows to every table."""


@dataclass(frozen=True)
class Resources:
    """What this process has open."""

    threads: int
    files: int
    megabytes: int

    @classmethod
    def now(cls) -> Resources:
        process = psutil.Process()
        return cls(threading.active_count(), process.num_fds(), process.memory_info().rss >> 20)

    def within(self, first: Resources) -> bool:
        """Whether there is hardly more than there was first."""
        return self.threads <= first.threads + _MORE and self.files <= first.files + _MORE


@dataclass
class Watched:
    """The rounds of a service, gathered while it runs."""

    service: TieringService
    rounds: dict[int, RoundReport] = field(default_factory=dict)

    def look(self) -> TieringReport:
        report = self.service.report()
        self.rounds |= {tiered.number: tiered for tiered in report.rounds if tiered.ended is not None}
        return report

    def until_all_in(self, paths: Sequence[str], since: float) -> float:
        """Seconds until every table had a round that began after `since` and has nothing more to do."""
        began = time.monotonic()
        while True:
            states = {state.table: state for state in self.look().tables}
            late = [path for path in paths if not _is_in(states.get(path), since)]
            if not late:
                return time.monotonic() - began
            if time.monotonic() - began > _MOST_SECONDS or not self.service.running:
                raise SystemExit(f"{len(late)} tables are not in the lake: {', '.join(late[:3])}, …")
            time.sleep(_LOOK_SECONDS)


def _is_in(state: Any, since: float) -> bool:
    return state is not None and (state.tiered_at or 0.0) > since and not state.lag_rows


def main(arguments: list[str]) -> int:
    chosen = _parser().parse_args(arguments)
    if chosen.cluster == "fluss" and (absent := missing()):
        print(f"bench tier_scale: {absent}", file=sys.stderr)
        return 2
    print(f"{report.command('tier_scale', arguments)}\n{report.machine()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-tier-scale-") as folder:
        lake = ts.connect(Path(folder))
        make = of_lake if chosen.cluster == "lake" else of_fluss
        began = time.monotonic()
        with make(lake, chosen.tables, chosen.buckets, chosen.failing) as source:
            took = time.monotonic() - began
            print(f"{chosen.tables} tables × {chosen.buckets} buckets made in {took:.1f} s", flush=True)
            for line in measured(lake, source, chosen):
                print(line, flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="./workbench bench tier_scale", description=__doc__.partition("\n")[0])
    p.add_argument("--cluster", choices=("lake", "fluss"), default="lake", help="default %(default)s")
    p.add_argument("--tables", type=int, default=100, help="default %(default)s")
    p.add_argument("--buckets", type=int, default=100, help="of each table (default %(default)s)")
    p.add_argument("--failing", type=int, default=1, help="tables that fail for ever (default %(default)s)")
    p.add_argument("--times", type=int, default=3, help="that rows are added (default %(default)s)")
    return p


def measured(lake: ts.Lake, source: Source, chosen: argparse.Namespace) -> Iterator[str]:
    """Lines of what the service did. Raises SystemExit where a table that should is not in the lake, one
    that cannot be gives no reason, or something leaks."""
    good = source.paths[chosen.failing :]
    service = lake.tier(f"fluss://{source.address}", tables=f"{DATABASE}.*", poll="50ms")
    watched, first = Watched(service), None
    try:
        for turn in range(chosen.times):
            since, cpu, earlier = time.time(), time.process_time(), len(watched.rounds)
            if turn:
                source.write(turn)
                since, cpu = time.time(), time.process_time()
            seconds = watched.until_all_in(good, since)
            cpu = time.process_time() - cpu
            rounds = [tiered for number, tiered in sorted(watched.rounds.items())][earlier:]
            yield f"{_ordinal(turn)}: all in after {seconds:.2f} s, CPU {cpu:.2f} s; {_rounds(rounds)}"
            first = first or Resources.now()
        failed = _failures(watched, source.paths[: chosen.failing])
        last = _at_rest(first or Resources.now())
    finally:
        service.stop()
    yield from failed
    assert first is not None
    yield f"after the first time {_open(first)}; after the last {_open(last)}"
    yield f"after the end {_open(Resources.now())}"
    if not last.within(first):
        raise SystemExit("something leaks: there are more and more threads or open files")


def _at_rest(first: Resources) -> Resources:
    """What is open once rounds that have just ended have closed theirs."""
    until = time.monotonic() + _REST_SECONDS
    while not (resources := Resources.now()).within(first) and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    return resources


def _failures(watched: Watched, paths: Sequence[str]) -> list[str]:
    """A line for each table that fails for ever, with its reason, once each has had a round."""
    until = time.monotonic() + _MOST_SECONDS
    while True:
        states = {seen.table: seen for seen in watched.look().tables}
        if {*paths} <= {seen.table for seen in watched.rounds.values()} or time.monotonic() > until:
            break
        time.sleep(_LOOK_SECONDS)
    lines = []
    for path in paths:
        state = states.get(path)
        if state is None or not state.reason:
            raise SystemExit(f"{path} should have failed")
        tries = sum(1 for seen in watched.rounds.values() if seen.table == path)
        lines.append(f"{path} failed {tries} times: {state.reason}")
    return lines


def _rounds(rounds: Sequence[RoundReport]) -> str:
    parts = []
    for outcome in ("committed", "empty", "registered", "failed", "dropped"):
        took = [
            tiered.ended - tiered.started for tiered in rounds if tiered.outcome == outcome and tiered.ended
        ]
        if took:
            middle, most = statistics.median(took) * 1000, max(took) * 1000
            parts.append(f"{len(took)} {outcome}, median {middle:.0f} ms, most {most:.0f} ms")
    return "rounds: " + "; ".join(parts)


def _open(resources: Resources) -> str:
    return f"{resources.threads} threads, {resources.files} open files, {resources.megabytes} MB"


def _ordinal(turn: int) -> str:
    return "all rows" if not turn else f"more rows {turn}"


def some_rows(turn: int, buckets: int) -> pa.Table:
    """Rows for every bucket, most likely."""
    ids = np.arange(buckets * 8) + turn * 1_000_000
    return pa.table({"id": ids, "text": [f"row {i}" for i in ids]})


@dataclass
class _LakeSource:
    address: str
    tables: list[ts.Table]
    paths: Sequence[str]
    buckets: int
    skipped: int

    def write(self, times: int) -> None:
        for table in self.tables[self.skipped :]:
            table.write(some_rows(times, self.buckets))


@contextlib.contextmanager
def of_lake(lake: ts.Lake, tables: int, buckets: int, failing: int) -> Iterator[Source]:
    """Tables of the lake itself, behind its coordinator."""
    options = {"log.system": "embedded", "bucket": buckets, "bucket-key": "id"}
    tiered = {"tablestore.tiering.enabled": True, "tablestore.tiering.freshness": "1 s"}
    sources = []
    for number in range(tables):
        path = f"{DATABASE}.t{number:04d}"
        columns = {"id": ts.BIGINT, "text": ts.STRING}
        table = lake.create_table(path, schema=columns, options={**options, **tiered})
        table.write(some_rows(0, buckets))
        sources.append(table)
        if number < failing:
            assert table.log is not None
            table.log.finish()
            table.write(some_rows(1, buckets))
            shutil.rmtree(Path(table.location.removeprefix("file://")) / "manifest")
            manifest_cache.LOCAL.clear()  # which has what this process wrote
    with lake.coordinator() as coordinator:
        yield _LakeSource(
            coordinator.address, sources, [f"{DATABASE}.t{n:04d}" for n in range(tables)], buckets, failing
        )


@dataclass
class _FlussSource:
    address: str
    cluster: Cluster
    tables: list[FlussTable]
    paths: Sequence[str]
    buckets: int

    def write(self, times: int) -> None:
        for table in self.tables:
            TableWriter(self.cluster, table, seconds=300).append(some_rows(times, self.buckets))


@contextlib.contextmanager
def of_fluss(lake: ts.Lake, tables: int, buckets: int, failing: int) -> Iterator[Source]:
    """Tables of a private Fluss."""
    patient = {"zookeeper.client.session-timeout": "60s"}
    with FlussCluster(patient) as servers, Cluster(servers.address, timeout=120) as cluster:
        yield made_in_fluss(cluster, servers.address, lake, tables, buckets, failing)


def made_in_fluss(
    cluster: Cluster, address: str, lake: ts.Lake, tables: int, buckets: int, failing: int
) -> Source:
    """Tables of a Fluss, with rows."""
    admin = Admin(cluster)
    admin.create_database(DATABASE)
    columns = (FlussColumn("id", ts.BIGINT), FlussColumn("text", ts.STRING))
    tiered = {"table.datalake.enabled": "true", "table.datalake.freshness": "1s"}
    descriptor = TableDescriptor(columns, (), (), ("id",), buckets, tiered)
    paths = [f"{DATABASE}.t{number:04d}" for number in range(tables)]
    created = [with_leaders(admin, TablePath.parse(path), descriptor) for path in paths]
    for path in paths[:failing]:
        options = {"bucket": buckets, "bucket-key": "other"}
        lake.create_table(path, schema={"other": ts.INT}, options=options)
    source = _FlussSource(address, cluster, created, paths, buckets)
    source.write(0)
    return source


def with_leaders(admin: Admin, path: TablePath, descriptor: TableDescriptor) -> FlussTable:
    """A new table whose buckets are led. Of many that are made quickly on a busy machine a Fluss 0.7.0 may
    leave one without leaders for ever: such a one is made again. Raises RuntimeError after some of them."""
    for _ in range(_TRIES):
        table = admin.create_table(path, descriptor)
        if is_led(admin, table, _LEADER_SECONDS):
            return table
        admin.drop_table(path)
    raise RuntimeError(f"{path} got no leaders {_TRIES} times")


def is_led(admin: Admin, table: FlussTable, seconds: float) -> bool:
    """Whether all buckets of a table have a leader within so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not admin.cluster.led(table, admin.buckets(table))[1]:
            return True
        time.sleep(_LOOK_SECONDS)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
