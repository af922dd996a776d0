"""Simulator: the flushes of a workload into buckets, compacted by the engine's own rules, step by step.

A step is one flush or one compaction that was carried out, with its decision. Times are virtual. The same
workload, options, schedule and seed give the same steps; memory holds the sampled keys of the live files.
Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tablestore.errors import InvalidRequest
from tablestore.lsm import interval
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.decision import Decision
from tablestore.lsm.simulator.bucket import KEY, Bucket, FileSizes
from tablestore.lsm.simulator.workload import Draws, Workload
from tablestore.lsm.sorted_run import Levels, SortedRun
from tablestore.options import TableOptions, as_text, refuse_near_misses, require_levels

FLUSH, COMPACTION = "flush", "compaction"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When writers flush and compact. Each commit takes `flushes_per_commit` flushes, `interval_ms` apart,
    then picks until no rule fires; between them only a write stall compacts.

    With `write_only` writers never compact: a job makes one pick a bucket after every `compact_every`
    commits (0: never). `full_every` commits everything is brought to the top level (0: never).
    """

    interval_ms: int = 60_000
    flushes_per_commit: int = 1
    write_only: bool = False
    compact_every: int = 0
    full_every: int = 0

    def __post_init__(self) -> None:
        """Raise InvalidRequest for numbers below those there can be."""
        least = {"interval_ms": 0, "flushes_per_commit": 1, "compact_every": 0, "full_every": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise InvalidRequest(f"{name} {getattr(self, name)} must be at least {low}")


@dataclass(slots=True)
class Step:
    """One flush, or one compaction and why. `levels` are those after it; bytes are of this step alone.

    `flush` counts from 1; a `stalled` compaction held up the flush that follows.
    """

    flush: int
    time_ms: int
    bucket: int
    kind: str
    levels: Levels
    decision: Decision | None = None
    stalled: bool = False
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_moved: int = 0

    @property
    def text(self) -> str:
        """One line: what happened, and why."""
        if self.decision is None:
            return f"flush {self.flush}"
        return f"{'stalled: ' if self.stalled else ''}{self.decision.text}"


def compaction_options(
    options: Mapping[str, Any] | CompactionOptions | TableOptions | None,
) -> CompactionOptions:
    """What the rules ask of options, however they are given. Raises InvalidOption for bad values."""
    if isinstance(options, CompactionOptions):
        return options
    if isinstance(options, TableOptions):
        return CompactionOptions.of(options)
    given = as_text(options or {})
    refuse_near_misses(given)
    parsed = TableOptions.parse(given)
    require_levels(parsed)
    return CompactionOptions.of(parsed)


class Simulator:
    """`step()` by step. `samples` rows stand for the rows of a flush (None: each for itself)."""

    def __init__(
        self,
        workload: Workload,
        options: Mapping[str, Any] | CompactionOptions | None = None,
        *,
        buckets: int = 1,
        schedule: Schedule | None = None,
        seed: int = 0,
        samples: int | None = None,
    ) -> None:
        if buckets < 1:
            raise InvalidRequest(f"buckets {buckets} must be at least 1")
        self.workload, self.options = workload, compaction_options(options)
        self.schedule, self.seed = schedule or Schedule(), seed
        share = _share(workload, buckets)
        sizes = FileSizes(workload.row_bytes, workload.file_bytes, self.options.target_bytes)
        self.buckets = [Bucket(self.options, sizes, deletes=workload.deletes) for _ in range(buckets)]
        self._draws = [Draws(share, seed=seed + 2 * i, samples=samples) for i in range(buckets)]
        self.weight = self._draws[0].weight
        self._flows = [iter(d) for d in self._draws]
        self.flushes = self.stalls = 0
        self._cycle: Iterator[Step] = iter(())

    def step(self) -> Step:
        """The next flush or compaction."""
        while True:
            found = next(self._cycle, None)
            if found is not None:
                return found
            self._cycle = self._next_cycle()

    def steps(self, flushes: int) -> Iterator[Step]:
        """All steps until `flushes` flushes a bucket have been made in all, and what follows the last."""
        yield from self._cycle
        while self.flushes < flushes:
            self._cycle = self._next_cycle()
            yield from self._cycle

    def advance(self, flushes: int) -> Simulator:
        """Run until `flushes` flushes a bucket have been made in all."""
        for _ in self.steps(flushes):
            pass
        return self

    def levels(self, bucket: int = 0) -> Levels:
        """A bucket's files now, described like those of a table with one BIGINT key."""
        return described(self.buckets[bucket].levels, self.weight)

    def _next_cycle(self) -> Iterator[Step]:
        """One flush in each bucket, and the compactions that are due before and after it."""
        schedule, number = self.schedule, self.flushes + 1
        self.flushes = number
        now = number * schedule.interval_ms
        commit, rest = divmod(number, schedule.flushes_per_commit)
        for i, bucket in enumerate(self.buckets):
            bucket.now_ms = now
            if not schedule.write_only:
                for decision in bucket.loop.relieve():
                    self.stalls += 1
                    yield self._compacted(number, i, decision, stalled=True)
            written = bucket.flush(next(self._flows[i]))
            yield Step(number, now, i, FLUSH, bucket.levels, bytes_written=written)
            if not rest:
                for decision in self._due(bucket, commit):
                    yield self._compacted(number, i, decision)

    def _due(self, bucket: Bucket, commit: int) -> Iterator[Decision]:
        """What is compacted with that commit."""
        schedule = self.schedule
        if schedule.full_every and commit % schedule.full_every == 0:
            decision = bucket.loop.fully()
            if decision is not None:
                yield decision
        if not schedule.write_only:
            yield from bucket.loop.settle()
        elif schedule.compact_every and commit % schedule.compact_every == 0:
            decision = bucket.loop.once()
            if decision is not None:
                yield decision

    def _compacted(self, number: int, i: int, decision: Decision, *, stalled: bool = False) -> Step:
        bucket = self.buckets[i]
        return Step(number, bucket.now_ms, i, COMPACTION, bucket.levels, decision, stalled, *bucket.last)


def described(levels: Levels, weight: float) -> Levels:
    """Simulated files as `DataFileMeta`."""
    level0 = tuple(f.meta(weight) for f in levels.level0)  # type: ignore[attr-defined]
    upper = (SortedRun(tuple(f.meta(weight) for f in r.files), r.level) for r in levels.upper)  # type: ignore[attr-defined]
    return Levels(level0, tuple(upper), interval.key_order(KEY))


def _share(workload: Workload, buckets: int) -> Workload:
    """What one bucket gets of a workload."""
    if buckets == 1:
        return workload
    keys = max(1, workload.key_space // buckets) if workload.spread else None
    return replace(workload, rows=max(1, workload.rows // buckets), keys=keys)
