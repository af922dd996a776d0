"""A real Fluss of three tablet servers: leaders are spread, move and die; no acknowledged row is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.fluss.admin import LATEST
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.log_scan import LogScan
from tablestore.fluss.tables import FlussTable, TableBucket
from tablestore.fluss.write import TableWriter
from tests.servers.fluss import LAKE, Fluss, fluss_cluster
from tests.servers.test_fluss_tiering import (
    COLUMNS,
    Appending,
    in_lake,
    is_tiered,
    log_end,
    numbers,
    require_log_in_lake,
    service,
    until,
)

pytestmark = pytest.mark.large


@pytest.fixture(scope="module")
def replicated() -> Iterator[Fluss]:
    """A server that is killed has lost all rows that others do not have."""
    never = {"log.replica.high-watermark.checkpoint-interval": "1h"}
    with fluss_cluster(never, tablet_servers=3) as running:
        yield running


def leaders(fluss: Fluss, table: FlussTable) -> dict[int, int]:
    """The port of the leader of each bucket, by a client that knows nothing yet."""
    with Cluster(fluss.address, timeout=240) as cluster:
        actual = cluster.retried(lambda: cluster.by_leader(table, fluss.admin.buckets(table)), ())
        return {bucket.bucket: server.port for server, buckets in actual.items() for bucket in buckets}


def server_of(fluss: Fluss, port: int) -> str:
    return next(server for server, its_port in fluss.servers._ports.items() if its_port == port)


def of_replicas(fluss: Fluss, replicas: int) -> FlussTable:
    return fluss.table(COLUMNS, buckets=3, properties={**LAKE, "table.replication.factor": str(replicas)})


def test_leaders_are_spread_and_one_that_is_none_any_more_sends_readers_and_writers_on(
    replicated: Fluss, tmp_path: Path
) -> None:
    for replicas in (1, 3):
        table = of_replicas(replicated, replicas)
        led = leaders(replicated, table)
        assert len(set(led.values())) == 3
        with Cluster(replicated.address) as cluster:
            writer = TableWriter(cluster, table)
            for bucket in range(3):
                writer.append(numbers(bucket * 100, 100), bucket=bucket)
            ids = {server.port: server.node_id for server in cluster.servers}
            buckets = replicated.admin.buckets(table)
            stop = replicated.admin.offsets(table, buckets, LATEST)
            wrong = {TableBucket(table.table_id, None, b): ids[led[(b + 1) % 3]] for b in range(3)}
            cluster._leaders.update(wrong)  # what a client believes whose leaders have all moved
            with LogScan(cluster, table, dict.fromkeys(buckets, 0), stop, stall_seconds=240) as scan:
                actual = [i for batch in scan for i in batch.rows["id"].to_pylist()]
            assert sorted(actual) == list(range(300))
            cluster._leaders.update(wrong)
            writer.append(numbers(300, 10), bucket=0)
        lake = ts.connect(tmp_path)
        with service(replicated, lake, [table], follow=False, log_columns=True) as job:
            assert job.wait(240)
        require_log_in_lake(replicated, lake, table)
        assert in_lake(lake, table).num_rows == 310


def test_a_leader_that_is_killed_while_rows_come_loses_none_that_others_have(
    replicated: Fluss, tmp_path: Path
) -> None:
    table, lake = of_replicas(replicated, 3), ts.connect(tmp_path)
    before = leaders(replicated, table)
    with service(replicated, lake, [table], log_columns=True, poll="50ms") as job:
        with Appending(replicated, table) as appending:
            until(lambda: in_lake(lake, table).num_rows > 2_000, 240, "rows before")
            server = server_of(replicated, before[0])
            replicated.servers.kill(server)
            rows = appending.rows
            until(lambda: appending.rows > rows + 2_000, 240, "rows behind the kill")
            until(lambda: in_lake(lake, table).num_rows > rows + 2_000, 240, "they are in the lake")
        until(lambda: is_tiered(replicated, table), 240, "the end of the log")
        assert any(round_report.outcome == "committed" for round_report in job.rounds())
    after = leaders(replicated, table)
    assert before[0] not in after.values()
    replicated.servers.start(server)
    assert sorted(in_lake(lake, table)["id"].to_pylist()) == list(range(appending.rows))
    require_log_in_lake(replicated, lake, table)


def test_rows_that_the_only_replica_lost_are_noticed_though_the_log_has_grown_again(
    replicated: Fluss, tmp_path: Path
) -> None:
    table, lake = of_replicas(replicated, 1), ts.connect(tmp_path)
    options = {"follow": False, "log_columns": True}
    with Cluster(replicated.address, timeout=5) as cluster:
        writer = TableWriter(cluster, table, seconds=240)
        for bucket in range(3):
            writer.append(numbers(bucket * 100, 100), bucket=bucket)
        with service(replicated, lake, [table], **options) as job:
            assert job.wait(240)
        server = server_of(replicated, leaders(replicated, table)[0])
        replicated.servers.kill(server)
        replicated.servers.start(server)
        writer = TableWriter(cluster, table, seconds=240)  # the former would be refused, by its numbers
        for bucket in range(3):
            writer.append(numbers(1000 + bucket * 100, 150), bucket=bucket)
    ends = {b.bucket: end for b, end in log_end(replicated, table).items()}
    assert ends[0] in range(101, 250), ends  # the offsets alone say nothing
    with service(replicated, lake, [table], **options) as job:
        assert job.wait(240)
        (state,) = job.tables()
    assert state.reason.startswith("ROWS ARE LOST: bucket 0: the log was cut below offset 100")
    assert in_lake(lake, table).num_rows == 300
    with service(replicated, lake, [table], lost_rows="skip", **options) as job:
        assert job.wait(240)
        assert "passed over" in job.rounds()[-1].notes[0]
    assert in_lake(lake, table).num_rows == sum(ends.values())
    assert is_tiered(replicated, table)
