"""A lesson that was run, as the recipe of a page that plays: `docs --playground` asks for it in the kernel.

Called by `notebooks.cli.lesson_page`, in a cell below those of the lesson.
"""

from __future__ import annotations

from typing import Any

from IPython import get_ipython

import tablestore as ts
import widgets
from notebooks.course import tasks
from widgets.playground.lesson import plain_veil


class LessonRecipe:
    """The recipe of the present lesson, as the last value of a cell, with the ids of its views: its tasks,
    what is behind veils, its score, and the trade-off maps that its cells have a name for. A task that asks a
    function stays a picture."""

    def __init__(self) -> None:
        lesson = tasks.present()
        self.ids: list[str] = []
        self.views: list[dict[str, Any]] = []
        self.title = lesson.name
        recorded = set()
        for name, task in lesson.tasks.items():
            try:
                self._add(task.view.model_id, {"task": task.judge.plain()})
            except ts.Unsupported:
                continue
            recorded.add(name)
        for name, note, veil in lesson.veils:
            if name in recorded and veil.comm is not None:
                self._add(veil.model_id, plain_veil(name, note, veil))
        for view in lesson.shown:
            self._add(view.model_id, {"score": True})
        shell = get_ipython()
        named = shell.user_ns.values() if shell is not None else ()
        for view in {id(each): each for each in named if isinstance(each, widgets.TradeOff)}.values():
            self._add(view.model_id, {"trade_off": view.recipe()})

    def _add(self, model_id: str, view: dict[str, Any]) -> None:
        self.ids.append(model_id)
        self.views.append(view)

    def _repr_mimebundle_(self, **_more: Any) -> dict[str, Any]:
        recipe = {"kind": "lesson", "title": self.title, "views": self.views}
        return {"application/json": {"ids": self.ids, "recipe": recipe}, "text/plain": self.title}
