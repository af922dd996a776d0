"""Where rows belong: the key bytes, the bucket and the partition of each row, whole columns at a time.

A table whose cluster has a lake of the format paimon has Paimon's keys and buckets: the BinaryRow of the
columns, and |murmur3(it)| mod n. Others have compacted keys, and a bucket that is their murmur3, hashed once
more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.fluss.compacted_rows import binary_array, encode_keys
from tablestore.fluss.tables import FlussTable
from tablestore.fluss.types import engine_column
from tablestore.format import binary_row
from tablestore.format.hashing import bucket_of
from tablestore.format.types.data_type import DataType

_PAIMON = "paimon"
_C1, _C2, _SEED = np.uint32(0xCC9E2D51), np.uint32(0x1B873593), np.uint32(42)


def types_of(table: FlussTable, names: Sequence[str]) -> list[DataType]:
    """The types of these columns."""
    types = {column.name: column.type for column in table.columns}
    return [types[name] for name in names]


def key_bytes(table: FlussTable, rows: pa.RecordBatch) -> pa.Array:
    """The keys (binary) of rows of a keyed table, as its store has them. Raises SchemaMismatch for a NULL."""
    names = table.physical_primary_key
    return _key(table, rows, names)


def buckets_of(table: FlussTable, rows: pa.RecordBatch) -> np.ndarray | None:
    """int32 bucket of each row; None for a table that has no bucket keys, whose rows go to any bucket."""
    names = table.bucket_keys
    if not names:
        return None
    _require_paimon_or_fluss(table)
    if table.lake_format == _PAIMON:
        types = types_of(table, names)
        arrays = [engine_column(rows.column(name), t) for name, t in zip(names, types, strict=True)]
        return bucket_of(arrays, types, table.buckets)
    return _fluss_buckets(_key(table, rows, names), table.buckets)


def by_partition(table: FlussTable, rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
    """The values of the partition keys and the positions of their rows, in order; a table without
    partitions has one of no values. Raises SchemaMismatch for a NULL."""
    if not table.partition_keys:
        yield (), np.arange(rows.num_rows)
        return
    codes, values = np.zeros(rows.num_rows, np.int64), []
    for name in table.partition_keys:
        column = rows.column(name).cast(pa.string()).dictionary_encode()
        if column.null_count:
            raise SchemaMismatch(f"{table.path}: NULL in the partition column {name!r}")
        texts = column.dictionary.to_pylist()  # one of each value
        codes = codes * max(len(texts), 1) + column.indices.to_numpy(zero_copy_only=False)
        values.append(texts)
    distinct, inverse = np.unique(codes, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    bounds = np.searchsorted(inverse[order], np.arange(len(distinct) + 1))
    for i, code in enumerate(distinct.tolist()):
        parts = []
        for texts in reversed(values):
            code, at = divmod(code, len(texts))
            parts.append(texts[at])
        yield tuple(reversed(parts)), order[bounds[i] : bounds[i + 1]]


def _key(table: FlussTable, rows: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    types = types_of(table, names)
    columns = [rows.column(name) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.null_count:
            raise SchemaMismatch(f"{table.path}: NULL in the key column {name!r}")
    _require_paimon_or_fluss(table)
    if table.lake_format != _PAIMON:
        return encode_keys(columns, types)
    flat, offsets = binary_row.bodies(
        [engine_column(c, t) for c, t in zip(columns, types, strict=True)], types
    )
    return binary_array(offsets, flat)


def _require_paimon_or_fluss(table: FlussTable) -> None:
    if table.lake_format not in (None, _PAIMON):
        raise Unsupported(f"keys and buckets for a lake of the format {table.lake_format}", str(table.path))


def _fluss_buckets(keys: pa.Array, buckets: int) -> np.ndarray:
    h = _murmur(keys)
    h = _mixed(np.zeros_like(h), h) ^ np.uint32(4)
    return (np.abs(_finished(h).view(np.int32).astype(np.int64)) % buckets).astype(np.int32)


def _murmur(keys: pa.Array) -> np.ndarray:
    """uint32 murmur3 of each key; the bytes behind its last whole word are mixed in one by one, signed."""
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(
        np.int64
    )
    data = np.zeros(int(offsets[-1]) + 4, np.uint8)
    data[: int(offsets[-1])] = np.frombuffer(keys.buffers()[2], np.uint8)[: int(offsets[-1])]
    words = np.ndarray((len(data) - 3,), "<u4", data, 0, (1,))
    starts, lengths = offsets[:-1], np.diff(offsets)
    h = np.full(len(keys), _SEED, np.uint32)
    for i in range(int((lengths // 4).max(initial=0))):
        rows = np.flatnonzero(lengths // 4 > i)
        h[rows] = _mixed(h[rows], words[starts[rows] + 4 * i])
    for i in range(3):
        rows = np.flatnonzero(lengths % 4 > i)
        tail = data[starts[rows] + lengths[rows] // 4 * 4 + i].view(np.int8).astype(np.int32).view(np.uint32)
        h[rows] = _mixed(h[rows], tail)
    return _finished(h ^ lengths.astype(np.uint32))


def _mixed(h: np.ndarray, k: np.ndarray) -> np.ndarray:
    k = k * _C1
    k = ((k << np.uint32(15)) | (k >> np.uint32(17))) * _C2
    h = h ^ k
    h = (h << np.uint32(13)) | (h >> np.uint32(19))
    return h * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(h: np.ndarray) -> np.ndarray:
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))
