"""The views of a lesson as plain values, and the views again: tasks are judged in the page as in a kernel.

    {"kind": "lesson", "title": "02 Rows, files, runs", "views": [
        {"task": {"question": …, "answer": …}},
        {"veil": "rows in the file", "note": "…", "text": "…", "pictures": [[1040, 300, "<g>…", "…"], …]},
        {"trade_off": {"workload": {…}, "flushes": 120, …, "recorded": [{"write": 3.86, …}, …]}},
        {"score": true}]}

A veil waits for the task of that name; what is behind it is recorded, because the page has no table. Of a
trade-off map the outcomes of its workload are recorded; those of others are simulated in the page. Called by
`recipes`, and by the course, which writes the recipe down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from widgets.kit import assets, page
from widgets.kit.svg import Figure
from widgets.kit.view import View
from widgets.task.judge import judge_of
from widgets.task.model import Score
from widgets.task.widget import Task, TaskList, Veil
from widgets.trade_off.widget import TradeOff

WIDTHS = (1040, 660, 376)
"""Widths in which a lesson is recorded: a page, half of it, a telephone."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A picture that was drawn before, in some widths, the broadest first."""

    figures: tuple[Figure, ...]

    def figure(self, *, width: float) -> Figure:
        """The broadest that fits, else the narrowest."""
        return next((each for each in self.figures if each.width <= width + 20), self.figures[-1])


def plain_veil(task: str, note: str, veil: Veil) -> dict[str, Any]:
    """A veil as plain values; `task` is the name of the one it waits for."""
    if isinstance(veil.shown, str):
        return {"veil": task, "note": note, "text": veil.shown}
    drawn = [figure for width in WIDTHS if (figure := veil.behind(width)) is not None]
    return {"veil": task, "note": note, "pictures": [[f.width, f.height, f.body, f.label] for f in drawn]}


def waiting(view: View, at: int) -> dict[str, Any]:
    """What the page shows of a view at a place until Python plays it: its first pictures. What is clicked
    there (`carries`) goes on with it then."""
    if isinstance(view, TradeOff):
        return page.spec(view, at, widths=WIDTHS) | {"carries": ["index"]}
    frames = {}
    for width in WIDTHS:
        view.width = width
        frames[str(width)] = dict(view.frame)
    carries = [name for name in ("value", "asked", "committed") if view.has_trait(name)]
    state = {name: getattr(view, name) for name in ("part", *carries)} | {"frame": {}, "width": WIDTHS[0]}
    spec = {"kind": "task", "reply": "plain", "entry": assets.renderer("task"), "widths": list(WIDTHS)}
    return spec | {
        "frames": frames,
        "words": {},
        "state": state,
        "carries": carries,
        "group": at,
        "links": [],
    }


def lesson_views(title: str, views: Sequence[Mapping[str, Any]]) -> list[View]:
    """The views of a lesson in their order; every task stands before the veils that wait for it."""
    tasks: dict[str, Task] = {}
    placed: list[View] = []
    for plain in views:
        if "task" in plain:
            judge = judge_of(plain["task"])
            tasks[judge.question.name] = task = Task(judge.question, judge)
            placed.append(task)
        elif "veil" in plain:
            drawn = tuple(Figure(*each) for each in plain.get("pictures", ()))
            shown = Recording(drawn) if drawn else plain.get("text", "")
            placed.append(Veil(tasks[plain["veil"]], shown, note=plain["note"]))
        elif "trade_off" in plain:
            placed.append(TradeOff(**plain["trade_off"]).wait())
        else:
            placed.append(_score(title, tasks))
    return placed


def _score(title: str, tasks: dict[str, Task]) -> TaskList:
    """The score of the tasks; it follows what is answered."""
    tries = dict.fromkeys(tasks, 0)

    def score() -> Score:
        verdicts = {name: task.verdict for name, task in tasks.items()}
        states = tuple((name, each.state if each else "open") for name, each in verdicts.items())
        first = sum(state == "right" and tries[name] == 1 for name, state in states)
        return Score(title, states, first)

    def clear() -> None:
        tries.update(dict.fromkeys(tasks, 0))
        for task in tasks.values():
            task.again()

    view = TaskList(score(), clear=clear)

    def settled(change: Any) -> None:
        asked = change["name"] == "asked" and change["new"]
        tries[change["owner"].question.name] += bool(asked)
        view.update(score())

    for task in tasks.values():
        task.observe(settled, ["asked", "committed"])
    return view
