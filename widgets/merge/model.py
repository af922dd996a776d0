"""A window of keys as a merge takes it: runs newest first, one step a key, and what came of each.

Invariants: who won, what came out and why are the engine's (`inspect.merging`, `ts.merging`); here values
become texts and rows find their places. Bounded: at most 10 keys, `MAX_RUNS` runs and 160 characters
a value. Pure: from the Arrow tables of a `MergingRows`. Called by the figures and by the widget.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from widgets.kit import format as fmt

KEYS, MAX_RUNS = 10, 12
COMPUTING = ("partial-update", "aggregation")
MARKS = {"kept": "*", "added": "+", "taken back": "−"}
SIGNS = {"+I": "+I", "-U": "−U", "+U": "+U", "-D": "−D"}


class MergingRows(Protocol):
    """What the engine gives for a merge: see `tablestore`'s `inspect.merging`."""

    @property
    def engine(self) -> str: ...
    @property
    def primary_key(self) -> tuple[str, ...]: ...
    @property
    def runs(self) -> pa.Table: ...
    @property
    def inputs(self) -> pa.Table: ...
    @property
    def input_rows(self) -> pa.Table: ...
    @property
    def cells(self) -> pa.Table: ...
    @property
    def outputs(self) -> pa.Table: ...
    @property
    def output_rows(self) -> pa.Table: ...
    @property
    def columns(self) -> pa.Table: ...
    @property
    def groups(self) -> tuple[tuple[str, tuple[str, ...]], ...]: ...
    @property
    def functions(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def output(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RunRow:
    """One sorted run: a row of the picture. `number` is its place among all runs, newest 0."""

    number: int
    name: str
    level: int
    rows: int


@dataclass(frozen=True, slots=True)
class RunInput:
    """A row that one run has of a key. `parts`: what it was to each column; `part`: to the whole."""

    run: int
    sequence: int
    kind: str
    part: str
    values: Mapping[str, str | None]
    parts: Mapping[str, str]

    @property
    def retracts(self) -> bool:
        """Whether it takes something away."""
        return self.kind in ("−U", "−D")


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """Where an output value is from: a run, none (`how` = null), or several (computed)."""

    run: int | None
    how: str
    why: str


@dataclass(frozen=True, slots=True)
class KeyStep:
    """The merge of one key."""

    key: str
    inputs: Mapping[int, RunInput]
    fate: str
    kind: str
    sequence: int | None
    run: int | None
    why: str
    values: Mapping[str, str | None]
    origins: Mapping[str, ValueOrigin]

    @property
    def there(self) -> bool:
        """Whether the key has a row afterwards."""
        return self.fate == "kept" and self.kind not in ("−U", "−D")


@dataclass(frozen=True, slots=True)
class MergeModel:
    """A window of a merge."""

    engine: str = "deduplicate"
    key_names: tuple[str, ...] = ()
    runs: tuple[RunRow, ...] = ()
    hidden_runs: int = 0
    """Runs that are not drawn where there are too many: those without a row here, those that won none."""
    steps: tuple[KeyStep, ...] = ()
    columns: tuple[str, ...] = ()
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    functions: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    place: str = ""
    unread: str = ""
    """Why scans do not see the rows of level 0 yet; empty where they do."""
    absent: str = ""
    """Why there is nothing to merge, where the bucket has no files in this snapshot."""
    more: bool = False
    num_levels: int = 6
    events: bool = False
    """Whether runs are single rows fed one by one: then a step is an event, not a key."""

    def waits(self, run: RunRow) -> bool:
        """Whether scans do not see the run's rows before a compaction."""
        return bool(self.unread) and run.level == 0

    @property
    def unseen(self) -> str:
        """What the picture shows that scans do not, in a sentence; empty if nothing."""
        texts = f"Scans do not see level 0 yet: {self.unread}. The output is what a compaction makes of it."
        return texts if any(map(self.waits, self.runs)) else ""

    @property
    def computes(self) -> bool:
        """Whether the engine makes rows column by column."""
        return self.engine in COMPUTING

    def name_of(self, run: int | None) -> str:
        """The run as an output cell calls it: `#412` or `L3`."""
        if run is None:
            return ""
        name = next((row.name for row in self.runs if row.number == run), "")
        return name.removeprefix("L0 ")

    def level_of(self, run: int) -> int:
        """The level of a run."""
        return next((row.level for row in self.runs if row.number == run), 0)

    def group_of(self, column: str) -> str:
        """The sequence columns of the group a column is in, empty without one."""
        return next((names for names, guarded in self.groups if column in (*names.split(", "), *guarded)), "")


def merge_model(merging: MergingRows) -> MergeModel:
    """The model of a merge; its first `KEYS` keys."""
    keys = merging.primary_key
    columns = tuple(n for n in merging.input_rows.column_names if n not in keys)
    keys = _beside_partition(merging, keys)
    steps = tuple(_steps(merging, keys, columns))
    everyone = [RunRow(r["run"], r["name"], r["level"], r["rows"]) for r in merging.runs.to_pylist()]
    shown = _drawn(everyone, steps)
    place = getattr(merging, "place", None)
    oldest = max((row.level for row in everyone), default=0)
    return MergeModel(
        engine=merging.engine,
        key_names=keys,
        runs=tuple(shown),
        hidden_runs=len(everyone) - len(shown),
        steps=steps,
        columns=columns,
        groups=merging.groups,
        functions=dict(merging.functions),
        output=merging.output,
        place=_place(getattr(place, "partition", ""), getattr(place, "bucket", None)),
        unread=getattr(place, "unread", ""),
        more=bool(getattr(place, "more", False)),
        num_levels=max(oldest + 1, 6),
        events=getattr(merging, "by_event", False),
    )


def _drawn(runs: Sequence[RunRow], steps: Sequence[KeyStep]) -> list[RunRow]:
    """All runs, or the `MAX_RUNS` that matter most here: the ones that won something, then the newest."""
    if len(runs) <= MAX_RUNS:
        return list(runs)
    entry = [row for step in steps for row in step.inputs.values()]
    winners = {row.run for row in entry if row.part in ("kept", "added", "taken back")}
    by_weight = sorted(runs, key=lambda run: (run.number not in winners, not run.rows, run.number))
    return sorted(by_weight[:MAX_RUNS], key=lambda run: run.number)


def _place(partition: str, bucket: int | None) -> str:
    if bucket is None:
        return ""
    return f"{partition} · bucket {bucket}" if partition else f"bucket {bucket}"


def _beside_partition(merging: MergingRows, keys: Sequence[str]) -> tuple[str, ...]:
    """The key columns without those of the partition, which is in the title and the same in every row."""
    partition = getattr(getattr(merging, "place", None), "partition", "") or ""
    named = {part.partition("=")[0] for part in partition.split("/")}
    constant = {key for key in keys if key in named and len(merging.input_rows[key].unique()) == 1}
    return tuple(key for key in keys if key not in constant) or tuple(keys)


def _steps(merging: MergingRows, keys: Sequence[str], columns: Sequence[str]) -> list[KeyStep]:
    inputs, values = merging.inputs.to_pylist(), merging.input_rows.to_pylist()
    parts: dict[int, dict[str, str]] = {}
    for cell in merging.cells.to_pylist():
        parts.setdefault(cell["input"], {})[cell["column"]] = cell["part"]
    rows: dict[int, dict[int, RunInput]] = {}
    names: dict[int, str] = {}
    for at, (row, entry) in enumerate(zip(inputs, values, strict=True)):
        names.setdefault(row["step"], ", ".join(fmt.value(entry[k]) or "null" for k in keys))
        rows.setdefault(row["step"], {})[row["run"]] = RunInput(
            row["run"],
            row["sequence"],
            SIGNS[row["row_kind"]],
            row["part"],
            {c: fmt.value(entry[c]) for c in columns},
            parts.get(at, {}),
        )
    origins: dict[int, dict[str, ValueOrigin]] = {}
    for row in merging.columns.to_pylist():
        origins.setdefault(row["step"], {})[row["column"]] = ValueOrigin(row["run"], row["how"], row["why"])
    steps = []
    for out, entry in zip(merging.outputs.to_pylist()[:KEYS], merging.output_rows.to_pylist(), strict=False):
        number = out["step"]
        steps.append(
            KeyStep(
                names.get(number, ""),
                rows.get(number, {}),
                out["fate"],
                SIGNS.get(out["row_kind"], ""),
                out["sequence"],
                out["run"],
                out["why"],
                {c: fmt.value(entry[c]) for c in columns},
                origins.get(number, {}),
            )
        )
    return steps


def text_form(model: MergeModel, shown: Sequence[str], cursor: int, *, mode: str = "keys") -> str:
    """The merge in a terminal: a line a run, the output, why; keys across, or columns of one key."""
    place = f"  {model.place}" if model.place else ""
    head = f"Merge · {model.engine}{place}"
    if not model.steps:
        return f"{head}\n{model.absent or 'No keys here.'}"
    if mode == "columns" and shown:
        return _text_table(head, _column_lines(model, shown, cursor), model, cursor)
    column = shown[0] if shown else ""
    lines = [[", ".join(model.key_names), *(step.key for step in model.steps)]]
    for run in model.runs:
        rows = [step.inputs.get(run.number) for step in model.steps]
        lines.append([run.name, *(_in_text(row, column, at <= cursor) for at, row in enumerate(rows))])
    outs = (_out_text(step, column) if at <= cursor else "" for at, step in enumerate(model.steps))
    lines.append([f"out {model.output}".strip(), *outs])
    return _text_table(head + (f" · {column}" if column else ""), lines, model, cursor)


def _column_lines(model: MergeModel, shown: Sequence[str], cursor: int) -> list[list[str]]:
    """A line a run for one key, the output last: each value with its mark, or the run it is from."""
    step = model.steps[max(cursor, 0)]
    lines = [[f"{', '.join(model.key_names)} {step.key}", *shown]]
    for run in model.runs:
        entry = step.inputs.get(run.number)
        name = f"{run.name} {entry.kind}" if entry is not None and entry.retracts else run.name
        lines.append([name, *(_in_text(entry, c, cursor >= 0, whole=False) for c in shown)])
    cells = [f"{_out_text(step, c)} {model.name_of(step.origins[c].run)}".rstrip() for c in shown]
    lines.append([f"out {model.output}".strip(), *(cells if cursor >= 0 else [""] * len(shown))])
    return lines


def _text_table(head: str, lines: list[list[str]], model: MergeModel, cursor: int) -> str:
    """Lines in columns under a heading, the last one under a rule, then why."""
    lines = [[cell if len(cell) <= 14 else f"{cell[:13]}…" for cell in row] for row in lines]
    wide = [max(len(row[at]) for row in lines) for at in range(len(lines[0]))]
    table = ["  ".join(cell.ljust(w) for cell, w in zip(row, wide, strict=True)).rstrip() for row in lines]
    table.insert(len(table) - 1, "─" * len(max(table, key=len)))
    steps = model.steps[cursor : cursor + 1] if cursor >= 0 else ()
    texts = [f"key {step.key}: {step.why}" for step in steps]
    texts += [model.unseen] if model.unseen else []
    return "\n".join([head, *table, *texts])


def _in_text(entry: RunInput | None, column: str, done: bool, *, whole: bool = True) -> str:
    """A row of a run, once merged with the mark of its part; of `whole` rows that take away the kind."""
    if entry is None:
        return "·"
    taken = whole and entry.retracts
    value = entry.kind if taken else (entry.values.get(column) or "null") if column else "row"
    mark = MARKS.get(entry.parts.get(column, entry.part), "") if done else ""
    return f"{value}{mark}"


def _out_text(step: KeyStep, column: str) -> str:
    if step.fate != "kept":
        return step.fate
    return step.kind if not step.there else (step.values.get(column) or "null") if column else "row"
