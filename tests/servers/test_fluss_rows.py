"""Rows of a real Fluss: written and read as columns, from logs, segment files and snapshots of keys."""

from __future__ import annotations

import random
import time

import numpy as np
import pyarrow as pa
import pytest

from tablestore.core.errors import InvalidRequest, SchemaMismatch
from tablestore.fluss.admin import EARLIEST
from tablestore.fluss.errors import FlussError
from tablestore.fluss.kv import lookup, snapshot_rows
from tablestore.fluss.log_scan import LogScan
from tablestore.fluss.scan_state import LogOffsetExpired
from tablestore.fluss.tables import FlussTable, KvSnapshot, TableBucket
from tablestore.fluss.write import TableWriter
from tablestore.format import rowkind
from tablestore.format.types.arrow_types import BIGINT, DOUBLE, INT, STRING
from tests.fluss.all_types import TYPES, random_column, random_rows
from tests.servers.fluss import Fluss

PATIENCE_SECONDS = 240  # the servers do it every few seconds
FOUR = {"id": BIGINT.not_null(), "a": INT, "s": STRING, "d": DOUBLE}


def four(rows: int, *, first: int = 0) -> pa.RecordBatch:
    ids = np.arange(first, first + rows)
    texts = pa.array([f"name-{i % 1000}" for i in range(rows)])
    return pa.record_batch([ids, pa.array(ids % 97, pa.int32()), texts, ids / 7], names=list(FOUR))


def write(fluss: Fluss, table: FlussTable, rows: pa.RecordBatch | pa.Table) -> None:
    writer = TableWriter(fluss.cluster, table, batch_rows=10_000)
    (writer.upsert if table.primary_key else writer.append)(rows)


def replayed(fluss: Fluss, table: FlussTable, stop: dict[TableBucket, int] | None = None) -> pa.Table:
    """The rows that the log of a keyed table leaves, by key."""
    rows: dict[tuple, dict] = {}
    for batch in fluss.read(table):
        kinds = batch.kinds.tolist()
        for i, row in enumerate(batch.rows.to_pylist()):
            if stop is not None and batch.base + i >= stop[batch.bucket]:
                continue
            key = tuple(row[name] for name in table.primary_key)
            if kinds[i] in (rowkind.INSERT, rowkind.UPDATE_AFTER):
                rows[key] = row
            elif kinds[i] == rowkind.DELETE:
                del rows[key]
    return pa.Table.from_pylist([rows[key] for key in sorted(rows)], table.arrow_schema)


def snapshots(fluss: Fluss, table: FlussTable, *, behind: dict[TableBucket, int]) -> list[KvSnapshot]:
    """The snapshots of all buckets, once they have come to these offsets."""
    partitions = fluss.admin.partitions(table.path) if table.partition_keys else [None]
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        actual = [
            kv_snapshot for p in partitions for kv_snapshot in fluss.admin.kv_snapshots(table, p).values()
        ]
        if {kv_snapshot.bucket: kv_snapshot.log_offset for kv_snapshot in actual} == behind:
            return actual
        assert time.monotonic() < until, (f"{actual} do not come to {behind}", said(fluss))
        time.sleep(0.2)


def said(fluss: Fluss) -> list[str]:
    """The last words of the servers."""
    return [fluss.servers.output(server)[-3000:] for server in ("tablet-0", "coordinator")]


@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
@pytest.mark.parametrize("keyed", [False, True], ids=["log", "keyed"])
@pytest.mark.sample(2)
def test_every_type_goes_through_a_table(fluss: Fluss, keyed: bool, partitioned: bool) -> None:
    columns = {"id": BIGINT.not_null(), **TYPES} | ({"day": STRING.not_null()} if partitioned else {})
    key = ["id", "day"] if partitioned else ["id"]
    table = fluss.table(columns, key=key if keyed else (), partitions=key[1:], buckets=3)
    ids = pa.array(np.arange(600))
    arrays = [ids, *random_rows(600, 7).columns, *([pa.array(["a", "b"] * 300)] if partitioned else [])]
    rows = pa.RecordBatch.from_arrays(arrays, schema=table.arrow_schema)
    write(fluss, table, rows)
    assert fluss.rows(table).sort_by("id") == pa.Table.from_batches([rows])
    some = fluss.read(table, columns=["time_3", "id", "decimal_38"])
    actual = pa.Table.from_batches([batch.rows for batch in some]).sort_by("id")
    assert actual == pa.Table.from_batches([rows]).select(["time_3", "id", "decimal_38"])
    if keyed:
        there, values = lookup(fluss.cluster, table, rows.select(key))
        assert there.to_pylist() == [True] * 600
        assert values == rows


def test_keys_of_every_type_are_those_of_the_server(fluss: Fluss) -> None:
    """It makes the keys of a log's rows from the bytes that it was sent, and finds rows by them."""
    columns = {name: t.not_null() for name, t in TYPES.items()}
    table = fluss.table({**columns, "v": BIGINT}, key=list(columns), buckets=2)
    rng = random.Random(5)
    keys = [random_column(t, 50, rng) for t in columns.values()]
    rows = pa.RecordBatch.from_arrays([*keys, pa.array(np.arange(50))], schema=table.arrow_schema)
    write(fluss, table, rows)
    write(fluss, table, rows)  # the same keys again: updates, no inserts
    kinds = np.concatenate([batch.kinds for batch in fluss.read(table)])
    assert np.bincount(kinds).tolist() == [50, 50, 50]
    there, actual = lookup(fluss.cluster, table, rows.select(list(columns)))
    assert there.true_count == 50
    assert actual == rows


def test_deletes_of_what_is_not_there_take_offsets_and_have_no_rows(fluss: Fluss) -> None:
    table = fluss.table(FOUR, key=["id"])
    (bucket,) = fluss.admin.buckets(table)
    writer = TableWriter(fluss.cluster, table)
    writer.upsert(four(3))
    writer.delete(four(2))
    writer.delete(four(2))
    writer.upsert(four(1, first=2))
    writer.delete(four(1))
    actual = [(records.base, records.end, records.rows.num_rows) for records in fluss.read(table)]
    assert actual == [(0, 3, 3), (3, 5, 2), (5, 6, 0), (6, 8, 2), (8, 9, 0)]
    assert fluss.admin.offsets(table, [bucket]) == {bucket: 9}
    with LogScan(fluss.cluster, table, {bucket: 5}, {bucket: 9}) as scan:
        assert [(records.base, records.end) for records in scan] == [(5, 6), (6, 8), (8, 9)]
        assert scan.offsets == {bucket: 9}


def test_a_range_within_batches(fluss: Fluss) -> None:
    table = fluss.table(FOUR, buckets=2)
    TableWriter(fluss.cluster, table, batch_rows=100).append(four(1000), bucket=0)
    zero, last_bucket = fluss.admin.buckets(table)
    with LogScan(fluss.cluster, table, {zero: 250, last_bucket: 0}, {zero: 430, last_bucket: 0}) as scan:
        actual = list(scan)
    assert [(b.bucket, b.base, b.end) for b in actual] == [
        (zero, 250, 300),
        (zero, 300, 400),
        (zero, 400, 430),
    ]
    assert pa.Table.from_batches([b.rows for b in actual])["id"].to_pylist() == list(range(250, 430))


def test_a_scan_follows_what_comes(fluss: Fluss) -> None:
    table = fluss.table(FOUR)
    (bucket,) = fluss.admin.buckets(table)
    with LogScan(fluss.cluster, table, {bucket: 0}) as scan:
        assert scan.poll(0.1) == []
        write(fluss, table, four(10))
        assert [records.end for records in scan.poll(240)] == [10]
        write(fluss, table, four(5))
        assert [records.rows.num_rows for records in scan.poll(240)] == [5]
        assert scan.offsets == {bucket: 15}
        with pytest.raises(InvalidRequest, match="has no end"):
            list(scan)


def test_segment_files_are_read_where_the_log_is_no_longer_local(fluss: Fluss) -> None:
    properties = {"table.log.tiered.local-segments": "1", "table.log.arrow.compression.type": "NONE"}
    table = fluss.table(FOUR, buckets=2, properties=properties)
    rows = four(600_000)
    write(fluss, table, rows)
    until = time.monotonic() + PATIENCE_SECONDS
    pattern = f"log/*/{table.path.table}-{table.table_id}/*/*/*.log"
    while len(list(fluss.servers.remote_folder.glob(pattern))) < 4:
        assert time.monotonic() < until, ("segments are not copied", said(fluss))
        time.sleep(0.2)
    assert fluss.rows(table).sort_by("id") == pa.Table.from_batches([rows]).cast(table.arrow_schema)
    some = fluss.read(table, columns=["s", "id"])
    assert sum(batch.rows.num_rows for batch in some) == 600_000
    assert some[0].rows.schema.names == ["s", "id"]


def test_rows_that_retention_took_are_missed_loudly(fluss: Fluss) -> None:
    table = fluss.table(FOUR)
    (bucket,) = fluss.admin.buckets(table)
    write(fluss, table, four(10))
    with (
        LogScan(fluss.cluster, table, {bucket: 11}, {bucket: 20}) as scan,
        pytest.raises(LogOffsetExpired, match=f"{table.path}: .*rows from offset 11 on are gone"),
    ):
        list(scan)


def test_a_partition_that_is_dropped_ends_a_scan_at_once(fluss: Fluss) -> None:
    table = fluss.table({"id": BIGINT.not_null(), "day": STRING}, partitions=["day"])
    write(fluss, table, pa.table({"id": range(6), "day": ["a", "b"] * 3}))
    buckets = fluss.admin.buckets(table)
    stop = {bucket: end + 1 for bucket, end in fluss.admin.offsets(table, buckets).items()}
    fluss.admin.drop_partition(table.path, {"day": "a"})
    with (
        LogScan(fluss.cluster, table, dict.fromkeys(buckets, 0), stop) as scan,
        pytest.raises(FlussError, match=f"{table.path}: .* 36 PARTITION_NOT_EXISTS"),
    ):
        list(scan)


@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
@pytest.mark.sample(1)
def test_a_snapshot_of_keys_is_the_log_up_to_its_offset(fluss: Fluss, partitioned: bool) -> None:
    columns = {"id": BIGINT.not_null(), **TYPES} | ({"day": STRING.not_null()} if partitioned else {})
    key = ["id", "day"] if partitioned else ["id"]
    table = fluss.table(columns, key=key, partitions=key[1:], buckets=2)
    days = [pa.array(["a", "b"] * 200)] if partitioned else []
    writer = TableWriter(fluss.cluster, table)
    for seed in (1, 2):
        arrays = [pa.array(np.arange(400) + 100 * seed), *random_rows(400, seed).columns, *days]
        writer.upsert(pa.RecordBatch.from_arrays(arrays, schema=table.arrow_schema))
    writer.delete(pa.RecordBatch.from_arrays(arrays, schema=table.arrow_schema).slice(0, 50))
    ends = fluss.admin.offsets(table, fluss.admin.buckets(table))
    actual = snapshots(fluss, table, behind=ends)
    batches = [
        b for kv_snapshot in actual for b in snapshot_rows(fluss.cluster, table, kv_snapshot, batch_rows=100)
    ]
    assert pa.Table.from_batches(batches).sort_by("id") == replayed(fluss, table)
    assert [
        batch.schema.names for batch in snapshot_rows(fluss.cluster, table, actual[0], columns=["id"])
    ] == [["id"]]


def test_rows_that_do_not_fit_are_refused_before_anything_is_sent(fluss: Fluss) -> None:
    keyed, log = fluss.table(FOUR, key=["id"]), fluss.table(FOUR)
    with pytest.raises(SchemaMismatch, match="rows without the column 'd'"):
        TableWriter(fluss.cluster, log).append(four(1).select(["id", "a", "s"]))
    with pytest.raises(InvalidRequest, match="has a primary key"):
        TableWriter(fluss.cluster, keyed).append(four(1))
    with pytest.raises(InvalidRequest, match="has no primary key"):
        TableWriter(fluss.cluster, log).delete(four(1))
    buckets = fluss.admin.buckets(log)
    assert fluss.admin.offsets(log, buckets) == fluss.admin.offsets(log, buckets, EARLIEST)
