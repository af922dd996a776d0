"""What a cluster knows, and its verbs: databases, tables, partitions, offsets, snapshots, heartbeats.

Every verb is one call or one call a server, and returns frozen values. A refusal is a FlussError, an answer
that does not fit its question is Corrupt (`answers.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tablestore.core.errors import Unsupported
from tablestore.fluss import answers, apis
from tablestore.fluss.cluster import MOVED, Cluster, message_of
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.heartbeat import (
    HeartbeatRequest,
    HeartbeatResponse,
    TableEpoch,
    TableResponse,
    TieringTable,
)
from tablestore.fluss.messages import pb
from tablestore.fluss.tables import (
    MOST_BUCKETS,
    FlussColumn,
    FlussTable,
    KvSnapshot,
    KvSnapshotFiles,
    LakeSnapshot,
    PartitionInfo,
    TableBucket,
    TableDescriptor,
    TablePath,
    columns_of_schema,
)

Milliseconds = int
EARLIEST, LATEST = "earliest", "latest"
_OF_TIMESTAMP = 2
_A_CLIENT = -1
_NOTHING = HeartbeatRequest()


class Admin:
    """The verbs over one cluster. Safe to share between threads."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    # ---- databases

    def databases(self) -> list[str]:
        """The names of all databases."""
        databases = self._ask(apis.LIST_DATABASES).database_names
        return sorted(answers.name_of(name, "database", str(self.cluster)) for name in databases)

    def create_database(self, name: str, *, ignore_if_exists: bool = False, comment: str = "") -> None:
        """Make a database. Raises FlussError 6 if it is there."""
        described = {"version": 1, **({"comment": comment} if comment else {}), "custom_properties": {}}
        self._ask(
            apis.CREATE_DATABASE,
            database_name=name,
            ignore_if_exists=ignore_if_exists,
            database_json=json.dumps(described).encode(),
        )

    def drop_database(self, name: str, *, ignore_if_not_exists: bool = False, cascade: bool = False) -> None:
        """Remove a database; with `cascade` also its tables. Raises FlussError 4 if there is none, 5 if it
        has tables."""
        self._ask(
            apis.DROP_DATABASE,
            database_name=name,
            ignore_if_not_exists=ignore_if_not_exists,
            cascade=cascade,
        )

    # ---- tables

    def tables(self, database: str) -> list[TablePath]:
        """The tables of a database. Raises FlussError 4 if there is none."""
        tables = self._ask(apis.LIST_TABLES, database_name=database).table_names
        where = f"{self.cluster} database {database}"
        return [TablePath(database, answers.name_of(name, "table", where)) for name in sorted(tables)]

    def create_table(
        self, path: TablePath, descriptor: TableDescriptor, *, ignore_if_exists: bool = False
    ) -> FlussTable:
        """Make a table and return it. Its buckets may be without leaders for a moment; every reader and
        writer here waits for them."""
        self._ask(
            apis.CREATE_TABLE,
            table_path=message_of(path),
            table_json=descriptor.to_json(),
            ignore_if_exists=ignore_if_exists,
        )
        return self.table(path)

    def drop_table(self, path: TablePath, *, ignore_if_not_exists: bool = False) -> None:
        """Remove a table. Raises FlussError 7 if there is none."""
        self._ask(apis.DROP_TABLE, table_path=message_of(path), ignore_if_not_exists=ignore_if_not_exists)

    def table(self, path: TablePath) -> FlussTable:
        """The table as it is now. Raises FlussError 7 if there is none."""
        info = self._ask(apis.GET_TABLE_INFO, table_path=message_of(path))
        return FlussTable(
            path,
            info.table_id,
            info.schema_id,
            TableDescriptor.from_json(info.table_json, str(path)),
            info.created_ms,
            info.modified_ms,
        )

    def table_exists(self, path: TablePath) -> bool:
        """Whether there is such a table."""
        return bool(self._ask(apis.TABLE_EXISTS, table_path=message_of(path)).exists)

    def columns(self, path: TablePath, schema_id: int | None = None) -> tuple[FlussColumn, ...]:
        """The columns under a schema of the table, by default the newest. Raises FlussError 9 if there is
        none."""
        answer = self._ask(apis.GET_TABLE_SCHEMA, table_path=message_of(path), schema_id=schema_id)
        where = f"{path} schema {answer.schema_id}"
        if schema_id is not None:
            answers.same(answer.schema_id, schema_id, "schema", where)
        return columns_of_schema(answer.schema_json, where)

    # ---- partitions

    def partitions(self, path: TablePath) -> tuple[PartitionInfo, ...]:
        """The partitions by id, in the order in which they were made. Raises FlussError 37 for a table
        without."""
        partitions = self._ask(apis.LIST_PARTITION_INFOS, table_path=message_of(path)).partitions
        answers.unique([info.partition_id for info in partitions], "partition", str(path))
        listed = (
            PartitionInfo(info.partition_id, answers.values_of(info.partition_spec, str(path)))
            for info in partitions
        )
        return tuple(sorted(listed, key=lambda info: info.partition_id))

    def create_partition(
        self, path: TablePath, values: Mapping[str, str], *, ignore_if_exists: bool = False
    ) -> None:
        """Make a partition. Raises FlussError 42 if it is there."""
        self._ask(
            apis.CREATE_PARTITION,
            table_path=message_of(path),
            partition_spec=_spec(values),
            ignore_if_exists=ignore_if_exists,
        )

    def drop_partition(
        self, path: TablePath, values: Mapping[str, str], *, ignore_if_not_exists: bool = False
    ) -> None:
        """Remove a partition with its rows. Raises FlussError 36 if there is none."""
        self._ask(
            apis.DROP_PARTITION,
            table_path=message_of(path),
            partition_spec=_spec(values),
            ignore_if_not_exists=ignore_if_not_exists,
        )

    def buckets(
        self, table: FlussTable, partitions: Iterable[PartitionInfo] | None = None
    ) -> list[TableBucket]:
        """All buckets of a table, of a partitioned one those of `partitions` or of all that there are now."""
        ids: list[int | None] = [None]
        if table.partition_keys:
            ids = [
                partition.partition_id
                for partition in (self.partitions(table.path) if partitions is None else partitions)
            ]
        few = len(ids) * table.buckets <= MOST_BUCKETS
        answers.require(few, str(table.path), f"{len(ids)} partitions of {table.buckets} buckets")
        return [
            TableBucket(table.table_id, partition, bucket)
            for partition in ids
            for bucket in range(table.buckets)
        ]

    # ---- offsets

    def offsets(
        self, table: FlussTable, buckets: Iterable[TableBucket], at: str | Milliseconds = LATEST
    ) -> dict[TableBucket, int]:
        """The offset of each bucket: of the oldest row (EARLIEST), behind the newest that all may read
        (LATEST), or of the first batch that is not older than a time in milliseconds.

        Waits for buckets whose leader is just starting. Raises FlussError, of a bucket by name: 38 for a
        time in the future, 21 for one that does not exist.
        """
        missing = list(dict.fromkeys(buckets))
        offsets: dict[TableBucket, int] = {}

        def ask() -> dict[TableBucket, int]:
            offsets.update(self._listed(table, [b for b in missing if b not in offsets], at))
            return {bucket: offsets[bucket] for bucket in missing}

        return self.cluster.retried(ask, missing)

    def _listed(
        self, table: FlussTable, buckets: Sequence[TableBucket], at: str | Milliseconds
    ) -> dict[TableBucket, int]:
        kind = (EARLIEST, LATEST).index(at) if isinstance(at, str) else _OF_TIMESTAMP
        pending = []
        for connection, led in self.cluster.by_leader(table, buckets).items():
            for partition_id in dict.fromkeys(bucket.partition_id for bucket in led):
                request = pb.ListOffsetsRequest(
                    follower_server_id=_A_CLIENT,
                    offset_type=kind,
                    table_id=table.table_id,
                    partition_id=partition_id,
                    bucket_ids=[bucket.bucket for bucket in led if bucket.partition_id == partition_id],
                    start_timestamp=None if isinstance(at, str) else at,
                )
                pending.append((partition_id, connection.send(apis.LIST_OFFSETS, request)))
        offsets, refused, where = {}, [], f"{table.path}: offsets"
        for partition_id, answer in pending:
            for listed in answer.result().buckets:
                if listed.error_code:
                    bucket = TableBucket(table.table_id, partition_id, listed.bucket_id)
                    refused.append(_refusal(listed, f"{table.path}: {bucket}"))
                    continue
                bucket = answers.bucket_of(listed, where, partition_id=partition_id, table=table)
                offsets[bucket] = answers.offset_of(listed, "offset", f"{table.path}: {bucket}")
        if refused:
            raise min(refused, key=lambda e: e.code in MOVED)  # what will not mend by waiting comes first
        answers.all_of(offsets, buckets, where)
        return offsets

    # ---- snapshots of keyed tables

    def kv_snapshots(
        self, table: FlussTable, partition: PartitionInfo | None = None
    ) -> dict[int, KvSnapshot]:
        """The newest snapshot of each bucket, of one partition of a partitioned table; without those that
        have none yet. Raises FlussError 20 for a log table, 36 where the partition is gone."""
        name = None if partition is None else partition.name
        answer = self._ask(
            apis.GET_LATEST_KV_SNAPSHOTS, table_path=message_of(table.path), partition_name=name
        )
        if answer.table_id != table.table_id:
            text = f"its id is {answer.table_id} now, and was {table.table_id}"
            raise FlussError(ErrorCode.TABLE_NOT_EXIST, text, where=str(table.path))
        where, partition_id = f"{table.path}: snapshots of keys", answers.partition_of(answer)
        answers.same(partition_id, None if partition is None else partition.partition_id, "partition", where)
        snapshots = {}
        for latest in answer.snapshots:
            bucket = answers.bucket_of(latest, where, partition_id=partition_id, table=table)
            if latest.HasField("snapshot_id"):
                snapshot_id = answers.offset_of(latest, "snapshot_id", f"{table.path}: {bucket}")
                offset = answers.offset_of(latest, "log_offset", f"{table.path}: {bucket}")
                snapshots[bucket.bucket] = KvSnapshot(bucket, snapshot_id, offset)
        return snapshots

    def kv_snapshot_files(self, snapshot: KvSnapshot) -> KvSnapshotFiles:
        """The files of a snapshot. Raises FlussError 41 where a newer one has replaced it: plan again."""
        bucket = snapshot.bucket
        answer = self._ask(
            apis.GET_KV_SNAPSHOT_METADATA,
            table_id=bucket.table_id,
            partition_id=bucket.partition_id,
            bucket_id=bucket.bucket,
            snapshot_id=snapshot.snapshot_id,
        )
        where = f"{bucket} snapshot {snapshot.snapshot_id}"
        answers.same(answer.log_offset, snapshot.log_offset, "offset", where)
        answers.unique([file.local_file_name for file in answer.files], "file", where)
        return KvSnapshotFiles(
            snapshot, tuple((file.remote_path, file.local_file_name) for file in answer.files)
        )

    # ---- snapshots of the lake

    def lake_snapshot(self, path: TablePath) -> LakeSnapshot | None:
        """The newest lake snapshot that was registered; None if there is none. Raises FlussError
        7 if there is no such table."""
        try:
            answer = self._ask(apis.GET_LAKE_SNAPSHOT, table_path=message_of(path))
        except FlussError as e:
            if e.code == ErrorCode.LAKE_SNAPSHOT_NOT_EXIST or (
                e.code == ErrorCode.UNKNOWN_SERVER_ERROR and "LakeTableSnapshotNotExist" in e.message  # 0.6
            ):
                return None
            raise
        where = f"{path} lake snapshot {answer.snapshot_id}"
        offsets = {}
        for listed in answer.buckets:
            if listed.HasField("log_offset"):
                answers.require(listed.bucket_id >= 0, where, f"an offset of bucket {listed.bucket_id}")
                bucket = TableBucket(answer.table_id, answers.partition_of(listed), listed.bucket_id)
                offsets[bucket] = answers.offset_of(listed, "log_offset", where)
        return LakeSnapshot(answer.table_id, answer.snapshot_id, offsets)

    def commit_lake_snapshot(
        self,
        table: FlussTable,
        snapshot_id: int,
        offsets: Mapping[TableBucket, int],
        *,
        partition_names: Mapping[int, str] | None = None,
        prepared: str | None = None,
        readable: str | None = None,
    ) -> None:
        """Register a lake snapshot, and per bucket the offset behind its last row there. What the cluster
        knows of other buckets stays.

        `partition_names` are sent to 0.8, which keeps them. `prepared`: what `prepare_lake_snapshot`
        returned before the commit to the lake; from 0.9 on it says what the snapshot has, and the offsets
        only go to the tablet servers; without it they are prepared here. `readable`: the same of the
        offsets up to which readers of the snapshot see rows; None where that is not known. The cluster
        checks nothing: that the snapshot is the newest and its offsets are right is the caller's affair.
        """
        version = self.cluster.version
        if prepared is None:
            prepared = self.prepare_lake_snapshot(table, offsets)
        api = apis.COMMIT_LAKE_TABLE_SNAPSHOT_V9 if version >= (0, 9) else apis.COMMIT_LAKE_TABLE_SNAPSHOT
        request = commit_request(
            table,
            snapshot_id,
            offsets,
            version=version,
            partition_names=partition_names or {},
            prepared=prepared,
            readable=readable,
        )
        answers_of_tables, where = (
            self.cluster.call(api, request).tables,
            f"{table.path} lake snapshot {snapshot_id}",
        )
        for each in answers_of_tables:
            if each.error_code:
                raise _refusal(each, where)
        answers.all_of([each.table_id for each in answers_of_tables], [table.table_id], where)

    def prepare_lake_snapshot(self, table: FlussTable, offsets: Mapping[TableBucket, int]) -> str | None:
        """Before a lake commit to a cluster from 0.9 on: where it has put the offsets that the commit
        brings. None from an older cluster, which needs nothing before."""
        if self.cluster.version < (0, 9):
            return None
        answers_of_tables = self.cluster.call(
            apis.PREPARE_LAKE_TABLE_SNAPSHOT, prepare_request(table, offsets)
        ).tables
        for each in answers_of_tables:
            if each.error_code:
                raise _refusal(each, f"{table.path} before a lake snapshot")
        where = f"{table.path} before a lake snapshot"
        answers.all_of([each.table_id for each in answers_of_tables], [table.table_id], where)
        answers.require(
            len(answers_of_tables) == 1 and answers_of_tables[0].offsets_path,
            where,
            "it names no place of the offsets",
        )
        return str(answers_of_tables[0].offsets_path)

    # ---- tiering

    def heartbeat(self, said: HeartbeatRequest = _NOTHING) -> HeartbeatResponse:
        """Tell the coordinator of the tables that are being tiered, and ask for one. It works in this
        order: failed, tiering, finished, then the request for a table.

        Sent once: raises Unavailable where the answer is lost, and a table may then have been handed out.
        Raises Unsupported for rounds that were cut short, before 0.9.
        """
        request = pb.LakeTieringHeartbeatRequest(
            tiering_tables=map(_epoch_message, said.tiering),
            finished_tables=map(_epoch_message, said.finished),
            failed_tables=map(_epoch_message, said.failed),
            request_table=said.request_table,
        )
        if said.cut_short:
            if self.cluster.version < (0, 9):
                raise Unsupported("rounds that end before their work", "Fluss has them from 0.9 on")
            request.force_finished_tables.extend(said.cut_short)
        return heartbeat_response(self.cluster.call(apis.LAKE_TIERING_HEARTBEAT, request))

    def _ask(self, api: apis.Api, **fields: Any) -> Any:
        try:
            return self.cluster.call(api, api.request(**fields))
        except FlussError as e:
            if e.where:
                raise
            raise FlussError(e.code, e.message, where=_about(api, fields)) from None


def commit_request(
    table: FlussTable,
    snapshot_id: int,
    offsets: Mapping[TableBucket, int],
    *,
    version: tuple[int, int],
    partition_names: Mapping[int, str],
    prepared: str | None,
    readable: str | None = None,
) -> pb.CommitLakeTableSnapshotRequest:
    """The request of a lake commit as a cluster of that version takes it. Never with log_start_offset: a
    server that has got one answers fetches below the end offset with nothing."""
    buckets = [
        pb.LakeTableOffset(
            partition_id=bucket.partition_id,
            bucket_id=bucket.bucket,
            log_end_offset=offset,
            partition_name=partition_names.get(bucket.partition_id) if version == (0, 8) else None,
        )
        if bucket.partition_id is not None
        else pb.LakeTableOffset(bucket_id=bucket.bucket, log_end_offset=offset)
        for bucket, offset in offsets.items()
    ]
    of_table = pb.LakeTableSnapshot(table_id=table.table_id, snapshot_id=snapshot_id, buckets=buckets)
    request = pb.CommitLakeTableSnapshotRequest(tables=[of_table])
    if version >= (0, 9) and prepared is not None:
        snapshot = pb.LakeTableSnapshotMetadata(
            table_id=table.table_id,
            snapshot_id=snapshot_id,
            tiered_offsets_path=prepared,
            readable_offsets_path=readable,
        )
        request.prepared_tables.append(snapshot)
    return request


def prepare_request(
    table: FlussTable, offsets: Mapping[TableBucket, int]
) -> pb.PrepareLakeTableSnapshotRequest:
    """The request before a lake commit, as clusters from 0.9 on take it."""
    buckets = [
        pb.BucketOffset(partition_id=bucket.partition_id, bucket_id=bucket.bucket, log_end_offset=offset)
        for bucket, offset in offsets.items()
    ]
    of_table = pb.LakeTableOffsets(
        table_id=table.table_id, table_path=message_of(table.path), buckets=buckets
    )
    return pb.PrepareLakeTableSnapshotRequest(tables=[of_table])


def heartbeat_response(answer: pb.LakeTieringHeartbeatResponse) -> HeartbeatResponse:
    """The message as a value."""
    table = None
    if answer.HasField("tiering_table"):
        given, where = answer.tiering_table, f"table {answer.tiering_table.table_id}, which is handed out"
        answers.name_of(given.table_path.database_name, "database", where)
        answers.name_of(given.table_path.table_name, "table", where)
        table = TieringTable(given.table_id, str(_path(given.table_path)), given.tiering_epoch)
    results = answer.tiering_results, answer.finished_results, answer.failed_results
    return HeartbeatResponse(
        answer.coordinator_epoch, table, *(tuple(map(_table_response, each)) for each in results)
    )


def _table_response(result: pb.TieringTableResult) -> TableResponse:
    if not (result.HasField("error") and result.error.error_code):
        return TableResponse(result.table_id)
    return TableResponse(result.table_id, result.error.error_code, result.error.error_message)


def _epoch_message(table: TableEpoch) -> pb.TieringTable:
    return pb.TieringTable(
        table_id=table.table_id, coordinator_epoch=table.coordinator_epoch, tiering_epoch=table.tiering_epoch
    )


def _spec(values: Mapping[str, str]) -> pb.PartitionSpec:
    return pb.PartitionSpec(values=[pb.KeyValue(key=key, value=value) for key, value in values.items()])


def _path(message: pb.TablePath) -> TablePath:
    return TablePath(message.database_name, message.table_name)


def _refusal(answer: Any, where: str) -> FlussError:
    return FlussError(answer.error_code, answer.error_message, where=where)


def _about(api: apis.Api, fields: Mapping[str, Any]) -> str:
    path, database = fields.get("table_path"), fields.get("database_name")
    return f"{api} {_path(path)}" if path is not None else f"{api} {database}" if database else str(api)
