"""Routing by the table's bucket mode: a `Routing` cuts batches into (partition, bucket) slices.

Fixed buckets, append tables without buckets and postponed ones need the row alone; dynamic buckets and
upserts across partitions (modules of their own) know where keys are and give the index files that say so.
Belongs to one writer; made by `TableWrite`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tablestore.core.options.table_options import TableOptions
from tablestore.format.manifests.index_manifest import IndexFileMeta
from tablestore.format.schema import TableSchema
from tablestore.io.paths import POSTPONE_BUCKET
from tablestore.write.routing import row_buckets
from tablestore.write.routing.row_buckets import Slice

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
        for piece in row_buckets.pieces(batch):
            yield from self.cut(piece)

    def prepare(self) -> Mapping[Place, IndexChange]:
        """Nothing: no index is kept."""
        return {}

    def close(self) -> None:
        """Nothing: there is no resource."""


def routing_of_rows(schema: TableSchema, options: TableOptions) -> StatelessRouting:
    """The routing of fixed buckets, of append tables without buckets, and of postponed ones."""
    if options.bucket > 0:
        return StatelessRouting(lambda batch: row_buckets.route(batch, schema, options))
    return routing_to(
        schema, POSTPONE_BUCKET if options.bucket == POSTPONE_BUCKET else row_buckets.UNAWARE_BUCKET
    )


def routing_to(schema: TableSchema, bucket: int) -> StatelessRouting:
    """The routing of rows that all belong to one bucket, each in its partition."""
    return StatelessRouting(lambda batch: row_buckets.route_to(batch, schema, bucket))
