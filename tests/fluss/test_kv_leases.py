"""Leases of snapshots of keys: what is sent, and what becomes of refusals."""

from __future__ import annotations

import pytest

from tablestore.core.errors import TablestoreError
from tablestore.fluss import apis
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.kv import LEASE_MS, leased, release_lease
from tablestore.fluss.messages import pb
from tablestore.fluss.tables import KvSnapshot, TableBucket
from tests.fluss.test_admin import Recorded

ACQUIRE, RELEASE, DROP = (api.key for api in apis.APIS.values() if 1056 <= api.key <= 1058)
SNAPSHOTS = [
    KvSnapshot(TableBucket(7, None, 0), 3, 40),
    KvSnapshot(TableBucket(7, None, 1), 4, 50),
    KvSnapshot(TableBucket(8, 11, 0), 5, 60),
]
NOTHING = {ACQUIRE: b"", RELEASE: b"", DROP: b""}


class Leases:
    """A recorded coordinator of a version, and a cluster that asks it."""

    def __init__(self, minor: int, answers: dict[int, bytes | tuple[int, str]]) -> None:
        self.server = Recorded(minor, answers)
        self.cluster = Cluster(f"fluss://127.0.0.1:{self.server.port}", timeout=240)

    def __enter__(self) -> Leases:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()
        self.server.close()

    @property
    def keys(self) -> list[int]:
        """The calls about leases, in their order."""
        return [request.api_key for request in self.server.requests if request.api_key in NOTHING]


def test_snapshots_are_leased_for_a_day_and_no_longer_than_they_are_read() -> None:
    with Leases(9, NOTHING) as coordinator:
        with leased(coordinator.cluster, SNAPSHOTS):
            assert coordinator.keys == [ACQUIRE]
        assert coordinator.keys == [ACQUIRE, DROP]
        asked = pb.AcquireKvSnapshotLeaseRequest.FromString(coordinator.server.asked(ACQUIRE))
        listed = [
            (
                table.table_id,
                bucket.partition_id if bucket.HasField("partition_id") else None,
                bucket.bucket_id,
            )
            for table in asked.tables
            for bucket in table.buckets
        ]
        assert listed == [(7, None, 0), (7, None, 1), (8, 11, 0)]
        assert [bucket.snapshot_id for table in asked.tables for bucket in table.buckets] == [3, 4, 5]
        dropped = pb.DropKvSnapshotLeaseRequest.FromString(coordinator.server.asked(DROP))
        assert (asked.lease_id, asked.lease_duration_ms) == (dropped.lease_id, LEASE_MS)
        assert len(asked.lease_id) == 36
        release_lease(coordinator.cluster, "mine", [SNAPSHOTS[2].bucket])
        released = coordinator.server.asked(RELEASE)
        bucket = pb.LeasedBucket(table_id=8, partition_id=11, bucket_id=0)
        assert (
            released
            == pb.ReleaseKvSnapshotLeaseRequest(lease_id="mine", buckets=[bucket]).SerializeToString()
        )


def test_older_clusters_and_tables_without_snapshots_are_not_asked() -> None:
    for minor, snapshots in ((8, SNAPSHOTS), (9, [])):
        with Leases(minor, NOTHING) as coordinator:
            with leased(coordinator.cluster, snapshots):
                pass
            assert coordinator.keys == []


def test_a_snapshot_that_is_gone_is_an_error_and_a_lease_is_dropped_whatever_comes() -> None:
    gone = pb.AcquireKvSnapshotLeaseResponse()
    gone.unavailable.add(table_id=8).buckets.add(partition_id=11, bucket_id=0, snapshot_id=5)
    with Leases(9, {**NOTHING, ACQUIRE: gone.SerializeToString()}) as coordinator:
        with pytest.raises(FlussError, match="partition 11") as e, leased(coordinator.cluster, SNAPSHOTS):
            raise AssertionError("it is not read")
        assert (e.value.code, coordinator.keys) == (ErrorCode.KV_SNAPSHOT_NOT_EXIST, [ACQUIRE, DROP])
    with Leases(9, NOTHING) as coordinator:
        with pytest.raises(RuntimeError), leased(coordinator.cluster, SNAPSHOTS):
            raise RuntimeError("the reader fails")
        assert coordinator.keys == [ACQUIRE, DROP]


def test_a_refusal_is_an_error_before_the_read_and_a_warning_after_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusal = (int(ErrorCode.NON_PRIMARY_KEY_TABLE), "no key")
    with Leases(9, {**NOTHING, ACQUIRE: refusal}) as coordinator:
        with pytest.raises(FlussError) as e, leased(coordinator.cluster, SNAPSHOTS):
            raise AssertionError("it is not read")
        assert e.value.code == ErrorCode.NON_PRIMARY_KEY_TABLE
    assert isinstance(e.value, TablestoreError)
    with Leases(9, {**NOTHING, DROP: (-1, "busy")}) as coordinator:
        with leased(coordinator.cluster, SNAPSHOTS):
            pass
        assert coordinator.keys == [ACQUIRE, DROP]
    assert any("ends by itself in a day" in record.message for record in caplog.records)
