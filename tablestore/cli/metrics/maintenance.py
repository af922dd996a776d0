"""Metrics of a maintenance service: what it did and spent, and how the tables stand that it looks at."""

from __future__ import annotations

from collections.abc import Iterator

from tablestore.cli.metrics.family import HealthAnswer, Labels, MetricFamily, one, quiet, states
from tablestore.flow.job import ENDED, FAILED, PAUSED, RUNNING, STOPPED, WAITING
from tablestore.maintenance.service import MaintenanceService

_STATES = (RUNNING, PAUSED, WAITING, ENDED, STOPPED, FAILED)
_QUIET_SECONDS = 3_600.0
_WORK: Labels = ("table", "kind", "outcome")
_OF_TABLES = {
    "files": "Live data files.",
    "bytes": "Bytes of the live data files.",
    "rows": "Rows stored in the live data files.",
    "buckets": "Buckets with files.",
    "due_buckets": "Buckets in which a compaction is due by the table's own rules.",
    "most_runs": "Sorted runs of the fullest bucket.",
    "opened_runs": "Sorted runs that a read of one key opens, on average over the rows.",
}


class MaintenanceMetrics:
    """A service as a source of metrics."""

    def __init__(self, service: MaintenanceService) -> None:
        self._service = service

    def families(self) -> Iterator[MetricFamily]:
        """Work, bytes, limits, and the numbers of tables as they were last looked at."""
        report, sums = self._service.report(), self._service.sums
        name = "tablestore_maintenance_"
        yield states(f"{name}state", "State of the service.", report.state, _STATES)
        text = "For how long nothing has come of the work under way."
        yield one(f"{name}quiet_seconds", text, self._service.quiet_seconds())
        work: dict[Labels, float] = {labels: float(n) for labels, n in sums.pieces.items()}
        yield MetricFamily(f"{name}work_total", "counter", "Pieces of work.", _WORK, work)
        for field, text in (
            ("read", "Bytes that compactions read."),
            ("written", "Bytes that compactions wrote."),
            ("predicted_written", "Bytes that compactions were to write by their dry runs."),
        ):
            by_table: dict[Labels, float] = {
                (table,): float(n) for (table, measured), n in sums.bytes.items() if measured == field
            }
            yield MetricFamily(f"{name}{field}_bytes_total", "counter", text, ("table",), by_table)
        yield MetricFamily(
            f"{name}work_seconds_total", "counter", "Time of work.", ("table", "kind"), sums.seconds
        )
        yield one(
            f"{name}waiting_work", "Pieces of work that wait for a limit or a lease.", len(report.waiting)
        )
        yield one(
            f"{name}hour_read_bytes", "Bytes that compactions read in the last hour.", report.spent_bytes
        )
        if report.hour_bytes is not None:
            yield one(f"{name}hour_limit_bytes", "Bytes that they may read in an hour.", report.hour_bytes)
        yield one(f"{name}troubled_tables", "Tables that could not be looked at.", len(report.troubles))
        for field, text in _OF_TABLES.items():
            samples: dict[Labels, float] = {(t.table,): float(getattr(t, field)) for t in report.tables}
            yield MetricFamily(f"tablestore_table_{field}", "gauge", text, ("table",), samples)

    def health(self) -> HealthAnswer:
        """Ill where the service has failed or waits to try again, where nothing comes of what it does, where
        a table is in trouble, or work failed and is still due."""
        report = self._service.report()
        ill = [f"{table}: {error}" for table, error in report.troubles]
        ill += [work.text for work in self._service.failing]
        if report.state == FAILED:
            ill.insert(0, f"the service has failed: {self._service.error}")
        if report.state == WAITING:
            ill.insert(0, f"the service is waiting: {report.reason}")
        ill = [*quiet("the work under way", self._service.quiet_seconds(), _QUIET_SECONDS), *ill]
        return HealthAnswer(not ill, "\n".join(ill) or report.summary)
