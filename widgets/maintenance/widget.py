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
from widgets.kit.jobs import JobRunner, ViewJob, error_text
from widgets.kit.svg import Figure, plain
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

    def advice(self, table: str, policy: ts.MaintenancePolicy | None = None) -> object: ...


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
    unreadable = ("The report could not be read.", "Check the warehouse, then refresh().")
    verbs = ("pause", "resume", "stop", "advise")

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
        self._jobs, self._advice = JobRunner("advice"), ""
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
        """running, paused, waiting, ended, stopped or failed."""
        return self._model.report.state

    def look(self) -> None:
        """Read what is new; the last look is the one after the end of the service."""
        self.refresh()
        if self.state not in LIVE:
            self.unwatch()

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

    def advise(self, table: str = "", policy: ts.MaintenancePolicy | None = None) -> Self:
        """Replay a table's history under other options, in the background: what each would have cost, and
        which is the cheapest that keeps to the `policy` (None: the service's). `table` is its name, empty:
        the one with most buckets to compact. Nothing is changed."""
        service, worst = self._service, self._model.worst
        name = table or (worst[0].table if worst else "")
        if service is None or not name:
            return self

        def say(words: str) -> None:
            self._advice = words
            self.redraw()

        def work(job: ViewJob) -> None:
            try:
                words = str(service.advice(name, policy))
            except ts.TablestoreError as error:
                words = error_text(error)
            if not self._jobs.replaced(job):
                say(words)

        self._jobs.start(work, before=lambda: say(f"{name}: its history is replayed …"))
        return self

    @property
    def advice(self) -> str:
        """What `advise` has said, empty before."""
        return self._advice

    def wait(self, timeout: float | None = None) -> Self:
        """Block until the replay is over, at most so many seconds."""
        self._jobs.wait(timeout)
        return self

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
        return {
            "title": self._model.title,
            "subtitle": report.summary,
            "state": report.state,
            "can": can,
            "advice": self._advice,
        }

    def text(self) -> str:
        """The work in a terminal, then what `advise` has said."""
        return "\n".join([text_form(self._model), *(plain(line) for line in self._advice.splitlines())])

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
