"""SnapshotTimeline: commits over time; moving through it is time travel for everything linked.

Traits: `index` (position), `snapshot` (id), `selected` ((id,)), `jump` (text of the search field). The
picture is drawn again only when another page of commits, another width or another history must be shown;
the page moves the cursor.
"""

from collections.abc import Mapping
from typing import Any, Self

import pyarrow as pa
import traitlets

from widgets import _format as fmt
from widgets import _static, _svg
from widgets._svg import Figure
from widgets._view import Source, View, module, title_of
from widgets.timeline import figure as draw
from widgets.timeline.model import PAGE, TimelineModel, page_of, text_form, timeline_model


class SnapshotTimeline(View):
    """Commits by kind, rows and bytes, from a table or from the Arrow table of its commits."""

    _esm = module("timeline/view.js", "renderTimeline")
    index = traitlets.Int(-1).tag(sync=True)
    jump = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        source: Source | pa.Table,
        *,
        title: str = "",
        tags: Mapping[str, int] | None = None,
        **kwargs: object,
    ) -> None:
        self._source, self._tags = source, dict(tags or {})
        self._title = title or title_of(source)
        self._commits = pa.table({"snapshot_id": pa.array([], pa.int64())})
        self._model = timeline_model(self._commits, title=self._title)
        self._settling = False
        super().__init__(**kwargs)
        self.observe(self._on_index, "index")
        self.observe(self._on_snapshot, "snapshot")
        self.observe(self._on_jump, "jump")
        self.refresh()

    @property
    def model(self) -> TimelineModel:
        """The commits as columns."""
        return self._model

    def refresh(self) -> Self:
        """Read the commits again. A view of the latest follows the latest, any other keeps its snapshot."""
        self.guarded(
            self._load, what="The snapshots could not be read.", next_step="Check the table, then refresh()."
        )
        return self

    def _load(self) -> None:
        commits = self._source if isinstance(self._source, pa.Table) else self._source.inspect.commits()
        follows = not len(self._model) or self.index >= len(self._model) - 1
        held = self.snapshot
        self._commits = commits
        self._model = timeline_model(commits, title=self._title, tags=self._tags)
        kept = None if follows or held is None else self._model.index_of(held)
        self._settle(len(self._model) - 1 if kept is None else kept)
        self.redraw()

    def _settle(self, index: int) -> None:
        """Make all traits say the same commit."""
        self._settling = True
        try:
            self.index = index
            self.snapshot = int(self._model.ids[index]) if 0 <= index < len(self._model) else None
            self.selected = () if self.snapshot is None else (self.snapshot,)
        finally:
            self._settling = False

    def _on_index(self, change: Mapping[str, Any]) -> None:
        if self._settling or not len(self._model):
            return
        self._settle(min(max(int(change["new"]), 0), len(self._model) - 1))
        shown = self.frame.get("meta", {})
        if not shown.get("first", 0) <= self.index < shown.get("last", 0):
            self.redraw()

    def _on_snapshot(self, change: Mapping[str, Any]) -> None:
        if self._settling or change["new"] is None:
            return
        found = self._model.index_of(int(change["new"]))
        if found is not None:
            self.index = found

    def _on_jump(self, change: Mapping[str, Any]) -> None:
        found = self._model.find(str(change["new"]))
        if found is not None:
            self.index = found

    def figure(self, *, width: float) -> Figure:
        """The picture with its cursor."""
        return draw.timeline_figure(self._model, index=self.index, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, how many commits, how many a bar stands for."""
        legend = draw.legend(width)
        words = {"title": "Snapshots", "subtitle": self._subtitle(width)}
        return words | {"legend": _svg.live(legend), "legend_body": legend.body}

    def _subtitle(self, width: float) -> str:
        model = self._model
        if not len(model):
            return f"{self._title} · 0 snapshots" if self._title else "0 snapshots"
        parts = [self._title] if self._title else []
        parts.append(fmt.plural(len(model), "commit"))
        first, last = model.time(0), model.time(len(model) - 1)
        if first is not None and last is not None and first.date() != last.date():
            parts.append(f"{first.day} {first:%b} … {last.day} {last:%b %Y}")
        if draw.is_dense(model, width):
            room = width - 2 * draw.MARGIN - draw.GUTTER
            parts.append(f"1 bar = {-(-len(model) // int(room // draw.BIN))} commits")
        return " · ".join(parts)

    def text(self) -> str:
        """The timeline in a terminal."""
        return text_form(self._model, self.index)

    def data(self) -> pa.Table:
        """The commits as read."""
        return self._commits

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """One frame a page of commits (one in all if they fit) and width."""
        frames = {}
        for width in widths:
            paged = draw.is_dense(self._model, width)
            starts = range(0, max(len(self._model), 1), PAGE) if paged else [self.index]
            figures = {page_of(at) if paged else 0: self._drawn(at, width) for at in starts}
            frames[str(width)] = {str(number): _static.frame(figure) for number, figure in figures.items()}
        words = {str(width): self.words(width=width) for width in widths}
        return {
            "kind": "timeline",
            "reply": "timeline",
            "widths": list(widths),
            "frames": frames,
            "words": words,
            "page": PAGE,
            "paged": any(draw.is_dense(self._model, width) for width in widths),
            "ids": self._model.ids.tolist(),
            "tags": dict(self._model.tags),
            "state": {
                "index": self.index,
                "snapshot": self.snapshot,
                "width": widths[0],
                "selected": self.selected,
            },
        }

    def _drawn(self, index: int, width: int) -> Figure:
        return draw.timeline_figure(self._model, index=index, width=width, cursor=False)
