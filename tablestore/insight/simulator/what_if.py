"""Two sets of options side by side: the same commits carried out under each, in numbers and in a sentence.

`actual` is A, the baseline; `changed` is B. Both are replays, so errors of estimates are alike on both sides.
Pure. `HistoryWhatIf` is of a table's history; it says, too, how far the replay under the table's own options
is from what really happened. `WorkloadWhatIf` is of a workload of the simulator:

    compare(Workload("zipf", keys=1_000_000), {"num-sorted-run.compaction-trigger": 8}, flushes=200)

Its commit is a flush into each bucket and what follows it; the number of that stands for the snapshot.
Memory: see `replay_result`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import pyarrow as pa

from tablestore.core import quantities, rich
from tablestore.core.arguments import checked
from tablestore.core.errors import InvalidRequest
from tablestore.format.binary_row import comparable_keys
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.result_tables import table_of
from tablestore.insight.explain.table_history import Place
from tablestore.insight.simulator.history_replay import ProgressCallback, ReplayedHistory
from tablestore.insight.simulator.replay_bucket import ExecutedDecision
from tablestore.insight.simulator.replay_result import Replay, ReplayRow, Steps
from tablestore.insight.simulator.sim_bucket import KEY, SimBucket
from tablestore.insight.simulator.simulator import COMPACTION, Schedule, Simulator, compaction_options
from tablestore.insight.simulator.workload import Workload
from tablestore.insight.simulator.workload_run import Run, WorkloadSetting
from tablestore.lsm.compaction.options import CompactionOptions
from tablestore.lsm.levels.sorted_run import Levels, SortedRun

_ARROW = {"int": pa.int64(), "str": pa.string(), "float": pa.float64(), "bool": pa.bool_()}
REPLAYED = pa.schema(
    [
        pa.field("variant", pa.string()),
        *(pa.field(f.name, _ARROW[str(f.type).split(" |")[0]]) for f in fields(ReplayRow)),
    ]
)
AS_IT_WAS, CHANGED = "as it was", "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """One number under the one options and under the others."""

    name: str
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """After / before, None where that says nothing."""
        return self.after / self.before if self.before and self.after is not None else None

    @property
    def change(self) -> str:
        """`-28 %`, empty where nothing changes."""
        return "" if self.ratio is None or self.ratio == 1 else f"{100 * (self.ratio - 1):+.0f} %"

    @property
    def values(self) -> tuple[str, str]:
        """Both numbers in words."""
        show = _bytes if self.name.startswith("bytes") else shown
        return show(self.before), show(self.after)

    @property
    def text(self) -> str:
        """`write amplification     4.10     2.95    -28 %`."""
        before, after = self.values
        return f"{self.name:<22}{before:>12}{after:>12}  {self.change}".rstrip()


def _bytes(value: float | None) -> str:
    return "–" if value is None else quantities.size(round(value))


def shown(value: float | None) -> str:
    """A count, or a number with two decimals."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


class WhatIf:
    """The same commits under two sets of options; `asked` are those of `changed`. Immutable."""

    names = (AS_IT_WAS, CHANGED)

    def __init__(self, actual: Replay, changed: Replay, asked: Mapping[str, Any]) -> None:
        self.actual, self.changed, self.asked = actual, changed, dict(asked)
        self._ends: dict[Place, frozenset[bytes]] = {}

    @property
    def trust(self) -> str:
        """How reliable the numbers are."""
        raise NotImplementedError

    @property
    def places(self) -> tuple[Place, ...]:
        """The buckets, those with most live bytes first."""
        live = {place: sum(f.file_size for f in levels.files) for place, levels in self.actual.levels.items()}
        return tuple(sorted(live, key=lambda place: (-live[place], place)))

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Each number on both sides."""
        sides = self.actual, self.changed

        def pair(name: str, value: Any) -> Difference:
            return Difference(name, *(value(side) for side in sides))

        return (
            pair("write amplification", lambda r: r.write_amplification),
            pair("compactions", lambda r: r.total("compactions")),
            pair("write stalls", lambda r: r.total("stalls")),
            pair("bytes compacted", lambda r: r.total("bytes_compacted")),
            pair("bytes moved", lambda r: r.total("bytes_moved")),
            pair("bytes of all files", lambda r: r.total("live_bytes")),
            pair("files", lambda r: r.total("files")),
            pair("runs, mean", lambda r: r.mean("runs")),
            pair("runs, most", lambda r: r.most_runs),
            pair("files a key opens, mean", lambda r: r.mean("point_files")),
            pair("bytes a key opens, mean", lambda r: r.mean("point_bytes")),
        )

    def verdict(self, who: str = "It") -> str:
        """One sentence on what the change does to work, reads and space.

        `It compacts 11 times instead of 33 and writes 1.36 GiB less; a reader merges 5.2 runs on average
        instead of 4.1, and the files at the end hold 155 MiB more.`
        """
        by_name = {d.name: d for d in self.differences}
        often, work = by_name["compactions"], by_name["bytes compacted"]
        runs, live = by_name["runs, mean"], by_name["bytes of all files"]
        times = f"compacts {_instead(often, '{:,.0f}', ' times')} and writes {_more(work)}"
        reads = f"a reader merges {_instead(runs, '{:.1f}', ' runs on average')}"
        return f"{who} {times}; {reads}, and the files at the end hold {_more(live)}."

    def levels(self, place: Place, commit: int) -> tuple[pa.Table, pa.Table]:
        """The files of a bucket after its commit of that number on both sides, as `inspect.levels()` has
        them; all commits of both sides share one key axis."""
        if place not in self._ends:
            self._ends[place] = frozenset(self._extremes(place))
        ends = self._ends[place]
        actual, other = (side.levels_table(place, commit, among=ends) for side in (self.actual, self.changed))
        return actual, other

    def _extremes(self, place: Place) -> set[bytes]:
        """Smallest and greatest key of all files that ever were."""
        key = self.actual.levels[place].key
        ends = self.actual.steps[place].ends | self.changed.steps[place].ends
        return {min(ends, key=key), max(ends, key=key)} if ends else set()

    def to_arrow(self) -> pa.Table:
        """Both sides, a row for each commit to each bucket; `variant` names the side."""
        sides = zip(self.names, (self.actual, self.changed), strict=True)
        rows = ((name, *(getattr(r, f.name) for f in fields(r))) for name, side in sides for r in side.rows)
        return table_of(REPLAYED, rows)

    def __repr__(self) -> str:
        asked = ", ".join(f"{k} = {v}" for k, v in self.asked.items())
        head = f"{'':<22}{self.names[0]:>12}{self.names[1]:>12}"
        return "\n".join([f"WhatIf({asked})", head, *(d.text for d in self.differences), self.trust])

    def _repr_html_(self) -> str | None:
        return rich.card("what-if", self)


def _instead(difference: Difference, form: str, noun: str) -> str:
    """`11 times instead of 33`, `33 times as before`."""
    before, after = (form.format(value or 0) for value in (difference.before, difference.after))
    return f"{after}{noun} as before" if before == after else f"{after}{noun} instead of {before}"


def _more(difference: Difference) -> str:
    """`1.36 GiB less`, `as much`."""
    by = round((difference.after or 0) - (difference.before or 0))
    return f"{quantities.size(abs(by))} {'more' if by > 0 else 'less'}" if by else "as much"


Resolve = Callable[[Mapping[str, Any]], tuple[CompactionOptions, dict[str, str]]]


class HistoryWhatIf(WhatIf):
    """A history under its own options, or under those of a baseline (`actual`), and under `options`
    (`changed`). Immutable."""

    def __init__(
        self,
        history: ReplayedHistory,
        options: CompactionOptions,
        asked: Mapping[str, Any],
        *,
        baseline: CompactionOptions | None = None,
        resolve: Resolve | None = None,
        progress: ProgressCallback | None = None,
        actual: Replay | None = None,
    ) -> None:
        self.history, self.options, self.baseline = history, options, baseline
        self._resolve = resolve
        require_change(options, baseline or history.options)
        first = actual or history.replay(baseline, progress=phase(progress, 0, 2))
        second = history.replay(options, progress=progress if actual is not None else phase(progress, 1, 2))
        super().__init__(first, second, asked)

    def under(self, options: Mapping[str, Any], *, progress: ProgressCallback | None = None) -> HistoryWhatIf:
        """The same history and the same A beside a B under other table options; only B is carried out again.

        `progress(done, all)` is called after each commit; what it raises ends the replay.
        """
        if self._resolve is None:
            raise InvalidRequest("options by name need the table, to parse them: call `Table.what_if`")
        wanted, asked = self._resolve(options)
        return HistoryWhatIf(
            self.history,
            wanted,
            asked,
            baseline=self.baseline,
            resolve=self._resolve,
            progress=progress,
            actual=self.actual,
        )

    @cached_property
    def real_write_amplification(self) -> float | None:
        """The write amplification that the table's snapshots show, without any replay."""
        accounts = self.history.ledger().accounts.values()
        ingested = sum(a.ingested for a in accounts)
        return (ingested + sum(a.compacted for a in accounts)) / ingested if ingested else None

    @cached_property
    def own(self) -> Replay:
        """The history under the table's own options."""
        return self.actual if self.baseline is None else self.history.replay()

    @property
    def reproduced(self) -> bool:
        """Whether the replay under the table's own options ends with the table's own files."""
        real, replayed = self.history.real, self.own.levels
        return all(
            {(f.level, f.file_name) for f in real[place].files}
            == {(f.level, f.file_name) for f in replayed[place].files}
            for place in real
        )

    @property
    def trust(self) -> str:
        """How reliable the replay is, in numbers."""
        history, real = self.history, self.real_write_amplification
        measured, estimated = self.changed.known, self.changed.estimated
        same = "ends with the same files" if self.reproduced else "ends with other files"
        lines = [
            f"replayed under its own options the table {same}; write amplification "
            f"{shown(self.own.write_amplification)}, measured {shown(real)}"
        ]
        if history.unexplained:
            many = len(history.unexplained)
            lines.append(f"{many:,} of {history.commits:,} commits compacted by no rule of these options")
        if history.halves:
            buckets = quantities.many(len(history.halves), "bucket")
            left = f"of the first commit to {buckets} only the compaction is left"
            lines.append(f"{left}: it is taken as it was")
        lines.append(
            f"{quantities.many(measured, 'merge')} made files that the table has, {estimated:,} are estimated"
        )
        return "\n".join(lines)


def require_change(options: CompactionOptions, base: CompactionOptions) -> None:
    """Raise InvalidRequest if there is nothing to compare."""
    if options == base:
        raise InvalidRequest("these options change nothing about compaction")


def phase(progress: ProgressCallback | None, number: int, phases: int) -> ProgressCallback | None:
    """The progress of pass `number` of `phases` passes over the same commits, as that of all of them."""
    return None if progress is None else lambda done, whole: progress(number * whole + done, phases * whole)


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
