"""Who judges the answers to a task: what the engine's own answer is, and what is off with each other one.

Invariants: a verdict depends on the value alone. A judge whose phrases are texts is a plain value: `plain`
and `judge_of` take it to a page that plays and back, so the page judges by the same rules as a kernel. Pure.
Called by the course, and by the recipe of a lesson.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

import tablestore as ts
from widgets.task.answers import Answer, Choice, Each, Members, Number, Order
from widgets.task.model import Cell, Grid, Picture, Ruler, RunPicture, TaskOption, TaskQuestion, Verdict

Phrase = str | Callable[[Any], str]
_TEXTS = ("name", "asked", "kind", "number", "hint", "form")
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Number, Choice, Members, Order, Each)}


@dataclass(frozen=True, slots=True)
class TaskJudge:
    """The answer to a question, and what is said: `hint` before the last try, `why` of the right answer, and
    `wrong` of each option that is not it, by its id."""

    question: TaskQuestion
    answer: Answer
    hint: Phrase
    why: Phrase
    wrong: Mapping[str, str]

    def __call__(self, value: Any) -> Verdict:
        """What becomes of an answer as a click gives it; None is none."""
        own = self.own()
        shown = self.question.named(own) if self.question.kind == "spots" else self.answer.shown()
        said = {"engine": shown, "own": own, "reason": phrase(self.why, self.answer.own)}
        if not self.question.ready(value) or value is None:
            return Verdict("seen", "no answer", **said)
        yours, problem = self.question.named(value), self.answer.problem(value)
        if problem is None:
            return Verdict("right", yours, **said)
        if isinstance(self.answer, Members | Each) and self.question.kind != "field":
            problem = self._off(value)
        elif isinstance(value, str) and value in self.wrong:
            problem = f"{problem.removesuffix('.')}: {self.wrong[value]}"
        return Verdict("wrong", yours, remark=f"{problem} {phrase(self.hint, value)}", **said)

    def _off(self, value: Any) -> str:
        """Which of the things that were clicked are not it, with what the picture shows of each or why not,
        and how many miss."""
        own, wrong = self.answer.own, self.wrong
        named = [
            f"{self.question.named([each])}: {wrong[each]}"
            if each in wrong
            else f"{self.question.shows(each)}."
            for each in value
            if each not in own
        ]
        off = (
            [f"Not {'it' if isinstance(self.answer, Each) else 'among them'}: {' '.join(named)}"]
            if named
            else []
        )
        if (missing := len(set(own) - set(value))) and isinstance(self.answer, Members):
            off.append(f"{missing} {'is' if missing == 1 else 'are'} missing.")
        return " ".join(off)

    def own(self) -> Any:
        """The engine's answer as a click would have given it."""
        kind = self.question.kind
        if kind == "one":
            ids = [option.id for option in self.question.options]
            return next((each for each in ids if self.answer.problem(each) is None), None)
        if kind == "line":
            return float(self.answer.own)
        return self.answer.shown() if kind == "field" else list(self.answer.own)

    def clicked(self, value: Any) -> Any:
        """A typed answer as the value of a click; what names nothing stays as it is."""
        kind = self.question.kind
        if kind == "one":
            right = self.own() if self.answer.problem(value) is None else None
            ids = {option.id.lower(): option.id for option in self.question.options}
            text = "yes" if value is True else "no" if value is False else str(value)
            return right or ids.get(text.lower(), text)
        if kind == "line":
            return float(value) if isinstance(value, int | float) else self.answer.own
        if isinstance(self.answer, Members):
            return self.answer.plain(value)
        return [str(each) for each in value] if kind in ("each", "order") else str(value)

    def plain(self) -> dict[str, Any]:
        """The judge as values that JSON has. Raises Unsupported for one that asks a function."""
        kind = type(self.answer).__name__
        if kind not in _KINDS or callable(self.hint) or callable(self.why):
            why = f"its answer is a {kind}" if kind not in _KINDS else "its hint or its reason is a function"
            raise ts.Unsupported(f"task {self.question.name!r} in a page", why=why)
        asked = self.question
        question = {name: getattr(asked, name) for name in _TEXTS}
        question |= {
            "options": [[option.id, option.words] for option in asked.options],
            "ruler": asdict(asked.ruler) if asked.ruler else None,
            "picture": _plain_picture(asked.picture),
        }
        answer = {"is": kind} | asdict(self.answer)  # type: ignore[call-overload]  # each of _KINDS is a dataclass
        said = {"hint": self.hint, "why": self.why, "wrong": dict(self.wrong)}
        return {"question": question, "answer": answer, **said}


def judge_of(plain: Mapping[str, Any]) -> TaskJudge:
    """The judge that `TaskJudge.plain` wrote down."""
    asked, answer = dict(plain["question"]), dict(plain["answer"])
    kind = _KINDS[answer.pop("is")]
    listed = {
        name: tuple(tuple(each) if isinstance(each, list) else each for each in value)
        for name, value in answer.items()
        if isinstance(value, list)
    }
    options = tuple(TaskOption(*each) for each in asked.pop("options"))
    ruler, picture = asked.pop("ruler"), asked.pop("picture")
    question = TaskQuestion(
        **asked,
        options=options,
        ruler=Ruler(**ruler) if ruler else None,
        picture=_picture_of(picture) if picture else None,
    )
    return TaskJudge(question, kind(**answer | listed), plain["hint"], plain["why"], plain["wrong"])


def phrase(text: Phrase, value: Any) -> str:
    """A text, or what it says of a value."""
    return text if isinstance(text, str) else text(value)


def _plain_picture(picture: Picture | None) -> dict[str, Any] | None:
    if isinstance(picture, RunPicture):
        shown = {"num_levels": picture.num_levels, "by": picture.by, "key": picture.key}
        return shown | {"files": json.loads(json.dumps(picture.files.to_pylist(), default=str))}
    return asdict(picture) if picture else None


def _picture_of(plain: Mapping[str, Any]) -> Picture:
    if "files" in plain:
        times = ((row, row.get("creation_time")) for row in plain["files"])
        rows = [{**row, "creation_time": time and datetime.fromisoformat(time)} for row, time in times]
        return RunPicture(**{**plain, "files": pa.Table.from_pylist(rows)})
    cells_of = tuple(
        (label, tuple(Cell(**cell) if cell else None for cell in cells)) for label, cells in plain["rows"]
    )
    return Grid(tuple(plain["heads"]), cells_of)
