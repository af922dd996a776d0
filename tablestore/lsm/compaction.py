"""Universal compaction: which sorted runs of a bucket to merge next, by the exact rules of Paimon 2.0.0.

`pick` and `full` are pure: levels, options and a context in; a `Decision` with its reason out, the "no"
included. Runs taken are always contiguous from the newest (I5), and the output level is never 0. Called by
writers, by compaction jobs, by dry runs and by the simulator. `python -m tablestore.lsm.compaction
--check-picks FILE` replays recorded picks against these rules.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tablestore.format.manifest import EMPTY_STATS, DataFileMeta
from tablestore.io.fileio import LocalFileIO
from tablestore.lsm.decision import CompactUnit, Decision, RatioStep, Reason, RuleTrial
from tablestore.lsm.sorted_run import Levels, SortedRun
from tablestore.options import TableOptions

__all__ = [
    "CompactUnit",
    "CompactionOptions",
    "Decision",
    "PickContext",
    "RatioStep",
    "Reason",
    "RuleTrial",
    "full",
    "pick",
]
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """What the rules ask of a table's options."""

    trigger: int = 5
    stop_trigger: int = 8
    num_levels: int = 6
    max_size_amplification: int = 200
    size_ratio: int = 1
    offpeak_start: int = -1
    offpeak_end: int = -1
    offpeak_ratio: int = 0
    interval_ms: int | None = None
    total_threshold: int | None = None
    incremental_threshold: int | None = None
    force_up_level0: bool = False
    target_bytes: int = 128 << 20
    small_file_ratio: float = 0.7

    @classmethod
    def of(cls, options: TableOptions) -> CompactionOptions:
        """The part of a primary-key table's options that concerns compaction."""
        return cls(
            trigger=options.compaction_trigger,
            stop_trigger=options.run_stop_trigger,
            num_levels=options.num_levels,
            max_size_amplification=options.max_size_amplification,
            size_ratio=options.size_ratio,
            offpeak_start=options.offpeak_start,
            offpeak_end=options.offpeak_end,
            offpeak_ratio=options.offpeak_ratio,
            interval_ms=options.optimization_interval_ms,
            total_threshold=options.compaction_total_bytes,
            incremental_threshold=options.compaction_incremental_bytes,
            force_up_level0=options.force_up_level0,
            target_bytes=options.target_bytes(keyed=True),
            small_file_ratio=options.small_file_ratio,
        )

    @property
    def small_file_bytes(self) -> float:
        """Files below this are rewritten along with their neighbours instead of moved."""
        return self.small_file_ratio * self.target_bytes

    def percent(self, hour: int) -> float:
        """100 plus the size ratio in force at that hour of the day."""
        start, end = self.offpeak_start, self.offpeak_end
        if start == -1 or end == -1 or start == end:
            quiet = False
        elif start < end:
            quiet = start <= hour < end
        else:
            quiet = hour >= start or hour < end
        return 100.0 + self.size_ratio + (self.offpeak_ratio if quiet else 0)


@dataclass(frozen=True, slots=True)
class PickContext:
    """What a pick may know besides the levels. Times: local wall clock in ms, as `_CREATION_TIME`."""

    now_ms: int = 0
    last_full_ms: int | None = None

    @classmethod
    def at(cls, now_ms: int, levels: Levels) -> PickContext:
        """The context after a restart: the last full compaction made the top level's newest file."""
        top = levels.upper[-1].files if levels.upper else ()
        return cls(
            now_ms, max((f.creation_time_ms for f in top if f.creation_time_ms is not None), default=None)
        )

    @property
    def hour(self) -> int:
        """Hour of the day, 0..23."""
        return self.now_ms // _HOUR_MS % 24


@dataclass(frozen=True, slots=True)
class _Tree:
    """Runs of a bucket with their sizes added up once."""

    runs: tuple[SortedRun, ...]
    sizes: tuple[int, ...]
    max_level: int

    @classmethod
    def of(cls, levels: Levels) -> _Tree:
        runs = levels.runs
        return cls(runs, tuple(r.size for r in runs), levels.max_level)

    def unit(self, count: int) -> CompactUnit:
        """The first `count` runs, and as many more as it takes not to end at level 0."""
        runs, level = self.runs, self.max_level
        if count < len(runs):
            level = max(0, runs[count].level - 1)
        while level == 0 and count < len(runs):
            level = runs[count].level
            count += 1
        if count == len(runs):
            level = self.max_level
        return CompactUnit(level, tuple(f for r in runs[:count] for f in r.files))


def pick(levels: Levels, options: CompactionOptions, at: PickContext) -> Decision:
    """The next unit of a bucket by the first rule that fires, or None; the reason holds every rule's sum."""
    tree = _Tree.of(levels)
    trials: list[RuleTrial] = []
    fired: RuleTrial | None = None
    for rule in _RULES:
        trial = rule(tree, options, at)
        if fired is not None and trial.state != "off":
            trial = replace(trial, state="not reached")
        elif trial.state == "fired":
            fired = trial
        trials.append(trial)
    if fired is None:
        return Decision(None, Reason("none", _no_rule(trials), tuple(trials)))
    return _decision(fired, tuple(trials))


def full(levels: Levels, options: CompactionOptions) -> Decision:
    """All runs to the top level; None when there is only that level's run."""
    tree = _Tree.of(levels)
    top_only = len(tree.runs) == 1 and tree.runs[0].level == tree.max_level
    unit = None if not tree.runs or top_only else tree.unit(len(tree.runs))
    numbers = (("runs", len(tree.runs)), ("max_level", tree.max_level))
    trial = RuleTrial("full", "no" if unit is None else "fired", numbers, unit=unit)
    return _decision(trial, (trial,))


def _decision(trial: RuleTrial, trials: tuple[RuleTrial, ...]) -> Decision:
    unit = trial.unit
    if unit is not None and len(unit.files) == 1 and unit.files[0].level == unit.output_level:
        return Decision(
            None, Reason(trial.rule, f"{trial.text}, but that is one file at L{unit.output_level}", trials)
        )
    return Decision(unit, Reason(trial.rule, trial.text, trials))


def _no_rule(trials: Sequence[RuleTrial]) -> str:
    few = next((t.text for t in trials if t.rule == "size ratio" and t.state == "no" and not t.steps), None)
    told = [t for t in trials if t.state == "no" and (few is None or t.rule == "early full")]
    return "; ".join([*(f"{t.rule}: {t.text}" for t in told), *([few] if few else [])])


def _early_full(tree: _Tree, options: CompactionOptions, at: PickContext) -> RuleTrial:
    """Everything to the top when that is overdue, small, or much has gathered above the top level."""
    numbers: list[tuple[str, Any]] = [("runs", len(tree.runs))]
    due = []
    if options.interval_ms is not None:
        since = None if at.last_full_ms is None else at.now_ms - at.last_full_ms
        numbers += [("since_last_full_ms", since), ("interval_ms", options.interval_ms)]
        due.append(since is None or since > options.interval_ms)
    if options.total_threshold is not None:
        total = sum(tree.sizes)
        numbers += [("total", total), ("total_threshold", options.total_threshold)]
        due.append(total < options.total_threshold)
    if options.incremental_threshold is not None:
        above = sum(s for r, s in zip(tree.runs, tree.sizes, strict=True) if r.level != tree.max_level)
        numbers += [("incremental", above), ("incremental_threshold", options.incremental_threshold)]
        due.append(above > options.incremental_threshold)
    if not due:
        return RuleTrial("early full", "off")
    if len(tree.runs) > 1 and any(due):
        return RuleTrial("early full", "fired", tuple(numbers), unit=tree.unit(len(tree.runs)))
    return RuleTrial("early full", "no", tuple(numbers))


def _size_amplification(tree: _Tree, options: CompactionOptions, at: PickContext) -> RuleTrial:
    """Everything to the top when the newer runs outweigh the oldest one by the given percentage."""
    numbers: list[tuple[str, Any]] = [("runs", len(tree.runs)), ("trigger", options.trigger)]
    if len(tree.runs) < options.trigger or not tree.runs:
        return RuleTrial("size amplification", "no", tuple(numbers))
    newer, oldest = sum(tree.sizes[:-1]), tree.sizes[-1]
    numbers += [("newer", newer), ("oldest", oldest), ("limit_percent", options.max_size_amplification)]
    if newer * 100 > options.max_size_amplification * oldest:
        return RuleTrial("size amplification", "fired", tuple(numbers), unit=tree.unit(len(tree.runs)))
    return RuleTrial("size amplification", "no", tuple(numbers))


def _extend(tree: _Tree, count: int, percent: float) -> tuple[RatioStep, ...]:
    """Take further runs while the next is not larger than all taken so far, stretched by the ratio."""
    candidate, steps = sum(tree.sizes[:count]), []
    for run, size in zip(tree.runs[count:], tree.sizes[count:], strict=True):
        steps.append(RatioStep(candidate, percent, size, run.level))
        if not steps[-1].taken:
            break
        candidate += size
    return tuple(steps)


def _size_ratio(tree: _Tree, options: CompactionOptions, at: PickContext) -> RuleTrial:
    """The newest runs of about equal size."""
    numbers = (("runs", len(tree.runs)), ("trigger", options.trigger))
    if len(tree.runs) < options.trigger or not tree.runs:
        return RuleTrial("size ratio", "no", numbers)
    steps = _extend(tree, 1, options.percent(at.hour))
    taken = 1 + sum(s.taken for s in steps)
    numbers += (("taken", taken),)
    if taken == 1:
        return RuleTrial("size ratio", "no", numbers, steps)
    return RuleTrial("size ratio", "fired", numbers, steps, tree.unit(taken))


def _file_number(tree: _Tree, options: CompactionOptions, at: PickContext) -> RuleTrial:
    """As many of the newest runs as are above the trigger, and those of about equal size after them."""
    numbers = (("runs", len(tree.runs)), ("trigger", options.trigger))
    if len(tree.runs) <= options.trigger:
        return RuleTrial("file number", "no", numbers)
    initial = len(tree.runs) - options.trigger + 1
    steps = _extend(tree, initial, options.percent(at.hour))
    taken = initial + sum(s.taken for s in steps)
    return RuleTrial(
        "file number", "fired", (*numbers, ("initial", initial), ("taken", taken)), steps, tree.unit(taken)
    )


def _lift_level0(tree: _Tree, options: CompactionOptions, at: PickContext) -> RuleTrial:
    """All of level 0, level 1 with it, when the table wants level 0 lifted at every compaction."""
    if not options.force_up_level0:
        return RuleTrial("lift level 0", "off")
    initial = sum(1 for r in tree.runs if r.level == 0)
    numbers: tuple[tuple[str, Any], ...] = (("runs", len(tree.runs)), ("level0", initial))
    if not initial:
        return RuleTrial("lift level 0", "no", numbers)
    if initial < len(tree.runs) and tree.runs[initial].level == 1:
        initial += 1
    steps = _extend(tree, initial, options.percent(at.hour))
    taken = initial + sum(s.taken for s in steps)
    return RuleTrial("lift level 0", "fired", (*numbers, ("taken", taken)), steps, tree.unit(taken))


_RULES: tuple[Callable[[_Tree, CompactionOptions, PickContext], RuleTrial], ...] = (
    _early_full,
    _size_amplification,
    _size_ratio,
    _file_number,
    _lift_level0,
)


def recorded_case(case: Mapping[str, Any]) -> tuple[Levels, CompactionOptions, PickContext]:
    """The arguments of `pick` for one line of a file of recorded picks. Files are named by their number."""
    by_level: dict[int, list[DataFileMeta]] = {}
    number = 0
    for level, *files in case["runs"]:
        for size, low, high in files:
            file = DataFileMeta(
                file_name=str(number),
                file_size=size,
                row_count=1,
                min_key=low.to_bytes(8, "big", signed=True),
                max_key=high.to_bytes(8, "big", signed=True),
                key_stats=EMPTY_STATS,
                value_stats=EMPTY_STATS,
                min_sequence=-number,
                max_sequence=-number,
                schema_id=0,
                level=level,
            )
            by_level.setdefault(level, []).append(file)
            number += 1
    upper = tuple(SortedRun(tuple(by_level.get(i, ())), i) for i in range(1, case["num_levels"]))
    options = CompactionOptions(
        trigger=case["trigger"],
        num_levels=case["num_levels"],
        max_size_amplification=case["max_size_amp"],
        size_ratio=case["size_ratio"],
        offpeak_start=0,
        offpeak_end=24,
        offpeak_ratio=case["off_peak_ratio"],
        interval_ms=case.get("interval_ms"),
        total_threshold=case.get("total_size_threshold"),
        incremental_threshold=case.get("incremental_size_threshold"),
        force_up_level0=case["force_up_level_0"],
    )
    now = 1 << 50
    since = case.get("since_last_full_ms")
    return (
        Levels(tuple(by_level.get(0, ())), upper),
        options,
        PickContext(now, None if since is None else now - since),
    )


def difference(case: Mapping[str, Any]) -> str | None:
    """What `pick` answers otherwise than recorded, with its reason; None when both agree."""
    decision = pick(*recorded_case(case))
    unit, wanted = decision.unit, case["pick"]
    if wanted is not None and wanted.get("discarded"):
        wanted = None
    ours = None if unit is None else (unit.output_level, sorted(int(f.file_name) for f in unit.files))
    theirs = None if wanted is None else (wanted["output_level"], sorted(wanted["files"]))
    if ours == theirs:
        return None
    return f"case {case.get('id')}: expected {theirs}, picked {ours}\n{decision.explain()}"


def check_picks(lines: Iterable[str], show: int = 5) -> tuple[int, int, list[str]]:
    """(cases, cases that differ, the first `show` differences) of recorded picks, one JSON object a line."""
    cases, wrong, shown = 0, 0, []
    for line in lines:
        if not line.strip():
            continue
        cases += 1
        found = difference(json.loads(line))
        if found is not None:
            wrong += 1
            if len(shown) < show:
                shown.append(found)
    return cases, wrong, shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay a file of recorded picks; 0 when all agree, 1 with the first differences otherwise."""
    parser = argparse.ArgumentParser(
        prog="python -m tablestore.lsm.compaction", description="Replay recorded picks."
    )
    parser.add_argument("--check-picks", metavar="FILE", required=True, help="JSON lines, plain or .gz")
    path = parser.parse_args(arguments).check_picks
    data = LocalFileIO().read(path)
    text = (gzip.decompress(data) if path.endswith(".gz") else data).decode()
    cases, wrong, shown = check_picks(text.splitlines())
    for found in shown:
        print(found)
    print(f"{cases - wrong} of {cases} picks agree")
    return 1 if wrong or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
