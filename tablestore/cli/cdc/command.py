"""A change capture as the options ask for it, shown until it ends or is stopped; with --plan which tables it
would capture, and into what. Its metrics: rows, freshness, how far it is behind its source, what it had to
leave behind.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

import tablestore as ts
from tablestore.cdc.capture.job import CaptureJob
from tablestore.cdc.capture.preview import PreviewTable, preview
from tablestore.cdc.capture.report import BatchProgress, BatchReport
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.state import CaptureModel, capture_model
from tablestore.cdc.opening import rules_of, source_address
from tablestore.cli.cdc.screen import emit_batch, picture, plain_lines, summary
from tablestore.cli.door import ExitCode
from tablestore.cli.event_log import is_json, say_error
from tablestore.cli.metrics import HealthAnswer, Labels, MetricFamily, one, quiet, states, watched
from tablestore.cli.running import INTERRUPTED, asked_to_stop, code_of, run, running, show_until_end
from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import TablestoreError
from tablestore.flow.job import ENDED, FAILED, PAUSED, RUNNING, STOPPED, WAITING
from tablestore.flow.source import BYTES, SECONDS, LogRetention

SOURCE = (
    "password_file",
    "tls",
    "tls_ca",
    "chunk_rows",
    "chunks",
    "log_bytes",
    "format",
    "start",
    "zero_dates",
    "publication",
    "slot",
)
_MEND = "another start ends the same until that is mended; then it goes on from here"
KEPT = 2_000  # reports that a picture is made of
_STATES = (RUNNING, PAUSED, WAITING, ENDED, STOPPED, FAILED)
_QUIET_SECONDS = 300.0
_ASK_SECONDS = 10.0  # between two questions of how much of the log is left
_ROWS = {
    "snapshot_rows": "Rows of the first reading of tables.",
    "changes": "Row images of the log.",
    "bad_rows": "Rows that could not be taken.",
}


def main(options: argparse.Namespace) -> int:
    """Capture until Ctrl-C or, with --once, until all is read; --plan says what would be captured."""

    def work(screen: Console) -> int:
        if options.plan:
            return print_plan(options.source, wanted(options), Console(highlight=False))
        return capture(options, screen)

    words = "stopped; the same command goes on from the last batch that is committed"
    return run("cdc", work, options.log, interrupted=words)


def wanted(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `lake.ingest` that say what is captured and how."""
    given: dict[str, Any] = {
        "into": options.into,
        "prefix": options.prefix,
        "suffix": options.suffix,
        "merge_shards": options.merge_shards,
        "type_mapping": options.type_mapping,
        "primary_keys": by_pattern(options.primary_keys),
        "partition_by": by_pattern(options.partition_by),
        "computed": computed(options.computed),
        "metadata": options.metadata,
        "metadata_prefix": options.metadata_prefix,
        "options": dict(options.table_option),
        "schema_change": options.schema_change,
        "bad_rows": options.bad_rows,
        "keyless": options.keyless,
        "follow": not options.once,
    }
    if options.tables:
        given["tables"] = ",".join(options.tables)
    if options.exclude:
        given["exclude"] = ",".join(options.exclude)
    return given | of_source(options)


def of_source(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `lake.ingest` that a kind of source takes, those that were written."""
    given = {name: getattr(options, name) for name in SOURCE if getattr(options, name) is not None}
    if options.leave_out:
        given["left_out"] = by_pattern(options.leave_out)
    if options.read_again:
        given["read_again"] = ",".join(options.read_again)
    if given.get("start", "").isdigit():
        given["start"] = int(given["start"])
    for name, written in (("format_options", options.format_option), ("properties", options.property)):
        if written:
            given[name] = dict(written)
    if options.column:
        given["columns"] = computed(options.column, "TABLE:NAME=TYPE, as shop.orders:price=DECIMAL(15, 2)")
    return given


def by_pattern(written: Sequence[str]) -> dict[str, str]:
    """`PATTERN=COLUMNS` for each; without a pattern it is for all tables, and comes last."""
    patterns: dict[str, str] = {}
    for text in sorted(written, key=lambda each: "=" not in each):
        pattern, equals, columns = text.rpartition("=")
        patterns[pattern if equals else "*.*"] = columns
    return patterns


def computed(written: Sequence[str], form: str = "NAME=EXPRESSION, as dt=date(created_at)") -> dict[str, Any]:
    """`[PATTERN:]NAME=EXPRESSION` for each: {name: expression}, or {pattern: {name: expression}} where a
    pattern is named. Raises InvalidRequest with the form for what is none."""
    columns: dict[str, dict[str, str]] = {}
    for text in written:
        name, equals, expression = text.partition("=")
        if not equals:
            raise ts.InvalidRequest(f"{text!r} is no {form}")
        pattern, _, column = name.rpartition(":")
        columns.setdefault(pattern or "*.*", {})[column.strip()] = expression.strip()
    return columns["*.*"] if list(columns) == ["*.*"] else columns


def capture(options: argparse.Namespace, screen: Console) -> int:
    """Run the capture and show it."""
    lake = ts.connect(options.warehouse, **dict(options.option))
    given = wanted(options)
    for name in ("name", "checkpoint"):
        if getattr(options, name) is not None:
            given[name] = getattr(options, name)
    given |= {"interval": options.interval, "compact_every": options.compact_every}
    with running("cdc", options.engine, options.cores, options.master) as (engine, log):
        fresh, metrics = list[BatchReport](), CaptureMetrics()

        def on_batch(report: BatchReport) -> None:
            metrics.add(report)
            fresh.append(report)

        with watched(options, metrics):
            job = metrics.job = lake.ingest(options.source, **given, **engine, on_batch=on_batch)
            try:
                return show(job, fresh, screen, log)
            except Exception:
                job.stop()
                raise


def show(job: Any, fresh: list[BatchReport], screen: Console, log: Path | None) -> int:
    """Show the capture until it ends or is stopped; `fresh` gets its reports. Spark's own words are in
    `log`, which is kept where the capture failed."""
    show_batch = emit_batch if is_json(screen) else _print_batch

    def print_news() -> None:
        while fresh:
            show_batch(fresh.pop(0))

    pictures = _pictures(job, fresh)
    with asked_to_stop(screen, "stopping after this batch; once more leaves it to be done again") as asked:
        show_until_end(job, screen, asked, picture=lambda: next(pictures), print_news=print_news)
    screen.print(summary(_model(job, job.reports())), markup=False, soft_wrap=True)
    if job.error is not None:
        say_error(screen, "cdc", str(job.error), failed=True)
        code = code_of(job.error)
        where = "" if log is None else f"Spark's own words are in {log}; "
        next_step = "the same command goes on from here" if code == ExitCode.FAILED else _MEND
        screen.print(f"{where}{next_step}", markup=False)
        return code
    if log is not None:
        log.unlink(missing_ok=True)
    if job.state == "stopped":
        screen.print("stopped between two batches; the same command goes on from here")
        return INTERRUPTED
    paused = job.reports()[-1].paused if job.reports() else ()
    if paused:
        names = ",".join(paused)
        screen.print(
            f"[bold red]cdc: paused:[/] {names}: the rows in the lake stay as they are; the events say why"
        )
        again = f"--read-again '{names}' reads them anew, --exclude '{names}' goes on without them"
        screen.print(again, markup=False, soft_wrap=True)
        return ExitCode.PAUSED
    return 0


def _print_batch(report: BatchReport) -> None:
    for line in plain_lines(report):
        print(line, flush=True)


def _pictures(job: Any, fresh: list[BatchReport]) -> Iterator[RenderableType]:
    seen, shown = job.reports(), None
    model = _model(job, seen)
    while True:
        under_way = job.progress()
        if fresh or under_way != shown:
            while fresh:
                seen.append(fresh.pop(0))
            del seen[:-KEPT]
            model, shown = _model(job, seen, under_way), under_way
        model = replace(model, now=time.time(), state=job.state)
        yield picture(model)


def _model(job: Any, reports: Iterable[BatchReport], under_way: BatchProgress | None = None) -> CaptureModel:
    error = "" if job.error is None else str(job.error)
    given = {"title": job.name, "now": time.time(), "state": job.state, "error": error}
    return capture_model(list(reports), **given, under_way=under_way)


def print_plan(url: str, wanted: Mapping[str, Any], out: Console) -> int:
    """Print what a capture with these arguments of `lake.ingest` would do; 0, or 2 where it would be refused.
    Only the source is asked."""
    rules = {name: value for name, value in wanted.items() if name in signature(CaptureRules.of).parameters}
    source = {name: value for name, value in wanted.items() if name not in {*rules, "follow"}}
    address = source_address(url, rules.pop("tables", ()), source)
    capture_rules = rules_of(address, rules)
    with tempfile.TemporaryDirectory(prefix="tablestore-cdc-plan-") as folder:
        previews = preview(address.open(capture_rules, checkpoint=folder, follow=False), capture_rules)
    for line in plan_lines(previews):
        out.print(line, markup=False, soft_wrap=True)
    refused = [each for each in previews if each.refused]
    captured = len(previews) - sum(bool(each.reason) for each in previews)
    out.print(f"{captured} of {len(previews)} tables of {address.title}; nothing was written", soft_wrap=True)
    return ExitCode.REFUSED if refused else ExitCode.DONE


def plan_lines(previews: Sequence[PreviewTable]) -> list[str]:
    """A block for each table of the lake, then the tables that are left out."""
    lines: list[str] = []
    captured = [each for each in previews if each.columns is not None]
    for target in dict.fromkeys(each.target for each in captured):
        tables = [each for each in captured if each.target == target]
        columns = tables[0].columns
        assert columns is not None, "a table that is captured has columns"
        lines.append(f"{target}  from {', '.join(map(_counted, tables))}")
        key = f"primary key ({', '.join(columns.primary_key)})"
        lines.append(
            "  "
            + key
            + (f", partitioned by ({', '.join(columns.partition_by)})" * bool(columns.partition_by))
        )
        names = {c.name for each in tables if each.shape is not None for c in each.shape.columns}
        spelled = {
            c.name: c.spelled
            for each in tables
            if each.shape is not None
            for c in each.shape.columns
            if c.spelled
        }
        wide = max(len(c.name) for c in columns.columns)
        for column in columns.columns:
            source = spelled.get(column.name, "") if column.name in names else column.comment or "metadata"
            lines.append(f"  {column.name:<{wide}}  {column.type!s:<24}  {source}".rstrip())
        lines += [f"  WARNING  {each.source}: {each.warning}" for each in tables if each.warning]
        lines.append("")
    for each in previews:
        if each.columns is None:
            lines.append(f"{'REFUSED' if each.refused else 'left out'}  {each.source}: {each.reason}")
    return lines


def _counted(table: PreviewTable) -> str:
    return str(table.source) + ("" if table.rows is None else f" (about {table.rows:,} rows)")


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
            values: dict[Labels, float] = {(log,): float(n) for log, n in kept.items() if n is not None}
            yield MetricFamily(f"{name}retention_{field}_{unit}", "gauge", text, ("log",), values)
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
