"""The figures of a demo over a database server: from the reports of its batches, the comparison and the
tables; as a dictionary and as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table as TextTable

from notebooks.demo import scorecard, tables
from notebooks.demo.database_run import DatabaseRun
from notebooks.demo.freshness import Distribution, distributions
from notebooks.demo.scorecard import ARTICLE_ROWS, ARTICLE_SECONDS
from notebooks.demo.source_checksums import TableComparison
from notebooks.demo.tpch_database import RefreshWriter
from tablestore.cdc.capture.report import BatchReport
from tablestore.spark.compaction import Compacted


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run; `problems` is empty if both sides agree."""

    comparisons: Sequence[TableComparison]
    problems: tuple[str, ...]
    verify_seconds: float
    compacted: Compacted | None = None
    writer: RefreshWriter | None = None


def figures(run: DatabaseRun, reports: Sequence[BatchReport], outcome: Outcome) -> dict[str, Any]:
    """Everything `--json` writes, but what only the whole run knows."""
    full = [r for r in reports if any(t.snapshot_rows for t in r.tables)]
    rows = sum(t.snapshot_rows for r in full for t in r.tables)
    seconds = max((r.ended for r in full), default=0.0) - min((r.started for r in full), default=0.0)
    writer, compacted = outcome.writer, outcome.compacted
    loading, following = distributions(reports, writer.commits if writer else ())
    while_read = sum(n for r in reports if r.snapshotting or r in full for _, n in r.commits)
    return {
        "verified": not outcome.problems,
        "problems": list(outcome.problems),
        "source": run.plan.source.url,
        "rows": rows,
        "rows_final": sum(comparison.rows for comparison in outcome.comparisons),
        "load_seconds": round(seconds, 3),
        "rows_per_second": round(rows / seconds) if seconds else None,
        "batches": len(reports),
        "transactions": sum(n for r in reports for _, n in r.commits),
        "transactions_while_loading": while_read,
        "pairs": writer.pairs_done if writer else 0,
        "change_rows": sum(t.changes for r in reports for t in r.tables),
        "bad_rows": sum(t.bad_rows for r in reports for t in r.tables),
        "freshness_while_loading": _facts(loading),
        "freshness_following": _facts(following),
        "left_out": run.left_out(),
        "tables": [asdict(comparison) for comparison in outcome.comparisons],
        "compact_seconds": round(compacted.seconds, 3) if compacted else None,
        "verify_seconds": round(outcome.verify_seconds, 3),
        "article_rows_per_second": round(ARTICLE_ROWS / ARTICLE_SECONDS),
    }


def _facts(captured: Distribution | None) -> dict[str, Any] | None:
    return None if captured is None else asdict(captured)


def as_text(f: dict[str, Any], run: DatabaseRun) -> TextTable:
    """The scorecard for a terminal."""
    table = scorecard.empty_table()
    speed = f["rows_per_second"] or 0
    table.add_row("rows read of the source", f"{f['rows']:,}", f"{ARTICLE_ROWS:,}")
    table.add_row("seconds of the load", f"{f['load_seconds']:.1f}", f"{ARTICLE_SECONDS:,}")
    table.add_row("rows a second", f"{speed:,}", f"{f['article_rows_per_second']:,}")
    table.add_section()
    table.add_row("transactions followed", f"{f['transactions']:,}", "")
    table.add_row("while rows were read", f"{f['transactions_while_loading']:,}", "")
    table.add_row("row images of changes", f"{f['change_rows']:,}", "")
    for name, words in (("while_loading", "loading"), ("following", "then")):
        if f["freshness_" + name]:
            distribution = str(Distribution(**f["freshness_" + name]))
            table.add_row(f"median freshness, {words}", distribution, "1 minute")
    table.add_section()
    if f["compact_seconds"] is not None:
        live = scorecard.live(run.lake.table(tables.LINEITEM))
        table.add_row("compaction of line items", f"{f['compact_seconds']:.1f} s", "")
        table.add_row("live files of line items", f"{live.files:,}, {scorecard.size(live.bytes)}", "")
    table.add_row("comparison", f"{f['verify_seconds']:.1f} s", "")
    table.add_row("peak memory, server too", scorecard.size(f["peak_rss_bytes"]), "")
    return table
