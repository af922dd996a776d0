"""`$audit_log` and `$binlog`: a table's rows, or its changes, with their kinds as a column.

What is read is what a batch scan would read (scan modes and `incremental-*` options count), but keys whose
newest row is a tombstone come too, as `-D`. `$binlog` makes a list of each column: one value, or, of an
update with both rows, the values before and after.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Unsupported
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Predicate
from tablestore.lsm.merge.merge_function import joined
from tablestore.meta.store import Store
from tablestore.read.changes.incremental import ChangeRange
from tablestore.read.scan.data_split import ROWKIND
from tablestore.read.scan.scan_mode import ScanTarget

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
