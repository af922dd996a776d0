"""Servers of a real Fluss that die and come back: nothing hangs, each row is there once."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from tablestore.core.errors import Unavailable
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.connection import FlussConnection
from tablestore.fluss.heartbeat import HeartbeatRequest
from tablestore.fluss.log_scan import LogScan
from tablestore.fluss.scan_state import LogStalled
from tablestore.fluss.tables import TableBucket
from tablestore.fluss.write import TableWriter
from tablestore.format.types.arrow_types import BIGINT
from tests.fluss.losing_proxy import LosingProxy
from tests.servers.fluss import Fluss

BATCHES, ROWS = 60, 500


class _LosingCluster(Cluster):
    """Its connections pass a proxy, which loses every third connection behind a request, before the
    answer."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, timeout=5)
        self.proxies: dict[int, LosingProxy] = {}

    def connection_to(self, host: str, port: int) -> FlussConnection:
        if port not in self.proxies:
            self.proxies[port] = LosingProxy(port)
        return super().connection_to(host, self.proxies[port].port)


def test_rows_whose_answers_are_lost_are_there_once(fluss: Fluss) -> None:
    log = fluss.table({"id": BIGINT.not_null()})
    keyed = fluss.table({"id": BIGINT.not_null()}, key=["id"], buckets=2)
    with _LosingCluster(fluss.address) as cluster:
        writers = TableWriter(cluster, log), TableWriter(cluster, keyed)
        for i in range(10):
            writers[0].append(pa.table({"id": range(i * 10, i * 10 + 10)}))
            writers[1].upsert(pa.table({"id": range(i * 10, i * 10 + 10)}))
        assert sum(proxy.lost for proxy in cluster.proxies.values()) > 5
        start = dict.fromkeys(fluss.admin.buckets(log), 0)
        with LogScan(cluster, log, start, fluss.admin.offsets(log, start)) as scan:
            actual = [i for batch in scan for i in batch.rows["id"].to_pylist()]
        assert actual == list(range(100))
        for proxy in cluster.proxies.values():
            proxy.close()
    assert fluss.rows(log)["id"].to_pylist() == list(range(100))
    assert sorted(fluss.rows(keyed)["id"].to_pylist()) == list(range(100))  # no row was updated


@pytest.mark.large
def test_writers_and_readers_outlive_a_tablet_server_that_is_killed(killed_fluss: Fluss) -> None:
    table = killed_fluss.table({"id": BIGINT.not_null()}, buckets=2)
    failed: list[BaseException] = []
    written, killed = threading.Event(), threading.Event()

    def write() -> None:
        try:
            with Cluster(killed_fluss.address, timeout=5) as cluster:
                writer = TableWriter(cluster, table, seconds=240)
                for i in range(BATCHES):
                    rows = pa.table({"id": range(i * ROWS, (i + 1) * ROWS)})
                    writer.append(rows, bucket=i % 2)
                    if i == BATCHES // 3:
                        time.sleep(0.5)  # a killed server has lost what it wrote just before
                        written.set()
                        killed.wait(240)
        except BaseException as e:
            failed.append(e)

    writer = threading.Thread(target=write)
    writer.start()
    assert written.wait(240), failed
    killed_fluss.servers.kill("tablet-0")
    killed.set()
    with (
        Cluster(killed_fluss.address, timeout=2) as cluster,
        LogScan(cluster, table, {TableBucket(table.table_id, None, 0): 0}, stall_seconds=1) as scan,
    ):
        said = f"{table.path}: table {table.table_id} bucket 0 gave nothing from offset 0"
        with pytest.raises(LogStalled, match=said):
            scan.poll(60)
    killed_fluss.servers.start("tablet-0")
    actual: dict[int, list[int]] = {0: [], 1: []}
    buckets = killed_fluss.admin.buckets(table)
    with LogScan(killed_fluss.cluster, table, dict.fromkeys(buckets, 0), stall_seconds=240) as scan:
        until = time.monotonic() + 240
        while sum(map(len, actual.values())) < BATCHES * ROWS and not failed:
            assert time.monotonic() < until, {bucket: len(ids) for bucket, ids in actual.items()}
            for batch in scan.poll(1):
                assert batch.base == len(actual[batch.bucket.bucket])
                actual[batch.bucket.bucket] += batch.rows["id"].to_pylist()
        writer.join()
        assert not failed
        assert scan.poll(0.2) == []
    for bucket in (0, 1):
        wanted = [i for n in range(bucket, BATCHES, 2) for i in range(n * ROWS, (n + 1) * ROWS)]
        assert actual[bucket] == wanted


@pytest.mark.large
def test_a_coordinator_that_is_gone_is_an_error_in_time_and_its_successor_is_found(
    killed_fluss: Fluss,
) -> None:
    table = killed_fluss.table({"id": BIGINT.not_null()})
    with Cluster(killed_fluss.address, timeout=2) as cluster:
        admin = Admin(cluster)
        before = admin.table(table.path)
        killed_fluss.servers.kill("coordinator")
        start = time.monotonic()
        with pytest.raises(Unavailable):
            admin.heartbeat(HeartbeatRequest(request_table=True))
        with pytest.raises(Unavailable):
            admin.table(table.path)
        assert time.monotonic() - start < 240
        killed_fluss.servers.start("coordinator")
        assert admin.table(table.path) == before
        assert admin.heartbeat().coordinator_epoch == 0  # Fluss forgets it
        TableWriter(cluster, table).append(pa.table({"id": [1]}))
        assert killed_fluss.rows(table)["id"].to_pylist() == [1]
