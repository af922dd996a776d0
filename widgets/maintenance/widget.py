"""MaintenanceView: what a maintenance service did, why, what it cost and bought, what waits; Pause and Stop.

A look asks the service, or the file that one in another process writes. While it runs a thread looks twice a
second; every look holds the lock.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import pyarrow as pa

import tablestore as ts
from tablestore import MaintenanceReport
from widgets.kit.svg import Figure
from widgets.kit.view import module
from widgets.kit.watch import WatchingView
from widgets.maintenance.figure import maintenance_figure
from widgets.maintenance.model import LIVE, MaintenanceModel, text_form

LOOK_SECONDS = 0.5


@runtime_checkable
class MaintenanceJob(Protocol):
    """A service as `lake.maintain` gives it."""

    @property
    def running(self) -> bool: ...

    def report(self) -> MaintenanceReport: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self, seconds: float | None = None) -> object: ...


class MaintenanceView(WatchingView):
    """A maintenance service: the newest work with its reason, runs before and after, bytes predicted and
    measured; what waits for a limit or a lease; tables that it could not look at.

    `service` is one as `lake.maintain` gives it, the path of a warehouse, whose service may be in another
    process, or a `ts.MaintenanceReport`. `follow` is the seconds between two looks while it runs (0: none).
    `title` stands above the picture. Other traits (`width`, …) go by keyword.

    >>> view = widgets.MaintenanceView(ts.MaintenanceReport("maintain", "ended", 0.0))
    >>> print(view.text())
    maintain: ended: 0 tables, 0 done; read 0 B in the last hour
    """

    links = ()
    _esm = module("maintenance")
    verbs = ("pause", "resume", "stop")

    def __init__(
        self,
        service: MaintenanceJob | MaintenanceReport | str | Path,
        *,
        title: str = "",
        follow: float = LOOK_SECONDS,
        **kwargs: object,
    ) -> None:
        self._service = service if isinstance(service, MaintenanceJob) else None
        self._read = _reader(service)
        self._title = title
        self._model = MaintenanceModel(MaintenanceReport("", "", 0.0), title)
        self._reading = threading.RLock()
        super().__init__(**kwargs)
        self.refresh()
        if follow and self.state in LIVE:
            self.watch(float(follow))

    @property
    def model(self) -> MaintenanceModel:
        """The present moment as a value."""
        return self._model

    @property
    def state(self) -> str:
        """running, paused, ended, stopped or failed."""
        return self._model.report.state

    def look(self) -> None:
        """Read what is new; the last look is the one after the end of the service."""
        self.refresh()
        if self.state not in LIVE:
            self.unwatch()

    def refresh(self) -> Self:
        """Read the report again."""
        with self._reading:
            self.guarded(
                self._load,
                what="The report could not be read.",
                next_step="Check the warehouse, then refresh().",
            )
        return self

    def _load(self) -> None:
        report = self._read()
        model = MaintenanceModel(report, self._title or report.name or "maintenance")
        if model != self._model or not self.frame:
            self._model = model
            self.redraw()

    def pause(self) -> Self:
        """Begin no more work until `resume`."""
        return self._ask(lambda service: service.pause())

    def resume(self) -> Self:
        """Begin work again."""
        return self._ask(lambda service: service.resume())

    def stop(self) -> Self:
        """End the service after the work under way; does not wait for that."""
        return self._ask(lambda service: service.stop(0))

    def _ask(self, what: Callable[[MaintenanceJob], object]) -> Self:
        if self._service is not None:
            what(self._service)
            self.refresh()
        return self

    def figure(self, *, width: float) -> Figure:
        """The picture at a width."""
        return maintenance_figure(self._model, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, state, and which buttons there are."""
        report = self._model.report
        can = list(self.verbs) if self._service is not None else []
        return {"title": self._model.title, "subtitle": report.summary, "state": report.state, "can": can}

    def text(self) -> str:
        """The work in a terminal."""
        return text_form(self._model)

    def data(self) -> pa.Table:
        """A row for each piece of work, as `MaintenanceReport.to_arrow` has them."""
        return self._model.report.to_arrow()

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The picture as it stands; its buttons need a kernel."""
        return self.export_spec("maintenance", widths, self.export_frames(widths)) | {"reply": "plain"}


def _reader(service: object) -> Callable[[], MaintenanceReport]:
    """What gives the newest report. Raises InvalidRequest for what is no service."""
    if isinstance(service, MaintenanceReport):
        return lambda: service
    if isinstance(service, str | Path):
        return lambda: ts.maintenance_report(service)
    if isinstance(service, MaintenanceJob):
        return service.report
    raise ts.InvalidRequest(
        "MaintenanceView takes a service, as lake.maintain gives it, the path of a warehouse or a report, "
        f"not {type(service).__name__}"
    )
