"""The next compaction of each bucket with the engine's own reasons, as frozen values.

Invariants: rules stay in the order the engine tried them; every sum and every word comes from the engine;
what is not known before the rewrite (its size) is marked as a prediction by the figure. Pure: from the
object `table.compact(dry_run=True)` returns and `table.inspect.levels()`. Called by figure and widget.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from widgets import _format as fmt
from widgets.levels.model import Plan, in_bucket

STATES = {"fired": "✓", "no": "×", "not reached": "○", "off": "–"}


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file the next compaction would read."""

    name: str
    level: int
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Trial:
    """One rule, what came of it, and its sum."""

    rule: str
    state: str
    text: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pick:
    """What the engine would do in one bucket, and why."""

    partition: str
    bucket: int
    rule: str
    reason: str
    output_level: int | None
    inputs: tuple[InputFile, ...]
    trials: tuple[Trial, ...]

    @property
    def fires(self) -> bool:
        """Whether there is something to compact."""
        return self.output_level is not None and bool(self.inputs)

    @property
    def bytes(self) -> int:
        """The size of the files it reads."""
        return sum(file.bytes for file in self.inputs)

    @property
    def rows(self) -> int:
        """The rows of the files it reads."""
        return sum(file.rows for file in self.inputs)

    @property
    def plan(self) -> Plan:
        """The inputs and the output level, as the levels picture outlines them."""
        return Plan(frozenset(file.name for file in self.inputs), self.output_level) if self.fires else Plan()

    @property
    def id(self) -> str:
        """Names the bucket in traits, as the levels do."""
        return f"{self.partition}/{self.bucket}"

    @property
    def place(self) -> str:
        """`l_year=1995/l_month=6 · bucket 1`."""
        return f"{self.partition} · bucket {self.bucket}" if self.partition else f"bucket {self.bucket}"


@dataclass(frozen=True, slots=True)
class Triggers:
    """The three options the universal rules turn on, and where writers stop to wait."""

    runs: int = 5
    ratio: int = 1
    amplification: int = 200
    stop: int = 8


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One sorted run of the bucket: enough for the small picture before → after."""

    level: int
    bytes: int
    planned: bool


@dataclass(frozen=True, slots=True)
class ControlsModel:
    """The panel: one pick in focus out of all, and the runs of its bucket."""

    title: str
    picks: tuple[Pick, ...]
    focus: int
    triggers: Triggers
    num_levels: int
    runs: tuple[RunSummary, ...] = ()
    note: str = ""
    error: str = ""
    next_step: str = ""
    busy: str = ""
    done: tuple[str, ...] = field(default=())

    @property
    def pick(self) -> Pick | None:
        """The pick in focus."""
        return self.picks[self.focus] if 0 <= self.focus < len(self.picks) else None

    @property
    def waiting(self) -> int:
        """How many buckets have something to compact."""
        return sum(1 for pick in self.picks if pick.fires)

    @property
    def after(self) -> tuple[RunSummary, ...]:
        """The runs once the pick has been carried out; the new run is the planned one."""
        pick = self.pick
        if pick is None or not pick.fires or pick.output_level is None:
            return self.runs
        kept = [run for run in self.runs if not run.planned]
        return tuple(
            sorted([*kept, RunSummary(pick.output_level, pick.bytes, True)], key=lambda run: run.level)
        )


def picks_of(result: object) -> tuple[Pick, ...]:
    """The picks of a dry run, those with work first, larger first; the engine's order otherwise."""
    picks = [_pick(pick) for pick in getattr(result, "picks", ())]
    return tuple(sorted(picks, key=lambda pick: (not pick.fires, -pick.bytes)))


def _pick(pick: object) -> Pick:
    decision = pick.decision  # type: ignore[attr-defined]
    unit, reason = decision.unit, decision.reason
    return Pick(
        partition=str(pick.partition or ""),  # type: ignore[attr-defined]
        bucket=int(pick.bucket),  # type: ignore[attr-defined]
        rule=str(reason.rule),
        reason=str(reason.text),
        output_level=None if unit is None else int(unit.output_level),
        inputs=() if unit is None else tuple(_input(file) for file in unit.files),
        trials=tuple(_trial(trial) for trial in reason.trials),
    )


def _input(file: object) -> InputFile:
    name, level = str(file.file_name), int(file.level)  # type: ignore[attr-defined]
    return InputFile(name, level, int(file.file_size), int(file.row_count))  # type: ignore[attr-defined]


def _trial(trial: object) -> Trial:
    state = str(trial.state)  # type: ignore[attr-defined]
    lines = tuple(str(row) for row in trial.lines)  # type: ignore[attr-defined]
    return Trial(str(trial.rule), state if state in STATES else "no", str(trial.text), lines)  # type: ignore[attr-defined]


def runs_of(files: pa.Table, pick: Pick | None) -> tuple[RunSummary, ...]:
    """The sorted runs of the pick's bucket, newest first."""
    if pick is None or not files.num_rows:
        return ()
    planned = pick.plan.inputs
    runs: dict[int, list[tuple[int, int, bool]]] = {}
    for row in (
        in_bucket(files, pick.partition, pick.bucket)
        .select(["run", "level", "bytes", "file_name"])
        .to_pylist()
    ):
        runs.setdefault(row["run"], []).append((row["level"], row["bytes"], row["file_name"] in planned))
    return tuple(
        RunSummary(members[0][0], sum(size for _, size, _ in members), any(taken for *_, taken in members))
        for _, members in sorted(runs.items())
    )


def triggers_of(options: Mapping[str, object]) -> Triggers:
    """The triggers by their option keys; an absent key means what the table format's default means."""
    runs = int(str(options.get("num-sorted-run.compaction-trigger", 5)))
    return Triggers(
        runs=runs,
        ratio=int(str(options.get("compaction.size-ratio", 1))),
        amplification=int(str(options.get("compaction.max-size-amplification-percent", 200))),
        stop=int(str(options.get("num-sorted-run.stop-trigger", runs + 3))),
    )


def focus_on(picks: tuple[Pick, ...], partition: str | None, bucket: int | None) -> int:
    """The position of the wanted bucket's pick, else the first one."""
    for at, pick in enumerate(picks):
        if (partition is None or pick.partition == partition) and (bucket is None or pick.bucket == bucket):
            return at
    return 0 if picks else -1


def text_form(model: ControlsModel) -> str:
    """The panel in a terminal: `next: size ratio, 5 runs → L3, reads 118 MiB`, then the rules."""
    pick = model.pick
    if pick is None:
        return f"{model.title}  next compaction: nothing to plan".strip()
    inputs = sum(1 for run in model.runs if run.planned)
    head = [model.title, pick.place]
    if pick.fires:
        took = fmt.plural(inputs, "run") if inputs else fmt.plural(len(pick.inputs), "file")
        head.append(f"next: {pick.rule}, {took} → L{pick.output_level}, reads {fmt.bytes_text(pick.bytes)}")
    else:
        head.append(f"next: nothing, {pick.reason}")
    rows = ["  ".join(part for part in head if part)]
    for trial in pick.trials:
        rows.append(f"  {STATES[trial.state]} {trial.rule:<20} {trial.text}".rstrip())
        rows += [f"      {line}" for line in trial.lines if trial.state in ("fired", "no")]
    rows += [f"  {row}" for row in model.done]
    return "\n".join(rows + ([f"error: {model.error}"] if model.error else []))
