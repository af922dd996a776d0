"""Types of Kafka Connect, as Debezium writes them into JSON schemas and Avro schemas → types of columns.

Decimal → DECIMAL · days → DATE · ms, us, ns since 1970 → TIMESTAMP(3), (6), (9) · a time with a zone →
TIMESTAMP_LTZ(6) · ms, us, ns of a TIME → BIGINT as they are, since a TIME of MySQL is negative and beyond
a day, too · Bits → BYTES, little endian as they are · enums, sets, JSON, UUID → STRING · what is nested
→ STRING, its JSON
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tablestore.cdc.capture.source import ShapeColumn
from tablestore.core.errors import SchemaMismatch
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataType

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_PLAIN = {
    "boolean": t.BOOLEAN,
    "int8": t.TINYINT,
    "int16": t.SMALLINT,
    "int32": t.INT,
    "int64": t.BIGINT,
    "float": t.FLOAT,
    "float32": t.FLOAT,
    "double": t.DOUBLE,
    "float64": t.DOUBLE,
    "bytes": t.BYTES,
    "int": t.INT,  # from here on Avro's
    "long": t.BIGINT,
    "fixed": t.BYTES,
}
_NAMED = {
    "io.debezium.time.Date": t.DATE,
    "org.apache.kafka.connect.data.Date": t.DATE,
    "io.debezium.time.IsoDate": t.DATE,
    "io.debezium.time.Timestamp": t.TIMESTAMP(3),
    "org.apache.kafka.connect.data.Timestamp": t.TIMESTAMP(3),
    "io.debezium.time.MicroTimestamp": t.TIMESTAMP(6),
    "io.debezium.time.NanoTimestamp": t.TIMESTAMP(9),
    "io.debezium.time.IsoTimestamp": t.TIMESTAMP(6),
    "io.debezium.time.ZonedTimestamp": t.TIMESTAMP_LTZ(6),
    **dict.fromkeys(
        ("io.debezium.time.Time", "io.debezium.time.MicroTime", "io.debezium.time.NanoTime"), t.BIGINT
    ),
    "org.apache.kafka.connect.data.Time": t.BIGINT,
}
_MOST_DIGITS = 38


def of_json_schema(text: str) -> tuple[ShapeColumn, ...]:
    """The columns of the rows of events with this schema. Raises SchemaMismatch for one without rows."""
    try:
        sides = {f["field"]: f for f in json.loads(text)["fields"]}
        return tuple(_of_field(f) for f in sides["after"]["fields"])
    except (TypeError, KeyError, ValueError):
        raise SchemaMismatch("the message has no schema that describes its rows") from None


def _of_field(f: Mapping[str, Any]) -> ShapeColumn:
    name, parameters = f.get("name") or "", f.get("parameters") or {}
    found = connect_type(f["type"], name, parameters)
    spelled = str(parameters.get("__debezium.source.column.type", "")).lower()
    nullable = bool(f.get("optional")) or "default" in f
    return ShapeColumn(f["field"], found if nullable else found.not_null(), spelled, f.get("doc") or "")


def of_avro_schema(fields: Mapping[str, Any]) -> tuple[ShapeColumn, ...]:
    """The same of an Avro record, whose fields have types with what Connect adds to them."""
    return tuple(_of_avro(name, kind) for name, kind in fields.items())


def _of_avro(name: str, kind: Any) -> ShapeColumn:
    nullable = isinstance(kind, list)
    if nullable:
        kind = next((branch for branch in kind if branch != "null"), "string")
    parameters: Mapping[str, Any] = {}
    word, connect = kind, ""
    if isinstance(kind, Mapping):
        word, connect = kind["type"], kind.get("connect.name", "")
        parameters = kind.get("connect.parameters") or {}
    spelled = str(parameters.get("__debezium.source.column.type", "")).lower()
    found = connect_type(str(word), connect, parameters)
    return ShapeColumn(name, found if nullable else found.not_null(), spelled)


def connect_type(kind: str, name: str, parameters: Mapping[str, Any]) -> DataType:
    """The type of a column of a plain type, with its semantic name and parameters."""
    if name == _DECIMAL:
        digits = int(parameters.get("connect.decimal.precision", _MOST_DIGITS))
        scale = int(parameters["scale"])
        return t.DECIMAL(digits, scale) if digits <= _MOST_DIGITS and scale <= digits else t.STRING
    return _NAMED.get(name) or _PLAIN.get(kind, t.STRING)
