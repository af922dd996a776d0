"""Rows of given primary keys: which bucket each key is in, then point reads there.

A key is what a write of it would replace: 0.0 and −0.0 are two keys, every NaN is one. Memory: the keys asked
for, and the rows of one bucket's 65,536 keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Unsupported
from tablestore.format.predicates import literal, predicate
from tablestore.format.predicates.predicate import Compare, Predicate
from tablestore.format.snapshot import Snapshot
from tablestore.format.types.arrow_types import arrow_schema
from tablestore.lsm.merge import keys as key_columns
from tablestore.meta.store import Store
from tablestore.read.points.point_read import PointReader
from tablestore.read.scan.fallback import OtherBranch
from tablestore.read.scan.plan import visible_partitions
from tablestore.table.scan import Scan, snapshot_scan
from tablestore.write.conform import conform_keys
from tablestore.write.routing import routing


class Lookups:
    """Point reads of one table. What was read of a snapshot's files is kept until another snapshot is asked.
    Safe to share between threads."""

    def __init__(self) -> None:
        self._last: tuple[Store, Snapshot, PointReader, bool] | None = None

    def rows(self, scan: Scan, keys: pa.Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of `scan` whose primary key is in `keys` (exactly the key columns, distinct, in the
        table's types), as columns `names`; bucket after bucket, in key order inside each."""
        if not keys.num_rows or scan.snapshot is None:
            return
        reader, rescaled = self._reader(scan.store, scan.snapshot)
        for partition, bucket, some in _placed(keys.combine_chunks().to_batches()[0], scan.store, rescaled):
            yield from reader.read(partition, bucket, _ordered(some, scan.store), names)

    def __reduce__(self) -> tuple[type[Lookups], tuple[()]]:
        return Lookups, ()

    def _reader(self, store: Store, snapshot: Snapshot) -> tuple[PointReader, bool]:
        last = self._last
        if last is None or last[1] != snapshot or last[0] is not store:
            last = self._last = (store, snapshot, PointReader(store, snapshot), store.rescaled)
        return last[2], last[3]


def rows_of_branches(
    lookups: Lookups, scan: Scan, other: OtherBranch, keys: pa.Table, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """As `Lookups.rows`, of a scan over two branches: each key is looked up in the branch that its partition
    is read from. Raises Unsupported where a key does not have its partition's columns, or the branches have
    different keys."""
    schema = scan.store.schema
    if schema.primary_keys != other.store.schema.primary_keys or not {*schema.partition_keys} <= {
        *schema.primary_keys
    }:
        why = "both branches need one primary key that has the partition columns: scan with a filter"
        raise Unsupported("get_many over two branches", why)
    first = other if other.first else scan
    visible = visible_partitions(first.store, first.snapshot)
    parts: dict[bool, list[pa.RecordBatch]] = {True: [], False: []}
    for batch in keys.combine_chunks().to_batches():
        for partition, _, some in routing.route_to(batch, schema, 0):
            parts[(partition in visible) != other.first].append(some)
    theirs = snapshot_scan(other.store, other.snapshot)
    for here, branch_scan, kept in ((True, scan, lookups), (False, theirs, Lookups())):
        yield from kept.rows(branch_scan, pa.Table.from_batches(parts[here], keys.schema), names)


def _placed(
    keys: pa.RecordBatch, store: Store, rescaled: bool
) -> Iterator[tuple[bytes | None, int | None, pa.RecordBatch]]:
    """The keys by partition and bucket; None for what does not follow from a key."""
    schema, options = store.schema, store.options
    if not set(schema.partition_keys) <= set(schema.primary_keys):
        yield None, None, keys
    elif options.bucket > 0 and not rescaled:
        yield from routing.route(keys, schema, options)
    else:
        for partition, _, some in routing.route_to(keys, schema, 0):
            yield partition, None, some


def _ordered(keys: pa.RecordBatch, store: Store) -> pa.RecordBatch:
    if keys.num_rows == 1:
        return keys
    codes = key_columns.codes(key_columns.of_batch(keys, store.schema.key_fields))
    return keys.take(pa.array(np.argsort(codes, kind="stable")))


def one_key(scan: Scan, where: Predicate) -> pa.Table | None:
    """The key that `where` (each key column equal to a value) names, in the table's types; None where no row
    can have it: a value is none of its column's type."""
    schema = scan.store.schema
    values = {
        p.column: p.value
        for p in predicate.conjuncts(predicate.bind(where, schema))
        if isinstance(p, Compare) and p.op == "="
    }
    if set(values) != set(schema.primary_keys):
        return None
    fields = schema.columns(schema.primary_keys)
    try:
        arrays = [literal.array([values[f.name]], f.type) for f in fields]
    except (pa.ArrowException, OverflowError):  # a number that the column cannot hold
        return None
    return pa.table(arrays, schema=arrow_schema(fields))


def key_table(store: Store, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The key columns of rows, in the table's types, each key once.

    Raises SchemaMismatch for missing columns, NULLs and values that no write of the key would take.
    """
    fields = store.schema.columns(store.schema.primary_keys)
    keys = pa.Table.from_batches([conform_keys(b, fields) for b in batches], arrow_schema(fields))
    return keys.group_by(keys.schema.names).aggregate([])
