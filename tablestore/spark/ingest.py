"""Full load and increments of a change directory into one table: one Structured Streaming query, exactly
once.

Spark plans batches of work descriptions (`directory_source`), schedules and retries; Python workers read,
compute, route, sort and write (`cdc.sink`); the driver commits each batch once, with the batch's number as
commit identifier and the source position in the same snapshot. Rows never cross the JVM. A batch that was
committed before a crash is recognised by its identifier and not written again. The checkpoint may be lost: a
new one goes on from the position in the table.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tablestore.cdc import sink
from tablestore.cdc.checkpoint import origin_of, planned_end
from tablestore.cdc.compactions import compactions
from tablestore.cdc.phase import CHANGES_PHASE, FULL_PHASE, PHASE, PHASE_OPTION, ROWS, STARTED
from tablestore.cdc.sink import Load
from tablestore.cdc.source import Chunk, Position, Work
from tablestore.core.errors import CommitConflict, SchemaMismatch
from tablestore.spark.compaction import compact
from tablestore.spark.directory_source import decode_work
from tablestore.table.table import Table
from tablestore.write.supported import require_parallel_writers

log = logging.getLogger(__name__)
SEQUENCE_SPAN = 1 << 32
_RESULT = (
    "ordinal int, phase string, position string, rows long, started double, ended double, "
    "messages array<binary>"
)
_RESULT_ARROW = pa.schema(
    [
        ("ordinal", pa.int32()),
        ("phase", pa.string()),
        ("position", pa.string()),
        ("rows", pa.int64()),
        ("started", pa.float64()),
        ("ended", pa.float64()),
        ("messages", pa.list_(pa.binary())),
    ]
)


@dataclass(frozen=True, slots=True)
class Ingest:
    """The settings of an ingest. `interval_seconds` None: load all there is now, then stop; else one batch at
    most in that time, until stopped.

    `compact_every` n: after every n batches, buckets whose compaction is due are compacted by Spark tasks; 0
    leaves that to others, but for tables whose changelog or deletion vectors are made by compaction. The
    table option `tablestore.full-phase-changelog` = false makes commits of snapshot chunks write no
    changelog.
    """

    load: Load
    checkpoint: str
    chunks_per_batch: int = 8
    log_bytes_per_batch: int = 256 << 20
    tasks: int = 2
    interval_seconds: float | None = None
    compact_every: int = 0


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """One committed batch. `phase` is full or increment, `rows` counts row images; `started` (first task)
    and `ended` are epoch seconds.
    """

    number: int
    phase: str
    rows: int
    started: float
    ended: float
    snapshot: int | None
    position: Position


@dataclass(frozen=True, slots=True)
class BatchStarted:
    """A batch about to be read: its number, the positions it lies between, and its pieces in order.

    `read()` gives the rows of each piece that a task has read and written so far, by its place in `pieces`;
    they become visible with the commit of the batch.
    """

    number: int
    start: Position
    end: Position
    pieces: tuple[Work, ...]
    read: Callable[[], Mapping[int, int]]


Listener = Callable[[FinishedBatch], None]
Read = tuple[int, dict[int, int]]


def start(
    spark: SparkSession,
    ingest: Ingest,
    *,
    on_batch: Listener | None = None,
    on_start: Callable[[BatchStarted], None] | None = None,
) -> StreamingQuery:
    """Start the query; await or stop it as any other of Spark's. Raises NotFound when source or table are
    missing.

    `on_start` is called before a batch is read and `on_batch` after it was committed, both in the thread
    of the query: it goes on when they return.
    """
    directory = ingest.load.directory()
    table = ingest.load.opened()
    require_parallel_writers(table.store.schema, table.store.options)
    wanted = sink.source_schema(table.schema, ingest.load.computed)
    missing = [f.name for f in wanted if directory.chunks and f.name not in directory.schema.names]
    if missing:
        raise SchemaMismatch(
            f"the source has no column {', '.join(map(repr, missing))}; compute it or drop it"
        )
    origin = origin_of(ingest.checkpoint, table, ingest.load.user)
    first = Position.of(origin.position) if origin.position else Position()
    stream = (
        spark.readStream.format("tablestore-cdc")
        .option("path", directory.path)
        .option("table", directory.table)
        .option("chunksPerBatch", ingest.chunks_per_batch)
        .option("logBytesPerBatch", ingest.log_bytes_per_batch)
        .option("tasks", stream_tasks(table, ingest.tasks))
        .option("start", json.dumps(first.to_dict()))
        .load()
    )
    batches = _Batches(spark, ingest, origin.identifier, first, on_batch=on_batch, on_start=on_start)
    writer = stream.writeStream.foreachBatch(batches)
    writer = writer.option("checkpointLocation", ingest.checkpoint).queryName(ingest.load.user)
    if ingest.interval_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{int(ingest.interval_seconds * 1000)} milliseconds").start()


class _Batches:
    """The function that Spark calls with each batch, in the driver; it has no state that a restart needs."""

    def __init__(
        self,
        spark: SparkSession,
        ingest: Ingest,
        first: int,
        start: Position,
        *,
        on_batch: Listener | None,
        on_start: Callable[[BatchStarted], None] | None,
    ) -> None:
        self._spark, self._ingest, self._first, self._start = spark, ingest, first, start
        self._on_batch, self._on_start = on_batch, on_start
        self._read = None if on_start is None else spark.sparkContext.accumulator((-1, {}), _PiecesRead())

    def __call__(self, works: DataFrame, number: int) -> None:
        load, identifier = self._ingest.load, self._first + number
        table = load.opened()
        known = table.position(load.user)
        if known is not None and known[0] >= identifier:
            log.info("batch %d of %s was committed before: not written again", number, load.user)
            self._compact(table, number)
            return
        changelog = table.options.get(PHASE_OPTION, "true") == "true"
        begun = Position.of(known[1]) if known is not None and known[1] else self._start
        self._report_start(table, number, begun)
        task = WriteTask(load, table.max_sequence() + 1, changelog, number, self._read)
        done = works.mapInArrow(task, _RESULT).collect()
        if not done:
            return
        messages = [bytes(m) for row in sorted(done, key=lambda r: r.ordinal) for m in row.messages]
        phase, position = done[0].phase, done[0].position
        rows, started = sum(r.rows for r in done), min(r.started for r in done)
        committed = table.commit(
            messages,
            user=load.user,
            identifier=identifier,
            position=position,
            properties={PHASE: phase, ROWS: str(rows), STARTED: f"{started:.3f}"},
        )
        if self._on_batch is not None:
            reached = Position.of(position)
            self._on_batch(
                FinishedBatch(number, phase, rows, started, time.time(), committed.snapshot, reached)
            )
        self._compact(table, number)

    def _compact(self, table: Table, number: int) -> None:
        """Compact what is due after a batch, also after a repeated one: a kill may have come before its
        compaction."""
        load = self._ingest.load
        due, full = compactions(table, number, every=self._ingest.compact_every)
        if due:
            try:
                compact(self._spark, load.table, full=full, roots=load.roots)
            except CommitConflict as e:  # somebody else compacts too: the batch is committed all the same
                log.warning("compaction after batch %d of %s lost: %s", number, load.user, e)

    def _report_start(self, table: Table, number: int, begun: Position) -> None:
        """Call `on_start` with the pieces of the batch, which the source cuts the same from the same two
        positions."""
        planned = planned_end(self._ingest.checkpoint, table, number)
        if self._on_start is None or self._read is None or planned is None:
            return
        end, read = Position.of(planned), self._read
        tasks = stream_tasks(table, self._ingest.tasks)
        pieces = self._ingest.load.directory().work(begun, end, tasks=tasks)

        def done() -> Mapping[int, int]:
            batch, rows = read.value
            return rows if batch == number else {}

        self._on_start(BatchStarted(number, begun, end, tuple(pieces), done))


class _PiecesRead(AccumulatorParam[Read]):
    """How many rows of each piece of the newest batch have been read."""

    def zero(self, value: Read) -> Read:
        return -1, {}

    def addInPlace(self, value1: Read, value2: Read) -> Read:
        if value1[0] != value2[0]:
            return max(value1, value2, key=lambda read: read[0])
        return value1[0], {**value1[1], **value2[1]}


def stream_tasks(table: Table, wanted: int) -> int:
    """How many parts a range of the log is cut into: one where a table has one bucket."""
    return wanted if len(table.partition_by) or table.store.options.bucket > 1 else 1


@dataclass(frozen=True)
class WriteTask:
    """The function of a Python worker: each row of its input describes a piece of work, each row of its
    output its result.
    """

    load: Load
    sequence_base: int
    full_changelog: bool
    number: int = 0
    read: Accumulator[Read] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)  # Spark runs as many tasks at once as there are cores
        for batch in batches:
            for ordinal, text in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                yield self._do(ordinal, text)

    def _do(self, ordinal: int, text: str) -> pa.RecordBatch:
        work, end = decode_work(text)
        full = isinstance(work, Chunk)
        started = time.time()
        base = (
            self.sequence_base + ordinal * SEQUENCE_SPAN
        )  # a later piece of the log wins over an earlier one
        written = sink.write(self.load, work, sequence_base=base, changelog=self.full_changelog or not full)
        if self.read is not None:
            self.read.add((self.number, {ordinal: written.rows}))
        phase, position = FULL_PHASE if full else CHANGES_PHASE, json.dumps(end.to_dict())
        row = [ordinal, phase, position, written.rows, started, time.time(), list(written.messages)]
        return pa.RecordBatch.from_arrays(
            [pa.array([v], f.type) for v, f in zip(row, _RESULT_ARROW, strict=True)], schema=_RESULT_ARROW
        )
