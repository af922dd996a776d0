"""Bucket functions and the cut into buckets."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tablestore.core.errors import InvalidOption, Unsupported
from tablestore.format import hashing
from tablestore.format.types.arrow_types import parse_type
from tablestore.write.routing import routing


def hive(column: pa.Array, t: str) -> list[int]:
    return hashing.bucket_of([column], [parse_type(t)], 1 << 30, "hive").tolist()


def java(h: int) -> int:
    return (h & 0x7FFFFFFF) % (1 << 30)


@pytest.mark.parametrize(
    ("t", "column", "hashes"),
    [
        ("INT", pa.array([5, -3, None], pa.int32()), [5, -3, 0]),
        ("BIGINT", pa.array([1 << 40, -1, None], pa.int64()), [1 << 8, 0, 0]),
        ("BOOLEAN", pa.array([True, False, None]), [1, 0, 0]),
        ("DOUBLE", pa.array([-0.0, 1.5, None]), [0, 0x3FF80000, 0]),
        ("FLOAT", pa.array([-0.0, 1.5, None], pa.float32()), [0, 0x3FC00000, 0]),
        ("STRING", pa.array(["", "ab", None]), [0, 97 * 31 + 98, 0]),
        ("BYTES", pa.array([b"\xff", b"\x01\x02", None]), [-1, 33, 0]),
        ("DATE", pa.array([19724, None], pa.int32()).cast(pa.date32()), [19724, 0]),
        (
            "DECIMAL(9, 2)",
            pa.array([Decimal("12.50"), Decimal("-1.00"), Decimal("0.00"), None], pa.decimal128(9, 2)),
            [125 * 31 + 1, -31, 0, 0],
        ),
        (
            "DECIMAL(38, 1)",
            pa.array([Decimal("12.5"), Decimal("36893488147419103232.0")], pa.decimal128(38, 1)),
            [125 * 31 + 1, 31 * 31 * 2 * 31],
        ),
    ],
)
def test_hive_hashes_each_type_as_hive_does(t: str, column: pa.Array, hashes: list[int]) -> None:
    assert hive(column, t) == [java(h) for h in hashes]


def test_hive_combines_columns_by_31() -> None:
    columns = [pa.array([2], pa.int32()), pa.array(["a"])]
    types = [parse_type("INT"), parse_type("STRING")]
    assert hashing.bucket_of(columns, types, 1000, "hive").tolist() == [(2 * 31 + 97) % 1000]


def test_functions_refuse_what_they_cannot_hash() -> None:
    with pytest.raises(Unsupported, match="hive"):
        hive(pa.array([0], pa.timestamp("us")), "TIMESTAMP(6)")
    with pytest.raises(InvalidOption, match="mod"):
        hashing.bucket_of([pa.array(["a"])], [parse_type("STRING")], 2, "mod")


def test_cut_keeps_the_order_of_rows_in_a_bucket() -> None:
    rng = np.random.default_rng(3)
    codes, buckets = rng.integers(0, 3, 500), rng.integers(0, 5, 500).astype(np.int32)
    batch = pa.record_batch({"i": np.arange(500)})
    seen = []
    for partition, bucket, rows in routing.cut(batch, [b"a", b"b", b"c"], codes, buckets):
        numbers = rows.column(0).to_numpy()
        assert (np.diff(numbers) > 0).all()
        assert set(codes[numbers]) == {b"abc".index(partition)}
        assert set(buckets[numbers]) == {bucket}
        seen += numbers.tolist()
    assert sorted(seen) == list(range(500))


@pytest.mark.parametrize(("rows", "own"), [(40_000, True), (400, False)])
def test_large_slices_own_their_memory_and_small_ones_share_it(rows: int, own: bool) -> None:
    batch = pa.record_batch({"k": pa.array(range(rows), pa.int64()), "v": pa.array(["v" * 20] * rows)})
    buckets = (np.arange(rows) % 4).astype(np.int32)
    actual = list(routing.cut(batch, [b""], np.zeros(rows, dtype=np.int64), buckets))
    assert [bucket for _, bucket, _ in actual] == [0, 1, 2, 3]
    for _, bucket, part in actual:
        assert part.column("k").to_pylist() == list(range(bucket, rows, 4))
        assert (part.get_total_buffer_size() < 2 * part.nbytes) == own
