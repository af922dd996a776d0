"""CaptureProgress: what a change capture reads, how late it is, what changed in the source; Pause and Stop.

A look reads the reports that are new and how far the batch under way is. While the capture runs a thread
looks twice a second; every look holds the lock. Stop works in a thread of its own, since a job ends between
two batches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import pyarrow as pa
import traitlets

import tablestore as ts
from tablestore import BatchProgress, BatchReport, CaptureModel, capture_model
from widgets.capture.figure import capture_figure
from widgets.chart.axes import Asked
from widgets.kit.jobs import JobRunner, ViewJob, error_text, job_failure, job_name
from widgets.kit.svg import Figure
from widgets.kit.view import module
from widgets.kit.watch import WatchingView

LOOK_SECONDS = 0.5
KEPT = 2_000  # reports, as many as a checkpoint keeps


@runtime_checkable
class Capture(Protocol):
    """A capture as `lake.ingest` gives it."""

    @property
    def running(self) -> bool: ...

    @property
    def state(self) -> str:
        """running, paused, waiting (to try again), ended, stopped or failed."""

    def reports(self) -> Sequence[BatchReport]: ...

    def progress(self) -> BatchProgress | None:
        """The batch under way."""

    def pause(self) -> object: ...

    def resume(self) -> object: ...

    def stop(self) -> object: ...


class CaptureProgress(WatchingView):
    """A change capture: its tables with their chunks and watermarks, rows a second, freshness, the log that
    is behind, schema changes with the statement that caused them, rows that could not be read.

    `capture` is a job as `lake.ingest` gives it, the checkpoint of one, also of a job that has ended or that
    another process runs, or reports of batches. `title` stands above the picture. `follow` is the seconds
    between two looks while a job runs (0: none), see `watch`; `clock` gives seconds after 1970. Other traits
    (`width`, …) go by keyword.

    >>> rows = ts.TableReport("shop.orders", 500, snapshot=1)
    >>> read = ts.BatchReport(1, 10.0, 10.1, 12.0, "binlog.000001:4", tables=(rows,))
    >>> view = widgets.CaptureProgress([read], title="shop")
    >>> view.model.totals["snapshot_rows"], view.model.speed
    (500, 250.0)
    """

    links = ()
    chart = Asked(x="ended", y="rows", how="sum")
    _esm = module("capture")
    unreadable = ("The reports of the capture could not be read.", "Check its checkpoint, then refresh().")
    verbs = ("pause", "resume", "stop")
    batch = traitlets.Int(None, allow_none=True).tag(sync=True)

    def __init__(
        self,
        capture: Capture | Sequence[BatchReport] | str | Path,
        *,
        title: str = "",
        follow: float = LOOK_SECONDS,
        clock: Callable[[], float] = time.time,
        **kwargs: object,
    ) -> None:
        self._job, self._read_new = _reader(capture)
        self._clock, self._title = clock, title or job_name(capture, "capture")
        self._reports: dict[int, BatchReport] = {}
        self._paused: list[tuple[float, float | None]] = []
        self._stopping, self._error = False, ""
        self._reading = threading.RLock()
        self._asking = JobRunner("capture-control")
        self._model = capture_model((), title=self._title, now=clock())
        super().__init__(**kwargs)
        self.refresh()
        if follow and self._job is not None and self._job.running:
            self.watch(float(follow))

    @property
    def model(self) -> CaptureModel:
        """The present moment as a value."""
        return self._model

    @property
    def state(self) -> str:
        """running, paused, waiting, stopping, stopped, ended or failed; empty for reports without a job."""
        if self._job is None:
            return ""
        if self._error:
            return "failed"
        return "stopping" if self._stopping and self._job.running else self._job.state

    def look(self) -> None:
        """Read what is new; the last look is the one after the end of the job."""
        running = self._job is not None and self._job.running
        self.refresh()
        if not running:
            self.unwatch()

    def _load(self) -> None:
        under_way = None if self._job is None else self._job.progress()  # before the reports: one may end it
        for report in self._read_new(max(self._reports, default=-1)):
            self._reports[report.number] = report
        for number in sorted(self._reports)[:-KEPT]:
            del self._reports[number]
        self._error = self._error or job_failure(self._job)
        self._note_pause()
        self._model = capture_model(
            list(self._reports.values()),
            title=self._title,
            now=self._clock(),
            state=self.state,
            paused=self._paused,
            error=self._error,
            under_way=under_way,
        )
        self.redraw()

    def pause(self) -> Self:
        """Let no batch begin until `resume`; the one that is under way is finished."""
        if self._job is not None and self.state in ("running", "waiting"):
            self._job.pause()
        return self.refresh()

    def resume(self) -> Self:
        """Let batches begin again."""
        if self._job is not None and self.state == "paused":
            self._job.resume()
        return self.refresh()

    def stop(self) -> Self:
        """End the job between two batches; what is committed stays, and it may be started again."""
        if self._job is not None and self._job.running and not self._stopping:
            self._stopping = True
            self._asking.start(self._stop_job, after=self.look)
        return self.refresh()

    def _stop_job(self, _job: ViewJob) -> None:
        """Done in a thread: a job ends when its batch is committed."""
        assert self._job is not None, "there is one to stop"
        try:
            self._job.stop()
        except Exception as error:
            self._error = error_text(error)

    def _note_pause(self) -> None:
        """When the job was found to be paused, and when to go on."""
        open_span = bool(self._paused) and self._paused[-1][1] is None
        if self.state == "paused" and not open_span:
            self._paused.append((self._clock(), None))
        elif self.state != "paused" and open_span:
            self._paused[-1] = (self._paused[-1][0], self._clock())

    def wait(self, timeout: float | None = None) -> Self:
        """Block until a job that was asked to stop has ended. Raises TimeoutError."""
        self._asking.wait(timeout)
        return self

    def figure(self, *, width: float) -> Figure:
        """Figures, tables, strips over time, schema changes."""
        return capture_figure(self._model, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and state."""
        model = self._model
        return {
            "title": model.title,
            "subtitle": model.state_text,
            "state": model.state,
        }

    def text(self) -> str:
        """The figures, a bar a table, the newest schema changes."""
        return self._model.text()

    def data(self) -> pa.Table:
        """The batches as a table; `freshness` is that of their slowest transaction."""
        reports = self._model.reports
        columns: dict[str, tuple[pa.DataType, Callable[[BatchReport], object]]] = {
            "batch": (pa.int64(), lambda r: r.number),
            "ended": (pa.timestamp("ms", "UTC"), lambda r: round(r.ended * 1000)),
            "position": (pa.string(), lambda r: r.position),
            "rows": (pa.int64(), attrgetter("rows")),
            "snapshot_rows": (pa.int64(), attrgetter("snapshot_rows")),
            "bad_rows": (pa.int64(), lambda r: sum(table.bad_rows for table in r.tables)),
            "log_bytes": (pa.int64(), lambda r: r.log_bytes),
            "bytes_behind": (pa.int64(), lambda r: r.bytes_behind),
            "freshness": (pa.float64(), attrgetter("worst_freshness")),
            "events": (pa.int64(), lambda r: len(r.events)),
        }
        return pa.table({name: pa.array(map(of, reports), kind) for name, (kind, of) in columns.items()})

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The picture as it stands; its buttons need a kernel."""
        return self.export_spec("capture", widths, self.export_frames(widths), batch=None) | {
            "reply": "plain"
        }


Reader = Callable[[int], Iterable[BatchReport]]


def _reader(capture: Any) -> tuple[Capture | None, Reader]:
    """The job, if it is one, and what gives the reports of batches after a number."""
    if isinstance(capture, Capture):
        checkpoint = getattr(capture, "checkpoint", None)
        if isinstance(checkpoint, str):  # only what is new is read
            return capture, lambda after: ts.capture_reports(checkpoint, after=after)
        return capture, lambda after: [r for r in capture.reports() if r.number > after]
    if isinstance(capture, str | Path):
        return None, lambda after: ts.capture_reports(capture, after=after)
    if isinstance(capture, Sequence) and all(isinstance(report, BatchReport) for report in capture):
        return None, lambda after: [r for r in capture if r.number > after]
    raise ts.InvalidRequest(
        "CaptureProgress takes a job of lake.ingest, its checkpoint or reports of batches, "
        f"not {type(capture).__name__}"
    )
