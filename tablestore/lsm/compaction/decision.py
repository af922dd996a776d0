"""Decision: what a compaction pick decides, as a unit to compact and the reason in numbers and in words.

A `Reason` has the trial of every rule in the order in which they are tried: the one that fired, the sums of
those that did not, and what the later ones would have done alone. A `Decision` computes it on first access,
so that a pick costs little. Pure values; made by `compaction`, shown by widgets and logs, stored in records.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tablestore.core import quantities
from tablestore.format.compaction_record import MergeShape, inputs_of
from tablestore.format.manifests.data_file import DataFileMeta

State = Literal["fired", "no", "not reached", "off"]
_SIGNS = {"fired": "✓", "no": "×", "not reached": "○", "off": "–"}


@dataclass(frozen=True, slots=True)
class CompactUnit:
    """Files to merge, in the order of their runs, and the level that they go to (never 0).

    They are whole runs, from the newest on; with `parts` only those files of a level that overlap the others
    (leveled compaction). With `file_by_file` each file is rewritten by itself.
    """

    output_level: int
    files: tuple[DataFileMeta, ...]
    file_by_file: bool = False
    parts: bool = False

    @property
    def size(self) -> int:
        """Bytes of the files: the maximum that is read."""
        return sum(f.file_size for f in self.files)

    @property
    def shape(self) -> MergeShape:
        """The files as counts by level."""
        return MergeShape(self.output_level, inputs_of(self.files))

    @property
    def text(self) -> str:
        """`L0×5 + L5 → L5, 6 files 88.0 MiB`."""
        return shape_text(self.shape)


def shape_text(shape: MergeShape) -> str:
    """`L0×5 + L5 → L5, 6 files 88.0 MiB`."""
    inputs = (f"L{i.level}" if i.files == 1 else f"L{i.level}×{i.files}" for i in shape.inputs)
    size = quantities.size(shape.size)
    return f"{' + '.join(inputs)} → L{shape.output_level}, {_files(shape.files)} {size}"


LONG = 1 << 63  # sums of bytes wrap from here on


def as_long(count: int) -> int:
    """A sum in Java's 64-bit arithmetic."""
    return count if -LONG <= count < LONG else (count + LONG) % (2 * LONG) - LONG


def outweighs(newer: int, oldest: int, percent: int) -> bool:
    """Whether the newer runs have more than this percentage of the oldest run's bytes."""
    return as_long(newer * 100) > as_long(percent * oldest)


def joins(candidate: int, percent: float, next_size: int) -> bool:
    """Whether the next run joins the candidate by the size ratio, in doubles as in Java."""
    return not candidate * percent / 100.0 < float(next_size)


@dataclass(frozen=True, slots=True)
class RatioStep:
    """One comparison of the size-ratio rule: the candidate so far against the next run."""

    candidate: int
    percent: float  # by which the candidate is multiplied
    next_size: int
    next_level: int

    @property
    def taken(self) -> bool:
        """Whether the next run joins the candidate."""
        return joins(self.candidate, self.percent, self.next_size)

    @property
    def text(self) -> str:
        """`117.9 × 1.01 < 241.8 MiB L4 stop`."""
        percent, taken = self.percent, self.taken
        left, right = quantities.compared(
            self.candidate, self.next_size, lambda a, b: (a * percent >= 100 * b) == taken
        )
        sign, verdict = ("≥", "take") if taken else ("<", "stop")
        return f"{left} × {percent / 100:.2f} {sign} {right} L{self.next_level} {verdict}"


@dataclass(frozen=True, slots=True)
class OverlapStep:
    """A file that could move to the next level, with what it overlaps there; `along` neighbouring files
    overlap nothing else and move with it."""

    file: str
    size: int
    files: int
    overlap: int
    level: int
    taken: bool
    along: int = 0

    @property
    def text(self) -> str:
        """`take data-1.parquet: 12.0 MiB over 2 files of 30.1 MiB at L2 (ratio 2.51)`."""
        overlapped = (
            "nothing" if not self.files else f"{_files(self.files)} of {quantities.size(self.overlap)}"
        )
        ratio = f"{self.overlap / self.size:.2f}" if self.size else "0"
        along = f", with {_files(self.along)} beside it at no more overlap" if self.along else ""
        verdict = "take" if self.taken else "leave"
        where = f"{quantities.size(self.size)} over {overlapped} at L{self.level}"
        return f"{verdict} {self.file}: {where} (ratio {ratio}){along}"


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """One rule tried on one bucket: the terms of its sum, and what it alone would compact."""

    rule: str
    state: State
    numbers: tuple[tuple[str, Any], ...] = ()
    steps: tuple[RatioStep | OverlapStep, ...] = ()
    unit: CompactUnit | MergeShape | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """The rule's sum with its numbers, one line."""
        if self.state == "off":
            return "off"
        words = _WORDS.get(self.rule, _level_score)(dict(self.numbers), self)
        if self.state == "not reached" and self.unit is not None:
            return f"{words}; alone it would take {shape_text(_shape(self.unit))}"
        return words

    @property
    def lines(self) -> tuple[str, ...]:
        """The comparisons of a rule that extends from run to run, one line each."""
        return tuple(step.text for step in self.steps)

    @property
    def sign(self) -> str:
        """✓ fired, × tried without firing, ○ not reached, – off."""
        return _SIGNS[self.state]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pick decided so: the rule that fired ("none" if none did) and every trial."""

    rule: str
    text: str
    trials: tuple[RuleTrial, ...] = ()

    @property
    def runner_up(self) -> RuleTrial | None:
        """The first rule after the one that fired that would have compacted something too."""
        return next((t for t in self.trials if t.state == "not reached" and t.unit is not None), None)


class Decision:
    """The unit to compact, or None, with its reason: a "no" has one too. Immutable.

    `reason` may be a function that makes it, with its `rule`; it is called once, on first access, or before
    the decision is pickled.
    """

    __slots__ = ("_made", "_reason", "rule", "unit")

    def __init__(
        self, unit: CompactUnit | None, reason: Reason | Callable[[], Reason], rule: str | None = None
    ) -> None:
        self.unit = unit
        self._reason: Reason | None = None
        self._made: Callable[[], Reason] | None = None
        if isinstance(reason, Reason):
            self._reason, self.rule = reason, reason.rule
        else:
            assert rule is not None, "a reason that is a function needs its rule"
            self._made, self.rule = reason, rule

    @property
    def reason(self) -> Reason:
        """Why: the rule that fired, its sum, and the trial of every other rule."""
        if self._reason is None:
            assert self._made is not None
            self._reason, self._made = self._made(), None
        return self._reason

    @property
    def text(self) -> str:
        """One line for a log."""
        return _first_line(None if self.unit is None else self.unit.shape, self.reason)

    def explain(self) -> str:
        """The decision, the trial of every rule with its comparisons, one line each, and last what the
        runner-up would have done."""
        return explained(None if self.unit is None else self.unit.shape, self.reason)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decision):
            return NotImplemented
        return self.unit == other.unit and self.reason == other.reason

    def __hash__(self) -> int:
        return hash((self.unit, self.rule))

    def __repr__(self) -> str:
        return f"Decision({self.text})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Decision, (self.unit, self.reason)


def explained(unit: MergeShape | None, reason: Reason) -> str:
    """The text of `Decision.explain` for a unit of which only counts are known."""
    lines = [_first_line(unit, reason)]
    for trial in reason.trials:
        lines.append(f"  {trial.sign} {trial.rule}: {trial.text}")
        lines += [f"      {line}" for line in trial.lines]
    runner_up = reason.runner_up
    if runner_up is not None and runner_up.unit is not None:
        lines.append(f"  runner-up: {runner_up.rule}, {_compared(_shape(runner_up.unit), unit)}")
    return "\n".join(lines)


def _first_line(unit: MergeShape | None, reason: Reason) -> str:
    if unit is None:
        return f"nothing to compact: {reason.text}"
    return f"{shape_text(unit)}, because {reason.rule}: {reason.text}"


def _shape(unit: CompactUnit | MergeShape) -> MergeShape:
    return unit.shape if isinstance(unit, CompactUnit) else unit


def _compared(unit: MergeShape, taken: MergeShape | None) -> str:
    """What the runner-up would have done instead of what was decided."""
    if taken is None:
        return shape_text(unit)
    if unit == taken:
        return "the same files"
    more = unit.size - taken.size
    sign = "more" if more >= 0 else "less"
    return f"{shape_text(unit)}: {quantities.size(abs(more))} {sign} than what was taken"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _few_runs(n: dict[str, Any]) -> str:
    return f"runs {n['runs']} < trigger {n['trigger']}" if n["runs"] else "no files"


def _early_full(n: dict[str, Any], trial: RuleTrial) -> str:
    if n["runs"] <= 1:
        return f"{_runs(n['runs'])}: nothing to merge"
    said = []
    if "interval_ms" in n:
        since, interval = n["since_last_full_ms"], quantities.duration(n["interval_ms"])
        if since is None:
            said.append(f"no full compaction yet, interval {interval}")
        else:
            sign = ">" if since > n["interval_ms"] else "≤"
            said.append(f"last full {quantities.duration(since)} ago {sign} interval {interval}")
    if "total_threshold" in n:
        said.append(f"total {_side(n['total'], '<', '≥', n['total_threshold'])}")
    if "incremental_threshold" in n:
        said.append(f"newer levels {_side(n['incremental'], '>', '≤', n['incremental_threshold'])}")
    return ", ".join(said)


_HOLDS: dict[str, Callable[[float, float], bool]] = {"<": operator.lt, ">": operator.gt}


def _side(count: int, sign: str, other: str, limit: int) -> str:
    """Bytes compared with a limit, with that of two opposite signs that holds."""
    holds = _HOLDS[sign]
    fires = holds(count, limit)
    left, right = quantities.compared(count, limit, lambda a, b: holds(a, b) == fires)
    return f"{left} {sign if fires else other} {right}"


def _size_amplification(n: dict[str, Any], trial: RuleTrial) -> str:
    if n["runs"] < n["trigger"] or not n["runs"]:
        return _few_runs(n)
    limit, newer, oldest = n["limit_percent"], n["newer"], n["oldest"]
    above = outweighs(newer, oldest, limit)
    left, right = quantities.compared(newer, oldest, lambda a, b: (a * 100 > limit * b) == above)
    share = "an empty oldest run"
    if oldest:
        share = f"{quantities.beside(newer * 100 / oldest, lambda s: s > limit)} %"
    return f"{left} × 100 {'>' if above else '≤'} {limit} × {right} ({share} of {limit} %)"


def _size_ratio(n: dict[str, Any], trial: RuleTrial) -> str:
    if n["runs"] < n["trigger"] or not n["runs"]:
        return _few_runs(n)
    return _taken(n, trial)


def _taken(n: dict[str, Any], trial: RuleTrial) -> str:
    """How many runs a rule took, and the comparison that ended it."""
    taken = f"{n['taken']} of {_runs(n['runs'])}"
    if trial.steps and not trial.steps[-1].taken:
        said = f"{'only ' if trial.unit is None else ''}{taken}, {trial.steps[-1].text}"
    else:
        said = f"all {_runs(n['runs'])}" if n["runs"] > 1 else "the only run"
    more = n.get("more")
    return f"{said}; {more} more {_come(more)} along, as nothing is written to level 0" if more else said


def _come(count: int) -> str:
    return "comes" if count == 1 else "come"


def _file_number(n: dict[str, Any], trial: RuleTrial) -> str:
    if n["runs"] <= n["trigger"]:
        return f"runs {n['runs']} ≤ trigger {n['trigger']}"
    return f"runs {n['runs']} > trigger {n['trigger']}: {_runs(n['initial'])} at least; {_taken(n, trial)}"


def _lift_level0(n: dict[str, Any], trial: RuleTrial) -> str:
    if not n["level0"]:
        return "level 0 is empty"
    if n.get("interval", 0) > n["level0"]:
        return f"level 0 holds {_runs(n['level0'])}, fewer than {n['interval']}"
    full = f"level 0 holds {_runs(n['level0'])}"
    return f"{full}; {_taken(n, trial)}" if "taken" in n else f"{full}: all of it to L1"


def _full(n: dict[str, Any], trial: RuleTrial) -> str:
    if n.get("must_rewrite"):
        return (
            f"{_files(n['must_rewrite'])} of the oldest level must be rewritten: rows are deleted or expired"
        )
    if trial.unit is None:
        return "no files" if not n["runs"] else f"one run at the oldest level L{n['oldest_level']} already"
    return f"asked for, {_runs(n['runs'])} to L{n['oldest_level']}"


def _level_score(n: dict[str, Any], trial: RuleTrial) -> str:
    """A level compared with its target: files of level 0, bytes of the others."""
    said = ""
    if "after" in n:
        said = f", but older rows of its keys are at L{n['after']}, which is compacted first"
    elif "before" in n:
        said = f", but it holds older rows of keys that L{n['before']} would merge, and is compacted first"
    if "trigger" in n:
        return f"{_files(n['files'])} / trigger {n['trigger']} = score {_score(n['score'])}{said}"
    due = n["score"] >= 1
    size, target = quantities.compared(n["bytes"], n["target"], lambda a, b: (a >= b) == due)
    return f"{size} / target {target} = score {_score(n['score'])}{said}"


def _score(score: float) -> str:
    return quantities.beside(score, lambda s: s >= 1, digits=2)


_WORDS: dict[str, Callable[[dict[str, Any], RuleTrial], str]] = {
    "early full": _early_full,
    "size amplification": _size_amplification,
    "size ratio": _size_ratio,
    "file number": _file_number,
    "lift level 0": _lift_level0,
    "full": _full,
}
