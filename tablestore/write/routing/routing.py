"""Which (partition, bucket) a row goes to (FORMAT.md 6.1, 6.2): a table's bucket mode, and slices of batches.

Fixed buckets, append tables without buckets and postponed ones need the row alone; dynamic buckets and
upserts across partitions (modules of their own) know where keys are, give the bucket to `cut`, and the index
files that say so. One stable sort by a small integer code. A large slice is gathered into memory of its own,
so that it can be freed once its bucket has written it; small ones share one gather, which may also bring rows
into key order. Batches of about 250,000 rows fit into the CPU cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.options.table_options import TableOptions
from tablestore.format import binary_row, hashing
from tablestore.format.manifests.index_manifest import IndexFileMeta
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataType
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.lsm.merge import keys as key_columns

DYNAMIC_BUCKET = -1


class BucketMode(StrEnum):
    """How rows find their bucket."""

    FIXED = "fixed"  # a function of the bucket key
    UNAWARE = "unaware"  # append tables with bucket = -1: one directory, no buckets
    DYNAMIC = "dynamic"  # hash index: a key stays where it first went
    CROSS_PARTITION = "cross-partition"  # the same, and a key may move to another partition
    POSTPONE = "postpone"  # rows wait until a compaction gives them buckets

    @classmethod
    def of(cls, schema: TableSchema, options: TableOptions) -> BucketMode:
        """The mode of a table."""
        if options.bucket == POSTPONE_BUCKET:
            return cls.POSTPONE
        if options.bucket != DYNAMIC_BUCKET:
            return cls.FIXED
        if not schema.primary_keys:
            return cls.UNAWARE
        return cls.DYNAMIC if key_is_global(schema) else cls.CROSS_PARTITION


def key_is_global(schema: TableSchema) -> bool:
    """Whether the primary key holds all partition columns, so that equal keys share their partition."""
    return set(schema.partition_keys) <= set(schema.primary_keys)


BATCH_ROWS = 262_144
_OWN_ROWS = 4096  # slices of at least so many rows get memory of their own
ARRIVAL = ""  # no column has this name. Of rows in key order: how many of their bucket were written before
UNAWARE_BUCKET = 0  # the directory of append tables without buckets
Slice = tuple[bytes, int, pa.RecordBatch]
NO_PARTITION = binary_row.encode([], [])


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of `batch` that fit into the CPU cache; none is empty."""
    for at in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(at, BATCH_ROWS)


def route(
    batch: pa.RecordBatch,
    schema: TableSchema,
    options: TableOptions,
    *,
    total: int | None = None,
    by_key: bool = False,
) -> Iterator[Slice]:
    """(partition, bucket, rows in their order) for each bucket the batch touches, by the bucket function over
    `total` buckets (None: the table's). `batch` may hold system columns too. `by_key`: in key order, with the
    column ARRIVAL, but for batches of one bucket."""
    if not batch.num_rows:
        return
    fields = schema.columns(schema.bucket_keys)
    keys = [batch.column(f.name) for f in fields]
    types = [f.type for f in fields]
    buckets = hashing.bucket_of(keys, types, total or options.bucket, options.bucket_function)
    partitions, codes = partitions_of(batch, schema)
    within = key_columns.codes(key_columns.of_batch(batch, schema.key_fields)) if by_key else None
    yield from cut(batch, partitions, codes, buckets, within=within)


def route_to(batch: pa.RecordBatch, schema: TableSchema, bucket: int) -> Iterator[Slice]:
    """(partition, `bucket`, rows in their order) for each partition the batch touches."""
    if not batch.num_rows:
        return
    partitions, codes = partitions_of(batch, schema)
    for partition, _, rows in cut(batch, partitions, codes, np.zeros(batch.num_rows, dtype=np.int32)):
        yield partition, bucket, rows


def cut(
    batch: pa.RecordBatch,
    partitions: Sequence[bytes],
    codes: np.ndarray,
    buckets: np.ndarray,
    *,
    within: np.ndarray | None = None,
) -> Iterator[Slice]:
    """A slice for each (partition, bucket): `codes` index `partitions`, `buckets` are not negative. Rows are
    in order of `within`, if that is given, and have ARRIVAL then."""
    total = int(buckets.max()) + 1
    groups = codes * np.int64(total) + buckets
    first = int(groups[0])
    if not (groups != first).any():
        yield partitions[first // total], first % total, batch
        return
    count = len(partitions) * total
    small = groups.astype(np.uint8 if count <= 256 else np.uint16) if count <= 65_536 else groups
    order = np.argsort(small, kind="stable")
    sorted_groups = groups[order]
    starts = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1]])
    ends = np.r_[starts[1:], len(order)]
    if within is not None:
        arrival = np.empty(len(order), dtype=np.int64)
        arrival[order] = np.arange(len(order)) - np.repeat(starts, ends - starts)
        batch = batch.append_column(ARRIVAL, pa.array(arrival))
        order = np.lexsort((within, small))
    places = pa.array(order)
    taken = batch.take(places) if len(starts) * _OWN_ROWS > len(order) else None
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        group = int(sorted_groups[start])
        own = places.slice(start, end - start)
        rows = batch.take(own) if taken is None else taken.slice(start, end - start)
        yield partitions[group // total], group % total, rows


def partitions_of(batch: pa.RecordBatch, schema: TableSchema) -> tuple[list[bytes], np.ndarray]:
    """The distinct partitions as serialized rows, and each row's index into them."""
    rows = batch.num_rows
    if not schema.partition_keys:
        return [NO_PARTITION], np.zeros(rows, dtype=np.int64)
    fields = schema.partition_fields
    columns = [batch.column(f.name) for f in fields]
    codes, distinct = np.zeros(rows, dtype=np.int64), 1
    for column in columns:
        own, size = _codes(column)
        codes, distinct = codes * size + own, distinct * size
        if distinct > 1 << 40:
            codes = np.unique(codes, return_inverse=True)[1]
            distinct = int(codes.max()) + 1
    if distinct <= max(4 * rows, 1024):  # few enough to count in an array
        seen = np.zeros(distinct, dtype=bool)
        seen[codes] = True
        there = np.flatnonzero(seen)
        dense = np.zeros(distinct, dtype=np.int64)
        dense[there] = np.arange(len(there))
        inverse = dense[codes]
        sample = np.zeros(len(there), dtype=np.int64)
        sample[inverse] = np.arange(rows)
    else:
        _, sample, inverse = np.unique(codes, return_index=True, return_inverse=True)
    rows_of = pa.array(sample)
    return binary_row.encode_many([c.take(rows_of) for c in columns], _types(schema)), inverse


def _types(schema: TableSchema) -> list[DataType]:
    return [f.type for f in schema.partition_fields]


def _codes(column: pa.Array) -> tuple[np.ndarray, int]:
    """(code of each row, number of codes) of one partition column; null is a code of its own."""
    if pa.types.is_integer(column.type) and not column.null_count and len(column):
        bounds = pc.min_max(column)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if high - low < 4096:
            return column.to_numpy(zero_copy_only=False).astype(np.int64) - low, high - low + 1
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), max(len(encoded.dictionary), 1)


Place = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The index file that says which keys a bucket holds, and the one it replaces."""

    new: tuple[IndexFileMeta, ...]
    deleted: tuple[IndexFileMeta, ...] = ()


class Routing(Protocol):
    """Assigns rows to buckets. `route` gives the slices of a batch, which may hold system columns, and may
    add rows (retractions); `prepare` the index files that changed, by bucket; `close` frees resources."""

    def route(self, batch: pa.RecordBatch) -> Iterator[Slice]: ...
    def prepare(self) -> Mapping[Place, IndexChange]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class StatelessRouting:
    """Routing by a function `cut` of the rows alone."""

    cut: Callable[[pa.RecordBatch], Iterator[Slice]]

    def route(self, batch: pa.RecordBatch) -> Iterator[Slice]:
        """The slices of a batch."""
        for piece in pieces(batch):
            yield from self.cut(piece)

    def prepare(self) -> Mapping[Place, IndexChange]:
        """Nothing: no index is kept."""
        return {}

    def close(self) -> None:
        """Nothing: there is no resource."""


def routing_of_rows(schema: TableSchema, options: TableOptions) -> StatelessRouting:
    """The routing of fixed buckets, of append tables without buckets, and of postponed ones."""
    if options.bucket > 0:
        return StatelessRouting(lambda batch: route(batch, schema, options))
    return routing_to(schema, POSTPONE_BUCKET if options.bucket == POSTPONE_BUCKET else UNAWARE_BUCKET)


def routing_to(schema: TableSchema, bucket: int) -> StatelessRouting:
    """The routing of rows that all belong to one bucket, each in its partition."""
    return StatelessRouting(lambda batch: route_to(batch, schema, bucket))
