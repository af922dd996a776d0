"""A private Fluss, with what tests do to its tables."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from notebooks.bench.tier_scale import with_leaders
from notebooks.demo.fluss import FlussCluster
from tablestore.fluss.admin import EARLIEST, LATEST, Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.log_scan import LogScan, ScanBatch
from tablestore.fluss.tables import FlussColumn, FlussTable, TableDescriptor, TablePath
from tablestore.format.types.data_type import DataType
from tests.suite import counterparts

DATABASE = "fluss"  # each cluster is made with it
KILLED_SESSION_SECONDS = 12
"""How long a server that is to be killed may be without a processor, and ZooKeeper believes in it after."""
LAKE = {"table.datalake.enabled": "true", "table.datalake.freshness": "1s"}


@dataclass(frozen=True)
class Fluss:
    """A running cluster: `servers` can be killed and started, `cluster` and `admin` talk to it."""

    servers: FlussCluster
    cluster: Cluster
    admin: Admin

    @property
    def address(self) -> str:
        """Host and port of the coordinator."""
        return self.servers.address

    def table(
        self,
        columns: Mapping[str, DataType],
        *,
        key: Sequence[str] = (),
        partitions: Sequence[str] = (),
        bucket_keys: Sequence[str] = (),
        buckets: int = 1,
        name: str = "",
        properties: Mapping[str, str] | None = None,
    ) -> FlussTable:
        """A new table, of a name of its own unless one is given; columns of keys must not be nullable."""
        made = TableDescriptor(
            tuple(FlussColumn(column, t) for column, t in columns.items()),
            *(tuple(key), tuple(partitions), tuple(bucket_keys), buckets, dict(properties or {})),
        )
        path = TablePath(DATABASE, name or f"t_{uuid.uuid4().hex[:12]}")
        return self.admin.create_table(path, made) if partitions else with_leaders(self.admin, path, made)

    def drop_tables(self) -> None:
        """Drop all that were made."""
        for path in self.admin.tables(DATABASE):
            self.admin.drop_table(path)

    def read(self, table: FlussTable, columns: Sequence[str] | None = None) -> list[ScanBatch]:
        """All batches of the table's log as it is now."""
        buckets = self.admin.buckets(table)
        start, stop = (self.admin.offsets(table, buckets, at) for at in (EARLIEST, LATEST))
        with LogScan(self.cluster, table, start, stop, columns=columns, stall_seconds=240) as scan:
            return list(scan)

    def rows(self, table: FlussTable) -> pa.Table:
        """All rows of the table's log as it is now, bucket by bucket, without their kinds."""
        found = sorted(self.read(table), key=lambda b: (b.bucket, b.base))
        return pa.Table.from_batches([batch.rows for batch in found], table.arrow_schema)


@contextlib.contextmanager
def fluss_cluster(
    settings: Mapping[str, str] | None = None,
    *,
    tablet_servers: int = 1,
    users: Mapping[str, str] | None = None,
) -> Iterator[Fluss]:
    """It lives for a run; skips, with a reason, where there can be none. With `users` it requires that they
    sign in; here the first does, with the password of the environment."""
    counterparts.need("Fluss")
    user = f"{next(iter(users))}@" if users else ""
    private = FlussCluster(settings, tablet_servers=tablet_servers, users=users)
    with private, Cluster(f"{user}{private.address}") as cluster:
        yield Fluss(private, cluster, Admin(cluster))
