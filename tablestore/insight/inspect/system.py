"""System tables of one table (`t$snapshots`, …): name → columns and rows, as Paimon 2.0.0 has them (FORMAT.md
23). `lake` is Fluss's: the table without the rows that are in its log only.

The small ones are made whole from metadata (`inspect`); the others read data and come as batches.
`$audit_log` and `$binlog` are a table's rows, or its changes, with their kinds as a column: what a batch scan
would read (scan modes and `incremental-*` options count), but keys whose newest row is a tombstone come too,
as `-D`. `$binlog` makes a list of each column: one value, or, of an update with both rows, the values before
and after.

`$row_tracking` has the rows of an append table with their ids (FORMAT.md 9.6): a row keeps its `_ROW_ID` for
life; `_SEQUENCE_NUMBER` is the snapshot that wrote it. Files number their rows from their first row id on;
compacted files hold both as columns. Deleted rows are left out, one batch is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.format import deletion_vector
from tablestore.format.deletion_vector import surviving
from tablestore.format.parquet.schema import ROW_TRACKING
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.insight.inspect.inspect import Inspect
from tablestore.lsm.compaction.append_compaction import with_row_ids
from tablestore.lsm.levels.bucket import BucketFiles
from tablestore.lsm.merge.groups import joined
from tablestore.meta.store import Store
from tablestore.read.changes.incremental import ChangeRange
from tablestore.read.scan import scan_mode
from tablestore.read.scan.data_split import ROWKIND
from tablestore.read.scan.plan import FileChoice, plan
from tablestore.read.scan.scan_mode import ScanTarget, SnapshotState
from tablestore.read.scan.time_travel import expiring
from tablestore.write.buckets import bucket_of

Batches = Callable[[Store, Predicate | None], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class SystemSource:
    """One system table: its columns, and its batches. `filters`: whether it takes the table's own
    predicates, so that less is read."""

    schema: pa.Schema
    batches: Batches
    filters: bool = False


METADATA = (
    "snapshots",
    "schemas",
    "options",
    "manifests",
    "files",
    "file_key_ranges",
    "partitions",
    "buckets",
    "tags",
    "branches",
    "consumers",
    "statistics",
    "aggregation_fields",
    "table_indexes",
)
OF_STATE = ("manifests", "files", "file_key_ranges", "partitions", "buckets", "statistics", "table_indexes")
DATA = ("audit_log", "binlog", "lake", "ro", "row_tracking")
NAMES = (*METADATA, *DATA)


def source(store: Store, name: str, at: Snapshot | None = None) -> SystemSource:
    """The system table of that name, of a snapshot if one was chosen; raises NotFound naming the nearest."""
    if name in METADATA:
        view = _metadata(store, name, at)
        return SystemSource(view.schema, lambda _, __: iter(view.to_batches()))
    if name not in DATA:
        raise NotFound.among("system table", name, NAMES)
    if store.options.scan_log and name in ("audit_log", "binlog"):
        raise Unsupported(
            f"${name} with tablestore.scan.log", "it shows rows of files: set the option to false"
        )
    target = scan_mode.batch(store, at)
    under = target.under(store)
    if name == "audit_log":
        return SystemSource(audit_schema(under), lambda _, w: audit_log(under, target, w), filters=True)
    if name == "binlog":
        return SystemSource(binlog_schema(under), lambda _, w: binlog(under, target, w))
    snapshot = target.snapshot if isinstance(target, SnapshotState) else store.snapshots.latest()
    if name == "row_tracking":
        schema = tracked_schema(under)
        return SystemSource(schema, lambda _, __: tracked_rows(under, snapshot))
    read = in_files if name == "lake" else read_optimized
    return SystemSource(under.schema.shown.arrow, lambda _, w: read(under, snapshot, w), filters=True)


def _metadata(store: Store, name: str, at: Snapshot | None) -> pa.Table:
    """A table of `inspect`, of the snapshot that is chosen where it depends on one."""
    inspect = Inspect(store)
    if name in OF_STATE:
        target = scan_mode.batch(store, at)
        if isinstance(target, SnapshotState) and target.travelled and target.snapshot is not None:
            return getattr(inspect, name)(target.snapshot)
    return getattr(inspect, name)()


def in_files(store: Store, snapshot: Snapshot | None, where: Predicate | None) -> Iterator[pa.RecordBatch]:
    """Rows of a snapshot, without those of a log."""
    splits = plan(store, snapshot, where)
    for split in splits.splits:
        yield from split.read(store, store.schema.shown.names, splits.where)


def read_optimized(
    store: Store, snapshot: Snapshot | None, where: Predicate | None
) -> Iterator[pa.RecordBatch]:
    """Rows of the oldest level only, which need no merge; all files of tables without a primary key."""
    oldest = store.options.num_levels - 1 if store.schema.primary_keys else 0
    splits = plan(store, snapshot, where, files=FileChoice(min_level=oldest))
    for split in splits.splits:
        yield from split.read(store, store.schema.shown.names, splits.where)


_BEFORE, _AFTER = "-U", "+U"


def audit_schema(store: Store) -> pa.Schema:
    """`rowkind`, then the table's columns."""
    return pa.schema([pa.field(ROWKIND, pa.string()), *(f.arrow for f in store.schema.shown.fields)])


def binlog_schema(store: Store) -> pa.Schema:
    """`rowkind`, then a list of each of the table's columns."""
    lists = (pa.field(f.name, pa.list_(pa.field("element", f.arrow.type))) for f in store.schema.shown.fields)
    return pa.schema([pa.field(ROWKIND, pa.string()), *lists])


def audit_log(store: Store, target: ScanTarget, where: Predicate | None = None) -> Iterator[pa.RecordBatch]:
    """Rows with their kinds; `where` asks for columns of the table only."""
    if store.options.shows_sequence:
        raise Unsupported("table-read.sequence-number.enabled", "$audit_log and $binlog show kinds only")
    schema = audit_schema(store)
    for batch in _rows(store, target, where):
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _rows(store: Store, target: ScanTarget, where: Predicate | None) -> Iterator[pa.RecordBatch]:
    bound = None if where is None else predicate.bind(where, store.schema)
    splits, names = target.plan(store, bound), store.schema.shown.names
    for split in splits.splits:
        yield from split.read(store, names, splits.where, with_kinds=True, keep_retracts=True)


def binlog(store: Store, target: ScanTarget, where: Predicate | None = None) -> Iterator[pa.RecordBatch]:
    """As `audit_log`, each column in lists; of changes, a −U and the +U that follows it are one row."""
    schema, pairs = binlog_schema(store), isinstance(target, ChangeRange)
    pending: pa.RecordBatch | None = None  # a −U at the end of a batch waits for its +U
    for batch in audit_log(store, target, where):
        rows = batch if pending is None else joined([pending, batch])
        pending = None
        if pairs and rows.num_rows and rows.column(0)[-1].as_py() == _BEFORE:
            rows, pending = rows.slice(0, rows.num_rows - 1), rows.slice(rows.num_rows - 1)
        if rows.num_rows:
            yield _in_lists(rows, schema, pairs=pairs)
    if pending is not None:
        yield _in_lists(pending, schema, pairs=False)


def _in_lists(rows: pa.RecordBatch, schema: pa.Schema, *, pairs: bool) -> pa.RecordBatch:
    kinds = np.asarray(rows.column(0).to_numpy(zero_copy_only=False))
    before = np.zeros(len(kinds), dtype=bool)
    if pairs and len(kinds) > 1:
        before[:-1] = (kinds[:-1] == _BEFORE) & (kinds[1:] == _AFTER)
    starts = np.flatnonzero(~np.r_[False, before[:-1]])  # a row that is no second half begins a list
    offsets = pa.array(np.r_[starts, len(kinds)].astype(np.int32))
    last = np.r_[starts[1:], len(kinds)] - 1
    columns: list[pa.Array] = [rows.column(0).take(pa.array(last))]
    for i, field in enumerate(schema):
        if i:
            columns.append(pa.ListArray.from_arrays(offsets, rows.column(i), type=field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


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
