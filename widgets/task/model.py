"""A task as a value: what is asked, how it is answered, what may be clicked, and what became of it.

Invariants: a question holds nothing of its answer; the answer crosses to the browser only in a `Verdict`,
which is made when the learner commits. A value of an answer is plain: the id of an option, ids of spots, ids
in an order, a number, or text. Pure. Made by the course, drawn by the figures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pyarrow as pa

import tablestore as ts
from widgets.kit import format as fmt
from widgets.kit.svg import plain
from widgets.task.words import bare, paragraphs

Kind = Literal["one", "many", "line", "spots", "each", "order", "field"]
"""Answered by one option, several options, a place on a ruler, several spots of a picture, one spot of each
group, an order of the options, or text."""
MAX_STEPS, LONGEST = 240, 900
SIGNS = {"open": "○", "again": "↻", "right": "✓", "wrong": "✗", "seen": "–"}
"""States of a task: not answered, wrong with a try left, right, wrong, and looked up without an answer."""
TRIES = 2
"""Answers to a task until the engine's own is shown; the hint comes with the first wrong one."""


@dataclass(frozen=True, slots=True)
class TaskOption:
    """Something to choose: its id, which is also how it is typed, and words that explain it."""

    id: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Ruler:
    """A line of numbers from `low` to `high`, every `step`."""

    low: float
    high: float
    step: float = 1.0
    unit: str = ""

    def __post_init__(self) -> None:
        if not (self.low < self.high and self.step > 0 and (self.high - self.low) / self.step <= MAX_STEPS):
            raise ts.InvalidRequest(
                f"a ruler from {self.low} to {self.high} by {self.step}: give low < high and at most "
                f"{MAX_STEPS} steps, so that a click finds each"
            )

    def said(self, value: float) -> str:
        """A number of the line as text, with its unit."""
        text = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
        return f"{text} {self.unit}".strip().replace("-", fmt.MINUS)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a grid. With an `id` it can be clicked; cells of one id are one spot. Of each `group` one
    spot is chosen, where the question asks so."""

    words: str
    id: str = ""
    note: str = ""
    group: str = ""
    tone: Literal["plain", "null", "minus"] = "plain"


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of cells under heads: runs and keys, rows and columns, steps of a process."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]


@dataclass(frozen=True, slots=True, eq=False)
class RunPicture:
    """The levels of a bucket, from `table.inspect.levels()`, to click its runs or its files (`by`).

    `key` draws a line there. No strip of overlaps and no plan: they would give answers away.
    """

    files: pa.Table
    num_levels: int = 6
    by: Literal["run", "file"] = "run"
    key: float | None = None

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """The files of each spot."""
        if self.by == "run":
            return run_names(self.files)
        return {name: (file,) for name, file in file_names(self.files).items()}


Picture = Grid | RunPicture


@dataclass(frozen=True, slots=True)
class TaskSpot:
    """What can be clicked in a picture."""

    id: str
    label: str
    group: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class TaskQuestion:
    """What is asked. `form` says how an answer is typed, `hint` comes after a first wrong one."""

    name: str
    asked: str
    kind: Kind
    number: int = 1
    options: tuple[TaskOption, ...] = ()
    ruler: Ruler | None = None
    picture: Picture | None = None
    hint: str = ""
    form: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ts.InvalidRequest(f"kind {self.kind!r} is none of {', '.join(get_args(Kind))}")
        needs: dict[str, tuple[object, str]] = dict.fromkeys(
            ("one", "many", "order"), (self.options, "options")
        )
        needs |= {"line": (self.ruler, "a ruler")}
        needs |= dict.fromkeys(("spots", "each"), (self.picture, "a picture"))
        given, what = needs.get(self.kind, (True, ""))
        if not given:
            raise ts.InvalidRequest(f"task {self.name!r}: a question of kind {self.kind} needs {what}")

    @property
    def spots(self) -> tuple[TaskSpot, ...]:
        """What can be clicked in the picture, top to bottom, left to right."""
        if isinstance(self.picture, RunPicture):
            return tuple(_run_spots(self.picture))
        return tuple(_cell_spots(self.picture)) if self.picture else ()

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the spots in order."""
        return tuple(dict.fromkeys(spot.group for spot in self.spots))

    def named(self, value: Any) -> str:
        """A value as words: `#7, L5`; none at all is a dash."""
        if value is None or value == [] or value == "":
            return fmt.ABSENT
        if self.kind == "line" and self.ruler:
            return self.ruler.said(float(value))
        if self.kind == "each":
            words = {spot.id: spot.label.rpartition(": ")[2] for spot in self.spots}
            places = {spot.id: at for at, spot in enumerate(self.spots)}
            order = {name: at for at, name in enumerate(self.groups)}
            group = {spot.id: order[spot.group] for spot in self.spots}
            texts = [str(each) for each in value]
            texts.sort(key=lambda each: (group.get(each, len(order)), places.get(each, 0)))
            return ", ".join(words.get(each, each) for each in texts)
        if isinstance(value, list | tuple):
            return (" → " if self.kind == "order" else ", ").join(self._short(str(each)) for each in value)
        return self._short(str(value))

    def _short(self, name: str) -> str:
        if isinstance(self.picture, Grid) and any(name == label for label, _ in self.picture.rows):
            return bare(name)
        words = {spot.id: spot.label.partition(",")[0] for spot in self.spots}
        return bare(words.get(name, name))

    def shows(self, name: str) -> str:
        """What the picture shows of a spot: `#4 (level 0, 2 KiB, keys 1 to 90; the line is at 130)`."""
        label = next((spot.label for spot in self.spots if spot.id == name), name)
        if not isinstance(self.picture, RunPicture):
            return label
        short, _, facts = label.partition(", ")
        if self.picture.key is not None:
            facts += f"; the line is at {fmt.count(round(self.picture.key))}"
        return f"{short} ({facts})"

    def ready(self, value: Any) -> bool:
        """Whether the value is whole, so that it can be committed."""
        if self.kind == "each":
            group = {spot.id: spot.group for spot in self.spots}
            return {group.get(each) for each in value or ()} >= set(self.groups)
        if self.kind in ("many", "spots"):
            return isinstance(value, list | tuple)
        return value is not None and value != [] and value != ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an answer: the guess beside the engine's answer, and the reason. With the state `again`
    it says nothing of the engine's answer."""

    state: Literal["again", "right", "wrong", "seen"]
    yours: str
    engine: str
    own: Any = None
    """The engine's answer as a value of the question, to mark it in the picture."""
    remark: str = ""
    """What is off, and the hint that fits."""
    reason: str = ""

    @property
    def settled(self) -> bool:
        """Whether the engine's answer is shown."""
        return self.state != "again"

    def withheld(self) -> "Verdict":
        """The same of a first wrong answer: what is off, and nothing of the engine's answer."""
        return Verdict("again", self.yours, "", remark=self.remark)


@dataclass(frozen=True, slots=True)
class Score:
    """The tasks of a lesson with their states, and where they are kept."""

    title: str
    tasks: tuple[tuple[str, str], ...]
    first: int = 0
    """How many were right at the first try."""
    kept: str = ""

    @property
    def solved(self) -> int:
        """How many are right."""
        return sum(state == "right" for _, state in self.tasks)

    @property
    def line(self) -> str:
        """`2 of 5 tasks solved, 1 at the first try`."""
        said = f"{self.solved} of {len(self.tasks)} tasks solved"
        return said + (f", {self.first} at the first try" if self.solved else "")


def file_names(files: pa.Table) -> dict[str, str]:
    """The files of `inspect.levels()` by the names that pictures and questions give them.

    `#7` is the file of snapshot 7 at level 0 (`#7.2` a second one), `L5.1` the first one of level 5. The
    same rows give the same names, whatever the files are called.
    """
    named: dict[str, str] = {}
    count: dict[str, int] = {}
    for row in files.select(["level", "snapshot_id", "file_name"]).to_pylist():
        level, snapshot = row["level"], row["snapshot_id"]
        lane = f"#{snapshot}" if not level and snapshot is not None else f"L{level}"
        at = count[lane] = count.get(lane, 0) + 1
        named[lane if lane[0] == "#" and at == 1 else f"{lane}.{at}"] = row["file_name"]
    return named


def run_names(files: pa.Table) -> dict[str, tuple[str, ...]]:
    """The sorted runs of `inspect.levels()` by name: `#7` at level 0, `L5` below, with their files."""
    named: dict[str, tuple[str, ...]] = {}
    for name, file in file_names(files).items():
        run = name if name[0] == "#" or name.startswith("L0") else name.partition(".")[0]
        named[run] = (*named.get(run, ()), file)
    return named


def _run_spots(picture: RunPicture) -> Iterator[TaskSpot]:
    rows = {row["file_name"]: row for row in picture.files.to_pylist()}
    for name, files in picture.named.items():
        mine = [rows[file] for file in files]
        size = fmt.bytes_text(sum(row["bytes"] or 0 for row in mine))
        where = f"level {mine[0]['level']}"
        keys = f", keys {fmt.key(mine[0]['min_key'])} to {fmt.key(mine[-1]['max_key'])}"
        yield TaskSpot(name, f"{name}, {where}, {size}{keys if mine[0]['min_key'] is not None else ''}")


def _cell_spots(grid: Grid) -> Iterator[TaskSpot]:
    seen: dict[str, list[str]] = {}
    group: dict[str, str] = {}
    for label, cells in grid.rows:
        for head, cell in zip(grid.heads, cells, strict=True):
            if cell is None or not cell.id:
                continue
            where = [part for part in (head, label) if part]
            words = f"{' of '.join(where)}: {cell.words}" if where else cell.words
            seen.setdefault(cell.id, []).append(words + (f" ({cell.note})" if cell.note else ""))
            group.setdefault(cell.id, cell.group)
    for name, said in seen.items():
        yield TaskSpot(name, ", ".join(said), group[name])


def text_form(question: TaskQuestion, value: Any, verdict: Verdict | None) -> str:
    """The task in a terminal."""
    lines = [f"Task {question.number} · {question.name}"]
    lines += [f"  {bare(block)}" for block in paragraphs(question.asked)]
    lines += [f"    {bare(option.id):10} {bare(option.words)}".rstrip() for option in question.options]
    if question.ruler:
        ruler = question.ruler
        lines.append(f"    from {ruler.said(ruler.low)} to {ruler.said(ruler.high)}")
    lines += [f"    {spot.id}: {spot.label}" for spot in question.spots]
    if verdict is None:
        lines.append(f"  your answer: {question.named(value)}" if question.ready(value) and value else "")
        lines.append(f"  click it in a notebook, or type: .check({question.form or '…'})")
    else:
        engine = f" · engine: {bare(verdict.engine)}" if verdict.settled else " · one more try"
        lines.append(f"  {SIGNS[verdict.state]} you: {bare(verdict.yours)}{engine}")
        lines += [f"  {bare(text)}" for text in (verdict.remark, verdict.reason) if text]
    return "\n".join(cut(line) for line in lines if line)


def cut(line: str) -> str:
    """A line for a terminal: plain text, of a bounded length."""
    return plain(line if len(line) <= LONGEST else line[: LONGEST - 1] + "…")


def score_text(score: Score) -> str:
    """The tasks in a terminal."""
    tasks = " · ".join(f"{SIGNS[state]} {name}" for name, state in score.tasks)
    lines = [f"{score.title}: {score.line}", f"  {tasks}"]
    return "\n".join(map(cut, [*lines, f"  kept in {score.kept}"] if score.kept else lines))


def options_of(names: Sequence[str] | dict[str, str]) -> tuple[TaskOption, ...]:
    """Options from names, or from names with words."""
    if isinstance(names, dict):
        return tuple(TaskOption(str(name), str(words)) for name, words in names.items())
    return tuple(TaskOption(str(name)) for name in names)
