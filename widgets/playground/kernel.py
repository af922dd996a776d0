"""What runs in the browser in place of a kernel: it makes a page's views and passes traits and messages.

    {"id": "w3", "state": {"index": 2}} or {"id": "w3", "content": {"verb": "step"}}
                                             → {"w3": {"frame": …}, "w5": {"plan": …}}

One message at a time, in the worker's one thread; a job that a view would run in the background is run at
once, and only its progress is told meanwhile. Called by `worker.js`, and by tests in a process without Arrow
and numpy.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import absent  # type: ignore[import-not-found]  # a module of `columns`, in the browser only

absent.install()


class _AtOnce(threading.Thread):
    """A thread where there are none: its work is done by `start`."""

    def start(self) -> None:
        self.run()

    def join(self, timeout: float | None = None) -> None:
        """It is over already."""

    def is_alive(self) -> bool:
        """It is over already."""
        return False


threading.Thread = _AtOnce  # type: ignore[misc]  # every view's job; there is no other thread in a worker

import anywidget
from widgets.playground.recipes import views_of

_UNSEEN = ("assets", "layout")
OPENED: dict[str, Any] = anywidget.OPENED  # type: ignore[attr-defined]  # that of `columns`


def begin(recipe: str, tell: Callable[[str], object] | None = None) -> str:
    """Make the views of a recipe; their ids and states in order. `tell` hears of progress in changes of a
    view, while a message is carried out."""
    views: list[Any] = list(views_of(json.loads(recipe)))
    for view in views:
        view.changed.clear()
        if tell is not None and view.has_trait("progress"):
            view.observe(lambda change: tell(_progress(change["owner"])), "progress")
    return _text([{"id": view.model_id, "state": _state(view, view.synced)} for view in views])


def receive(message: str) -> str:
    """Carry out a message of the page; what changed in which view."""
    asked = json.loads(message)
    widget = OPENED[asked["id"]]
    for name, value in asked.get("state", {}).items():
        setattr(widget, name, value)
    if "content" in asked:
        widget.receive(asked["content"])
    answer = {}
    for name, each in OPENED.items():
        if each.changed:
            answer[name] = _state(each, sorted(each.changed))
            each.changed.clear()
    return _text(answer)


def _progress(widget: Any) -> str:
    return _text({widget.model_id: {"progress": widget.progress}})


def _state(widget: Any, names: list[str]) -> dict[str, Any]:
    return {name: getattr(widget, name) for name in names if name not in _UNSEEN}


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=str)
