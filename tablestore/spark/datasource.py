"""`format("tablestore")`: tables as Spark sources and sinks, batch and streaming.

Options: path (or the argument of `load`), snapshot-id, timestamp (batch), where (batch: a condition as text,
by which files are skipped and rows chosen), pushdown (batch: false leaves the conditions of a query to Spark
alone; by default files are skipped by them, see `query_planning.py`),
columns (comma-separated), start (streaming: latest-full, latest or a snapshot id), rowkind (name of a column
that holds "+I" "-U" "+U" "-D": filled when reading a stream, obeyed when writing), normalize (streaming: true
looks up what was before a change, false gives rows as they were written; by default true where the table has
upserts only and rowkind is asked for), consumer-id (streaming: snapshots that are still to be read do not
expire), user (streaming sink), roots (comma-separated: directories outside the table's own that its data
files may lie in), s3.endpoint and others of the store (streams that read from S3 take them from the
environment); and those of a table that may be set for one use: for a batch read also `scan.*` and
`incremental-*`, for a stream where it starts. Any other is refused (`source_options.py`). Planning happens in
Spark's helper process, reading and writing in Python workers; each opens the table itself, so nothing but
paths is pickled. For reads that need no merge `frames.to_spark` gives Spark's own Parquet scan instead, which
prunes columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StringType, StructType

from tablestore.cdc.change_feed import ChangeFeed, SnapshotPiece
from tablestore.cdc.log_pieces import LogPiece
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.flow.writing import SEQUENCE_SPAN
from tablestore.format import rowkind
from tablestore.io.confined import roots_in
from tablestore.read.scan.data_split import DataSplit
from tablestore.read.scan.split_generator import split_raw_and_merged
from tablestore.spark.exchange import arrow_schema, for_spark, spark_schema
from tablestore.spark.source_options import TABLE_SOURCE, Use, path_of, scan_of, start_of, used
from tablestore.table.scan import Scan
from tablestore.table.table import Table
from tablestore.table.union_read import UnionPart, UnionState


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


class TablestoreSource(DataSource):
    """The data source Spark makes by name."""

    @classmethod
    def name(cls) -> str:
        return TABLE_SOURCE

    def schema(self) -> StructType:
        options = dict(self.options)  # Spark does not say yet what they are for
        stream = any(key in options for key in set(Use.STREAM.value) - set(Use.READ.value))
        there = used(options, Use.STREAM).schema if stream else scan_of(options, None, None).schema
        named = self.options.get("columns")
        names = [n.strip() for n in named.split(",")] if named else there.names
        for name in names:
            if name not in there.names:
                raise NotFound.among("column", name, there.names)
        row_type = spark_schema(pa.schema([there.field(n) for n in names]))
        kinds = self.options.get("rowkind")
        return StructType([*row_type.fields]).add(kinds, StringType(), False) if kinds else row_type

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(dict(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TableStreamReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return TableBatchWriter(dict(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return TableStreamWriter(dict(self.options), schema)


@dataclass
class SplitPartition(InputPartition):
    """One split of a plan."""

    split: DataSplit


@dataclass
class UnionPartition(InputPartition):
    """One bucket of a union read."""

    part: UnionPart


class TableReader(DataSourceReader):
    """A batch read: one task a split. Plans once, in the driver's helper process."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options, self._schema = options, schema

    def partitions(self) -> Sequence[InputPartition]:
        scan = self._scan(self._schema.names)
        if isinstance(scan.target, UnionState):
            return [UnionPartition(p) for p in scan.target.parts(scan.store)]
        splits = (s for part in scan.plan_parts() for s in part.splits)
        if self._options.get("splits") != "merged":
            return [SplitPartition(s) for s in splits]
        parts = (p for s in splits for p in split_raw_and_merged(s, scan.store.schema, scan.store.options))
        return [SplitPartition(p) for p in parts if not p.plain]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted = arrow_schema(self._schema)
        if isinstance(partition, UnionPartition):
            for batch in self._union(partition.part, wanted.names):
                yield for_spark(batch, wanted)
        if not isinstance(partition, SplitPartition):  # what Spark runs where there is no split
            return
        scan = self._scan(None)  # Spark pickles this reader before it asks for partitions
        for batch in partition.split.read(scan.store, wanted.names, scan.where):
            yield for_spark(batch, wanted)

    def _scan(self, columns: Sequence[str] | None) -> Scan:
        return scan_of(self._options, columns, self._options.get("where"))

    def _union(self, part: UnionPart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of one bucket, whose part of the log this task reads."""
        scan = self._scan(columns)
        assert isinstance(scan.target, UnionState), "the driver planned a union read"
        target = scan.target.of_part(scan.store, part)
        return replace(scan, target=target, store=target.under(scan.store)).to_batches()


_SWITCH = {"": None, "true": True, "false": False}


@dataclass
class PiecePartition(InputPartition):
    """One piece of a change feed."""

    piece: SnapshotPiece | LogPiece


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The table's changelog as a stream. Without the option `rowkind` only new states (+I, +U) come out.

    It holds no state: offsets are snapshots, and what was before a change is looked up in the table."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._kinds = options.get("rowkind")
        normalize = options.get("normalize", "" if self._kinds else "false").lower()
        if normalize not in _SWITCH:
            raise InvalidRequest(f"option normalize {normalize!r} must be true or false")
        self._feed = ChangeFeed(
            path_of(options),
            start=start_of(options),
            normalize=_SWITCH[normalize],
            consumer=options.get("consumer-id"),
            roots=roots_in(options.get("roots")) or (),
        )
        self._target: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:
        return self._feed.initial()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._feed.newest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._feed.next(start, limit=None, target=self._target)

    def reportLatestOffset(self) -> dict[str, Any]:
        return self._feed.newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [PiecePartition(p) for p in self._feed.pieces(start, end)]

    def commit(self, end: dict[str, Any]) -> None:
        self._feed.done(end)

    def read(self, partition: PiecePartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]  # its own partitions only
        wanted = arrow_schema(self._schema)
        columns = [n for n in wanted.names if n != self._kinds]
        for batch, kinds in partition.piece.read(self._feed.path, columns, roots=self._feed.roots):
            if self._kinds:
                yield for_spark(batch.append_column(self._kinds, rowkind.texts(kinds)), wanted)
            else:
                keep = pa.array(~rowkind.retracts(kinds.to_numpy(zero_copy_only=False)))
                yield for_spark(batch.filter(keep), wanted)


@dataclass
class TaskMessages(WriterCommitMessage):
    """The commit messages of one task."""

    messages: tuple[bytes, ...]


class _Writing:
    """The common part of batch and streaming sinks: rows of one task → commit messages.

    The order of rows between tasks is not known, so of two rows with one key any may win: give each key once,
    or sort into one partition.
    """

    use = Use.WRITE

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = options
        self._kinds = options.get("rowkind")
        names = self._table().schema.names
        unknown = set(schema.names) - set(names) - {self._kinds}
        if unknown:
            raise NotFound.among("column", sorted(unknown)[0], names)

    def _table(self) -> Table:
        return used(self._options, self.use)

    def _written(self, batches: Iterator[pa.RecordBatch]) -> TaskMessages:
        table = self._table()
        context = TaskContext.get()
        base = table.max_sequence() + 1 + (context.partitionId() if context else 0) * SEQUENCE_SPAN
        return TaskMessages(tuple(written(table, batches, base, self._kinds)))


class TableBatchWriter(_Writing, DataSourceArrowWriter):
    """A batch write: one commit for all tasks."""

    def __init__(self, options: dict[str, str], schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema)
        if overwrite:
            raise Unsupported("mode('overwrite') through Spark", why="use Table.overwrite")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._written(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        table = self._table()
        table.commit(_all(messages), user=table.store.fresh_user())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: files of the tasks that finished stay as orphans, never visible."""


class TableStreamWriter(_Writing, DataSourceStreamArrowWriter):
    """A streaming sink, exactly once: the batch id is the commit identifier of `user`."""

    use = Use.STREAM_WRITE

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        if not options.get("user"):
            raise InvalidRequest(
                'a streaming sink needs option("user", …): the stable name its batches count under'
            )
        self._user = options["user"]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._written(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._table().commit(_all(messages), user=self._user, identifier=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """See `TableBatchWriter.abort`."""


def _all(messages: list[WriterCommitMessage | None]) -> list[bytes]:
    return [message for m in messages if isinstance(m, TaskMessages) for message in m.messages]
