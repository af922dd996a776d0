"""Records of compactions: made of a decision and its result, turned into an explanation again, and the write
stalls that they show.

A writer that finds more than `num-sorted-run.stop-trigger` runs compacts before it flushes again; the records
of those compactions are marked. Pure. Called by writers and compaction tasks; `inspect.compactions()` shows
the `explanation`, commits and the doctor report stalls.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from tablestore.core import quantities
from tablestore.format.compaction_record import CompactionRecord, MergeShape, Trial, counts_of
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.lsm.compaction.decision import (
    CompactUnit,
    Decision,
    OverlapStep,
    RatioStep,
    Reason,
    RuleTrial,
    State,
    explained,
    shape_text,
)

APPEND, POSTPONED = "append", "postponed"
FULL = "full"
_STEPS: dict[str, type[RatioStep] | type[OverlapStep]] = {"ratio": RatioStep, "overlap": OverlapStep}


def planned(
    decision: Decision, *, strategy: str, bucket: int, live: int = 0, stalled: bool = False
) -> CompactionRecord:
    """The record of a decision that is not yet carried out; `completed` adds its result.

    `live`: the number of files that the bucket has now, by which a full compaction is recognised.
    """
    assert decision.unit is not None, "only decisions that are carried out are recorded"
    shape = decision.unit.shape
    return CompactionRecord(
        bucket=bucket,
        strategy=strategy,
        rule=decision.reason.rule,
        text=decision.reason.text,
        output_level=shape.output_level,
        inputs=shape.inputs,
        **counts_of((), ()),
        stalled=stalled,
        full=decision.rule == FULL or (shape.files == live and not decision.unit.parts),
        asked=decision.rule == FULL,
        trials=kept_trials(decision.reason),
    )


def completed(
    record: CompactionRecord,
    *,
    before: Sequence[DataFileMeta],
    after: Sequence[DataFileMeta],
    changelog: Sequence[DataFileMeta] = (),
    millis: int | None = None,
) -> CompactionRecord:
    """The record with the result: `before` was replaced by `after`; a moved file is in both."""
    return replace(record, **counts_of(before, after, changelog), millis=millis)


def unit_text(record: CompactionRecord) -> str:
    """The input and output level as `L0×5 + L5 → L5, 6 files 88.0 MiB`."""
    return shape_text(record.shape)


def log_text(record: CompactionRecord) -> str:
    """`L0×5 + L5 → L5, 6 files 88.0 MiB, because size ratio: …`."""
    return f"{unit_text(record)}, because {record.rule}: {record.text}"


def explanation(record: CompactionRecord) -> str:
    """The text that `Decision.explain` gave for the recorded decision."""
    try:
        if record.rule is None:
            return _of_another(record)
        trials = tuple(_tried(t, record.shape) for t in record.trials)
        return explained(record.shape, Reason(record.rule, record.text, trials))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        short = explained(record.shape, Reason(record.rule or "another engine", record.text))
        return f"{short}\n  (this version does not know the recorded rules)"


def _of_another(record: CompactionRecord) -> str:
    """What another engine did, and what our rules say of the same files, if that is known."""
    lines = [f"{unit_text(record)}, by another engine, which records no reasons"]
    lines += [f"  {part}" for part in record.text.split("; ", 1) if part]
    for kept in record.trials:
        trial = RuleTrial(kept.rule, cast(State, kept.state), kept.numbers, _steps_of(kept), kept.unit)
        lines.append(f"    {trial.sign} {trial.rule}: {trial.text}")
        lines += [f"        {line}" for line in trial.lines]
    return "\n".join(lines)


def kept_trials(reason: Reason, *, carried_out: bool = True) -> tuple[Trial, ...]:
    """All trials in the form of records; the unit of the one that fired is left out where it was carried out,
    as the record has it already."""
    return tuple(_kept(t, whole=not carried_out) for t in reason.trials)


def _kept(trial: RuleTrial, *, whole: bool) -> Trial:
    unit = trial.unit.shape if isinstance(trial.unit, CompactUnit) else trial.unit
    if trial.state == "fired" and not whole:
        unit = None
    return Trial(trial.rule, trial.state, trial.numbers, tuple(_kept_step(s) for s in trial.steps), unit)


def _kept_step(step: RatioStep | OverlapStep) -> tuple[Any, ...]:
    kind = next(name for name, step_type in _STEPS.items() if isinstance(step, step_type))
    return (kind, *(getattr(step, name) for name in type(step).__dataclass_fields__))


def _tried(trial: Trial, carried_out: MergeShape) -> RuleTrial:
    unit = carried_out if trial.state == "fired" else trial.unit
    return RuleTrial(trial.rule, cast(State, trial.state), trial.numbers, _steps_of(trial), unit)


def _steps_of(trial: Trial) -> tuple[RatioStep | OverlapStep, ...]:
    return tuple(_STEPS[kind](*values) for kind, *values in trial.steps)


@dataclass(frozen=True, slots=True)
class Stall:
    """One bucket whose writer waited: how often, how long, and the maximum of runs (leveled: files of level
    0); `reason` is that of the longest of these compactions."""

    partition: str
    bucket: int
    waits: int
    millis: int
    runs: int
    bytes_read: int
    reason: str

    @property
    def text(self) -> str:
        """`dt=1/bucket-0 waited 2 times, 1.4 s, at 9 runs (file number: …)`."""
        where = "/".join(t for t in (self.partition, f"bucket-{self.bucket}") if t)
        times = "once" if self.waits == 1 else f"{self.waits:,} times"
        took = quantities.duration(self.millis)
        return f"{where} waited {times}, {took}, at {self.runs:,} runs ({self.reason})"

    def __repr__(self) -> str:
        return f"Stall({self.text})"


def backlog(record: CompactionRecord) -> int:
    """The backlog that started a compaction, by the numbers of its rules; else what it took."""
    gathered = [int(n) for t in record.trials for name, n in t.numbers if name in ("runs", "files") and n]
    level0 = sum(i.files for i in record.inputs if i.level == 0)
    return max([*gathered, level0 + sum(i.level > 0 for i in record.inputs)])


def of(records: Iterable[CompactionRecord]) -> tuple[Stall, ...]:
    """The stalls among these compactions, the bucket that waited longest first."""
    places: dict[tuple[str, int], list[CompactionRecord]] = {}
    for r in records:
        if r.stalled:
            places.setdefault((r.partition, r.bucket), []).append(r)
    stalls = []
    for (partition, bucket), some in places.items():
        longest = max(some, key=lambda r: r.millis or 0)
        stalls.append(
            Stall(
                partition,
                bucket,
                len(some),
                sum(r.millis or 0 for r in some),
                max(map(backlog, some)),
                sum(r.bytes_read for r in some),
                f"{longest.rule}: {longest.text}",
            )
        )
    return tuple(sorted(stalls, key=lambda s: -s.millis))


def summary(stalls: Iterable[Stall]) -> str:
    """One line for a log: `2 buckets waited 5 times, 3.2 s; dt=1/bucket-0 waited …`."""
    some = tuple(stalls)
    waits, millis = sum(s.waits for s in some), sum(s.millis for s in some)
    many = "1 bucket" if len(some) == 1 else f"{len(some):,} buckets"
    times = "once" if waits == 1 else f"{waits:,} times"
    return f"{many} waited {times} for compaction, {quantities.duration(millis)}; longest: {some[0].text}"
