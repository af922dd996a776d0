"""`debezium-json`: change events of Debezium as JSON, bare or with their schema (`schemas.enable`).

`{"before": row, "after": row, "op": "c", …}`, or `{"schema": …, "payload": that}`. `c` and `r` give +I, `u`
−U and +U, `d` −D; a key that changes comes as `d` and `c`. Tombstones and `m` (messages of a program) hold
no rows. `t` (truncate) is refused: rows go that no event names. With the schema, it says how values are
written; without, the options of Debezium do, and the unit of a number that is a TIMESTAMP follows from the
column's precision.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch
from tablestore.format.messages import json_text
from tablestore.format.messages.encodings import PRECISE, TEXT, Encoding
from tablestore.format.messages.messages import Changes, Messages, merged, require_image, typed_rows
from tablestore.format.types.data_type import DataField, time_unit

_HINT = "; the source must log whole rows (REPLICA IDENTITY FULL, binlog_row_image=FULL)"
_UNITS = {
    "io.debezium.time.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Time": "ms",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
_DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


@dataclass(frozen=True, slots=True)
class Handling:
    """How a connector writes values where no schema says it: its properties `decimal.handling.mode`,
    `time.precision.mode`, `binary.handling.mode` and `bigint.unsigned.handling.mode`."""

    decimal: str | None = None
    time: str = "adaptive_time_microseconds"
    binary: str = "base64"
    unsigned: str = "long"

    def encoding(self, f: DataField) -> Encoding:
        """How values of a column are written."""
        t, decimal = f.type, self.decimal
        if decimal == "double" or decimal == "string":
            decimal = TEXT
        if self.unsigned == "precise" and t.root == "DECIMAL" and (t.precision, t.scale) == (20, 0):
            decimal = PRECISE  # a BIGINT UNSIGNED
        days = self.time != "isostring"
        return Encoding(decimal, unit=self._unit(f), days=days, binary=self.binary)

    def _unit(self, f: DataField) -> str | None:
        fixed = {"connect": "ms", "microseconds": "us", "nanoseconds": "ns"}
        if self.time in fixed or self.time == "isostring":
            return fixed.get(self.time)
        if f.type.root == "TIME" and self.time == "adaptive_time_microseconds":
            return "us"
        return time_unit(f.type.precision)


@dataclass(frozen=True)
class DebeziumJson:
    """Debezium's events of one table; `keyed` as for `merged_events`. `schema_include`: a schema is around
    each; None: around some, as each tells itself."""

    columns: tuple[DataField, ...]
    schema_include: bool | None = False
    handling: Handling = Handling()
    appends: bool = False
    keyed: bool = False

    def of(self, columns: tuple[DataField, ...]) -> DebeziumJson:
        return replace(self, columns=columns)

    def decode(self, messages: Messages) -> Changes:
        if self.schema_include is None:
            return self._either(messages)
        texts = messages.values.drop_null()
        image = json_text.shape(self.columns)
        envelope = {"before": image, "after": image, "op": json_text.TEXT}
        if not self.schema_include:
            events = json_text.parsed(texts, envelope)
            encodings = [self.handling.encoding(f) for f in self.columns]
            return self._changes(events, texts, (), encodings)
        outer = json_text.parsed(texts, {"schema": json_text.TEXT, "payload": envelope})
        schemas = outer.field("schema").dictionary_encode()
        payload = outer.field("payload")
        parts = []
        for start, stop in runs(schemas.indices):
            encodings_of_run = described(schemas[start].as_py(), self.columns, self.handling)
            part = payload.slice(start, stop - start)
            parts.append(
                self._changes(part, texts.slice(start, stop - start), ("payload",), encodings_of_run)
            )
        return joined(parts, self.columns)

    def _either(self, messages: Messages) -> Changes:
        if not len(messages):
            return replace(self, schema_include=False).decode(messages)
        outer = json_text.parsed(messages.values, {"op": json_text.TEXT, "payload": {"op": json_text.TEXT}})
        wrapped = pc.and_(outer.field("op").is_null(), pc.struct_field(outer, ["payload", "op"]).is_valid())
        parts = [
            replace(self, schema_include=wrapped[start].as_py()).decode(messages.slice(start, stop - start))
            for start, stop in runs(wrapped.cast(pa.int8()))
        ]
        return joined(parts, self.columns)

    def _changes(
        self, events: pa.StructArray, texts: pa.Array, path: Sequence[str], encodings: Sequence[Encoding]
    ) -> Changes:
        ops = events.field("op") if len(events) else pa.nulls(0, pa.string())
        if ops.null_count:
            wrapped = " (with a schema around it, 'schema-include' = 'true')"
            raise SchemaMismatch(f"the message is no change event: it has no 'op'{wrapped}")
        sides = []
        for side in ("before", "after"):
            image = pc.struct_field(events, [side])
            sides.append((image, json_text.images(image, self.columns, texts, _picked([*path, side]))))
        return typed_rows(merged_events(ops, *sides, keyed=self.keyed), self.columns, encodings)


def merged_events(
    ops: pa.Array,
    before: tuple[pa.Array, pa.RecordBatch],
    after: tuple[pa.Array, pa.RecordBatch],
    *,
    keyed: bool = False,
) -> Changes:
    """The rows of events, each side as the object, NULL where it is not there, and its columns. `keyed`: for
    who keeps the last row of a key, so an update that lacks its row before is +I. Raises SchemaMismatch where
    an event lacks the side that its op needs."""
    if keyed:
        ops = pc.if_else(pc.and_(pc.equal(ops, "u"), before[0].is_null()), "c", ops)
    require_image(ops, ("u", "d"), before[0], "before", _HINT)
    require_image(ops, ("c", "r", "u"), after[0], "after")
    old, new = before[1], after[1]
    live = pc.not_equal(ops, "m")
    if not pc.all(live).as_py():
        ops, old, new = ops.filter(live), old.filter(live), new.filter(live)
    return merged(ops, old, new)


def joined(parts: Sequence[Changes], columns: Sequence[DataField]) -> Changes:
    """Changes behind each other."""
    if len(parts) == 1:
        return parts[0]
    schema = pa.schema([f.arrow for f in columns])
    rows = pa.Table.from_batches([part.rows for part in parts], schema=schema).combine_chunks()
    kinds = pa.concat_arrays([pa.array([], pa.int8()), *(part.kinds for part in parts)])
    batches = rows.to_batches()
    return Changes(batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema), kinds)


def runs(codes: pa.Array) -> list[tuple[int, int]]:
    """Where equal values begin and end."""
    values = codes.fill_null(-1).to_numpy(zero_copy_only=False)
    if not len(values):
        return []
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(values)], strict=True))


def _picked(path: Sequence[str]) -> Callable[[Any, int], Any]:
    def pick(message: Any, _: int) -> Any:
        for name in path:
            message = message[name]
        return message

    return pick


def described(schema: str | None, columns: Sequence[DataField], handling: Handling) -> list[Encoding]:
    """How values are written, as the schema of an event says it. Raises SchemaMismatch for one that
    describes no rows."""
    try:
        sides = {f["field"]: f for f in json.loads(schema or "null")["fields"]}
        fields = {f["field"]: f for f in sides["after"]["fields"]}
        return [_described(fields[f.name], f, handling) if f.name in fields else Encoding() for f in columns]
    except (TypeError, KeyError, ValueError):
        raise SchemaMismatch("the message has no schema that describes its rows") from None


def _described(described: dict[str, Any], f: DataField, handling: Handling) -> Encoding:
    name = described.get("name") or ""
    return of_type(name, described.get("parameters") or {}, f, handling)


def of_type(name: str, parameters: dict[str, Any], f: DataField, handling: Handling) -> Encoding:
    """How values of a Kafka Connect type with this name are written. Raises SchemaMismatch for decimals of a
    variable scale."""
    if name == "io.debezium.data.VariableScaleDecimal":
        raise SchemaMismatch(f"column {f.name!r} has decimals of a variable scale")
    precise = name == _DECIMAL
    return Encoding(
        PRECISE if precise else TEXT,
        int(parameters["scale"]) if precise else None,
        unit=_UNITS.get(name),
        days=name in _DAYS,
        binary=handling.binary,
    )
