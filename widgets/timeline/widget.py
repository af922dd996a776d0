"""SnapshotTimeline: commits over time; moving through it is time travel for everything linked.

Traits: `index` (position), `snapshot` (id), `selected` ((id,)), `range` (the shown snapshots, first and last
id; empty for all), `jump` (text of the search field), `spoken` (the selected commit in words). The picture is
drawn again only when other commits, another width or another history must be shown; the page moves the
cursor. `watch` follows a job that writes, in a thread of its own; every reading holds the lock.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa
import traitlets

from widgets.chart.axes import Asked
from widgets.kit import format as fmt
from widgets.kit import static, svg
from widgets.kit.links import Settling
from widgets.kit.svg import Figure
from widgets.kit.view import LINKED, Source, module, require_source, title_of
from widgets.kit.watch import WatchingView
from widgets.timeline import figure as draw
from widgets.timeline.model import PAGE, TimelineModel, page_of, text_form, timeline_model

LEAST, GROW = 5, 2


class SnapshotTimeline(WatchingView):
    """Commits by kind, rows and bytes; moving through them is time travel for every linked view.

    `source` is a table, a simulation, or the Arrow table of `inspect.commits()`. `title` stands above the
    picture, beside the `heading`. `tags` names snapshots where there is no table to ask. `paused` are spans
    (first, last or None) of snapshots in which automatic compaction was off. `follow` is the seconds between
    two looks for new snapshots while a job writes (0: none), see `watch`. With `newest` only so many of the
    newest commits are read at first, the others by `complete`. Other traits (`snapshot`, `range`, …) go by
    keyword.

    >>> view = widgets.SnapshotTimeline(orders)
    >>> view.snapshot, view.data()["commit_kind"].to_pylist()
    (2, ['APPEND', 'APPEND'])
    """

    chart = Asked(x="snapshot_id", y=("rows_added", "rows_removed"))
    _esm = module("timeline")
    unreadable = ("The snapshots could not be read.", "Check the table, then refresh().")
    links = (*LINKED, "range")
    index = traitlets.Int(-1).tag(sync=True)
    range = traitlets.Tuple().tag(sync=True)
    jump = traitlets.Unicode("").tag(sync=True)
    spoken = traitlets.Tuple(("", "")).tag(sync=True)
    paused = traitlets.Tuple().tag(sync=False)

    def __init__(
        self,
        source: Source | pa.Table,
        *,
        title: str = "",
        heading: str = "Snapshots",
        tags: Mapping[str, int] | None = None,
        paused: Sequence[tuple[int, int | None]] = (),
        follow: float = 0.0,
        newest: int | None = None,
        **kwargs: object,
    ) -> None:
        require_source(source, type(self).__name__)
        seconds = float(follow)
        self._source, self._tags = source, dict(tags or {})
        self._title, self._heading = title or title_of(source), heading
        self._commits = pa.table({"snapshot_id": pa.array([], pa.int64())})
        self._model = timeline_model(self._commits, title=self._title)
        self._settling, self._at_first = Settling(self._agree), newest
        self._reading = threading.RLock()
        self._read_to: int | None = None
        super().__init__(paused=tuple(paused), **kwargs)
        self.observe(self._on_index, "index")
        self.observe(self._on_snapshot, "snapshot")
        self.observe(self._on_jump, "jump")
        self.observe(lambda _change: self.redraw(), "range")
        self.observe(lambda _change: self.refresh(), "paused")
        self.refresh()
        if seconds:
            self.watch(seconds)

    @property
    def model(self) -> TimelineModel:
        """The commits as columns."""
        return self._model

    def _load(self) -> None:
        self._read_to = self._newest()  # before reading: what comes meanwhile is newer
        inspect = getattr(self._source, "inspect", None)
        commits, unread = (self._source, 0) if inspect is None else self._commits_of(inspect)
        names = inspect.references() if inspect is not None and hasattr(inspect, "references") else None
        follows = not len(self._model) or self.index >= len(self._model) - 1
        current = self.snapshot
        self._commits = commits
        self._model = timeline_model(
            commits, title=self._title, tags=self._tags, references=names, paused=self.paused
        )
        self._model = replace(self._model, unread=unread)
        kept = None if follows or current is None else self._model.index_of(current)
        self._settle(len(self._model) - 1 if kept is None else kept)
        self.redraw()

    def _commits_of(self, inspect: Any) -> tuple[pa.Table, int]:
        """The commits, or the newest of them as long as the others are to be read later, and how many these
        are."""
        if self._at_first is None or not hasattr(inspect, "snapshot_count"):
            return inspect.commits(), 0
        newest = inspect.commits(newest=self._at_first)
        return newest, inspect.snapshot_count() - newest.num_rows

    def complete(self) -> Self:
        """Read the commits that were left for later."""
        with self._reading:
            if self._at_first is not None:
                self._at_first = None
                if self._model.unread:
                    self.refresh()
        return self

    def look(self) -> None:
        """Read again if there is a new snapshot."""
        if self._newest() is None or self.newer():
            self.refresh()

    def newer(self) -> int:
        """How many commits there are since it was read; 1 for a table that went back, 0 where the source
        does not say."""
        newest, read_to = self._newest(), self._read_to
        return 0 if newest is None or newest == read_to else max(newest - (read_to or 0), 1)

    def _newest(self) -> int | None:
        """The id of the newest snapshot, without reading any; None if that takes a read."""
        newest = getattr(getattr(self._source, "inspect", None), "latest_snapshot_id", None)
        try:
            return None if newest is None else newest()
        except OSError:  # the next refresh shows it
            return None

    def _settle(self, index: int) -> None:
        """Make all traits name the same commit."""
        model = self._model
        there = 0 <= index < len(model)
        with self._settling:
            self.index = index
            self.spoken = (model.sentence(index), model.spoken(index)) if there else ("", "")
            self.snapshot = int(model.ids[index]) if there else None
            self.selected = () if self.snapshot is None else (self.snapshot,)

    def _agree(self) -> None:
        """Go to the snapshot that another thread has chosen meanwhile."""
        if 0 <= self.index < len(self._model) and self.snapshot != int(self._model.ids[self.index]):
            self._on_snapshot({"new": self.snapshot})

    def _on_index(self, change: Mapping[str, Any]) -> None:
        if self._settling or not len(self._model):
            return
        with self._reading:
            self._settle(min(max(int(change["new"]), 0), len(self._model) - 1))
            self._show_index()

    def _show_index(self) -> None:
        """Draw again if the selected commit does not stand in the picture."""
        shown = self.frame.get("meta", {})
        if not shown.get("first", 0) <= self.index < shown.get("last", 0):
            self._shift() if self.range else self.redraw()

    def _shift(self) -> None:
        """Move the range so that it holds the selected commit; it keeps its length."""
        first, last = self._chosen() or (0, 0)
        by = self.index - last + 1 if self.index >= last else min(self.index - first, 0)
        self._show(first + by, last + by)

    def _show(self, first: int, last: int) -> None:
        """Show the positions [first, last), or all if that is all."""
        first, last = max(first, 0), min(last, len(self._model))
        whole = last - first >= len(self._model)
        self.range = (
            () if whole or last <= first else (int(self._model.ids[first]), int(self._model.ids[last - 1]))
        )

    def zoom(self, factor: float) -> Self:
        """Show `factor` times fewer commits around the selected one; below 1 more; at last all again."""
        width = self.width
        first, last = draw.shown_at(self._model, self.index, width, self._chosen())
        length = max(round((last - first) / factor), LEAST)
        start = min(max(self.index - length // 2, 0), max(len(self._model) - length, 0))
        self._show(start, start + length)
        return self

    def _on_verb(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        if content.get("verb") == "zoom":
            self.zoom(GROW if content.get("closer") else 1 / GROW)
        elif content.get("verb") == "range":
            self._show(int(content.get("first", 0)), int(content.get("last", 0)) + 1)
        else:
            super()._on_verb(widget, content, buffers)

    def _chosen(self) -> tuple[int, int] | None:
        """The positions of `range`."""
        if len(self.range) != 2 or not len(self._model):
            return None
        first, last = self._model.span(int(self.range[0]), int(self.range[1]))
        return (first, last) if last > first else None

    def _on_snapshot(self, change: Mapping[str, Any]) -> None:
        if self._settling or change["new"] is None or not len(self._model):
            return
        index = self._model.index_of(int(change["new"]))
        if index is not None:
            self.index = index

    def _on_jump(self, change: Mapping[str, Any]) -> None:
        index = self._model.find(str(change["new"]))
        if index is not None:
            self.index = index

    def figure(self, *, width: float) -> Figure:
        """The picture with its cursor."""
        return draw.timeline_figure(self._model, index=self.index, width=width, chosen=self._chosen())

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, how many commits, how many a bar stands for."""
        return self._words(width, self._chosen())

    def _words(self, width: float, chosen: tuple[int, int] | None) -> dict[str, Any]:
        legend = draw.legend(width, expired=bool(self._model.expired))
        words = {"title": self._heading, "subtitle": self._subtitle(width, chosen)}
        return words | {"legend": svg.live(legend), "legend_body": legend.body}

    def _subtitle(self, width: float, chosen: tuple[int, int] | None) -> str:
        model = self._model
        if not len(model):
            return f"{self._title} · 0 snapshots" if self._title else "0 snapshots"
        parts = [self._title] if self._title else []
        if model.unread:
            parts.append(
                f"the newest {fmt.plural(len(model), 'commit')}, reading {model.unread:,} older ones …"
            )
        else:
            parts.append(fmt.plural(len(model), "commit"))
        if draw.is_dense(model, width):
            parts.append(f"1 bar = {draw.commits_a_bar(model, width)} commits")
        first, last = model.time(0), model.time(len(model) - 1)
        if first is not None and last is not None and first.date() != last.date():
            parts.append(f"{first.day} {first:%b} … {last.day} {last:%b %Y}")
        if chosen:
            parts.insert(1, f"showing #{model.ids[chosen[0]]} … #{model.ids[chosen[1] - 1]}")
        return " · ".join(parts)

    def text(self) -> str:
        """The timeline in a terminal."""
        return text_form(self._model, self.index)

    def data(self) -> pa.Table:
        """The commits as read; with a `range` those in it."""
        if len(self.range) != 2 or not self._commits.num_rows:
            return self._commits
        ids, (low, high) = self._commits["snapshot_id"].to_numpy(), sorted(self.range)
        return self._commits.filter(pa.array((ids >= low) & (ids <= high)))

    @property
    def code(self) -> str:
        """The Python lines that give what is shown."""
        last = self._title.rpartition(".")[2]
        name = last if last.isidentifier() else "table"
        line = f"{name}.inspect.commits()"
        if len(self.range) == 2:
            low, high = sorted(self.range)
            line += f'.filter((pc.field("snapshot_id") >= {low}) & (pc.field("snapshot_id") <= {high}))'
        return line

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """One frame a page of commits (one in all if they fit) and width."""
        frames = {}
        for width in widths:
            paged = draw.is_dense(self._model, width)
            starts = [*range(0, max(len(self._model), 1), PAGE)] if paged else [self.index]
            figures = {page_of(at) if paged else 0: self._drawn(at, width) for at in starts}
            frames[str(width)] = {str(number): static.frame(figure) for number, figure in figures.items()}
        words = {str(width): self._words(width, None) for width in widths}
        shown = {"range": [], "spoken": list(self.spoken)}
        spec = self.export_spec("timeline", widths, frames, "index", "snapshot", "selected", **shown)
        return spec | {
            "words": words,
            "page": PAGE,
            "paged": any(draw.is_dense(self._model, width) for width in widths),
            "ids": self._model.ids.tolist(),
            "tags": dict(self._model.tags),
        }

    def _drawn(self, index: int, width: int) -> Figure:
        return draw.timeline_figure(self._model, index=index, width=width, cursor=False)
