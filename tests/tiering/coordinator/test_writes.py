"""Clients of Fluss write through the coordinator: each batch once, or its error number."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Unavailable
from tablestore.fluss import apis
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster, message_of
from tablestore.fluss.errors import ErrorCode, FlussError
from tablestore.fluss.kv import compacted, encode_changes
from tablestore.fluss.log_records import BatchNumber, encode
from tablestore.fluss.messages import pb
from tablestore.fluss.routing import key_bytes
from tablestore.fluss.tables import FlussTable, TablePath
from tablestore.fluss.write import TableWriter
from tablestore.table.lake import Lake
from tablestore.table.table import Table
from tests.fluss.all_types import TYPES, random_rows

LOG = {"log.system": "embedded", "bucket": 2, "tablestore.tiering.enabled": True}
COLUMNS = {"id": ts.BIGINT.not_null(), "text": ts.STRING}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return ts.connect(tmp_path)


@pytest.fixture
def cluster(lake: Lake) -> Iterator[Cluster]:
    with lake.coordinator() as coordinator, Cluster(coordinator.address, timeout=240) as running:
        yield running


def of(table: Table, cluster: Cluster) -> FlussTable:
    return Admin(cluster).table(TablePath.parse(table.name))


def log_table(lake: Lake) -> Table:
    return lake.create_table("shop.log", schema=COLUMNS, options={**LOG, "bucket-key": "id"})


def keyed_table(lake: Lake) -> Table:
    return lake.create_table("shop.keyed", schema=COLUMNS, primary_key=["id"], options={**LOG, "bucket": 1})


def rows_of(table: Table) -> list[tuple[int, str]]:
    rows = table.scan(log=True).to_arrow()
    return sorted(zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True))


def pairs(*rows: tuple[int, str]) -> pa.Table:
    return pa.table({"id": [id for id, _ in rows], "text": [text for _, text in rows]})


def sent(
    cluster: Cluster, table: FlussTable, records: bytes, *, bucket: int = 0, columns: tuple[int, ...] = ()
) -> int:
    """The error code of a batch, 0 where it is taken."""
    api = apis.PUT_KV if table.primary_key else apis.PRODUCE_LOG
    request = api.request(acks=-1, table_id=table.table_id, timeout_ms=1000)
    request.buckets.add(bucket_id=bucket, records=records)
    if columns:
        request.target_columns.extend(columns)
    (answer,) = cluster.call(api, request).buckets
    assert answer.bucket_id == bucket
    assert bool(answer.error_code) == bool(answer.error_message)
    return answer.error_code


def writer(cluster: Cluster, table: FlussTable) -> int:
    request = pb.InitWriterRequest(table_paths=[message_of(table.path)])
    return cluster.call(apis.INIT_WRITER, request).writer_id


def test_rows_of_every_type_are_appended_upserted_and_deleted(
    lake: Lake, cluster: Cluster, seeds: tuple[int, ...]
):
    columns = {"id": ts.BIGINT.not_null(), "key": ts.STRING.not_null(), **TYPES}
    log = lake.create_table("shop.all", schema=columns, options={**LOG, "bucket-key": "id"})
    keyed = lake.create_table("shop.keys", schema=columns, primary_key=["id", "key"], options=LOG)
    rng = np.random.default_rng(seeds[0])
    ids, texts = pa.array(rng.permutation(100)), pa.array(["k" * int(n) for n in rng.integers(0, 20, 100)])
    rows = random_rows(100, seeds[0])
    rows = pa.table([ids, texts, *rows.columns], names=list(columns))
    TableWriter(cluster, of(log, cluster)).append(rows)
    into = TableWriter(cluster, of(keyed, cluster))
    into.upsert(rows)
    into.delete(rows.slice(0, 30))
    for table, wanted in ((log, rows), (keyed, rows.slice(30))):
        actual = table.scan(log=True).to_arrow().sort_by("id")
        wanted = wanted.sort_by("id")
        assert actual.num_rows == wanted.num_rows
        for name in columns:
            stored = wanted[name].cast(actual.schema.field(name).type, safe=False)
            assert actual[name].equals(stored), name
        assert table.check() == []


def test_a_column_that_the_table_has_not_is_refused(lake: Lake, cluster: Cluster):
    log, keyed = of(log_table(lake), cluster), of(keyed_table(lake), cluster)
    rows = pairs((1, "a")).append_column("more", pa.array([1]))
    for write in (TableWriter(cluster, log).append, TableWriter(cluster, keyed).upsert):
        with pytest.raises(ts.SchemaMismatch, match="no column 'more'"):
            write(rows)
    assert rows_of(lake.table("shop.log")) == []


def test_a_batch_that_is_sent_again_is_there_once_and_a_gap_is_none(lake: Lake, cluster: Cluster):
    table = log_table(lake)
    described = of(table, cluster)
    first_writer, second_writer = writer(cluster, described), writer(cluster, described)
    assert first_writer != second_writer

    def batch(sequence: int, of_writer: int = first_writer, text: str = "a") -> bytes:
        rows = pairs((sequence, text)).to_batches()[0]
        return encode(rows, schema_id=0, compression="NONE", number=BatchNumber(of_writer, sequence))

    assert sent(cluster, described, batch(0)) == 0
    assert sent(cluster, described, batch(0)) == ErrorCode.DUPLICATE_SEQUENCE
    assert sent(cluster, described, batch(2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE
    assert sent(cluster, described, batch(0) + batch(1)) == 0  # the second is not lost behind the first
    assert sent(cluster, described, batch(0) + batch(1)) == ErrorCode.DUPLICATE_SEQUENCE
    assert sent(cluster, described, batch(0), bucket=1) == 0  # each bucket has numbers of its own
    assert sent(cluster, described, batch(0, second_writer, "b")) == 0
    assert sent(cluster, described, batch(0, 4711)) == ErrorCode.UNKNOWN_WRITER_ID
    assert sent(cluster, described, batch(-1, -1, "c")) == sent(cluster, described, batch(-1, -1, "c")) == 0
    assert rows_of(table) == [(-1, "c"), (-1, "c"), (0, "a"), (0, "a"), (0, "b"), (1, "a")]


def test_the_next_coordinator_knows_no_writer_of_an_earlier_one(lake: Lake):
    table = log_table(lake)
    with lake.coordinator() as first, Cluster(first.address, timeout=240) as cluster:
        earlier = writer(cluster, of(table, cluster))
    with lake.coordinator() as second, Cluster(second.address, timeout=240) as cluster:
        described = of(table, cluster)
        rows = pairs((1, "a")).to_batches()[0]
        batch = encode(rows, schema_id=0, compression="NONE", number=BatchNumber(earlier, 0))
        assert sent(cluster, described, batch) == ErrorCode.UNKNOWN_WRITER_ID
        assert writer(cluster, described) != earlier
    assert rows_of(table) == []


def test_upserts_and_deletes_of_a_batch_happen_in_their_order(lake: Lake, cluster: Cluster):
    table = keyed_table(lake)
    described = of(table, cluster)
    some = ((1, "a"), (2, "b"), (1, None), (3, "c"), (1, "d"), (2, None))
    assert sent(cluster, described, changes(described, *some)) == 0
    assert rows_of(table) == [(1, "d"), (3, "c")]
    assert (
        sent(cluster, described, changes(described, (9, None), (1, None))) == 0
    )  # also of a key that is not there
    assert rows_of(table) == [(3, "c")]
    assert table.check() == []


def test_a_client_sends_again_only_what_is_not_written_in_part(
    lake: Lake, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    table = keyed_table(lake)
    described = of(table, cluster)

    def away(*_: object) -> None:
        raise Unavailable("the store is away")

    monkeypatch.setattr(Table, "delete", away)
    assert sent(cluster, described, changes(described, (1, None), (2, "b"))) == ErrorCode.STORAGE
    assert sent(cluster, described, changes(described, (1, "a"), (2, None))) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert rows_of(table) == [(1, "a")]


def changes(described: FlussTable, *some: tuple[int, str | None]) -> bytes:
    """One batch; None: a delete."""
    parts = []
    for id, text in some:
        rows = pairs((id, text or "")).to_batches()[0].cast(described.arrow_schema)
        keys = key_bytes(described, rows)
        parts.append(encode_changes(keys, None if text is None else compacted(described, rows), schema_id=0))
    body = b"".join(part[_BEFORE_RECORDS:] for part in parts)
    return with_records(parts[0], body, len(parts))


_BEFORE_RECORDS = 28
"""Bytes of the head of a batch of changes; the last four count its records."""


def with_records(batch: bytes, records: bytes, count: int) -> bytes:
    """A batch of changes with other records."""
    tail = batch[9 : _BEFORE_RECORDS - 4] + struct.pack("<i", count) + records
    return struct.pack("<ibI", 5 + len(tail), 0, google_crc32c.value(tail)) + tail


def test_what_cannot_be_written_is_refused_by_its_number_and_writes_nothing(lake: Lake, cluster: Cluster):
    log, keyed = log_table(lake), keyed_table(lake)
    of_log, of_keyed = of(log, cluster), of(keyed, cluster)
    rows = pairs((1, "a")).to_batches()[0]
    batch = encode(rows, schema_id=0, compression="NONE")
    upsert = encode_changes(
        key_bytes(of_keyed, rows.cast(of_keyed.arrow_schema)),
        compacted(of_keyed, rows.cast(of_keyed.arrow_schema)),
        schema_id=0,
    )
    assert sent(cluster, of_log, batch[:-1] + b"\xff") == ErrorCode.CORRUPT_RECORD
    assert sent(cluster, of_log, batch[:-8]) == ErrorCode.CORRUPT_RECORD
    assert sent(cluster, of_log, batch, bucket=7) == ErrorCode.UNKNOWN_TABLE_OR_BUCKET
    assert sent(cluster, of_log, encode(rows, schema_id=5, compression="NONE")) == ErrorCode.SCHEMA_NOT_EXIST
    assert sent(cluster, of_keyed, upsert[:-1] + b"\xff") == ErrorCode.CORRUPT_RECORD
    assert sent(cluster, of_keyed, upsert, columns=(0,)) == ErrorCode.INVALID_TARGET_COLUMN
    for count in (0, -1, 2, 1 << 30):
        damaged = with_records(upsert, upsert[_BEFORE_RECORDS:], count)
        assert sent(cluster, of_keyed, damaged) == ErrorCode.CORRUPT_RECORD
    crossed = pb.ProduceLogRequest(acks=-1, table_id=of_keyed.table_id, timeout_ms=1000)
    crossed.buckets.add(bucket_id=0, records=batch)
    assert cluster.call(apis.PRODUCE_LOG, crossed).buckets[0].error_code == ErrorCode.INVALID_TABLE
    assert (rows_of(log), rows_of(keyed)) == ([], [])
    with pytest.raises(FlussError, match="DATABASE_NOT_EXIST"):
        cluster.call(apis.GET_DATABASE_INFO, pb.GetDatabaseInfoRequest(database_name="nope"))
    assert sent(cluster, of_keyed, upsert, columns=(0, 1)) == 0
    assert rows_of(keyed) == [(1, "a")]
