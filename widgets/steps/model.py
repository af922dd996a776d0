"""What happened, step by step: who did what to the store, which snapshots came of it, what can be said then.

Invariants: steps are in the order they happened, one at a time; a step belongs to one lane; a track has one
value a step. Frozen and pure. Made by whoever steps real committers (the course does), drawn by the figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

LETTERS = {
    "read": "R",
    "data": "D",
    "manifest": "M",
    "publish": "P",
    "hint": "H",
    "clean": "C",
    "wait": "W",
    "end": "",
}
NAMES = {
    "read": "reads",
    "data": "writes data",
    "manifest": "writes metadata",
    "publish": "publishes",
    "hint": "moves a hint",
    "clean": "removes",
    "wait": "waits",
}
DONE, LOST, REFUSED, KILLED = "done", "lost", "refused", "killed"
SIGNS = {DONE: "", LOST: "×", REFUSED: "✕", KILLED: "✕"}


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One step. `state`: done, lost (the name was taken), refused, killed."""

    lane: int
    kind: str
    title: str
    detail: str = ""
    state: str = DONE
    commit: str = ""
    """The kind of the snapshot that this step published: APPEND, COMPACT, …"""
    snapshot: int | None = None
    """The newest snapshot of the table after the step."""
    mark: str = ""
    """What the box shows where there is room, else the letter of the kind."""
    against: int | None = None
    """The snapshot that the commit conflicted with."""
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def letter(self) -> str:
        """One letter for the kind."""
        return LETTERS.get(self.kind, "") or SIGNS.get(self.state, "")


@dataclass(frozen=True, slots=True)
class Track:
    """Something known at every step: numbers as bars, texts as plateaus."""

    label: str
    values: tuple[float | str, ...]
    unit: str = ""

    @property
    def numeric(self) -> bool:
        """Whether the values are bars."""
        return all(isinstance(value, int | float) for value in self.values)


@dataclass(frozen=True, slots=True)
class StepsModel:
    """A whole story: its lanes, its steps, and the snapshot before the first."""

    title: str
    subtitle: str
    lanes: tuple[str, ...]
    steps: tuple[StoryStep, ...]
    before: int | None = None
    tracks: tuple[Track, ...] = ()
    room: int = 0
    """Columns to keep for steps that are still to come, so that those there are do not move."""
    code: str = ""
    """The Python that made it happen; `{index}` stands for the chosen step."""
    fatal: bool = False
    """Whether the chosen step is where everything ended: it did not happen, nor did those after it."""

    def __post_init__(self) -> None:
        for track in self.tracks:
            assert len(track.values) == len(self.steps), "a track has one value a step"

    def snapshot(self, index: int) -> int | None:
        """The newest snapshot after the step at `index`."""
        return self.steps[index].snapshot if 0 <= index < len(self.steps) else self.before

    def state(self, index: int, chosen: int) -> str:
        """The state of the step at `index` while the one at `chosen` is looked at."""
        step = self.steps[index]
        return KILLED if self.fatal and index == chosen and step.kind != "end" else step.state

    def published(self) -> list[tuple[int, StoryStep]]:
        """The steps that made a snapshot."""
        return [(at, step) for at, step in enumerate(self.steps) if step.commit]

    def says(self, index: int) -> str:
        """`5 of 14 · writer A · publishes #4`."""
        if not 0 <= index < len(self.steps):
            return "nothing has happened yet"
        step = self.steps[index]
        who = f"{self.lanes[step.lane]} · " if len(self.lanes) > 1 else ""
        return f"{index + 1} of {len(self.steps)} · {who}{step.title}"

    def first_with(self, snapshot: int) -> int | None:
        """The first step after which `snapshot` is the newest."""
        return next((at for at, step in enumerate(self.steps) if step.snapshot == snapshot), None)


def table(model: StepsModel) -> pa.Table:
    """The steps as Arrow."""
    names = ("lane", "kind", "title", "detail", "state", "commit", "snapshot")
    columns = {name: [getattr(step, name) for step in model.steps] for name in names}
    columns["lane"] = [model.lanes[step.lane] for step in model.steps]
    schema = pa.schema([(name, pa.int64() if name == "snapshot" else pa.string()) for name in names])
    return pa.table(columns, schema=schema)


def text_form(model: StepsModel, index: int) -> str:
    """The lanes in a terminal, a column a step, then the chosen step in words."""
    states = [model.state(at, index) for at in range(len(model.steps))]
    marks = [_mark(step, state) for step, state in zip(model.steps, states, strict=True)]
    wide = [max(len(mark), len(label)) + 1 for mark, label in zip(marks, _labels(model), strict=True)]
    names = [*model.lanes, "table"]
    gutter = max((len(name) for name in names), default=0) + 2
    lines = [f"{model.title}  {model.subtitle}".rstrip()]
    for lane, name in enumerate(model.lanes):
        cells = [
            f"{mark if step.lane == lane else '':{w}}"
            for mark, step, w in zip(marks, model.steps, wide, strict=True)
        ]
        lines.append(f"{name:{gutter}}{''.join(cells)}".rstrip())
    if any(_labels(model)):
        cells = [f"{label:{w}}" for label, w in zip(_labels(model), wide, strict=True)]
        lines.append(f"{'table':{gutter}}{''.join(cells)}".rstrip())
    cursor = [f"{'^' if at == index else '':{w}}" for at, w in enumerate(wide)]
    lines.append(f"{'':{gutter}}{''.join(cursor)}".rstrip())
    lines.append(model.says(index))
    if 0 <= index < len(model.steps):
        step = model.steps[index]
        lines += [f"  {step.detail}"] if step.detail else []
        lines += [f"  {name}: {value}" for name, value in step.facts]
    return "\n".join(lines)


def _mark(step: StoryStep, state: str) -> str:
    sign = SIGNS[state]
    return sign if sign and step.letter == sign else f"{step.letter or step.mark}{sign}"


def _labels(model: StepsModel) -> Sequence[str]:
    return [f"#{step.snapshot}" if step.commit else "" for step in model.steps]
