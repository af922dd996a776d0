"""A table in which every name and value that others choose is markup, and what may stand in a page of it.

Made in the ordinary way and then moved and renamed on disk, as another engine could have written it: our own
verbs refuse such names of tables, tags and branches.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablestore as ts
import widgets
from tablestore.cdc.capture.report import BatchReport, ChunkReport, EventReport, TableReport
from tablestore.tiering.report import (
    BucketMarks,
    Heartbeat,
    ReportedTable,
    RoundReport,
    SplitReport,
    TableError,
    TableState,
    TieringReport,
)
from widgets.kit.view import View
from widgets.task.model import Score, TaskQuestion, Verdict, options_of

IMG = "<img src=x onerror=\"window.owned=1;document.title='owned'\">"
SCRIPT = "</script><script>window.owned=1;document.title='owned'</script>"
LINK = "javascript:window.owned=1"
MIXED = f"'\"\u202egnp\u2066\n\x1b[31m&lt;b&gt;{IMG}"
LONG = "<b>" + "n" * 10_000
VALUES = (IMG, SCRIPT, LINK, MIXED, LONG)
# Every element that a view of ours is made of.
OURS = set(
    "div span b i em strong code pre mark h1 h2 h3 p ul ol li kbd small section main details summary".split()
)
OURS |= set("button input label select option textarea progress table thead tbody tr td th".split())
OURS |= set("svg g rect line path text tspan circle polyline polygon defs pattern clippath title".split())
SAFE = "() => [...document.querySelectorAll('.lw, .lw *')].map((e) => e.localName.toLowerCase())"
EVENTS = """() => [...document.querySelectorAll('.lw, .lw *')].flatMap((e) => [...e.attributes])
  .filter((a) => a.name.startsWith('on') || /^(href|src|xlink:href)$/.test(a.name)).map((a) => a.name)"""


def table_at(folder: Path) -> ts.Table:
    """Two partitions of two buckets, five commits, one compaction, a tag and a branch."""
    lake = ts.connect(folder / "plain")
    options = {"bucket": 1, "write-only": "true", f"x.{SCRIPT}": IMG}
    schema = {"p": ts.STRING, "k": ts.STRING, SCRIPT: ts.STRING, IMG: ts.STRING}
    table = lake.create_table(
        "d.t", schema=schema, primary_key=["p", "k"], partition_by=["p"], options=options
    )
    for number in range(5):
        keys = [f"{number}{value}" for value in VALUES] + [f"k{n}{IMG}" for n in range(4)]
        rows = {"p": [IMG] * len(keys), "k": keys, SCRIPT: [VALUES[number]] * len(keys), IMG: keys}
        with table.writer(user=VALUES[number][:300]) as writer:
            writer.write(rows)
        if number == 1:
            table.with_options({"write-only": "false"}).compact(full=True)
    table.write({"p": [MIXED[:60]], "k": ["k"], SCRIPT: ["v"], IMG: ["w"]})
    table.tags.create("t")
    table.branches.create("b")
    moved = folder / f"{IMG}.db" / IMG
    moved.parent.mkdir()
    shutil.move(table.location, moved)
    (moved / "tag" / "tag-t").rename(moved / "tag" / f"tag-{IMG}")
    (moved / "branch" / "branch-b").rename(moved / "branch" / f"branch-{IMG}")
    return ts.open(str(moved))


class HostileStream:
    """One batch of changes; names, values and kinds are markup."""

    schema = pa.schema({"op": pa.string(), IMG: pa.string(), SCRIPT: pa.string()})

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The batch, then an error of markup."""
        rows = {"op": ["+I", IMG], IMG: [SCRIPT, MIXED], SCRIPT: [LONG, IMG]}
        yield pa.RecordBatch.from_pydict(rows, schema=self.schema)
        raise OSError(IMG)

    def stop(self) -> None:
        """It has ended."""


def hostile_reports() -> list[BatchReport]:
    """Two batches of a capture in which every name, key, statement and position is markup."""
    events = [EventReport(IMG, f"{IMG}.{name}", SCRIPT, MIXED, IMG, 1, LONG, 9) for name in VALUES]
    chunks = [
        ChunkReport(f"{IMG}.{name}", SCRIPT, IMG, last=False, rows=9, started=1, ended=2) for name in VALUES
    ]
    done = (TableReport(SCRIPT, 3, 4, 5, 6), TableReport(LONG, 3, 4, 5, 6))
    first = BatchReport(0, 1, 1, 2, MIXED, events=tuple(events), tables=done, snapshotting=(LONG,))
    return [first, BatchReport(1, 2, 2, 3, SCRIPT, commits=((1, 2),), chunks=tuple(chunks), tables=done)]


def hostile_tiering() -> TieringReport:
    """Tables, rounds and heartbeats in which every name, reason and note is markup."""
    marks = tuple(BucketMarks(value, 0, 90, 50, 40) for value in VALUES)
    tables = tuple(
        TableState(f"{IMG}.{name}", at, "Failed", 1.0, 2, 3.0, 1.0, 9, SCRIPT, marks)
        for at, name in enumerate(VALUES)
    )
    splits = tuple(SplitReport(value, 0, 50, 90, 3, 60, 10, 99, 1.0, reason=IMG) for value in VALUES)
    rounds = tuple(
        RoundReport(at, table.table, at, 1, 2, 1.0 + at, "reading", splits=splits, reason=MIXED, notes=VALUES)
        for at, table in enumerate(tables)
    )
    named = tuple(ReportedTable(value, 1) for value in VALUES)
    refused = tuple(TableError(value, 50, SCRIPT) for value in VALUES)
    beats = Heartbeat(2.0, 0.1, named, named, named, True, 4, named[0], refused)
    return TieringReport(tables, rounds, (beats, Heartbeat(3.0, reason=IMG)), IMG, MIXED)


class HostileLog:
    """A table whose name, committers and errors are markup, with a real log below."""

    name = full_name = IMG

    def __init__(self, folder: Path) -> None:
        table = ts.connect(folder).create_table(
            "d.log",
            schema={"k": ts.STRING},
            primary_key=["k"],
            options={"log.system": "embedded", "bucket": 1},
        )
        for number, value in enumerate(VALUES):
            table.write({"k": [value]}, user=value[:300], identifier=number)
        self.log = table.log

    def stream(self, **_asked: Any) -> Iterator[Any]:
        """Nobody reads it."""
        raise ts.NotFound(MIXED + SCRIPT)


def views_of(table: ts.Table) -> dict[str, View]:
    """Every view there is, of the table."""
    files = widgets.FileExplorer(table, against=2)
    ingest = widgets.IngestProgress(IMG, total=10, chunks=3)
    ingest.update(rows=4, phase=SCRIPT, commit=1)
    broken = widgets.LsmLevels(table, title=IMG)
    task = hostile_task(table)
    broken.snapshot = 999
    return {
        "timeline": widgets.SnapshotTimeline(table),
        "buckets": widgets.BucketAdvisor(table),
        "bars": widgets.BarChart(
            pa.table({IMG: [1, 2], SCRIPT: [IMG, SCRIPT], "g": [SCRIPT, IMG]}),
            label=SCRIPT,
            value=IMG,
            group="g",
            title=IMG,
        ),
        "levels": widgets.LsmLevels(table),
        "controls": widgets.CompactionControls(table),
        "amplification": widgets.AmplificationChart(table),
        "play": widgets.CompactionPlay(table),
        "files": files,
        "merge": widgets.MergeView(table),
        "changelog": widgets.ChangelogView(table),
        "pruning": widgets.PruningExplainer(table, where=f"k = '{IMG.replace(chr(39), chr(39) * 2)}'"),
        "what_if": widgets.WhatIf(table, {"num-sorted-run.compaction-trigger": 3}),
        "trade_off": widgets.TradeOff(
            "uniform", flushes=10, triggers=[3], ratios=[1], multipliers=[10], title=IMG
        ),
        "game": widgets.ShopGame(1, moves=[(2, "flush")]),
        "findings": widgets.Findings(table),
        "health": widgets.TableHealth(table),
        "alarms": widgets.LakeAlarms(HostileLake(Path(table.location).parent.parent), freshness="0 ms").wait(
            60
        ),
        "lake_health": hostile_lake(Path(table.location).parent.parent),
        "ingest": ingest,
        "capture": widgets.CaptureProgress(hostile_reports(), title=IMG),
        "stream": widgets.StreamTable(HostileStream(), title=IMG).wait(60),
        "log": widgets.LogAndLake(HostileLog(Path(table.location).parent.parent / "logs"), follow=0),
        "maintenance": widgets.MaintenanceView(hostile_maintenance(), title=IMG),
        "tiering": widgets.TieringView(hostile_tiering(), title=IMG),
        "broken": broken,
        "task": task,
        "veil": widgets.Veil(task, IMG, note=MIXED),
        "score": widgets.TaskList(Score(IMG, tuple((value, "right") for value in VALUES), kept=SCRIPT)),
    }


def hostile_task(table: ts.Table) -> widgets.Task:
    """A task that is answered; names of options and files and every sentence are markup."""
    verdict = Verdict("wrong", IMG, SCRIPT, own=IMG, remark=MIXED, reason=f"**{IMG}**")
    options = options_of(dict(zip(VALUES, VALUES[::-1], strict=True)))
    question = TaskQuestion(IMG, MIXED, "one", options=options, picture=None, hint=SCRIPT, form=IMG)
    return widgets.Task(question, lambda _value: verdict).commit(IMG)


class HostileLake(ts.Lake):
    """A lake whose catalog names its tables in markup: one that is there, and one that fails in markup."""

    def tables(self, database: str | None = None) -> list[str]:
        return [f"{IMG}.{IMG}", SCRIPT]

    def table(self, name: str) -> ts.Table:
        if name == SCRIPT:
            raise ts.NotFound(f"{SCRIPT} {MIXED}")
        return ts.open(f"{self.warehouse}/{IMG}.db/{IMG}")


def hostile_maintenance() -> ts.MaintenanceReport:
    """Work done, failed and waiting, whose tables, places, reasons and errors are markup."""
    done = ts.WorkDone(0.0, 1.0, IMG, "compact", SCRIPT, MIXED, 10, 5, 10, 6, 8, 1, result=IMG)
    failed = ts.WorkDone(1.0, 1.0, SCRIPT, "finding", IMG, MIXED, error=IMG)
    waiting = ts.WorkWaiting(IMG, "compact", SCRIPT, MIXED, IMG)
    trouble = ((SCRIPT, IMG),)
    health = (ts.TableHealth(IMG),)
    return ts.MaintenanceReport(IMG, "ended", 2.0, health, None, 10, (done, failed), (waiting,), trouble)


def hostile_lake(folder: Path) -> widgets.LakeHealth:
    """All tables read."""
    return widgets.LakeHealth(HostileLake(folder), table=SCRIPT).wait(60)


class HostileTags(HTMLParser):
    """Start tags, event attributes and addresses of a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.events: list[str] = []
        self.images: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.images += [value or "" for name, value in attrs if tag == "img" and name == "src"]
        self.events += [name for name, _ in attrs if name.startswith("on")]
        self.events += [f"{name}={value[:20]}" for name, value in attrs if _runs(name, value or "")]


def _runs(name: str, value: str) -> bool:
    return name in ("href", "src", "xlink:href") and value.strip().lower().startswith("javascript:")


def live_texts(view: Any) -> list[str]:
    """All markup of a view's frame, wherever it lies."""
    collected: list[str] = []
    waiting: list[object] = [view.frame]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, str) and each.startswith("<svg"):
            collected.append(each)
    return collected
