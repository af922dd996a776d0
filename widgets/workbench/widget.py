"""Workbench: one line opens the whole cockpit of a table.

Head, timeline, levels beside the next compaction, three amplification charts, and a row of further views that
are built when they are first opened. Every part is a view of its own and linked to the others; the workbench
only places them. Above `MANY` buckets the health of the table stands below the timeline, once the history is
read, which begins when a page shows it. Traits: `parts` (the views by name), `tool` (the open further view),
`opened` (bucket id), `reading` (what of the history is read now), `newer` (commits since the table was read),
`watch` (whether the page reads them by itself). A source that cannot compact has no panel, one without
amplification no charts. Not thread-safe; callers serialise.
"""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import anywidget
import traitlets

import tablestore as ts
from widgets.amplification.widget import AmplificationChart
from widgets.controls.widget import CompactionControls
from widgets.health.widget import TableHealth
from widgets.history.moments import SOON, Moment, moments_of
from widgets.kit import page, static, svg
from widgets.kit.assets import of_kernel
from widgets.kit.cell import NotebookCell
from widgets.kit.jobs import JobRunner, Stopped, ViewJob
from widgets.kit.links import Shared
from widgets.kit.svg import Figure
from widgets.kit.theme import Theme
from widgets.kit.view import View, module, require_source
from widgets.kit.watch import Watch
from widgets.levels.widget import LsmLevels
from widgets.playground.own_table import table_page
from widgets.timeline.widget import SnapshotTimeline
from widgets.workbench.figure import PANEL, WIDE, cockpit_figure, head_figure
from widgets.workbench.model import Head, head_of, text_of
from widgets.workbench.tools import TOOLS

FILES_SOON = 200
"""Of more live files amplification is read in the background, after the first picture."""
MANY = 8
"""Buckets above which the health of the whole table is shown."""
LOOK_SECONDS = 1.0
"""Between two looks for newer commits, while a page shows the workbench."""
MAIN = ("timeline", "health", "levels", "controls", "amplification")


def _references(parts: dict[str, View], _owner: object) -> dict[str, str]:
    return {name: f"anywidget:{view.model_id}" for name, view in parts.items()}


V = TypeVar("V", bound=View)


class Workbench(anywidget.AnyWidget):
    """The whole cockpit: timeline, levels, next compaction and amplification, linked; further views on
    demand.

    `table` is a table or a simulation; `partition` ("day=mon") and `bucket` limit it to a partition or
    bucket. While a page shows it, commits of this process and of others are counted in its head, where a
    click goes to the newest. With `watch` the page reads them by itself: a view of the newest commit follows,
    one of an older commit stays.

    >>> bench = widgets.Workbench(orders).show("merge")
    >>> list(bench.parts)
    ['timeline', 'levels', 'controls', 'amplification', 'merge']
    """

    _esm = module("workbench")
    assets = anywidget.WidgetTrait().tag(sync=True)
    head = traitlets.Dict().tag(sync=True)
    parts = traitlets.Dict().tag(sync=True, to_json=_references)
    tools: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    tool = traitlets.Unicode("").tag(sync=True)
    trouble = traitlets.Unicode("").tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=True)
    reading = traitlets.Unicode("").tag(sync=True)
    newer = traitlets.Int(0).tag(sync=True)
    watch = traitlets.Bool(False).tag(sync=True)
    _jobs: JobRunner | None = None
    _watcher: Watch | None = None

    def __init__(
        self, table: Any, partition: str | None = None, bucket: int | None = None, *, watch: bool = False
    ) -> None:
        require_source(table, type(self).__name__)
        self._source, self._shown, self._pages = table, (None, 0), 0
        self._begun, self._moments = False, moments_of(table)
        self._scope = {"partition": partition, "bucket": bucket}
        self.shared, self._placing, self._closed = Shared(self), threading.RLock(), False
        self._jobs, self._cell = JobRunner("history"), NotebookCell()
        super().__init__(assets=of_kernel(), watch=watch)
        self._watcher = Watch(self._look, "workbench-watch")
        self.on_msg(self._on_verb)
        try:
            with self.hold_sync():
                self._make_parts(table, partition, bucket)
        except Exception:
            self.close()
            raise

    def _make_parts(self, table: Any, partition: str | None, bucket: int | None) -> None:
        many = getattr(table.inspect, "snapshot_count", lambda: 0)() > SOON
        self.timeline = self._add(
            "timeline", SnapshotTimeline(table, heading=self._timed, newest=SOON if many else None)
        )
        self.levels = self._add(
            "levels", LsmLevels(table, partition, bucket, snapshot=self.timeline.snapshot)
        )
        self.controls = self.amplification = None
        if hasattr(table, "compact"):
            self.controls = self._add("controls", CompactionControls(table, partition, bucket))
        if hasattr(table.inspect, "amplification"):
            later = many or self.levels.data().num_rows > FILES_SOON
            self.amplification = self._add("amplification", AmplificationChart(table, later=later))
        self._join()
        self.tools = [[tool.name, tool.title, tool.refused(table)] for tool in TOOLS]
        self._show_head()
        self.observe(lambda _change: self._open_tool(), "tool")
        self.levels.observe(lambda _change: self._show_head(), "frame")

    def read_history(self) -> Self:
        """Read what the first picture does not need, in the background: older commits, amplification, the
        edits from which the page draws any moment, what each commit did. Once; `wait` blocks until it is
        done."""
        if not self._begun and self._jobs is not None:
            self._begun = True
            self._jobs.restart(self._read, patience=0.0)
        return self

    def _read(self, job: ViewJob) -> None:
        steps = (
            ("older commits", self.timeline.complete),
            ("the files of each commit", self.levels.read_history),
            ("the health of the table", self._show_health),
            ("amplification", self.amplification.wait if self.amplification is not None else None),
            ("what each commit did", self._tell if self.controls is not None else None),
        )
        try:
            for i, (what, step) in enumerate(steps, 1):
                job.check()
                if step is not None:
                    self.reading = f"reading the history, {i} of {len(steps)}: {what}"
                    step()
                    self._show_head()
        except Stopped:
            raise
        except Exception as error:
            self.reading = f"the history could not be read: {error}"
            raise
        self.reading = ""

    def _tell(self) -> None:
        """Say in the panel what each commit did."""
        self._moments.stories()
        if self.controls is not None and self.controls.stories():
            self.controls.redraw()

    def _show_health(self) -> None:
        """The table first, then a bucket: where there are many buckets, and none was asked for."""
        measured = hasattr(self._source.inspect, "health") and all(v is None for v in self._scope.values())
        if not measured or len(self.head.get("buckets", ())) <= MANY or "health" in self.parts:
            return
        snapshot, opened = self.timeline.snapshot, self.levels.opened
        view = self._cell.run(lambda: TableHealth(self._source, snapshot=snapshot, opened=opened))
        self._add("health", view)
        self.timeline.link(view)
        view.link(self.levels)

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the history is read."""
        self.read_history()
        if self._jobs is not None:
            self._jobs.wait(timeout)
        return self

    def _on_verb(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        verb = content.get("verb")
        if verb in ("shown", "hidden"):
            self._pages = max(self._pages + (1 if verb == "shown" else -1), 0)
            self._follow()
        elif verb == "refresh":
            self.refresh()
        elif verb == "newest":
            self.refresh()
            self.timeline.index = len(self.timeline.model) - 1

    def _follow(self) -> None:
        """Read the history and look for newer commits as long as a page shows the workbench."""
        if self._watcher is None:
            return
        if not self._pages:
            self._watcher.stop()
        elif not self._watcher.running:
            self.read_history()
            self._watcher.start(LOOK_SECONDS)

    def _look(self) -> None:
        """Say how many commits there are since the table was read."""
        self.newer = self.timeline.newer()

    def state(self, snapshot: int | None = None) -> Moment:
        """The state after a snapshot (None: the one that is shown), of which every panel shows its part."""
        return self._moments.state(self.timeline.snapshot if snapshot is None else snapshot)

    def _add(self, name: str, view: V) -> V:
        """`view`, as a part of this name. A workbench that was closed meanwhile has no place for it."""
        with self._placing:
            if not self._closed:
                self.parts = {**self.parts, name: view}
                return view
        view.close()
        raise Stopped("the workbench is closed")

    def _join(self) -> None:
        """Link every part to the timeline, and those that know buckets and keys to the levels."""
        for view in self.views:
            if view is not self.timeline:
                self.timeline.link(view)
            if view not in (self.timeline, self.levels):
                view.link(self.levels)
        self.levels.shared.join(self.shared, "opened")

    def _show_head(self) -> None:
        shown = (self.levels.data(), len(self.timeline.model))
        if self.head and shown[0] is self._shown[0] and shown[1] == self._shown[1]:
            return
        self._shown = shown
        head = self._head()
        self.head = {
            "name": head.name,
            "kind": head.kind,
            "facts": [list(fact) for fact in head.facts],
            "warning": head.warning,
            "able": [[able.verb, able.works, able.why] for able in head.able],
            "reasons": [[able.verb, able.why] for able in head.reasons],
            "buckets": list(head.buckets),
            "code": self.code,
        }

    @property
    def source(self) -> Any:
        """The table or simulation."""
        return self._source

    def _head(self) -> Head:
        files, snapshots = self.levels.data(), len(self.timeline.model)
        return head_of(self._source, files, snapshots=snapshots, place=self._place)

    @property
    def _timed(self) -> str:
        """What the timeline is of: always the table."""
        return "Snapshots of the table" if self._place else "Snapshots"

    @property
    def _place(self) -> str:
        """`bucket 3`, `partition day=1`, `bucket 3 of day=1`; empty for a whole table."""
        partition, bucket = self._scope["partition"], self._scope["bucket"]
        if bucket is None:
            return f"partition {partition}" if partition else ""
        return f"bucket {bucket}" + (f" of {partition}" if partition else "")

    def _open_tool(self) -> None:
        """Build the chosen view when it is opened for the first time."""
        self.trouble = ""
        if not self.tool or self.tool in self.parts:
            return
        tool = next((each for each in TOOLS if each.name == self.tool), None)
        if tool is None or tool.refused(self._source):
            self.trouble = tool.refused(self._source) if tool else f"no view called {self.tool}"
            return
        try:
            view = self._add(tool.name, self._cell.run(lambda: tool.build(self._source, self.opened)))
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"
            return
        self.timeline.link(view)
        view.link(self.levels)

    def show(self, tool: str) -> Self:
        """Open one of the further views: files, merge, changelog, pruning, what_if, findings, readers."""
        self.tool = tool
        return self

    @property
    def views(self) -> tuple[View, ...]:
        """Every view that is open, in the order of the page."""
        return tuple(self.parts.values())

    @property
    def code(self) -> str:
        """The line that gives this workbench."""
        chosen = "".join(f", {name}={value!r}" for name, value in self._scope.items() if value is not None)
        chosen += ", watch=True" if self.watch else ""
        location = getattr(self._source, "location", None)
        table = f"ts.open({location!r})" if isinstance(location, str) else "source"
        return f"Workbench({table}{chosen})"

    def refresh(self) -> Self:
        """Read the table again."""
        for view in self.views:
            view.refresh()
        self._show_head()
        self._look()
        return self

    def close(self) -> None:
        """Close every part, then the workbench."""
        if self._watcher is not None:  # one that could not be made is closed, too
            self._watcher.stop()
        if self._jobs is not None:
            self._jobs.stop()
            with self._placing:
                self._closed, views = True, self.views
            for view in views:
                view.shared.part(self.shared)
                view.close()
        super().close()

    def picture(self, *, width: float = 1040, footer: bool = True) -> Figure:
        """The cockpit as one static figure, by default above a footer."""
        panel = PANEL if width >= WIDE and self.controls is not None else 0
        rooms = {
            "timeline": width,
            "health": width,
            "levels": width - panel,
            "controls": panel or width,
            "amplification": width - panel,
        }
        parts = {
            name: self.parts[name].picture(width=rooms[name], footer=False)
            for name in MAIN
            if name in self.parts
        }
        parts["head"] = head_figure(self._head(), width=width)
        return cockpit_figure(parts, width=width, note=self.timeline.note() if footer else "")

    def figure(self, *, width: float) -> Figure:
        """The cockpit where a drawing is asked for, such as behind a `Veil`."""
        return self.picture(width=width)

    def to_svg(self, *, width: float = 1040, theme: Theme = "light") -> str:
        """One SVG document with everything."""
        return svg.standalone(self.picture(width=width), theme=theme)

    def to_html(self, path: str | Path, *, title: str = "", play: bool = False) -> Path:
        """One file that is live without a kernel: the cockpit, and the further views that are open.

        With `play` the bucket that is opened goes on below them: whoever opens the file flushes, steps and
        changes options, by the engine's own rules, without a network. It adds 11 MB, and of each file of the
        bucket its name, level, size and counts, no row and no value. Raises InvalidRequest where there are no
        levels or too many files, NoPyodide where the Python for browsers cannot be had.
        """
        self.wait()
        target, name = Path(path), title or self._head().name
        written = table_page(self, title=name) if play else page.page(name, [self], heading=False)
        target.write_text(written, encoding="utf-8")
        return target

    def export(self) -> dict[str, Any]:
        """What the page needs of the workbench itself; its parts are exported beside it."""
        state = {"head": self.head, "tool": self.tool, "opened": self.opened, "trouble": self.trouble}
        missing = "not in this file: open it in the notebook before to_html()"
        tools = [
            [name, title, refused or ("" if name in self.parts else missing)]
            for name, title, refused in self.tools
        ]
        return {
            "kind": "workbench",
            "reply": "workbench",
            "state": state | {"tools": tools},
            "links": ["opened"],
        }

    def data(self) -> dict[str, Any]:
        """The data of each view by its name."""
        return {name: view.data() for name, view in self.parts.items()}

    def to_plotly(self, view: str = "timeline", **asked: Any) -> Any:
        """The chart of one of its views, see `widgets.plot`. Raises NotFound for a view that is not open."""
        if view not in self.parts:
            raise ts.NotFound.among("view", view, self.parts)
        return self.parts[view].to_plotly(**asked)

    def text(self) -> str:
        """Head and views in a terminal."""
        return "\n\n".join([text_of(self._head()), *(view.text() for view in self.views)])

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        picture = self.picture()
        html = static.image(svg.standalone(picture), alt=picture.label)
        return static.mimebundle(super()._repr_mimebundle_(**kwargs), text=self.text(), html=html)
