"""A simulated workload carried to its end (`Run`), with its amplification over time and its sums by rule.

    run = simulate(Workload("zipf", keys=1_000_000), {"num-sorted-run.compaction-trigger": 8}, flushes=10_000)
    run.summary, run.to_arrow(), run.levels(at=500), run.steps()

A run keeps a row for every so many flushes, not its steps: `steps` and `levels(at)` simulate again, which
gives the same; so does `inspect`, which pictures draw. Used by notebooks, by the command line and by
comparisons of options.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from tablestore.core import quantities
from tablestore.core.errors import InvalidRequest
from tablestore.format.result_tables import result_schema, table_of
from tablestore.insight.inspect.columns import levels_table
from tablestore.insight.simulator.sim_bucket import KEY, RuleSum
from tablestore.insight.simulator.simulated_inspect import SimulatedInspect
from tablestore.insight.simulator.simulator import KEPT, Schedule, SimulatedStep, Simulator
from tablestore.insight.simulator.workload import Workload
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.levels.sorted_run import Levels

ProgressCallback = Callable[[int, int], None]  # (flushes done, all of them)
POINTS = 200  # rows that a run keeps
_SPACE_POINTS = 20  # of these know their compacted copy
_DRAWN_ROWS = 1 << 23  # rows of a run of which each is drawn

SERIES = result_schema(
    "flush int64, time ms, bytes_ingested int64, bytes_compacted int64, bytes_moved int64, "
    "compactions int64, stalls int64, runs double, files int64, live_bytes int64, point_files double, "
    "point_bytes double, range_files double, range_bytes double, write_amplification double, "
    "compacted_bytes int64, space_amplification double"
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a run, all buckets together; reads as means over buckets."""

    flushes: int
    compactions: int
    stalls: int
    bytes_ingested: int
    bytes_compacted: int
    bytes_moved: int
    live_bytes: int
    live_files: int
    compacted_bytes: int
    runs: float
    most_runs: int
    point_files: float
    point_bytes: float
    range_files: float
    range_bytes: float
    write_amplification: float
    space_amplification: float
    rules: Mapping[str, RuleSum] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """A few lines for a terminal."""
        size = quantities.size
        lines = [
            f"{self.flushes:,} flushes of {size(self.bytes_ingested)} in all, "
            f"{quantities.many(self.compactions, 'compaction')} wrote {size(self.bytes_compacted)}, "
            f"moved {size(self.bytes_moved)}, {quantities.many(self.stalls, 'stall')}",
            f"write amplification {self.write_amplification:.2f}",
            f"read amplification  {self.runs:.1f} runs at the end, {self.most_runs} at most; a key opens "
            f"{self.point_files:.1f} files of {size(round(self.point_bytes))}",
            f"space amplification {self.space_amplification:.2f}: {size(self.live_bytes)} in "
            f"{quantities.many(self.live_files, 'file')} for {size(self.compacted_bytes)}",
        ]
        for rule, sums in sorted(self.rules.items(), key=lambda item: -item[1].bytes_written):
            moved = f", moved {size(sums.bytes_moved)}" if sums.bytes_moved else ""
            times = quantities.many(sums.compactions, "compaction")
            lines.append(f"  {rule}: {times}, wrote {size(sums.bytes_written)}{moved}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class WorkloadSetting:
    """What is simulated under any options: the flushes of a workload, and how their rows are drawn."""

    workload: Workload
    flushes: int
    buckets: int
    schedule: Schedule | None
    seed: int
    samples: int | None

    def __post_init__(self) -> None:
        if self.flushes < 1 or self.buckets < 1:
            raise InvalidRequest(f"flushes {self.flushes} and buckets {self.buckets} must be at least 1")

    def drawing(self, most_rows: int) -> WorkloadSetting:
        """This, or where it does not say how many rows to draw: each one in runs of so many rows at most,
        none in longer ones."""
        if self.samples is None and self.flushes * self.workload.rows > most_rows:
            return replace(self, samples=0)
        return self

    def simulator(self, options: Mapping[str, Any] | CompactionOptions | None, *, keep: int = 0) -> Simulator:
        """A new simulator before its first flush, which keeps so many steps."""
        return Simulator(
            self.workload,
            options,
            buckets=self.buckets,
            schedule=self.schedule,
            seed=self.seed,
            samples=self.samples,
            keep=keep,
        )


class Run:
    """A finished simulation. Immutable for its user; keeps the simulator at its end."""

    def __init__(
        self,
        setting: WorkloadSetting,
        options: Mapping[str, Any] | CompactionOptions | None,
        *,
        progress: ProgressCallback | None = None,
    ) -> None:
        self._setting, self._given, self._end = setting, options, setting.simulator(options)
        self.workload, self.flushes = setting.workload, setting.flushes
        self.options, self.name = self._end.options, self._end.name
        self._series: list[tuple[Any, ...]] = []
        self._carry_out(progress)
        self.summary = self._summed()

    def _carry_out(self, progress: ProgressCallback | None) -> None:
        simulator = self._end
        every = max(1, self.flushes // POINTS)
        measured = max(every, self.flushes // _SPACE_POINTS // every * every)
        for number in range(every, self.flushes + every, every):
            number = min(number, self.flushes)
            if progress is not None:
                progress(simulator.flushes, self.flushes)
            simulator.advance(number)
            space = number % measured == 0 or number == self.flushes
            self._series.append(_row(simulator, number, space))

    def _rules(self) -> dict[str, RuleSum]:
        """What each rule did, in all buckets."""
        by_rule: dict[str, RuleSum] = defaultdict(RuleSum)
        for bucket in self._end.buckets:
            for rule, sums in bucket.rules.items():
                by_rule[rule].join(sums)
        return dict(by_rule)

    def _summed(self) -> Summary:
        at = dict(zip(SERIES.names, self._series[-1], strict=True))
        sums = {f.name: at[f.name] for f in fields(Summary) if f.name in at}
        return Summary(
            **sums | {"flushes": self.flushes, "space_amplification": at["space_amplification"] or 1.0},
            live_files=at["files"],
            most_runs=max(bucket.most_runs for bucket in self._end.buckets),
            rules=self._rules(),
        )

    @property
    def simulator(self) -> Simulator:
        """The simulator as it stands at the end."""
        return self._end

    def to_arrow(self) -> pa.Table:
        """Amplification over time, a row for every so many flushes; the compacted copy is measured in some
        of them."""
        return table_of(SERIES, self._series)

    @cached_property
    def inspect(self) -> SimulatedInspect:
        """The tables of `inspect` for the newest steps; the run is simulated again for them, once."""
        return self._setting.simulator(self._given, keep=KEPT).advance(self.flushes).inspect

    def steps(self) -> Iterator[SimulatedStep]:
        """Every flush and every compaction with its decision, simulated again."""
        return self._setting.simulator(self._given).steps(self.flushes)

    def levels(self, at: int | None = None, *, bucket: int = 0) -> Levels:
        """A bucket's files after flush `at` and what followed it (None: the end)."""
        return self._at(at).levels(bucket)

    def levels_table(self, at: int | None = None) -> pa.Table:
        """The files of all buckets after flush `at`, with the columns of `inspect.levels()`."""
        simulator = self._at(at)
        tables = [levels_table(simulator.levels(i), KEY, bucket=i) for i in range(len(simulator.buckets))]
        return pa.concat_tables(tables)

    def _at(self, at: int | None) -> Simulator:
        if at is None or at == self.flushes:
            return self._end
        if not 0 <= at <= self.flushes:
            raise InvalidRequest(f"flush {at} is not in the run; it has 0..{self.flushes}")
        return self._setting.simulator(self._given).advance(at)

    def __repr__(self) -> str:
        return f"Run({self.workload.text})\n{self.summary.text}\n{self._exactness}"

    @property
    def _exactness(self) -> str:
        """What the sizes are worth, in one line."""
        contents = self._end.buckets[0].contents
        if contents.exact:
            return "exact: every row was drawn"
        return f"not exact: {contents.why}; runs of up to {_DRAWN_ROWS:,} rows draw each of them"


def simulate(
    workload: Workload | str,
    options: Mapping[str, Any] | CompactionOptions | None = None,
    *,
    flushes: int = 1_000,
    buckets: int = 1,
    schedule: Schedule | None = None,
    seed: int = 0,
    samples: int | None = None,
    progress: ProgressCallback | None = None,
) -> Run:
    """`flushes` flushes of a workload into each of `buckets` buckets, compacted under table `options`.

    A run of some 8 million rows at most draws each of them and is exact; what a longer one merges has its
    expected size: live bytes within 0.1 % of drawn ones, as is write amplification under leveled rules. Under
    universal ones chance decides between runs of nearly equal size, of drawn rows as of expected ones: seeds
    differ by up to a tenth. With `samples` so many rows stand for those of a flush (0: none is drawn).
    Memory grows with the files that live, about 1 kB each.

    `progress(done, all)` is called now and then; what it raises ends the run. Raises InvalidRequest
    and InvalidOption.
    """
    chosen = Workload(workload) if isinstance(workload, str) else workload
    setting = WorkloadSetting(chosen, flushes, buckets, schedule, seed, samples).drawing(_DRAWN_ROWS)
    return Run(setting, options, progress=progress)


def _row(simulator: Simulator, number: int, space: bool) -> tuple[Any, ...]:
    accounts = [b.account for b in simulator.buckets]
    many, reads = len(accounts), [a.reads for a in accounts]

    def total(name: str) -> int:
        return sum(getattr(a, name) for a in accounts)

    def mean(name: str) -> float:
        return sum(getattr(r, name) for r in reads) / many

    live, ingested, compacted = total("live_bytes"), total("ingested"), total("compacted")
    copy = sum(b.compacted_bytes() for b in simulator.buckets) if space else None
    return (
        number,
        number * simulator.schedule.interval_ms,
        ingested,
        compacted,
        total("moved"),
        total("compactions"),
        simulator.stalls,
        mean("runs"),
        total("live_files"),
        live,
        mean("point_files"),
        mean("point_bytes"),
        mean("range_files"),
        mean("range_bytes"),
        (ingested + compacted) / ingested,
        copy,
        live / copy if copy else None,
    )
