"""`debezium-avro`: change events of Debezium in Avro, as Confluent's converter frames them: read and written.

    byte 0: 0 · bytes 1 to 4: id of the schema in the registry, big-endian · the event in Avro

The types of the schema say how values are written. Messages of one schema become one container, which Polars
decodes as columns; fastavro decodes what Polars does not know, and says which message is bad.

Events are written as Flink's `debezium-avro-confluent` writes them, whole columns at a time: before, after,
op and kind, all unions with null: byte 0 for NULL, byte 2 before a value. `kind` is a field of ours: the kind
of an update, which Flink's events do not tell. Types are Avro's logical ones, and carry Kafka Connect's
names, by which Debezium's readers know them. Each column becomes the bytes of its values (`avro/encode.py`),
and these are joined row by row.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, SchemaMismatch, Unsupported
from tablestore.format import rowkind
from tablestore.format.avro import blocks as avro_blocks
from tablestore.format.avro import encode as avro_encode
from tablestore.format.avro.blocks import AvroBlock
from tablestore.format.avro.container import by_polars
from tablestore.format.avro.encode import NUMBERS
from tablestore.format.data_format import plain_rows
from tablestore.format.messages.debezium_json import Handling, joined, merged_events, of_type, runs
from tablestore.format.messages.encodings import Encoding
from tablestore.format.messages.messages import Changes, Messages, typed_rows
from tablestore.format.messages.registry_client import Registry, schema_text
from tablestore.format.messages.row_json import require_writable
from tablestore.format.types.data_type import DataField, DataType, time_unit

_FRAME = 5
_SIDES = ("before", "after", "op")
_MARK_NAME = "mark of the end"
_MARK = b"\x10\xfe\x93\x0d\xa7\xff\x81\x02\xc5"  # 8 bytes, and their length before them, as Avro writes it
_LOGICAL = ("logicalType", "precision", "scale", "default", "aliases", "doc")
_LOGICAL_KEPT, _SCALE_KEPT = "avro.logical", "avro.scale"
_CONNECT = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "io.debezium.time.Date",
    "time-millis": "io.debezium.time.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "io.debezium.time.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
}  # Avro's logical type → Connect's name of what is written alike


@dataclass(frozen=True)
class DebeziumAvro:
    """Debezium's events of one table, whose schemas `registry` has; `keyed` as for `merged_events`."""

    columns: tuple[DataField, ...]
    registry: Registry
    handling: Handling = Handling()
    appends: bool = False
    keyed: bool = False

    def of(self, columns: tuple[DataField, ...]) -> DebeziumAvro:
        return replace(self, columns=columns)

    def decode(self, messages: Messages) -> Changes:
        parts = [self._changes(*some) for some in by_schema(self.registry, messages.values.drop_null())]
        return joined(parts, self.columns)

    def _changes(self, event: dict[str, Any], bodies: Sequence[bytes]) -> Changes:
        before, after, ops = sides_and_texts(event, bodies, ("op",))
        sides = [(side, image(side, self.columns)) for side in (before, after)]
        encodings = encodings_of(event, self.columns, self.handling)
        return typed_rows(merged_events(ops, *sides, keyed=self.keyed), self.columns, encodings)


def by_schema(registry: Registry, values: pa.Array) -> Iterator[tuple[dict[str, Any], list[bytes]]]:
    """(the schema, the events without their frames) of messages that follow each other, none NULL. Raises
    SchemaMismatch for what is no event, and as `record` does."""
    messages = values.to_pylist()
    heads = pa.array([m[:_FRAME] for m in messages], pa.binary()).dictionary_encode()
    for start, stop in runs(heads.indices):
        yield _schema(registry, messages[start]), [m[_FRAME:] for m in messages[start:stop]]


def image(side: pa.Array, columns: Sequence[DataField]) -> pa.RecordBatch:
    """The columns of one side, NULL where the schema has none."""
    there = {side.type.field(i).name for i in range(side.type.num_fields)}
    arrays = [
        _of_column(pc.struct_field(side, f.name), f) if f.name in there else pa.nulls(len(side))
        for f in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=[f.name for f in columns])


def _of_column(values: pa.Array, f: DataField) -> pa.Array:
    if f.type.is_string and pa.types.is_nested(values.type):
        texts = [None if v is None else json.dumps(v, default=_text_of_bytes) for v in values.to_pylist()]
        return pa.array(texts, pa.string())
    return _plain(values)


def _text_of_bytes(value: Any) -> str:
    return base64.b64encode(value).decode()


def _schema(registry: Registry, head: bytes) -> dict[str, Any]:
    event = record(registry, schema_id(head))
    if not is_event(event):
        raise SchemaMismatch("the schema is not that of change events: before, after and op")
    return event


def schema_id(message: bytes) -> int:
    """The id in the frame of a message; raises SchemaMismatch for one without."""
    if len(message) < _FRAME or message[0] != 0:
        raise SchemaMismatch("the message is not framed: a byte 0 and the id of a schema come first")
    return int.from_bytes(message[1:_FRAME], "big")


def body(message: bytes) -> bytes:
    """A message without its frame."""
    return message[_FRAME:]


@lru_cache(maxsize=256)
def record(registry: Registry, schema_id: int) -> Any:
    """The schema of an id, each named type where it is used; not to be changed. Raises SchemaMismatch and
    Unavailable as `schema_text` does."""
    text = schema_text(registry, schema_id)
    try:
        avro_blocks.require_sound(text.encode(), "the schema")
    except Corrupt as e:
        raise SchemaMismatch(str(e)) from None
    return _inlined(json.loads(text), {})


def fields_of(schema: Any) -> dict[str, Any]:
    """The types of the fields of a record by name; none of what is no record."""
    record = _not_null(schema)
    if not isinstance(record, dict):
        return {}
    return {f["name"]: f["type"] for f in record.get("fields", ())}


def is_event(schema: Any) -> bool:
    """Whether it is the schema of change events."""
    return fields_of(schema).keys() >= {*_SIDES}


def _inlined(schema: Any, named: dict[str, Any]) -> Any:
    """The schema with each named type where it is used, each use under a name of its own, for Polars knows no
    references; logical types under other names, for they would hide the numbers."""
    if isinstance(schema, str):
        return _inlined(named[schema], dict(named)) if schema in named else schema
    if isinstance(schema, list):
        return [_inlined(branch, named) for branch in schema]
    kept = {k: v for k, v in schema.items() if k not in _LOGICAL}
    if "logicalType" in schema:
        kept |= {_LOGICAL_KEPT: schema["logicalType"], _SCALE_KEPT: schema.get("scale")}
    if "name" in schema and schema["type"] in ("record", "enum", "fixed"):
        full = f"{schema['namespace']}.{schema['name']}" if schema.get("namespace") else schema["name"]
        named[schema["name"]] = named[full] = schema
        named["#"] = number = named.get("#", 0) + 1
        kept = {k: v for k, v in kept.items() if k != "namespace"} | {"name": f"t{number}_{id(kept)}"}
    for key in ("items", "values"):
        if key in kept:
            kept[key] = _inlined(kept[key], named)
    if "fields" in kept:
        kept["fields"] = [{"name": f["name"], "type": _inlined(f["type"], named)} for f in kept["fields"]]
    elif not isinstance(kept["type"], str):
        return _inlined(kept["type"], named)
    return kept


def row_types(event: Any) -> dict[str, Any]:
    """The type of each column as the schema of events has it; raises SchemaMismatch for one without rows."""
    types = fields_of(fields_of(event)["after"])
    if not types:
        raise SchemaMismatch("the schema has no row in 'after'")
    return types


def _not_null(t: Any) -> Any:
    return next((branch for branch in t if branch != "null"), "null") if isinstance(t, list) else t


def encodings_of(event: Any, columns: Sequence[DataField], handling: Handling) -> list[Encoding]:
    """How the values of these columns are written, as the schema of events says it."""
    types = row_types(event)
    return [_encoding(types.get(f.name), f, handling) for f in columns]


def _encoding(t: Any, f: DataField, handling: Handling) -> Encoding:
    """By Connect's name of the type, else by Avro's own, as Flink writes it."""
    t = _not_null(t)
    if not isinstance(t, dict):
        return of_type("", {}, f, handling)
    if f.type.root == "ARRAY":
        element = replace(f, type=f.type.element)
        return Encoding(children=(_encoding(t.get("items"), element, handling),))
    if f.type.root == "ROW":
        types = fields_of(t)
        return Encoding(children=tuple(_encoding(types.get(c.name), c, handling) for c in f.type.children))
    logical, scale = t.get(_LOGICAL_KEPT, ""), t.get(_SCALE_KEPT)
    name = t.get("connect.name") or _CONNECT.get(logical, "")
    parameters = t.get("connect.parameters") or ({} if scale is None else {"scale": scale})
    return of_type(name, parameters, f, handling)


def sides_and_texts(event: dict[str, Any], bodies: Sequence[bytes], names: Sequence[str]) -> list[pa.Array]:
    """before and after of each event, then these fields, which are texts."""
    before, after, *texts = parts(event, bodies, ("before", "after", *names))
    return [_struct(before), _struct(after), *map(_plain, texts)]


def parts(event: dict[str, Any], bodies: Sequence[bytes], names: Sequence[str]) -> list[pa.Array]:
    """Fields of events without their frames. Raises SchemaMismatch where a body does not fit the schema."""
    columns = _by_polars(event, bodies, names)
    return _by_fastavro(event, bodies, names) if columns is None else columns


def _by_polars(event: dict[str, Any], bodies: Sequence[bytes], names: Sequence[str]) -> list[pa.Array] | None:
    """The fields; None where Polars fails, so that fastavro decodes them or says what is wrong.

    The messages are one block, with a mark behind each: where every mark is read as it was written, none was
    longer or shorter than its schema says."""
    fields = [*event["fields"], {"name": _MARK_NAME, "type": "bytes"}]
    data = _MARK.join([*bodies, b""])
    schema = json.dumps(event | {"fields": fields}).encode()
    table = by_polars(avro_blocks.joined(schema, [AvroBlock(len(bodies), data)]), [*names, _MARK_NAME])
    if table is None:
        return None
    if table.num_rows != len(bodies) or not pc.all(pc.equal(table.column(_MARK_NAME), _MARK[1:])).as_py():
        return None
    return [table.column(name).combine_chunks() for name in names]


def _by_fastavro(event: dict[str, Any], bodies: Sequence[bytes], names: Sequence[str]) -> list[pa.Array]:
    schema = fastavro.parse_schema(event)
    rows: list[Any] = []
    for body in bodies:
        source = io.BytesIO(body)
        try:
            rows.append(fastavro.schemaless_reader(source, schema, None))
        except (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError) as e:
            raise SchemaMismatch(f"the message does not fit its schema: {type(e).__name__}: {e}") from None
        if source.tell() != len(body):
            raise SchemaMismatch(
                f"the message has {len(body) - source.tell()} bytes more than its schema says"
            )
    return [pa.array([row[name] for row in rows]) for name in names]


def _struct(side: pa.Array) -> pa.Array:
    return pa.nulls(len(side), pa.struct([])) if pa.types.is_null(side.type) else side


def _plain(values: pa.Array) -> pa.Array:
    """Texts and bytes with 32-bit offsets."""
    t = values.type
    if pa.types.is_large_binary(t) or pa.types.is_binary_view(t) or pa.types.is_fixed_size_binary(t):
        return values.cast(pa.binary())
    if pa.types.is_large_string(t) or pa.types.is_string_view(t) or pa.types.is_dictionary(t):
        return values.cast(pa.string())
    return values


KIND = "kind"
_RECORD = "org.apache.flink.avro.generated.record"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NULL, _THERE = b"\x00", b"\x02"
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
        {"name": side, "type": ["null", _record_schema(f"{_RECORD}_{side}", columns)], "default": None}
        for side in ("before", "after")
    ]
    texts = [{"name": name, "type": ["null", "string"], "default": None} for name in ("op", KIND)]
    return json.dumps({"type": "record", "name": _RECORD, "fields": [*sides, *texts]})


def _record_schema(name: str, columns: Sequence[DataField]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field_schema(f, name) for f in columns]}


def _field_schema(f: DataField, within: str) -> dict[str, Any]:
    avro_type = _nullable_type(f.type, f"{within}_{f.name}")
    return {"name": f.name, "type": avro_type, **({"default": None} if f.type.nullable else {})}


def _nullable_type(t: DataType, name: str) -> Any:
    return ["null", _type_schema(t, name)] if t.nullable else _type_schema(t, name)


def _type_schema(t: DataType, name: str) -> Any:
    if t.root in NUMBERS:
        return NUMBERS[t.root]
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
        logical, connect = _STAMPS[time_unit(t.precision)]
        return {"type": "long", "logicalType": logical, "connect.name": connect}
    if t.root == "ROW":
        return _record_schema(name, t.children)
    if t.root == "ARRAY":
        return {"type": "array", "items": _nullable_type(t.element, name)}
    raise Unsupported(f"{t} columns in messages")


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
