"""Debezium change-event envelopes (JSON, one a line) → one Arrow batch with row kinds, whole columns at a
time.

A line is `{"topic", "key", "value": {"before", "after", "source", "op", "ts_ms", "transaction"}}`. `c` and
`r` give +I of `after`, `d` gives −D of `before`, `u` gives −U of `before` and +U of `after`, in the order of
the lines. Tombstones (`value` null), transaction markers and lines of other tables are left out; `t`
(truncate) is refused. Modes read: `decimal.handling.mode=string`, `time.precision.mode` adaptive. Pure: bytes
in, Arrow out. Used by `cdc.source`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tablestore.core.errors import SchemaMismatch, Unsupported
from tablestore.format.messages.images import Changes, merged

_LONGEST_LINE = 64 << 20
_BLOCK = 8 << 20


def decode(lines: bytes | pa.Buffer, *, table: str, schema: pa.Schema) -> Changes:
    """The changes of `table` ("db.table", or the last part alone) in whole lines of JSON, typed as
    `schema`.

    Raises SchemaMismatch for lines that are not envelopes or images that do not fit, Unsupported for events
    that have no row form.
    """
    events = _parse(lines, schema)
    if events.num_rows:
        events = events.filter(_of_table(events["topic"], table))
    value = (
        events["value"].combine_chunks()
        if events.num_rows
        else pa.array([], events.schema.field("value").type)
    )
    value = value.filter(value.is_valid())  # a tombstone follows its delete and says nothing new
    ops = value.field("op")
    before, after = (_typed(value.field(side), schema) for side in ("before", "after"))
    return merged(ops, before, after)


def _parse(lines: bytes | pa.Buffer, schema: pa.Schema) -> pa.Table:
    image = pa.struct([pa.field(f.name, _wire_type(f)) for f in schema])
    value = pa.struct([("before", image), ("after", image), ("op", pa.string())])
    wanted = pa.schema([("topic", pa.string()), ("value", value)])
    size = pa.py_buffer(lines).size
    if size == 0:
        return wanted.empty_table()
    read = pj.ReadOptions(use_threads=False, block_size=min(max(_BLOCK, 1), _LONGEST_LINE))
    parse = pj.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    try:
        return pj.read_json(pa.BufferReader(lines), read_options=read, parse_options=parse)
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"change events do not fit the table: {e}") from e


def _wire_type(field: pa.Field) -> pa.DataType:
    """The Arrow type of a column as JSON has it."""
    t = field.type
    if pa.types.is_decimal(t) or pa.types.is_string(t):
        return pa.string()
    if pa.types.is_date32(t):
        return pa.int32()
    if pa.types.is_timestamp(t):
        return pa.string() if t.tz else pa.int64()
    if pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_boolean(t):
        return t
    raise Unsupported(f"change events with a column of type {t}", why=f"column {field.name!r}")


def _of_table(topics: pa.ChunkedArray, table: str) -> pa.ChunkedArray:
    return pc.or_(pc.equal(topics, table), pc.ends_with(topics, "." + table))


def _typed(images: pa.StructArray, schema: pa.Schema) -> pa.RecordBatch:
    """Images as the table's types. A missing image gives a row of NULLs, which `merged` never chooses."""
    columns = [_column(pc.struct_field(images, [i]), f) for i, f in enumerate(schema)]
    fields = [f.with_nullable(True) for f in schema]
    return pa.record_batch(columns, schema=pa.schema(fields))


def _column(values: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return values.cast(field.type)
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"column {field.name!r} of a change event does not fit {field.type}: {e}") from e
