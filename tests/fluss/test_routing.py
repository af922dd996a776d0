"""Buckets and partitions of rows. The buckets of keys were computed by Fluss 0.7.0
(FlussBucketingFunction)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.fluss.routing import _fluss_buckets, buckets_of, by_partition, key_bytes
from tablestore.fluss.tables import FlussColumn, FlussTable, TableDescriptor, TablePath
from tablestore.format.hashing import bucket_of
from tablestore.format.types.arrow_types import BIGINT, STRING

OF_FLUSS = [  # a key, and its bucket of 1, 3, 7, 64, 1000
    ("01", 0, 0, 4, 44, 500),
    ("7f", 0, 1, 2, 58, 346),
    ("ffffffff0f", 0, 0, 1, 10, 730),
    ("80ffff", 0, 0, 5, 16, 608),
    ("0102030405060708", 0, 1, 5, 57, 97),
    ("03616263", 0, 1, 6, 31, 263),
    ("0a66c3bcc39f6561666162", 0, 2, 0, 42, 674),
    ("808080808080808080", 0, 2, 1, 6, 78),
    ("ff00ff00ff00ff", 0, 0, 5, 9, 33),
    ("80", 0, 1, 6, 30, 766),
]


def table(lake: str | None, **keys: tuple[str, ...]) -> FlussTable:
    columns = (FlussColumn("id", BIGINT.not_null()), FlussColumn("day", STRING), FlussColumn("hour", STRING))
    properties = {} if lake is None else {"table.datalake.format": lake}
    return FlussTable(
        TablePath("d", "t"), 1, 1, TableDescriptor(columns, buckets=7, properties=properties, **keys)
    )


@pytest.mark.parametrize(("column", "buckets"), [(1, 1), (2, 3), (3, 7), (4, 64), (5, 1000)])
def test_buckets_of_a_cluster_without_a_lake(column: int, buckets: int) -> None:
    keys = pa.array([bytes.fromhex(case[0]) for case in OF_FLUSS])
    assert _fluss_buckets(keys, buckets).tolist() == [case[column] for case in OF_FLUSS]
    assert _fluss_buckets(keys.slice(3, 4), buckets).tolist() == [case[column] for case in OF_FLUSS[3:7]]


def test_keys_and_buckets_are_those_of_paimon_where_the_lake_is() -> None:
    rows = pa.record_batch(
        [pa.array([1, -5]), pa.array(["a", "b"]), pa.array(["c", "d"])], names=["id", "day", "hour"]
    )
    paimon, own = (table(lake, primary_key=("id",)) for lake in ("paimon", None))
    assert buckets_of(paimon, rows).tolist() == bucket_of([rows["id"]], [BIGINT], 7).tolist()
    assert key_bytes(paimon, rows)[0].as_py() == bytes(8) + (1).to_bytes(8, "little")
    assert key_bytes(own, rows).to_pylist() == [b"\x01", b"\xfb" + b"\xff" * 8 + b"\x01"]
    assert buckets_of(own, rows).tolist() == _fluss_buckets(key_bytes(own, rows), 7).tolist()
    assert buckets_of(table("paimon"), rows) is None
    with pytest.raises(Unsupported, match="a lake of the format iceberg"):
        buckets_of(table("iceberg", primary_key=("id",)), rows)


def test_rows_by_partition_keep_their_order() -> None:
    partitioned = table(None, partition_keys=("day", "hour"))
    days, hours = ["b", "a", "b", "a", "b"], ["1", "1", "1", "2", "2"]
    rows = pa.record_batch([pa.array(range(5)), pa.array(days), pa.array(hours)], names=["id", "day", "hour"])
    by_values = {values: positions.tolist() for values, positions in by_partition(partitioned, rows)}
    assert by_values == {("b", "1"): [0, 2], ("a", "1"): [1], ("a", "2"): [3], ("b", "2"): [4]}
    assert [p.tolist() for _, p in by_partition(table(None), rows)] == [list(range(5))]
    with pytest.raises(SchemaMismatch, match="NULL in the partition column 'day'"):
        list(by_partition(partitioned, rows.set_column(1, "day", pa.array([None] * 5, pa.string()))))


def test_no_rows_are_in_no_bucket() -> None:
    keyed = table(None, primary_key=("id",))
    rows = pa.RecordBatch.from_pylist([], keyed.arrow_schema)
    assert buckets_of(keyed, rows).dtype == np.int32
