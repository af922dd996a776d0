"""What the coordinator answers to each call of the protocol, from values to values; no sockets here.

It is coordinator and tablet server in one. An error of one bucket or table stands in its part of the answer;
one of the whole call is raised as FlussError. Safe to share between threads.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tablestore.core.env import Env
from tablestore.core.errors import Corrupt, NotFound, TablestoreError, brief
from tablestore.fluss import apis
from tablestore.fluss.apis import Api
from tablestore.fluss.connection import CLIENT
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.frames import decoded
from tablestore.fluss.heartbeat import HeartbeatRequest, TableEpoch, TableResponse
from tablestore.fluss.messages import pb
from tablestore.fluss.tables import TablePath, schema_json
from tablestore.log.log import LogExpired
from tablestore.tiering.coordinator.files import DroppedTableFiles, FileEpochs
from tablestore.tiering.coordinator.lake_snapshots import LakeSnapshots
from tablestore.tiering.coordinator.served_tables import ServedTable, ServedTables, ServedWrites
from tablestore.tiering.coordinator.table_states import TableFreshness, TableStates, TableStatus

log = logging.getLogger(__name__)
EARLIEST, LATEST, OF_TIMESTAMP = 0, 1, 2
NODE = 0
_FROM_EARLIEST = -2  # what scanners of Fluss's own client send that begin with the oldest row
_MOST_WAIT_MS, _STEP_SECONDS = 500, 0.01
_MOST_BYTES, _MOST_BUCKETS = 16 << 20, 10_000


class CoordinatorRequests:
    """The calls over the tables of a lake. `host` and `port`: where clients find the server."""

    def __init__(
        self,
        tables: ServedTables,
        epochs: FileEpochs,
        lakes: LakeSnapshots,
        env: Env,
        *,
        host: str,
        port: int,
    ) -> None:
        self._tables, self._epochs, self._env = tables, epochs, env
        self._node = {"node_id": NODE, "host": host, "port": port}
        self._lock = threading.Lock()  # of the states and the epochs
        self._states = TableStates(epochs, coordinator_epoch=epochs.coordinator)
        self._lakes, self._writes = lakes, ServedWrites(epochs.coordinator)
        self._leftovers = DroppedTableFiles(tables, epochs, lakes, env=env)
        self._began = False
        self._withheld: set[int] = set()  # of which a warning was logged
        self._calls: dict[int, tuple[Api, Callable[..., Any]]] = {
            api.key: (api, answer)
            for api, answer in (
                (apis.API_VERSIONS, self._api_versions),
                (apis.LIST_DATABASES, self._list_databases),
                (apis.DATABASE_EXISTS, self._database_exists),
                (apis.GET_DATABASE_INFO, self._database_info),
                (apis.GET_TABLE_INFO, self._table_info),
                (apis.LIST_TABLES, self._list_tables),
                (apis.LIST_PARTITION_INFOS, self._list_partitions),
                (apis.TABLE_EXISTS, self._table_exists),
                (apis.GET_TABLE_SCHEMA, self._table_schema),
                (apis.METADATA, self._metadata),
                (apis.FETCH_LOG, self._fetch_log),
                (apis.INIT_WRITER, self._init_writer),
                (apis.PRODUCE_LOG, self._produce_log),
                (apis.PUT_KV, self._put_kv),
                (apis.LIST_OFFSETS, self._list_offsets),
                (apis.GET_LATEST_KV_SNAPSHOTS, self._kv_snapshots),
                (apis.ACQUIRE_KV_SNAPSHOT_LEASE, self._acquire_lease),
                (apis.RELEASE_KV_SNAPSHOT_LEASE, self._release_lease),
                (apis.DROP_KV_SNAPSHOT_LEASE, self._drop_lease),
                (apis.GET_FILE_SYSTEM_SECURITY_TOKEN, self._security_token),
                (apis.PREPARE_LAKE_TABLE_SNAPSHOT, self._prepare_lake_snapshot),
                (apis.COMMIT_LAKE_TABLE_SNAPSHOT, self._commit_lake_snapshot),
                (apis.GET_LAKE_SNAPSHOT, self._lake_snapshot),
                (apis.LAKE_TIERING_HEARTBEAT, self._heartbeat),
            )
        }

    def answer(self, api_key: int, body: bytes, client: str) -> bytes:
        """The answer to a request of a client, by the name that it gives. Raises FlussError for every one
        that cannot be answered."""
        if api_key not in self._calls:
            raise FlussError(ErrorCode.UNSUPPORTED_VERSION, f"API {api_key} is not served here")
        api, answer = self._calls[api_key]
        try:
            request = decoded(api.request, body, "this coordinator", f"the {api} request")
        except Corrupt as e:
            raise FlussError(ErrorCode.CORRUPT_MESSAGE, str(e)) from None
        try:
            whose = (client,) if api is apis.LAKE_TIERING_HEARTBEAT else ()
            return bytes(answer(request, *whose).SerializeToString())
        except FlussError:
            raise
        except NotFound as e:
            raise FlussError(ErrorCode.TABLE_NOT_EXIST, str(e)) from None
        except (TablestoreError, OSError) as e:
            raise FlussError(ErrorCode.STORAGE, str(e)) from None

    # tiering

    def tables(self) -> list[TableStatus]:
        """Tables that are tiered, with their states now."""
        self.tick()
        with self._lock:
            return self._states.tables()

    @property
    def now_ms(self) -> int:
        """The clock of the states: it never goes back."""
        return int(self._env.monotonic() * 1000)

    def tick(self) -> None:
        """Look at the lake's tables and at the clock."""
        tiered = {served.table_id: served for served in self._tables.all().values()}
        with self._lock:
            scheduled = {s.table.table_id for s in self._states.tables()}
        ages = {id: served.age_ms(self._env.now_ms()) for id, served in tiered.items() if id not in scheduled}
        with self._lock:
            now = self.now_ms
            for table_id, served in tiered.items():
                fresh = TableFreshness(table_id, served.path, served.freshness_ms)
                self._states.add(fresh, now, initialized=not self._began, age_ms=ages.get(table_id))
            self._states.keep_only(tiered)
            self._began = True
            self._states.tick(now)

    def tick_quietly(self) -> None:
        """`tick`, whose errors are logged: the next one is soon. Files of dropped tables go."""
        try:
            self.tick()
        except (TablestoreError, OSError) as e:
            log.warning("the tables of the lake were not looked at: %s", brief(e))
        self._leftovers.remove()

    def _heartbeat(self, request: Any, client: str) -> Any:
        self.tick()
        asked = HeartbeatRequest(
            tiering=_epochs(request.tiering_tables),
            finished=_epochs(request.finished_tables),
            failed=_epochs(request.failed_tables),
            request_table=request.request_table,
            cut_short=tuple(request.force_finished_tables),
        )
        withheld = self._own_tables(client) if request.request_table and client != CLIENT else ()
        with self._lock:
            response = self._states.heartbeat(asked, self.now_ms, withheld=withheld)
        answer = pb.LakeTieringHeartbeatResponse(
            coordinator_epoch=response.coordinator_epoch,
            tiering_results=[_result(table_response) for table_response in response.tiering],
            finished_results=[_result(table_response) for table_response in response.finished],
            failed_results=[_result(table_response) for table_response in response.failed],
        )
        if response.table is not None:
            answer.tiering_table.table_id = response.table.table_id
            answer.tiering_table.table_path.CopyFrom(_message_of(response.table.table_path))
            answer.tiering_table.tiering_epoch = response.table.tiering_epoch
        return answer

    def _own_tables(self, client: str) -> set[int]:
        """The tables whose lake is itself: another service would find columns there that it does not write,
        and none of its own."""
        own = {served.table_id: served.path for served in self._tables.all().values() if served.has_files()}
        for table_id in own.keys() - self._withheld:
            log.warning(
                "%s is not handed to %r: its rows are in files of this lake, where lake.tier brings them",
                *(own[table_id], client),
            )
        self._withheld |= own.keys()
        return set(own)

    def _prepare_lake_snapshot(self, request: Any) -> Any:
        """Put offsets into files, before a commit to a lake."""
        answer = pb.PrepareLakeTableSnapshotResponse()
        for asked in request.tables:
            table_answer = answer.tables.add(table_id=asked.table_id)
            with _refusals(table_answer):
                served = self._tables.by_id(asked.table_id)
                table_answer.offsets_path = self._lakes.prepare(
                    served, _ends(served, asked), ignores_previous=request.ignore_previous_offsets
                )
        return answer

    def _commit_lake_snapshot(self, request: Any) -> Any:
        """Keep what lakes hold. It is looked at first: see `ServedTable.require_snapshot`. Services from 0.9
        on have prepared it, and get an answer of other numbers."""
        if request.prepared_tables:
            newer = pb.CommitLakeTableSnapshotResponseV9()
            for prepared in request.prepared_tables:
                with _refusals(newer.tables.add(table_id=prepared.table_id)):
                    readable = (
                        prepared.readable_offsets_path if prepared.HasField("readable_offsets_path") else None
                    )
                    served = self._tables.by_id(prepared.table_id)
                    self._lakes.commit_prepared(
                        served, prepared.snapshot_id, prepared.tiered_offsets_path, readable
                    )
            return newer
        answer = pb.CommitLakeTableSnapshotResponse()
        for lake in request.tables:
            with _refusals(answer.tables.add(table_id=lake.table_id)):
                served = self._tables.by_id(lake.table_id)
                self._lakes.commit(served, lake.snapshot_id, _ends(served, lake))
        return answer

    def _lake_snapshot(self, request: Any) -> Any:
        served = self._of(request.table_path)
        asked = request.snapshot_id if request.HasField("snapshot_id") else None
        snapshot = self._lakes.newest(served, snapshot_id=asked, readable=request.readable)
        buckets = [
            pb.LakeSnapshotBucket(bucket_id=b, log_offset=o) for b, o in sorted(snapshot.offsets.items())
        ]
        return pb.GetLakeSnapshotResponse(
            table_id=served.table_id, snapshot_id=snapshot.snapshot_id, buckets=buckets
        )

    def _security_token(self, _: Any) -> Any:
        """None is needed: all rows come by this protocol."""
        return pb.GetFileSystemSecurityTokenResponse(scheme="file", token=b"")

    # what there is

    def _api_versions(self, _: Any) -> Any:
        answer = pb.ApiVersionsResponse()
        for key in sorted({*self._calls, apis.AUTHENTICATE.key}):  # which the server answers
            answer.api_versions.add(api_key=key, min_version=0, max_version=0)
        return answer

    def _list_databases(self, _: Any) -> Any:
        return pb.ListDatabasesResponse(database_names=self._tables.databases())

    def _database_exists(self, request: Any) -> Any:
        return pb.DatabaseExistsResponse(exists=request.database_name in self._tables.databases())

    def _database_info(self, request: Any) -> Any:
        """It has no comment and no properties; of its making nothing is known."""
        self._require_database(request)
        described = json.dumps({"version": 1, "custom_properties": {}}).encode()
        return pb.GetDatabaseInfoResponse(database_json=described, created_ms=0, modified_ms=0)

    def _list_tables(self, request: Any) -> Any:
        self._require_database(request)
        paths = (TablePath.parse(path) for path in self._tables.all())
        names = sorted(path.table for path in paths if path.database == request.database_name)
        return pb.ListTablesResponse(table_names=names)

    def _require_database(self, request: Any) -> None:
        if request.database_name not in self._tables.databases():
            raise FlussError(ErrorCode.DATABASE_NOT_EXIST, f"no database {request.database_name!r}")

    def _table_exists(self, request: Any) -> Any:
        try:
            self._of(request.table_path)
        except NotFound:
            return pb.TableExistsResponse(exists=False)
        return pb.TableExistsResponse(exists=True)

    def _table_info(self, request: Any) -> Any:
        served = self._of(request.table_path)
        return pb.GetTableInfoResponse(**_facts(served))

    def _table_schema(self, request: Any) -> Any:
        served = self._of(request.table_path)
        if request.HasField("schema_id") and request.schema_id not in (-1, served.schema_id):
            raise FlussError(ErrorCode.SCHEMA_NOT_EXIST, f"{served.path} has schema {served.schema_id} now")
        schema = schema_json(served.descriptor.columns, served.descriptor.primary_key)
        return pb.GetTableSchemaResponse(schema_id=served.schema_id, schema_json=json.dumps(schema).encode())

    def _list_partitions(self, request: Any) -> Any:
        served = self._of(request.table_path)
        raise FlussError(ErrorCode.TABLE_NOT_PARTITIONED, f"{served.path} is served without partitions")

    def _metadata(self, request: Any) -> Any:
        answer = pb.MetadataResponse(coordinator=self._node, tablet_servers=[self._node])
        for path in request.table_paths:
            served = self._of(path)
            table_answer = answer.tables.add(table_path=path, **_facts(served))
            for bucket in range(served.buckets):
                table_answer.buckets.add(bucket_id=bucket, leader_id=NODE, replica_ids=[NODE], leader_epoch=0)
        return answer

    def _kv_snapshots(self, request: Any) -> Any:
        served = _keyed(self._of(request.table_path))
        buckets = [pb.KvSnapshot(bucket_id=bucket) for bucket in range(served.buckets)]
        return pb.GetLatestKvSnapshotsResponse(table_id=served.table_id, snapshots=buckets)

    def _acquire_lease(self, request: Any) -> Any:
        """Every snapshot that is wanted is one that is not there: readers begin with the log here."""
        for asked in request.tables:
            _keyed(self._tables.by_id(asked.table_id))
        return pb.AcquireKvSnapshotLeaseResponse(unavailable=request.tables)

    def _release_lease(self, request: Any) -> Any:
        for asked in request.buckets:
            _keyed(self._tables.by_id(asked.table_id))
        return pb.ReleaseKvSnapshotLeaseResponse()

    def _drop_lease(self, _: Any) -> Any:
        return pb.DropKvSnapshotLeaseResponse()

    # rows that clients write

    def _init_writer(self, _: Any) -> Any:
        return pb.InitWriterResponse(writer_id=self._writes.new_writer())

    def _produce_log(self, request: Any) -> Any:
        answer = pb.ProduceLogResponse()
        for asked in request.buckets:
            bucket_answer = answer.buckets.add(bucket_id=asked.bucket_id)
            with _refusals(bucket_answer, ErrorCode.UNKNOWN_TABLE_OR_BUCKET):
                served = self._written(request, asked)
                bucket_answer.base_offset = self._writes.append(served, asked.bucket_id, asked.records)
        return answer

    def _put_kv(self, request: Any) -> Any:
        answer = pb.PutKvResponse()
        for asked in request.buckets:
            bucket_answer = answer.buckets.add(bucket_id=asked.bucket_id)
            with _refusals(bucket_answer, ErrorCode.UNKNOWN_TABLE_OR_BUCKET):
                served = self._written(request, asked)
                columns = sorted(request.target_columns)
                if columns and columns != list(range(len(served.types))):
                    text = f"upserts of columns {columns} alone: {served.path} takes rows with all columns"
                    raise FlussError(ErrorCode.INVALID_TARGET_COLUMN, text)
                self._writes.change(served, asked.bucket_id, asked.records)
        return answer

    def _written(self, request: Any, asked: Any) -> ServedTable:
        """The table of a bucket that rows are for."""
        served = self._tables.by_id(request.table_id)
        _require_bucket(served, asked)
        return served

    # logs

    def _list_offsets(self, request: Any) -> Any:
        answer = pb.ListOffsetsResponse()
        try:
            served: ServedTable | None = self._tables.by_id(request.table_id)
            offsets = {} if served is None else self._offsets(served, request)
        except NotFound:
            served, offsets = None, {}
        for bucket in list(request.bucket_ids)[:_MOST_BUCKETS]:
            if served is None or not 0 <= bucket < served.buckets or request.HasField("partition_id"):
                text = f"no bucket {bucket} of table {request.table_id}"
                answer.buckets.add(
                    bucket_id=bucket, error_code=ErrorCode.UNKNOWN_TABLE_OR_BUCKET, error_message=text
                )
            else:
                answer.buckets.add(bucket_id=bucket, offset=offsets.get(bucket, 0))
        return answer

    def _offsets(self, served: ServedTable, request: Any) -> dict[int, int]:
        if request.offset_type == EARLIEST:
            return dict(served.start())
        end = served.end()
        if request.offset_type == LATEST:
            return dict(end)
        if request.offset_type != OF_TIMESTAMP:
            raise FlussError(ErrorCode.UNKNOWN_SERVER_ERROR, f"no offsets of kind {request.offset_type}")
        if request.start_timestamp > self._env.now_ms():
            text = f"timestamp {request.start_timestamp} is in the future"
            raise FlussError(ErrorCode.INVALID_TIMESTAMP, text)
        at = served.log.log.at(request.start_timestamp)
        return {bucket: min(offset, end.get(bucket, 0)) for bucket, offset in at.items()}

    def _fetch_log(self, request: Any) -> Any:
        """As many batches as the request allows; where there are none, they are waited for a moment."""
        wait = min(max(request.max_wait_ms, 0), _MOST_WAIT_MS) / 1000
        until = self._env.monotonic() + wait
        while True:
            answer, has_any = self._fetched(request)
            if has_any or self._env.monotonic() >= until:
                return answer
            self._env.sleep(_STEP_SECONDS)

    def _fetched(self, request: Any) -> tuple[Any, bool]:
        answer, has_any = pb.FetchLogResponse(), False
        room = min(max(request.max_bytes, 1), _MOST_BYTES)
        for asked in request.tables:
            table = answer.tables.add(table_id=asked.table_id)
            try:
                served = self._tables.by_id(asked.table_id)
                start, end = served.start(), served.end()
            except (TablestoreError, OSError) as e:
                code = ErrorCode.UNKNOWN_TABLE_OR_BUCKET if isinstance(e, NotFound) else ErrorCode.LOG_STORAGE
                for bucket in asked.buckets:
                    table.buckets.add(bucket_id=bucket.bucket_id, error_code=code, error_message=str(e))
                has_any = True
                continue
            columns = list(asked.projected_fields) if asked.projection_enabled else None
            for bucket in asked.buckets:
                bucket_answer = table.buckets.add(bucket_id=bucket.bucket_id)
                try:
                    bucket_answer.high_watermark = end.get(bucket.bucket_id, 0)
                    bucket_answer.log_start_offset = start.get(bucket.bucket_id, 0)
                    bucket_answer.records = b""
                    if room > 0:
                        bucket_answer.records = _records(served, bucket, bucket_answer, columns, room)
                except (TablestoreError, OSError) as e:
                    expired = isinstance(e, LogExpired)
                    code = ErrorCode.LOG_OFFSET_OUT_OF_RANGE if expired else ErrorCode.LOG_STORAGE
                    refusal = (e.code, e.message) if isinstance(e, FlussError) else (code, str(e))
                    bucket_answer.error_code, bucket_answer.error_message = refusal
                room -= len(bucket_answer.records)
                has_any = has_any or bool(bucket_answer.records) or bucket_answer.HasField("error_code")
        return answer, has_any

    def _of(self, path: Any) -> ServedTable:
        return self._tables.by_path(f"{path.database_name}.{path.table_name}")


def _keyed(served: ServedTable) -> ServedTable:
    """The table; raises FlussError for one without a primary key."""
    if not served.keyed:
        raise FlussError(ErrorCode.NON_PRIMARY_KEY_TABLE, f"{served.path} has no primary key")
    return served


def _require_bucket(served: ServedTable, asked: Any) -> None:
    if asked.HasField("partition_id") or not 0 <= asked.bucket_id < served.buckets:
        text = f"no bucket {asked.bucket_id} of table {served.table_id}"
        raise FlussError(ErrorCode.UNKNOWN_TABLE_OR_BUCKET, text)


def _facts(served: ServedTable) -> dict[str, Any]:
    """What answers say of a table; when it was altered is not known."""
    return {
        **{"table_id": served.table_id, "schema_id": served.schema_id},
        "table_json": served.descriptor.to_json(),
        **dict.fromkeys(("created_ms", "modified_ms"), served.created_ms),
    }


def _records(served: ServedTable, asked: Any, at: Any, columns: list[int] | None, room: int) -> bytes:
    """The batches of one bucket, whose bounds `at` says."""
    _require_bucket(served, asked)
    start = at.log_start_offset if asked.fetch_offset == _FROM_EARLIEST else asked.fetch_offset
    if not at.log_start_offset <= start <= at.high_watermark:
        text = f"offset {start} is not in [{at.log_start_offset}, {at.high_watermark}]"
        raise FlussError(ErrorCode.LOG_OFFSET_OUT_OF_RANGE, text)
    if columns is not None:
        count = len(served.descriptor.columns)
        if columns != sorted(set(columns)) or not columns or not 0 <= columns[0] <= columns[-1] < count:
            text = f"columns {columns}: they must ascend and be of the {count} there are"
            raise FlussError(ErrorCode.INVALID_COLUMN_PROJECTION, text)
    if start == at.high_watermark:
        return b""
    most = min(max(asked.max_fetch_bytes, 1), room)
    return served.batches(asked.bucket_id, start, at.high_watermark, most_bytes=most, columns=columns)


@contextmanager
def _refusals(part: Any, gone: ErrorCode = ErrorCode.TABLE_NOT_EXIST) -> Iterator[None]:
    """A context whose refusals stand in the part of the answer that is of one table or bucket."""
    try:
        yield
    except NotFound as e:
        part.error_code, part.error_message = gone, str(e)
    except FlussError as e:
        part.error_code, part.error_message = e.code, e.message


def _ends(served: ServedTable, lake: Any) -> dict[int, int]:
    """Per bucket the offset up to which a snapshot has the rows, as a request says."""
    for bucket in lake.buckets:
        _require_bucket(served, bucket)
    return {b.bucket_id: b.log_end_offset for b in lake.buckets if b.HasField("log_end_offset")}


def _epochs(tables: Any) -> tuple[TableEpoch, ...]:
    return tuple(TableEpoch(t.table_id, t.coordinator_epoch, t.tiering_epoch) for t in tables)


def _result(response: TableResponse) -> Any:
    result = pb.TieringTableResult(table_id=response.table_id)
    if response.error_code is not None:
        result.error.error_code, result.error.error_message = response.error_code, response.message
    return result


def _message_of(path: str) -> Any:
    parsed = TablePath.parse(path)
    return pb.TablePath(database_name=parsed.database, table_name=parsed.table)
