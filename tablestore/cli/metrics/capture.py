"""Metrics of a capture: rows, freshness, how far it is behind its source, what it had to leave behind."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator

from tablestore.cdc.capture.job import CaptureJob
from tablestore.cdc.capture.report import BatchReport
from tablestore.cli.metrics.family import HealthAnswer, Labels, MetricFamily, one, quiet, states
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import TablestoreError
from tablestore.flow.job import ENDED, FAILED, PAUSED, RUNNING, STOPPED, WAITING
from tablestore.flow.source import BYTES, SECONDS, LogRetention

_STATES = (RUNNING, PAUSED, WAITING, ENDED, STOPPED, FAILED)
_QUIET_SECONDS = 300.0
_ASK_SECONDS = 10.0  # between two questions of how much of the log is left
_ROWS = {
    "snapshot_rows": "Rows of the first reading of tables.",
    "changes": "Row images of the log.",
    "bad_rows": "Rows that could not be taken.",
}


class CaptureMetrics:
    """A capture as a source of metrics; `add` is called with each batch. Safe to share between threads."""

    def __init__(self, *, env: Env = SYSTEM) -> None:
        self._env = env
        self.job: CaptureJob | None = None
        self._newest: BatchReport | None = None
        self._rows: dict[str, dict[Labels, float]] = {field: defaultdict(float) for field in _ROWS}
        self._batches = self._log_bytes = self._commits = 0
        self._kept, self._unknown = (
            tuple[LogRetention, ...](),
            "",
        )  # the newest answer of the source, or why none
        self._asked: float | None = None  # when it was asked last
        self._lock = threading.Lock()

    def add(self, report: BatchReport) -> None:
        """Count a batch that is committed."""
        with self._lock:
            self._newest = report
            self._batches += 1
            self._log_bytes += report.log_bytes
            self._commits += sum(table.snapshot is not None for table in report.tables)
            for table in report.tables:
                for field, sums in self._rows.items():
                    sums[table.table,] += getattr(table, field)

    def families(self) -> Iterator[MetricFamily]:
        """What this process has captured, and the newest batch."""
        name = "tablestore_capture_"
        if self.job is not None:
            yield states(f"{name}state", "State of the capture.", self.job.state, _STATES)
            text = "For how long nothing has come of the batch under way."
            yield one(f"{name}quiet_seconds", text, self.job.quiet_seconds())
        with self._lock:
            newest = self._newest
            counts = {"batches": self._batches, "commits": self._commits, "log_bytes": self._log_bytes}
            rows = {field: dict(sums) for field, sums in self._rows.items()}
        texts = {
            "batches": "Batches.",
            "commits": "Commits of tables.",
            "log_bytes": "Bytes of the log read.",
        }
        for field, count in counts.items():
            yield MetricFamily(f"{name}{field}_total", "counter", texts[field], samples={(): float(count)})
        for field, text in _ROWS.items():
            yield MetricFamily(f"{name}{field}_total", "counter", text, ("table",), rows[field])
        for unit, field, text in (
            (SECONDS, "used", "Of the time for which the log is kept, what is over for what comes next."),
            (SECONDS, "left", "Of the time for which the log is kept, what is left for what comes next."),
            (BYTES, "used", "Bytes that the log keeps for the capture."),
            (BYTES, "left", "Bytes that the log may keep for the capture beyond these."),
        ):
            kept = {each.log: getattr(each, field) for each in self._log_kept() if each.unit == unit}
            known: dict[Labels, float] = {(log,): float(n) for log, n in kept.items() if n is not None}
            yield MetricFamily(f"{name}retention_{field}_{unit}", "gauge", text, ("log",), known)
        if newest is None:
            return
        yield one(
            f"{name}newest_batch_timestamp_seconds", "When the newest batch became visible.", newest.ended
        )
        yield one(f"{name}behind_bytes", "Bytes of the log behind the newest batch.", newest.bytes_behind)
        yield one(f"{name}snapshotting_tables", "Tables still to be read.", len(newest.snapshotting))
        yield one(f"{name}paused_tables", "Tables that it could not follow.", len(newest.paused))
        if newest.worst_freshness is not None and newest.median_freshness is not None:
            quantiles: dict[Labels, float] = {
                ("0.5",): newest.median_freshness,
                ("1",): newest.worst_freshness,
            }
            text = "From a commit in the source to its snapshot, of the newest batch."
            yield MetricFamily(f"{name}freshness_seconds", "gauge", text, ("quantile",), quantiles)

    def health(self) -> HealthAnswer:
        """Ill where it has failed, waits to be started again, left tables behind, or where nothing comes of
        what it does: a source that hangs, or one whose transactions do not end. And where the source is away,
        or half is over of the time or size up to which it keeps its log."""
        with self._lock:
            newest = self._newest
        job, state, ill = self.job, "starting", list[str]()
        if job is not None:
            if newest is None:  # what a process before this one left behind is so still
                newest = next(iter(job.reports(1)), None)
            state = job.state
            if state in (FAILED, WAITING):
                ill.append(f"the capture is {job.state_text}")
            ill += quiet("the batch under way", job.quiet_seconds(), _QUIET_SECONDS)
            ill += [text for each in self._log_kept() for text in each.ill()]
            if self._unknown:
                ill.append(f"what is left of the log is not known: {self._unknown}")
        if newest is not None and newest.paused:
            ill.append(f"not followed any more: {', '.join(newest.paused)}")
        return HealthAnswer(not ill, "\n".join(ill) or state)

    def _log_kept(self) -> tuple[LogRetention, ...]:
        """What the source last said of its log. It is asked beside, now and then: one that is away keeps
        nobody waiting."""
        now = self._env.monotonic()
        with self._lock:
            due = self.job is not None and (self._asked is None or now - self._asked > _ASK_SECONDS)
            if due:
                self._asked = float("inf")  # until it has answered
        if due:
            threading.Thread(target=self._ask, name="log-kept", daemon=True).start()
        return self._kept

    def _ask(self) -> None:
        assert self.job is not None, "a job is asked"
        kept, unknown = tuple[LogRetention, ...](), ""
        try:
            kept = tuple(self.job.log_kept())
        except (TablestoreError, OSError) as e:
            unknown = str(e)
        finally:
            with self._lock:
                self._kept, self._unknown = kept, unknown
                self._asked = self._env.monotonic()
