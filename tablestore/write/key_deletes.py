"""Deletes by key that need no row of the table: −D rows that hold the key alone.

Where the last row of a key wins and nobody is owed what was before, a −D says all with its key. Other columns
are NULL, in NOT NULL columns zero or empty. Pure; memory: the keys. Called by `Table.delete`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tablestore.core.options.table_options import ChangelogProducer, MergeEngine
from tablestore.format.snapshot import Snapshot
from tablestore.format.types.arrow_types import DataField
from tablestore.meta.store import Store
from tablestore.write.routing import routing
from tablestore.write.routing.routing import BucketMode, key_is_global


def keys_suffice(store: Store) -> bool:
    """Whether −D rows of the keys alone delete what is there, and nobody reads their other columns.

    False where values decide a merge (`sequence.field`, record expiry, `rowkind.field`), where a changelog
    or deletion vectors hold what was before, and where a key does not say its bucket.
    """
    schema, options = store.schema, store.options
    plain = options.merge_engine is MergeEngine.DEDUPLICATE and not options.deletion_vectors
    plain = plain and options.changelog_producer is ChangelogProducer.NONE and not options.ignore_delete
    values_decide = options.sequence_fields or options.rowkind_field or options.record_expire_ms is not None
    if not plain or values_decide or schema.row_count_field is not None:
        return False
    fixed = BucketMode.of(schema, options) is BucketMode.FIXED and key_is_global(schema)
    if not fixed or store.rescaled:
        return False
    return all(f.name in schema.primary_keys or _can_be_left_out(f) for f in schema.fields)


def _can_be_left_out(field: DataField) -> bool:
    """Whether a −D needs no value of a column: it may be NULL, or its type has a zero or an empty value."""
    kind = field.arrow.type
    return field.type.nullable or _has_zero(kind) or _is_text(kind)


def _has_zero(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def key_rows(store: Store, keys: pa.RecordBatch, snapshot: Snapshot | None) -> Iterator[pa.RecordBatch]:
    """Rows of all columns for those keys (exactly the key columns, in the table's types) whose partition has
    files in that snapshot: a delete makes no partition."""
    schema = store.schema
    if snapshot is None:
        return
    parts = [(partition, rows) for partition, _, rows in routing.route_to(keys, schema, 0)]
    if schema.partition_keys:
        asked = {partition for partition, _ in parts}
        live = store.manifests.live_entries(snapshot, partition=asked.__contains__)
        there = set(live.partitions()[0]) if len(live) else set()
        parts = [(partition, rows) for partition, rows in parts if partition in there]
    for _, rows in parts:
        arrays = [
            rows.column(f.name) if f.name in schema.primary_keys else _left_out(f, rows.num_rows)
            for f in schema.fields
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def _left_out(field: DataField, rows: int) -> pa.Array:
    kind = field.arrow.type
    if field.type.nullable:
        return pa.nulls(rows, kind)
    if _has_zero(kind):
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(bytes(-(-rows * kind.bit_width // 8)))])
    return pa.repeat(pa.scalar("" if pa.types.is_string(kind) else b"", kind), rows)
