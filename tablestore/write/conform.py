"""Anything Arrow-like → record batches that fit the table, or one clear error before a byte is written.

Columns match by name. Extra ones are refused with the nearest name, missing nullable ones become NULL, types
are cast where no value can
be lost, key columns and NOT NULL columns must hold no NULL, text must fit CHAR(n) and VARCHAR(n) (never
padded, never cut).
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.errors import SchemaMismatch
from tablestore.format.schema import TableSchema
from tablestore.format.types import MAX_LENGTH, DataField, to_arrow


def as_batches(data: Any) -> Iterator[pa.RecordBatch]:
    """Record batches of a Table, RecordBatch(es), a reader, pandas, a list of dicts, or anything with an
    Arrow stream.

    Raises SchemaMismatch for what is none of these.
    """
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif hasattr(data, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(data)
    elif hasattr(data, "__arrow_c_array__"):
        yield pa.record_batch(data)
    elif type(data).__module__.startswith("pandas"):
        yield from pa.Table.from_pandas(data, preserve_index=False).to_batches()
    elif isinstance(data, dict):
        yield pa.RecordBatch.from_pydict(data)
    elif isinstance(data, list) and (not data or isinstance(data[0], dict)):
        yield from pa.Table.from_pylist(data).to_batches()
    elif isinstance(data, Iterator | list | tuple):
        for part in data:
            yield from as_batches(part)
    else:
        raise SchemaMismatch(
            f"{type(data).__name__} is not Arrow-like: pass a Table, batches, a DataFrame or dicts"
        )


def conform(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """`batch` with exactly the table's columns, order and types; raises SchemaMismatch naming column and
    remedy."""
    given = list(batch.schema.names)
    for name in given:
        if name not in schema.by_name:
            near = get_close_matches(name, schema.names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; columns: {', '.join(schema.names)}"
            raise SchemaMismatch(f"column {name!r} is not in the table{hint}")
        if given.count(name) > 1:
            raise SchemaMismatch(f"column {name!r} is there twice")
    arrays = [_column(batch, f, given) for f in schema.fields]
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


def _column(batch: pa.RecordBatch, f: DataField, given: list[str]) -> pa.Array:
    target = to_arrow(f.type)
    if f.name not in given:
        if not f.type.nullable:
            raise SchemaMismatch(f"column {f.name!r} is NOT NULL and is missing")
        return pa.nulls(batch.num_rows, target)
    array = batch.column(given.index(f.name))
    array = array if array.type == target else _cast(array, f, target)
    if not f.type.nullable and array.null_count:
        row = pc.index(array.is_null(), True).as_py()
        raise SchemaMismatch(
            f"column {f.name!r} is NOT NULL and row {row} of the batch holds NULL; nothing was written"
        )
    _check_length(array, f)
    return array


def _cast(array: pa.Array, f: DataField, target: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    problem = f"column {f.name!r} is {array.type} and the table has {f.type}"
    if array.type == target:
        return array
    if not _castable(array.type, target):
        raise SchemaMismatch(f"{problem}: cast it first")
    try:
        if pa.types.is_timestamp(target) and array.type.tz is None and target.tz is not None:
            raise SchemaMismatch(f"{problem}: give the timestamps a zone first")
        if pa.types.is_integer(array.type) and pa.types.is_decimal(
            target
        ):  # Arrow wants room for any integer first
            array = array.cast(pa.decimal128(38, target.scale))
        return array.cast(target)
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"{problem}: {e}") from None


_FAMILIES = (
    lambda t: pa.types.is_integer(t) or pa.types.is_decimal(t),
    pa.types.is_floating,
    lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t),
    lambda t: (
        pa.types.is_binary(t)
        or pa.types.is_large_binary(t)
        or pa.types.is_binary_view(t)
        or pa.types.is_fixed_size_binary(t)
    ),
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_boolean,
)


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Casts within a family; ints may become floats or decimals; null columns become anything."""
    if pa.types.is_null(source):
        return True
    if pa.types.is_integer(source) and pa.types.is_floating(target):
        return True
    return any(family(source) and family(target) for family in _FAMILIES)


def _check_length(array: pa.Array, f: DataField) -> None:
    if not (f.type.is_string or f.type.is_binary) or f.type.precision == MAX_LENGTH or not len(array):
        return
    lengths = pc.utf8_length(array) if f.type.is_string else pc.binary_length(array)
    longest = pc.max(lengths).as_py() or 0
    if longest > f.type.precision:
        raise SchemaMismatch(
            f"column {f.name!r} is {f.type} and a value has length {longest}; nothing was written"
        )
