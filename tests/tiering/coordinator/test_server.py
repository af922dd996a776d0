"""The server over tables of a lake: asked by the client of Fluss, and by clients that are no such thing."""

from __future__ import annotations

import datetime as dt
import random
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.fluss import apis
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.heartbeat import HeartbeatRequest, TableEpoch, TableResponse
from tablestore.fluss.kv import acquire_lease, drop_lease, release_lease
from tablestore.fluss.log_scan import LogScan
from tablestore.fluss.messages import pb
from tablestore.fluss.tables import FlussTable, KvSnapshot, TableBucket, TablePath
from tablestore.fluss.types import engine_column
from tablestore.format import rowkind
from tablestore.table.lake import Lake
from tablestore.table.log_of import table_log
from tablestore.table.table import Table
from tablestore.tiering.coordinator.coordinator import HOST, Coordinator, Server
from tablestore.tiering.coordinator.served_tables import served
from tests.fluss.stored_batches import decoded
from tests.log.memory_log import MemoryLog
from tests.tiering.coordinator.wire import answered, asked, code_of, connected, ends, signed_in

COLUMNS = {
    **{"id": ts.BIGINT, "i": ts.INT, "si": ts.SMALLINT, "ti": ts.TINYINT, "b": ts.BOOLEAN, "f": ts.FLOAT},
    **{"x": ts.DOUBLE, "d": ts.DECIMAL(20, 3), "s": ts.STRING, "c": ts.CHAR(3), "raw": ts.BYTES},
    **{"bin": ts.BINARY(2), "day": ts.DATE, "t0": ts.TIME(0), "t3": ts.TIME(3), "m": ts.TIMESTAMP(3)},
    **{"u": ts.TIMESTAMP(6), "n": ts.TIMESTAMP(9), "z": ts.TIMESTAMP_LTZ(3)},
}
UNTIERED = {"log.system": "embedded", "bucket": 2}
LOG = {**UNTIERED, "tablestore.tiering.enabled": True}
APPENDED = {**LOG, "bucket-key": "v"}


def row(number: int) -> dict[str, object]:
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678000) + dt.timedelta(days=number)
    return {
        **{"id": number, "i": -number, "si": number, "ti": number, "b": number % 2 == 0, "f": number / 2},
        **{"x": number / 3, "d": Decimal(number) / 8, "s": f"s{number}", "c": "abc", "raw": b"\x00\xff"},
        **{"bin": b"xy", "day": moment.date(), "t0": dt.time(1, 2, 3), "t3": dt.time(1, 2, 3, 4000)},
        **{"m": moment, "u": moment, "n": moment, "z": moment.replace(tzinfo=dt.UTC)},
    }


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return ts.connect(tmp_path)


@pytest.fixture
def coordinator(lake: Lake) -> Iterator[Coordinator]:
    with lake.coordinator() as c:
        yield c


@pytest.fixture
def cluster(coordinator: Coordinator) -> Iterator[Cluster]:
    with Cluster(coordinator.address, timeout=240) as running:
        yield running


def of(table: Table, cluster: Cluster) -> FlussTable:
    return Admin(cluster).table(TablePath.parse(table.name))


def buckets(table: FlussTable) -> list[TableBucket]:
    return [TableBucket(table.table_id, None, bucket) for bucket in range(table.buckets)]


def scanned(
    cluster: Cluster, table: FlussTable, columns: list[str] | None = None
) -> list[tuple[int, int, dict]]:
    """(offset, kind, row) of all rows, by bucket."""
    admin = Admin(cluster)
    ends = admin.offsets(table, buckets(table))
    collected = []
    with LogScan(
        cluster, table, admin.offsets(table, buckets(table), "earliest"), ends, columns=columns
    ) as scan:
        for batch in scan:
            kinds = [0] * batch.rows.num_rows if batch.kinds is None else list(batch.kinds)
            rows = batch.rows.to_pylist()
            collected += [
                (batch.bucket.bucket, batch.base + i, kind, each)
                for i, (kind, each) in enumerate(zip(kinds, rows, strict=True))
            ]
    return sorted(collected, key=lambda record: record[:2])


def logged(table: Table) -> list[tuple[int, int, int, dict]]:
    """The same by the log itself."""
    log, actual = table.log, []
    for batch in table_log(table.store).log.read(log.start, log.end):
        rows = batch.rows.to_pylist()
        actual += [
            (batch.bucket, int(offset), kind, each)
            for offset, kind, each in zip(batch.offsets, batch.kinds.to_pylist(), rows, strict=True)
        ]
    return sorted(actual, key=lambda record: record[:2])


@pytest.mark.parametrize("keyed", [True, False])
def test_a_client_reads_the_log_with_every_type(lake: Lake, cluster: Cluster, keyed: bool):
    keys = {"primary_key": ["id"]} if keyed else {}
    options = LOG if keyed else {**LOG, "bucket-key": "id"}
    table = lake.create_table("shop.all", schema=COLUMNS, options=options, **keys)
    table.write([row(n) for n in range(50)])
    table.write([{"id": 7, **{name: None for name in COLUMNS if name != "id"}}, row(60)])
    if keyed:
        table.delete(ts.col("id") == 3)
    actual = scanned(cluster, of(table, cluster))
    assert [record[:3] for record in actual] == [record[:3] for record in logged(table)]
    for (*_, there), (*_, expected) in zip(actual, logged(table), strict=True):
        if expected["z"] is not None:
            expected["z"] = expected["z"].replace(tzinfo=None)
        assert there == expected
    projected = scanned(cluster, of(table, cluster), ["id", "d", "z"])
    assert [set(record[3]) for record in projected[:1]] == [{"id", "d", "z"}]
    assert [record[3]["d"] for record in projected] == [record[3]["d"] for record in actual]


def test_a_client_reads_nested_values(lake: Lake, cluster: Cluster):
    columns = {"v": ts.INT, "l": ts.ARRAY(ts.ARRAY(ts.TIMESTAMP_LTZ(3))), "m": ts.MAP(ts.STRING, ts.BIGINT)}
    columns["r"] = ts.ROW({"x": ts.INT, "y": ts.ROW({"z": ts.STRING})})
    table = lake.create_table("shop.nested", schema=columns, options=APPENDED)
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC)
    rows = [
        {
            "v": 1,
            "l": [[moment, None], None, []],
            "m": [("a", 1), ("b", None)],
            "r": {"x": 1, "y": {"z": "z"}},
        },
        {"v": 2, "l": None, "m": None, "r": None},
        {"v": 3, "l": [], "m": [], "r": {"x": None, "y": None}},
    ]
    table.write(rows)
    described = of(table, cluster)
    types = {column.name: column.type for column in described.columns}
    collected = {}
    with LogScan(
        cluster,
        described,
        dict.fromkeys(buckets(described), 0),
        Admin(cluster).offsets(described, buckets(described)),
    ) as scan:
        for batch in scan:
            named = {
                n: engine_column(batch.rows.column(n), types[n]).to_pylist() for n in batch.rows.schema.names
            }
            collected |= {v: each for v, *each in zip(*named.values(), strict=True)}
    assert collected == {row["v"]: [row["l"], row["m"], row["r"]] for row in rows}


def test_offsets_without_rows_are_batches_without_rows(lake: Lake):
    options = {**LOG, "bucket": 1}
    table = lake.create_table("shop.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options=options)
    actual, log = served(table, "shop.t"), MemoryLog(1, gap=2)
    assert actual is not None
    actual = replace(actual, log=replace(actual.log, log=log))
    rows = pa.record_batch({"k": pa.array([1, 2], pa.int32()), "v": pa.array([3, 4], pa.int32())})
    log.skip(5)
    for _ in range(2):
        log.append([(0, pa.array([rowkind.UPDATE_AFTER, rowkind.DELETE], pa.int8()), rows)], None)
    schema = pa.schema([c.arrow for c in actual.descriptor.columns])

    def batches(start: int) -> list[tuple[int, int, list[int] | None]]:
        data = actual.batches(0, start, 13, most_bytes=1 << 20)
        kinds = [None if b.kinds is None else b.kinds.tolist() for b in decoded(data, schema)]
        return [(b.base, b.end, k) for b, k in zip(decoded(data, schema), kinds, strict=True)]

    assert batches(0) == [(0, 5, []), (5, 7, [2, 3]), (7, 9, []), (9, 11, [2, 3]), (11, 13, [])]
    assert batches(6) == [(6, 7, [3]), (7, 9, []), (9, 11, [2, 3]), (11, 13, [])]
    assert batches(12) == [(12, 13, [])]


def test_small_answers_go_on_where_the_last_one_ended(lake: Lake, cluster: Cluster):
    table = lake.create_table("shop.t", schema={"v": ts.INT}, options={**APPENDED, "bucket": 1})
    for n in range(20):
        table.write([{"v": n}])
    actual, at, admin = [], 0, of(table, cluster)
    while at < 20:
        asked = pb.FetchBucket(bucket_id=0, fetch_offset=at, max_fetch_bytes=1)
        request = pb.FetchTable(table_id=admin.table_id, projection_enabled=False, buckets=[asked])
        answer = cluster.call(
            apis.FETCH_LOG, pb.FetchLogRequest(follower_server_id=-1, max_bytes=1 << 20, tables=[request])
        )
        (batch,) = decoded(answer.tables[0].buckets[0].records, admin.arrow_schema)
        assert batch.base == at
        actual += batch.rows.column("v").to_pylist()
        at = batch.end
    assert actual == list(range(20))


def test_rows_that_come_while_a_fetch_waits_are_its_answer(lake: Lake, cluster: Cluster):
    table = lake.create_table("shop.t", schema={"v": ts.INT}, options={**APPENDED, "bucket": 1})
    described = of(table, cluster)
    with LogScan(cluster, described, {TableBucket(described.table_id, None, 0): 0}) as scan:
        assert scan.poll(0.05) == []
        table.write([{"v": 1}])
        assert [b.rows.column("v").to_pylist() for b in scan.poll(5)] == [[1]]


def refused(code: int, call) -> None:
    with pytest.raises(FlussError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.message


def test_what_is_not_there_is_told_by_its_code(lake: Lake, cluster: Cluster):
    table = lake.create_table("shop.t", schema={"v": ts.INT}, options=APPENDED)
    lake.create_table("shop.files", schema={"v": ts.INT})
    for name, lacking in (("bag", ts.MULTISET(ts.INT)), ("any", ts.VARIANT)):
        lake.create_table(f"shop.{name}", schema={"v": ts.INT, "w": lacking}, options=APPENDED)
    admin, described = Admin(cluster), of(table, cluster)
    assert [str(path) for path in admin.tables("shop")] == ["shop.t"]
    refused(ErrorCode.DATABASE_NOT_EXIST, lambda: admin.tables("nope"))
    refused(ErrorCode.TABLE_NOT_PARTITIONED, lambda: admin.partitions(described.path))
    refused(ErrorCode.INVALID_TIMESTAMP, lambda: admin.offsets(described, buckets(described), 1 << 50))
    refused(ErrorCode.NON_PRIMARY_KEY_TABLE, lambda: admin.kv_snapshots(described))
    assert not admin.table_exists(TablePath("shop", "files"))
    assert admin.lake_snapshot(described.path) is None
    unknown = [
        TableBucket(described.table_id, None, 9),
        TableBucket(4711, None, 0),
        TableBucket(described.table_id, 1, 0),
    ]
    codes = [fetched(cluster, bucket).error_code for bucket in unknown]
    assert codes == [ErrorCode.UNKNOWN_TABLE_OR_BUCKET] * 3
    assert fetched(cluster, buckets(described)[0], at=5).error_code == ErrorCode.LOG_OFFSET_OUT_OF_RANGE
    for columns in ([1], [0, 0], [-1]):
        actual = fetched(cluster, buckets(described)[0], columns=columns)
        assert actual.error_code == ErrorCode.INVALID_COLUMN_PROJECTION


def fetched(cluster: Cluster, bucket: TableBucket, *, at: int = 0, columns: list[int] | None = None):
    asked = pb.FetchBucket(
        bucket_id=bucket.bucket, partition_id=bucket.partition_id, fetch_offset=at, max_fetch_bytes=100
    )
    table = pb.FetchTable(
        table_id=bucket.table_id,
        projection_enabled=columns is not None,
        projected_fields=columns,
        buckets=[asked],
    )
    request = pb.FetchLogRequest(follower_server_id=-1, max_bytes=100, tables=[table])
    return cluster.call(apis.FETCH_LOG, request).tables[0].buckets[0]


def test_offsets_by_time_and_what_is_in_files(lake: Lake, cluster: Cluster):
    table = lake.create_table("shop.t", schema={"v": ts.INT}, options={**APPENDED, "bucket": 1})
    table.write([{"v": 1}, {"v": 2}])
    time.sleep(0.02)
    between = int(time.time() * 1000)
    time.sleep(0.02)
    table.write([{"v": 3}])
    described, admin = of(table, cluster), Admin(cluster)
    (bucket,) = buckets(described)
    assert [admin.offsets(described, [bucket], at)[bucket] for at in ("earliest", between, "latest")] == [
        0,
        2,
        3,
    ]
    assert admin.lake_snapshot(described.path) is None
    table.log.finish()
    snapshot = admin.lake_snapshot(described.path)
    assert (snapshot.snapshot_id, dict(snapshot.offsets)) == (table.log.newest_snapshot, {bucket: 3})


def test_a_table_made_again_is_another_one(lake: Lake, cluster: Cluster):
    table = lake.create_table("shop.t", schema={"v": ts.INT}, options=APPENDED)
    before = of(table, cluster)
    lake.drop_table("shop.t")
    after = of(lake.create_table("shop.t", schema={"w": ts.INT}, options={**LOG, "bucket-key": "w"}), cluster)
    assert before.table_id != after.table_id
    assert [c.name for c in after.columns] == ["w"]
    assert fetched(cluster, buckets(before)[0]).error_code == ErrorCode.UNKNOWN_TABLE_OR_BUCKET
    assert fetched(cluster, buckets(after)[0]).error_code == 0


def test_a_new_column_is_seen_at_once(lake: Lake, cluster: Cluster):
    table = lake.create_table("shop.t", schema={"v": ts.INT}, options=APPENDED)
    assert len(of(table, cluster).columns) == 1
    table.alter(ts.add("w", ts.INT))
    assert [c.name for c in of(table, cluster).columns] == ["v", "w"]


TIERED = {**APPENDED, "tablestore.tiering.freshness": "50 ms"}


def test_a_service_gets_a_table_and_a_new_coordinator_fences_it(
    lake: Lake, cluster: Cluster, coordinator: Coordinator
):
    table = lake.create_table("shop.t", schema={"v": ts.INT}, options=TIERED)
    lake.create_table("shop.u", schema={"v": ts.INT}, options={**UNTIERED, "bucket-key": "v"})
    admin = Admin(cluster)
    assert admin.heartbeat().coordinator_epoch == coordinator.epoch == 1
    given = granted(admin, 1)
    assert given == TableEpoch(of(table, cluster).table_id, 1, 1)
    assert [s.state for s in coordinator.tables()] == ["Tiering"]
    assert admin.heartbeat(HeartbeatRequest(tiering=(given,))).tiering == (TableResponse(given.table_id),)
    assert admin.heartbeat(HeartbeatRequest(finished=(given,))).finished == (TableResponse(given.table_id),)
    again = granted(admin, 1)
    assert again.tiering_epoch == 2
    assert code_for(admin.heartbeat(HeartbeatRequest(finished=(given,))).finished) == 50
    coordinator.close()
    with lake.coordinator() as newer, Cluster(newer.address) as other:
        assert newer.epoch == 2
        answer = Admin(other).heartbeat(HeartbeatRequest(tiering=(again,)))
        assert answer.coordinator_epoch == 2
        assert code_for(answer.tiering) == 23
        last = granted(Admin(other), 2)
        assert last.tiering_epoch == 3
        lake.drop_table("shop.t")
        time.sleep(1.1)
        assert code_for(Admin(other).heartbeat(HeartbeatRequest(tiering=(last,))).tiering) == 7


def code_for(results: tuple[TableResponse, ...]) -> int:
    (result,) = results
    assert result.error_code is not None
    assert result.message
    return result.error_code


def granted(admin: Admin, epoch: int) -> TableEpoch:
    """The table that is handed out, soon."""
    for _ in range(10_000):
        table = admin.heartbeat(HeartbeatRequest(request_table=True)).table
        if table is not None:
            assert table.table_path == "shop.t"
            return TableEpoch(table.table_id, epoch, table.tiering_epoch)
        time.sleep(0.02)
    raise AssertionError("no table was handed out")


# clients that are none


@pytest.fixture
def wire(coordinator: Coordinator) -> Iterator[socket.socket]:
    with signed_in(coordinator) as s:
        yield s


def test_an_unknown_call_and_a_body_that_is_none_are_errors(wire: socket.socket):
    assert code_of(asked(wire, 4711)) == ErrorCode.UNSUPPORTED_VERSION
    assert code_of(asked(wire, apis.FETCH_LOG.key, b"\xff\xff\xff")) == ErrorCode.CORRUPT_MESSAGE
    assert code_of(asked(wire, apis.GET_TABLE_INFO.key)) == ErrorCode.CORRUPT_MESSAGE
    no_text = b"\x0a\x02\xff\xfe"
    assert code_of(asked(wire, apis.LIST_TABLES.key, no_text)) == ErrorCode.CORRUPT_MESSAGE
    path = pb.TablePath(database_name="../..", table_name="etc/passwd")
    body = pb.GetTableInfoRequest(table_path=path).SerializeToString()
    assert code_of(asked(wire, apis.GET_TABLE_INFO.key, body)) == ErrorCode.TABLE_NOT_EXIST
    assert asked(wire, apis.LIST_DATABASES.key)[0] == 0


def test_requests_that_are_sent_ahead_are_answered_in_order(wire: socket.socket):
    frame = struct.pack(">ihhi", 8, apis.LIST_DATABASES.key, 0, 1)
    wire.sendall(frame * 50)
    assert [answered(wire)[0] for _ in range(50)] == [0] * 50


@pytest.mark.parametrize("size", [-1, 0, 7, (16 << 20) + 1, 0x7FFFFFFF])
def test_a_frame_of_an_impossible_length_ends_the_connection_with_an_error(wire: socket.socket, size: int):
    wire.sendall(struct.pack(">i", size) + b"x" * 20)
    assert code_of(answered(wire)) == ErrorCode.CORRUPT_MESSAGE
    assert ends(wire)


def test_random_bytes_harm_nobody(coordinator: Coordinator, wire: socket.socket):
    rng = random.Random(16)
    for key in sorted({apis.FETCH_LOG.key, apis.LAKE_TIERING_HEARTBEAT.key, *apis.APIS}):
        for _ in range(20):
            assert asked(wire, key, rng.randbytes(rng.randint(0, 60)))[0] in (0, 1)
    for _ in range(50):
        with connected(coordinator) as other:
            other.sendall(rng.randbytes(rng.randint(1, 200)))
    assert asked(wire, apis.LIST_DATABASES.key)[0] == 0


def test_it_listens_on_this_machine_only_and_ends(lake: Lake):
    with lake.coordinator() as c:
        assert c.server.startswith("127.0.0.1:")
        waits = connected(c)
    assert ends(waits)
    with pytest.raises(ConnectionRefusedError):
        connected(c)


def test_a_client_that_comes_while_it_ends_gets_no_answer():
    server = Server(lambda key, body, client: body)
    late = socket.create_connection((HOST, server.port), timeout=60)
    server._closed = True  # as `close` has it before it ends the thread that takes connections
    server.start("a password")
    with late:
        assert late.recv(1) == b""
    server.close()


def test_a_cast_of_an_instant_keeps_it():
    """What rows of the log become in a batch: the instant, without its zone."""
    aware = pa.array([1_700_000_000_000], pa.timestamp("ms", "UTC"))
    assert aware.cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist() == [1_700_000_000_000]


def test_leases_of_snapshots_are_answered_and_there_is_none_to_lease(lake: Lake, cluster: Cluster):
    log = lake.create_table("shop.t", schema={"v": ts.INT}, options=APPENDED)
    keyed = lake.create_table("shop.k", schema={"v": ts.INT.not_null()}, primary_key=["v"], options=LOG)
    first, second = (TableBucket(of(table, cluster).table_id, None, 0) for table in (keyed, log))
    assert Admin(cluster).kv_snapshots(of(keyed, cluster)) == {}
    assert acquire_lease(cluster, "mine", [KvSnapshot(first, 0, 0)]) == [first]
    assert acquire_lease(cluster, "mine", []) == []  # it is renewed
    release_lease(cluster, "mine", [first])
    for _ in range(2):
        drop_lease(cluster, "mine")
    refused(ErrorCode.NON_PRIMARY_KEY_TABLE, lambda: acquire_lease(cluster, "x", [KvSnapshot(second, 0, 0)]))
    refused(ErrorCode.NON_PRIMARY_KEY_TABLE, lambda: release_lease(cluster, "x", [second]))
    nowhere = TableBucket(4711, None, 0)
    refused(ErrorCode.TABLE_NOT_EXIST, lambda: acquire_lease(cluster, "x", [KvSnapshot(nowhere, 0, 0)]))
    refused(ErrorCode.TABLE_NOT_EXIST, lambda: release_lease(cluster, "x", [nowhere]))
