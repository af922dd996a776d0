"""Rows of an append table with their ids: `$row_tracking` (FORMAT.md 9.6).

A row keeps its `_ROW_ID` for life; `_SEQUENCE_NUMBER` is the snapshot that wrote it. Files number their rows
from their first row id on; compacted files hold both as columns. Deleted rows are left out, one batch is in
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.format import deletion_vector
from tablestore.format.deletion_vector import surviving
from tablestore.format.parquet.schema import ROW_TRACKING
from tablestore.format.snapshot import Snapshot
from tablestore.lsm.compaction.append_rewriter import with_row_ids
from tablestore.lsm.levels.bucket_files import BucketFiles
from tablestore.meta.store import Store
from tablestore.read.scan.plan import plan
from tablestore.read.scan.time_travel import expiring
from tablestore.write.buckets import bucket_of


def tracked_schema(store: Store, columns: Sequence[str] | None = None) -> pa.Schema:
    """The Arrow schema of rows with their ids."""
    names = tuple(columns if columns is not None else store.schema.names)
    system = [pa.field(name, pa.int64(), nullable=False) for name in ROW_TRACKING]
    return pa.schema([*(f.arrow for f in store.schema.columns(names)), *system])


def tracked_rows(
    store: Store, snapshot: Snapshot | None, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a snapshot with `_ROW_ID` and `_SEQUENCE_NUMBER`; raises InvalidRequest for tables without
    row tracking."""
    if not store.options.row_tracking:
        raise InvalidRequest("the rows of this table have no ids: 'row-tracking.enabled' is not set")
    schema = tracked_schema(store, columns)
    for split in plan(store, snapshot).splits:
        files = BucketFiles(bucket_of(store, split.partition, split.bucket))
        with expiring(store, split.snapshot_id):
            for number, file in enumerate(split.files):
                where = split.deletion_file(number)
                gone = None if where is None else deletion_vector.read(store.io, where, rows=file.row_count)
                for batch in surviving(with_row_ids(files, file), gone):
                    yield batch.select(schema.names).cast(schema)


def row_tracking(store: Store, snapshot: Snapshot | None) -> pa.Table:
    """`tracked_rows` of all columns as a table."""
    return pa.Table.from_batches(tracked_rows(store, snapshot), tracked_schema(store))
