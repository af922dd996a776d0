"""TieringView: what a tiering service does, table by table and bucket by bucket; Pause, Stop and Kill.

A look asks the service for its reports. While it runs a thread looks twice a second; every look holds the
lock. Stop works in a thread of its own, since a service ends when its rounds are over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import pyarrow as pa
import traitlets

import tablestore as ts
from tablestore import Heartbeat, RoundReport, TableState, TieringReport
from widgets.chart.axes import Asked
from widgets.kit import static
from widgets.kit.jobs import JobRunner, ViewJob, error_text, job_failure, job_name
from widgets.kit.svg import Figure
from widgets.kit.view import module
from widgets.kit.watch import WatchingView
from widgets.tiering.figure import tiering_figure
from widgets.tiering.model import KILLED, LIVE, TieringModel, state_text, text_form, tiering_model

LOOK_SECONDS = 0.5
MOST_FRAMES = 24  # tables that a page without a kernel can choose


@runtime_checkable
class Service(Protocol):
    """A tiering service as `lake.tier` gives it; it may have `pause` and `resume`, too."""

    @property
    def running(self) -> bool: ...

    @property
    def state(self) -> str:
        """running, paused, stopping, stopped or failed."""

    def tables(self) -> Sequence[TableState]: ...

    def rounds(self) -> Sequence[RoundReport]: ...

    def heartbeats(self) -> Sequence[Heartbeat]: ...

    def stop(self) -> object: ...


class TieringView(WatchingView):
    """A tiering service: its tables by state with epoch and lag, rounds over time, the splits of one round as
    lanes with the marks of each bucket (log ends, tiered, readable), heartbeats as a log.

    `service` is a service as `lake.tier` gives it, the path of its journal, also of one that has ended or
    that another process runs, or a `ts.TieringReport`. `kill` is called by the button *Kill*, which is there
    if it is given; `start` by *Start*: what it returns, a service or a journal, is shown from then on.
    `table` is the path of the table whose buckets are shown, `round` the number of its round; they follow
    clicks. `title` stands above the picture. `follow` is the seconds between two looks while a service runs
    (0: none), see `watch`; `clock` gives seconds after 1970. Other traits (`width`, …) go by keyword.

    >>> marks = (ts.BucketMarks(None, 0, end=120, tiered=100, readable=100),)
    >>> state = ts.TableState("shop.orders", 1, "Tiered", 10.0, 3, 5.0, 10.0, lag_rows=20, marks=marks)
    >>> view = widgets.TieringView(ts.TieringReport((state,)), title="shop")
    >>> view.model.lag_rows, view.table, view.model.lanes[0].name
    (20, 'shop.orders', 'bucket 0')
    """

    links = ()
    chart = Asked(x="table", y="lag_rows")
    _esm = module("tiering")
    unreadable = ("The reports of the service could not be read.", "Check its journal, then refresh().")
    verbs = ("pause", "resume", "stop", "kill", "start")
    table = traitlets.Unicode("").tag(sync=True)
    round = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(
        self,
        service: Service | TieringReport | str | Path,
        *,
        kill: Callable[[], object] | None = None,
        start: Callable[[], object] | None = None,
        table: str = "",
        round: int | None = None,
        title: str = "",
        follow: float = LOOK_SECONDS,
        clock: Callable[[], float] = time.time,
        **kwargs: object,
    ) -> None:
        self._service, self._read = _reader(service)
        self._clock, self._title = clock, title or job_name(service, "tiering")
        self._kill, self._start = kill, start
        self._is_journal = isinstance(service, str | Path)
        self._stopping, self._killed, self._error = False, False, ""
        self._reading = threading.RLock()
        self._asking = JobRunner("tiering-control")
        self._follow = float(follow)
        self._model = tiering_model(TieringReport(), title=self._title, now=clock())
        super().__init__(table=table, round=round, **kwargs)
        self.observe(lambda _change: self._choose(), ["table", "round"])
        self.refresh()
        if self._follow and self._live:
            self.watch(self._follow)

    @property
    def model(self) -> TieringModel:
        """The present moment as a value."""
        return self._model

    @property
    def state(self) -> str:
        """running, paused, stopping, stopped, failed or killed; empty where nobody knows."""
        return self._model.report.state

    @property
    def _live(self) -> bool:
        """Whether more may come: to a journal until its service has ended, also before it has begun."""
        if self._service is not None:
            return self._service.running
        return self.state in LIVE or (self._is_journal and not self.state)

    def look(self) -> None:
        """Read what is new; the last look is the one after the end of the service."""
        live = self._live
        self.refresh()
        if not live and not self._live:
            self.unwatch()

    def _load(self) -> None:
        self._show(self._read())

    def _show(self, report: TieringReport) -> None:
        report = self._with_error(report)
        self._model = tiering_model(
            report, title=self._title, now=self._clock(), table=self.table, number=self.round
        )
        chosen = self._model.table
        if chosen is not None and chosen.table != self.table:
            with self.hold_trait_notifications():
                self.set_trait("table", chosen.table)
        self.redraw()

    def _with_error(self, report: TieringReport) -> TieringReport:
        """The report with what a button's call raised, and with the state of a service that is to stop."""
        state, reason = report.state, report.reason or self._error
        if self._killed:
            state = KILLED
        elif self._stopping and self._service is not None and self._service.running:
            state = "stopping"
        return TieringReport(report.tables, report.rounds, report.heartbeats, state, reason)

    def _choose(self) -> None:
        with self._reading:
            if self._model.table is None or (self._model.table.table, self._model.round) != (
                self.table,
                self.round,
            ):
                self._show(self._model.report)

    def pause(self) -> Self:
        """Let no round begin until `resume`; those under way are finished."""
        return self._ask("pause", when=("running",))

    def resume(self) -> Self:
        """Let rounds begin again."""
        return self._ask("resume", when=("paused",))

    def _ask(self, verb: str, *, when: tuple[str, ...]) -> Self:
        action = getattr(self._service, verb, None)
        if action is not None and self.state in when:
            action()
        return self.refresh()

    def stop(self) -> Self:
        """End the service: tables that it holds are reported as failed, and come again."""
        if self._service is not None and self._service.running and not self._stopping:
            self._stopping = True
            self._asking.start(self._stop_service, after=self.look)
        return self.refresh()

    def _stop_service(self, _job: ViewJob) -> None:
        """Done in a thread: a service ends when its rounds are over."""
        assert self._service is not None, "there is one to stop"
        self._guard(self._service.stop)

    def kill(self) -> Self:
        """End the service at once, by what `kill` does."""
        if self._kill is not None:
            self._guard(self._kill)
            self._killed = not self._error
        return self.refresh()

    def start(self) -> Self:
        """Start a service again, by what `start` does, and show it."""
        if self._start is not None:
            self._guard(self._restart)
        return self.refresh()

    def _restart(self) -> None:
        assert self._start is not None, "the button is there"
        started = self._start()
        self._stopping, self._killed, self._error = False, False, ""
        if started is not None:
            self._service, self._read = _reader(started)
            self._is_journal = isinstance(started, str | Path)
        if self._follow:
            self.watch(self._follow)

    def _guard(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:
            self._error = error_text(error)

    def wait(self, timeout: float | None = None) -> Self:
        """Block until a service that was asked to stop has ended. Raises TimeoutError."""
        self._asking.wait(timeout)
        return self

    def figure(self, *, width: float) -> Figure:
        """Figures, tables, buckets, heartbeats."""
        return tiering_figure(self._model, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, state, and which buttons there are."""
        return {
            "title": self._title,
            "subtitle": state_text(self._model),
            "state": self.state,
            "can": self._buttons,
        }

    @property
    def _buttons(self) -> list[str]:
        can = ["pause"] if hasattr(self._service, "pause") and hasattr(self._service, "resume") else []
        can += ["stop"] if self._service is not None else []
        can += ["kill"] if self._kill is not None else []
        return can + (["start"] if self._start is not None else [])

    def text(self) -> str:
        """A line a table, the chosen round's buckets, the last heartbeats."""
        return text_form(self._model)

    def data(self) -> pa.Table:
        """The tables: state, epoch, rows behind, when each lake was complete."""
        tables = self._model.tables
        columns: dict[str, tuple[pa.DataType, Callable[[TableState], object]]] = {
            "table": (pa.string(), lambda report: report.table),
            "state": (pa.string(), lambda report: report.state),
            "tiering_epoch": (pa.int64(), lambda report: report.tiering_epoch),
            "lag_rows": (pa.int64(), lambda report: report.lag_rows),
            "freshness": (pa.float64(), lambda report: report.freshness),
            "tiered_at": (pa.timestamp("ms", "UTC"), lambda report: _ms(report.tiered_at)),
            "reason": (pa.string(), lambda report: report.reason),
        }
        return pa.table({name: pa.array(map(of, tables), kind) for name, (kind, of) in columns.items()})

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """A frame a table; the buttons need a kernel."""
        model = self._model
        paths = [state.table for state in model.tables[:MOST_FRAMES]]
        if self.table and self.table not in paths:
            paths = [self.table, *paths[:-1]]
        models = {
            path: model
            if path == self.table
            else tiering_model(model.report, title=self._title, now=model.now, table=path)
            for path in paths or [""]
        }
        frames = {
            str(width): {
                path: static.frame(tiering_figure(shown, width=width)) for path, shown in models.items()
            }
            for width in widths
        }
        spec = self.export_spec("tiering", widths, frames, "table", round=None)
        return spec | {"first": self.table or next(iter(models))}


def _ms(time: float | None) -> int | None:
    return None if time is None else round(time * 1000)


def _reader(service: Any) -> tuple[Service | None, Callable[[], TieringReport]]:
    """The service, if it is one, and what gives its report."""
    if isinstance(service, TieringReport):
        return None, lambda: service
    if isinstance(service, str | Path):
        return None, lambda: ts.tiering_report(service)
    if isinstance(service, Service):
        return service, lambda: _report_of(service)
    raise ts.InvalidRequest(
        "TieringView takes a service of lake.tier, the path of its journal or a TieringReport, "
        f"not {type(service).__name__}"
    )


def _report_of(service: Service) -> TieringReport:
    """What a service tells; its state first, so that the last report of one that has ended is whole."""
    state, reason = service.state, job_failure(service)
    return TieringReport(
        tuple(service.tables()), tuple(service.rounds()), tuple(service.heartbeats()), state, reason
    )
