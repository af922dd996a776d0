"""The demo's figures: from snapshots, live files and the journal; as a dictionary and as a table for a
terminal.

The article's run: 59,986,052 rows in 46 minutes, on another machine and from MySQL over a network, so the
ratio is an orientation, no benchmark.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table as TextTable

import tablestore as ts
from notebooks.demo.pipeline import Run
from notebooks.demo.verification import Verification
from tablestore.cdc.phase import PHASE, ROWS, STARTED

ARTICLE_ROWS, ARTICLE_SECONDS = 59_986_052, 46 * 60


@dataclass(frozen=True, slots=True)
class Live:
    """Live data files of one snapshot. `runs` is what a reader of one bucket merges, on average."""

    files: int
    bytes: int
    rows: int
    runs: float


def live(table: ts.Table, snapshot: int | None = None) -> Live:
    """The live data files at a snapshot (None: the newest)."""
    levels = table.inspect.levels(snapshot)
    buckets = levels.group_by(["partition", "bucket"]).aggregate([("run", "count_distinct")])
    runs = pc.mean(buckets["run_count_distinct"]).as_py() or 0.0
    return Live(levels.num_rows, _total(levels, "bytes"), _total(levels, "rows"), runs)


def _total(table: pa.Table, column: str) -> int:
    return pc.sum(table[column]).as_py() or 0


@dataclass(frozen=True, slots=True)
class Batch:
    """One commit of the ingest query."""

    snapshot: int
    phase: str
    rows: int
    started: float
    ended: float


def batches(run: Run) -> list[Batch]:
    """Every commit of the ingest query, from the snapshots themselves."""
    batches_done = []
    for commit in run.lineitem.inspect.commits().to_pylist():
        properties = json.loads(commit["properties"] or "{}")
        if PHASE in properties and commit["commit_kind"] == "APPEND":
            snapshot = run.lineitem.store.snapshots.get(commit["snapshot_id"])
            ended = snapshot.time_millis / 1000
            batches_done.append(
                Batch(
                    snapshot.id, properties[PHASE], int(properties[ROWS]), float(properties[STARTED]), ended
                )
            )
    return batches_done


def busy_seconds(run: Run, some: list[Batch]) -> float:
    """First task start to last commit, added up over the runs it took."""
    starts = [e["time"] for e in run.journal.events("run")]
    spans: dict[int, tuple[float, float]] = {}
    for b in some:
        number = sum(s <= b.started for s in starts)
        low, high = spans.get(number, (b.started, b.ended))
        spans[number] = (min(low, b.started), max(high, b.ended))
    return sum(high - low for low, high in spans.values())


def figures(run: Run, verification: Verification, *, peak_rss_bytes: int) -> dict[str, Any]:
    """Everything `--json` writes."""
    done = batches(run)
    full = [b for b in done if b.phase == "full"]
    changes = [b for b in done if b.phase != "full"]
    loaded = live(run.lineitem, full[-1].snapshot)
    before = live(run.lineitem, done[-1].snapshot)
    now = live(run.lineitem)
    load_seconds = busy_seconds(run, full)
    rows = sum(b.rows for b in full)
    compacted = run.journal.last("compacted") or {}
    flushed = sum(_added(run, b.snapshot) for b in done)
    rewritten = compacted.get("bytes_written", 0)
    return {
        "verified": verification.verified,
        "problems": list(verification.problems),
        "scale_factor": run.plan.scale_factor,
        "rows": rows,
        "rows_final": verification.rows,
        "load_seconds": round(load_seconds, 3),
        "rows_per_second": round(rows / load_seconds) if load_seconds else None,
        "pairs": run.source.pairs,
        "change_rows": sum(b.rows for b in changes),
        "change_seconds": round(busy_seconds(run, changes), 3),
        "compact_seconds": round(compacted.get("seconds", 0.0), 3),
        "verify_seconds": round(verification.seconds, 3),
        "freshness_seconds": freshness(run, changes),
        "data_files_loaded": loaded.files,
        "data_bytes_loaded": loaded.bytes,
        "data_files_before_compaction": before.files,
        "data_bytes_before_compaction": before.bytes,
        "data_files_compacted": now.files,
        "data_bytes_compacted": now.bytes,
        "write_amplification": round((flushed + rewritten) / flushed, 3) if flushed else None,
        "read_amplification_before": round(before.runs, 3),
        "read_amplification": round(now.runs, 3),
        "space_amplification_before": round(before.bytes / now.bytes, 3) if now.bytes else None,
        "buckets": compacted.get("buckets"),
        "snapshots": run.lineitem.inspect.snapshots().num_rows,
        "peak_rss_bytes": peak_rss_bytes,
        "article_rows_per_second": round(ARTICLE_ROWS / ARTICLE_SECONDS),
        "source_note": run.source.note,
    }


def _added(run: Run, snapshot: int) -> int:
    commits = run.lineitem.inspect.commits()
    return _total(commits.filter(pc.equal(commits["snapshot_id"], snapshot)), "bytes_added")


def freshness(run: Run, changes: list[Batch]) -> float | None:
    """Median seconds from reading a batch of changes to its effect in the summary."""
    reached = run.journal.events("summary")
    delays = []
    for b in changes:
        ends = [e["ended"] for e in reached if e["reached"] >= b.snapshot]
        if ends:
            delays.append(max(0.0, min(ends) - b.started))
    return round(median(delays), 3) if delays else None


def empty_table() -> TextTable:
    """A scorecard without rows: a figure, this run's, the article's."""
    table = TextTable(title="scorecard", title_justify="left", show_header=True, header_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("this run", justify="right", no_wrap=True)
    table.add_column("the article's", justify="right")
    return table


def as_text(f: dict[str, Any]) -> TextTable:
    """The scorecard for a terminal."""
    table = empty_table()
    speed = f["rows_per_second"] or 0
    table.add_row("rows loaded", f"{f['rows']:,}", f"{ARTICLE_ROWS:,}")
    table.add_row("seconds of the load", f"{f['load_seconds']:.1f}", f"{ARTICLE_SECONDS:,}")
    table.add_row("rows a second", f"{speed:,}", f"{f['article_rows_per_second']:,}")
    table.add_row("ratio", f"{speed / f['article_rows_per_second']:.1f} ×", "1 ×")
    table.add_section()
    table.add_row(
        f"changes ({f['pairs']} pairs)", f"{f['change_rows']:,} rows in {f['change_seconds']:.1f} s", ""
    )
    if f["freshness_seconds"] is not None:
        table.add_row("freshness: change to summary", f"{f['freshness_seconds']:.2f} s", "1 minute")
    table.add_row("full compaction", f"{f['compact_seconds']:.1f} s", "")
    table.add_row("verification", f"{f['verify_seconds']:.1f} s", "")
    table.add_section()
    for label, key in (
        ("after the load", "loaded"),
        ("before compaction", "before_compaction"),
        ("after", "compacted"),
    ):
        table.add_row(
            f"live files {label}", f"{f['data_files_' + key]:,}, {size(f['data_bytes_' + key])}", ""
        )
    table.add_row("write amplification", f"{f['write_amplification']:.2f}", "")
    table.add_row(
        "read amplification (runs a bucket)",
        f"{f['read_amplification_before']:.2f} → {f['read_amplification']:.2f}",
        "",
    )
    table.add_row("space amplification, uncompacted", f"{f['space_amplification_before']:.2f}", "")
    table.add_row("snapshots", f"{f['snapshots']:,}", "")
    table.add_row("peak memory, all processes", size(f["peak_rss_bytes"]), "")
    return table


def size(count: int) -> str:
    """Bytes in words."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
