"""LakeAlarms: the alarms of a lake over time, those that hold first, and the figures of the one table marked.

Tables are read one after another in the background; each that was read is shown at once, and Stop ends it.
Traits: `alarm` (the id of the one that is marked). Not thread-safe; callers serialise.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.alarms.figure import alarms_figure, clock_of
from widgets.alarms.model import (
    MAX_TABLES,
    AlarmLine,
    AlarmsModel,
    Points,
    lined,
    lines_of,
    read,
    table_of,
    text_of,
    unread,
)
from widgets.chart.axes import Asked
from widgets.kit.jobs import PATIENCE, STATIC_PATIENCE, JobRunner, ViewJob, WorkingView, error_text
from widgets.kit.svg import Figure
from widgets.kit.view import module

REDRAW_SECONDS = 0.3


class LakeAlarms(WorkingView):
    """The alarms of a lake: each a finding with its figure over time, its limit, when it began and ended, and
    the call that mends it; below them the figures of the table whose alarm is marked.

    `source` is what `ts.connect` gives, or one table. `freshness` ("1 h"), `log_rows` and
    `write_amplification` are limits, and `moments` the snapshots that are looked at, of
    `table.inspect.alarms`. What a maintenance service over the lake has written down is there, too. Other
    traits (`alarm`, `width`, …) go by keyword.

    >>> alarms = widgets.LakeAlarms(ts.connect("lake")).wait()
    >>> print(alarms.verdict)
    no alarm in 1 table
    """

    chart = Asked(x="table", y="worst")
    _esm = module("alarms")
    unreadable = ("The lake could not be read.", "Check its path, or its catalog.")
    verbs = ("stop",)
    alarm = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        source: ts.Lake | ts.Table,
        *,
        freshness: str | None = None,
        log_rows: int | None = None,
        write_amplification: float | None = None,
        moments: int = 32,
        **kwargs: object,
    ) -> None:
        self._jobs = JobRunner("alarms")
        if not isinstance(source, ts.Lake | ts.Table):
            raise ts.InvalidRequest(
                f"LakeAlarms takes a lake, as ts.connect(path) gives it, or a table, not {source!r:.80}"
            )
        self._lake_or_table = source
        self._limits: dict[str, Any] = {
            "freshness": freshness,
            "log_rows": log_rows,
            "write_amplification": write_amplification,
            "moments": moments,
        }
        self._model = AlarmsModel(self._title)
        super().__init__(**kwargs)
        self.refresh()
        self.observe(lambda _change: self.redraw(), "alarm")

    @property
    def _title(self) -> str:
        source = self._lake_or_table
        return source.warehouse if isinstance(source, ts.Lake) else source.name

    @property
    def model(self) -> AlarmsModel:
        """What is shown as a value."""
        return self._model

    @property
    def verdict(self) -> str:
        """The sentence at the top."""
        return self._model.verdict

    @property
    def code(self) -> str:
        """The call that gives the alarms of the table that is marked."""
        table = self._model.shown_table(self.alarm)
        limits = ", ".join(f"{k}={v!r}" for k, v in self._limits.items() if v is not None)
        opened = "table"
        if table and isinstance(self._lake_or_table, ts.Lake):
            opened = f"ts.connect({self._lake_or_table.warehouse!r}).table({table!r})"
        return f"{opened}.inspect.alarms({limits})"

    def _load(self) -> None:
        source = self._lake_or_table
        some: list[tuple[str, Callable[[], ts.Table]]] = []
        if isinstance(source, ts.Lake):
            some = [(name, lambda name=name: source.table(name)) for name in source.tables()]  # type: ignore[misc]  # the name of each
        else:
            some = [(source.name, source.refresh)]
        self._model = replace(AlarmsModel(self._title, len(some), at=time.time()), reading=bool(some))
        self.redraw()
        self._jobs.restart(lambda job: self._read(job, some[:MAX_TABLES]), patience=PATIENCE)

    def _read(self, job: ViewJob, some: list[tuple[str, Callable[[], ts.Table]]]) -> None:
        lines, figures, drawn, done = list[AlarmLine](), dict[str, dict[str, Points]](), time.monotonic(), 0
        note = ""
        try:
            for name, opened in some:
                job.check()
                try:
                    more, figures[name] = read(opened(), name, self._limits)
                except Exception as error:
                    more = [unread(name, error)]
                lines, done = [*lines, *more], done + 1
                if time.monotonic() - drawn > REDRAW_SECONDS:
                    drawn = time.monotonic()
                    self._take(job, lines, figures, read=done, reading=True)
            more, note = self._of_maintenance()
            lines += more
        finally:
            self._take(job, lines, figures, read=done, reading=False, note=note)

    def _of_maintenance(self) -> tuple[list[AlarmLine], str]:
        """What a service over the lake has written down, and why that could not be read."""
        if not isinstance(self._lake_or_table, ts.Lake):
            return [], ""
        try:
            return lines_of(ts.maintenance_report(self._lake_or_table.warehouse).alarms), ""
        except ts.NotFound:
            return [], ""
        except Exception as error:
            return [], f"the report of maintenance was not read: {error_text(error)}"

    def _take(
        self, job: ViewJob, lines: list[AlarmLine], figures: dict[str, dict[str, Points]], **state: Any
    ) -> None:
        if not self._jobs.replaced(job):
            ordered = tuple(sorted(lines, key=lambda line: line.order))
            self._model = replace(
                self._model,
                alarms=ordered,
                lines=lined(ordered),
                figures={name: of_table for name, of_table in figures.items() if of_table},
                at=time.time(),
                **state,
            )
            self.redraw()

    def stop(self) -> Self:
        """Read no more tables; those that were read stay."""
        return self.cancel()

    def figure(self, *, width: float) -> Figure:
        """The picture."""
        return alarms_figure(self._model, width=width, selected=self.alarm)

    def picture(self, *, width: float, footer: bool = True) -> Figure:
        """The static figure with its header and by default a footer."""
        self._jobs.wait_at_most(STATIC_PATIENCE)
        return super().picture(width=width, footer=footer)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, and the state that the buttons follow."""
        return {
            "title": "Alarms",
            "subtitle": f"{self._model.lake} · times in UTC",
            "reading": self._model.reading,
            "progress": self._model.progress,
        }

    def text(self) -> str:
        """The alarms in a terminal."""
        self._jobs.wait_at_most(STATIC_PATIENCE)
        return text_of(self._model, clock_of(self._model))

    def data(self) -> pa.Table:
        """One row an alarm, in their order."""
        return table_of(self._model)

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The alarms as they were read."""
        self._jobs.wait_at_most(STATIC_PATIENCE)
        return self.export_spec("alarms", widths, self.export_frames(widths), "alarm") | {"reply": "plain"}
