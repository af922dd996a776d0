"""A private Fluss, with what tests do to its tables."""

from __future__ import annotations

import contextlib
import signal
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa

from notebooks.bench.tier_scale import is_led, with_leaders
from notebooks.demo.fluss import VERSION, FlussCluster
from tablestore.fluss.admin import EARLIEST, LATEST, Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import ErrorCode
from tablestore.fluss.log_scan import LogScan
from tablestore.fluss.scan_state import ScanBatch
from tablestore.fluss.tables import FlussColumn, FlussTable, TableDescriptor, TablePath
from tablestore.format.types.arrow_types import BIGINT
from tablestore.format.types.data_type import DataType
from tests.suite import counterparts

DATABASE = "fluss"  # each cluster is made with it
KILLED_SESSION_SECONDS = 12
"""How long a server that is to be killed may be without a processor, and ZooKeeper believes in it after."""
LEADER_SECONDS = 20.0
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
        """A new table, of a name of its own unless one is given; columns of keys must not be nullable. Of
        `properties` those that begin with `paimon.` are options of the lake table."""
        of_lake = {k: v for k, v in (properties or {}).items() if k.startswith("paimon.")}
        of_fluss = {k: v for k, v in (properties or {}).items() if k not in of_lake}
        created = TableDescriptor(
            tuple(FlussColumn(column, t) for column, t in columns.items()),
            *(tuple(key), tuple(partitions), tuple(bucket_keys), buckets, of_fluss, of_lake),
        )
        path = TablePath(DATABASE, name or f"t_{uuid.uuid4().hex[:12]}")
        return (
            self.admin.create_table(path, created) if partitions else with_leaders(self.admin, path, created)
        )

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
        content = sorted(self.read(table), key=lambda b: (b.bucket, b.base))
        return pa.Table.from_batches([batch.rows for batch in content], table.arrow_schema)


@contextlib.contextmanager
def fluss_cluster(
    settings: Mapping[str, str] | None = None,
    *,
    tablet_servers: int = 1,
    users: Mapping[str, str] | None = None,
    version: str = VERSION,
) -> Iterator[Fluss]:
    """It lives for a run; skips, with a reason, where there can be none. With `users` it requires that they
    sign in; here the first does, with the password of the environment."""
    counterparts.need("Fluss" if version == VERSION else "Fluss 0.9")
    user = f"{next(iter(users))}@" if users else ""
    private = FlussCluster(settings, tablet_servers=tablet_servers, users=users, version=version)
    with private, Cluster(f"{user}{private.address}") as cluster:
        yield Fluss(private, cluster, Admin(cluster))


class SharedFluss:
    """The cluster of a whole run. A Fluss 0.7.0 may, once in some thousand tables that come and go on a busy
    machine, give no bucket a leader any more: `cluster` makes another one then, with a warning."""

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()
        self._cluster: Fluss | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def cluster(self, problem: str = "") -> Fluss:
        """It gives new tables leaders, and is another than that of which a `problem` says that it gives
        none."""
        deaf = ErrorCode.LEADER_NOT_AVAILABLE.name in problem
        if self._cluster is not None and (deaf or not _gives_leaders(self._cluster)):
            warnings.warn(f"a Fluss that gives no leaders:\n{_state(self._cluster)}", stacklevel=2)
            self._open.close()
            self._cluster = None
        if self._cluster is None:
            self._cluster = self._open.enter_context(fluss_cluster())
        return self._cluster

    def drop_tables(self) -> None:
        """Drop all tables of the cluster of now."""
        if self._cluster is not None:
            self._cluster.drop_tables()


def _gives_leaders(fluss: Fluss) -> bool:
    """Whether a new table has a leader within `LEADER_SECONDS`."""
    path = TablePath(DATABASE, f"led_{uuid.uuid4().hex[:12]}")
    table = fluss.admin.create_table(path, TableDescriptor((FlussColumn("id", BIGINT),)))
    led = is_led(fluss.admin, table, LEADER_SECONDS)
    if led:
        fluss.admin.drop_table(path)
    return led


def _state(fluss: Fluss) -> str:
    """What its coordinator printed, the stacks of its threads among it."""
    fluss.servers.signal("coordinator", signal.SIGQUIT)  # a JVM prints its stacks
    time.sleep(1)
    return fluss.servers.output("coordinator")[-20_000:]
