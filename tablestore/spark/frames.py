"""Tables as DataFrames and DataFrames into tables.

Reading: a frame names the table and its snapshot, and `query_planning` says for each query who reads what.
Writing: rows go to Python workers as Arrow and become level-0 files there; the driver commits once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from tablestore.core.errors import NotFound
from tablestore.flow.writing import SEQUENCE_SPAN
from tablestore.format.predicates.predicate import Predicate, bind
from tablestore.io.fileio import FileIO
from tablestore.io.routed import reach_of
from tablestore.read.scan.file_read import TOLERANT
from tablestore.spark import exchange
from tablestore.spark.datasource import written
from tablestore.spark.exchange import column, spark_condition, spark_schema
from tablestore.spark.query_planning import plan_queries
from tablestore.spark.table_frames import is_newest, pin_of, text_of
from tablestore.table.lake import open_table
from tablestore.table.table import Table
from tablestore.write.commit.committer import Committed

_RESULT = "message binary"


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow schema of a frame's columns."""
    return exchange.arrow_schema(frame.schema)


def to_spark(
    table: Table,
    spark: SparkSession,
    *,
    columns: Sequence[str] | None = None,
    where: Predicate | str | None = None,
    pushdown: bool = True,
) -> DataFrame:
    """The rows of the table's snapshot (the newest now, or the one of `table.at(…)`) as a DataFrame. Each
    query of it is planned by its own conditions, without `pushdown` by `where` alone.
    """
    plan_queries(spark)
    scan = table.scan(columns, where)
    text = text_of(scan.where, scan.store.schema)
    options: dict[str, Any] = {"path": table.location, "pushdown": pushdown, **reach_of(table.store.io)}
    options |= {k: v for k, v in table.options.items() if k in TOLERANT}
    if scan.other is not None:  # what is read of two branches has no id
        options |= {k: v for k, v in table.options.items() if k.startswith("scan.")}
    named = scan.other is None and not is_newest(scan)  # by an option or by `at`
    if scan.snapshot is not None and (named or table.past):
        options["snapshot-id"] = scan.snapshot.id
    options |= pin_of(scan) | ({} if text is None else {"where": text})
    schema = spark_schema(table.scan().schema)
    frame = spark.read.format("tablestore").schema(schema).options(**options).load()
    if scan.where is not None and text is None:
        frame = frame.where(spark_condition(bind(scan.where, scan.store.schema)))
    return frame.select(*(column(n) for n in scan.names))


def write_df(
    frame: DataFrame,
    table: Table,
    *,
    row_kind_column: str | None = None,
    order_by: str | None = None,
    user: str | None = None,
    identifier: int | None = None,
) -> Committed:
    """Write a DataFrame (columns by name) in one commit; a replay of (user, identifier) adds nothing.

    A DataFrame has no order, so of two rows with one key any may win; with `order_by` the one with the
    largest value does, at the price of a shuffle.
    """
    writable = {*table.schema.names, *([row_kind_column] if row_kind_column is not None else [])}
    for name in frame.columns:
        if name not in writable:
            raise NotFound.among("column", name, writable)
    if order_by is not None:
        keys = [column(k) for k in table.primary_key]
        frame = frame.repartition(*keys).sortWithinPartitions(column(order_by))
    task = FrameTask(table.location, table.max_sequence() + 1, row_kind_column, table.store.io)
    messages = [bytes(row.message) for row in frame.mapInArrow(task, _RESULT).collect()]
    who = user or table.store.fresh_user()
    if identifier is None:
        return table.commit(messages, user=who)
    return table.commit(messages, user=who, identifier=identifier)


@dataclass(frozen=True)
class FrameTask:
    """The function of a Python worker: writes all rows of one task with one writer."""

    path: str
    sequence_base: int
    row_kind_column: str | None
    io: FileIO

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        context = TaskContext.get()
        base = self.sequence_base + (context.partitionId() if context else 0) * SEQUENCE_SPAN
        for message in written(open_table(self.path, io=self.io), batches, base, self.row_kind_column):
            yield pa.record_batch([pa.array([message], pa.binary())], names=["message"])
