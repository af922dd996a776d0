"""A compaction that was carried out, as the record that is kept of it, and its explanation from the record.

Pure. Made by writers and compaction tasks; `explanation` is what `inspect.compactions()` shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from tablestore.format.compaction_record import CompactionRecord, Shape, Trial, counts_of
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


def record_of(
    decision: Decision,
    *,
    strategy: str,
    bucket: int,
    before: Sequence[DataFileMeta],
    after: Sequence[DataFileMeta],
    changelog: Sequence[DataFileMeta] = (),
    live: int = 0,
    millis: int | None = None,
    stalled: bool = False,
) -> CompactionRecord:
    """The record of `decision`, which took `before` away and put `after` in; a moved file is in both.

    `live`: files of the bucket when it was made, of which a full compaction takes all.
    """
    assert decision.unit is not None, "only what was carried out is kept"
    shape = decision.unit.shape
    return CompactionRecord(
        bucket=bucket,
        strategy=strategy,
        rule=decision.reason.rule,
        text=decision.reason.text,
        output_level=shape.output_level,
        inputs=shape.inputs,
        **counts_of(before, after, changelog),
        millis=millis,
        stalled=stalled,
        full=decision.rule == FULL or (shape.files == live and not decision.unit.parts),
        asked=decision.rule == FULL,
        trials=kept_trials(decision.reason),
    )


def planned(
    decision: Decision, *, strategy: str, bucket: int, live: int = 0, stalled: bool = False
) -> CompactionRecord:
    """The record of a decision that is still to be carried out; `completed` adds what came of it."""
    return record_of(
        decision, strategy=strategy, bucket=bucket, live=live, stalled=stalled, before=(), after=()
    )


def completed(
    record: CompactionRecord,
    *,
    before: Sequence[DataFileMeta],
    after: Sequence[DataFileMeta],
    changelog: Sequence[DataFileMeta] = (),
    millis: int | None,
) -> CompactionRecord:
    """The record with what came of it."""
    return replace(record, **counts_of(before, after, changelog), millis=millis)


def unit_text(record: CompactionRecord) -> str:
    """`L0×5 + L5 → L5, 6 files 88.0 MiB` of what went in."""
    return shape_text(record.shape)


def log_text(record: CompactionRecord) -> str:
    """`L0×5 + L5 → L5, 6 files 88.0 MiB, because size ratio: …`."""
    return f"{unit_text(record)}, because {record.rule}: {record.text}"


def explanation(record: CompactionRecord) -> str:
    """The decision and the trial of every rule, as `Decision.explain` gave them then."""
    try:
        if record.rule is None:
            return _of_another(record)
        trials = tuple(_tried(t, record.shape) for t in record.trials)
        return explained(record.shape, Reason(record.rule, record.text, trials))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        short = explained(record.shape, Reason(record.rule or "another engine", record.text))
        return f"{short}\n  (this version does not know the rules that were tried then)"


def _of_another(record: CompactionRecord) -> str:
    """What another engine did, and what our rules say of the files that lay there, if that is known."""
    lines = [f"{unit_text(record)}, by another engine, which keeps no reasons"]
    lines += [f"  {part}" for part in record.text.split("; ", 1) if part]
    for kept in record.trials:
        trial = RuleTrial(kept.rule, cast(State, kept.state), kept.numbers, _steps_of(kept), kept.unit)
        lines.append(f"    {trial.sign} {trial.rule}: {trial.text}")
        lines += [f"        {line}" for line in trial.lines]
    return "\n".join(lines)


def kept_trials(reason: Reason, *, carried_out: bool = True) -> tuple[Trial, ...]:
    """All trials as they are kept; what the one that fired would take is left out where it was carried out,
    as the record has it."""
    return tuple(_kept(t, whole=not carried_out) for t in reason.trials)


def _kept(trial: RuleTrial, *, whole: bool) -> Trial:
    unit = trial.unit.shape if isinstance(trial.unit, CompactUnit) else trial.unit
    if trial.state == "fired" and not whole:
        unit = None
    return Trial(trial.rule, trial.state, trial.numbers, tuple(_kept_step(s) for s in trial.steps), unit)


def _kept_step(step: RatioStep | OverlapStep) -> tuple[Any, ...]:
    kind = next(name for name, known in _STEPS.items() if isinstance(step, known))
    return (kind, *(getattr(step, name) for name in type(step).__dataclass_fields__))


def _tried(trial: Trial, carried_out: Shape) -> RuleTrial:
    unit = carried_out if trial.state == "fired" else trial.unit
    return RuleTrial(trial.rule, cast(State, trial.state), trial.numbers, _steps_of(trial), unit)


def _steps_of(trial: Trial) -> tuple[RatioStep | OverlapStep, ...]:
    return tuple(_STEPS[kind](*values) for kind, *values in trial.steps)
