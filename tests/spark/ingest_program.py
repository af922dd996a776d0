"""A program that runs the pipeline, made to be killed: `ingest_program.py SOURCE LAKE CHECKPOINT HOLD
[MASTER]`.

Prints `snapshot N` after each commit, `done` at the end. From the batch of number HOLD on it says `held` and
waits until its stdin ends: who kills it cannot be too late. The summary of what ran where goes to stdout as
JSON when a MASTER is given.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import tablestore as ts
from tablestore.spark import session
from tests.cdc.items import ingest, item_table


def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where a worker has the package from."""
    for _ in batches:
        yield pa.record_batch([pa.array([sys.modules[ts.__name__].__file__ or ""])], names=["file"])


def run(spark: SparkSession, source: str, warehouse: str, checkpoint: str, hold: int = sys.maxsize) -> None:
    """The pipeline to its end, or to the batch `hold`, from wherever it is."""
    lake = ts.connect(warehouse)
    options = {"num-sorted-run.compaction-trigger": 3, "write-only": True}
    if "shop.item" not in lake:
        item_table(lake, **options)

    def print_and_wait(report: ts.BatchReport) -> None:
        for table_report in report.tables:
            print("snapshot", table_report.snapshot, flush=True)
        if report.number >= hold:
            print("held", flush=True)
            sys.stdin.read()

    how = {"chunks": 1, "log_bytes": 1, "compact_every": 3, "checkpoint": checkpoint}
    ingest(lake, Path(source), spark=spark, on_batch=print_and_wait, **how).wait()


def main(source: str, warehouse: str, checkpoint: str, hold: str, master: str | None = None) -> None:
    conf = {"spark.master": master, "spark.executor.memory": "512m"} if master else {}
    spark = session("ingest-program", cores=2, memory="512m", **conf)
    run(spark, source, warehouse, checkpoint, int(hold))
    if master:
        rows = spark.range(2).mapInArrow(where, "file string").collect()
        print(json.dumps(sorted({row.file for row in rows})), flush=True)
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
