"""Rows of given primary keys: which bucket each key is in, then point reads there.

Keys of FLOAT or DOUBLE columns are compared as values, not as keys (0.0 is −0.0), so those tables are scanned
with a filter. Memory: the keys asked for, and the rows of one bucket's 65,536 keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.errors import SchemaMismatch
from tablestore.format.predicates import literal, predicate
from tablestore.format.predicates.predicate import Compare, Predicate, all_of, col
from tablestore.format.snapshot import Snapshot
from tablestore.format.types.arrow_types import arrow_schema
from tablestore.lsm import keys as key_columns
from tablestore.meta.store import Store
from tablestore.read.point_read import PointReader
from tablestore.table.scan import Scan
from tablestore.write import bucketing

_FEW = 256  # distinct values of a key column up to which they are named one by one
_PLACE = ""  # no column has this name
_BY_VALUE = ("FLOAT", "DOUBLE")


class Lookups:
    """Point reads of one table as it is opened. What was learned of a snapshot's files serves until another
    snapshot is asked. Safe to share between threads."""

    def __init__(self) -> None:
        self._last: tuple[Store, Snapshot, PointReader, bool] | None = None

    def rows(self, scan: Scan, keys: pa.Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of `scan` whose primary key is in `keys` (exactly the key columns, distinct, in the
        table's types), as columns `names`; bucket after bucket, in key order inside each."""
        if not keys.num_rows or scan.snapshot is None:
            return
        if _by_value(scan):
            on = scan.store.schema.primary_keys
            yield from _scanned(scan.select(*dict.fromkeys((*names, *on))), keys, names)
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


def _by_value(scan: Scan) -> bool:
    return any(f.type.root in _BY_VALUE for f in scan.store.schema.columns(scan.store.schema.primary_keys))


def _placed(
    keys: pa.RecordBatch, store: Store, rescaled: bool
) -> Iterator[tuple[bytes | None, int | None, pa.RecordBatch]]:
    """The keys by partition and bucket, as far as a key tells where it is."""
    schema, options = store.schema, store.options
    if not set(schema.partition_keys) <= set(schema.primary_keys):
        yield None, None, keys
    elif options.bucket > 0 and not rescaled:
        yield from bucketing.route(keys, schema, options)
    else:
        for partition, _, some in bucketing.route_to(keys, schema, 0):
            yield partition, None, some


def _ordered(keys: pa.RecordBatch, store: Store) -> pa.RecordBatch:
    if keys.num_rows == 1:
        return keys
    codes = key_columns.codes(key_columns.of_batch(keys, store.schema.key_fields))
    return keys.take(pa.array(np.argsort(codes, kind="stable")))


def _scanned(scan: Scan, keys: pa.Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Key predicates prune files and row groups, a semi-join picks the rows."""
    on = list(scan.store.schema.primary_keys)
    for batch in scan.filter(all_of(*(_bounds(keys, n) for n in on))).to_batches():
        # columns that are no key stay out of the join, which cannot hold nested ones
        rows = pa.table([*(batch.column(n) for n in on), np.arange(batch.num_rows)], names=[*on, _PLACE])
        places = rows.join(keys, keys=on, join_type="left semi").column(_PLACE)
        yield batch.select(list(names)).take(places.combine_chunks().sort())


def one_key(scan: Scan, where: Predicate) -> pa.Table | None:
    """The key that `where` (each key column equal to a value) names, in the table's types; None where it
    names none."""
    schema = scan.store.schema
    if _by_value(scan):
        return None
    found = {
        p.column: p.value
        for p in predicate.conjuncts(predicate.bind(where, schema))
        if isinstance(p, Compare) and p.op == "="
    }
    if set(found) != set(schema.primary_keys):
        return None
    fields = schema.columns(schema.primary_keys)
    try:
        arrays = [literal.array([found[f.name]], f.type) for f in fields]
    except (pa.ArrowException, OverflowError):  # a number that the column cannot hold
        return None
    return pa.table(arrays, schema=arrow_schema(fields))


def by_value(scan: Scan, key: Mapping[str, Any]) -> list[pa.RecordBatch]:
    """The rows of `scan`, which selects one key by its values: 0.0 and −0.0 are equal and two keys, so the
    row that has the signs of `key` comes first."""
    on = list(scan.store.schema.primary_keys)
    rows = scan.select(*dict.fromkeys((*scan.names, *on))).to_arrow()
    if rows.num_rows > 1:
        other = [
            [isinstance(v, float) and math.copysign(1, v) != math.copysign(1, key[n]) for n, v in row.items()]
            for row in rows.select(on).to_pylist()
        ]
        rows = rows.take(pa.array(sorted(range(rows.num_rows), key=other.__getitem__)))
    return rows.select(scan.names).to_batches()


def key_table(scan: Scan, data: pa.Table) -> pa.Table:
    """The key columns of `data` in the table's types; raises SchemaMismatch for missing columns and NULLs."""
    fields = scan.store.schema.columns(scan.store.schema.primary_keys)
    missing = [f.name for f in fields if f.name not in data.schema.names]
    if missing:
        raise SchemaMismatch(
            f"the keys lack {', '.join(missing)}; a key holds {', '.join(f.name for f in fields)}"
        )
    try:
        keys = data.select([f.name for f in fields]).cast(arrow_schema(fields))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as e:
        raise SchemaMismatch(f"the keys do not fit the key columns: {e}") from None
    return keys.group_by(keys.schema.names).aggregate([])


def _bounds(keys: pa.Table, name: str) -> Predicate:
    values = pc.unique(keys.column(name))
    if len(values) <= _FEW:
        return col(name).is_in(values.to_pylist())
    bounds = pc.min_max(values)
    return col(name).between(bounds["min"].as_py(), bounds["max"].as_py())
