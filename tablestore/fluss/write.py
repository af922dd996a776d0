"""Writing tables of a cluster: Arrow rows to log batches and to changes of keys.

A writer has an id of the cluster's and numbers its batches a bucket, so that a batch which is sent again
after a lost answer is there once. One batch of a bucket is under way at a time, those of other buckets with
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.core.errors import CommitUnknown, InvalidRequest, SchemaMismatch, Unavailable
from tablestore.fluss.admin import Admin
from tablestore.fluss.answers import partition_of
from tablestore.fluss.apis import INIT_WRITER, PRODUCE_LOG, PUT_KV, Api
from tablestore.fluss.cluster import Cluster, message_of
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.kv import compacted, encode_changes, require_compacted
from tablestore.fluss.log_records import BatchNumber, encode
from tablestore.fluss.messages import pb
from tablestore.fluss.routing import buckets_of, by_partition, key_bytes
from tablestore.fluss.tables import FlussTable, TableBucket

Seconds = float
_ALL_REPLICAS = -1
_PAUSE: Seconds = 0.1
_JAVA_READS = ("NONE", "ZSTD")


@dataclass(slots=True)
class _Batch:
    """Bytes of a batch of one bucket, made when its number is known."""

    bucket: TableBucket
    encoded: bytes


class TableWriter:
    """Writes rows to one table; each call returns when all servers that must have them do. Belongs to one
    thread.

    Partitions are made as rows need them. `batch_rows`: of a batch at most. `seconds`: how long rows are
    sent again to leaders that move, are gone or do not answer.
    """

    def __init__(
        self, cluster: Cluster, table: FlussTable, *, batch_rows: int = 32_768, seconds: Seconds = 60.0
    ) -> None:
        self._cluster, self._table = cluster, table
        self._batch_rows, self._seconds = batch_rows, seconds
        self._writer_id: int | None = None
        self._sequences: dict[TableBucket, int] = {}
        self._partitions: dict[tuple[str, ...], int | None] = {} if table.partition_keys else {(): None}
        self._next_bucket = 0
        compression = table.compression
        self._compression = compression if compression in _JAVA_READS else "NONE"

    def append(self, rows: pa.Table | pa.RecordBatch, *, bucket: int | None = None) -> None:
        """Append rows to a log table: to the buckets of their bucket keys; without such keys to `bucket`,
        or batch by batch to one after the other. Raises SchemaMismatch for rows that do not fit."""
        if self._table.primary_key:
            raise InvalidRequest(f"{self._table.path} has a primary key: upsert or delete")

        def made(target: TableBucket, some: pa.RecordBatch) -> bytes:
            return encode(
                some,
                schema_id=self._table.schema_id,
                compression=self._compression,
                number=self._number(target),
            )

        self._write(PRODUCE_LOG, rows, made, bucket)

    def upsert(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Insert rows of a keyed table, or put them in the place of those with their keys."""
        self._change(rows, deletes=False)

    def delete(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Delete the rows with the keys of these; only the columns of the primary key are looked at."""
        self._change(rows, deletes=True)

    def _change(self, rows: pa.Table | pa.RecordBatch, *, deletes: bool) -> None:
        if not self._table.primary_key:
            raise InvalidRequest(f"{self._table.path} has no primary key: append")
        require_compacted(self._table)

        def made(target: TableBucket, some: pa.RecordBatch) -> bytes:
            return encode_changes(
                key_bytes(self._table, some),
                None if deletes else compacted(self._table, some),
                schema_id=self._table.schema_id,
                number=self._number(target),
            )

        self._write(PUT_KV, rows, made, None, names=self._table.primary_key if deletes else None)

    # ---- rows to batches

    def _write(
        self,
        api: Api,
        rows: pa.Table | pa.RecordBatch,
        encoded: Callable[[TableBucket, pa.RecordBatch], bytes],
        bucket: int | None,
        names: tuple[str, ...] | None = None,
    ) -> None:
        """Cut rows into batches, send one of each bucket at a time."""
        queues: dict[TableBucket, list[pa.RecordBatch]] = {}
        strange = [name for name in rows.schema.names if name not in self._table.arrow_schema.names]
        if strange:
            raise SchemaMismatch(f"{self._table.path}: the table has no column {strange[0]!r}")
        for batch in _batches(rows, self._schema(names), str(self._table.path)):
            for place, some in self._routed(batch, bucket):
                queues.setdefault(place, []).append(some)
        while queues:
            for place in [place for place, queue in queues.items() if not queue]:
                del queues[place]
            now = [_Batch(place, encoded(place, queue.pop(0))) for place, queue in queues.items()]
            if now:
                self._send(api, now)

    def _schema(self, names: tuple[str, ...] | None) -> pa.Schema:
        schema = self._table.arrow_schema
        return schema if names is None else pa.schema([schema.field(name) for name in names])

    def _routed(
        self, rows: pa.RecordBatch, bucket: int | None
    ) -> Iterator[tuple[TableBucket, pa.RecordBatch]]:
        """The rows by bucket, in pieces of a batch."""
        buckets = buckets_of(self._table, rows)
        if buckets is not None and bucket is not None:
            raise InvalidRequest(f"{self._table.path}: the bucket keys say the bucket")
        for values, positions in by_partition(self._table, rows):
            partition_id = self._partition(values)
            if buckets is None:
                whole = len(positions) == rows.num_rows
                some = rows if whole else rows.take(pa.array(positions))
                for piece in self._pieces(some):
                    chosen = self._next_bucket if bucket is None else bucket
                    self._next_bucket = (self._next_bucket + 1) % self._table.buckets
                    yield TableBucket(self._table.table_id, partition_id, chosen), piece
                continue
            own = buckets[positions]
            order = positions[np.argsort(own, kind="stable")]
            bounds = np.searchsorted(np.sort(own), np.arange(self._table.buckets + 1))
            taken = rows.take(pa.array(order))
            for i in np.flatnonzero(np.diff(bounds)).tolist():
                place = TableBucket(self._table.table_id, partition_id, i)
                for piece in self._pieces(taken.slice(bounds[i], bounds[i + 1] - bounds[i])):
                    yield place, piece

    def _pieces(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for at in range(0, rows.num_rows, self._batch_rows):
            yield rows.slice(at, self._batch_rows)

    def _partition(self, values: tuple[str, ...]) -> int | None:
        """The id of a partition, which is made if there is none."""
        if values not in self._partitions:
            admin, path = Admin(self._cluster), self._table.path
            named = dict(zip(self._table.partition_keys, values, strict=True))
            admin.create_partition(path, named, ignore_if_exists=True)
            for partition in admin.partitions(path):
                key = tuple(partition.values[name] for name in self._table.partition_keys)
                self._partitions[key] = partition.partition_id
        return self._partitions[values]

    # ---- batches to servers

    def _id(self) -> int:
        """The writer's id, which the cluster gives it with its first batch."""
        if self._writer_id is None:
            request = pb.InitWriterRequest(table_paths=[message_of(self._table.path)])
            server = self._cluster.servers[0]
            self._writer_id = self._cluster.connection(server).call(INIT_WRITER, request).writer_id
        return self._writer_id

    def _number(self, bucket: TableBucket) -> BatchNumber:
        writer, sequence = self._id(), self._sequences.get(bucket, -1) + 1
        self._sequences[bucket] = sequence
        return BatchNumber(writer, sequence)

    def _send(self, api: Api, batches: list[_Batch]) -> None:
        """Send batches of different buckets until every one is there. Raises FlussError for what a server
        refuses, CommitUnknown where it is not known in time what is there."""
        left = {batch.bucket: batch for batch in batches}
        env, problem = self._cluster.env, "no answer"
        over = env.monotonic() + self._seconds
        while left:
            trouble: set[TableBucket] = set()
            pending = []
            try:
                for connection, buckets in self._cluster.by_leader(self._table, left).items():
                    try:
                        pending.append(
                            (buckets, connection.send(api, self._request(api, [left[b] for b in buckets])))
                        )
                    except Unavailable as e:
                        trouble.update(buckets)
                        problem = str(e)
            except (FlussError, Unavailable) as e:
                if isinstance(e, FlussError) and not e.retriable:
                    raise
                trouble.update(left)
                problem = str(e)
            for buckets, answer in pending:
                try:
                    acknowledged = answer.result().buckets
                except Unavailable as e:
                    trouble.update(buckets)
                    problem = str(e)
                    continue
                for listed in acknowledged:
                    bucket = TableBucket(self._table.table_id, partition_of(listed), listed.bucket_id)
                    if not listed.error_code or listed.error_code == ErrorCode.DUPLICATE_SEQUENCE:
                        left.pop(bucket, None)
                        continue
                    error = FlussError(
                        listed.error_code, listed.error_message, where=f"{self._table.path}: {bucket}"
                    )
                    if not error.retriable:
                        raise error
                    trouble.add(bucket)
                    problem = str(error)
                answered = {(partition_of(listed), listed.bucket_id) for listed in acknowledged}
                if silent := [b for b in buckets if (b.partition_id, b.bucket) not in answered]:
                    trouble.update(silent)
                    problem = f"an answer without {silent[0]}"
            if trouble & left.keys():
                if env.monotonic() + _PAUSE >= over:
                    raise CommitUnknown(
                        f"{self._table.path}: rows of {len(left)} buckets may be there or not: {problem}"
                    )
                self._cluster.forget(trouble)
                env.sleep(_PAUSE)

    def _request(self, api: Api, batches: list[_Batch]) -> Any:
        records = [
            pb.RecordsForBucket(
                partition_id=each.bucket.partition_id, bucket_id=each.bucket.bucket, records=each.encoded
            )
            for each in batches
        ]
        return api.request(
            acks=_ALL_REPLICAS,
            table_id=self._table.table_id,
            timeout_ms=int(1000 * self._cluster.timeout),
            buckets=records,
        )

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held back, so there is nothing to do."""


def _batches(rows: pa.Table | pa.RecordBatch, schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
    """The rows with these columns, in this order and these types."""
    missing = [name for name in schema.names if name not in rows.schema.names]
    if missing:
        raise SchemaMismatch(f"{where}: rows without the column {missing[0]!r}")
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    try:
        fitting = table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as e:
        raise SchemaMismatch(f"{where}: {e}") from e
    yield from fitting.combine_chunks().to_batches()
