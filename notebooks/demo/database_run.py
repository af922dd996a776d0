"""The demo over a database server: all tables of a database in one job, changes while it reads them,
the summary beside it, and both sides compared.

`./workbench demo --source` calls this, notebooks call its steps one by one. What is known of a run is what
the capture itself reports (`BatchReport`) and what the tables hold.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from pyspark.sql import SparkSession

import tablestore as ts
from notebooks.demo import summary_job, tables
from notebooks.demo.freshness import words as freshness_words
from notebooks.demo.journal import Journal, Places
from notebooks.demo.pipeline import ShowProgress
from notebooks.demo.source_checksums import TableComparison
from notebooks.demo.source_databases import SourceDatabase
from tablestore.cdc.capture.report import BatchReport
from tablestore.cdc.capture.source import CAPTURED, SKIPPED

TPCH_RULES: Mapping[str, Any] = {
    "prefix": "dwd_",
    **{
        rule: {"lineitem": tables.LINEITEM_RULES[rule]}
        for rule in ("computed", "primary_keys", "partition_by")
    },
    "options": tables.LINEITEM_OPTIONS,
}
"""`dwd_lineitem` as in the article, the other tables of TPC-H beside it."""
POSTGRES_RULES: Mapping[str, Any] = {
    "prefix": "dwd_",
    "computed": {"lineitem": tables.COMPUTED},
    "options": {"bucket": 2, "changelog-producer": "lookup"},
}
"""The same of PostgreSQL, whose log has no old values: the key is that of the source, and old rows are looked
up."""
ATTEMPTS = 5
_POLL_SECONDS = 0.15


@dataclass(frozen=True, slots=True)
class DatabasePlan:
    """What to capture: the tables of a database into database `into` of the lake. `rules` are
    further arguments of `lake.ingest`; with `summary` the pricing summary is kept in step. `rows`: about how
    many there are."""

    source: SourceDatabase
    into: str
    rules: Mapping[str, Any] = field(default_factory=dict)
    summary: bool = False
    rows: int = 0
    interval: str = "1s"


class DatabaseRun:
    """A capture at work, in a `with` block at whose end it is stopped."""

    def __init__(self, spark: SparkSession, places: Places, plan: DatabasePlan) -> None:
        self.places, self.plan, self._spark = places, plan, spark
        self.lake = ts.connect(str(places.warehouse))
        self.journal = Journal(places.journal)
        self._summary: summary_job.SummaryJob | None = None
        self.job: Any = None

    def __enter__(self) -> DatabaseRun:
        if self.plan.summary:
            tables.summary(self.lake)
        self.job = self.lake.ingest(
            self.plan.source.url,
            into=self.plan.into,
            spark=self._spark,
            password_file=self.plan.source.address.password_file,
            checkpoint=str(self.places.checkpoint(self.plan.into)),
            interval=self.plan.interval,
            **self.plan.rules,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._summary is not None:
            self._summary.stop()
        if self.job is not None:
            self.job.stop()

    @property
    def reports(self) -> Sequence[BatchReport]:
        """What the batches did so far."""
        batches: Sequence[BatchReport] = self.job.reports()
        return batches

    def targets(self) -> dict[str, str]:
        """The tables of the lake by the name in the source."""
        events = [event for report in self.reports for event in report.events]
        return {event.source: event.table for event in events if event.kind == CAPTURED}

    def left_out(self) -> dict[str, str]:
        """Why tables are not captured, by their name in the source."""
        events = [event for report in self.reports for event in report.events]
        return {event.source: event.done for event in events if event.kind == SKIPPED}

    def follow(
        self, show: ShowProgress, until: Callable[[], bool], *, begun: Callable[[], None] = lambda: None
    ) -> None:
        """Return when all rows are read, `until` is true and everything that was committed in the source
        before is in the lake, the summary too. `begun` is called once reading begins. Raises what ended the
        job."""
        end: Any = None
        waiting = True
        while True:
            self._require_running()
            reports = self.reports
            if reports and waiting:
                begun()
                waiting = False
            loaded = settled(reports)
            self._report(show, reports, loaded=loaded)
            if loaded and self.plan.summary and self._summary is None:
                self._summary = summary_job.SummaryJob(self._spark, self.lake)
            if loaded and until():
                end = end or self.plan.source.log_end()
                if self.plan.source.reaches(reports[-1], end) and self._summarised():
                    return
            time.sleep(_POLL_SECONDS)

    def _require_running(self) -> None:
        if not self.job.running:
            self.job.wait()  # raises what ended it
            raise ts.Unavailable("the capture has ended")
        if self._summary is not None and (failed := self._summary.error):
            raise failed

    def _report(self, show: ShowProgress, reports: Sequence[BatchReport], *, loaded: bool) -> None:
        read = sum(t.snapshot_rows for r in reports for t in r.tables)
        total = read if loaded else max(read, self.plan.rows)
        names = ", ".join(name.partition(".")[2] for name in (reports[-1].snapshotting if reports else ()))
        show("load", read, total, "" if loaded else names)
        changes = sum(t.changes for r in reports for t in r.tables)
        if changes:
            show("changes", changes, 0, freshness_words(reports))

    def _summarised(self) -> bool:
        if self._summary is None:
            return True
        goal = summary_job.newest_change(self.lake.table(tables.LINEITEM))
        return summary_job.reached(str(self.places.warehouse)) >= goal


def settled(reports: Sequence[BatchReport]) -> bool:
    """Whether all rows are read and the log is followed beyond where the last of them were: from here on
    changes are exactly those between two states, which the summary needs."""
    return bool(reports) and not reports[-1].snapshotting and not reports[-1].chunks


def verify(
    run: DatabaseRun, show: ShowProgress, *, until: Callable[[], bool] = lambda: True
) -> list[TableComparison]:
    """Compare every table with its source. A table that changes meanwhile is caught up with and compared
    again, a few times: it is right if it was equal once."""
    comparisons = []
    for source, target in sorted(run.targets().items()):
        name = source.partition(".")[2]
        for attempt in range(ATTEMPTS):
            if attempt:
                run.follow(show, until)
            comparison = run.plan.source.compare(name, run.lake.table(target), _compared(show, name))
            if not comparison.differences:
                break
        comparisons.append(comparison)
    return comparisons


def _compared(show: ShowProgress, name: str) -> Callable[[int], None]:
    return lambda rows: show("verification", rows, 0, name)


def summary_problems(run: DatabaseRun) -> list[str]:
    """What differs between the summary that was kept in step and the same query asked in the source."""
    names = tables.SUMMARY_SCHEMA.names
    select = summary_job.Q1.partition("\n")[2].replace(tables.LINEITEM, "lineitem")
    for part in ("year", "month"):
        select = select.replace(f"l_{part}", f"EXTRACT({part} FROM l_shipdate)")
    select = re.sub(r"(AVG\(\w+\))", r"ROUND(\1, 6)", select)  # servers keep other digits
    expected = {tuple(map(str, row)) for row in run.plan.source.rows(select)}
    kept = run.lake.table(tables.SUMMARY).scan(columns=names).to_arrow().to_pylist()
    groups = {tuple(str(row[name]) for name in names) for row in kept}
    return [f"{tables.SUMMARY}: {row} is not what the source gives" for row in sorted(groups ^ expected)]
