"""Log batches: both formats, cut, empty and damaged ones."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt, Unsupported
from tablestore.fluss.compacted_rows import encode_rows
from tablestore.fluss.log_records import BatchNumber, decode, empty, encode, heads
from tablestore.fluss.types import arrow_type
from tests.fluss.all_types import random_rows
from tests.fluss.stored_batches import decoded, in_format_1

ROWS = pa.record_batch(
    [pa.array(range(10)), pa.array([f"name {i}" for i in range(10)])], names=["id", "name"]
)


@pytest.mark.parametrize("compression", ["NONE", "ZSTD", "LZ4_FRAME"])
@pytest.mark.parametrize("leader_epoch", [None, 3], ids=["V0", "V1"])
def test_rows_come_back(compression: str, leader_epoch: int | None) -> None:
    rows = random_rows(200, 1)
    data = encode(
        rows,
        schema_id=2,
        compression=compression,
        base=1000,
        timestamp_ms=77,
        number=BatchNumber(5, 6),
    )
    if leader_epoch is not None:
        data = in_format_1(data, leader_epoch)
    (head,) = heads(pa.py_buffer(data), "here")
    assert (head.base, head.end, head.timestamp_ms, head.schema_id) == (1000, 1200, 77, 2)
    assert (head.writer_id, head.sequence, head.append_only) == (5, 6, True)
    (actual,) = decoded(data, rows.schema)
    assert actual.rows == rows
    assert actual.kinds is None


def test_change_kinds_are_row_kinds() -> None:
    kinds = np.array([0, 1, 2, 3, 0, 0, 0, 0, 0, 3], np.int8)
    data = encode(ROWS, schema_id=1, kinds=kinds)
    assert data[48:58] == bytes([1, 2, 3, 4, 1, 1, 1, 1, 1, 4])
    (actual,) = decoded(data, ROWS.schema)
    assert actual.kinds.tolist() == kinds.tolist()
    changed = data[:48] + bytes([0]) + data[49:]  # +A, which an append-only batch leaves out
    (head,) = heads(pa.py_buffer(changed), "")
    assert decode(pa.py_buffer(changed), head, ROWS.schema, "").kinds[0] == 0


def test_uncompressed_rows_are_not_copied() -> None:
    """The header takes 48 bytes, so a batch lies as its buffer does; one that does not lie well is moved."""
    data = pa.py_buffer(encode(ROWS, schema_id=1, compression="NONE"))
    (head,) = heads(data, "")
    actual = decode(data, head, ROWS.schema, "").rows.column(0).buffers()[1]
    assert data.address <= actual.address < data.address + data.size
    moved = pa.py_buffer(b"x" + data.to_pybytes()).slice(1)
    assert decode(moved, head, ROWS.schema, "").rows == ROWS


def test_a_range_of_offsets() -> None:
    (actual,) = decoded(
        encode(ROWS, schema_id=1, base=100, kinds=np.arange(10, dtype=np.int8) % 4), ROWS.schema
    )
    part = actual.between(103, 106)
    assert (part.base, part.end, part.rows["id"].to_pylist()) == (103, 106, [3, 4, 5])
    assert part.kinds.tolist() == [3, 0, 1]
    assert actual.between(0, 1000) is actual
    assert actual.between(105, 1000).end == 110


def test_a_batch_without_rows_takes_its_offsets() -> None:
    data = (
        encode(ROWS, schema_id=1, base=0) + empty(10, 15, 3, schema_id=1) + encode(ROWS, schema_id=1, base=15)
    )
    actual = list(decoded(data, ROWS.schema))
    assert [(records.base, records.end, records.rows.num_rows) for records in actual] == [
        (0, 10, 10),
        (10, 15, 0),
        (15, 25, 10),
    ]
    part = actual[1].between(12, 14)
    assert (part.base, part.end, part.rows.num_rows) == (12, 14, 0)


def test_a_cut_batch_is_left_out_wherever_it_is_cut() -> None:
    whole = encode(ROWS, schema_id=1)
    for size in range(len(whole), 2 * len(whole)):
        assert len(list(heads(pa.py_buffer((whole + whole)[:size]), ""))) == 1


def test_every_damaged_byte_behind_the_crc_is_found() -> None:
    data = encode(ROWS, schema_id=1, kinds=np.zeros(10, np.int8))
    for at in range(25, len(data), 3):
        damaged = bytearray(data)
        damaged[at] ^= 0x40
        buffer = pa.py_buffer(bytes(damaged))
        with pytest.raises(Corrupt):
            list(decoded(buffer, ROWS.schema))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ((12, b"\x05"), "of format 5"),
        ((8, struct.pack("<i", 5)), "a log batch of 5 bytes"),
        ((28, struct.pack("<i", -3)), "over -2 offsets"),
        ((48 - 4, struct.pack("<i", 99)), "of 99 rows over 10 offsets"),
    ],
)
def test_heads_that_cannot_be_are_named(change: tuple[int, bytes], text: str) -> None:
    at, value = change
    data = bytearray(encode(ROWS, schema_id=1))
    data[at : at + len(value)] = value
    with pytest.raises(Corrupt, match=f"^segment 5: .*{text}"):
        list(heads(pa.py_buffer(bytes(data)), "segment 5"))


def test_batches_with_statistics_are_refused_by_name() -> None:
    data = bytearray(encode(ROWS, schema_id=1))
    data[12] = 2
    with pytest.raises(Unsupported, match="log batches of format 2"):
        list(heads(pa.py_buffer(bytes(data)), "a log"))


def test_rows_of_other_columns_are_damage() -> None:
    data = encode(ROWS, schema_id=1)
    other = pa.schema([("id", pa.int64()), ("name", pa.string()), ("more", pa.int64())])
    with pytest.raises(Corrupt, match="the log batch at offset 0"):
        list(decoded(data, other))


_NESTED = (
    "c-"
    "qyJK~BRk5JmskPH3T(DCz=<AaRtQfh}xc375zf*s^5JA$%B?9DrS!rk=<iQKfM#p^oI*Ki@CEPA3KS^)=^@<^B8Z2LTVOw?_gQq-"
    "A+*xqjHV<n;n;Tww)=8Lxqchp%O`<7*A?Td?ao|C70I>{%P#cd0ZYO(V4#(4?+oKp)C;1OBdVqV+t?n=s#nxmCUo^EJ{N_I%K5;g"
    "#=|mV?OtjY<91q<LQXa<D$%ru$pvd!^+;_4z@c3-"
    "1)~)cGrwU#WcM`=A@)YsJ@!uhZ|d17<iAj8t26{ofVxN^m;RpU3jm#C*xLBeG-"
    "O7C66|z*mKy|EcoQob*?d9>G6N%rDV@CK_Y;sqf#m(DOH${OikU_g~51-(~O@h5PS6{(mW>hx+&TIWPYgG&=P3"
)
"""Batches of a Fluss 0.9.1 with three rows that pyfluss 1.0.0 wrote, compressed, in base 85."""


def test_lists_maps_and_rows_are_read_as_fluss_0_9_has_them():
    text, number = ts.STRING, ts.INT
    columns = {"id": ts.BIGINT, "l": ts.ARRAY(number), "r": ts.ROW({"x": number, "y": text})}
    columns |= {"m": ts.MAP(text, ts.BIGINT), "ll": ts.ARRAY(ts.ARRAY(text))}
    schema = pa.schema([pa.field(name, arrow_type(t)) for name, t in columns.items()])
    recorded = zlib.decompress(base64.b85decode(_NESTED))
    rows = [row for batch in decoded(recorded, schema) for row in batch.rows.to_pylist()]
    empty = {"l": [], "r": {"x": None, "y": None}, "m": [], "ll": [None, ["b"]]}
    full = {"l": [1, 2, None], "r": {"x": 1, "y": "a"}, "m": [("k", 1), ("j", None)], "ll": [["a", None], []]}
    assert rows == [{"id": 1, **full}, {"id": 2, **dict.fromkeys(empty)}, {"id": 3, **empty}]
    with pytest.raises(Unsupported, match="in rows of a keyed table"):
        encode_rows([pa.array([[1]])], [columns["l"]])
