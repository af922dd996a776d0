"""The table `shop.item` of the tests, its change directories and what must be in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import tablestore as ts
from tablestore.cdc.capture.job import CaptureJob
from tests.cdc.changes import SCHEMA, directory, envelope, row, transaction

USER = "item-ingest"


def item_table(lake: ts.Lake, **options: Any) -> ts.Table:
    """16 columns less: id, price, day, name and the year of the day, by which it is partitioned."""
    schema = SCHEMA.append(pa.field("year", pa.int64(), nullable=False))
    given = {"bucket": 2, "changelog-producer": "input", "tablestore.full-phase-changelog": False, **options}
    return lake.create_table(
        "shop.item", schema=schema, primary_key=["id", "year"], partition_by=["year"], options=given
    )


def ingest(lake: ts.Lake, source: Path, *, into: str = "shop.item", **settings: Any) -> CaptureJob:
    """Start to load and follow a change directory into a table, to the end of what there is; two chunks a
    batch, no compaction."""
    rules = {"computed": {"year": "year(day)"}, "primary_keys": ["*", "year"], "partition_by": "year"}
    how = {"follow": False, "interval": 0, "compact_every": 0, "chunks": 2, "name": USER, **rules, **settings}
    actual: CaptureJob = lake.ingest(source, tables="item", into=into, **how)
    return actual


def ingested(lake: ts.Lake, source: Path, **settings: Any) -> list[ts.BatchReport]:
    """The reports of the batches of `ingest` with a commit, once it has ended."""
    done: list[ts.BatchReport] = []
    assert ingest(lake, source, on_batch=done.append, **settings).wait(300)
    return [
        report for report in done if any(table_report.snapshot is not None for table_report in report.tables)
    ]


def shop(
    path: Path, *, chunks: int = 4, each: int = 50, transactions: int = 6
) -> tuple[Path, dict[int, dict]]:
    """A change directory, and the rows that are left at its end."""
    rows = {i: row(i, "base") for i in range(chunks * each)}
    parts = [range(n * each, (n + 1) * each) for n in range(chunks)]
    log, fresh = [], chunks * each
    for n in range(transactions):
        events = []
        for i in range(n, fresh, 7):
            if i in rows:
                new = row(i, f"changed {n}")
                events.append(envelope("u", rows[i], new))
                rows[i] = new
        for i in range(n + 3, fresh, 11):
            if i in rows:
                events.append(envelope("d", rows.pop(i), None))
        rows[fresh] = row(fresh, "new")
        events.append(envelope("c", None, rows[fresh]))
        fresh += 1
        log.append(transaction(events, n))
    half = len(log) // 2
    return directory(path, chunks=parts, log=["".join(log[:half]), "".join(log[half:])]), rows


def content(table: ts.Table) -> dict[int, dict]:
    """The rows of the table as in `shop`; fails if a key is there twice."""
    rows = table.scan([*SCHEMA.names]).to_arrow().to_pylist()
    by_id = {r["id"]: r for r in rows}
    assert len(by_id) == len(rows)
    return by_id
