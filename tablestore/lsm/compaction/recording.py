"""Records of compactions: made of a decision and its result, and turned into an explanation again.

Pure. Called by writers and compaction tasks; `inspect.compactions()` shows the `explanation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

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
