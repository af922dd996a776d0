"""Keyed tables: rows of a snapshot, rows of keys, and batches of changes.

snapshot   files of RocksDB; a value is int16 schema id, little-endian | compacted row
changes    int32 length of what follows | int8 magic 0 | uint32 CRC-32C of what follows it | int16 schema id
           | int8 0 | int64 writer id | int32 batch sequence | int32 changes
           | each: int32 length of what follows | varint key length | key | compacted row, none: a delete

Leases, from Fluss 0.9 on: the cluster keeps what is under one, though it has newer snapshots. Without a lease
it keeps the newest few alone, by default one. A lease has a name that its holder makes. It ends when it is
dropped, when all its buckets are released, or by itself after its time, at the cluster's next look
(`kv.snapshot.lease.expiration-check-interval`, 10 minutes). Fluss 0.9 gives a lease of a snapshot that is
gone, too: only reading shows that it is.
"""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, TablestoreError, Unavailable, Unsupported, brief
from tablestore.core.extras import required
from tablestore.fluss import answers, apis
from tablestore.fluss.admin import Admin
from tablestore.fluss.answers import partition_of, require, same
from tablestore.fluss.apis import LOOKUP
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.compacted_rows import decode_rows, encode_rows, fixed_array, joined, varints
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.log_records import NO_NUMBER, BatchNumber
from tablestore.fluss.messages import pb
from tablestore.fluss.remote_files import KEYS, bucket_files
from tablestore.fluss.routing import buckets_of, by_partition, key_bytes, types_of
from tablestore.fluss.schemas import TableSchemas, fitted
from tablestore.fluss.tables import FlussTable, KvSnapshot, KvSnapshotFiles, TableBucket
from tablestore.io.fileio import FileIO, LocalFileIO
from tablestore.io.paths import join
from tablestore.io.scratch import scratch_folder, scratch_room

log = logging.getLogger(__name__)
Milliseconds = int
LEASE_MS: Milliseconds = 24 * 3600 * 1000
"""How long snapshots stay when their reader is killed: as long as with Fluss's own connector."""


@contextmanager
def leased(cluster: Cluster, snapshots: Iterable[KvSnapshot]) -> Iterator[None]:
    """A context in which the cluster keeps these snapshots; an older cluster than 0.9 has no leases.

    Raises FlussError 41 where one is gone already: plan again.
    """
    wanted = list(snapshots)
    served = cluster.coordinator().keys() if wanted else frozenset()
    if apis.ACQUIRE_KV_SNAPSHOT_LEASE.key not in served:
        yield
        return
    lease_id = cluster.env.uuid()
    try:
        gone = acquire_lease(cluster, lease_id, wanted)
        if gone:
            text = f"the cluster has no {', '.join(map(str, gone[:5]))} any more"
            raise FlussError(ErrorCode.KV_SNAPSHOT_NOT_EXIST, text)
        yield
    finally:
        try:
            drop_lease(cluster, lease_id)
        except (TablestoreError, OSError) as e:
            log.warning("lease %s of snapshots ends by itself in a day: %s", lease_id, brief(e))


def acquire_lease(
    cluster: Cluster, lease_id: str, snapshots: Iterable[KvSnapshot], duration_ms: Milliseconds = LEASE_MS
) -> list[TableBucket]:
    """Take snapshots into a lease, which ends `duration_ms` from now; of a bucket it holds one, the last.

    Returns the buckets whose snapshots are not there. Raises FlussError 7 for a table that is not there, 20
    for one without a primary key.
    """
    request = pb.AcquireKvSnapshotLeaseRequest(lease_id=lease_id, lease_duration_ms=duration_ms)
    tables: dict[int, pb.LeasedSnapshots] = {}
    for snapshot in snapshots:
        bucket = snapshot.bucket
        if bucket.table_id not in tables:
            tables[bucket.table_id] = request.tables.add(table_id=bucket.table_id)
        tables[bucket.table_id].buckets.add(
            partition_id=bucket.partition_id, bucket_id=bucket.bucket, snapshot_id=snapshot.snapshot_id
        )
    answer = cluster.call(apis.ACQUIRE_KV_SNAPSHOT_LEASE, request)
    return [
        TableBucket(table.table_id, answers.partition_of(bucket), bucket.bucket_id)
        for table in answer.unavailable
        for bucket in table.buckets
    ]


def release_lease(cluster: Cluster, lease_id: str, buckets: Iterable[TableBucket]) -> None:
    """Take buckets out of a lease; one that is gone is fine. Raises FlussError as `acquire_lease`."""
    request = pb.ReleaseKvSnapshotLeaseRequest(lease_id=lease_id)
    for bucket in buckets:
        request.buckets.add(
            table_id=bucket.table_id, partition_id=bucket.partition_id, bucket_id=bucket.bucket
        )
    cluster.call(apis.RELEASE_KV_SNAPSHOT_LEASE, request)


def drop_lease(cluster: Cluster, lease_id: str) -> None:
    """End a lease; one that is gone is fine."""
    cluster.call(apis.DROP_KV_SNAPSHOT_LEASE, pb.DropKvSnapshotLeaseRequest(lease_id=lease_id))


_USER = "a keyed table of Fluss"
_SCHEMA_ID = 2  # bytes of it before a row
_COPIED_BYTES = 16 << 20  # at once
_LOOKUP_KEYS = 10_000  # of a call
_COMPACTED = "compacted"
_NAME = re.compile(r"CURRENT|IDENTITY|(MANIFEST|OPTIONS)-\d{1,20}|\d{1,20}\.(sst|log|blob)")
"""Files of RocksDB: what else lies in its folder would be taken for a part of the store, or its settings."""


def require_compacted(table: FlussTable) -> None:
    """Raise Unsupported for a keyed table whose rows are stored in another form."""
    kv_format = table.properties.get("table.kv.format", _COMPACTED).lower()
    if kv_format != _COMPACTED:
        raise Unsupported(f"rows of the format {kv_format}", f"{table.path}: table.kv.format")


def snapshot_rows(
    cluster: Cluster,
    table: FlussTable,
    snapshot: KvSnapshot | KvSnapshotFiles,
    *,
    columns: Sequence[str] | None = None,
    batch_rows: int = 65_536,
    io: FileIO | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a bucket just before the snapshot's `log_offset`, in the order of their keys' bytes.

    Its files are copied to a directory of this machine, which goes with the last row. `columns`: those
    wanted, in this order. `io` reads the files; by default that of their place. Raises FlussError 41 where a
    newer snapshot has taken its place, FileNotFoundError where its files go while they are read: plan again
    (under a lease neither comes); Corrupt for files that are none of RocksDB's or lie where
    no snapshot of the bucket does, Unavailable where this machine has no room for them.
    """
    require_compacted(table)
    files = Admin(cluster).kv_snapshot_files(snapshot) if isinstance(snapshot, KvSnapshot) else snapshot
    where = f"{table.path}: {files.snapshot.bucket} snapshot {files.snapshot.snapshot_id}"
    reader = ValueReader(cluster, table, columns)
    rocksdict = required("rocksdict", by=_USER)
    folder, disk = scratch_folder(reader), LocalFileIO()
    try:
        _download(files, table, folder, disk, io)
        with _of_rocksdb(where):
            options = rocksdict.Options(raw_mode=True)
            store = rocksdict.Rdict(folder, options, access_type=rocksdict.AccessType.read_only())
        try:
            values = store.values()
            while batch := _next(values, batch_rows, where):
                yield reader.rows(pa.array(batch, pa.binary()), where)
        finally:
            store.close()
    finally:
        disk.delete_tree(folder)


def _next(values: Iterator[bytes], rows: int, where: str) -> list[bytes]:
    with _of_rocksdb(where):
        return list(islice(values, rows))


@contextmanager
def _of_rocksdb(where: str) -> Iterator[None]:
    """A context that raises Corrupt for what RocksDB says of damaged files, which is a plain Exception."""
    try:
        yield
    except Exception as e:
        raise Corrupt(where, f"RocksDB cannot read it: {brief(e)}") from e


def _download(
    files: KvSnapshotFiles, table: FlussTable, folder: str, disk: LocalFileIO, io: FileIO | None
) -> None:
    """Copy the files of a snapshot into a folder. All is looked at before the first byte is read."""
    bucket, wanted, total = files.snapshot.bucket, [], 0
    for remote, name in files.files:
        where = f"{table.path}: {bucket}"
        require(_NAME.fullmatch(name), where, f"{name[:100]!r} is no name of a file of a snapshot")
        path, source = bucket_files(KEYS, remote, table, bucket, io=io)
        size = source.size(path)
        wanted.append((source, path, size, join(folder, name)))
        total += size
    room = scratch_room(folder)
    if total > room:
        raise Unavailable(
            f"{table.path}: {bucket}: its snapshot has {total:,} bytes, and {folder} has room for {room:,}: "
            "free some, or set TMPDIR to a folder on a larger disk"
        )
    for source, path, size, target in wanted:
        _copy(source, path, size, disk, target)


def _copy(source: FileIO, path: str, size: int, disk: FileIO, target: str) -> None:
    """Copy a file that had `size` bytes when it was looked at: Fluss never changes one."""
    copied = 0
    with source.open_input(path) as read, disk.open_output(target) as write:
        while data := read.read(_COPIED_BYTES):
            copied += len(data)
            require(copied <= size, path, f"it had {size} bytes, and has more now")
            write.write(data)


class ValueReader:
    """Stored values of a keyed table to rows with the columns that are wanted."""

    def __init__(self, cluster: Cluster, table: FlussTable, columns: Sequence[str] | None = None) -> None:
        self._schemas, self._newest = TableSchemas(cluster, table), table.schema_id
        schema = table.arrow_schema
        self._schema = schema if columns is None else pa.schema([schema.field(name) for name in columns])

    def rows(self, values: pa.Array, where: str) -> pa.RecordBatch:
        """The rows of values (binary). Rows of an older schema come behind those of the newest."""
        ids = pc.binary_slice(values, 0, _SCHEMA_ID).dictionary_encode()
        parts = []
        for code, stored in enumerate(ids.dictionary.to_pylist()):  # one of each schema
            if len(stored) < _SCHEMA_ID:
                raise Corrupt(where, f"a value of {len(stored)} bytes")
            those = values if len(ids.dictionary) == 1 else values.filter(pc.equal(ids.indices, code))
            schema_id = int.from_bytes(stored, "little", signed=True)
            types = [column.type for column in self._schemas.columns(schema_id)]
            schema = self._schemas.arrow_schema(schema_id)
            try:
                decoded = decode_rows(those, schema, types, skip=_SCHEMA_ID, where=where)
            except (pa.ArrowException, IndexError, OverflowError) as e:  # a length beyond its row
                raise Corrupt(where, f"rows that are no compacted ones: {brief(e)}") from e
            parts.append((schema_id, fitted(decoded, self._schema)))
        parts.sort(key=lambda part: -part[0])
        if len(parts) == 1:
            return parts[0][1]
        whole = pa.Table.from_batches([rows for _, rows in parts], self._schema).combine_chunks()
        batches = whole.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], self._schema)


def encode_changes(
    keys: pa.Array,
    rows: pa.Array | None,
    *,
    schema_id: int,
    number: BatchNumber = NO_NUMBER,
) -> bytes:
    """A batch of upserts of compacted rows (binary), or without `rows` of deletes, of these keys (binary)."""
    lengths = pc.binary_length(keys).to_numpy(zero_copy_only=False)
    head = varints(lengths.astype(np.uint64))
    pieces = [head, keys, *([] if rows is None else [rows])]
    sizes = sum(pc.binary_length(piece).to_numpy(zero_copy_only=False).astype(np.int64) for piece in pieces)
    records = joined([fixed_array(np.asarray(sizes, np.int32)), *pieces])
    body = memoryview(records.buffers()[2])[
        : int(np.frombuffer(records.buffers()[1], np.int32)[len(records)])
    ]
    tail = struct.pack("<hbqii", schema_id, 0, *number, len(records)) + bytes(body)
    crc = required("google_crc32c", by=_USER).value(tail)
    return struct.pack("<ibI", 5 + len(tail), 0, crc) + tail


def compacted(table: FlussTable, rows: pa.RecordBatch) -> pa.Array:
    """The compacted rows (binary) of rows with all columns of the table."""
    return encode_rows(rows.columns, types_of(table, rows.schema.names))


def lookup(cluster: Cluster, table: FlussTable, keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
    """Which keys there are (boolean, in their order), and their rows in the order of the keys. `keys` has
    the columns of the primary key, partition keys among them. Waits for leaders that move."""
    require_compacted(table)
    reader = ValueReader(cluster, table)
    partitions: dict[tuple[str, ...], int | None] = {(): None}
    if table.partition_keys:
        partitions = {tuple(p.values.values()): p.partition_id for p in Admin(cluster).partitions(table.path)}
    by_row: list[Any] = [None] * keys.num_rows
    buckets, encoded = buckets_of(table, keys), key_bytes(table, keys)
    assert buckets is not None, "a keyed table has bucket keys"
    for values, positions in by_partition(table, keys):
        if values not in partitions:
            continue
        for bucket in np.unique(buckets[positions]).tolist():
            own = positions[buckets[positions] == bucket]
            place = TableBucket(table.table_id, partitions[values], bucket)
            for at in range(0, len(own), _LOOKUP_KEYS):
                some = own[at : at + _LOOKUP_KEYS]
                answer = _looked_up(cluster, table, place, encoded.take(pa.array(some)).to_pylist())
                for row, value in zip(some.tolist(), answer, strict=True):
                    by_row[row] = value.value if value.HasField("value") else None
    stored = pa.array(by_row, pa.binary())
    rows = pa.RecordBatch.from_pylist([], table.arrow_schema)
    if stored.null_count < len(stored):
        rows = reader.rows(stored.drop_null(), str(table.path))
    return stored.is_valid(), rows


def _looked_up(cluster: Cluster, table: FlussTable, bucket: TableBucket, keys: list[bytes]) -> Any:
    asked = pb.KeysForBucket(partition_id=bucket.partition_id, bucket_id=bucket.bucket, keys=keys)
    request = pb.LookupRequest(table_id=table.table_id, buckets=[asked])

    def ask() -> Any:
        buckets, where = (
            cluster.leader(table, bucket).call(LOOKUP, request).buckets,
            f"{table.path}: {bucket}",
        )
        require(len(buckets) == 1, where, f"an answer for {len(buckets)} buckets")
        if buckets[0].error_code:
            raise FlussError(buckets[0].error_code, buckets[0].error_message, where=where)
        same(
            (partition_of(buckets[0]), buckets[0].bucket_id),
            (bucket.partition_id, bucket.bucket),
            "bucket",
            where,
        )
        same(len(buckets[0].values), len(keys), "keys", where)
        return buckets[0].values

    return cluster.retried(ask, [bucket])
