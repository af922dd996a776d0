"""Change capture of many tables: one stream into a lake, by the runner that was chosen.

A stream that ends because a server, a store or a process of its runner went away is started again, with
growing waits; the batch that was under way comes again and is committed once. Everything else ends the job
with its error.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tablestore.cdc.capture.journal import Journal
from tablestore.cdc.capture.origin import CaptureOrigin, origin_of
from tablestore.cdc.capture.report import BatchProgress, BatchReport, Freshness
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.sink import CapturePlan, CaptureSink, SinkSettings
from tablestore.cdc.capture.source import CaptureSource
from tablestore.core.errors import Unsupported
from tablestore.flow.batch import Batch
from tablestore.flow.job_errors import plain_error
from tablestore.flow.restarts import Restarts, RestartStrategy
from tablestore.flow.runner import Runner, Stream
from tablestore.io.paths import checked_name, is_object_location, join
from tablestore.table.lake import Lake

log = logging.getLogger(__name__)
DEFAULT_ROOT = ".tablestore/cdc"  # of a warehouse; no name of a database begins with a dot
RUNNING, PAUSED, WAITING = "running", "paused", "waiting"
ENDED, STOPPED, FAILED = "ended", "stopped", "failed"
_SHOWN = 40  # tables in a text


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """How a capture runs: `name` is the commit user; `title` says in words what is captured. A batch is
    planned every `interval_seconds`. `variables` of the environment hold the secrets of its source."""

    name: str
    checkpoint: str
    title: str = ""
    interval_seconds: float = 1.0
    compact_every: int = 5
    variables: tuple[str, ...] = ()


Listener = Callable[[BatchReport], Any]


class CaptureJob:
    """A capture that this process runs. Safe to share between threads."""

    def __init__(
        self,
        lake: Lake,
        source: CaptureSource,
        rules: CaptureRules,
        settings: CaptureSettings,
        runner: Runner,
        *,
        on_batch: Listener | None = None,
    ) -> None:
        self.name, self.checkpoint, self.lake = settings.name, settings.checkpoint, lake
        self._source, self._rules, self._settings = source, rules, settings
        self._runner, self._on_batch = runner, on_batch
        self._journal = Journal(settings.checkpoint)
        self._query: Stream | None = None
        self._sink: CaptureSink | None = None
        self._lock = threading.Lock()  # protects `_query`, `_sink` and `_state`
        self._state, self._reason = WAITING, ""
        self._stopping, self._over = threading.Event(), threading.Event()
        self._paused = False
        self._batches = 0  # that this process has carried out
        self.error: BaseException | None = None

    def start(self) -> CaptureJob:
        """Start it. Raises InvalidRequest for a checkpoint of another capture."""
        settings = self._settings
        origin = origin_of(settings.checkpoint, self.lake, user=settings.name, source=settings.title)
        self._start_query(origin)
        name = f"tablestore-cdc-{settings.name}"
        threading.Thread(target=self._watch, args=(origin,), name=name, daemon=True).start()
        return self

    # what a user does with it

    @property
    def running(self) -> bool:
        """Whether it is at work, or waits to try again."""
        return not self._over.is_set()

    @property
    def state(self) -> str:
        """running, paused, waiting (to try again), ended (its source has), stopped or failed."""
        with self._lock:
            return self._present

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, `seconds` at most; whether it has. Raises what it failed with."""
        waited = 0.0
        while not self._over.wait(0.2):  # so that Ctrl-C is heard
            waited += 0.2
            if seconds is not None and waited >= seconds:
                return False
        if self.error is not None:
            raise self.error
        return True

    def pause(self) -> None:
        """Let no batch begin until `resume`; the one that is under way is committed. The source must keep its
        log for as long."""
        self._set_paused(True)

    def resume(self) -> None:
        """Let batches begin again."""
        self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        with self._lock:
            self._paused = paused
            if self._query is not None:
                (self._query.pause if paused else self._query.resume)()

    def stop(self) -> None:
        """End it between two batches; returns when it has ended. The same call of `ingest` goes on there."""
        self._stopping.set()
        with self._lock:
            query = self._query
        if query is not None:
            query.stop()
        self._over.wait()

    def reports(self, newest: int = 2_000) -> list[BatchReport]:
        """The newest batches in order, also those of earlier processes."""
        return self._journal.reports(newest)

    def progress(self) -> BatchProgress | None:
        """The batch that is being read and written, with the rows of each of its pieces that is done; None
        between two batches."""
        with self._lock:
            sink = self._sink
        return None if sink is None else sink.progress()

    def freshness(self, newest: int = 2_000) -> Freshness:
        """How many seconds after its commit in the source a transaction was visible in the lake: the
        distribution over those of the newest batches."""
        return Freshness.of(self.reports(newest))

    def __repr__(self) -> str:
        return job_text(self.name, self._settings.title, self._shown_state(), self.reports())

    def _shown_state(self) -> str:
        with self._lock:
            return self._present + (f": {self._reason}" if self._reason else "")

    @property
    def _present(self) -> str:
        return PAUSED if self._paused and self._state == RUNNING else self._state

    # the query

    def _start_query(self, origin: CaptureOrigin) -> None:
        settings = self._settings
        sink = CaptureSink(
            self.lake,
            self._source,
            self._rules,
            SinkSettings(settings.name, compact_every=settings.compact_every),
            self._journal,
        )

        def on_batch(batch: Batch) -> None:
            report = sink.write(batch, origin.identifier + batch.number)
            self._batches += 1
            if self._on_batch is not None:
                self._on_batch(report)

        query = self._runner.start(
            CapturePlan(self._source),
            on_batch,
            checkpoint=settings.checkpoint,
            start=origin.start,
            interval_seconds=settings.interval_seconds,
            variables=settings.variables,
        )
        with self._lock:
            self._query, self._sink = query, sink
            self._state, self._reason = RUNNING, ""
            if self._paused:
                query.pause()

    def _watch(self, origin: CaptureOrigin) -> None:
        """Wait for the end of the query; start it again where that may help."""
        error: BaseException | None = None
        restarts = Restarts(RestartStrategy())
        while True:
            error = self._end_of_query() if error is None else error
            if error is None or self._stopping.is_set():
                break
            wait = restarts.wait_after(error, self._batches)
            if wait is None:
                break
            self._note(WAITING, f"again in {wait:g} s after {str(plain_error(self.name, error))[:200]}")
            log.warning("capture %s: %s", self.name, self._reason)
            if self._stopping.wait(wait):
                break
            try:
                self._start_query(origin)
                error = None
            except Exception as e:  # Spark's, or of a source that is away
                error = e
        self._end(error)

    def _end_of_query(self) -> BaseException | None:
        query = self._query
        assert query is not None, "a query was started"
        while not query.wait(1):
            if self._stopping.is_set():
                query.stop()
        return query.failure()

    def _end(self, error: BaseException | None) -> None:
        stopped = self._stopping.is_set()
        if error is not None and not stopped:
            self.error = plain_error(self.name, error)
        self._note(FAILED if self.error else STOPPED if stopped else ENDED, str(self.error or ""))
        self._over.set()

    def _note(self, state: str, reason: str) -> None:
        with self._lock:
            self._state, self._reason = state, reason


def job_text(name: str, title: str, state: str, reports: list[BatchReport]) -> str:
    """A capture as a text table: what it read into each table, and how fresh that is."""
    head = f"capture {name} of {title}: {state}"
    if not reports:
        return f"{head}, no batch yet"
    newest = reports[-1]
    rows: dict[str, list[int]] = {}
    for report in reports:
        for one in report.tables:
            found = rows.setdefault(one.table, [0, 0, 0, 0])
            for i, n in enumerate((one.snapshot_rows, one.changes, one.bad_rows)):
                found[i] += n
            found[3] = max(found[3], one.snapshot or 0)
    fresh = Freshness.of(reports)
    half = f", half of the changes visible in {fresh.quantile(0.5):.1f} s" if len(fresh.counts) else ""
    lines = [f"{head}, batch {newest.number} at {newest.position}{half}"]
    if newest.snapshotting:
        lines.append(f"reading: {', '.join(newest.snapshotting[:8])}")
    shown = sorted(rows.items())[:_SHOWN]
    table = [["table", "rows read", "changes", "bad rows", "snapshot"]]
    table += [[name, *(f"{n:,}" for n in numbers)] for name, numbers in shown]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for first, *others in table:
        cells = (text.rjust(width) for text, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    if len(rows) > _SHOWN:
        lines.append(f"… {len(rows) - _SHOWN} more tables")
    return "\n".join(lines)


def default_checkpoint(lake: Lake, name: str) -> str:
    """The directory of a capture beside the databases of its lake. Raises Unsupported where that is no local
    disk."""
    if is_object_location(lake.warehouse):
        why = (
            "the warehouse is in an object store, and how far it has come is kept in a directory: name one "
            "that stays"
        )
        raise Unsupported("a capture without checkpoint=", why)
    return join(lake.warehouse, DEFAULT_ROOT, checked_name(name, "capture"))
