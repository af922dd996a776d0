"""Changes → by how much they change their groups: partial aggregates, retractions subtracted.

DuckDB computes the row-wise step and the aggregates in one query over the changes of a piece, within its
memory limit, however many groups there are. The parts are small Arrow streams, each of one bucket of the
state and of one of its tables, so that they may go to where the state of that bucket is worked on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.flow.source import Changes
from tablestore.format import hashing
from tablestore.format.types.arrow_types import from_arrow
from tablestore.sql.query.connection import DuckConnection
from tablestore.sql.query.own_functions import register
from tablestore.sql.streaming.group_columns import (
    MINUS,
    NULLS,
    TIMES,
    VALUE,
    Counted,
    GroupColumns,
)
from tablestore.sql.streaming.lookups import Snapshots
from tablestore.sql.streaming.row_step import KIND, RowStep, RowSteps, with_change
from tablestore.sql.text import quoted

GROUPS_TABLE = "groups"
_TABLE = b"table"  # of a part's schema: the table that it changes
_PART_ROWS = 65_536
_ROWS, _STEPPED = "__rows_of_piece", "__stepped"
Part = tuple[int, bytes]


@dataclass(frozen=True)
class Partials:
    """How changes of the views of `step` change groups; `buckets` of the state. Picklable."""

    step: RowStep
    columns: GroupColumns
    buckets: int

    def of(
        self, view: str, changes: Changes, *, memory: str = "", at: Snapshots | None = None
    ) -> Iterator[Part]:
        """(bucket, part) of the changes of one view; without changes there are none. `at` are the snapshots
        of tables that are looked up."""
        with ExitStack() as opened:
            connection = opened.enter_context(DuckConnection(memory=memory))
            steps = RowSteps(self.step, memory=memory, at=at) if self.step.lookups else None
            if steps is not None:
                opened.enter_context(steps)
            yield from self.on(connection, view, changes, steps)

    def on(
        self, connection: DuckConnection, view: str, changes: Changes, steps: RowSteps | None
    ) -> Iterator[Part]:
        """The same on a connection, and with steps at work, that serve for several pieces; only a step that
        looks rows up needs `steps`."""
        if self.step.lookups:  # batch by batch: what is looked up depends on it
            assert steps is not None, "a step with lookups"
            step = RowStep(
                f"SELECT * FROM {quoted(_STEPPED)}", {_STEPPED: self.step.schema}, self.step.schema
            )
            stepped = (steps.rows(view, batch, kinds) for batch, kinds in changes)
            yield from replace(self, step=step)._on(connection, _STEPPED, stepped)
        else:
            yield from self._on(connection, view, changes)

    def _on(self, connection: DuckConnection, view: str, changes: Changes) -> Iterator[Part]:
        duck, columns = connection.duck, self.columns
        for name, schema in self.step.views.items():
            if name != view:
                duck.register(name, with_change(schema).empty_table())
        wanted = with_change(self.step.views[view])
        batches = connection.watched(_with_change(changes, wanted))
        duck.register(view, pa.RecordBatchReader.from_batches(wanted, batches))
        register(duck, self.step.sql)
        minus = f', "{KIND}" IN (1, 3) AS {MINUS}' if columns.retracts else ""
        rows = f"SELECT *{minus} FROM ({self.step.sql})"
        try:
            if not columns.counted:
                yield from self._parts(connection, GROUPS_TABLE, self._groups(f"({rows})"), columns.schema)
                return
            create = f"CREATE OR REPLACE TEMP TABLE {_ROWS} AS {rows}"
            connection.run(lambda: duck.execute(create).fetchall())
            yield from self._parts(connection, GROUPS_TABLE, self._groups(_ROWS), columns.schema)
            for counted in columns.counted:
                schema = columns.counted_schema(counted)
                yield from self._parts(connection, counted.table, self._values(counted), schema)
            connection.run(lambda: duck.execute(f"DROP TABLE {_ROWS}").fetchall())
        finally:
            duck.unregister(view)

    def _groups(self, rows: str) -> str:
        """How rows change each group; rows that come and rows that are taken back apart, which costs one key
        more and is half the work of two conditional sums."""
        columns = self.columns
        changes = []
        for c in columns.columns:
            if not c.distinct:
                change = c.change(quoted(c.argument or ""), minus=None)
                change = f"CASE WHEN {MINUS} THEN -{change} ELSE {change} END" if columns.retracts else change
                changes.append(f"{change} AS {quoted(c.name)}")
        keys = [quoted(n) for n in columns.keys.names]
        by = [*keys, *([MINUS] if columns.retracts else [])]
        grouped = f"GROUP BY {', '.join(by)}" if by else "HAVING count(*) > 0"
        return f"SELECT {', '.join([*keys, *changes])} FROM {rows} {grouped}"

    def _values(self, counted: Counted) -> str:
        columns, argument = self.columns, quoted(counted.argument)
        keys = [*(quoted(n) for n in columns.keys.names), argument]
        sign = f"CASE WHEN {MINUS} THEN -1 ELSE 1 END" if columns.retracts else "1"
        shown = [*keys[:-1], f"{argument} AS {quoted(VALUE)}"]
        return (
            f"SELECT {', '.join(shown)}, CAST(sum({sign}) AS BIGINT) AS {quoted(TIMES)} FROM {_ROWS} "
            f"WHERE {argument} IS NOT NULL GROUP BY {', '.join(keys)} HAVING sum({sign}) <> 0"
        )

    def _parts(self, connection: DuckConnection, table: str, sql: str, schema: pa.Schema) -> Iterator[Part]:
        reader = connection.run(lambda: connection.duck.sql(sql).to_arrow_reader(_PART_ROWS))
        described = schema.with_metadata({_TABLE: table})
        while (batch := connection.run(lambda: next(reader, None))) is not None:
            if batch.num_rows:
                rows = self._keyed(batch, described)
                for bucket, own in self._by_bucket(rows):
                    out = pa.BufferOutputStream()
                    with pa.ipc.new_stream(out, own.schema) as writer:
                        writer.write_batch(own)
                    yield bucket, out.getvalue().to_pybytes()

    def _keyed(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """The rows with keys that are not NULL, and the column that says which are; without the columns that
        follow from counted values."""
        nulls = np.zeros(batch.num_rows, np.int64)
        arrays, names = [], []
        for place, f in enumerate(self.columns.keys):
            column = batch.column(f.name).cast(f.type)
            if column.null_count:
                nulls |= np.asarray(pc.is_null(column)).astype(np.int64) << place
                column = pc.fill_null(column, _filler(f.type))
            arrays.append(_one_zero(column))
            names.append(f.name)
        for f in schema:
            if f.name in batch.schema.names and f.name not in names:
                arrays.append(_one_zero(batch.column(f.name).cast(f.type)))
                names.append(f.name)
        own = pa.schema([pa.field(NULLS, pa.int64()), *(schema.field(n) for n in names)], schema.metadata)
        return pa.RecordBatch.from_arrays([pa.array(nulls), *arrays], schema=own)

    def _by_bucket(self, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        if self.buckets == 1:
            yield 0, rows
            return
        names = self.columns.key_names
        types = [from_arrow(rows.schema.field(n).type) for n in names]
        buckets = hashing.bucket_of([rows.column(n) for n in names], types, self.buckets)
        order = np.argsort(buckets, kind="stable")
        cuts = np.flatnonzero(np.diff(buckets[order])) + 1
        for places in np.split(order, cuts):
            yield int(buckets[places[0]]), rows.take(pa.array(places))


def decoded(part: bytes) -> tuple[str, pa.Table]:
    """The table of the state that a part changes, and the changes."""
    table = pa.ipc.open_stream(part).read_all()
    return table.schema.metadata[_TABLE].decode(), table.replace_schema_metadata()


def _with_change(changes: Changes, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch, kinds in changes:
        names = wanted.names[:-2]
        positions = pa.array(np.zeros(batch.num_rows, np.int64))
        columns = [*(batch.column(n) for n in names), kinds.cast(pa.int8()), positions]
        yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def _filler(t: pa.DataType) -> pa.Scalar:
    """A value that stands where a key is NULL."""
    if pa.types.is_string(t):
        return pa.scalar("", t)
    if pa.types.is_binary(t):
        return pa.scalar(b"", t)
    return pa.scalar(0, pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)


def _one_zero(column: pa.Array) -> pa.Array:
    """The same values; 0.0 for −0.0, which is the same group but another key of a table."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.add(column, pa.scalar(0.0, column.type))
