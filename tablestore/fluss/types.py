"""Types of Fluss, their JSON and their form in log batches.

BOOLEAN TINYINT SMALLINT INTEGER BIGINT FLOAT DOUBLE DECIMAL(p, s) CHAR(n) STRING BINARY(n) BYTES DATE
TIME_WITHOUT_TIME_ZONE(p) TIMESTAMP_WITHOUT_TIME_ZONE(p) TIMESTAMP_WITH_LOCAL_TIME_ZONE(p)
Arrow of a log batch: BINARY(n) is fixed_size_binary; TIME and TIMESTAMP by p: 0 s, 1-3 ms, 4-6 us, 7-9
ns; an instant has no time zone in its type; ARRAY is a list, MAP a map, ROW a struct (from 0.9 on)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from tablestore.core.errors import Unsupported
from tablestore.format.types.arrow_types import BYTES, STRING
from tablestore.format.types.data_type import MAX_LENGTH, DataField, DataType, nested, to_arrow

_ROOTS = {  # ours by theirs
    **{
        root: root
        for root in ("BOOLEAN", "TINYINT", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "DECIMAL")
    },
    **{root: root for root in ("CHAR", "BINARY")},
    "INTEGER": "INT",
    "TIME_WITHOUT_TIME_ZONE": "TIME",
    "TIMESTAMP_WITHOUT_TIME_ZONE": "TIMESTAMP",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP_LTZ",
}
_PRECISIONS = {
    **{"DECIMAL": (1, 38), "CHAR": (1, MAX_LENGTH), "BINARY": (1, MAX_LENGTH)},
    **{root: (0, 9) for root, ours in _ROOTS.items() if ours in ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ")},
}
_THEIRS = {ours: theirs for theirs, ours in _ROOTS.items()}
_DEEPEST = 50
_BY_PRECISION = ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


def type_of_json(json_type: Mapping[str, Any], *, depth: int = 0) -> DataType:
    """Our type of the same meaning; raises Unsupported for one that is not known, ValueError for numbers that
    it cannot have."""
    if depth > _DEEPEST:
        raise ValueError(f"types nested more than {_DEEPEST} deep")
    root, nullable, below = json_type["type"], json_type.get("nullable", True), depth + 1
    if root == "STRING" or root == "BYTES":
        t = STRING if root == "STRING" else BYTES
    elif root in _ROOTS:
        precision, scale = json_type.get("length", json_type.get("precision", 0)), json_type.get("scale", 0)
        least, most = _PRECISIONS.get(root, (0, 0))
        if not (
            type(precision) is type(scale) is int and least <= precision <= most and 0 <= scale <= precision
        ):
            raise ValueError(f"a {root} of {precision!r}, {scale!r}")
        t = DataType(_ROOTS[root], precision=precision, scale=scale)
    elif root == "ARRAY":
        t = nested("ARRAY", type_of_json(json_type["element_type"], depth=below))
    elif root == "MAP":
        key, value = (type_of_json(json_type[name], depth=below) for name in ("key_type", "value_type"))
        t = nested("MAP", key, value)
    elif root == "ROW":
        fields = (
            DataField(
                i, field["name"], type_of_json(field["field_type"], depth=below), field.get("description")
            )
            for i, field in enumerate(json_type["fields"])
        )
        t = DataType("ROW", children=tuple(fields))
    else:
        raise Unsupported(f"type {root} of Fluss")
    return t if nullable else t.not_null()


def type_json(t: DataType, ids: Iterator[int]) -> dict[str, Any]:
    """The type as a table's JSON has it; fields of a ROW get the next `ids`, which Fluss wants from 0.9 on.
    Raises Unsupported for a type that Fluss does not have."""
    described: dict[str, Any] = {} if t.nullable else {"nullable": False}
    if t == STRING.not_null() or t == STRING:
        return {"type": "STRING", **described}
    if t == BYTES.not_null() or t == BYTES:
        return {"type": "BYTES", **described}
    if t.root == "ARRAY":
        return {"type": "ARRAY", **described, "element_type": type_json(t.element, ids)}
    if t.root == "MAP":
        key, value = (type_json(child.type, ids) for child in t.children)
        return {"type": "MAP", **described, "key_type": key, "value_type": value}
    if t.root == "ROW":
        return {"type": "ROW", **described, "fields": [_field_json(child, ids) for child in t.children]}
    if t.root not in _THEIRS:
        raise Unsupported(f"{t} in a table of Fluss")
    described = {"type": _THEIRS[t.root], **described}
    if t.root in ("CHAR", "BINARY"):
        described["length"] = t.precision
    elif t.root == "DECIMAL":
        described |= {"precision": t.precision, "scale": t.scale}
    elif t.root in _BY_PRECISION:
        described["precision"] = t.precision
    return described


def _field_json(field: DataField, ids: Iterator[int]) -> dict[str, Any]:
    described: dict[str, Any] = {"name": field.name, "field_id": next(ids)}
    described["field_type"] = type_json(field.type, ids)
    return described | ({"description": field.description} if field.description else {})


def arrow_type(t: DataType) -> pa.DataType:
    """The Arrow type of such a column in log batches; nested types have a form from Fluss 0.9 on."""
    if t.is_nested:
        fields = [pa.field(f.name, arrow_type(f.type), f.type.nullable) for f in t.children]
        if t.root == "MAP":
            return pa.map_(fields[0].type, fields[1])
        if t.root == "ARRAY":
            return pa.list_(pa.field("element", fields[0].type, fields[0].nullable))
        if t.root == "ROW":
            return pa.struct(fields)
        raise Unsupported(f"{t} in a log of Fluss")
    if t.root == "BINARY":
        return pa.binary(t.precision)
    if t.root not in _BY_PRECISION:
        return to_arrow(t)
    unit = "s" if t.precision == 0 else "ms" if t.precision <= 3 else "us" if t.precision <= 6 else "ns"
    if t.root == "TIME":
        return pa.time32(unit) if t.precision <= 3 else pa.time64(unit)
    return pa.timestamp(unit)


def engine_column(values: pa.Array, t: DataType) -> pa.Array:
    """A column of a log batch in the Arrow type that tables of the engine have for `t`: an instant with
    UTC, seconds as milliseconds, TIME in milliseconds (finer digits are cut, as tables store them)."""
    wanted = to_arrow(t)
    if values.type == wanted:
        return values
    if pa.types.is_time64(values.type) or t.is_nested:
        return values.cast(wanted, safe=False)
    if pa.types.is_timestamp(wanted) and wanted.tz and values.type.unit == wanted.unit:
        return values.view(wanted)
    return values.cast(wanted)
