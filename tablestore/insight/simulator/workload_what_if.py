"""One workload under two sets of options: the same flushes, carried out flush by flush under each.

    compare(Workload("zipf", keys=1_000_000), {"num-sorted-run.compaction-trigger": 8}, flushes=200)

A commit is a flush into each bucket and what follows it; its number stands for the snapshot. Memory: see
`replay_result`. Pure. Used by notebooks and by pictures of two strategies side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablestore.core import quantities
from tablestore.core.arguments import checked
from tablestore.format.binary_row import comparable_keys
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.insight.simulator.history_replay import ProgressCallback
from tablestore.insight.simulator.history_what_if import phase, require_change
from tablestore.insight.simulator.occasions import Place
from tablestore.insight.simulator.replay_bucket import ExecutedDecision
from tablestore.insight.simulator.replay_result import Replay, ReplayRow, Steps
from tablestore.insight.simulator.sim_bucket import KEY, SimBucket
from tablestore.insight.simulator.simulator import COMPACTION, Schedule, Simulator, compaction_options
from tablestore.insight.simulator.what_if import WhatIf
from tablestore.insight.simulator.workload import Workload
from tablestore.insight.simulator.workload_run import Run, WorkloadSetting
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.levels.sorted_run import Levels, SortedRun

FLUSHES = 200
_COPIES = 400  # compacted copies that are measured in a run
_DRAWN_ROWS = 1 << 21  # rows of a run of which each is drawn by default

Options = Mapping[str, Any] | CompactionOptions | None


class WorkloadWhatIf(WhatIf):
    """A workload under `baseline` (`actual`) and under `options` (`changed`). Immutable."""

    names = ("A", "B")

    def __init__(
        self,
        setting: WorkloadSetting,
        options: CompactionOptions,
        asked: Mapping[str, Any],
        *,
        baseline: CompactionOptions,
        progress: ProgressCallback | None = None,
        actual: Replay | None = None,
    ) -> None:
        require_change(options, baseline)
        self.setting, self.options, self.baseline = setting, options, baseline
        self.workload = setting.workload
        first = actual or _carried_out(setting, baseline, phase(progress, 0, 2))
        second = _carried_out(setting, options, progress if actual is not None else phase(progress, 1, 2))
        super().__init__(first, second, asked)

    def under(
        self, options: Mapping[str, Any], *, progress: ProgressCallback | None = None
    ) -> WorkloadWhatIf:
        """The same workload and the same A beside a B under other options; only B is carried out again."""
        wanted = compaction_options(options)
        return WorkloadWhatIf(
            self.setting, wanted, options, baseline=self.baseline, progress=progress, actual=self.actual
        )

    @property
    def trust(self) -> str:
        """How the rows were drawn, the same for both sides."""
        setting, rows = self.setting, self.workload.rows
        drawn = rows if setting.samples is None else min(setting.samples, rows)
        each = f"{drawn:,} drawn rows stand for {rows:,} of a flush"
        if drawn in (0, rows):
            each = "every row is drawn" if drawn else "what is merged has its expected size"
        flushes = quantities.many(setting.flushes, "flush").replace("flushs", "flushes")
        return f"both sides take the same {flushes} of {self.workload.text}, seed {setting.seed}; {each}"


@checked
def compare(
    workload: Workload | Run | Simulator | str,
    options: Options,
    baseline: Options = None,
    *,
    flushes: int | None = None,
    buckets: int = 1,
    schedule: Schedule | None = None,
    seed: int = 0,
    samples: int | None = None,
    progress: ProgressCallback | None = None,
) -> WorkloadWhatIf:
    """A `workload` under `options` beside the same under `baseline` (None: the defaults).

    A workload is a `Workload`, or the name of one ("uniform"), with `buckets`, a compaction `schedule` and a
    `seed` of its draws. Of a `Run` or a `Simulator` come its workload and all that is not given: its options
    are the baseline, and as many flushes are made as it has made. Else `flushes` are FLUSHES unless given.
    `samples` rows stand for those of a flush if they are given (0: none is drawn, sizes are expected); else
    each row is drawn in runs of some two million at most, none in longer ones. Raises InvalidRequest where
    both sets mean the same, and InvalidOption. `progress(done, all)` is called after each flush; what it
    raises ends the run.

    >>> compared = ts.what_if("uniform", {"num-sorted-run.compaction-trigger": 8}, flushes=20)
    >>> compared.to_arrow().num_rows > 10
    True
    """
    if isinstance(workload, Run | Simulator):
        return _of_simulation(workload, options, baseline, flushes, progress)
    flushes = FLUSHES if flushes is None else flushes
    chosen = Workload(workload) if isinstance(workload, str) else workload
    setting = WorkloadSetting(chosen, flushes, buckets, schedule, seed, samples).drawing(_DRAWN_ROWS)
    asked = options if isinstance(options, Mapping) else {}
    return WorkloadWhatIf(
        setting, compaction_options(options), asked, baseline=compaction_options(baseline), progress=progress
    )


def _of_simulation(
    simulated: Run | Simulator,
    options: Options,
    baseline: Options,
    flushes: int | None,
    progress: ProgressCallback | None,
) -> WorkloadWhatIf:
    """The same rows again, in the same buckets, on the same schedule."""
    at = simulated.simulator if isinstance(simulated, Run) else simulated
    return compare(
        at.workload,
        options,
        at.rules if baseline is None else baseline,
        flushes=flushes or at.flushes or FLUSHES,
        buckets=len(at.buckets),
        schedule=at.schedule,
        seed=at.seed,
        samples=at.samples,
        progress=progress,
    )


def _carried_out(
    setting: WorkloadSetting, options: CompactionOptions, progress: ProgressCallback | None
) -> Replay:
    """Every flush under these options, with the levels after it."""
    simulator = setting.simulator(options)  # it keeps no steps: the rows below are its journal
    every = -(-setting.flushes // _COPIES)
    sides = [_Side(("", i), bucket, simulator.weight) for i, bucket in enumerate(simulator.buckets)]
    rows: list[ReplayRow] = []
    done: list[tuple[int, Place, ExecutedDecision]] = []
    for number in range(1, setting.flushes + 1):
        if progress is not None:
            progress(number - 1, setting.flushes)
        for step in simulator.steps(number):
            if step.kind is COMPACTION and step.decision is not None:
                side, moved = sides[step.bucket], (step.bytes_read, step.bytes_written, step.bytes_moved)
                side.stalls += step.stalled
                done.append((number, side.place, ExecutedDecision(step.decision, *moved, [], step.stalled)))
        measured = number % every == 0 or number == setting.flushes
        rows += [side.row(number, measured) for side in sides]
    ends = {side.place: side.levels for side in sides}
    steps = {side.place: side.steps for side in sides}
    return Replay(options, tuple(rows), ends, tuple(done), 0, len(done), steps, KEY)


class _Side:
    """One bucket of a running simulation, described flush by flush."""

    def __init__(self, place: Place, bucket: SimBucket, weight: float) -> None:
        self.place, self.steps, self.stalls = place, Steps(), 0
        self._bucket, self._weight = bucket, weight
        self._key = comparable_keys(KEY)
        self._known: dict[tuple[str, int], DataFileMeta] = {}

    @property
    def levels(self) -> Levels:
        """The files now, described as those of a table with one BIGINT key; one value a file and level."""
        levels = self._bucket.levels
        metas = {(f.file_name, f.level): self._meta(f) for f in levels.files}
        self._known = metas
        level0 = tuple(metas[f.file_name, 0] for f in levels.level0)
        runs = (tuple(metas[f.file_name, r.level] for f in r.files) for r in levels.upper)
        upper = tuple(SortedRun(files, i + 1) for i, files in enumerate(runs))
        return Levels(level0, upper, self._key)

    def _meta(self, file: Any) -> DataFileMeta:
        meta = self._known.get((file.file_name, file.level))
        return file.meta(self._weight) if meta is None else meta

    def row(self, number: int, measured: bool) -> ReplayRow:
        """How the bucket stands after a flush and what followed it."""
        self.steps.add(number, self.levels)
        bucket = self._bucket
        return ReplayRow.of(
            bucket.account,
            self.place,
            snapshot=number,
            time_ms=bucket.now_ms,
            stalls=self.stalls,
            compacted_bytes=bucket.compacted_bytes() if measured else None,
            space_exact=measured and bucket.contents.exact,
        )
