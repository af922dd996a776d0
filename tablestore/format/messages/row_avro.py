"""Rows → change events in Avro as Flink's `debezium-avro-confluent` writes them, whole columns at a time.

    byte 0: 0 · bytes 1 to 4: id of the schema in the registry, big-endian · before · after · op · kind

All four are unions with null: byte 0 for NULL, byte 2 before a value. `kind` is a field of ours: the kind of
an update, which Flink's events do not tell. Types are Avro's logical ones, and carry Kafka Connect's names,
by which Debezium's readers know them. Each column becomes the bytes of its values (`avro/encode.py`), and
these are joined row by row. `debezium_avro.py` reads it all back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Unsupported
from tablestore.format import rowkind
from tablestore.format.avro import encode as avro_encode
from tablestore.format.data_format import plain_rows
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
    plain = plain_rows(rows.select([f.name for f in columns]), columns)
    values = [_binary(avro_encode.column(c, f.type)) for c, f in zip(plain.columns, columns, strict=True)]
    return pc.binary_join_element_wise(before, *values, behind, b"")


def _binary(runs: avro_encode.Runs) -> pa.BinaryArray:
    offsets = np.concatenate([[0], np.cumsum(runs.lengths)]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(runs.data)]
    return pa.Array.from_buffers(pa.binary(), len(runs.lengths), buffers)
