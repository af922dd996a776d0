"""Change capture of many tables: one stream into a lake, by the runner that was chosen (`flow/job.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tablestore.cdc.capture.report import BatchProgress, BatchReport, CaptureJournal, Freshness
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.sink import CapturePlan, CaptureSink, SinkSettings
from tablestore.cdc.capture.source import CaptureSource, RetainingSource
from tablestore.core.errors import Unsupported
from tablestore.flow.batch import Batch
from tablestore.flow.checkpoint import Checkpoint, Origin, origin_in_lake
from tablestore.flow.job import FlowJob
from tablestore.flow.runner import Runner, Stream
from tablestore.flow.source import LogRetention, Offset
from tablestore.io.paths import checked_name, is_object_location, join
from tablestore.table.lake import Lake

DEFAULT_ROOT = ".tablestore/cdc"  # of a warehouse; no name of a database begins with a dot
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


class CaptureJob(FlowJob):
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
        super().__init__(settings.name)
        self.checkpoint, self.lake = settings.checkpoint, lake
        self._source, self._rules, self._settings = source, rules, settings
        self._runner, self._on_batch = runner, on_batch
        self._journal = CaptureJournal(settings.checkpoint)
        self._sink: CaptureSink | None = None
        self._reached: Offset | None = None  # where the newest batch ends that is carried out

    def start(self) -> CaptureJob:
        """Start it. Raises InvalidRequest for a checkpoint of another capture."""
        settings = self._settings
        origin = origin_in_lake(settings.checkpoint, self.lake, user=settings.name, source=settings.title)
        self._reached = Checkpoint.at(self.checkpoint).reached()
        self._launch(partial(self._begin, origin))
        return self

    def reports(self, newest: int = 2_000) -> list[BatchReport]:
        """The newest batches in order, also those of earlier processes."""
        return self._journal.reports(newest)

    def progress(self) -> BatchProgress | None:
        """The batch that is being read and written, with the rows of each of its pieces that is done; None
        between two batches."""
        sink = self._sink
        return None if sink is None else sink.progress()

    def log_kept(self) -> list[LogRetention]:
        """How much is over of the time or size up to which its source keeps the log behind the newest batch.
        Asks the source; raises Unavailable where that is away."""
        reached, source = self._reached, self._source
        return [*source.kept(reached)] if reached is not None and isinstance(source, RetainingSource) else []

    def freshness(self, newest: int = 2_000) -> Freshness:
        """How many seconds after its commit in the source a transaction was visible in the lake: the
        distribution over those of the newest batches."""
        return Freshness.of(self.reports(newest))

    def __repr__(self) -> str:
        return job_text(self.name, self._settings.title, self.state_text, self.reports())

    def _begin(self, origin: Origin) -> Stream:
        """The stream from where its checkpoint is."""
        settings, checkpoint = self._settings, Checkpoint.at(self.checkpoint)
        if self._sink is not None:
            checkpoint.require_begun()
        sink = self._sink = CaptureSink(
            self.lake,
            self._source,
            self._rules,
            SinkSettings(settings.name, compact_every=settings.compact_every),
            self._journal,
        )

        def on_batch(batch: Batch) -> None:
            checkpoint.require_begun()
            report = sink.write(batch, origin.identifier + batch.number)
            self._batches += 1
            self._reached = batch.end
            if self._on_batch is not None:
                self._on_batch(report)

        return self._runner.start(
            CapturePlan(self._source),
            on_batch,
            checkpoint=settings.checkpoint,
            start=origin.position,
            interval_seconds=settings.interval_seconds,
            variables=settings.variables,
        )


def job_text(name: str, title: str, state: str, reports: list[BatchReport]) -> str:
    """A capture as a text table: what it read into each table, and how fresh that is."""
    head = f"capture {name} of {title}: {state}"
    if not reports:
        return f"{head}, no batch yet"
    newest = reports[-1]
    rows: dict[str, list[int]] = {}
    for report in reports:
        for table_report in report.tables:
            sums = rows.setdefault(table_report.table, [0, 0, 0, 0])
            for i, n in enumerate((table_report.snapshot_rows, table_report.changes, table_report.bad_rows)):
                sums[i] += n
            sums[3] = max(sums[3], table_report.snapshot or 0)
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
