"""Leveled compaction as RocksDB does it by default: each level has a target size, and what exceeds it moves
to the next (FORMAT.md 12.7).

The score of level 0 is its number of files over a trigger, that of level n its bytes over base ×
multiplier^(n−1); the oldest level has no target. The level with the highest score is compacted if that is 1
or more: all of level 0 with the files that it overlaps in level 1, or one file of level n with those that it
overlaps in level n+1. That is the file with the least overlap for its size, of equal ones that with the
oldest rows. Its neighbours that overlap no further files go with it; where nothing is overlapped, as many as
make a file of the target size, so that small files become one. Nothing but the files is state.

Options that start full compactions by time or bytes go first, as in universal compaction. Where something
relies on the oldest level being the result of a full compaction (changelogs of full compactions, an interval
between them), the level before it has no target either, so that nothing else reaches the oldest.

A unit may consist of parts of runs: it includes every file of the output level whose keys lie within those of
the files that move, so levels stay disjoint (I4), and rows never pass newer ones (I5). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from operator import attrgetter
from typing import Any

from tablestore.format.manifests.data_file import DataFileMeta
from tablestore.lsm.compaction import universal
from tablestore.lsm.compaction.decision import CompactUnit, Decision, OverlapStep, Reason, RuleTrial, State
from tablestore.lsm.compaction.options import CompactionOptions, PickContext
from tablestore.lsm.compaction.rewrite_plan import newer_overlapping
from tablestore.lsm.levels.sorted_run import KeyOrder, Levels, SortedRun

_LIFT = "lift level 0"
_SHOWN = 4  # candidates of a level in an explanation


def pick(levels: Levels, options: CompactionOptions, at: PickContext) -> Decision:
    """The next unit of a bucket: from the level with the highest score, or None if none reaches 1."""
    explanation = partial(explain, levels, options, at)
    early = universal.early_full(levels, options, at) if options.early_full else None
    if early is not None and isinstance(early.unit, CompactUnit):
        return Decision(early.unit, explanation, early.rule)
    scores = _scores(levels, options)
    best = scores.index(max(scores))
    if scores[best] >= 1:
        level = _in_order(levels, options, at, best)
        return Decision(_unit(levels, options, at, level), explanation, _name(level))
    if _lifts(levels, options):
        return Decision(_unit(levels, options, at, 0), explanation, _LIFT)
    return Decision(None, explanation, "none")


def explain(levels: Levels, options: CompactionOptions, at: PickContext) -> Reason:
    """The reason of `pick`: the score of every level, the highest first, and what each would do."""
    trials = [universal.early_full(levels, options, at)] if options.early_full else []
    early = any(t.state == "fired" for t in trials)
    scores = _scores(levels, options)
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    best = order[0]
    taken = _in_order(levels, options, at, best) if scores[best] >= 1 and not early else None
    for level in order:
        due = scores[level] >= 1 or level == taken
        numbers = _numbers(levels, options, level, scores[level])
        if taken is not None and taken != best and level in (taken, best):
            numbers += (("after", taken),) if level == best else (("before", best),)
        state: State = "fired" if level == taken else "not reached" if due or early else "no"
        unit = _unit(levels, options, at, level) if due else None
        trials.append(
            RuleTrial(_name(level), state, numbers, _steps(levels, options, level) if due else (), unit)
        )
    trials += (RuleTrial(_name(run.level), "off") for run in levels.upper[len(scores) - 1 : -1])
    fired = next((t for t in trials if t.state == "fired"), None)
    trials.append(_lift_trial(levels, options, at, reached=fired is None))
    fired = trials[-1] if trials[-1].state == "fired" else fired
    if fired is not None:
        return Reason(fired.rule, fired.text, tuple(trials))
    highest = next(t for t in trials if t.rule == _name(best))
    return Reason("none", f"the highest score is that of {highest.rule}: {highest.text}", tuple(trials))


def _in_order(levels: Levels, options: CompactionOptions, at: PickContext, level: int) -> int:
    """`level`, or the level to compact before it: where rows of a key are merged into each other, a newer
    level may not hold rows that belong before or between the merged ones, as a writer that began earlier
    makes them."""
    while level > 0 and not options.newest_wins:
        unit = _unit(levels, options, at, level)
        newest = max(f.max_sequence for f in unit.files)
        waits = [f.level for f in newer_overlapping(unit, levels) if f.min_sequence <= newest]
        if not waits:
            return level
        level = min(waits)
    return level


def _name(level: int) -> str:
    return f"level {level}"


def _scores(levels: Levels, options: CompactionOptions) -> list[float]:
    """The score of each level from 0 on; the oldest level has none, nor has the one before it where only full
    compactions write the oldest."""
    scores = [len(levels.level0) / options.level0_trigger]
    target = options.level_base_bytes
    for run in levels.upper[: -2 if options.oldest_level_full_only else -1]:
        scores.append(run.size / target)
        target *= options.level_multiplier
    return scores


def _numbers(
    levels: Levels, options: CompactionOptions, level: int, score: float
) -> tuple[tuple[str, Any], ...]:
    if level == 0:
        return (("files", len(levels.level0)), ("trigger", options.level0_trigger), ("score", score))
    size = levels.upper[level - 1].size
    return (("bytes", size), ("target", options.target(level)), ("score", score))


def _lifts(levels: Levels, options: CompactionOptions) -> bool:
    """Whether level 0 is compacted before its trigger, because the table looks keys up or asks for it."""
    waits = max(1, options.level0_interval)
    return options.force_up_level0 and len(levels.level0) >= waits


def _lift_trial(levels: Levels, options: CompactionOptions, at: PickContext, *, reached: bool) -> RuleTrial:
    if not options.force_up_level0:
        return RuleTrial(_LIFT, "off")
    numbers: tuple[tuple[str, Any], ...] = (("level0", len(levels.level0)),)
    if options.level0_interval:
        numbers += (("interval", options.level0_interval),)
    fires = _lifts(levels, options)
    state: State = "no" if not fires else "fired" if reached else "not reached"
    return RuleTrial(_LIFT, state, numbers, unit=_unit(levels, options, at, 0) if fires else None)


def _unit(levels: Levels, options: CompactionOptions, at: PickContext, level: int) -> CompactUnit:
    """The unit that compacts `level`; it includes the overlapped files of the next level, so that I4
    holds."""
    older = levels.upper[level]
    if level > 0:
        chosen: Candidate = (at.first or first)(levels, level)
        newer = expanded(levels, level, chosen, target_bytes=options.target_bytes)
        return CompactUnit(level + 1, (*newer, *older.files[chosen.overlapped]), parts=True)
    low = min(levels.key(f.min_key) for f in levels.level0)
    high = max(levels.key(f.max_key) for f in levels.level0)
    return CompactUnit(1, (*levels.level0, *older.overlapping(low, high, levels.key)), parts=True)


def _steps(levels: Levels, options: CompactionOptions, level: int) -> tuple[OverlapStep, ...]:
    """The first candidates of a level from 1 on, the one that is taken first."""
    if level == 0:
        return ()
    nearest = nsmallest(_SHOWN, candidates(levels, level), key=attrgetter("rank"))
    return tuple(
        OverlapStep(
            c.file.file_name,
            c.file.file_size,
            c.overlapped.stop - c.overlapped.start,
            c.overlap,
            level + 1,
            i == 0,
            len(expanded(levels, level, c, target_bytes=options.target_bytes)) - 1 if i == 0 else 0,
        )
        for i, c in enumerate(nearest)
    )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file of one level and what it overlaps in the next; the one with the smallest rank moves first."""

    position: int
    file: DataFileMeta
    overlapped: slice
    overlap: int

    @property
    def rank(self) -> tuple[float, int, int]:
        """(overlap for its size, age, position): smaller moves first."""
        return self.overlap / max(self.file.file_size, 1), self.file.max_sequence, self.position

    def meets_nothing_else(self, other: Candidate) -> bool:
        """Whether `other` overlaps only files that this one overlaps too, so that taking it adds none."""
        first, end = self.overlapped.start, self.overlapped.stop
        low, high = other.overlapped.start, other.overlapped.stop
        return first <= low < end and first < high <= end


def first(levels: Levels, level: int) -> Candidate:
    """The file of a level from 1 on that moves first."""
    return min(candidates(levels, level), key=attrgetter("rank"))


def candidate_at(levels: Levels, level: int, position: int) -> Candidate:
    """The file at one position of a level from 1 on, with the files of the next level that it overlaps."""
    run, older = levels.upper[level - 1], levels.upper[level]
    return _candidate(run, older, position, levels.key)


def candidates(levels: Levels, level: int) -> Iterator[Candidate]:
    """Each file of a level from 1 on with the files of the next level that it overlaps."""
    run, older = levels.upper[level - 1], levels.upper[level]
    return (_candidate(run, older, position, levels.key) for position in range(len(run.files)))


def expanded(levels: Levels, level: int, chosen: Candidate, *, target_bytes: int) -> tuple[DataFileMeta, ...]:
    """The chosen file with neighbours that overlap no further files of the next level, in key order; where
    nothing is overlapped, as many neighbours as make a file of `target_bytes`."""
    run, older = levels.upper[level - 1], levels.upper[level]
    moves, left = chosen.overlapped.start == chosen.overlapped.stop, target_bytes - chosen.file.file_size

    def comes_along(position: int) -> bool:
        nonlocal left
        if not 0 <= position < len(run.files):
            return False
        other = _candidate(run, older, position, levels.key)
        if not moves:
            return chosen.meets_nothing_else(other)
        left -= other.file.file_size
        return left >= 0 and other.overlapped == chosen.overlapped

    low = high = chosen.position
    while comes_along(high + 1):
        high += 1
    while comes_along(low - 1):
        low -= 1
    return run.files[low : high + 1]


def _candidate(run: SortedRun, older: SortedRun, position: int, key: KeyOrder) -> Candidate:
    met = older.span(*run.ends(position, key), key)
    return Candidate(position, run.files[position], slice(*met), _size(older, *met))


def _size(run: SortedRun, start: int, stop: int) -> int:
    return sum([f.file_size for f in run.files[start:stop]]) if stop > start else 0
