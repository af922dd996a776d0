"""The next compaction of each bucket with the engine's own reasons, as frozen values.

Invariants: rules stay in the order the engine tried them; every sum, every forecast and every word comes from
the engine; what is not known before the rewrite is marked as a prediction by the figure. Pure: from what
`table.compact(dry_run=True)` gives, `table.inspect.levels()` and `ts.compaction_settings`. Called by figure
and widget.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc

import tablestore as ts
from widgets.kit import format as fmt

STATES = {"fired": "✓", "no": "×", "not reached": "○", "off": "–"}
KEPT_LINES = 20


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file the next compaction would read."""

    name: str
    level: int
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class SettingsTrial:
    """One rule, what came of it, and its sum; `filled`: how much of its limit is reached, where it has
    one."""

    rule: str
    state: str
    text: str
    lines: tuple[str, ...] = ()
    filled: float | None = None


@dataclass(frozen=True, slots=True)
class PickForecast:
    """What carrying out a pick would read, only move, and write: `written` bytes in the range
    `written_ends`. `rows` are an estimate unless `exact`; `why` says how they were found. `deletes` says
    what becomes of rows that take keys away."""

    files_read: int
    read: int
    files_moved: int
    moved: int
    written: int
    written_ends: tuple[int, int]
    rows: int
    exact: bool
    why: str
    deletes: str

    @property
    def written_text(self) -> str:
        """`9.10 to 11.0 KiB`."""
        return fmt.bytes_range(self.written, *self.written_ends)


@dataclass(frozen=True, slots=True)
class BucketPick:
    """What the engine would do in one bucket, and why."""

    partition: str
    bucket: int
    rule: str
    reason: str
    output_level: int | None
    inputs: tuple[InputFile, ...]
    trials: tuple[SettingsTrial, ...]
    forecast: PickForecast | None = None

    @property
    def fires(self) -> bool:
        """Whether there is something to compact."""
        return self.output_level is not None and bool(self.inputs)

    @property
    def bytes(self) -> int:
        """The size of the files it takes."""
        return sum(file.bytes for file in self.inputs)

    @property
    def names(self) -> frozenset[str]:
        """The files it takes."""
        return frozenset(file.name for file in self.inputs) if self.fires else frozenset()

    @property
    def written(self) -> int:
        """Bytes that lie in the output level because of it, moved files included; all of them at most."""
        forecast = self.forecast
        return self.bytes if forecast is None else forecast.written + forecast.moved

    @property
    def id(self) -> str:
        """Names the bucket in traits, as the levels do."""
        return f"{self.partition}/{self.bucket}"

    @property
    def place(self) -> str:
        """`l_year=1995/l_month=6 · bucket 1`."""
        bucket = f"bucket {self.bucket}" if self.bucket >= 0 else "rows that wait for their bucket"
        return f"{self.partition} · {bucket}" if self.partition else bucket


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One sorted run of the bucket: enough for the small picture before → after. `planned`: some of its files
    are taken, `taken` bytes."""

    level: int
    bytes: int
    planned: bool
    taken: int = 0


Place = tuple[str, int, int | None]  # partition, bucket, bytes that its compaction takes (None: no work)


class Picks(Sequence[BucketPick]):
    """The picks of `buckets`, those with work first, larger first; the engine's order otherwise. What the
    engine says of one (`plan`, by its position in `buckets`) is put into words when it is looked at.
    Immutable."""

    def __init__(self, buckets: Sequence[Place] = (), plan: Callable[[int], Any] = lambda _at: None) -> None:
        order = sorted(range(len(buckets)), key=lambda at: (buckets[at][2] is None, -(buckets[at][2] or 0)))
        self._rows = [buckets[at] for at in order]
        self._planned = lambda at: plan(order[at])
        self._made: dict[int, BucketPick] = {}
        self.waiting = sum(work is not None for _, _, work in buckets)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> BucketPick: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[BucketPick, ...]: ...
    def __getitem__(self, at: int | slice) -> BucketPick | tuple[BucketPick, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(len(self))[at])
        at = range(len(self))[at]
        if at not in self._made:
            self._made[at] = _pick(self._planned(at))
        return self._made[at]

    def find(self, partition: str | None, bucket: int | None) -> int | None:
        """The position of the first pick of a partition and bucket (None: any)."""
        for at, (there, number, _) in enumerate(self._rows):
            if partition in (None, there) and bucket in (None, number):
                return at
        return None

    def to_arrow(self) -> pa.Table:
        """The bytes that each bucket's compaction takes, a row for each with work."""
        places = [pick.place for pick in self[: self.waiting]]
        taken = [work for _, _, work in self._rows[: self.waiting]]
        return pa.table({"bucket": pa.array(places, pa.string()), "bytes": pa.array(taken, pa.int64())})

    def partitions(self) -> tuple[str, ...]:
        """The partitions with something to compact, in order."""
        return tuple(dict.fromkeys(partition for partition, _, _ in self._rows[: self.waiting]))


def _work(pick: Any) -> int | None:
    """The bytes a pick would take; None if it would do nothing."""
    unit = pick.decision.unit
    return sum(int(file.file_size) for file in unit.files) if unit is not None and unit.files else None


@dataclass(frozen=True, slots=True)
class ControlsModel:
    """The panel: one pick in focus out of all, the runs of its bucket, the settings it was planned under."""

    title: str
    settings: ts.CompactionSettings | None = None
    picks: Picks = Picks()
    focus: int = -1
    runs: tuple[RunSummary, ...] = ()
    refused: str = ""
    note: str = ""
    error: str = ""
    next_step: str = ""
    busy: str = ""
    done: tuple[str, ...] = field(default=())

    @property
    def pick(self) -> BucketPick | None:
        """The pick in focus."""
        return self.picks[self.focus] if 0 <= self.focus < len(self.picks) else None

    @property
    def waiting(self) -> int:
        """How many buckets have something to compact."""
        return self.picks.waiting

    @property
    def num_levels(self) -> int:
        """Levels of the tree, as far as they are known."""
        least = max((run.level + 1 for run in self.runs), default=1)
        return max(self.settings.num_levels if self.settings else 6, least)

    @property
    def backlog(self) -> int:
        """What the triggers count: sorted runs, with leveled files of level 0."""
        leveled = self.settings is not None and self.settings.leveled
        return sum(1 for run in self.runs if run.level == 0) if leveled else len(self.runs)

    @property
    def after(self) -> tuple[RunSummary, ...]:
        """The runs once the pick has been carried out; the run that was written is the planned one."""
        pick = self.pick
        if pick is None or not pick.fires or pick.output_level is None:
            return self.runs
        left = [replace(run, bytes=run.bytes - run.taken, planned=False, taken=0) for run in self.runs]
        left = [run for run in left if run.bytes > 0]
        if not pick.written:
            return tuple(left)
        present = sum(run.bytes for run in left if run.level == pick.output_level)
        others = [run for run in left if run.level != pick.output_level]
        output = RunSummary(pick.output_level, present + pick.written, True)
        return tuple(sorted([*others, output], key=lambda run: run.level))

    def did(self, lines: tuple[str, ...]) -> "ControlsModel":
        """The panel with these lines of what was done last."""
        return replace(self, done=(*self.done, *lines)[-KEPT_LINES:])


def picks_of(result: object) -> Picks:
    """The picks of a dry run."""
    picks = list(getattr(result, "picks", ()))
    places = [(str(pick.partition or ""), int(pick.bucket), _work(pick)) for pick in picks]
    return Picks(places, picks.__getitem__)


def picks_of_health(buckets: pa.Table, planner: Any) -> Picks:
    """The picks in the buckets of `inspect.health()`; each is planned when it is looked at."""
    columns = [buckets[name].to_pylist() for name in ("partition", "bucket", "due", "due_bytes")]
    places = [(p or "", b, size if due else None) for p, b, due, size in zip(*columns, strict=True)]

    def plan(at: int) -> Any:
        partition, bucket, _ = places[at]
        scope = {"partition": partition} if partition else {}
        return planner.compact(dry_run=True, bucket=bucket, **scope).picks[0]

    return Picks(places, plan)


def _pick(pick: Any) -> BucketPick:
    decision = pick.decision
    unit, reason = decision.unit, decision.reason
    return BucketPick(
        partition=str(pick.partition or ""),
        bucket=int(pick.bucket),
        rule=str(reason.rule),
        reason=str(reason.text),
        output_level=None if unit is None else int(unit.output_level),
        inputs=() if unit is None else tuple(_input(file) for file in unit.files),
        trials=tuple(_trial(trial) for trial in reason.trials),
        forecast=_forecast(getattr(pick, "forecast", None)),
    )


def _input(file: Any) -> InputFile:
    return InputFile(str(file.file_name), int(file.level), int(file.file_size), int(file.row_count))


def _trial(trial: Any) -> SettingsTrial:
    state = str(trial.state)
    lines = tuple(str(row) for row in trial.lines)
    text, numbers = str(trial.text), dict(getattr(trial, "numbers", ()))
    return SettingsTrial(str(trial.rule), state if state in STATES else "no", text, lines, _filled(numbers))


def _filled(numbers: dict[str, float]) -> float | None:
    """How much of a rule's limit is reached, by the terms of its sum."""
    if numbers.get("oldest"):
        return numbers["newer"] * 100 / numbers["oldest"] / max(numbers["limit_percent"], 1)
    return numbers.get("score")


def _forecast(forecast: Any) -> PickForecast | None:
    if forecast is None:
        return None
    output = forecast.output
    return PickForecast(
        forecast.files_read,
        forecast.bytes_read,
        forecast.files_moved,
        forecast.bytes_moved,
        output.bytes,
        (output.bytes_min, output.bytes_max),
        output.rows,
        output.exact,
        output.why,
        forecast.deletes_text,
    )


def runs_of(files: pa.Table, pick: BucketPick | None) -> tuple[RunSummary, ...]:
    """The sorted runs of the pick's bucket, newest first."""
    if pick is None or not files.num_rows:
        return ()
    here = pc.and_(pc.equal(files["partition"], pick.partition), pc.equal(files["bucket"], pick.bucket))
    names = pa.array(sorted(pick.names), pa.string())
    some = files.filter(here).select(["run", "level", "bytes", "file_name"])
    taken = pc.if_else(pc.is_in(some["file_name"], value_set=names), some["bytes"], 0)
    sums = some.append_column("taken", taken).group_by("run")
    runs = sums.aggregate([("level", "min"), ("bytes", "sum"), ("taken", "sum")]).sort_by("run")
    return tuple(
        RunSummary(row["level_min"], row["bytes_sum"], row["taken_sum"] > 0, row["taken_sum"])
        for row in runs.to_pylist()
    )


def focus_on(picks: Picks, partition: str | None, bucket: int | None) -> int:
    """The position of the wanted bucket's pick, else the first one."""
    at = picks.find(partition, bucket)
    return at if at is not None else 0 if picks else -1


def text_form(model: ControlsModel) -> str:
    """The panel in a terminal: `next: size ratio, 5 runs → L3, 118 → 98 to 118 MiB`, then rules."""
    pick = model.pick
    if pick is None:
        why = model.refused or "nothing to plan"
        return f"{model.title}  next compaction: {why}".strip()
    head = [model.title, pick.place]
    if pick.fires:
        head.append(f"next: {pick.rule}, {_taken(model, pick)} → L{pick.output_level}, {_bytes(pick)}")
    else:
        head.append(f"next: nothing, {pick.reason}")
    rows = ["  ".join(part for part in head if part)]
    for trial in pick.trials:
        rows.append(f"  {STATES[trial.state]} {trial.rule:<20} {trial.text}".rstrip())
        rows += [f"      {line}" for line in trial.lines if trial.state in ("fired", "no")]
    if pick.forecast is not None and pick.forecast.deletes:
        rows.append(f"  {pick.forecast.deletes}")
    rows += [f"  {row}" for row in model.done]
    return "\n".join(rows + ([f"error: {model.error}"] if model.error else []))


def _taken(model: ControlsModel, pick: BucketPick) -> str:
    runs = sum(1 for run in model.runs if run.planned)
    return fmt.plural(runs, "run") if runs else fmt.plural(len(pick.inputs), "file")


def _bytes(pick: BucketPick) -> str:
    forecast = pick.forecast
    if forecast is None:
        return f"reads {fmt.bytes_text(pick.bytes)}"
    parts = [f"{fmt.bytes_text(forecast.read)} → {forecast.written_text}"] if forecast.files_read else []
    parts += [f"moves {fmt.bytes_text(forecast.moved)}"] if forecast.files_moved else []
    return ", ".join(parts)
