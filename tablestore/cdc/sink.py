"""The task that loads one piece of a change directory: reads it, adds computed columns, writes level-0 files
and gives commit messages.

A `Load` names source and target; it is picklable and small. Nothing becomes visible here: the caller that
started the tasks commits the messages of all of them at once. Runs in Spark's Python workers, and without
Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.cdc.capture.computed import ComputedColumn
from tablestore.cdc.source import ChangeDirectory, LogRange, Work
from tablestore.core.errors import SchemaMismatch
from tablestore.format import hashing
from tablestore.format.types.arrow_types import from_arrow
from tablestore.io.fileio import LocalFileIO
from tablestore.table.lake import open_table
from tablestore.table.table import Table

_SPREAD = 1 << 16


@dataclass(frozen=True, slots=True)
class Load:
    """A load from one table of a change directory into one table of a lake."""

    source: str
    source_table: str
    table: str
    user: str
    computed: tuple[ComputedColumn, ...] = ()
    buffer_bytes: int | None = None  # of one worker, in place of the table's `write-buffer-size`
    roots: tuple[str, ...] = ()  # outside the table, as in `open`

    def directory(self) -> ChangeDirectory:
        """The source."""
        return ChangeDirectory(LocalFileIO(), self.source, self.source_table)

    def opened(self) -> Table:
        """The table that is loaded."""
        return open_table(self.table, roots=self.roots)


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a piece of work: messages to commit, and how many rows they hold."""

    messages: tuple[bytes, ...]
    rows: int


def write(load: Load, work: Work, *, sequence_base: int, changelog: bool) -> Written:
    """Write the rows of `work`, numbered from `sequence_base` in the order of the source. Files are deleted
    again if it fails.
    """
    table = load.opened()
    directory = load.directory()
    source = source_schema(table.schema, load.computed)
    writer = table.open_writer(
        user=load.user,
        sequence_base=sequence_base,
        compact=False,
        changelog=changelog,
        buffer_bytes=load.buffer_bytes,
    )
    rows = 0
    try:
        for changes in directory.read(work, source):
            batch, kinds = with_computed(changes.rows, load.computed, table.schema), changes.kinds
            if isinstance(work, LogRange) and work.parts > 1:
                mine = pa.array(parts(batch, table, work.parts) == work.part)
                batch, kinds = batch.filter(mine), kinds.filter(mine)
            rows += batch.num_rows
            writer.write(batch, kinds=kinds)
        return Written(tuple(writer.prepare()), rows)
    finally:
        writer.close()


def parts(rows: pa.RecordBatch, table: Table, count: int) -> np.ndarray:
    """A number below `count` for each row, the same for all rows of one (partition, bucket)."""
    schema, options = table.store.schema, table.store.options
    bucket = _hashed(rows, schema.bucket_keys, table, max(options.bucket, 1), options.bucket_function)
    return (bucket + _hashed(rows, schema.partition_keys, table, _SPREAD)) % count


def _hashed(
    rows: pa.RecordBatch, columns: tuple[str, ...], table: Table, modulus: int, function: str = "default"
) -> np.ndarray:
    if not columns:
        return np.zeros(rows.num_rows, np.int32)
    types = [f.type for f in table.store.schema.columns(columns)]
    return hashing.bucket_of([rows.column(c) for c in columns], types, modulus, function)


def source_schema(table: pa.Schema, computed: tuple[ComputedColumn, ...]) -> pa.Schema:
    """The columns that must come from the source for a table with these columns."""
    made = {c.name for c in computed}
    unknown = made - set(table.names)
    if unknown:
        raise SchemaMismatch(f"computed columns {sorted(unknown)} are no columns of the table")
    return pa.schema([f for f in table if f.name not in made])


def with_computed(
    rows: pa.RecordBatch, computed: tuple[ComputedColumn, ...], table: pa.Schema
) -> pa.RecordBatch:
    """`rows` with the computed columns, all in the order of the table."""
    known = {f.name: (rows.column(f.name), from_arrow(f.type)) for f in rows.schema}
    made = {}
    for column in computed:
        array, t, wrong = column.values(known, rows.num_rows)
        if wrong is not None:
            raise SchemaMismatch(f"row {int(wrong.argmax())} of a batch gives no {column}")
        known[column.name] = array, t
        made[column.name] = array.cast(table.field(column.name).type)
    columns = [made[f.name] if f.name in made else rows.column(f.name) for f in table]
    return pa.RecordBatch.from_arrays(columns, names=table.names)
