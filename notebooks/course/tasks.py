"""Tasks of a notebook: a question, the learner's answer by a click, and the engine's own beside it.

The engine's answer is asked for once, when the task is posed, so that later cells do not move it. There are
two tries: after a first wrong answer comes the hint, after a second the engine's answer, which stays in
Python until then. What would give it away waits behind `task.then(…)`. `task.check(answer)` is the typed form
of a click. With `begin(solve=True)` the engine's own answer goes through the same check as
the learner's, and one that is not accepted raises: so the tests prove that the tasks are right. One lesson a
kernel; not thread-safe.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import widgets
from notebooks.course import cards
from notebooks.course.cards import Card
from notebooks.course.progress import Progress
from widgets.task import answers
from widgets.task.answers import Answer, Choice, Each, Members, Number, Order
from widgets.task.judge import Phrase, TaskJudge, phrase
from widgets.task.model import (
    SIGNS,
    Kind,
    Picture,
    Ruler,
    Score,
    TaskOption,
    TaskQuestion,
    options_of,
)
from widgets.task.widget import Drawing

Wrong = Mapping[Any, str] | Callable[[Any], str]
"""Why an option is not it, by the option."""


@dataclass
class Lesson:
    """The tasks of one notebook, in the order they were posed, and what became of each."""

    name: str = ""
    solve: bool = False
    tasks: dict[str, Task] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    shown: list[widgets.TaskList] = field(default_factory=list)
    veils: list[tuple[str, str, widgets.Veil]] = field(default_factory=list)
    """Those of its tasks: the task's name, the sentence above, the view."""

    @property
    def solved(self) -> int:
        """How many were answered rightly, by the last answer."""
        return sum(state == "right" for state in self.states.values())

    def score(self) -> Score:
        """Tasks and states, and where they are kept."""
        entries = self.progress.entries
        first = sum(
            state == "right" and name in entries and entries[name].tries == 1
            for name, state in self.states.items()
        )
        path = self.progress.path
        kept = str(path) if path is not None and self.progress.kept and not self.solve else ""
        return Score(self.name or "This notebook", tuple(self.states.items()), first, kept)

    def line(self) -> str:
        """`solved 1 of 2 so far: ✓ ○`."""
        signs = " ".join(SIGNS[state] for state in self.states.values())
        return f"solved {self.solved} of {len(self.states)} so far: {signs}"

    def settle(self, task: str, state: str) -> None:
        """A task has another state: every score that is shown says so."""
        self.states[task] = state
        for view in self.shown:
            view.update(self.score())

    def clear(self) -> None:
        """Forget all answers, of this run and of those before."""
        self.progress.clear()
        for task in self.tasks.values():
            task.view.again()


_lesson = Lesson()


def present() -> Lesson:
    """The present lesson."""
    return _lesson


def begin(lesson: str = "", *, solve: bool = False) -> None:
    """Start a notebook: no tasks yet. `lesson` names it: under that name answers are kept over restarts of
    the kernel. `solve`: the engine answers its own questions, and nothing is kept."""
    global _lesson
    kept = Progress("" if solve else lesson).load()
    _lesson = Lesson(lesson, solve, progress=kept)


class Task:
    """One question. As the last value of a cell it is answered there."""

    def __init__(
        self,
        question: TaskQuestion,
        answer: Answer,
        *,
        hint: Phrase,
        why: Phrase,
        wrong: Mapping[str, str],
        lesson: Lesson,
    ) -> None:
        self.name, self.answer, self.number = question.name, answer, question.number
        self.judge, self._lesson = TaskJudge(question, answer, hint, why, wrong), lesson
        self._quiet = False
        self.view = widgets.Task(question, self.judge)
        self.view.observe(self._on_asked, ["asked", "committed"])

    @property
    def question(self) -> TaskQuestion:
        """What is asked, and how it is answered."""
        return self.view.question

    def check(self, submitted: Any = None) -> Card | None:
        """The verdict on an answer that is typed; None is none yet, and shows nothing."""
        solving = submitted is None and self._lesson.solve
        value = self.answer.own if solving else submitted
        if value is None:
            return None
        problem = self.answer.problem(value)
        if solving and problem is not None:
            raise AssertionError(f"task {self.name}: its own answer is refused: {problem}")
        self.view.commit(self.judge.clicked(value))
        if problem is None:
            return self._card("right", f"{self.name}: right", [phrase(self.judge.why, value)])
        verdict = self.view.verdict
        if verdict is not None and verdict.settled:
            lines = [verdict.remark, f"The engine says: **{verdict.engine}**", verdict.reason]
            return self._card("wrong", f"{self.name}: wrong", lines)
        return self._card("again", f"{self.name}: not yet", [problem, phrase(self.judge.hint, value)])

    def then(self, shown: Drawing | str = "", note: str = "") -> widgets.Veil:
        """A view, a drawing or a text that gives the answer away: veiled until the task is answered."""
        veil = widgets.Veil(self.view, shown, note=note)
        self._lesson.veils.append((self.name, note, veil))
        return veil

    def solution(self) -> Card:
        """The engine's answer and its why."""
        lines = [f"The engine says: **{self.answer.shown()}**", phrase(self.judge.why, self.answer.own)]
        return cards.verdict("open", "→", f"{self.name}: solution", lines, "")

    @property
    def solved(self) -> bool:
        """Whether the last answer was right."""
        return self._lesson.states.get(self.name) == "right"

    def restore(self, value: Any) -> None:
        """An answer of an earlier run, if it is still right; it is not counted again."""
        if value is None or self.judge(value).state != "right":
            return
        self._quiet = True
        try:
            self.view.commit(value)
        finally:
            self._quiet = False

    def _on_asked(self, change: Mapping[str, Any]) -> None:
        verdict = self.view.verdict
        if verdict is None:
            self._lesson.settle(self.name, "open")
            return
        if change["name"] == "asked" and change["new"] and not self._quiet:
            self._lesson.progress.note(self.name, self.view.value)
        self._lesson.settle(self.name, verdict.state)

    def _card(self, state: str, title: str, lines: list[str]) -> Card:
        kind = "wrong" if state == "again" else state
        return cards.verdict(kind, SIGNS[state], title, lines, self._lesson.line())

    def _repr_mimebundle_(self, **more: Any) -> Any:
        return self.view._repr_mimebundle_(**more)

    def __repr__(self) -> str:
        return self.view.text()


def task(
    name: str,
    question: str,
    *,
    answer: Any,
    hint: Phrase,
    why: Phrase,
    options: Mapping[Any, str] | Sequence[Any] | None = None,
    ruler: tuple[Any, ...] | Ruler | None = None,
    picture: Picture | None = None,
    wrong: Wrong | None = None,
) -> Task:
    """Pose a task. `answer`: the engine's own, or a function that asks the engine, called now.

    How it is answered follows from what is given: one of `options` (several, where the answer is a set), a
    place on a `ruler` (low, high, step), spots of a `picture`, one spot of each group (`Each`), an order of
    things (`Order`); a field to type in where there is nothing to click. A plain value is a number, one of
    `options`, a set of names or a table of rows; `Number`, `Members`, `Order`, `Each`, `Rows`, `runs(…)`,
    `Holds` say it exactly. `hint` helps before and after a wrong answer, `why` says what the right one means;
    both may be functions of the answer. `wrong` says of each option why it is not it, as the end of a
    sentence that names it. Posing a name again (a cell run twice) replaces it. Raises ValueError for a
    `wrong` that leaves out an option, or has one that is none.
    """
    own = answer() if callable(answer) else answer
    lesson = _lesson
    before = lesson.tasks.get(name)
    number = before.number if before else len(lesson.tasks) + 1
    kind = answers.of(
        own, options=None if isinstance(own, int | float) and not isinstance(own, bool) else options
    )
    if isinstance(kind, Number) and kind.tolerance:
        question = f"{question}\n\nAnswer with {kind.form}."
    asked = TaskQuestion(
        name,
        question,
        _kind(kind, options, ruler, picture),
        number=number,
        options=_options(name, kind, options),
        ruler=Ruler(*ruler) if isinstance(ruler, tuple) else ruler,
        picture=picture,
        hint=hint if isinstance(hint, str) else hint(None),
        form=kind.form,
    )
    task = Task(asked, kind, hint=hint, why=why, wrong=_reasons(asked, kind, options, wrong), lesson=lesson)
    if before is not None:
        before.view.close()
    lesson.tasks[name] = task
    lesson.states.setdefault(name, "open")
    if lesson.solve:
        task.check()
    elif before is not None and before.view.committed:
        task.restore(before.view.value)
    elif name in lesson.progress.entries:
        task.restore(lesson.progress.entries[name].value)
    return task


def _kind(answer: Answer, options: Any, ruler: Any, picture: Any) -> Kind:
    if isinstance(answer, Order):
        return "order"
    if isinstance(answer, Each):
        return "each"
    if isinstance(answer, Members):
        return "spots" if picture is not None else "many" if options is not None else "field"
    if isinstance(answer, Number) and ruler is not None:
        return "line"
    return "one" if isinstance(answer, Choice) or options is not None else "field"


def _options(name: str, answer: Answer, options: Any) -> tuple[TaskOption, ...]:
    """The options in their order; those of an order shuffled, the same way in every run."""
    if isinstance(answer, Choice):
        return options_of(dict(answer.options))
    if isinstance(answer, Order):
        listed = options_of(dict(answer.words))
        shuffled = list(listed)
        draw = random.Random(name)
        while [option.id for option in shuffled] == list(answer.own) and len(shuffled) > 1:
            draw.shuffle(shuffled)
        return tuple(shuffled)
    if options is None:
        return ()
    said = dict(options) if isinstance(options, Mapping) else dict.fromkeys(options, "")
    return options_of({_number(each): words for each, words in said.items()})


def _reasons(asked: TaskQuestion, answer: Answer, options: Any, wrong: Wrong | None) -> dict[str, str]:
    """Why each option is not it, by its id."""
    if wrong is None:
        return {}
    said = {each: wrong(each) for each in options} if callable(wrong) else wrong
    named = {_number(each): text for each, text in said.items()}
    ids = {option.id for option in asked.options}
    own = answer.own if isinstance(answer, Members) else [_number(answer.own)]
    if unlike := sorted((set(named) - ids) | (ids - set(named) - set(own))):
        raise ValueError(f"task {asked.name!r}: `wrong` takes one reason an option, see {', '.join(unlike)}")
    return named


def _number(each: Any) -> str:
    return f"{each:,}".replace("-", "−") if isinstance(each, int | float) else str(each)


def progress() -> widgets.TaskList:
    """Which tasks of this notebook are solved; it follows what is answered later."""
    lesson = _lesson
    view = widgets.TaskList(lesson.score(), clear=None if lesson.solve else lesson.clear)
    lesson.shown.append(view)
    return view
