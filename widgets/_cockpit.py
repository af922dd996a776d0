"""The cockpit of a table: timeline above, levels and the next compaction below, all linked.

A composite with its own static picture, because a plain box of widgets has none where there is no kernel.
Built by `widgets.cockpit`; pages of several views by `widgets.page`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ipywidgets

from widgets import _page, _static, _svg
from widgets._svg import Figure
from widgets._theme import Theme, var
from widgets._view import View
from widgets.controls.widget import Compactable, CompactionControls
from widgets.levels.widget import LsmLevels
from widgets.timeline.widget import SnapshotTimeline


class Cockpit(ipywidgets.VBox):
    """Linked views of one table."""

    def __init__(self, timeline: SnapshotTimeline, levels: LsmLevels, controls: CompactionControls) -> None:
        self.timeline, self.levels, self.controls = timeline, levels, controls
        levels.layout = ipywidgets.Layout(flex="1 1 600px", min_width="0")
        controls.layout = ipywidgets.Layout(flex="1 1 324px", min_width="324px")
        below = ipywidgets.HBox([levels, controls], layout=ipywidgets.Layout(flex_flow="row wrap"))
        super().__init__([timeline, below])

    @property
    def views(self) -> tuple[View, ...]:
        """Timeline, levels, controls."""
        return (self.timeline, self.levels, self.controls)

    def refresh(self) -> "Cockpit":
        """Read the table again."""
        for view in self.views:
            view.refresh()
        return self

    def picture(self, *, width: float = 1040) -> Figure:
        """All three views as one static figure."""
        panel = 324 if width >= 960 else 0
        top = self.timeline.picture(width=width, footer=False)
        levels = self.levels.picture(width=width - panel, footer=False)
        controls = self.controls.picture(width=panel or width, footer=False)
        foot = _static.footer(width, self.timeline.note())
        if not panel:
            return _svg.stack([top, levels, _tinted(controls, controls.height), foot], gap=8)
        height = max(levels.height, controls.height)
        side = _svg.group(_tinted(controls, height).body, transform=f"translate({_svg.num(width - panel)} 0)")
        below = Figure(width, height, levels.body + side, f"{levels.label}. {controls.label}")
        return _svg.stack([top, below, foot], gap=8)

    def to_svg(self, *, width: float = 1040, theme: Theme = "light") -> str:
        """One SVG document with all three."""
        return _svg.standalone(self.picture(width=width), theme=theme)

    def to_html(self, path: str | Path, *, title: str = "") -> Path:
        """One file that is live without a kernel: timeline, levels, and the panel as it stands."""
        target = Path(path)
        target.write_text(_page.page(title or "Cockpit", self.views), encoding="utf-8")
        return target

    def data(self) -> dict[str, Any]:
        """The data of each view."""
        return {"commits": self.timeline.data(), "files": self.levels.data(), "picks": self.controls.data()}

    def text(self) -> str:
        """The three views in a terminal."""
        return "\n\n".join(view.text() for view in self.views)

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, Any]:
        data = dict(super()._repr_mimebundle_(**kwargs) or {})
        picture = self.picture()
        data["text/plain"] = self.text()
        data["text/html"] = _static.image(_svg.standalone(picture), alt=picture.label)
        return data


def _tinted(figure: Figure, height: float) -> Figure:
    """A panel's figure on the panel's colour."""
    ground = _svg.rect(0, 0, figure.width, height, fill=var("panel"))
    return Figure(figure.width, height, ground + figure.body, figure.label)


def cockpit(table: Compactable, partition: str | None = None, bucket: int | None = None) -> Cockpit:
    """Timeline, levels and controls of `table`, linked; of one partition or bucket if they are given."""
    timeline = SnapshotTimeline(table)
    levels = LsmLevels(table, partition=partition, bucket=bucket, snapshot=timeline.snapshot)
    controls = CompactionControls(table, partition=partition, bucket=bucket)
    timeline.link(levels)
    timeline.link(controls)
    controls.link(levels)
    return Cockpit(timeline, levels, controls)


def page(title: str, views: Sequence[Any]) -> str:
    """One self-contained HTML page of views: live without a kernel, no request to anywhere."""
    flat: list[Any] = []
    for view in views:
        flat += view.views if isinstance(view, Cockpit) else [view]
    return _page.page(title, flat)
