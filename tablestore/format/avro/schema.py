"""The Avro schema of a data file as Java Paimon writes it (FORMAT.md 3.4).

A nullable value is a union ["null", X]. A nested record is named after the path to it. Maps with keys other
than text are arrays of (key, value) records with logicalType "map". The names of the timestamp types are
swapped: local-timestamp is an instant. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tablestore.core.errors import Unsupported
from tablestore.format.types.arrow_types import INT, DataField, DataType

_NAMESPACE = "org.apache.paimon.avro.generated"
NUMBERS = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
}
_PLAIN = {
    **NUMBERS,
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "bytes",
    "VARBINARY": "bytes",
}
_MAX_DIGITS = {"TIME": 3, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}


def file_schema(columns: Sequence[DataField]) -> dict[str, Any]:
    """The record of a file with these columns; raises Unsupported for types that Avro files do not hold."""
    return {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": _fields(columns, "record")}


def _fields(columns: Sequence[DataField], parent: str) -> list[dict[str, Any]]:
    items = []
    for f in columns:
        item = {"name": f.name, "type": _nullable(f.type, f"{parent}_{f.name}")}
        items.append(item | ({"default": None} if f.type.nullable else {}))
    return items


def _nullable(t: DataType, name: str) -> Any:
    kind = _kind(t, name)
    return ["null", kind] if t.nullable else kind


def _kind(t: DataType, name: str) -> Any:
    if t.root in _PLAIN:
        return _PLAIN[t.root]
    if t.precision > _MAX_DIGITS.get(t.root, t.precision):
        raise Unsupported(f"{t} columns in Avro files", "file.format = parquet holds them")
    if t.root == "DATE":
        return {"type": "int", "logicalType": "date"}
    if t.root == "TIME":
        return {"type": "int", "logicalType": "time-millis"}
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        unit = "millis" if t.precision <= 3 else "micros"
        return {
            "type": "long",
            "logicalType": f"{'local-' if t.root == 'TIMESTAMP_LTZ' else ''}timestamp-{unit}",
        }
    if t.root == "DECIMAL":
        return {"type": "bytes", "logicalType": "decimal", "precision": t.precision, "scale": t.scale}
    if t.root == "ROW":
        return {"type": "record", "name": name, "fields": _fields(t.children, name)}
    if t.root == "ARRAY":
        return {"type": "array", "items": _nullable(t.element, name)}
    if t.root in ("MAP", "MULTISET"):
        return _map(t, name)
    raise Unsupported(f"{t.root} columns in Avro files", "file.format = parquet holds them")


def _map(t: DataType, name: str) -> dict[str, Any]:
    key, value = entry_types(t)
    if key.is_string:
        return {"type": "map", "values": _nullable(value, name)}
    if t.root == "MULTISET":
        raise Unsupported(f"{t} columns in Avro files", "Java Paimon writes multisets of text only")
    fields: list[dict[str, Any]] = [{"name": "key", "type": _nullable(key, f"{name}_key")}]
    item: dict[str, Any] = {"name": "value", "type": _nullable(value, f"{name}_value")}
    fields.append(item | ({"default": None} if value.nullable else {}))
    return {
        "type": "array",
        "items": {"type": "record", "name": name, "fields": fields},
        "logicalType": "map",
    }


def entry_types(t: DataType) -> tuple[DataType, DataType]:
    """Types of a map's keys and values; a multiset counts its elements."""
    if t.root == "MULTISET":
        return t.element, INT
    return t.children[0].type, t.children[1].type
