"""Simulator: the flushes of a workload into buckets, compacted by the engine's own rules, step by step.

A step is one flush or one compaction that was carried out, with its decision. Times are virtual. The same
workload, options, schedule and seed give the same steps. `inspect` has the tables of a real table's, so
pictures draw a simulation; `flush`, `compact` and `set_options` drive one by hand. `compact` gives a
`Compaction`, as that of `Table.compact`; what a merge would give is known from the samples. Memory: the
sampled keys of the live files, and a journal of the newest `keep` steps. Steps belong to one thread at a
time; `inspect` may be read meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tablestore.core.errors import InvalidRequest
from tablestore.core.options.rules import require_known
from tablestore.core.options.table_options import TableOptions, as_text, require_levels
from tablestore.format.binary_row import comparable_keys
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.insight.explain.forecast import Forecast
from tablestore.insight.explain.merge_size import Estimate
from tablestore.insight.simulator.contents import Contents, Drawn, Expected
from tablestore.insight.simulator.density import Expectations, law_of
from tablestore.insight.simulator.sim_bucket import KEY, FileSizes, SimBucket, SimFile
from tablestore.insight.simulator.simulated_inspect import SimulatedInspect, SimulationJournal
from tablestore.insight.simulator.workload import BLOCK_ROWS, Draws, FlushedRows, Workload, divided
from tablestore.lsm.compaction.compaction_report import Compaction, Pick
from tablestore.lsm.compaction.decision import Decision
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.compaction.universal import full as full_compaction
from tablestore.lsm.levels.sorted_run import Levels, SortedRun

FLUSH, COMPACTION = "flush", "compaction"
MAX_BUCKETS = 10_000  # each takes some 10 kB and what its flushes take
RESCALED = 1_000_003  # from the seed of a simulation to that of the one it is rescaled to
KEPT = 10_000  # steps that a journal goes back
_KEYS = {
    "trigger": "num-sorted-run.compaction-trigger",
    "stop_trigger": "num-sorted-run.stop-trigger",
    "num_levels": "num-levels",
    "max_size_amplification": "compaction.max-size-amplification-percent",
    "size_ratio": "compaction.size-ratio",
    "strategy": "tablestore.compaction.strategy",
    "level0_trigger": "tablestore.compaction.leveled.level0-file-num-trigger",
    "level_base_bytes": "tablestore.compaction.leveled.max-bytes-for-level-base",
    "level_multiplier": "tablestore.compaction.leveled.max-bytes-for-level-multiplier",
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """When writers flush and compact. A commit has `flushes_per_commit` flushes, one every `interval_ms`, and
    compacts after them until no rule fires; between its flushes only a write stall compacts.

    With `write_only` writers never compact: a job makes one pick a bucket after every `compact_every`
    commits (0: never). Every `full_every` commits a full compaction merges all runs (0: never).
    """

    interval_ms: int = 60_000
    flushes_per_commit: int = 1
    write_only: bool = False
    compact_every: int = 0
    full_every: int = 0

    def __post_init__(self) -> None:
        """Raise InvalidRequest for numbers that are too small."""
        least = {"interval_ms": 0, "flushes_per_commit": 1, "compact_every": 0, "full_every": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise InvalidRequest(f"{name} {getattr(self, name)} must be at least {low}")


@dataclass(slots=True)
class SimulatedStep:
    """One flush, or one compaction and why. `levels` are those after it; bytes are of this step alone.

    `flush` counts from 1; the flush after a `stalled` compaction waited for it. `snapshot` is its commit in
    `inspect`, 0 where no journal is kept.
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
    snapshot: int = 0

    @property
    def text(self) -> str:
        """One line: what happened, and why."""
        if self.decision is None:
            return f"flush {self.flush}"
        return f"{'stalled: ' if self.stalled else ''}{self.decision.text}"


def compaction_options(
    options: Mapping[str, Any] | CompactionOptions | TableOptions | None,
) -> CompactionOptions:
    """The options of compaction, of table options in any form. Raises InvalidOption for bad values."""
    if isinstance(options, CompactionOptions):
        return options
    if isinstance(options, TableOptions):
        return CompactionOptions.of(options)
    texts = as_text(options or {})
    require_known(texts)
    parsed = TableOptions.parse(texts)
    require_levels(parsed)
    return CompactionOptions.of(parsed)


def _stored(
    options: Mapping[str, Any] | CompactionOptions | TableOptions | None, rules: CompactionOptions
) -> dict[str, str]:
    """Options as a table stores them; of typed options those that the rules of compaction are made of."""
    if options is None or isinstance(options, Mapping):
        return as_text(options)
    return as_text({key: getattr(rules, name) for name, key in _KEYS.items()})


class Simulator:
    """A simulation that runs `step()` by `step()`, or by hand.

    `samples` rows stand for the rows of a flush (None: each row is drawn, 0: none is, sizes are expected
    ones); `inspect` has the newest `keep` steps (0: none).
    """

    def __init__(
        self,
        workload: Workload,
        options: Mapping[str, Any] | CompactionOptions | None = None,
        *,
        buckets: int = 1,
        schedule: Schedule | None = None,
        seed: int = 0,
        samples: int | None = None,
        keep: int = KEPT,
    ) -> None:
        if buckets < 1 or keep < 0:
            raise InvalidRequest(f"buckets {buckets} must be at least 1, and keep {keep} at least 0")
        if buckets > MAX_BUCKETS:
            raise InvalidRequest(
                f"buckets {buckets:,} are more than the {MAX_BUCKETS:,} that are simulated at once; all are "
                "alike: simulate some, with the rows that come to them"
            )
        if samples is not None and samples < 0:
            raise InvalidRequest(f"samples {samples} must be at least 0: rows drawn a flush")
        if seed < 0:
            raise InvalidRequest(f"seed {seed} must be at least 0")
        self.workload, self.rules = workload, compaction_options(options)
        self.options, self.name = _stored(options, self.rules), f"simulated {workload.kind}"
        self.schedule, self.seed = schedule or Schedule(), seed
        share = _share(workload, buckets)
        sizes = FileSizes(workload.row_bytes, workload.file_bytes, self.rules.target_bytes)
        self.samples, seeds = samples, range(seed, seed + 2 * buckets, 2)
        flows: list[Draws] | list[Expectations]
        if samples == 0:
            flows, self.weight = [Expectations(share, seed=flow_seed) for flow_seed in seeds], 1.0
        else:
            block = BLOCK_ROWS // buckets
            flows = [Draws(share, seed=flow_seed, samples=samples, block_rows=block) for flow_seed in seeds]
            self.weight = flows[0].weight
        contents = Expected(law_of(share)) if samples == 0 else Drawn(self.weight)
        self.buckets, self._began_ms = [SimBucket(self.rules, sizes, contents) for _ in seeds], 0
        self._drawers, self._draws = [flow for flow in flows if isinstance(flow, Draws)], 0
        self._expected = [flow for flow in flows if isinstance(flow, Expectations)]
        self._flows = [iter(flow) for flow in flows]
        self.flushes = self.stalls = 0
        self._journal = SimulationJournal(keep=keep, weight=self.weight)
        self.inspect = SimulatedInspect(self._journal)
        self._cycle: Iterator[SimulatedStep] = iter(())

    def step(self) -> SimulatedStep:
        """The next flush or compaction."""
        while True:
            event = next(self._cycle, None)
            if event is not None:
                return event
            self._cycle = self._next_cycle()

    def steps(self, flushes: int) -> Iterator[SimulatedStep]:
        """All steps until `flushes` flushes a bucket have been made in all, and what follows the last."""
        yield from self._cycle
        while self.flushes < flushes:
            self._cycle = self._next_cycle()
            yield from self._cycle

    def advance(self, flushes: int) -> Simulator:
        """Run until `flushes` flushes a bucket have been made in all."""
        for _ in self._cycle:
            pass
        while self.flushes < flushes:
            if self._journal.keep:
                for _ in self._next_cycle():
                    pass
            else:
                self._pass_cycle()
        return self

    def flush(self) -> tuple[SimulatedStep, ...]:
        """One flush in each bucket, after the write stall that is due before it; what is due after it is left
        to `compact`."""
        return tuple(self._next_cycle(compacts=False))

    def begin(self, files: Sequence[SimFile]) -> None:
        """Let the only bucket hold `files` before the first flush, as commit 1; time goes on from the newest.

        Raises InvalidRequest for several buckets, for rows that are drawn, and behind a flush.
        """
        if len(self.buckets) > 1 or self.samples != 0 or self._journal.last:
            raise InvalidRequest("a simulation that begins with files has one bucket, and samples=0")
        (bucket,), (flow,) = self.buckets, self._expected
        bucket.begin(files)
        flow.go_on(max((f.max_key + 1 for f in files), default=0))
        bucket.now_ms = self._began_ms = max((f.creation_time_ms for f in files), default=0)
        if files and self._journal.keep:
            self._journal.enter(0, bucket, identifier=0, sample=())

    def set_options(self, options: Mapping[str, Any]) -> Simulator:
        """Other options from now on, the others as they are; files stay where they are.

        `num-levels` stays, too, unless `options` name it. Raises InvalidOption and changes nothing then.
        """
        texts = {"num-levels": str(self.rules.num_levels), **self.options, **as_text(options)}
        self.rules, self.options = compaction_options(texts), texts
        for bucket in self.buckets:
            bucket.set_options(self.rules)
        return self

    def set_workload(self, workload: Workload) -> Simulator:
        """Other rows from the next flush on: new keys go on behind those there, a key space starts anew.

        Raises InvalidRequest where rows are sampled, as a sampled key stands for some rows of its workload.
        """
        if self.weight != 1 or self.samples == 0:
            raise InvalidRequest("a simulation that draws a sample keeps its workload; leave samples out")
        share, many = _share(workload, len(self.buckets)), len(self.buckets)
        self._draws += 1
        first = self.seed + 2 * many * self._draws
        flows = [Draws(share, seed=first + 2 * i, block_rows=share.rows) for i in range(many)]
        if flows[0].weight != 1:
            raise InvalidRequest(f"{share.rows:,} rows of a flush are too many to draw each of them")
        for flow, before in zip(flows, self._drawers, strict=True):
            flow.go_on(before)
        self.workload, self._drawers, self._flows = workload, flows, [iter(flow) for flow in flows]
        return self

    def rescaled(self, buckets: int) -> Simulator:
        """A simulation of `buckets` buckets, a multiple of those here, that holds the same rows in the oldest
        level, one run a bucket: what rewriting a table into more buckets gives. Its commits begin with that.

        Raises InvalidRequest for other numbers, and where rows are sampled.
        """
        parts, rest = divmod(buckets, len(self.buckets))
        if rest or parts < 2:
            raise InvalidRequest(f"buckets {buckets} must be a multiple of {len(self.buckets)}")
        if self.weight != 1 or self.samples == 0:
            raise InvalidRequest("a simulation that draws a sample cannot be rescaled; leave samples out")
        simulator = Simulator(
            self.workload,
            self.options,
            buckets=buckets,
            schedule=self.schedule,
            seed=self.seed + RESCALED,
            keep=self._journal.keep,
        )
        simulator.flushes = self.flushes
        for i, bucket in enumerate(self.buckets):
            for j, rows in enumerate(divided(bucket.compacted(), parts)):
                to = i * parts + j
                simulator.buckets[to].now_ms = bucket.now_ms
                if rows is not None:
                    simulator._flushed(self.flushes, to, rows)
                    decision = simulator.buckets[to].loop.fully()
                    assert decision is not None, "a fresh run of level 0 moves to the oldest level"
                    simulator._compacted(self.flushes, to, decision)
        return simulator

    def compact(
        self,
        *,
        full: bool = False,
        dry_run: bool = False,
        until_quiet: bool = False,
        partition: str | None = None,
        bucket: int | Iterable[int] | None = None,
        progress: Callable[[str, float, float, str], None] | None = None,
    ) -> Compaction:
        """Compact each bucket once by the rules, or fully, or until no rule fires, as `Table.compact` does;
        with `dry_run` only say what would happen and why. `progress` is called after each bucket."""
        if until_quiet and (full or dry_run):
            raise InvalidRequest("until_quiet goes on by the rules: it goes with neither full nor dry_run")
        asked = chosen(len(self.buckets), partition, bucket)
        if dry_run:
            each = ((i, self.buckets[i]) for i in asked)
            return Compaction(tuple(planned(i, b, full=full, weight=self.weight) for i, b in each))
        done = last = self._round(asked, full, progress)
        while until_quiet and last.busy:
            last = self._round(asked, full, progress)
            done = done.then(last) if last.busy else done
        return done

    def _round(
        self, buckets: Iterable[int], full: bool, progress: Callable[[str, float, float, str], None] | None
    ) -> Compaction:
        """One pick in each of these buckets, carried out."""
        picks, snapshots, sums = [], [], [0, 0, 0]
        asked = list(buckets)
        for done, i in enumerate(asked, start=1):
            bucket = self.buckets[i]
            decision = bucket.loop.fully() if full else bucket.loop.once()
            if decision is None:
                picks.append(planned(i, bucket, full=full, weight=self.weight))
            else:
                step = self._compacted(self.flushes, i, decision)
                picks.append(Pick("", i, decision, record=self._journal.record(step.snapshot)))
                snapshots += [step.snapshot] if step.snapshot else []
                sums = [a + b for a, b in zip(sums, bucket.last, strict=True)]
            if progress is not None:
                progress("compaction", done, len(asked), f"bucket-{i}")
        return Compaction(tuple(picks), Simulated(tuple(snapshots)), *sums)

    def levels(self, bucket: int = 0) -> Levels:
        """A bucket's files now, described like those of a table with one BIGINT key."""
        return described(self.buckets[bucket].levels, self.weight)

    def _next_cycle(self, *, compacts: bool = True) -> Iterator[SimulatedStep]:
        """One flush in each bucket, and the compactions that are due before and (if it `compacts`) after
        it."""
        schedule, number = self.schedule, self.flushes + 1
        self.flushes = number
        now = self._began_ms + number * schedule.interval_ms
        commit, rest = divmod(number, schedule.flushes_per_commit)
        for i, bucket in enumerate(self.buckets):
            bucket.now_ms = now
            if not schedule.write_only:
                for decision in bucket.loop.relieve():
                    self.stalls += 1
                    yield self._compacted(number, i, decision, stalled=True)
            yield self._flushed(number, i, next(self._flows[i]))
            if compacts and not rest:
                for decision in self._due(bucket, commit):
                    yield self._compacted(number, i, decision)

    def _pass_cycle(self) -> None:
        """As `_next_cycle`, without making the steps."""
        schedule, self.flushes = self.schedule, self.flushes + 1
        now = self._began_ms + self.flushes * schedule.interval_ms
        commit, rest = divmod(self.flushes, schedule.flushes_per_commit)
        for bucket, flow in zip(self.buckets, self._flows, strict=True):
            bucket.now_ms = now
            if not schedule.write_only:
                for _ in bucket.loop.relieve():
                    self.stalls += 1
            bucket.flush(next(flow))
            if not rest:
                for _ in self._due(bucket, commit):
                    pass

    def _due(self, bucket: SimBucket, commit: int) -> Iterator[Decision]:
        """The compactions that a commit carries out."""
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

    def _flushed(self, number: int, i: int, rows: FlushedRows) -> SimulatedStep:
        bucket, snapshot = self.buckets[i], 0
        written = bucket.flush(rows)
        if self._journal.keep:
            snapshot = self._journal.enter(i, bucket, identifier=number, sample=rows.sample)
        now = bucket.now_ms
        return SimulatedStep(number, now, i, FLUSH, bucket.levels, bytes_written=written, snapshot=snapshot)

    def _compacted(self, number: int, i: int, decision: Decision, *, stalled: bool = False) -> SimulatedStep:
        bucket, snapshot = self.buckets[i], 0
        if self._journal.keep:
            snapshot = self._journal.enter(i, bucket, identifier=number, decision=decision, stalled=stalled)
        last = bucket.last
        return SimulatedStep(
            number, bucket.now_ms, i, COMPACTION, bucket.levels, decision, stalled, *last, snapshot
        )


def described(levels: Levels, weight: float) -> Levels:
    """Simulated files as `DataFileMeta`."""

    def metas(files: Sequence[Any]) -> tuple[DataFileMeta, ...]:
        return tuple(f.meta(weight) for f in files)

    upper = tuple(SortedRun(metas(run.files), run.level) for run in levels.upper)
    return Levels(metas(levels.level0), upper, comparable_keys(KEY))


def _share(workload: Workload, buckets: int) -> Workload:
    """The part of a workload that comes to one bucket."""
    if buckets == 1:
        return workload
    keys = max(1, workload.key_space // buckets) if workload.spread else None
    return replace(workload, rows=max(1, workload.rows // buckets), keys=keys)


@dataclass(frozen=True, slots=True)
class Simulated:
    """The commits that a compaction of a simulation made."""

    snapshots: tuple[int, ...] = ()

    @property
    def snapshot(self) -> int | None:
        """Id of the last one, None if there was nothing to do."""
        return self.snapshots[-1] if self.snapshots else None


def chosen(buckets: int, partition: str | None, bucket: int | Iterable[int] | None) -> list[int]:
    """The buckets that are asked for; raises InvalidRequest for those that are not there."""
    wanted = range(buckets) if bucket is None else [bucket] if isinstance(bucket, int) else bucket
    numbers = sorted(set(wanted))
    if partition or not all(0 <= i < buckets for i in numbers):
        asked = f"partition {partition!r}" if partition else f"buckets {numbers}"
        raise InvalidRequest(f"{asked}: a simulation has buckets 0..{buckets - 1} and no partitions")
    return numbers


def planned(number: int, bucket: SimBucket, *, full: bool, weight: float) -> Pick:
    """The next pick in a bucket, by its rules or (`full`) of everything, with what it would give."""
    decision = full_compaction(bucket.levels) if full else bucket.loop.decide()
    trial = bucket.try_out(decision)
    if trial is None or decision.unit is None:
        return Pick("", number, decision)
    moved = {f.file_name for f in trial.before} & {f.file_name for f in trial.after}
    read = [f for f in trial.before if f.file_name not in moved]
    outputs = [f for f in trial.after if f.file_name not in moved]
    output = _output(read, outputs, bucket.contents)
    lifted = (f for f in trial.before if f.file_name in moved)
    drops = bucket.drops(decision.unit, bucket.levels)
    return Pick("", number, decision, Forecast(_metas(read, weight), _metas(lifted, weight), output, drops))


def _output(read: list[Any], files: list[Any], contents: Contents) -> Estimate:
    """What a merge gives: exact where each row is drawn."""
    rows, size = sum(f.row_count for f in files), sum(f.file_size for f in files)
    if not read:
        return Estimate(0, 0, True, "no rows are written", *(0,) * 4)
    if contents.exact:
        return Estimate(rows, size, True, "merged in the simulation", rows, rows, size, size)
    why = f"merged in the simulation, where {contents.why}"
    most = sum(f.row_count for f in read), size, size
    return Estimate(rows, size, False, why, min(rows, 1), *most)


def _metas(files: Iterable[Any], weight: float) -> tuple[Any, ...]:
    return tuple(f.meta(weight) for f in files)
