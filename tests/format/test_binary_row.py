"""BinaryRow bytes and bucket hashes against values that Java Paimon printed (FORMAT.md 4.4, 6.2)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablestore.core.errors import Corrupt
from tablestore.format import binary_row, hashing
from tablestore.format.types.arrow_types import parse_type, to_arrow

BYTES10 = bytes(range(10))
STAMP = dt.datetime(2024, 1, 2, 3, 4, 5, 678901)
LAST = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
# types, values, serialized hex without blanks (None: not recorded), hash
ROWS = [
    ("INT", 1, "00000001 0000000000000000 0100000000000000", 1465514398),
    ("INT", -1, "00000001 0000000000000000 ffffffff00000000", 1133687267),
    ("INT", None, "00000001 0001000000000000 0000000000000000", -1748325344),
    ("BIGINT", -1234567890123, "00000001 0000000000000000 35fb048ee0feffff", -590283792),
    ("STRING", "", "00000001 0000000000000000 0000000000000080", 302122119),
    ("STRING", "abcdefg", "00000001 0000000000000000 6162636465666787", -1431907323),
    ("STRING", "abcdefgh", "00000001 0000000000000000 0800000010000000 6162636465666768", -843760178),
    ("STRING", "é中", "00000001 0000000000000000 c3a9e4b8ad000085", -1523287501),
    ("DECIMAL(5,2)", Decimal("-123.45"), "00000001 0000000000000000 c7cfffffffffffff", 280263423),
    (
        "DECIMAL(20,4)",
        Decimal("123456789.0123"),
        "00000001 0000000000000000 0600000010000000 011f71fb04cb0000 0000000000000000",
        120959239,
    ),
    (
        "DECIMAL(38,10)",
        Decimal("-1.5"),
        "00000001 0000000000000000 0500000010000000 fc81ee2a00000000 0000000000000000",
        -1749182803,
    ),
    (
        "TIMESTAMP(3)",
        STAMP.replace(microsecond=678000),
        "00000001 0000000000000000 2edb20c88c010000",
        1606355323,
    ),
    (
        "TIMESTAMP(6)",
        STAMP,
        "00000001 0000000000000000 88bf0d0010000000 2edb20c88c010000",
        828821739,
    ),
    ("TIMESTAMP(6)", LAST, "00000001 0000000000000000 583e0f0010000000 ffffffffffffffff", 1236894319),
    ("DATE", dt.date(2024, 1, 2), "00000001 0000000000000000 0c4d000000000000", 1827046836),
    ("TIME", dt.time(1, 2, 3, 4000), "00000001 0000000000000000 fcce380000000000", -867467144),
    ("BOOLEAN", True, None, 1465514398),
    ("TINYINT", -2, None, 1831745471),
    ("SMALLINT", -2, None, 557672611),
    ("FLOAT", 1.5, None, -173842779),
    ("DOUBLE", 1.5, None, 1860889473),
    (
        "BYTES",
        BYTES10,
        "00000001 0000000000000000 0a00000010000000 0001020304050607 0809000000000000",
        1822312655,
    ),
    (
        "DECIMAL(20,4)",
        None,
        "00000001 0001000000000000 0000000010000000 0000000000000000 0000000000000000",
        -1380280760,
    ),
    ("TIMESTAMP(6)", None, "00000001 0001000000000000 0000000010000000 0000000000000000", -340882661),
]


@pytest.mark.parametrize(("type_text", "value", "hexed", "hashed"), ROWS)
def test_row_bytes_and_hash_are_javas(type_text: str, value: object, hexed: str | None, hashed: int) -> None:
    t = parse_type(type_text)
    column = pa.array([value, value], to_arrow(t))
    raw = binary_row.raw_values(column, t)
    data = binary_row.encode(raw[:1], [t])
    if hexed is not None:
        assert data.hex() == hexed.replace(" ", "")
    assert binary_row.decode(data, [t]) == tuple(raw[:1])
    assert hashing.hash_rows([column], [t]).tolist() == [hashed, hashed]


def test_two_columns_hash_as_one_row() -> None:
    types = [parse_type("INT"), parse_type("STRING")]
    columns = [pa.array([7, 7], pa.int32()), pa.array(["order-000042", None])]
    assert hashing.hash_rows(columns, types).tolist() == [544121435, 1642018842]
    assert hashing.bucket_of(columns, types, 5).tolist() == [0, 2]


def test_no_fields_is_twelve_bytes() -> None:
    assert binary_row.encode([], []).hex() == "000000000000000000000000"


VALUES = {
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "STRING": st.text(max_size=20),
    "BYTES": st.binary(max_size=20),
    "DECIMAL(30, 3)": st.integers(-(10**30) + 1, 10**30 - 1),
    "TIMESTAMP(6)": st.integers(-(10**15), 10**15),
    "TIMESTAMP(3)": st.integers(-(10**12), 10**12),
    "DOUBLE": st.floats(allow_nan=False),
    "BOOLEAN": st.booleans(),
}


@given(st.data())
def test_whole_columns_encode_as_single_rows_do(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    types = [parse_type(n) for n in names]
    rows = data.draw(st.lists(st.tuples(*(st.none() | VALUES[n] for n in names)), min_size=1, max_size=8))
    columns = [_column(list(c), t) for c, t in zip(zip(*rows, strict=True), types, strict=True)]
    flat, offsets = binary_row.bodies(columns, types)
    for i, row in enumerate(rows):
        encoded = binary_row.encode(row, types)
        assert bytes(flat[offsets[i] : offsets[i + 1]]) == encoded[4:]
        assert binary_row.decode(encoded, types) == row


def _column(values: list, t) -> pa.Array:
    if t.root == "DECIMAL":
        values = [None if v is None else Decimal(f"{v}e-{t.scale}") for v in values]
    if t.root == "TIMESTAMP":
        return pa.array(values, pa.int64()).cast(to_arrow(t))
    return pa.array(values, to_arrow(t))


def test_keys_sort_as_java_compares() -> None:
    t = [parse_type("DOUBLE NOT NULL")]
    values = [float("-inf"), -1.0, -0.0, 0.0, 2.5, float("inf"), float("nan")]
    keys = [binary_row.sort_key([v], t) for v in values]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    text = [parse_type("STRING")]
    words = [None, "", "Z", "a", "é", "\uffff", "😀"]
    keys = [binary_row.sort_key([w], text) for w in words]
    assert keys == sorted(keys)


@given(st.binary(max_size=60))
def test_damaged_rows_are_corrupt_never_a_crash(data: bytes) -> None:
    types = [parse_type("INT"), parse_type("STRING"), parse_type("DECIMAL(30, 3)")]
    try:
        binary_row.decode(data, types)
    except Corrupt:
        return
    assert data[:4] == b"\0\0\0\x03"


def test_buckets_share_the_keys_evenly() -> None:
    keys = [pa.array(np.arange(100_000)), pa.array(np.arange(100_000) % 7, pa.int32())]
    buckets = hashing.bucket_of(keys, [parse_type("BIGINT"), parse_type("INT")], 8)
    counts = np.bincount(buckets, minlength=8)
    assert counts.min() > 11_000
    assert counts.sum() == 100_000
