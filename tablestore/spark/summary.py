"""A continuous GROUP BY: a streaming query that keeps a small table of sums and counts in step with another
table's changelog, exactly once.

Workers read the changes and add them up, so only partial sums cross the JVM. The driver adds them to the old
state, which it reads from the target itself, and commits with the batch's number as identifier and the
snapshot of the source as position: a batch done twice adds nothing, and no state lives in the checkpoint.
Retractions (−U, −D) subtract; a group whose count falls to 0 is deleted. Made for summaries of up to some
thousands of groups.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tablestore.cdc.checkpoint import origin_of
from tablestore.core.errors import InvalidRequest
from tablestore.format import rowkind
from tablestore.format.predicates.predicate import Predicate
from tablestore.spark.feed_source import decode_piece
from tablestore.table.lake import open_table
from tablestore.table.table import Table

log = logging.getLogger(__name__)
_CONTEXT = Context(prec=76, rounding=ROUND_HALF_UP)
_RESULT = "part binary, position string, started double"
_RESULT_ARROW = pa.schema([("part", pa.binary()), ("position", pa.string()), ("started", pa.float64())])


@dataclass(frozen=True)
class Summary:
    """The query: `SELECT keys, sums…, averages…, count FROM source WHERE where GROUP BY keys`.

    `sums` name → Arrow expression over `columns` of the source; `averages` name → the sum it is derived from.
    """

    keys: tuple[str, ...]
    sums: Mapping[str, pc.Expression]
    count: str
    columns: tuple[str, ...]
    averages: Mapping[str, str] = field(default_factory=dict)
    where: Predicate | None = None

    def partial(self, rows: pa.RecordBatch, kinds: pa.Array) -> pa.Table:
        """Sums and counts of one batch by group, retractions subtracted."""
        minus = rowkind.retracts(kinds.to_numpy(zero_copy_only=False))
        if not minus.any():
            return self._aggregate(rows, 1)
        halves = (
            self._aggregate(rows.filter(pa.array(~minus)), 1),
            self._aggregate(rows.filter(pa.array(minus)), -1),
        )
        return self.merge(halves)

    def _aggregate(self, rows: pa.RecordBatch, sign: int) -> pa.Table:
        keys, sums = list(self.keys), list(self.sums)
        source = acero.TableSourceNodeOptions(pa.Table.from_batches([rows]))
        project = acero.ProjectNodeOptions([*map(pc.field, keys), *self.sums.values()], [*keys, *sums])
        totals = [(name, "hash_sum", None, name) for name in sums]
        grouped = acero.AggregateNodeOptions([*totals, ([], "hash_count_all", None, self.count)], keys=keys)
        steps = [("table_source", source), ("project", project), ("aggregate", grouped)]
        plan = acero.Declaration.from_sequence([acero.Declaration(name, options) for name, options in steps])
        found = plan.to_table(use_threads=False)
        if sign < 0:
            for name in (*sums, self.count):
                found = found.set_column(found.schema.get_field_index(name), name, pc.negate(found[name]))
        return found.select([*keys, *sums, self.count])

    def merge(self, parts: Sequence[pa.Table]) -> pa.Table:
        """The sums of partial sums, by group."""
        values = [*self.sums, self.count]
        both = pa.concat_tables(
            [p.select([*self.keys, *values]) for p in parts], promote_options="permissive"
        )
        added = both.group_by(list(self.keys), use_threads=False).aggregate(
            [(name, "sum") for name in values]
        )
        return added.select([*self.keys, *(f"{n}_sum" for n in values)]).rename_columns([*self.keys, *values])


@dataclass(frozen=True, slots=True)
class FinishedSummary:
    """One committed batch: the source snapshot it reaches, groups written, and when it ended (epoch
    seconds).
    """

    number: int
    source_snapshot: int
    groups: int
    started: float
    ended: float
    snapshot: int | None


Listener = Callable[[FinishedSummary], None]


def maintain(
    spark: SparkSession,
    source: str,
    target: str,
    summary: Summary,
    *,
    user: str,
    checkpoint: str,
    interval_seconds: float | None = 0.2,
    on_batch: Listener | None = None,
    roots: Sequence[str] = (),
) -> StreamingQuery:
    """Start a query that keeps `target` in step with `source`, both table paths: a full read first, then the
    changelog. `roots` as in `open`, for both.

    `interval_seconds` None: catch up once, then stop. The target's primary key must be the summary's keys.
    """
    table = open_table(target, roots=roots)
    if set(table.primary_key) != set(summary.keys):
        raise InvalidRequest(f"the primary key of {target} must be ({', '.join(summary.keys)})")
    origin = origin_of(checkpoint, table, user)
    begin = "latest-full" if origin.position is None else str(int(origin.position) + 1)
    feed = spark.readStream.format("tablestore-feed").option("path", source).option("start", begin)
    stream = feed.option("roots", ",".join(roots)).load()
    batches = _Batches(source, target, summary, user, origin.identifier, on_batch, tuple(roots))
    writer = stream.writeStream.foreachBatch(batches).option("checkpointLocation", checkpoint).queryName(user)
    if interval_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{int(interval_seconds * 1000)} milliseconds").start()


class _Batches:
    """The function that Spark calls with each batch, in the driver. The old state is in the target, nowhere
    else.
    """

    def __init__(
        self,
        source: str,
        target: str,
        summary: Summary,
        user: str,
        first: int,
        on_batch: Listener | None,
        roots: tuple[str, ...],
    ) -> None:
        self._source, self._target, self._summary = source, target, summary
        self._user, self._first, self._on_batch, self._roots = user, first, on_batch, roots

    def __call__(self, pieces: DataFrame, number: int) -> None:
        target, identifier = open_table(self._target, roots=self._roots), self._first + number
        known = target.position(self._user)
        if known is not None and known[0] >= identifier:
            log.info("batch %d of %s was committed before: not added again", number, self._user)
            target.commit([], user=self._user, identifier=identifier)  # compacts what a kill left
            return
        done = pieces.mapInArrow(AddTask(self._source, self._summary, self._roots), _RESULT).collect()
        if not done:
            return
        parts = [pa.ipc.open_stream(row.part).read_all() for row in done if row.part is not None]
        position = done[0].position
        messages, groups = self._messages(target, parts)
        committed = target.commit(messages, user=self._user, identifier=identifier, position=position)
        if self._on_batch is not None:
            started = min(row.started for row in done)
            self._on_batch(
                FinishedSummary(number, int(position), groups, started, time.time(), committed.snapshot)
            )

    def _messages(self, target: Table, parts: Sequence[pa.Table]) -> tuple[list[bytes], int]:
        """The new rows of the groups that changed, written but not committed."""
        if not parts:
            return [], 0
        changed = self._summary.merge(parts)
        rows, kinds = new_state(self._summary, changed, target)
        writer = target.open_writer(user=self._user, compact=True)
        try:
            writer.write(rows, kinds=kinds)
            return writer.prepare(), rows.num_rows
        finally:
            writer.close()


def new_state(summary: Summary, changed: pa.Table, target: Table) -> tuple[pa.RecordBatch, pa.Array]:
    """Rows of `target` for the groups in `changed` once its partial sums are added, with their row kinds."""
    keys, values = list(summary.keys), [*summary.sums, summary.count]
    old = target.scan([*keys, *values]).to_arrow()
    touched = old.join(changed.select(keys), keys, join_type="left semi", use_threads=False)
    total = summary.merge([touched, changed])
    kinds = np.where(total[summary.count].to_numpy() == 0, rowkind.DELETE, rowkind.UPDATE_AFTER).astype(
        np.int8
    )
    schema = target.schema
    columns = []
    for f in schema:
        if f.name in summary.averages:
            columns.append(_average(total[summary.averages[f.name]], total[summary.count], f.type))
        else:
            columns.append(total[f.name].combine_chunks().cast(f.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema), pa.array(kinds)


def _average(sums: pa.ChunkedArray, counts: pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """Exact quotients rounded half up to the scale of `type_`; NULL for a group without rows. One value a
    group.
    """
    step = Decimal(1).scaleb(-type_.scale)
    pairs = zip(sums.to_pylist(), counts.to_pylist(), strict=True)
    quotients = [
        _CONTEXT.divide(Decimal(s), Decimal(n)).quantize(step, context=_CONTEXT) if n else None
        for s, n in pairs
    ]
    return pa.array(quotients, type_)


@dataclass(frozen=True)
class AddTask:
    """The function of a Python worker: each row of its input describes a piece of the changelog, each row of
    its output holds partial sums.
    """

    source: str
    summary: Summary
    roots: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)  # Spark runs as many tasks at once as there are cores
        for batch in batches:
            for text, position in zip(batch.column(1).to_pylist(), batch.column(2).to_pylist(), strict=True):
                yield self._do(text, position)

    def _do(self, text: bytes, position: str) -> pa.RecordBatch:
        started, piece, summary = time.time(), decode_piece(text), self.summary
        parts: list[pa.Table] = []
        for rows, kinds in piece.read(self.source, summary.columns, summary.where, roots=self.roots):
            parts.append(summary.partial(rows, kinds))
            if len(parts) == 64:
                parts = [summary.merge(parts)]
        row = [_stream(summary.merge(parts)) if parts else None, position, started]
        arrays = [pa.array([v], f.type) for v, f in zip(row, _RESULT_ARROW, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_RESULT_ARROW)


def _stream(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue().to_pybytes()
