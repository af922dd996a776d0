"""`demo`: a run over files or over a server, its verification, its figures; `demo_options` has the help."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import time
from typing import Any

from pyspark.errors import PySparkException
from rich.console import Console
from rich.text import Text

import tablestore as ts
import widgets
from datasets.errors import DatasetError
from datasets.tpch import Scale
from notebooks.cli import demo_database
from notebooks.cli.demo_options import CHUNKS, PRIVATE, parser
from notebooks.cli.places import ROOT
from notebooks.cli.step_bars import step_bars
from notebooks.demo import database_scorecard, pipeline, scorecard, summary_job, tables
from notebooks.demo.demo_session import demo_session
from notebooks.demo.journal import Busy, Journal, Places, alone
from notebooks.demo.pipeline import Plan, Run
from notebooks.demo.resources import MemoryWatch
from notebooks.demo.verification import Verification, verify
from tablestore.io.paths import location
from tablestore.io.routed import file_io_for

DIFFERS, REFUSED, FAILED, INTERRUPTED = 1, 2, 3, 130


def main(arguments: list[str]) -> int:
    """Run the demo; 0 verified, 1 something differs, 2 refused, 3 a query failed."""
    options = parser().parse_args(arguments)
    options.warehouse = options.warehouse or str(
        ROOT / ("lake" if options.source is None else "lake-of-source")
    )
    screen = Console(stderr=True, highlight=False)
    try:
        places = Places.of(options.warehouse)
        with alone(places):
            return _demo(options, places, screen)
    except (Busy, DatasetError, ts.TablestoreError) as e:
        screen.print("[bold red]demo:[/]", Text(str(e)))
        return REFUSED
    except KeyboardInterrupt:
        screen.print(f"stopped; {_again(options.source)}")
        return INTERRUPTED
    except OSError as e:
        screen.print("[bold red]demo:[/]", Text(f"{e.filename or options.warehouse}: {e.strerror or e}"))
        return REFUSED
    except PySparkException as e:
        text = str(e).splitlines()
        lines = [line for line in text if "tablestore.core.errors" in line] or text[:5]
        screen.print("[bold red]demo: a query failed[/]", Text("\n".join(lines)))
        screen.print(
            f"Spark's own words are in {Places.of(options.warehouse).spark_log}; {_again(options.source)}"
        )
        return FAILED


def _again(source: str | None) -> str:
    """What to do after a run that did not end."""
    private = source in PRIVATE
    return "its server is gone: --fresh begins anew" if private else "the same command goes on from here"


def _demo(options: argparse.Namespace, places: Places, screen: Console) -> int:
    _require_possible(options)
    if options.fresh:
        _remove(places)
    journal = Journal(places.journal)
    if options.source is not None:
        return _over_database(options, places, screen)
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
        with step_bars(screen) as show:
            verification = verify(run, show)
    peak = max([memory.peak_bytes, *(e["bytes"] for e in journal.events("memory"))])
    journal.add("memory", bytes=memory.peak_bytes)
    facts = scorecard.figures(run, verification, peak_rss_bytes=peak)
    facts["total_seconds"] = round(time.monotonic() - began, 3)
    _report(run, facts, verification, options, screen)
    return 0 if verification.verified else DIFFERS


def _over_database(options: argparse.Namespace, places: Places, screen: Console) -> int:
    run, facts = demo_database.demo(options, places, screen)
    out = Console(highlight=False)
    out.print(database_scorecard.as_text(facts, run))
    for table in facts["tables"]:
        hidden = f"; not compared: {', '.join(table['left_out'])}" if table["left_out"] else ""
        agree = "[red]differs[/]" if table["differences"] else "[green]equal[/]"
        counts = (
            f"{table['rows']:,} rows, {table['columns']} columns, {table['ranges']} ranges of keys{hidden}"
        )
        out.print(f"{agree} {table['source']} = {table['target']}: {counts}", soft_wrap=True)
    for name, reason in facts["left_out"].items():
        out.print(f"[yellow]not captured[/] {name}:", Text(reason), soft_wrap=True)
    _print_verdict(out, facts, f"{facts['rows_final']:,} rows are in the lake as they are in the source")
    if options.json:
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    if options.html:
        largest = max(facts["tables"], key=lambda table: table["rows"])["target"]
        options.html.write_text(page(run.lake.table(largest)), encoding="utf-8")
    return 0 if facts["verified"] else DIFFERS


def _print_verdict(out: Console, facts: dict[str, Any], agreed: str) -> None:
    if facts["verified"]:
        out.print(f"[bold green]verified[/]: {agreed}; all invariants hold")
    else:
        out.print("[bold red]DIFFERS[/]:")
        for problem in facts["problems"][:20]:
            out.print(f"  {problem}", markup=False)


def _plan(options: argparse.Namespace, journal: Journal) -> Plan:
    """The options, where they are silent what the warehouse was begun with, else the defaults."""
    before = journal.last("plan") or {}
    if "source" in before:
        raise ts.InvalidRequest(
            f"this warehouse holds a demo of {before['source']}: add --fresh to start over"
        )
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
        chunks_per_batch=options.chunks_per_batch or CHUNKS,
        interval_seconds=options.interval,
        cores=options.cores,
        master=options.master,
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
    if options.source is not None:
        demo_database.require_possible(options)
    for file in (options.json, options.html):
        if file is not None and not file.expanduser().absolute().parent.is_dir():
            raise ts.InvalidRequest(f"{file}: there is no directory {file.parent}")


def _remove(places: Places) -> None:
    """Take away what a demo made; other tables of the lake stay, a foreign one of the same name refuses."""
    lake = ts.connect(str(places.warehouse))
    plan = Journal(places.journal).last("plan") or {}
    for name in plan.get("tables", ()):
        lake.drop_table(name, if_exists=True)
    for name, column in ((tables.LINEITEM, "l_shipinstruct"), (tables.SUMMARY, "sum_disc_price")):
        if name in lake and column not in lake.table(name).schema.names:
            raise ts.InvalidRequest(f"{name} was not made by a demo; choose another --warehouse")
    for name in (tables.LINEITEM, tables.SUMMARY):
        lake.drop_table(name, if_exists=True)
    if tables.DATABASE in lake.databases() and not lake.tables(tables.DATABASE):
        lake.drop_database(tables.DATABASE)
    summary_job.forget(str(places.warehouse))
    if places.shipped_source != str(places.source):
        file_io_for(places.shipped_source).delete_tree(places.shipped_source)
    for folder in (places.source, places.own / "checkpoints"):
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
    spark = demo_session(run.places, run.plan.cores, run.plan.master)
    try:
        with step_bars(screen) as show:
            pipeline.patiently(
                lambda: pipeline.run_queries(spark, run, show),
                again=lambda: screen.print("a process was away: going on"),
            )
        with step_bars(screen) as show:
            pipeline.compact_fully(spark, run, show)
    finally:
        spark.stop()


def _report(
    run: Run, facts: dict[str, Any], same: Verification, options: argparse.Namespace, screen: Console
) -> None:
    out = Console(highlight=False)
    out.print(scorecard.as_text(facts))
    agreed = f"{same.rows:,} rows, {same.columns} column checksums and {same.groups} groups of Q1 equal"
    _print_verdict(out, facts, f"{agreed} an independent computation")
    if options.json:
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    if options.html:
        options.html.write_text(page(run.lineitem), encoding="utf-8")
    out.print("\nthe article introduced the original system; see notebooks/guide/performance.md")
    out.print("derived from TPC-H, not comparable to published TPC-H results")
    out.print("next:")
    for command in next_commands(run, options.warehouse):
        out.print(f"  {command}", markup=False, soft_wrap=True)


def next_commands(run: Run, warehouse: str) -> list[str]:
    """Three commands that work when pasted, from any directory."""
    workbench, lake = shlex.quote(str(ROOT / "workbench")), location(warehouse)
    look = f"import tablestore as ts; print(ts.open({run.summary.location!r}).scan().to_pandas().to_string())"
    why = (
        f"import tablestore as ts; from tablestore import col; t = ts.open({run.lineitem.location!r});"
        " print(t.scan(where=(col('l_year') == 1995) & (col('l_orderkey') < 100)).explain())"
    )
    return [
        f"{workbench} python -c {_as_word(look)}",
        f"{workbench} python -c {_as_word(why)}",
        f"{workbench} demo --warehouse {shlex.quote(lake)}   # verifies what is there again",
    ]


def _as_word(code: str) -> str:
    """One word of a shell, in double quotes where that is exact: Python's own are single."""
    return shlex.quote(code) if set(code) & set('"$`\\!') else f'"{code}"'


def page(table: ts.Table) -> str:
    """One self-contained page: the timeline of a table and the levels of its trees, linked."""
    return widgets.page(table.name, [widgets.SnapshotTimeline(table), widgets.LsmLevels(table)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
