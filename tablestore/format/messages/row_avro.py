"""Rows → change events in Avro as Flink's `debezium-avro-confluent` writes them, whole columns at a time.

    byte 0: 0 · bytes 1 to 4: id of the schema in the registry, big-endian · before · after · op · kind

All four are unions with null: byte 0 for NULL, byte 2 before a value. `kind` is a field of ours: the kind of
an update, which Flink's events do not tell. Integers are zigzag varints. Types are Avro's logical ones, and
carry Kafka Connect's names, by which Debezium's readers know them. Each column becomes the bytes of its
values, and these are joined row by row. `debezium_avro.py` reads it all back.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Unsupported
from tablestore.format import rowkind
from tablestore.format.messages.row_json import require_writable
from tablestore.format.types.data_type import DataField, DataType

KIND = "kind"
_RECORD = "org.apache.flink.avro.generated.record"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NULL, _THERE = b"\x00", b"\x02"
_PLAIN = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
}
_STAMPS = {
    "ms": ("timestamp-millis", "io.debezium.time.Timestamp"),
    "us": ("timestamp-micros", "io.debezium.time.MicroTimestamp"),
    "ns": ("timestamp-nanos", "io.debezium.time.NanoTimestamp"),
}
_OPS = {
    rowkind.INSERT: b"\x02\x02c" + _NULL,
    rowkind.UPDATE_BEFORE: b"\x02\x02d" + b"\x02\x04-U",
    rowkind.UPDATE_AFTER: b"\x02\x02c" + b"\x02\x04+U",
    rowkind.DELETE: b"\x02\x02d" + _NULL,
}


def require_avro(columns: Sequence[DataField]) -> None:
    """Raise Unsupported naming the first column that no Avro message can hold."""
    require_writable(columns)
    for f in columns:
        if not _NAME.fullmatch(f.name):
            raise Unsupported(
                f"column {f.name!r} in Avro messages", "names there are letters, digits and _; rename it"
            )
        if f.type.root == "ROW":
            require_avro(f.type.children)


def event_schema(columns: Sequence[DataField]) -> str:
    """The schema of events of rows with these columns, as JSON."""
    sides = [
        {"name": side, "type": ["null", _record(f"{_RECORD}_{side}", columns)], "default": None}
        for side in ("before", "after")
    ]
    texts = [{"name": name, "type": ["null", "string"], "default": None} for name in ("op", KIND)]
    return json.dumps({"type": "record", "name": _RECORD, "fields": [*sides, *texts]})


def _record(name: str, columns: Sequence[DataField]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(f, name) for f in columns]}


def _field(f: DataField, within: str) -> dict[str, Any]:
    avro_type = _nullable(f.type, f"{within}_{f.name}")
    return {"name": f.name, "type": avro_type, **({"default": None} if f.type.nullable else {})}


def _nullable(t: DataType, name: str) -> Any:
    return ["null", _schema(t, name)] if t.nullable else _schema(t, name)


def _schema(t: DataType, name: str) -> Any:
    if t.root in _PLAIN:
        return _PLAIN[t.root]
    if t.is_string or t.is_binary:
        return "string" if t.is_string else "bytes"
    if t.root == "DECIMAL":
        named = {"scale": str(t.scale), "connect.decimal.precision": str(t.precision)}
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": t.precision, "scale": t.scale}
        connect = "org.apache.kafka.connect.data.Decimal"
        return {**decimal, "connect.name": connect, "connect.parameters": named}
    if t.root == "DATE":
        return {"type": "int", "logicalType": "date", "connect.name": "io.debezium.time.Date"}
    if t.root == "TIME":
        return {"type": "int", "logicalType": "time-millis", "connect.name": "io.debezium.time.Time"}
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        logical, connect = _STAMPS[_unit(t)]
        return {"type": "long", "logicalType": logical, "connect.name": connect}
    if t.root == "ROW":
        return _record(name, t.children)
    if t.root == "ARRAY":
        return {"type": "array", "items": _nullable(t.element, name)}
    raise Unsupported(f"{t} columns in messages")


def _unit(t: DataType) -> str:
    return "ms" if t.precision <= 3 else "us" if t.precision <= 6 else "ns"


def avro_events(
    kinds: pa.Array, rows: pa.RecordBatch, columns: Sequence[DataField], schema_id: int
) -> pa.BinaryArray:
    """An event for each row, with these columns in their order, framed with the id of their schema."""
    frame = b"\x00" + schema_id.to_bytes(4, "big")
    retracts = pa.array(rowkind.retracts(kinds.to_numpy(zero_copy_only=False)))
    before = pc.if_else(retracts, pa.scalar(frame + _THERE), pa.scalar(frame + _NULL + _THERE))
    after = [
        (_NULL if kind in (rowkind.UPDATE_BEFORE, rowkind.DELETE) else b"") + op for kind, op in _OPS.items()
    ]
    behind = pa.array(after, pa.binary()).take(kinds)
    values = [_field_bytes(rows.column(f.name), f.type) for f in columns]
    return pc.binary_join_element_wise(before, *values, behind, b"")


def _field_bytes(values: pa.Array, t: DataType) -> pa.BinaryArray:
    """The bytes of each value, in a union with null where the type may be NULL."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    bodies = _bytes(values, t)
    if not t.nullable:
        return bodies
    there = pc.binary_join_element_wise(pa.scalar(_THERE), bodies, b"")
    return pc.if_else(values.is_valid(), there, pa.scalar(_NULL)) if values.null_count else there


def _bytes(values: pa.Array, t: DataType) -> pa.BinaryArray:
    """The bytes of each value; of NULL any."""
    if t.root == "BOOLEAN":
        return _fixed(pc.fill_null(values, False).cast(pa.uint8()), "<u1")
    if t.root in ("FLOAT", "DOUBLE"):
        return _fixed(pc.fill_null(values, 0.0), "<f4" if t.root == "FLOAT" else "<f8")
    if t.is_string or t.is_binary:
        return _measured(pc.fill_null(values.cast(pa.binary()), b""))
    if t.root == "DECIMAL":
        return _decimals(values, t)
    if t.root == "ROW":
        children = [pc.struct_field(values, [i]) for i in range(len(t.children))]
        parts = [_field_bytes(child, f.type) for child, f in zip(children, t.children, strict=True)]
        return pc.binary_join_element_wise(*parts, b"")
    if t.root == "ARRAY":
        return _arrays(values, t.element)
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        zone = values.type.tz
        values = values.cast(pa.timestamp(_unit(t), zone))
    elif t.root in ("DATE", "TIME"):
        values = values.cast(pa.int32())
    return varints(pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False))


def varints(numbers: np.ndarray) -> pa.BinaryArray:
    """Each number as a zigzag varint.

    >>> varints(np.array([0, -1, 64])).to_pylist()
    [b'\\x00', b'\\x01', b'\\x80\\x01']
    """
    signed = numbers.astype(np.int64, copy=False)
    zigzag = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    widest = max(1, -(-int(zigzag.max(initial=0)).bit_length() // 7))
    lengths = np.ones(len(zigzag), np.int32)
    for i in range(1, widest):
        lengths += zigzag >= np.uint64(1 << 7 * i)
    offsets = np.zeros(len(zigzag) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    for i in range(widest):
        rows = slice(None) if i == 0 else np.flatnonzero(lengths > i)
        low = (zigzag[rows] >> np.uint64(7 * i)).astype(np.uint8) & np.uint8(0x7F)
        data[offsets[:-1][rows] + i] = low | ((lengths[rows] > i + 1) * np.uint8(0x80))
    return _of_buffers(offsets, data)


def _of_buffers(offsets: np.ndarray, data: np.ndarray) -> pa.BinaryArray:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _rows_of(matrix: np.ndarray) -> pa.BinaryArray:
    """Each row of a matrix of bytes."""
    count, width = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return _of_buffers(offsets, np.ascontiguousarray(matrix).reshape(-1))


def _fixed(values: pa.Array, form: str) -> pa.BinaryArray:
    numbers = values.to_numpy(zero_copy_only=False).astype(form)
    return _rows_of(numbers.view(np.uint8).reshape(len(numbers), -1))


def _measured(values: pa.BinaryArray) -> pa.BinaryArray:
    """Values behind their lengths."""
    lengths = varints(pc.binary_length(values).to_numpy(zero_copy_only=False))
    return pc.binary_join_element_wise(lengths, values, b"")


def _decimals(values: pa.Array, t: DataType) -> pa.BinaryArray:
    """Unscaled values as big-endian two's complement, as many bytes as the precision needs."""
    width = math.ceil((t.precision * math.log2(10) + 1) / 8)
    widened = values.cast(pa.decimal128(t.precision, t.scale))
    raw = np.frombuffer(widened.buffers()[1], np.uint8)[
        widened.offset * 16 : (widened.offset + len(widened)) * 16
    ]
    digits = raw.reshape(-1, 16)[:, :width][:, ::-1]
    return _rows_of(np.concatenate([np.full((len(widened), 1), 2 * width, np.uint8), digits], axis=1))


def _arrays(values: pa.Array, element: DataType) -> pa.BinaryArray:
    """Lists: one block of their elements, and an empty one."""
    if isinstance(values, pa.LargeListArray):
        values = values.cast(pa.list_(values.type.value_type))
    items = _field_bytes(pc.list_flatten(values), element)
    counts = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), items), b"")
    blocks = pc.binary_join_element_wise(varints(counts), joined, pa.scalar(_NULL), b"")
    return pc.if_else(pa.array(counts > 0), blocks, pa.scalar(_NULL))
