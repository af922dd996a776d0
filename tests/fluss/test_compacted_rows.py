"""Compacted rows: columns → rows → columns, for every type; bytes as Fluss writes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tablestore.core.errors import Corrupt
from tablestore.fluss.compacted_rows import decode_rows, encode_keys, encode_rows
from tablestore.format.types.arrow_types import BIGINT, DECIMAL, INT, STRING
from tests.fluss.all_types import TYPES, random_rows


@pytest.mark.parametrize("nulls", [0.0, 0.2, 1.0])
def test_every_type_comes_back(nulls: float, seeds: list[int]) -> None:
    for seed in seeds[:5]:
        rows = random_rows(300, seed, nulls=nulls)
        types = list(TYPES.values())
        encoded = encode_rows(rows.columns, types)
        assert decode_rows(encoded, rows.schema, types, skip=0, where="") == rows
        part = decode_rows(encoded.slice(17, 100), rows.schema, types, skip=0, where="")
        assert part == rows.slice(17, 100)


def test_no_rows() -> None:
    rows = random_rows(0, 0)
    types = list(TYPES.values())
    encoded = encode_rows(rows.columns, types)
    assert decode_rows(encoded, rows.schema, types, skip=2, where="") == rows


def test_bytes_of_a_row() -> None:
    columns = [
        pa.array([1, -1, None], pa.int32()),
        pa.array(["é", None, ""]),
        pa.array([300, None, -(1 << 63)], pa.int64()),
    ]
    rows = encode_rows(columns, [INT, STRING, BIGINT]).to_pylist()
    assert [row.hex(" ") for row in rows] == [
        "00 01 02 c3 a9 ac 02",
        "06 ff ff ff ff 0f",
        "01 00 80 80 80 80 80 80 80 80 80 01",
    ]
    assert encode_keys([columns[0].fill_null(5)], [INT]).to_pylist()[2] == b"\x05"


def test_wide_decimals_are_as_short_as_java_writes_them() -> None:
    values = [0, 127, 128, -128, -129, 255, 256, 10**37, -(10**37)]
    column = pa.array(values, pa.decimal128(38, 0))
    rows = encode_rows([column], [DECIMAL(38, 0)]).to_pylist()
    for value, row in zip(values, rows, strict=True):
        bits = value if value >= 0 else -value - 1
        wanted = value.to_bytes(bits.bit_length() // 8 + 1, "big", signed=True)
        assert row == bytes([0, len(wanted)]) + wanted


@pytest.mark.parametrize(
    "row",
    [b"\x00\x01", b"\x00\x01\x05ab", b"\x00\x01\x02abc", b"\x00\x01\xff\xff\xff\xff\x07", b"\x00"],
    ids=["nothing", "text cut", "too long", "length of 2 GB", "nothing at all"],
)
def test_damaged_rows_are_refused(row: bytes) -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    with pytest.raises(Corrupt):
        decode_rows(
            pa.array([b"\x00\x01\x01a", row, b"\x00\x01\x01a"]), schema, [INT, STRING], skip=0, where="x"
        )
