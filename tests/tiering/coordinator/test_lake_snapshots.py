"""What the coordinator knows of other lakes: offsets that are prepared before a commit, snapshots that are
named after it, also across a restart; and services of others, which get no table whose lake is itself."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.fluss import apis
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.heartbeat import HeartbeatRequest
from tablestore.fluss.messages import pb
from tablestore.fluss.tables import FlussTable, TableBucket, TablePath
from tablestore.table.lake import Lake
from tablestore.table.table import Table
from tablestore.tiering.coordinator.coordinator import Coordinator
from tests.tiering.coordinator.wire import asked, signed_in

TIERED = {
    **{"log.system": "embedded", "bucket": 2, "tablestore.tiering.enabled": True},
    **{"tablestore.tiering.freshness": "50 ms"},
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return ts.connect(tmp_path)


@pytest.fixture
def table(lake: Lake) -> Table:
    created = lake.create_table("shop.t", schema={"v": ts.INT}, options={**TIERED, "bucket-key": "v"})
    created.write([{"v": n} for n in range(40)])
    assert min(created.log.end.values()) >= 9
    return created


class SnapshotClient:
    """A service of ours at a coordinator of the lake."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.version == (0, 9)
        self.cluster, self.admin = cluster, Admin(cluster)
        self.table: FlussTable = self.admin.table(TablePath("shop", "t"))
        self.buckets = [TableBucket(self.table.table_id, None, bucket) for bucket in range(2)]

    def prepare(self, *offsets: int | None, ignores: bool = False) -> str:
        request = pb.PrepareLakeTableSnapshotRequest(ignore_previous_offsets=ignores)
        added = request.tables.add(table_id=self.table.table_id)
        added.table_path.database_name, added.table_path.table_name = "shop", "t"
        for bucket, offset in enumerate(offsets):
            if offset is not None:
                added.buckets.add(bucket_id=bucket, log_end_offset=offset)
        (prepared,) = self.cluster.call(apis.PREPARE_LAKE_TABLE_SNAPSHOT, request).tables
        assert (prepared.table_id, prepared.error_code) == (self.table.table_id, 0), prepared.error_message
        return prepared.offsets_path

    def name(self, snapshot_id: int, path: str, readable: str | None = None) -> None:
        self.admin.commit_lake_snapshot(self.table, snapshot_id, {}, prepared=path, readable=readable)

    def known(self, **asked_for: object) -> tuple[int, list[int]]:
        """The snapshot and the offsets of its buckets, in their order."""
        request = pb.GetLakeSnapshotRequest(**asked_for)
        request.table_path.database_name, request.table_path.table_name = "shop", "t"
        actual = self.cluster.call(apis.GET_LAKE_SNAPSHOT, request)
        return actual.snapshot_id, [bucket.log_offset for bucket in actual.buckets]


@pytest.fixture
def client(lake: Lake, table: Table) -> Iterator[SnapshotClient]:
    with lake.coordinator() as coordinator, Cluster(coordinator.address, timeout=240) as cluster:
        yield SnapshotClient(cluster)


def refused(call, code: int) -> bool:
    with pytest.raises(FlussError) as caught:
        call()
    assert caught.value.message
    return caught.value.code == code


def test_prepared_offsets_are_those_of_the_snapshot_that_is_named(
    client: SnapshotClient, table: Table, lake: Lake
):
    path = client.prepare(5, None)
    place = f"{lake.warehouse}/.tablestore/coordinator/lake/shop/t-{client.table.table_id}/metadata/"
    assert path.startswith(place)
    assert json.loads(Path(path).read_text()) == {
        **{"version": 1, "table_id": client.table.table_id, "bucket_offsets": [5]}
    }
    assert refused(client.known, ErrorCode.LAKE_SNAPSHOT_NOT_EXIST)
    client.name(1, path)
    assert client.known() == (1, [5])
    later = client.prepare(None, 7)  # of a bucket that it does not say the offset stays
    client.name(4, later)
    assert client.known() == client.known(snapshot_id=4) == (4, [5, 7])
    assert refused(lambda: client.known(snapshot_id=1), ErrorCode.LAKE_SNAPSHOT_NOT_EXIST)
    client.name(5, client.prepare(6, None, ignores=True))
    assert client.known() == (5, [6])
    assert refused(
        lambda: client.admin.prepare_lake_snapshot(client.table, {client.buckets[0]: 1000}),
        ErrorCode.LOG_OFFSET_OUT_OF_RANGE,
    )


def test_a_readable_snapshot_stays_until_a_later_one_is_readable(client: SnapshotClient, table: Table):
    first = client.prepare(1, 1)
    client.name(1, first)
    assert refused(lambda: client.known(readable=True), ErrorCode.LAKE_SNAPSHOT_NOT_EXIST)
    client.name(2, first, readable=first)
    second = client.prepare(3, 3)
    client.name(3, second)
    assert (client.known(), client.known(readable=True)) == ((3, [3, 3]), (2, [1, 1]))
    client.name(4, second, readable=first)
    assert client.known(readable=True) == (4, [1, 1])


def test_the_next_coordinator_knows_what_was_named_and_what_was_prepared(lake: Lake, table: Table):
    with lake.coordinator() as c, Cluster(c.address, timeout=240) as cluster:
        client = SnapshotClient(cluster)
        client.name(1, client.prepare(2, 3))
        unnamed = client.prepare(4, None)
    with lake.coordinator() as c, Cluster(c.address, timeout=240) as cluster:
        client = SnapshotClient(cluster)
        assert client.known() == (1, [2, 3])
        client.name(2, unnamed)
        assert client.known() == (2, [4, 3])
        kept = Path(unnamed).parent / "registered"
        kept.write_bytes(b"[]")
    with lake.coordinator() as c, Cluster(c.address, timeout=240) as cluster:
        client = SnapshotClient(cluster)
        assert refused(client.known, ErrorCode.LAKE_SNAPSHOT_NOT_EXIST)  # damaged: services say it again
        client.name(2, unnamed)
        assert client.known() == (2, [4, 3])


def test_a_path_that_the_coordinator_did_not_give_is_not_read(client: SnapshotClient, tmp_path: Path):
    path = Path(client.prepare(1, 1))
    elsewhere = tmp_path / path.name
    elsewhere.write_bytes(path.read_bytes())
    for wrong in (
        str(elsewhere),
        "/etc/passwd",
        f"{path.parent}/../metadata/{path.name}",
        f"{path.parent}/x",
    ):
        assert refused(lambda wrong=wrong: client.name(1, wrong), ErrorCode.CORRUPT_MESSAGE)
    path.write_bytes(b"{}")
    assert refused(lambda: client.name(1, str(path)), ErrorCode.LAKE_SNAPSHOT_NOT_EXIST)
    path.unlink()
    assert refused(lambda: client.name(1, str(path)), ErrorCode.LAKE_SNAPSHOT_NOT_EXIST)
    assert refused(client.known, ErrorCode.LAKE_SNAPSHOT_NOT_EXIST)


def test_of_the_files_of_offsets_the_newest_few_stay(client: SnapshotClient):
    for n in range(12):
        path = client.prepare(n // 2, 1)
        client.name(n + 1, path)
    files = list(Path(path).parent.glob("*.offsets"))
    assert (len(files), Path(path) in files) == (8, True)


def test_services_up_to_0_8_name_a_snapshot_and_get_the_answer_they_know(client: SnapshotClient):
    request = pb.CommitLakeTableSnapshotRequest()
    for table_id in (client.table.table_id, 4711):
        added = request.tables.add(table_id=table_id, snapshot_id=3)
        added.buckets.add(bucket_id=1, log_end_offset=2)
    answer = client.cluster.call(apis.COMMIT_LAKE_TABLE_SNAPSHOT, request)
    codes = [(table_answer.table_id, table_answer.error_code) for table_answer in answer.tables]
    assert codes == [(client.table.table_id, 0), (4711, ErrorCode.TABLE_NOT_EXIST)]
    assert client.known() == (3, [2])
    token = client.cluster.call(apis.GET_FILE_SYSTEM_SECURITY_TOKEN, pb.GetFileSystemSecurityTokenRequest())
    assert (token.scheme, token.token) == ("file", b"")


def granted(wire: socket.socket) -> str | None:
    """The table that a service of others gets."""
    body = pb.LakeTieringHeartbeatRequest(request_table=True).SerializeToString()
    kind, answer = asked(wire, apis.LAKE_TIERING_HEARTBEAT.key, body)
    assert kind == 0
    actual = pb.LakeTieringHeartbeatResponse.FromString(answer)
    return actual.tiering_table.table_path.table_name if actual.HasField("tiering_table") else None


def are_due(coordinator: Coordinator, count: int) -> bool:
    return sum(table_state.state == "Pending" for table_state in coordinator.tables()) == count


def test_a_table_whose_lake_is_itself_is_not_handed_to_a_service_of_others(
    lake: Lake, table: Table, caplog: pytest.LogCaptureFixture
):
    own = lake.create_table("shop.own", schema={"v": ts.INT}, options={**TIERED, "bucket-key": "v"})
    own.write([{"v": 1}])
    own.log.finish()
    with lake.coordinator() as coordinator, signed_in(coordinator) as wire:
        over = time.monotonic() + 240
        while not are_due(coordinator, 2):
            assert time.monotonic() < over
            time.sleep(0.05)
        hello = pb.ApiVersionsRequest(client_name="fluss", client_version="0.9").SerializeToString()
        assert asked(wire, apis.API_VERSIONS.key, hello)[0] == 0
        assert [granted(wire) for _ in range(3)] == ["t", None, None]
        said = [record.message for record in caplog.records if "is not handed to" in record.message]
        assert len(said) == 1
        assert said[0].startswith("shop.own is not handed to 'fluss'")
        with Cluster(coordinator.address, timeout=240) as cluster:
            ours = Admin(cluster).heartbeat(HeartbeatRequest(request_table=True)).table
            assert ours is not None
            assert ours.table_path == "shop.own"
