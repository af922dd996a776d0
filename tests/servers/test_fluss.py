"""The client of a real Fluss: what it says of tables, logs and itself."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap

import pyarrow as pa
import pytest

import tablestore.fluss
from tablestore.core.errors import Unsupported
from tablestore.fluss import apis
from tablestore.fluss.admin import EARLIEST, Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import FlussError
from tablestore.fluss.heartbeat import HeartbeatRequest, TableEpoch
from tablestore.fluss.log_scan import LogScan
from tablestore.fluss.messages import pb
from tablestore.fluss.tables import FlussColumn, TableBucket, TableDescriptor, TablePath
from tablestore.fluss.write import TableWriter
from tablestore.format.types.arrow_types import BIGINT, STRING
from tests.servers.fluss import LAKE, Fluss
from tests.suite import counterparts

COLUMNS = {"id": BIGINT.not_null(), "name": STRING}


def test_a_cluster_tells_its_version_and_what_it_does_not_serve(fluss: Fluss) -> None:
    assert fluss.cluster.version == (0, 7)
    with pytest.raises(Unsupported, match="FetchLog at 127"):
        fluss.cluster.call(apis.FETCH_LOG, pb.FetchLogRequest(follower_server_id=-1, max_bytes=1))


def test_databases(fluss: Fluss) -> None:
    fluss.admin.create_database("made", comment="here")
    assert "made" in fluss.admin.databases()
    with pytest.raises(FlussError, match="CreateDatabase made: Fluss error 6 DATABASE_ALREADY_EXIST"):
        fluss.admin.create_database("made")
    fluss.admin.create_database("made", ignore_if_exists=True)
    assert fluss.admin.tables("made") == []
    fluss.admin.drop_database("made")
    with pytest.raises(FlussError, match="4 DATABASE_NOT_EXIST"):
        fluss.admin.drop_database("made")


def test_tables(fluss: Fluss) -> None:
    table = fluss.table(COLUMNS, key=["id"], buckets=3, properties=LAKE)
    assert (table.buckets, table.primary_key, table.bucket_keys) == (3, ("id",), ("id",))
    assert (table.lake_enabled, table.lake_format, table.freshness_ms) == (True, "paimon", 1000)
    assert {column.name: column.type for column in table.columns} == COLUMNS
    assert table.path in fluss.admin.tables(table.path.database)
    assert fluss.admin.columns(table.path) == table.columns
    assert fluss.admin.table_exists(table.path)
    fluss.admin.drop_table(table.path)
    assert not fluss.admin.table_exists(table.path)
    with pytest.raises(FlussError, match=f"GetTableInfo {table.path}: Fluss error 7 TABLE_NOT_EXIST"):
        fluss.admin.table(table.path)


def test_a_table_that_is_made_again_has_another_id(fluss: Fluss) -> None:
    first = fluss.table(COLUMNS)
    fluss.admin.drop_table(first.path)
    second = fluss.admin.create_table(first.path, first.descriptor)
    assert second.table_id > first.table_id


def test_partitions(fluss: Fluss) -> None:
    columns = {**COLUMNS, "day": STRING.not_null()}
    table = fluss.table(columns, key=["id", "day"], partitions=["day"], buckets=2)
    assert (table.physical_primary_key, fluss.admin.partitions(table.path)) == (("id",), ())
    for day in ("2026-01-02", "2026-01-01"):
        fluss.admin.create_partition(table.path, {"day": day})
    partitions = fluss.admin.partitions(table.path)
    assert [partition.name for partition in partitions] == ["2026-01-02", "2026-01-01"]
    assert len(fluss.admin.buckets(table)) == 4
    with pytest.raises(FlussError, match="42 PARTITION_ALREADY_EXISTS"):
        fluss.admin.create_partition(table.path, {"day": "2026-01-01"})
    fluss.admin.drop_partition(table.path, {"day": "2026-01-02"})
    assert [partition.name for partition in fluss.admin.partitions(table.path)] == ["2026-01-01"]
    with pytest.raises(FlussError, match="37 TABLE_NOT_PARTITIONED"):
        fluss.admin.partitions(fluss.table(COLUMNS).path)


def test_offsets_of_buckets_that_are_just_starting_are_waited_for(fluss: Fluss) -> None:
    table = fluss.table(COLUMNS, buckets=4)
    buckets = fluss.admin.buckets(table)
    assert fluss.admin.offsets(table, buckets) == fluss.admin.offsets(table, buckets, EARLIEST)
    with pytest.raises(FlussError, match=f"{table.path}: .*38 INVALID_TIMESTAMP"):
        fluss.admin.offsets(table, buckets, 1 << 50)


def test_lake_snapshots_are_kept_bucket_by_bucket(fluss: Fluss) -> None:
    table = fluss.table(COLUMNS, buckets=2, properties=LAKE)
    first, second = fluss.admin.buckets(table)
    assert fluss.admin.lake_snapshot(table.path) is None
    fluss.admin.commit_lake_snapshot(table, 7, {first: 10, second: 20})
    fluss.admin.commit_lake_snapshot(table, 8, {second: 25})
    lake_snapshot = fluss.admin.lake_snapshot(table.path)
    assert lake_snapshot is not None
    assert (lake_snapshot.table_id, lake_snapshot.snapshot_id) == (table.table_id, 8)
    assert lake_snapshot.offsets == {first: 10, second: 25}
    with pytest.raises(FlussError, match="TABLE_NOT_EXIST"):
        fluss.admin.lake_snapshot(TablePath("fluss", "nowhere"))
    assert TableBucket(table.table_id, None, 1) == second


def test_heartbeats_answer_for_each_table(fluss: Fluss) -> None:
    unknown = (TableEpoch(1 << 40, 0, 1),)
    answer = fluss.admin.heartbeat(HeartbeatRequest(tiering=unknown, failed=unknown))
    assert answer.table is None
    results = [(result.table_id, result.error_code) for result in (*answer.tiering, *answer.failed)]
    assert results == [(1 << 40, 7)] * 2
    with pytest.raises(Unsupported, match=r"from 0\.9 on"):
        fluss.admin.heartbeat(HeartbeatRequest(cut_short=(1,)))


@pytest.mark.large
def test_a_private_cluster_of_the_command_line_takes_what_the_package_shows() -> None:
    counterparts.need("Fluss")
    command = [sys.executable, "-m", "notebooks.demo.fluss"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            address = running.stdout.readline().strip()
            example = re.search(
                r"^    with Cluster.*?(?=\n\n\S)", str(tablestore.fluss.__doc__), re.DOTALL | re.MULTILINE
            )
            code = textwrap.dedent(example[0]).replace("127.0.0.1:9123", address)
            names = {"pa": pa, "BIGINT": BIGINT, "STRING": STRING, "Cluster": Cluster, "Admin": Admin}
            names |= {"TableDescriptor": TableDescriptor, "FlussColumn": FlussColumn}
            names |= {"TablePath": TablePath, "TableWriter": TableWriter}
            exec(code, names)
            with Cluster(address) as cluster:
                table = Admin(cluster).table(TablePath("shop", "orders"))
                assert table.lake_enabled
                start = dict.fromkeys(Admin(cluster).buckets(table), 0)
                with LogScan(cluster, table, start, Admin(cluster).offsets(table, start)) as scan:
                    assert sum(records.rows.num_rows for records in scan) == 2
        finally:
            running.send_signal(signal.SIGINT)
        assert running.wait(240) == 0
