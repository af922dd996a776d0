"""Leases of snapshots of keyed tables, from Fluss 0.9 on: the cluster keeps what is under one, though it has
newer snapshots. Without a lease it keeps the newest few alone, by default one.

A lease has a name that its holder makes. It ends when it is dropped, when all its buckets are released, or by
itself after its time, at the cluster's next look (`kv.snapshot.lease.expiration-check-interval`, 10 minutes).
Fluss 0.9 gives a lease of a snapshot that is gone, too: only reading shows that it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tablestore.core.errors import TablestoreError, brief
from tablestore.fluss import answers, apis
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.messages import pb
from tablestore.fluss.tables import KvSnapshot, TableBucket

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
