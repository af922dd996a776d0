"""Task, Veil and TaskList: a question that is answered by clicking, what waits for it, and the score.

Traits of a task: `value` (the answer so far), `asked` (how often the engine was asked), `committed` (whether
its answer is shown: after a right answer, or after TRIES wrong ones). A veil follows the `committed` of the
task it is linked to. Until then the engine's answer is not in the browser: Python judges, by the function it
was given.
"""

import reprlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, runtime_checkable

import anywidget
import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.kit import svg
from widgets.kit.svg import Figure
from widgets.kit.view import View, module
from widgets.task.figure import score_figure, task_figure, veil_figure
from widgets.task.model import TRIES, Score, TaskQuestion, Verdict, cut, score_text, text_form
from widgets.task.picture import picture_figure
from widgets.task.words import bare, paragraphs, segments

Judge = Callable[[Any], Verdict]
"""What becomes of an answer; None is none."""


def rich(text: str) -> list[list[tuple[str, str]]]:
    """Paragraphs as segments, as the page sets them."""
    return [list(segments(block)) for block in paragraphs(text)]


class Task(View):
    """A question that is answered by clicking, dragging or keys; then the guess stands beside the engine's.

    A first wrong answer gets its remark and the hint, and a second try; after that the engine's is shown.
    `question` is a `TaskQuestion` of `widgets.task.model`; `judge(value)` gives the `Verdict`, and
    is asked at each try. Other traits (`width`, …) go by keyword.

    >>> from widgets.task.model import TaskQuestion, Verdict, options_of
    >>> asked = TaskQuestion("runs", "How many runs?", "one", options=options_of(["1", "2"]))
    >>> task = widgets.Task(asked, lambda value: Verdict("right" if value == "2" else "wrong", value, "2"))
    >>> task.commit("2").verdict.state
    'right'
    """

    links = ("committed",)
    _esm = module("task")
    part = traitlets.Unicode("task").tag(sync=True)
    value = traitlets.Any(None, allow_none=True).tag(sync=True)
    asked = traitlets.Int(0).tag(sync=True)
    committed = traitlets.Bool(False).tag(sync=True)

    def __init__(self, question: TaskQuestion, judge: Judge, **kwargs: object) -> None:
        if not isinstance(question, TaskQuestion):
            raise ts.InvalidRequest(f"Task takes a Question, not {reprlib.repr(question)}")
        self._question, self._judge = question, judge
        self._verdict: Verdict | None = None
        super().__init__(**kwargs)
        self.observe(self._on_asked, "asked")
        self.observe(self._on_committed, "committed")
        if self.committed:
            self._verdict = judge(self.value)
        self.redraw()

    @property
    def question(self) -> TaskQuestion:
        """What is asked."""
        return self._question

    @property
    def verdict(self) -> Verdict | None:
        """What became of the last answer; None before the engine was asked."""
        return self._verdict

    def commit(self, value: Any) -> Self:
        """Give an answer and ask the engine, as the page's button does."""
        if self.committed:
            self.again()
        self.value = value
        self.asked += 1
        return self

    def again(self) -> Self:
        """Take the answer back: the question is open with all its tries, and what waits for it is veiled."""
        self.committed = False
        return self

    def _on_asked(self, change: Mapping[str, Any]) -> None:
        if change["new"] and not self.committed:
            self._guarded(self._try)

    def _on_committed(self, change: Mapping[str, Any]) -> None:
        self._guarded(lambda: self._settle(committed=bool(change["new"])))

    def _guarded(self, act: Callable[[], None]) -> None:
        self.guarded(act, what="The engine could not be asked.", next_step="Run the cell of the task again.")

    def _try(self) -> None:
        """Judge one try: a wrong one with tries left gets its remark, every other the engine's answer."""
        verdict = self._judge(self.value)
        if verdict.state == "wrong" and self.asked < TRIES:
            self._verdict = verdict.withheld()
            self.redraw()
        else:
            self.committed = True

    def _settle(self, *, committed: bool) -> None:
        if not committed:
            self.value, self.asked = None, 0
        self._verdict = self._judge(self.value) if committed else None
        self.redraw()

    def refresh(self) -> Self:
        """Draw again; a question does not change."""
        self.redraw()
        return self

    def redraw(self) -> None:
        """The words for the page, and the picture if there is one."""
        self.frame = self._frame(self.value, self._verdict, width=self.width)

    def _frame(self, value: Any, verdict: Verdict | None, *, width: float) -> dict[str, Any]:
        shown = verdict if verdict is not None and verdict.settled else None
        drawn = picture_figure(self._question, value, shown, width=width)
        frame = {**self.words(width=width), "label": drawn.label if drawn else self._question.name}
        frame |= {"svg": svg.live(drawn), "meta": drawn.meta} if drawn else {"svg": "", "meta": {}}
        return frame | {"verdict": _for_page(verdict)}

    def words(self, *, width: float) -> dict[str, Any]:
        """The question as the page sets it."""
        asked = self._question
        return {
            "title": f"Task {asked.number}",
            "subtitle": asked.name,
            "kind": asked.kind,
            "asked": rich(asked.asked),
            "hint": rich(asked.hint),
            "form": asked.form,
            "options": [
                [option.id, list(segments(option.id)), list(segments(option.words))]
                for option in asked.options
            ],
            "spots": [[spot.id, spot.label, spot.group] for spot in asked.spots],
        }

    def figure(self, *, width: float) -> Figure:
        """The whole task as one picture."""
        return task_figure(self._question, self.value, self._verdict, width=width)

    def text(self) -> str:
        """The task in a terminal."""
        return text_form(self._question, self.value, self._verdict)

    def data(self) -> pa.Table:
        """The answer and the verdict as Arrow, one row."""
        verdict = self._verdict
        return pa.table(
            {
                "task": [self._question.name],
                "yours": [self._question.named(self.value)],
                "state": [verdict.state if verdict else "open"],
                "engine": pa.array([verdict.engine if verdict else None], pa.string()),
            }
        )

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The question open and as it is when it was answered rightly or wrongly; which answers are right,
        and what is off with each other one that can be listed: a page without a kernel has nobody to ask."""
        asked = self._question
        seen = self._judge(None)
        right = seen.own
        frames = {
            str(width): {
                "open": self._frame(None, None, width=width),
                "right": self._frame(right, self._judge(right), width=width),
                "wrong": self._frame(None, seen, width=width),
            }
            for width in widths
        }
        state: dict[str, Any] = {
            "part": "task",
            "value": None,
            "asked": 0,
            "committed": False,
            "frame": {},
            "width": widths[0],
        }
        listed: list[Any] = [option.id for option in asked.options] if asked.kind == "one" else []
        if asked.kind == "line" and asked.ruler:
            ruler = asked.ruler
            count = round((ruler.high - ruler.low) / ruler.step)
            listed = [ruler.low + at * ruler.step for at in range(count + 1)]
        verdicts = [(each, self._judge(each)) for each in listed]
        answers = [each for each, verdict in verdicts if verdict.state == "right"] or [right]
        remarks = [[each, rich(verdict.remark)] for each, verdict in verdicts if verdict.state == "wrong"]
        spec = {"kind": "task", "reply": "task", "widths": list(widths), "answers": answers}
        judged = {"remarks": remarks, "tries": TRIES}
        return {**spec, **judged, "frames": frames, "words": {}, "state": state}


def _for_page(verdict: Verdict | None) -> dict[str, Any]:
    """A verdict as the page sets it."""
    if verdict is None:
        return {}
    return {
        "state": verdict.state,
        "yours": list(segments(verdict.yours)),
        "engine": list(segments(verdict.engine)),
        "own": verdict.own,
        "remark": rich(verdict.remark),
        "reason": rich(verdict.reason),
    }


@runtime_checkable
class Drawing(Protocol):
    """What can be drawn at a width and printed."""

    def figure(self, *, width: float) -> Figure:
        """The picture."""
        ...


class Veil(View):
    """Something that stays hidden until a task is answered: a view, a drawing, or a text.

    `task` is the `Task` it waits for, `shown` a view, a workbench, a text, or something with a
    `figure(width=…)`, `note` a sentence above it. Other traits go by keyword.

    >>> from widgets.task.model import TaskQuestion, Verdict, options_of
    >>> asked = TaskQuestion("runs", "How many runs?", "one", options=options_of(["1", "2"]))
    >>> task = widgets.Task(asked, lambda value: Verdict("seen", "", "2"))
    >>> veil = widgets.Veil(task, "two runs")
    >>> print(veil)
    veiled until task 1, runs, is answered
    >>> _ = task.commit("2")
    >>> print(veil)
    two runs
    """

    links = ("committed",)
    _esm = module("task")
    part = traitlets.Unicode("veil").tag(sync=True)
    committed = traitlets.Bool(False).tag(sync=True)
    child = anywidget.WidgetTrait().tag(sync=True)

    def __init__(self, task: Task, shown: Drawing | str = "", *, note: str = "", **kwargs: object) -> None:
        if not isinstance(task, Task):
            raise ts.InvalidRequest(f"Veil waits for a Task, not {reprlib.repr(task)}")
        if not isinstance(shown, Drawing | str):
            raise ts.InvalidRequest(f"Veil shows a view, a drawing or a text, not {reprlib.repr(shown)}")
        self._task, self._note, self._shown = task, note, shown
        super().__init__(**kwargs)
        if isinstance(shown, anywidget.AnyWidget):
            self.child = shown
        task.link(self)
        self.observe(lambda _change: self.redraw(), "committed")
        self.redraw()

    @property
    def shown(self) -> Drawing | str:
        """What is behind the veil."""
        return self._shown

    def refresh(self) -> Self:
        """Draw again."""
        self.redraw()
        return self

    def redraw(self) -> None:
        """Say whether it is open, and only then what is behind."""
        self.frame = self._frame(opened=self.committed, width=self.width)

    def _frame(self, *, opened: bool, width: float, drawn: bool = False) -> dict[str, Any]:
        frame = {**self.words(width=width), "opened": opened}
        frame["note"] = rich(self._note) if opened else []
        frame["lines"] = self._lines() if opened else []
        live = isinstance(self._shown, anywidget.AnyWidget)
        if opened and (drawn or not live) and (inner := self.behind(width)):
            frame["svg"] = svg.live(inner)
        return frame

    def behind(self, width: float) -> Figure | None:
        """The picture of what is behind it; None of a text."""
        if isinstance(self._shown, View):
            return self._shown.picture(width=width, footer=False)
        return self._shown.figure(width=width) if isinstance(self._shown, Drawing) else None

    def _lines(self) -> list[str]:
        return [cut(row) for row in self._shown.splitlines()] if isinstance(self._shown, str) else []

    def words(self, *, width: float) -> dict[str, Any]:
        """Which task it waits for."""
        asked = self._task.question
        return {"title": "", "subtitle": "", "waits": f"task {asked.number}, {bare(asked.name)},"}

    def _closed(self) -> str:
        return f"veiled until {self.words(width=0)['waits']} is answered"

    def figure(self, *, width: float) -> Figure:
        """The sentence, or what is behind it."""
        if not self.committed:
            return veil_figure(self._closed(), None, [], width=width)
        return veil_figure(self._note, self.behind(width), self._lines(), width=width)

    def text(self) -> str:
        """The sentence, or what is behind it in a terminal."""
        if not self.committed:
            return self._closed()
        lines = self._lines() if isinstance(self._shown, str) else str(self._shown).splitlines()
        return "\n".join([cut(bare(block)) for block in paragraphs(self._note)] + lines)

    def data(self) -> object:
        """What is behind the veil, once it is open."""
        return self._shown if self.committed else None

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """Closed, and open with the picture of the view; open it can be no more than looked at."""
        frames = {
            str(width): {
                "false": self._frame(opened=False, width=width),
                "true": self._frame(opened=True, width=width, drawn=True),
            }
            for width in widths
        }
        state: dict[str, Any] = {
            "part": "veil",
            "committed": False,
            "child": None,
            "frame": {},
            "width": widths[0],
        }
        spec = {"kind": "task", "reply": "task", "widths": list(widths)}
        return {**spec, "frames": frames, "words": {}, "state": state}


class TaskList(View):
    """The tasks of a lesson with what became of them, and a button that clears the answers.

    `score` is a `Score` of `widgets.task.model`; `clear()` is called by the button. Other traits go by
    keyword.

    >>> from widgets.task.model import Score
    >>> widgets.TaskList(Score("Lesson 2", (("runs", "right"), ("files", "open")), first=1))
    Lesson 2: 1 of 2 tasks solved, 1 at the first try
      ✓ runs · ○ files
    """

    links = ()
    _esm = module("task")
    part = traitlets.Unicode("list").tag(sync=True)

    def __init__(self, score: Score, *, clear: Callable[[], None] | None = None, **kwargs: object) -> None:
        if not isinstance(score, Score):
            raise ts.InvalidRequest(f"TaskList takes a Score, not {reprlib.repr(score)}")
        self._score, self._clear = score, clear
        super().__init__(**kwargs)
        self.redraw()

    def update(self, score: Score) -> Self:
        """Show another score."""
        self._score = score
        self.redraw()
        return self

    def _on_verb(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        if content.get("verb") == "clear" and self._clear is not None:
            self.guarded(self._clear, what="The answers could not be cleared.", next_step="Remove the file.")
        else:
            super()._on_verb(widget, content, buffers)

    def refresh(self) -> Self:
        """Draw again."""
        self.redraw()
        return self

    def redraw(self) -> None:
        """The tasks for the page."""
        self.frame = self._frame(width=self.width)

    def _frame(self, *, width: float) -> dict[str, Any]:
        frame = {**self.words(width=width), "tasks": [list(each) for each in self._score.tasks]}
        return frame | {
            "kept": self._score.kept,
            "clears": self._clear is not None,
            "label": self._score.line,
        }

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and score."""
        return {"title": self._score.title, "subtitle": self._score.line}

    def figure(self, *, width: float) -> Figure:
        """A chip a task."""
        return score_figure(self._score, width=width)

    def text(self) -> str:
        """The tasks in a terminal."""
        return score_text(self._score)

    def data(self) -> pa.Table:
        """Tasks and states as Arrow."""
        names, states = zip(*self._score.tasks, strict=True) if self._score.tasks else ((), ())
        return pa.table({"task": pa.array(names, pa.string()), "state": pa.array(states, pa.string())})

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """As it is."""
        frames = {str(width): {"": self._frame(width=width)} for width in widths}
        state: dict[str, Any] = {"part": "list", "frame": {}, "width": widths[0]}
        spec = {"kind": "task", "reply": "task", "widths": list(widths)}
        return {**spec, "frames": frames, "words": {}, "state": state}
