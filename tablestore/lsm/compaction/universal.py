"""Universal compaction by the exact rules of Paimon 2.0.0 (FORMAT.md 12.2).

The rules are tried in order: early full, size amplification, size ratio, file number, lift level 0. The
runs taken are always contiguous from the newest (I5), and the output level is never 0. Pure. A pick computes
only the sums that it needs; `explain` computes those of every rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tablestore.format.manifests.data_file import DataFileMeta
from tablestore.lsm.compaction.decision import (
    LONG,
    CompactUnit,
    Decision,
    RatioStep,
    Reason,
    RuleTrial,
    State,
    as_long,
    joins,
    outweighs,
)
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.levels.sorted_run import Levels

Numbers = tuple[tuple[str, Any], ...]
_SKIPPED = -1  # the table does not use the rule


@dataclass(slots=True)
class _Sums:
    """Sizes and levels of a bucket's runs, newest first."""

    sizes: list[int]
    levels: list[int]
    level0: int
    oldest_level: int

    @classmethod
    def of(cls, levels: Levels) -> _Sums:
        sizes = [f.file_size for f in levels.level0]
        level0 = len(sizes)
        places = [0] * level0
        for run in levels.upper:
            if run.files:
                size = run.size
                sizes.append(size if size < LONG else as_long(size))
                places.append(run.level)
        return cls(sizes, places, level0, len(levels.upper))


def pick(levels: Levels, options: CompactionOptions, at: PickContext) -> Decision:
    """The next unit of a bucket by the first rule that fires, or None."""
    sums = _Sums.of(levels)
    for rule in _RULES:
        taken = rule.takes(sums, options, at)
        if taken > 0:
            unit: CompactUnit | None = _unit(levels, sums, taken)
            if _is_no_work(unit):
                unit = None
            return Decision(unit, partial(explain, levels, options, at), rule.name)
    return Decision(None, partial(explain, levels, options, at), "none")


def full(levels: Levels, *, must_rewrite: Callable[[DataFileMeta], bool] = lambda _: False) -> Decision:
    """All runs to the oldest level (FORMAT.md 12.6); when only that level's run is there, those of its files
    that `must_rewrite` names, each for itself."""
    runs = levels.runs
    numbers: Numbers = (("runs", len(runs)), ("oldest_level", levels.oldest_level))
    unit = CompactUnit(levels.oldest_level, levels.files) if runs else None
    if len(runs) == 1 and runs[0].level == levels.oldest_level:
        files = tuple(f for f in runs[0].files if must_rewrite(f))
        unit = CompactUnit(levels.oldest_level, files, file_by_file=True) if files else None
        numbers += (("must_rewrite", len(files)),)
    trial = RuleTrial("full", "no" if unit is None else "fired", numbers, unit=unit)
    return Decision(unit, lambda: Reason(trial.rule, trial.text, (trial,)), trial.rule)


def explain(levels: Levels, options: CompactionOptions, at: PickContext) -> Reason:
    """The reason of `pick`: the trial of every rule, also of those after the one that fired."""
    sums = _Sums.of(levels)
    trials: list[RuleTrial] = []
    fired: RuleTrial | None = None
    for rule in _RULES:
        trials.append(_trial(rule, levels, sums, options, at, reached=fired is None))
        fired = trials[-1] if trials[-1].state == "fired" else fired
    if fired is None:
        return Reason("none", _no_rule(trials), tuple(trials))
    text = fired.text
    if isinstance(fired.unit, CompactUnit) and _is_no_work(fired.unit):
        text = f"{text}, but that is one file at L{fired.unit.output_level}"
    return Reason(fired.rule, text, tuple(trials))


def early_full(levels: Levels, options: CompactionOptions, at: PickContext) -> RuleTrial:
    """The trial of the early full rule, which leveled compaction has too."""
    return _trial(_RULES[0], levels, _Sums.of(levels), options, at, reached=True)


def _trial(
    rule: _Rule, levels: Levels, sums: _Sums, options: CompactionOptions, at: PickContext, *, reached: bool
) -> RuleTrial:
    """The trial of one rule; `reached`: no earlier rule fired."""
    taken = rule.takes(sums, options, at)
    if taken == _SKIPPED:
        return RuleTrial(rule.name, "off")
    state: State = "not reached" if not reached else "fired" if taken else "no"
    numbers, steps = rule.shown(sums, options, at, taken)
    if not taken:
        return RuleTrial(rule.name, state, numbers, steps)
    more = _reach(sums, taken)[0] - taken
    numbers += (("more", more),) if more else ()
    return RuleTrial(rule.name, state, numbers, steps, _unit(levels, sums, taken))


def _is_no_work(unit: CompactUnit | None) -> bool:
    """Whether the unit is one file that is at the output level already."""
    return unit is not None and len(unit.files) == 1 and unit.files[0].level == unit.output_level


def _reach(sums: _Sums, count: int) -> tuple[int, int]:
    """(runs taken, output level) when a rule takes `count` runs: more are taken where the output level would
    be 0."""
    total, level = len(sums.sizes), sums.oldest_level
    if count < total:
        level = max(0, sums.levels[count] - 1)
    while level == 0 and count < total:
        level = sums.levels[count]
        count += 1
    return count, level


def _unit(levels: Levels, sums: _Sums, count: int) -> CompactUnit:
    """The unit when a rule takes `count` runs."""
    total = len(sums.sizes)
    count, level = _reach(sums, count)
    if count == total:
        return CompactUnit(sums.oldest_level, levels.files)
    if count <= sums.level0:
        return CompactUnit(level, levels.level0[:count])
    last = sums.levels[count - 1]
    return CompactUnit(level, levels.level0 + tuple(f for run in levels.upper[:last] for f in run.files))


def _no_rule(trials: Sequence[RuleTrial]) -> str:
    few = next((t.text for t in trials if t.rule == "size ratio" and t.state == "no" and not t.steps), None)
    failed = [t for t in trials if t.state == "no" and (few is None or t.rule == "early full")]
    return "; ".join([*(f"{t.rule}: {t.text}" for t in failed), *([few] if few else [])])


def _extended(sizes: list[int], count: int, percent: float) -> int:
    """Runs taken: `count`, and more while the next is not larger than `percent` of all taken so far."""
    candidate = sum(sizes[:count])
    for size in sizes[count:]:
        if not -LONG <= candidate < LONG:
            candidate = as_long(candidate)
        if not joins(candidate, percent, size):
            break
        candidate += size
        count += 1
    return count


def _steps(sums: _Sums, initial: int, taken: int, percent: float) -> tuple[RatioStep, ...]:
    """The comparisons that `_extended` made from `initial` on, the one that stopped it included."""
    return tuple(
        RatioStep(as_long(sum(sums.sizes[:i])), percent, sums.sizes[i], sums.levels[i])
        for i in range(initial, min(taken + 1, len(sums.sizes)))
    )


def _early_full(sums: _Sums, options: CompactionOptions, at: PickContext) -> int:
    """All runs to the oldest level when that is overdue, when they are small, or when the newer levels hold
    much."""
    interval, total, incremental = (
        options.interval_ms,
        options.total_threshold,
        options.incremental_threshold,
    )
    if interval is None and total is None and incremental is None:
        return _SKIPPED
    due = interval is not None and (at.last_full_ms is None or at.now_ms - at.last_full_ms > interval)
    due = due or (total is not None and as_long(sum(sums.sizes)) < total)
    due = due or (incremental is not None and _newer_bytes(sums) > incremental)
    return len(sums.sizes) if due and len(sums.sizes) > 1 else 0


def _newer_bytes(sums: _Sums) -> int:
    return as_long(
        sum(s for s, level in zip(sums.sizes, sums.levels, strict=True) if level != sums.oldest_level)
    )


def _early_full_shown(
    sums: _Sums, options: CompactionOptions, at: PickContext, taken: int
) -> tuple[Numbers, tuple[RatioStep, ...]]:
    numbers: Numbers = (("runs", len(sums.sizes)),)
    if options.interval_ms is not None:
        since = None if at.last_full_ms is None else at.now_ms - at.last_full_ms
        numbers += (("since_last_full_ms", since), ("interval_ms", options.interval_ms))
    if options.total_threshold is not None:
        numbers += (("total", as_long(sum(sums.sizes))), ("total_threshold", options.total_threshold))
    if options.incremental_threshold is not None:
        numbers += (
            ("incremental", _newer_bytes(sums)),
            ("incremental_threshold", options.incremental_threshold),
        )
    return numbers, ()


def _size_amplification(sums: _Sums, options: CompactionOptions, at: PickContext) -> int:
    """All runs to the oldest level when the newer ones outweigh the oldest by the given percentage."""
    sizes = sums.sizes
    if len(sizes) < options.trigger or not sizes:
        return 0
    newer = as_long(sum(sizes) - sizes[-1])
    return len(sizes) if outweighs(newer, sizes[-1], options.max_size_amplification) else 0


def _size_amplification_shown(
    sums: _Sums, options: CompactionOptions, at: PickContext, taken: int
) -> tuple[Numbers, tuple[RatioStep, ...]]:
    numbers = _triggered(sums, options)
    if len(sums.sizes) < options.trigger or not sums.sizes:
        return numbers, ()
    newer, oldest = as_long(sum(sums.sizes[:-1])), sums.sizes[-1]
    numbers += (("newer", newer), ("oldest", oldest), ("limit_percent", options.max_size_amplification))
    return numbers, ()


def _triggered(sums: _Sums, options: CompactionOptions) -> Numbers:
    return (("runs", len(sums.sizes)), ("trigger", options.trigger))


def _size_ratio(sums: _Sums, options: CompactionOptions, at: PickContext) -> int:
    """The newest runs of about equal size."""
    if len(sums.sizes) < options.trigger or not sums.sizes:
        return 0
    taken = _extended(sums.sizes, 1, options.percent(at.hour))
    return taken if taken > 1 else 0


def _size_ratio_shown(
    sums: _Sums, options: CompactionOptions, at: PickContext, taken: int
) -> tuple[Numbers, tuple[RatioStep, ...]]:
    numbers = _triggered(sums, options)
    if len(sums.sizes) < options.trigger or not sums.sizes:
        return numbers, ()
    taken = max(taken, 1)
    return (*numbers, ("taken", taken)), _steps(sums, 1, taken, options.percent(at.hour))


def _file_number(sums: _Sums, options: CompactionOptions, at: PickContext) -> int:
    """As many of the newest runs as exceed the trigger, and those of about equal size after them."""
    above = len(sums.sizes) - options.trigger
    return _extended(sums.sizes, above + 1, options.percent(at.hour)) if above > 0 else 0


def _file_number_shown(
    sums: _Sums, options: CompactionOptions, at: PickContext, taken: int
) -> tuple[Numbers, tuple[RatioStep, ...]]:
    numbers = _triggered(sums, options)
    if not taken:
        return numbers, ()
    initial = len(sums.sizes) - options.trigger + 1
    return (*numbers, ("initial", initial), ("taken", taken)), _steps(
        sums, initial, taken, options.percent(at.hour)
    )


def _lift_level0(sums: _Sums, options: CompactionOptions, at: PickContext) -> int:
    """All of level 0, with level 1 if there is one, when the table compacts level 0 each time."""
    if not options.force_up_level0:
        return _SKIPPED
    if not sums.level0 or sums.level0 < options.level0_interval:
        return 0
    return _extended(sums.sizes, _lifted(sums), options.percent(at.hour))


def _lifted(sums: _Sums) -> int:
    """Minimum runs of the rule: those of level 0, and level 1 if there is one."""
    return sums.level0 + (sums.level0 < len(sums.levels) and sums.levels[sums.level0] == 1)


def _lift_level0_shown(
    sums: _Sums, options: CompactionOptions, at: PickContext, taken: int
) -> tuple[Numbers, tuple[RatioStep, ...]]:
    numbers: Numbers = (("runs", len(sums.sizes)), ("level0", sums.level0))
    if options.level0_interval:
        numbers += (("interval", options.level0_interval),)
    if not taken:
        return numbers, ()
    return (*numbers, ("taken", taken)), _steps(sums, _lifted(sums), taken, options.percent(at.hour))


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule. `takes` gives how many of the newest runs it alone would take (0: none, `_SKIPPED`: it is off),
    `shown` the numbers of its sum and its comparisons."""

    name: str
    takes: Callable[[_Sums, CompactionOptions, PickContext], int]
    shown: Callable[[_Sums, CompactionOptions, PickContext, int], tuple[Numbers, tuple[RatioStep, ...]]]


_RULES = (
    _Rule("early full", _early_full, _early_full_shown),
    _Rule("size amplification", _size_amplification, _size_amplification_shown),
    _Rule("size ratio", _size_ratio, _size_ratio_shown),
    _Rule("file number", _file_number, _file_number_shown),
    _Rule("lift level 0", _lift_level0, _lift_level0_shown),
)
