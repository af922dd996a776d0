"""A cluster that writes one keyed table: buckets and workers that so many rows a second need, with the sums.

A commit is a task a bucket: it writes the bucket's rows, compacts by the table's own rules (the simulator
says how much), and reads and writes its files in the store. `planned` tries numbers of buckets, 1, 2, 4, …,
each with as many workers as keep up and show rows in time, and chooses the fewest workers, then buckets. CPU
comes from `Costs`, which `./workbench bench cluster` measures on a machine and checks against real runs.
Pure. Used by `Table.what_if(cluster=…)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np

from tablestore.core import quantities
from tablestore.core.errors import InvalidRequest
from tablestore.core.options.values import duration_ms
from tablestore.insight.simulator.simulator import COMPACTION, SimulatedStep, Simulator
from tablestore.insight.simulator.workload import UNIFORM, Workload
from tablestore.lsm.compaction.options import CompactionOptions

MOST_BUCKETS = 1_024
_SAMPLED = 2  # buckets that stand for all
_COMMITS = (60, 5_000)  # that are simulated: at least, at most
_TURNS = 3  # times that each key is written in them
_COMMIT_GETS, _COMMIT_PUTS, _IN_TURN = 14, 5, 20
_READ_BYTES = 8 << 20  # of one request, read or written


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU seconds of one core: of a snapshot, of a data file that is written, of a look at what is to be
    compacted in a bucket, of a compaction of it and of a file that it reads, of a row and a byte of a file as
    a writer has them, and as a compaction reads, merges and writes them. The defaults are of a core of 2.5
    GHz."""

    snapshot: float = 0.008
    file: float = 0.0019
    look: float = 0.0007
    compaction: float = 0.0027
    read_file: float = 0.0003
    row: float = 0.13e-6
    byte: float = 3.9e-9
    merged_row: float = 0.03e-6
    merged_byte: float = 6.6e-9

    def written(self, rows: float, size: float, files: float) -> float:
        """CPU seconds to sort, fold and encode rows."""
        return rows * self.row + size * self.byte + files * self.file

    def merged(self, rows: float, size: float, inputs: float, outputs: float) -> float:
        """CPU seconds to look at a bucket, and to compact rows and bytes of so many files into so many."""
        files = self.look + inputs * self.read_file + outputs * self.compaction
        return rows * self.merged_row + size * self.merged_byte + files


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What comes in, how fresh it must be, and what the cluster is made of.

    `rows_per_second` arrive evenly and are visible within `freshness` ("1 min"); a commit is made every
    `commit_every` (None: half of that). Workers have `cores`, which are `busy` for that share of time; each
    request takes `latency` ("30 ms") and a core moves `bytes_per_second`; the store takes `puts_per_second`
    and `gets_per_second`. `partitions` are written at a time, each with all buckets. `keys` and `row_bytes`
    are those of the table unless they are given; rows are upserts of `keys` alike.
    """

    rows_per_second: float
    freshness: str = "1 min"
    commit_every: str | None = None
    cores: int = 4
    busy: float = 0.7
    latency: str = "30 ms"
    bytes_per_second: float = 60e6
    puts_per_second: float = 3_500
    gets_per_second: float = 5_500
    partitions: int = 1
    keys: int | None = None
    row_bytes: float | None = None
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        """Raise InvalidRequest for numbers that no cluster has."""
        above = ("rows_per_second", "cores", "bytes_per_second", "puts_per_second", "gets_per_second")
        for name in (*above, "partitions", "keys", "row_bytes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidRequest(f"{name} {value} of a cluster must be above 0")
        if not 0 < self.busy <= 1:
            raise InvalidRequest(f"busy {self.busy} of a cluster must be a share, above 0 and at most 1")
        if not self.interval < self.freshness_seconds:
            raise InvalidRequest(f"commit_every {self.commit_every} must be less than {self.freshness}")
        _seconds(self.latency, "latency")

    @property
    def freshness_seconds(self) -> float:
        """Within which rows are visible."""
        return _seconds(self.freshness, "freshness")

    @property
    def interval(self) -> float:
        """Seconds between commits."""
        if self.commit_every is None:
            return self.freshness_seconds / 2
        return _seconds(self.commit_every, "commit_every")


def cluster_of(asked: ClusterSpec | Mapping[str, Any]) -> ClusterSpec:
    """A cluster in either form. Raises InvalidRequest for what is none, and for unknown fields."""
    if isinstance(asked, ClusterSpec):
        return asked
    if not isinstance(asked, Mapping):
        raise InvalidRequest(f"cluster {asked!r} must be a mapping such as {{'rows_per_second': 50_000}}")
    try:
        return ClusterSpec(**asked)
    except TypeError as wrong:
        raise InvalidRequest(f"cluster {dict(asked)!r}: {wrong}") from wrong


@dataclass(frozen=True, slots=True)
class Load:
    """What one number of buckets comes to; seconds are of one core, rates a second, all buckets together."""

    buckets: int
    rows: float
    """A commit to a bucket."""
    writing: float
    merging: float
    committing: float
    busiest: float
    """Seconds of CPU a second in one bucket, which one task at a time writes."""
    write_amplification: float
    usual: float
    """Seconds from the arrival of a row to its being visible, at most, in the middle commit."""
    worst: float
    """In the slowest commit."""
    gets: float
    puts: float
    workers: int
    short_of: str
    """Why this number does not do; empty where it does."""

    @property
    def cpu(self) -> float:
        """Cores that all of it takes."""
        return self.writing + self.merging + self.committing


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The answer: numbers of buckets that were tried, and the one that is chosen. As text it shows its sums.

    `aside` is the plan where a job compacts and no row waits for it (None: this is that one)."""

    cluster: ClusterSpec
    keys: int
    row_bytes: float
    loads: tuple[Load, ...]
    aside: ClusterPlan | None = None

    @property
    def chosen(self) -> Load:
        """The fewest workers, then the fewest buckets; the largest number of buckets where none does."""
        able = [load for load in self.loads if not load.short_of]
        return min(able, key=lambda load: (load.workers, load.buckets)) if able else self.loads[-1]

    @property
    def buckets(self) -> int:
        """Of each partition."""
        return self.chosen.buckets

    @property
    def workers(self) -> int:
        """Of `cluster.cores` each."""
        return self.chosen.workers

    @property
    def answer(self) -> str:
        """`8 buckets on 2 workers of 4 cores`."""
        load = self.chosen
        if load.short_of:
            return f"no number of buckets up to {load.buckets:,} does: {load.short_of}"
        workers = quantities.many(load.workers, "worker")
        return f"{quantities.many(load.buckets, 'bucket')} on {workers} of {self.cluster.cores} cores"

    def __repr__(self) -> str:
        c, load, text = self.cluster, self.chosen, quantities.seconds_text
        size = quantities.size(round(load.rows * self.row_bytes))
        lines = [
            f"{c.rows_per_second:,.0f} rows a second, visible within {c.freshness}: {self.answer}",
            f"  a commit every {text(c.interval)}: {load.rows:,.0f} rows and {size} to a bucket; "
            f"{self.keys:,} keys of {self.row_bytes:.0f} B in all",
            f"  CPU {load.cpu:.2f} cores: writing {load.writing:.2f}, merging {load.merging:.2f} "
            f"(write amplification {load.write_amplification:.1f}), commits {load.committing:.2f}; "
            f"at {c.busy:.0%} busy {load.cpu / c.busy:.1f}",
            f"  rows are visible within {text(load.usual)}, after the slowest commit {text(load.worst)}",
            f"  requests a second: {load.puts:.1f} PUT of {c.puts_per_second:,.0f}, "
            f"{load.gets:.1f} GET of {c.gets_per_second:,.0f}",
            f"{'buckets':>9}{'workers':>9}{'CPU':>8}{'a bucket':>10}{'worst':>10}",
        ]
        for tried in self.loads:
            figures = f"{tried.buckets:>9,}{tried.workers:>9,}{tried.cpu:>8.2f}{tried.busiest:>10.2f}"
            remark = "chosen" if tried is load and not tried.short_of else tried.short_of
            lines.append(f"{figures}{text(tried.worst):>10}  {remark}".rstrip())
        if self.aside is not None:
            lines.append(f"with write-only, and a job that compacts: {self.aside.answer}")
        return "\n".join(lines)


def planned(asked: ClusterSpec, options: CompactionOptions, *, keys: int, row_bytes: float) -> ClusterPlan:
    """The plan for a table of so many keys, whose rows have so many bytes in files."""
    loads: dict[bool, list[Load]] = {True: [], False: []}
    buckets = 1
    while buckets <= MOST_BUCKETS and not all(
        loads_so_far and _least(loads_so_far[-1], asked) for loads_so_far in loads.values()
    ):
        many = buckets * asked.partitions
        rows = asked.rows_per_second * asked.interval / many
        tasks = _steady(rows, keys / many, row_bytes, options, min(many, _SAMPLED))
        for compacts, loads_so_far in loads.items():
            if not loads_so_far or not _least(loads_so_far[-1], asked):
                loads_so_far.append(_load(asked, buckets, rows, row_bytes, tasks, compacts=compacts))
        buckets *= 2
    aside = ClusterPlan(asked, keys, row_bytes, tuple(loads[False]))
    return ClusterPlan(asked, keys, row_bytes, tuple(loads[True]), aside)


def _least(load: Load, asked: ClusterSpec) -> bool:
    """Whether no other number of buckets needs fewer workers."""
    return not load.short_of and load.workers == max(1, ceil(load.cpu / asked.busy / asked.cores))


def _load(
    asked: ClusterSpec,
    buckets: int,
    rows: float,
    row_bytes: float,
    tasks: list[list[BucketTask]],
    *,
    compacts: bool,
) -> Load:
    """What so many buckets a partition come to; `tasks` are those of some buckets in each commit."""
    every, costs, many = asked.interval, asked.costs, buckets * asked.partitions
    whole = [task for commit in tasks for task in commit]
    writing = many * float(np.mean([t.writing(costs) for t in whole])) / every
    merging = many * float(np.mean([t.merging(costs) for t in whole])) / every
    committing = costs.snapshot * snapshots(tasks, many) / len(tasks) / every
    puts = (many * float(np.mean([t.puts for t in whole])) + _COMMIT_PUTS) / every
    gets = (many * float(np.mean([t.gets for t in whole])) + _COMMIT_GETS) / every
    seconds = np.array([[t.seconds(asked, compacts=compacts) for t in commit] for commit in tasks])
    own = every + _IN_TURN * _seconds(asked.latency, "latency") + costs.snapshot

    def waits(workers: int) -> np.ndarray:
        """Seconds until rows are visible, for each commit."""
        slots = min(many, workers * asked.cores)
        return own + np.maximum(seconds.max(axis=1), seconds.mean(axis=1) * many / slots)

    workers = max(1, ceil((writing + merging + committing) / asked.busy / asked.cores))
    most = max(workers, ceil(many / asked.cores))
    limit = asked.freshness_seconds
    workers = next((w for w in range(workers, most) if waits(w).max() <= limit), most)
    usual, worst = float(np.median(waits(workers))), float(waits(workers).max())
    busiest, slots = (writing + merging) / many, min(many, workers * asked.cores)
    short = ""
    if busiest > asked.busy:
        short = f"a bucket needs {busiest:.2f} cores, and one task at a time writes it"
    elif slots < (writing + merging) / asked.busy:
        short = f"{many:,} tasks at a time use {slots:,} cores"
    elif worst > limit:
        short = f"the slowest commit takes {quantities.seconds_text(worst - every)}"
    elif puts > asked.puts_per_second or gets > asked.gets_per_second:
        short = "the store takes fewer requests a second: longer commits need fewer"
    ingested = rows * row_bytes
    amplification = (ingested + float(np.mean([t.output_bytes for t in whole]))) / ingested
    figures = (writing, merging, committing, busiest, amplification, usual, worst, gets, puts)
    return Load(buckets, rows, *figures, workers, short)


@dataclass(frozen=True, slots=True)
class BucketTask:
    """What a commit does in one bucket: rows and bytes it writes, reads to merge them, and requests."""

    rows: float
    written_bytes: float
    input_rows: float
    input_bytes: float
    inputs: float
    output_bytes: float
    outputs: float
    gets: float
    puts: float

    @classmethod
    def of(cls, steps: list[SimulatedStep], rows: float, row_bytes: float) -> BucketTask:
        merges = [s for s in steps if s.kind == COMPACTION and s.bytes_read]
        read, written = sum(s.bytes_read for s in merges), sum(s.bytes_written for s in merges)
        files = sum(len(s.decision.unit.files) for s in merges if s.decision and s.decision.unit)
        flushed = sum(s.bytes_written for s in steps if s.kind != COMPACTION)
        gets = files + read / _READ_BYTES
        puts = 1 + flushed // _READ_BYTES + len(merges) + written // _READ_BYTES
        return cls(rows, flushed, read / row_bytes, read, files, written, len(merges), gets, puts)

    def writing(self, costs: Costs) -> float:
        return costs.written(self.rows, self.written_bytes, 1)

    def merging(self, costs: Costs) -> float:
        return costs.merged(self.input_rows, self.input_bytes, self.inputs, self.outputs)

    def seconds(self, asked: ClusterSpec, *, compacts: bool) -> float:
        """How long the task runs: CPU, and waiting for the store."""
        latency = _seconds(asked.latency, "latency")
        moved, requests, cpu = self.written_bytes, 1.0, self.writing(asked.costs)
        if compacts:
            moved += self.input_bytes + self.output_bytes
            requests, cpu = self.gets + self.puts, cpu + self.merging(asked.costs)
        return cpu + requests * latency + moved / asked.bytes_per_second


def simulated(
    rows: float, keys: float, row_bytes: float, options: CompactionOptions, *, buckets: int, commits: int
) -> list[list[BucketTask]]:
    """The tasks of each commit to some buckets of a table that is empty before: `rows` a commit and `keys`
    are those of a bucket."""
    shared = {"rows": max(buckets, round(rows * buckets)), "keys": max(buckets, round(keys * buckets))}
    workload = Workload(UNIFORM, row_bytes=row_bytes, **shared)
    simulator = Simulator(workload, options, buckets=buckets, samples=0, keep=0)
    steps: dict[int, list[list[SimulatedStep]]] = {}
    for step in simulator.steps(commits):
        steps.setdefault(step.flush, [[] for _ in range(buckets)])[step.bucket].append(step)
    return [[BucketTask.of(done, rows, row_bytes) for done in steps[n]] for n in sorted(steps)]


def snapshots(commits: Sequence[Sequence[BucketTask]], buckets: int) -> float:
    """The snapshots of these commits to so many buckets: a second one where any of them is compacted. Buckets
    soon compact at different times, whatever the simulated ones do."""
    compacting = float(np.mean([task.outputs > 0 for commit in commits for task in commit]))
    return len(commits) * (2 - (1 - compacting) ** buckets)


def _steady(
    rows: float, keys: float, row_bytes: float, options: CompactionOptions, buckets: int
) -> list[list[BucketTask]]:
    """The same, of commits that come once each key was written."""
    least, most = _COMMITS
    commits = min(max(least, ceil(_TURNS * keys / rows)), most)
    return simulated(rows, keys, row_bytes, options, buckets=buckets, commits=commits)[commits // 2 :]


def _seconds(text: str, name: str) -> float:
    try:
        return duration_ms(text) / 1000
    except (TypeError, ValueError):
        raise InvalidRequest(f"{name} {text!r} of a cluster must be a duration such as '1 min'") from None
