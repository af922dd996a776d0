"""Debezium's change events of many tables, in JSON (bare or with their schema) and in Avro.

The table is `source.db` (`source.schema` where the source has schemas within a database) and `source.table`.
Messages of transactions, heartbeats and schema changes, tombstones and `m` hold no rows.

Types of Kafka Connect, as JSON schemas and Avro schemas have them: Decimal → DECIMAL · days → DATE · ms, us,
ns since 1970 → TIMESTAMP(3), (6), (9) · a time with a zone → TIMESTAMP_LTZ(6) · ms, us, ns of a TIME → BIGINT
as they are, since a TIME of MySQL is negative and beyond a day, too · Bits → BYTES, little endian as they are
· enums, sets, JSON, UUID → STRING · what is nested → STRING, its JSON
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.capture.source import ShapeColumn
from tablestore.cdc.formats.events import (
    NO_ROWS,
    SNAPSHOT,
    STRUCTURE,
    TRUNCATE,
    Routes,
    image_counts,
    object_of,
    of_structure,
    plain_routes,
)
from tablestore.core.errors import InvalidRequest, SchemaMismatch, Unsupported
from tablestore.format.messages import debezium_avro, json_text
from tablestore.format.messages.debezium_avro import DebeziumAvro
from tablestore.format.messages.debezium_json import DebeziumJson, Handling
from tablestore.format.messages.messages import MessageFormat, Messages
from tablestore.format.messages.registry_client import Registry
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataField, DataType

_SCHEMA = "{schema}"  # begins the description of an event with its schema; a structure begins with {"
_OPS = ("c", "u", "d", SNAPSHOT, TRUNCATE, "m")
_EVENT: dict[str, Any] = {
    "op": json_text.TEXT,
    "before": json_text.JSON,
    "after": json_text.JSON,
    "ts_ms": json_text.TEXT,
    "source": {
        "db": json_text.TEXT,
        "schema": json_text.TEXT,
        "table": json_text.TEXT,
        "ts_ms": json_text.TEXT,
    },
    "ddl": json_text.TEXT,
    "status": json_text.TEXT,
}
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


@dataclass(frozen=True)
class JsonEvents:
    """Events in JSON; whether a schema is around one, it tells itself."""

    handling: Handling = Handling()

    def routes(self, messages: Messages) -> Routes:
        texts = messages.values
        outer = json_text.parsed(texts, {**_EVENT, "schema": json_text.TEXT, "payload": _EVENT})
        if not len(outer):
            return plain_routes(0)
        payload = outer.field("payload")
        wrapped = pc.and_(outer.field("op").is_null(), payload.is_valid())
        wrapped = pc.and_(wrapped, outer.field("schema").is_valid()).fill_null(False)

        def of(*path: str) -> pa.Array:
            return pc.if_else(wrapped, pc.struct_field(payload, path), pc.struct_field(outer, path))

        others = [of("ddl"), of("status"), pc.if_else(of("source", "db").is_null(), of("ts_ms"), None)]
        ops = _ops(of("op"), texts.is_null(), others)
        before, after = of("before"), of("after")
        bare = pc.if_else(wrapped, pa.scalar(None, pa.string()), pc.coalesce(after, before).cast(pa.string()))
        structures = json_text.run(f"SELECT {STRUCTURE}(v)::VARCHAR FROM texts", bare)
        schemas = pc.binary_join_element_wise(_SCHEMA, outer.field("schema").cast(pa.string()), "")
        return Routes(
            _database(of("source", "schema"), of("source", "db")),
            of("source", "table"),
            ops,
            _seconds(of("source", "ts_ms"), of("ts_ms")),
            image_counts(ops, before.is_null().to_numpy(zero_copy_only=False)),
            pc.if_else(wrapped, schemas, structures),
        )

    def columns(self, description: str) -> tuple[ShapeColumn, ...]:
        if description.startswith(_SCHEMA):
            return of_json_schema(description.removeprefix(_SCHEMA))
        return of_structure(description)

    def inferred(self, description: str) -> bool:
        return not description.startswith(_SCHEMA)

    def key(self, message: Messages) -> tuple[str, ...]:
        """The names in the message's key, or the field `pkNames` that some writers add."""
        value, key = object_of(message.values[0].as_py()), object_of(message.keys[0].as_py())
        names = _payload(value).get("pkNames") or _payload(key)
        return tuple(str(name) for name in names)

    def decoder(self, columns: tuple[DataField, ...]) -> MessageFormat:
        return DebeziumJson(columns, None, self.handling, keyed=True)


@dataclass(frozen=True)
class AvroEvents:
    """Events in Avro, whose schemas `registry` has."""

    registry: Registry
    handling: Handling = Handling()

    def routes(self, messages: Messages) -> Routes:
        values = messages.values.to_pylist()
        ids = np.array([-1 if v is None else debezium_avro.schema_id(v) for v in values], np.int64)
        parts, order = [plain_routes(0)], [np.zeros(0, np.int64)]
        for schema in np.unique(ids):
            rows = np.flatnonzero(ids == schema)
            parts.append(self._of_schema(int(schema), [values[i] for i in rows]))
            order.append(rows)
        back = pa.array(np.argsort(np.concatenate(order), kind="stable"))
        arrays = (
            pa.concat_arrays([getattr(part, name) for part in parts]).take(back)
            for name in ("database", "table", "ops", "seconds", "descriptions")
        )
        images = np.concatenate([part.images for part in parts])[back.to_numpy()]
        database, table, ops, seconds, descriptions = arrays
        return Routes(database, table, ops, seconds, images, descriptions)

    def _of_schema(self, schema: int, values: Sequence[bytes]) -> Routes:
        """Messages of one schema."""
        event = {} if schema < 0 else debezium_avro.record(self.registry, schema)
        if not debezium_avro.is_event(event):
            fields = debezium_avro.fields_of(event).keys()
            if schema >= 0 and not fields & {"ddl", "status"} and fields != {"ts_ms"}:
                raise SchemaMismatch("the schema is not that of change events: before, after and op")
            return plain_routes(len(values))
        there = debezium_avro.fields_of(event)
        names = ["before", "op", *(name for name in ("source", "ts_ms") if name in there)]
        parts = debezium_avro.parts(event, [debezium_avro.body(v) for v in values], names)
        columns = dict(zip(names, parts, strict=True))
        nothing = pa.nulls(len(values), pa.string())
        source = columns.get("source")

        def of(name: str) -> pa.Array:
            there = source is not None and name in {f.name for f in source.type.fields}
            return pc.struct_field(source, name).cast(pa.string()) if there else nothing

        ops = _ops(columns["op"].cast(pa.string()), nothing.is_valid(), ())
        at = columns["ts_ms"].cast(pa.string()) if "ts_ms" in columns else nothing
        return Routes(
            _database(of("schema"), of("db")),
            of("table"),
            ops,
            _seconds(of("ts_ms"), at),
            image_counts(ops, columns["before"].is_null().to_numpy(zero_copy_only=False)),
            pa.array([str(schema)] * len(values)),
        )

    def columns(self, description: str) -> tuple[ShapeColumn, ...]:
        event = debezium_avro.record(self.registry, int(description))
        return of_avro_schema(debezium_avro.row_types(event))

    def inferred(self, description: str) -> bool:
        return False

    def key(self, message: Messages) -> tuple[str, ...]:
        key = message.keys[0].as_py()
        try:
            record = debezium_avro.record(self.registry, debezium_avro.schema_id(key or b""))
        except InvalidRequest:  # not Avro: no names
            return ()
        return tuple(debezium_avro.fields_of(record))

    def decoder(self, columns: tuple[DataField, ...]) -> MessageFormat:
        return DebeziumAvro(columns, self.registry, self.handling, keyed=True)


def _ops(ops: pa.Array, tombstones: pa.Array, others: Sequence[pa.Array]) -> pa.Array:
    """The op of each message, `-` for one without rows. Raises for a message that is none of those known:
    `others` are fields of which one says that it is something else than a change."""
    strange = pc.and_(ops.is_valid(), pc.invert(pc.is_in(ops, pa.array(_OPS))))
    if pc.any(strange).as_py():
        op = ops[pc.index(strange, True).as_py()].as_py()
        raise Unsupported(f"change event with op {op!r}", why="c, r, u, d, t and m are known")
    passed = tombstones
    for field in others:
        passed = pc.or_(passed, field.is_valid())
    if pc.any(pc.and_(ops.is_null(), pc.invert(passed))).as_py():
        raise SchemaMismatch("the message is no change event: it has no 'op'")
    return pc.if_else(pc.equal(ops, "m"), NO_ROWS, ops).fill_null(NO_ROWS)


def _database(schemas: pa.Array, databases: pa.Array) -> pa.Array:
    return pc.coalesce(pc.if_else(pc.equal(schemas, ""), None, schemas), databases)


def _seconds(*millis: pa.Array) -> pa.Array:
    """Seconds of the first time that there is."""
    return pc.divide(pc.coalesce(*(texts.cast(pa.int64()) for texts in millis)), 1000)


def _payload(message: dict[str, Any]) -> dict[str, Any]:
    if message.keys() >= {"schema", "payload"} and isinstance(message["payload"], dict):
        inner: dict[str, Any] = message["payload"]
        return inner
    return message


def of_json_schema(text: str) -> tuple[ShapeColumn, ...]:
    """The columns of the rows of events with this schema. Raises SchemaMismatch for one without rows."""
    try:
        sides = {f["field"]: f for f in json.loads(text)["fields"]}
        return tuple(_of_field(f) for f in sides["after"]["fields"])
    except (TypeError, KeyError, ValueError):
        raise SchemaMismatch("the message has no schema that describes its rows") from None


def _of_field(f: Mapping[str, Any]) -> ShapeColumn:
    name, parameters = f.get("name") or "", f.get("parameters") or {}
    kind = connect_type(f["type"], name, parameters)
    spelled = str(parameters.get("__debezium.source.column.type", "")).lower()
    nullable = bool(f.get("optional")) or "default" in f
    return ShapeColumn(f["field"], kind if nullable else kind.not_null(), spelled, f.get("doc") or "")


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
    column_type = connect_type(str(word), connect, parameters)
    return ShapeColumn(name, column_type if nullable else column_type.not_null(), spelled)


def connect_type(kind: str, name: str, parameters: Mapping[str, Any]) -> DataType:
    """The type of a column of a plain type, with its semantic name and parameters."""
    if name == _DECIMAL:
        digits = int(parameters.get("connect.decimal.precision", _MOST_DIGITS))
        scale = int(parameters["scale"])
        return t.DECIMAL(digits, scale) if digits <= _MOST_DIGITS and scale <= digits else t.STRING
    return _NAMED.get(name) or _PLAIN.get(kind, t.STRING)
