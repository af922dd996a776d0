"""Views and workbenches side by side: two tables, or one table at two moments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ipywidgets  # type: ignore[import-untyped]  # it has none

from widgets.kit import static, svg
from widgets.kit.page import PAGE_WIDTH, page

_LEAST = 620
"""Pixels of a column; where there is less room the views stand below one another."""


class Beside(ipywidgets.GridBox):
    """Views and workbenches in columns, where there is room for them; each has its own moment.

    `views` are two or more of any kind. Raises TypeError for what is none.

    >>> before, after = widgets.Workbench(orders), widgets.Workbench(orders)
    >>> before.timeline.snapshot = 1
    >>> both = widgets.Beside(before, after)  # in a notebook: the last line of a cell shows it
    >>> both.to_html("both.html").name
    'both.html'
    """

    def __init__(self, *views: Any) -> None:
        for view in views:
            if not hasattr(view, "to_html"):
                raise TypeError(f"Beside takes views and workbenches, not {type(view).__name__}")
        columns = f"repeat(auto-fit, minmax(min(100%, {_LEAST}px), 1fr))"
        super().__init__(views, layout=ipywidgets.Layout(grid_template_columns=columns, grid_gap="12px"))

    def to_html(self, path: str | Path, *, title: str = "") -> Path:
        """One file that is live without a kernel."""
        for view in self.children:
            if hasattr(view, "wait"):
                view.wait()
        target = Path(path)
        text = page(title, self.children, heading=bool(title), columns=len(self.children))
        target.write_text(text, encoding="utf-8")
        return target

    def text(self) -> str:
        """The views in a terminal, one after another."""
        return "\n\n".join(view.text() for view in self.children)

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        drawn = [view.picture(width=PAGE_WIDTH) for view in self.children]
        html = "".join(static.image(svg.standalone(each), alt=each.label) for each in drawn)
        return static.mimebundle(super()._repr_mimebundle_(**kwargs), text=self.text(), html=html)
