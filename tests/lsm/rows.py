"""kv rows for tests: key strategies of every type, batches from Python rows, and a dict as the model of a
merge."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tablestore.format import binary_row
from tablestore.format.parquet.schema import KIND, SEQUENCE
from tablestore.format.types.arrow_types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    TINYINT,
    DataField,
    DataType,
    to_arrow,
)

Row = tuple[Any, ...]  # sequence, kind, *raw key values, value

_doubles = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]) | st.floats()
_floats = st.sampled_from([0.0, -0.0, math.nan]) | st.floats(width=32)
RAW: dict[DataType, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    TINYINT: st.integers(-128, 127),
    INT: st.integers(-(2**31), 2**31 - 1) | st.integers(0, 5),
    BIGINT: st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5),
    FLOAT: _floats,
    DOUBLE: _doubles,
    DATE: st.integers(-100_000, 100_000),
    TIME(3): st.integers(0, 86_399_999),
    TIMESTAMP(3): st.integers(-(10**12), 10**12),
    TIMESTAMP(9): st.integers(-(2**62), 2**62),
    TIMESTAMP_LTZ(6): st.integers(-(10**15), 10**15),
    DECIMAL(10, 2): st.integers(-(10**10) + 1, 10**10 - 1),
    DECIMAL(38, 3): st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-5, 5),
    STRING: st.text(max_size=12) | st.sampled_from(["", "a", "a\0", "é", "\U0001f600"]),
    BYTES: st.binary(max_size=12) | st.sampled_from([b"", b"\0", b"\x7f", b"\x80", b"\xff"]),
}


def key_fields(types: Sequence[DataType]) -> tuple[DataField, ...]:
    """Key columns k0, k1, … of these types."""
    return tuple(DataField(i, f"k{i}", t.not_null()) for i, t in enumerate(types))


def array_of(raw: Sequence[Any], t: DataType) -> pa.Array:
    """The Arrow column of raw values."""
    wanted = to_arrow(t)
    if t.root == "DECIMAL":
        words = b"".join(v.to_bytes(16, "little", signed=True) for v in raw)
        return pa.Array.from_buffers(wanted, len(raw), [None, pa.py_buffer(words)])
    if t.root in ("TIME", "DATE"):
        return pa.array(raw, pa.int32()).cast(wanted)
    if binary_row.is_timestamp(t):
        return pa.array(raw, pa.int64()).cast(wanted)
    return pa.array(raw, wanted)


def kv_batch(rows: Sequence[Row], keys: Sequence[DataField]) -> pa.RecordBatch:
    """Rows as a kv batch with the key columns and one text column v."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * (len(keys) + 3)
    arrays = [pa.array(columns[0], pa.int64()), pa.array(columns[1], pa.int8())]
    arrays += [array_of(columns[2 + i], f.type) for i, f in enumerate(keys)]
    arrays.append(pa.array(columns[-1], pa.string()))
    return pa.RecordBatch.from_arrays(arrays, [SEQUENCE, KIND, *(f.name for f in keys), "v"])


def rows_of(batches: Iterable[pa.RecordBatch], keys: Sequence[DataField]) -> list[Row]:
    """Rows of kv batches, keys raw."""
    collected: list[Row] = []
    for batch in batches:
        columns = [batch.column(SEQUENCE).to_pylist(), batch.column(KIND).to_pylist()]
        for field in keys:
            column = batch.column(field.name)
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            columns.append(binary_row.raw_values(column, field.type))
        collected += zip(*columns, batch.column("v").to_pylist(), strict=True)
    return collected


def comparable(row: Row, keys: Sequence[DataField]) -> tuple[Any, ...]:
    """The sort key of a row's key, as the engine's metadata has it."""
    return binary_row.sort_key(_as_stored(row[2:-1], keys), [f.type for f in keys])


def _as_stored(values: Sequence[Any], keys: Sequence[DataField]) -> list[Any]:
    def narrow(value: Any, t: DataType) -> Any:
        return struct.unpack("<f", struct.pack("<f", value))[0] if t.root == "FLOAT" else value

    return [narrow(v, f.type) for v, f in zip(values, keys, strict=True)]


def merged_model(rows: Iterable[Row], keys: Sequence[DataField]) -> dict[Any, Row]:
    """The winner of each key, by a dict, in key order."""
    winners: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda r: r[0]):
        winners[comparable(row, keys)] = row
    return dict(sorted(winners.items()))


def same(a: Sequence[Row], b: Sequence[Row]) -> bool:
    """Equality in which NaN equals NaN and −0.0 is not 0.0."""
    return repr(list(a)) == repr(list(b))
