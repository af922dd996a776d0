"""Tables as DataFrames and DataFrames into tables.

Reading: splits that need no merge are files whose rows are the table's rows, so Spark's own Parquet scan
reads them (columns pruned, filters pushed); splits that must be merged come through the data source. A
table without overlap is thus a pure native scan. Writing: rows go to Python workers as Arrow and become
level-0 files there; the driver commits once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.flow.sink import SEQUENCE_SPAN
from tablestore.format import rowkind
from tablestore.format.parquet.schema import KIND
from tablestore.format.predicates.predicate import Predicate, bind
from tablestore.format.predicates.predicate_text import parse
from tablestore.io.fileio import FileIO
from tablestore.io.paths import is_object_location
from tablestore.io.routed import reach_of
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.file_read import TOLERANT
from tablestore.read.scan.split_generator import split_raw_and_merged
from tablestore.spark import exchange
from tablestore.spark.exchange import column, spark_condition, spark_schema
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
    pushdown: bool = False,
) -> DataFrame:
    """The rows of the table's snapshot (the newest, or the one of `table.at(…)`) as a DataFrame. Planned
    now, read when Spark runs it. With `pushdown` the data source applies Spark's conditions itself, to skip
    files; a query must not have such a frame twice (`datasource.py` says why).
    """
    scan = table.scan(columns, where)
    names, text = list(scan.names), _text_of(scan.where, table)
    plan = (table.scan() if text is None else scan).plan()  # just as the data source plans
    splits = [
        p for s in plan.splits for p in split_raw_and_merged(s, table.store.schema, table.store.options)
    ]
    raw = [s for s in splits if s.plain]
    if plan.other_branch is not None or not all(_native(table, s) for s in raw):
        raw = []  # then the data source reads everything
    rest = len(splits) - len(raw)
    there = table.scan().schema
    needed = {*names, *(() if scan.where is None else scan.where.columns)}
    schema = spark_schema(pa.schema([f for f in there if f.name in needed]))
    parts = []
    if raw:
        parts.append(_native_scan(table, spark, schema, raw))
    if rest or not raw:
        reader = spark.read.format("tablestore").schema(schema)
        reader = reader.options(path=table.location, **reach_of(table.store.io))
        kept = {k: v for k, v in table.options.items() if k in TOLERANT}
        if plan.other_branch is not None:  # what is read of two branches has no id
            kept = {k: v for k, v in table.options.items() if k.startswith("scan.")}
        reader = reader.options(**kept)
        if text is not None:
            reader = reader.option("where", text)
        if plan.snapshot is not None and (plan.other_branch is None or table.past):
            reader = reader.option("snapshot-id", plan.snapshot.id)
        parts.append(reader.options(splits="merged" if raw else "all", pushdown=pushdown).load())
    found = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    if scan.where is not None:
        found = found.where(spark_condition(bind(scan.where, table.store.schema)))
    return found.select(*(column(n) for n in names))


def _text_of(where: Predicate | None, table: Table) -> str | None:
    """A condition as text for the data source; None where text cannot say it."""
    if where is None:
        return None
    schema = table.store.schema
    try:
        same = bind(parse(repr(where)), schema) == bind(where, schema)
    except InvalidRequest:
        return None
    return repr(where) if same else None


def _native(table: Table, split: DataSplit) -> bool:
    """Whether Spark's Parquet reader gives the split's rows as the engine does: files of the newest schema,
    exact types.
    """
    if table.store.options.scan_ignore_corrupt or table.store.options.scan_ignore_lost:
        return False  # Spark has options of its own for that
    if table.store.schema.row_count_field is not None:
        return False  # its rows come as often as they are counted
    if is_object_location(table.location):
        return False  # Spark would need a file system of its own for it
    types = [f.type for f in table.schema]
    exact = not any(pa.types.is_time(t) or (pa.types.is_timestamp(t) and t.unit == "ns") for t in types)
    present = table.store.schema.id
    return exact and all(f.schema_id == present and f.file_name.endswith(".parquet") for f in split.files)


def _native_scan(
    table: Table, spark: SparkSession, schema: StructType, splits: Sequence[DataSplit]
) -> DataFrame:
    """Spark's scan of files. At level 0 it filters by row kind: some writers never count their deletes."""
    files = [(s, f) for s in splits for f in s.files]
    paths = [table.store.readable_path(s.partition, s.bucket, f) for s, f in files]
    reader = spark.read.options(datetimeRebaseMode="CORRECTED")  # Paimon's calendar, also before 1582-10-15
    if not table.primary_key or all(f.level > 0 for _, f in files):
        return reader.schema(schema).parquet(*paths)
    with_kind = StructType([*schema.fields]).add(KIND, "byte", True)
    rows = reader.schema(with_kind).parquet(*paths)
    return rows.where(F.col(KIND).isin(rowkind.INSERT, rowkind.UPDATE_AFTER)).drop(KIND)


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
    known = {*table.schema.names, *([row_kind_column] if row_kind_column is not None else [])}
    for name in frame.columns:
        if name not in known:
            raise NotFound.among("column", name, known)
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


def written(
    table: Table, batches: Iterator[pa.RecordBatch], sequence_base: int, row_kind_column: str | None
) -> list[bytes]:
    """The commit messages of rows that are written but not committed; if it fails their files are deleted."""
    writer = table.open_writer(sequence_base=sequence_base, compact=False)
    try:
        for batch in batches:
            kinds = None
            if row_kind_column is not None:
                at = batch.schema.get_field_index(row_kind_column)
                batch, kinds = batch.remove_column(at), rowkind.parse(batch.column(at))
            writer.write(batch, kinds=kinds)
        return writer.prepare()
    finally:
        writer.close()
