"""FlussTieringCluster: a Fluss, or our own coordinator, which speaks the same protocol, as rounds need it.

Values of the client (`tablestore.fluss`) become those of `cluster.py`. Picklable: a task of an engine opens
connections of its own, once a process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from tablestore.core.errors import NotFound, Unavailable, Unsupported
from tablestore.fluss import apis
from tablestore.fluss.admin import EARLIEST, LATEST, Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.heartbeat import (
    HeartbeatRequest,
    HeartbeatResponse,
    TieringTable,
)
from tablestore.fluss.kv import leased, snapshot_rows
from tablestore.fluss.log_scan import LogScan, batches_before
from tablestore.fluss.remote_files import lake_file
from tablestore.fluss.scan_state import LogOffsetExpired, LogRewritten, LogStalled, ScanBatch
from tablestore.fluss.tables import (
    FlussTable,
    KvSnapshot,
    PartitionInfo,
    TablePath,
)
from tablestore.fluss.tables import TableBucket as FlussBucket
from tablestore.format.types.data_type import DataField
from tablestore.tiering.cluster import ClusterLakeSnapshot, ClusterTable, ReadStep, RowBatch
from tablestore.tiering.lake_offsets import parse_offsets_file
from tablestore.tiering.splits import (
    BucketBounds,
    Marks,
    Offsets,
    SplitSnapshot,
    TieredBucket,
    TieringSnapshotSplit,
    TieringSplit,
)

_GONE = {
    ErrorCode.TABLE_NOT_EXIST,
    ErrorCode.DATABASE_NOT_EXIST,
    ErrorCode.PARTITION_NOT_EXISTS,
    ErrorCode.KV_SNAPSHOT_NOT_EXIST,
}
_LOOK_SECONDS = 2.0  # a bucket that gives nothing for so long may be of a partition that was dropped
_opened_lock = threading.Lock()
_opened: dict[tuple[str, float, float], FlussTieringCluster] = {}


class FlussTieringCluster:
    """The cluster at `address`, host:port of any of its servers, several with commas between them. `timeout`
    is for each call, `stall_seconds` how long a bucket may give nothing though it should. Safe to share."""

    def __init__(self, address: str, *, timeout: float = 30.0, stall_seconds: float = 60.0) -> None:
        self.address, self._timeout, self._stall_seconds = address, timeout, stall_seconds
        self._client = Cluster(address, timeout=timeout)
        self.servers = self._client.addresses
        self._admin = Admin(self._client)
        self._tables: dict[int, FlussTable] = {}

    def __reduce__(self) -> Any:
        return opened, (self.address, self._timeout, self._stall_seconds)

    def __str__(self) -> str:
        return str(self._client)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def require_tiering(self, *, coordinated: bool) -> None:
        """Raise Unavailable if nobody answers or the cluster is still starting, Unsupported where it has no
        coordinator of tiering and one is to be asked."""
        try:
            served = self._client.coordinator().keys()
            if coordinated and apis.LAKE_TIERING_HEARTBEAT.key not in served:
                version = ".".join(map(str, self._client.version))
                raise Unsupported(
                    f"tiering by heartbeats with Fluss {version}", "it begins with 0.7: use follow=False"
                )
            self._client.require_servers()
        except FlussError as e:
            if e.retriable:
                raise Unavailable(f"{self} is still starting: {e}") from e
            raise

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """The coordinator's answer."""
        return self._admin.heartbeat(request)

    def lake_tables(self) -> Sequence[TieringTable]:
        """Every table of the cluster with `table.datalake.enabled`."""
        tables = []
        for database in self._admin.databases():
            for path in self._admin.tables(database):
                with suppress(FlussError):  # dropped meanwhile
                    table = self._admin.table(path)
                    if table.lake_enabled:
                        tables.append(TieringTable(table.table_id, str(path), 0))
        return tables

    def table(self, table_path: str) -> ClusterTable:
        """A table as it is now; raises NotFound."""
        with _not_found():
            described = self._admin.table(TablePath.parse(table_path))
        self._tables[described.table_id] = described
        fields = (
            DataField(i, column.name, column.type, column.comment)
            for i, column in enumerate(described.columns)
        )
        return ClusterTable(
            table_path,
            described.table_id,
            tuple(fields),
            described.buckets,
            described.primary_key,
            described.partition_keys,
            described.bucket_keys,
            {**described.properties, **described.descriptor.custom_properties},
            described.descriptor.comment,
        )

    def _known(self, table: ClusterTable) -> FlussTable:
        if table.table_id not in self._tables:
            now = self.table(table.path)
            if now.table_id != table.table_id:
                raise NotFound(f"{table.path} has id {now.table_id} now, not {table.table_id}")
        return self._tables[table.table_id]

    def partitions(self, table_path: str) -> Mapping[int, str]:
        """Names of the partitions by id."""
        with _not_found():
            partitions = self._admin.partitions(TablePath.parse(table_path))
        return {partition.partition_id: partition.name for partition in partitions}

    def bounds(
        self, table: ClusterTable, partition_ids: Sequence[int | None]
    ) -> Mapping[TieredBucket, BucketBounds]:
        """The bounds of the log of each bucket."""
        described = self._known(table)
        buckets = [
            FlussBucket(table.table_id, id, bucket)
            for id in partition_ids
            for bucket in range(described.buckets)
        ]
        with _not_found():
            latest = self._admin.offsets(described, buckets, LATEST)
            earliest = self._admin.offsets(described, buckets, EARLIEST)
        return {_place(b): BucketBounds(min(earliest[b], latest[b]), latest[b]) for b in buckets}

    def kv_snapshots(
        self, table: ClusterTable, partition_id: int | None, partition_name: str | None
    ) -> Mapping[int, SplitSnapshot]:
        """The newest snapshot of keys of each bucket that has one."""
        partition = None
        if partition_id is not None and partition_name is not None:
            values = dict(zip(table.partition_keys, partition_name.split("$"), strict=False))
            partition = PartitionInfo(partition_id, values)
        with _not_found():
            snapshots = self._admin.kv_snapshots(self._known(table), partition)
        return {
            bucket: SplitSnapshot(snapshot.snapshot_id, snapshot.log_offset)
            for bucket, snapshot in snapshots.items()
        }

    @contextmanager
    def snapshots_kept(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[None]:
        """A context in which a cluster of 0.9 keeps the snapshots of keys that these splits read."""
        snapshots = [_snapshot(split) for split in splits if isinstance(split, TieringSnapshotSplit)]
        with _not_found(), leased(self._client, snapshots):
            yield

    def leader_epochs(
        self, table: ClusterTable, places: Iterable[TieredBucket]
    ) -> Mapping[TieredBucket, int]:
        """The number of the leader of each bucket."""
        buckets = [FlussBucket(table.table_id, *place) for place in places]
        with _not_found():
            epochs = self._client.leader_epochs(self._known(table), buckets)
        return {_place(bucket): epoch for bucket, epoch in epochs.items()}

    def batches_before(self, table: ClusterTable, offsets: Offsets) -> Marks:
        """The batch that holds the row before each offset."""
        buckets = _buckets(table, offsets)
        described, seconds = self._known(table), self._stall_seconds
        with _read_errors(table):
            batches = batches_before(self._client, described, buckets, stall_seconds=seconds)
        return {_place(bucket): mark for bucket, mark in batches.items()}

    def lake_snapshot(self, table_path: str) -> ClusterLakeSnapshot | None:
        """The newest lake snapshot that the cluster knows."""
        with _not_found():
            snapshot = self._admin.lake_snapshot(TablePath.parse(table_path))
        if snapshot is None:
            return None
        return ClusterLakeSnapshot(
            snapshot.snapshot_id, {_place(b): at for b, at in snapshot.offsets.items()}
        )

    def prepare_lake_snapshot(self, table: ClusterTable, offsets: Offsets) -> str | None:
        """Where a cluster of 0.9 keeps the offsets; None of an older one."""
        return self._admin.prepare_lake_snapshot(self._known(table), _buckets(table, offsets))

    def prepared_offsets(self, table: ClusterTable, path: str) -> Offsets:
        """The offsets in a file of the cluster."""
        place, io = lake_file(path, self._known(table))
        try:
            return parse_offsets_file(io.read(place), place)
        except FileNotFoundError as e:
            raise NotFound(f"{place} is gone") from e

    def commit_lake_snapshot(
        self,
        table: ClusterTable,
        snapshot_id: int,
        offsets: Offsets,
        *,
        prepared: str | None = None,
        readable: bool = False,
    ) -> None:
        """Register what the lake holds."""
        self._admin.commit_lake_snapshot(
            self._known(table),
            snapshot_id,
            _buckets(table, offsets),
            prepared=prepared,
            readable=prepared if readable else None,
        )

    def read_log(self, table: ClusterTable, splits: Sequence[TieringSplit]) -> Iterator[ReadStep]:
        """The rows of the logs, all read at once. A bucket that gives nothing is looked for: its partition
        may have been dropped."""
        places = {FlussBucket(table.table_id, *split.table_bucket): split for split in splits}
        start = {bucket: split.log_start for bucket, split in places.items()}
        stop = {bucket: split.stop for bucket, split in places.items()}
        last = {bucket: split.last for bucket, split in places.items() if split.last is not None}
        env = self._client.env
        with LogScan(
            self._client, self._known(table), start, stop, stall_seconds=self._stall_seconds, last=last
        ) as scan:
            moved = env.monotonic()
            while not scan.done:
                refused: FlussError | None = None
                try:
                    with _read_errors(table):
                        polled = scan.poll(_LOOK_SECONDS)
                except FlussError as e:
                    if e.code != ErrorCode.PARTITION_NOT_EXISTS:
                        raise
                    polled, refused = [], e
                for batch in polled:
                    yield _step(batch, marked=self._known(table).keeps_batches)
                now = env.monotonic()
                if polled:
                    moved = now
                elif refused or (now - moved > _LOOK_SECONDS and table.partition_keys):
                    moved = now
                    there = self.partitions(table.path)
                    gone = [b for b in places if b.partition_id not in there]
                    if refused and not gone:
                        raise refused
                    for bucket in gone:
                        del places[bucket]
                        scan.drop(bucket)
                        yield ReadStep(_place(bucket), None, 0, gone=True)

    def read_snapshot(self, table: ClusterTable, split: TieringSnapshotSplit) -> Iterator[pa.RecordBatch]:
        """The rows of a snapshot of keys; raises NotFound if a newer one has replaced it."""
        with _not_found():
            yield from snapshot_rows(self._client, self._known(table), _snapshot(split))


def opened(address: str, timeout: float = 30.0, stall_seconds: float = 60.0) -> FlussTieringCluster:
    """The cluster at an address, opened once in this process."""
    key = address, timeout, stall_seconds
    with _opened_lock:
        if key not in _opened:
            _opened[key] = FlussTieringCluster(address, timeout=timeout, stall_seconds=stall_seconds)
        return _opened[key]


@contextmanager
def _not_found() -> Iterator[None]:
    """A context that raises NotFound for what is not in the cluster."""
    try:
        yield
    except FlussError as e:
        if e.code in _GONE:
            raise NotFound(str(e)) from e
        raise


@contextmanager
def _read_errors(table: ClusterTable) -> Iterator[None]:
    """A context that says of errors of a scan what they mean for a round."""
    try:
        yield
    except LogStalled as e:
        raise Unavailable(f"{table.path}: {_place(e.bucket)} stalls: {e}") from e
    except (LogOffsetExpired, LogRewritten) as e:
        raise NotFound(f"ROWS ARE LOST: {e}") from e


def _buckets(table: ClusterTable, offsets: Offsets) -> dict[FlussBucket, int]:
    return {FlussBucket(table.table_id, *place): offset for place, offset in offsets.items()}


def _snapshot(split: TieringSnapshotSplit) -> KvSnapshot:
    bucket = FlussBucket(split.table_id, split.partition_id, split.bucket)
    return KvSnapshot(bucket, split.snapshot_id, split.log_offset)


def _place(bucket: FlussBucket) -> TieredBucket:
    return TieredBucket(bucket.partition_id, bucket.bucket)


def _step(batch: ScanBatch, *, marked: bool) -> ReadStep:
    rows = None
    if batch.rows.num_rows:
        kinds = None if batch.kinds is None else pa.array(batch.kinds, pa.int8())
        rows = RowBatch(batch.rows, kinds, batch.base, batch.timestamp_ms)
    return ReadStep(_place(batch.bucket), rows, batch.end, mark=batch.mark if marked else None)
