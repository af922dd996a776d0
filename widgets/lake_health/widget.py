"""LakeHealth: the tables of a warehouse, the worst first; a click opens one in a workbench below.

Tables are read one after another in the background; each that was read is shown at once, and Stop ends it.
Traits: `table` (the name of the one that is marked), `bench` (its `Workbench`, once `open_table` has made
it). Not thread-safe; callers serialise.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Self

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.chart.axes import Asked
from widgets.kit.jobs import PATIENCE, STATIC_PATIENCE, JobRunner, ViewJob, WorkingView
from widgets.kit.svg import Figure
from widgets.kit.view import module
from widgets.lake_health.figure import lake_figure
from widgets.lake_health.model import MAX_TABLES, LakeModel, TableRow, ordered, read, table_of, text_of
from widgets.workbench.widget import Workbench

REDRAW_SECONDS = 0.3


def _reference(bench: Workbench | None, _owner: object) -> str:
    return "" if bench is None else f"anywidget:{bench.model_id}"


class LakeHealth(WorkingView):
    """The tables of a lake by health: verdict, files, bytes, newest commits; the worst first.

    `lake` is what `ts.connect` gives. Other traits (`table`, `width`, …) go by keyword.

    >>> health = widgets.LakeHealth(ts.connect("lake")).wait()
    >>> health.data()["verdict"].to_pylist()
    ['healthy: 1 bucket, 2 runs, nothing due']
    """

    chart = Asked(x="table", y="bytes")
    _esm = module("lake_health")
    unreadable = ("The lake could not be read.", "Check its path, or its catalog.")
    verbs = ("stop",)
    table = traitlets.Unicode("").tag(sync=True)
    bench = traitlets.Instance(Workbench, allow_none=True).tag(sync=True, to_json=_reference)

    def __init__(self, lake: ts.Lake, **kwargs: object) -> None:
        self._jobs = JobRunner("lake")
        if not isinstance(lake, ts.Lake):
            raise ts.InvalidRequest(
                f"LakeHealth takes a lake, as ts.connect(path) gives it, not {lake!r:.80}"
            )
        self._lake = lake
        self._model = LakeModel(lake.warehouse)
        self._trouble = ""
        super().__init__(**kwargs)
        self.refresh()
        self.observe(lambda _change: self.redraw(), "table")

    @property
    def model(self) -> LakeModel:
        """What is shown as a value."""
        return self._model

    @property
    def verdict(self) -> str:
        """The sentence at the top."""
        return self._model.verdict

    @property
    def code(self) -> str:
        """The line that opens the table that is marked."""
        lake = f"ts.connect({self._lake.warehouse!r})"
        return (
            f"widgets.Workbench({lake}.table({self.table!r}))"
            if self.table
            else f"widgets.LakeHealth({lake})"
        )

    def _load(self) -> None:
        names = self._lake.tables()
        self._model = LakeModel(self._lake.warehouse, len(names), reading=bool(names))
        self.redraw()
        self._jobs.restart(lambda job: self._read(job, names[:MAX_TABLES]), patience=PATIENCE)

    def _read(self, job: ViewJob, names: list[str]) -> None:
        rows, drawn = list[TableRow](), time.monotonic()
        try:
            for name in names:
                job.check()
                rows.append(read(self._lake, name))
                if time.monotonic() - drawn > REDRAW_SECONDS:
                    drawn = time.monotonic()
                    self._take(job, rows, reading=True)
        finally:
            self._take(job, rows, reading=False)

    def _take(self, job: ViewJob, rows: list[TableRow], *, reading: bool) -> None:
        if not self._jobs.replaced(job):
            self._model = replace(self._model, rows=ordered(rows), reading=reading)
            self.redraw()

    def stop(self) -> Self:
        """Read no more tables; those that were read stay."""
        return self.cancel()

    def open_table(self, table: str | None = None) -> Workbench | None:
        """A workbench of `table` (None: the one that is marked), shown below; None where it cannot be made,
        and the view says why."""
        self.table = self.table if table is None else table
        if not self.table:
            return None
        before, self.bench, self._trouble = self.bench, None, ""
        if before is not None:
            before.close()
        try:
            self.bench = Workbench(self._lake.table(self.table))
        except Exception as error:
            self._trouble = f"{self.table}: {type(error).__name__}: {error}"
        self.redraw()
        return self.bench

    def _on_verb(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        if content.get("verb") == "open" and isinstance(content.get("table"), str):
            self.open_table(content["table"])
        else:
            super()._on_verb(widget, content, buffers)

    def close(self) -> None:
        """Read no more, close the workbench, and leave the page."""
        if self.bench is not None:
            self.bench.close()
        super().close()

    def figure(self, *, width: float) -> Figure:
        """The picture."""
        return lake_figure(self._model, width=width, selected=self.table, today=datetime.now())

    def picture(self, *, width: float, footer: bool = True) -> Figure:
        """The static figure with its header and by default a footer."""
        self._jobs.wait_at_most(STATIC_PATIENCE)
        return super().picture(width=width, footer=footer)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, and the state that the buttons follow."""
        return {
            "title": "Lake",
            "subtitle": self._model.lake,
            "reading": self._model.reading,
            "progress": self._model.progress,
            "trouble": self._trouble,
        }

    def text(self) -> str:
        """The lake in a terminal."""
        self._jobs.wait_at_most(STATIC_PATIENCE)
        return text_of(self._model)

    def data(self) -> pa.Table:
        """One row a table, the worst first."""
        return table_of(self._model)

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The tables as they were read."""
        self._jobs.wait_at_most(STATIC_PATIENCE)
        return self.export_spec("lake_health", widths, self.export_frames(widths), "table", bench="") | {
            "reply": "plain"
        }
