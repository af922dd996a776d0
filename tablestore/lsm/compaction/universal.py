"""Universal compaction by the exact rules of Paimon 2.0.0 (format facts 12.2).

The rules are tried in order: early full, size amplification, size ratio, file number, lift level 0. Runs
taken are always contiguous from the newest (I5), and the output level is never 0. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tablestore.format.manifest import DataFileMeta
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.decision import CompactUnit, Decision, RatioStep, Reason, RuleTrial
from tablestore.lsm.sorted_run import Levels, SortedRun


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


def full(
    levels: Levels, options: CompactionOptions, *, worn: Callable[[DataFileMeta], bool] = lambda _: False
) -> Decision:
    """All runs to the top level; when there is only that level's run its `worn` files, each for itself."""
    tree = _Tree.of(levels)
    numbers: tuple[tuple[str, Any], ...] = (("runs", len(tree.runs)), ("max_level", tree.max_level))
    unit = tree.unit(len(tree.runs)) if tree.runs else None
    if len(tree.runs) == 1 and tree.runs[0].level == tree.max_level:
        files = tuple(f for f in tree.runs[0].files if worn(f))
        unit = CompactUnit(tree.max_level, files, file_by_file=True) if files else None
        numbers += (("worn", len(files)),)
    trial = RuleTrial("full", "no" if unit is None else "fired", numbers, unit=unit)
    return _decision(trial, (trial,))


def _decision(trial: RuleTrial, trials: tuple[RuleTrial, ...]) -> Decision:
    unit = trial.unit
    alone = unit is not None and len(unit.files) == 1 and unit.files[0].level == unit.output_level
    if unit is not None and alone and not unit.file_by_file:
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
    if options.level0_interval:
        numbers += (("interval", options.level0_interval),)
    if not initial or initial < options.level0_interval:
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
