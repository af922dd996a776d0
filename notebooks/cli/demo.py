"""`demo`: the source article's demo on generated TPC-H data, start to scorecard, verified to the last row.

Full load and increments in one query, the pricing summary beside it, compaction, verification. The same
command on the same warehouse goes on where a killed run stopped and verifies one that had finished;
`--fresh` starts over. Exit code 0 only if everything agrees.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

import tablestore as ts
import widgets
from datasets.errors import DatasetError
from datasets.tpch import Scale
from notebooks.cli.places import ROOT
from notebooks.demo import pipeline, scorecard, summary_job, tables
from notebooks.demo.journal import Busy, Journal, Places, alone
from notebooks.demo.pipeline import Plan, Run
from notebooks.demo.resources import MemoryWatch
from notebooks.demo.verification import Verification, verify
from tablestore.spark.sessions import session

DIFFERS, REFUSED, FAILED, INTERRUPTED = 1, 2, 3, 130


def main(arguments: list[str]) -> int:
    """Run the demo; 0 verified, 1 something differs, 2 refused, 3 a query failed."""
    options = parser().parse_args(arguments)
    places = Places(options.warehouse.expanduser().resolve())
    screen = Console(stderr=True, highlight=False)
    try:
        with alone(places):
            return _demo(options, places, screen)
    except (Busy, DatasetError, ts.TablestoreError) as e:
        screen.print("[bold red]demo:[/]", Text(str(e)))
        return REFUSED
    except KeyboardInterrupt:
        screen.print("stopped; the same command goes on from here")
        return INTERRUPTED
    except OSError as e:
        screen.print("[bold red]demo:[/]", Text(f"{e.filename or places.warehouse}: {e.strerror or e}"))
        return REFUSED
    except PySparkException as e:
        text = str(e).splitlines()
        lines = [line for line in text if "tablestore.core.errors" in line] or text[:5]
        screen.print("[bold red]demo: a query failed[/]", Text("\n".join(lines)))
        screen.print(f"Spark's own words are in {places.spark_log}; the same command goes on from here")
        return FAILED


def parser() -> argparse.ArgumentParser:
    """The options of the verb."""
    p = argparse.ArgumentParser(prog="workbench demo", description=__doc__.partition("\n")[0])
    p.add_argument(
        "--scale-factor",
        default=None,
        metavar="SF",
        help="0.1 by default; 1 is 6 million rows, 10 is 60 million",
    )
    p.add_argument("--pairs", type=int, default=None, help="refresh pairs after the load (default 10)")
    p.add_argument(
        "--warehouse",
        type=Path,
        default=ROOT / "lake",
        metavar="DIR",
        help="where the lake is (default %(default)s)",
    )
    p.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    p.add_argument(
        "--html", type=Path, metavar="FILE", help="write one page with the timeline and the levels"
    )
    p.add_argument(
        "--fresh", action="store_true", help="remove what an earlier demo left in the warehouse first"
    )
    p.add_argument(
        "--interval",
        type=float,
        default=None,
        metavar="SECONDS",
        help="least time between batches (the article: 60); default none",
    )
    p.add_argument(
        "--chunks-per-batch",
        type=int,
        default=8,
        metavar="N",
        help="chunks of the full load in one commit (default %(default)s)",
    )
    p.add_argument(
        "--cores", type=int, default=None, metavar="N", help="Spark tasks at once (default: all cores)"
    )
    return p


def _demo(options: argparse.Namespace, places: Places, screen: Console) -> int:
    _require_possible(options)
    if options.fresh:
        _remove(places)
    journal = Journal(places.journal)
    plan = _plan(options, journal)
    journal.add("run", time=time.time())
    began = time.monotonic()
    with MemoryWatch() as memory:
        screen.print(
            f"TPC-H lineitem at scale factor {plan.scale_factor}, {plan.pairs} refresh pairs,"
            f" in {places.warehouse}"
        )
        run = pipeline.prepare(places, plan)
        if run.source.note:
            screen.print(run.source.note)
        _work(run, screen)
        with _bars(screen) as show:
            found = verify(run, show)
    peak = max([memory.peak_bytes, *(e["bytes"] for e in journal.events("memory"))])
    journal.add("memory", bytes=memory.peak_bytes)
    facts = scorecard.figures(run, found, peak_rss_bytes=peak)
    facts["total_seconds"] = round(time.monotonic() - began, 3)
    _report(run, facts, found, options, screen)
    return 0 if found.verified else DIFFERS


def _plan(options: argparse.Namespace, journal: Journal) -> Plan:
    """The options, where they are silent what the warehouse was begun with, else the defaults."""
    before = journal.last("plan") or {}
    scale = str(Scale.of(options.scale_factor or before.get("scale_factor", "0.1")))
    pairs = options.pairs if options.pairs is not None else before.get("pairs", 10)
    for name, wanted in (("scale_factor", scale), ("pairs", pairs)):
        if before and before[name] != wanted:
            raise ts.InvalidRequest(
                f"this warehouse holds a demo with {name.replace('_', ' ')} {before[name]}, not {wanted}:"
                " add --fresh to start over"
            )
    if not before:
        journal.add("plan", scale_factor=scale, pairs=pairs)
    return Plan(
        scale,
        pairs,
        chunks_per_batch=options.chunks_per_batch,
        interval_seconds=options.interval,
        cores=options.cores,
    )


def _require_possible(options: argparse.Namespace) -> None:
    """Refuse arguments that cannot be, before anything is noted or removed."""
    if options.scale_factor is not None:
        Scale.of(options.scale_factor)
    if options.pairs is not None and not 0 <= options.pairs <= 999:
        raise ts.InvalidRequest(f"--pairs {options.pairs}: use 0 to 999")
    for name, least in (("chunks_per_batch", 1), ("cores", 1), ("interval", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise ts.InvalidRequest(f"--{name.replace('_', '-')} {value}: use at least {least}")
    for file in (options.json, options.html):
        if file is not None and not file.expanduser().absolute().parent.is_dir():
            raise ts.InvalidRequest(f"{file}: there is no directory {file.parent}")


def _remove(places: Places) -> None:
    """Take away what a demo made; other tables of the lake stay, a foreign one of the same name refuses."""
    lake = ts.connect(str(places.warehouse))
    for name, column in ((tables.LINEITEM, "l_shipinstruct"), (tables.SUMMARY, "sum_disc_price")):
        if name in lake and column not in lake.table(name).schema.names:
            raise ts.InvalidRequest(f"{name} was not made by a demo; choose another --warehouse")
    for name in (tables.LINEITEM, tables.SUMMARY):
        lake.drop_table(name, if_exists=True)
    if tables.DATABASE in lake.databases() and not lake.tables(tables.DATABASE):
        lake.drop_database(tables.DATABASE)
    for folder in (places.source, places.own / "checkpoints", summary_job.directory(places.warehouse)):
        shutil.rmtree(folder, ignore_errors=True)
    places.journal.unlink(missing_ok=True)


def _work(run: Run, screen: Console) -> None:
    """What is left to do, which is nothing in a finished warehouse."""
    finished = run.journal.last("compacted") and run.ingested()
    if finished and pipeline.summary_position(run) >= pipeline.last_change(run):
        screen.print("this warehouse is finished: verifying it again")
        return
    here = run.position()
    if here.chunks:
        screen.print(
            f"going on after chunk {here.chunks} of {run.chunks}"
            + (f", log {here.file}" if here.file else "")
        )
    spark = session("workbench demo", cores=run.plan.cores, log_file=str(run.places.spark_log))
    try:
        with _bars(screen) as show:
            pipeline.patiently(
                lambda: pipeline.run_queries(spark, run, show),
                again=lambda: screen.print("Spark waited 10 s for a worker in vain: going on"),
            )
        with _bars(screen) as show:
            pipeline.compact_fully(spark, run, show)
    finally:
        spark.stop()


@contextmanager
def _bars(screen: Console) -> Iterator[pipeline.ShowProgress]:
    """A `show` that moves a progress bar for each step; a line at the end of each where there
    is no terminal.
    """
    columns = (
        TextColumn("{task.description:<13}"),
        BarColumn(),
        _Amount(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=screen)
    known: dict[str, Any] = {}

    def show(step: str, done: float, total: float, note: str) -> None:
        if step not in known:
            known[step] = progress.add_task(step, total=total or None, note="")
        progress.update(known[step], completed=done, total=total or None, note=note)

    with progress:
        yield show
        for task in known.values():
            if progress.tasks[task].total is None:
                progress.update(task, total=max(progress.tasks[task].completed, 1))


class _Amount(ProgressColumn):
    """Rows and rows a second, or the share done of what is not counted in rows."""

    def render(self, task: Task) -> Text:
        note = f"  {task.fields['note']}" if task.fields.get("note") else ""
        if task.total is not None and task.total <= 1:
            return Text(f"{task.percentage:3.0f} %{note}")
        total = f" of {task.total:,.0f}" if task.total else ""
        seconds = task.finished_time or task.elapsed or 0.0
        speed = f"  {task.completed / seconds:,.0f}/s" if seconds > 0.5 and task.completed else ""
        return Text(f"{task.completed:,.0f}{total} rows{speed}{note}")


def _report(
    run: Run, facts: dict[str, Any], found: Verification, options: argparse.Namespace, screen: Console
) -> None:
    out = Console(highlight=False)
    out.print(scorecard.as_text(facts))
    if found.verified:
        out.print(
            f"[bold green]verified[/]: {found.rows:,} rows, {found.columns} column checksums and"
            f" {found.groups} groups of Q1 equal an independent computation; all invariants hold"
        )
    else:
        out.print("[bold red]DIFFERS[/]:")
        for problem in found.problems[:20]:
            out.print(f"  {problem}", markup=False)
    if options.json:
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    if options.html:
        options.html.write_text(page(run), encoding="utf-8")
    out.print("\nderived from TPC-H, not comparable to published TPC-H results")
    out.print("next:")
    for command in next_commands(run, options.warehouse):
        out.print(f"  {command}", markup=False, soft_wrap=True)


def next_commands(run: Run, warehouse: Path) -> list[str]:
    """Three commands that work when pasted, from any directory."""
    workbench, lake = shlex.quote(str(ROOT / "workbench")), str(warehouse.expanduser().resolve())
    look = f"import tablestore as ts; print(ts.open({run.summary.location!r}).scan().to_pandas().to_string())"
    why = (
        f"import tablestore as ts; from tablestore import col; t = ts.open({run.lineitem.location!r});"
        " print(t.scan(where=(col('l_year') == 1995) & (col('l_orderkey') < 100)).explain())"
    )
    return [
        f"{workbench} python -c {shlex.quote(look)}",
        f"{workbench} python -c {shlex.quote(why)}",
        f"{workbench} demo --warehouse {shlex.quote(lake)}   # verifies what is there again",
    ]


def page(run: Run) -> str:
    """One self-contained page: the timeline of the table and the levels of its trees, linked."""
    timeline, levels = widgets.SnapshotTimeline(run.lineitem), widgets.LsmLevels(run.lineitem)
    return widgets.page(run.lineitem.name, [timeline, levels])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
