"""Tasks of a notebook: a question, the learner's answer, and the engine's own to compare it with.

The engine's answer is asked for once, when the task is posed, so that later cells of the notebook do not move
it. A check never raises for a learner and never reveals the answer; with `begin(solve=True)` the engine's own
answer goes through the same check as the learner's, and one that is not accepted raises: so the tests prove
that the tasks are right. One lesson a kernel; not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from notebooks.course import answers, cards
from notebooks.course.answers import Answer, Choice
from notebooks.course.cards import Card

Phrase = str | Callable[[Any], str]
SIGNS = {"open": "–", "right": "✓", "wrong": "✗"}


@dataclass
class Lesson:
    """The tasks of one notebook, in the order they were posed, and what became of each."""

    solve: bool = False
    tasks: dict[str, Task] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)

    @property
    def solved(self) -> int:
        """How many were answered rightly, by the last answer."""
        return sum(state == "right" for state in self.states.values())

    def line(self) -> str:
        """`solved 1 of 2 so far: ✓ –`."""
        signs = " ".join(SIGNS[state] for state in self.states.values())
        return f"solved {self.solved} of {len(self.states)} so far: {signs}"


_lesson = Lesson()


def begin(*, solve: bool = False) -> None:
    """Start a notebook: no tasks yet. `solve`: the engine answers where the learner has not."""
    global _lesson
    _lesson = Lesson(solve=solve)


class Task:
    """One question. As the last value of a cell it shows its card."""

    def __init__(
        self, name: str, asked: str, answer: Answer, *, hint: Phrase, why: Phrase, number: int, lesson: Lesson
    ) -> None:
        self.name, self.asked, self.answer, self.number = name, asked, answer, number
        self._hint, self._why, self._lesson = hint, why, lesson

    def check(self, submitted: Any = None) -> Card:
        """The verdict on an answer. None is not yet one."""
        solving = submitted is None and self._lesson.solve
        value = self.answer.own if solving else submitted
        if value is None:
            return self._verdict(
                "open", f"{self.name}: not answered yet", [f"Set `answer` to {self.answer.form}."]
            )
        problem = self.answer.problem(value)
        if problem is None:
            return self._verdict("right", f"{self.name}: right", [self._phrase(self._why, value)])
        if solving:
            raise AssertionError(f"task {self.name}: its own answer is refused: {problem}")
        return self._verdict("wrong", f"{self.name}: not yet", [problem, self._phrase(self._hint, value)])

    def solution(self) -> Card:
        """The engine's answer and its why."""
        lines = [f"The engine says: **{self.answer.shown()}**", self._phrase(self._why, self.answer.own)]
        return cards.verdict("open", "→", f"{self.name}: solution", lines, "")

    @property
    def solved(self) -> bool:
        """Whether the last answer was right."""
        return self._lesson.states.get(self.name) == "right"

    def _verdict(self, state: str, title: str, lines: list[str]) -> Card:
        self._lesson.states[self.name] = state
        return cards.verdict(state, SIGNS[state], title, lines, self._lesson.line())

    @staticmethod
    def _phrase(text: Phrase, value: Any) -> str:
        return text if isinstance(text, str) else text(value)

    @property
    def card(self) -> Card:
        """The question."""
        options = tuple(self.answer.options.items()) if isinstance(self.answer, Choice) else ()
        return cards.question(self.number, self.name, self.asked, options, self.answer.form)

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return self.card._repr_mimebundle_()

    def __repr__(self) -> str:
        return self.card.text


def task(
    name: str,
    question: str,
    *,
    answer: Any,
    hint: Phrase,
    why: Phrase,
    options: Mapping[str, str] | Sequence[str] | None = None,
) -> Task:
    """Pose a task. `answer`: the engine's own, or a function that asks the engine, called now.

    A plain value is a number, one of `options`, a set of names or a table of rows; `Number`, `Members`,
    `Rows`, `runs(…)`, `Holds` say it exactly. `hint` teaches after a wrong answer, `why` says what a right
    one means; both may be functions of the answer. Posing a name again (a cell run twice) replaces it.
    """
    own = answer() if callable(answer) else answer
    lesson = _lesson
    known = lesson.tasks.get(name)
    number = known.number if known else len(lesson.tasks) + 1
    kind = answers.of(own, options=options)
    made = Task(name, question, kind, hint=hint, why=why, number=number, lesson=lesson)
    lesson.tasks[name] = made
    lesson.states.setdefault(name, "open")
    return made


def progress() -> Card:
    """Which tasks of this notebook are solved."""
    lesson = _lesson
    whole = bool(lesson.states) and lesson.solved == len(lesson.states)
    title = f"{lesson.solved} of {len(lesson.states)} tasks solved"
    lines = [f"{SIGNS[state]} {name}" for name, state in lesson.states.items()]
    return cards.verdict("right" if whole else "open", "✓" if whole else "–", title, [" · ".join(lines)], "")
