"""A maintenance service as the options ask for it, shown until it ends or is stopped: what it did, what waits
and for what. Its metrics: what it did and spent, and how the tables stand that it looks at.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

import tablestore as ts
from tablestore.cli.door import ExitCode
from tablestore.cli.event_log import emit, is_json
from tablestore.cli.metrics import HealthAnswer, Labels, MetricFamily, one, quiet, states, watched
from tablestore.cli.running import INTERRUPTED, asked_to_stop, run, running, show_until_end
from tablestore.core.quantities import many, size
from tablestore.flow.job import ENDED, FAILED, PAUSED, RUNNING, STOPPED, WAITING
from tablestore.io.paths import location
from tablestore.io.routed import file_io_for
from tablestore.maintenance.opening import service_of
from tablestore.maintenance.report import MaintenanceReport, WorkDone
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


def main(options: argparse.Namespace) -> int:
    """Maintain until Ctrl-C or, with --once, until nothing is left to do."""

    def work(screen: Console) -> int:
        if options.plan or options.advise is not None:
            return answered(options, screen)
        with running("maintain", options.engine, options.cores, options.master) as (engine, _):
            service = service_for(options, **{"engine": options.engine, **engine})
            with watched(options, MaintenanceMetrics(service)):
                return show(service.start(), screen)

    return run("maintain", work, options.log, interrupted="stopped; what is half done was not committed")


def answered(options: argparse.Namespace, screen: Console) -> int:
    """Print what would be done, or which options a table's history advises."""
    service = service_for(options)
    if options.advise is not None:
        print(service.advice(options.advise))
        return 0
    plan = service.plan()
    for piece in plan:
        print(piece.text)
    if not plan:
        screen.print("nothing is due")
    return 0


def service_for(options: argparse.Namespace, **engine: Any) -> MaintenanceService:
    """The service that the options ask for, not yet started; `engine` says what compacts."""
    how: dict[str, Any] = {"tables": ",".join(options.tables), "policy": policy_of(options)}
    how |= {"bytes_per_hour": options.bytes_per_hour, "windows": options.window, "name": options.name}
    how |= {"follow": not options.once, "poll": options.poll}
    reach = dict(options.option)
    lake = ts.connect(options.warehouse, **reach)
    return service_of(lake, file_io_for(location(lake.warehouse), reach), **how, **engine)


def policy_of(options: argparse.Namespace) -> ts.MaintenancePolicy | Mapping[str, Any]:
    """The policy of the options, or the file of policies that they name. Raises InvalidRequest for what is
    no TOML, or no file that can be read."""
    if options.policy is None:
        given = {"runs": options.runs, "freshness": options.freshness, "analyze_every": options.analyze_every}
        return ts.MaintenancePolicy(**given)
    try:
        return tomllib.loads(Path(options.policy).read_text(encoding="utf-8"))
    except OSError as e:
        raise ts.InvalidRequest(f"--policy {options.policy}: {e.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ts.InvalidRequest(f"{options.policy} is no TOML: {e}") from None


def show(service: MaintenanceService, screen: Console) -> int:
    """Show the service until it ends or is stopped."""
    show_work = emit_work if is_json(screen) else _print_work
    shown, said = 0, dict[str, str]()

    def print_news() -> None:
        nonlocal shown, said
        shown = _shown(service, shown, show_work)
        said = _said_troubles(service.report(), said, screen)

    with asked_to_stop(screen, "ending after the work under way") as asked:
        try:
            show_until_end(
                service, screen, asked, picture=lambda: picture(service.report()), print_news=print_news
            )
        finally:
            service.stop()
    if service.error is not None:
        raise service.error
    report = service.report()
    screen.print(report.summary, markup=False, soft_wrap=True)
    if not report.tables:
        screen.print("no table of the lake is one that --tables or --policy names")
    if service.failing or report.troubles:
        return ExitCode.FAILED
    return INTERRUPTED if asked.is_set() else 0


def _shown(service: MaintenanceService, shown: int, show_work: Callable[[WorkDone], None]) -> int:
    """Show the work that was done since; how many pieces there are."""
    done = service.done_after(shown)
    for work in done:
        show_work(work)
    return shown + len(done)


def _said_troubles(report: MaintenanceReport, before: dict[str, str], screen: Console) -> dict[str, str]:
    """Say which tables cannot be looked at, where that is not what was said `before`; all of them now."""
    for table, error in report.troubles:
        if before.get(table) == error:
            continue
        if is_json(screen):
            emit("work", f"{table}: {error}", table=table, error=error)
        else:
            screen.print(Text(f"maintain: {table}: {error}", style="red"), soft_wrap=True)
    return dict(report.troubles)


def _print_work(work: WorkDone) -> None:
    print(work.text, flush=True)


_DONE, _WAITING = 12, 8


def picture(report: MaintenanceReport) -> Group:
    """The newest work with its numbers, then what waits, then tables in trouble."""
    head = Text.assemble(("maintain", "bold"), f"  {report.summary}")
    parts: list[Text | Table] = [head]
    if report.done:
        parts.append(_done(report))
    for work in report.waiting[:_WAITING]:
        parts.append(Text(f"waits: {work.text}", style="dim", overflow="ellipsis", no_wrap=True))
    if len(report.waiting) > _WAITING:
        parts.append(
            Text(f"… {many(len(report.waiting) - _WAITING, 'more piece')} of work wait", style="dim")
        )
    parts += [Text(f"{table}: {error}", style="red") for table, error in report.troubles]
    return Group(*parts)


def emit_work(work: WorkDone) -> None:
    """A piece of work as an event."""
    emit(
        "work",
        work.text,
        table=work.table,
        kind=work.kind,
        where=work.where,
        read_bytes=work.read,
        written_bytes=work.written,
        seconds=work.seconds,
        error=work.error,
    )


def _done(report: MaintenanceReport) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("table", "where", "what", "runs", "read", "wrote", "why"):
        table.add_column(
            title, justify="right" if title in ("runs", "read", "wrote") else "left", no_wrap=True
        )
    for work in report.done[-_DONE:]:
        runs = f"{work.runs_before} → {work.runs_after}" if work.runs_before else ""
        read, wrote = (size(count) if count else "" for count in (work.read, work.written))
        why = Text(work.error or work.why, style="red" if work.error else "")
        table.add_row(work.table, work.where, work.kind, runs, read, wrote, why)
    return table


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
