"""Arrow arrays converted to another physical type with the same values, at any depth. Pure.

Arrow's casts cannot convert everything inside lists, maps and structs that file formats need: integers for
times, bytes for decimals, lists of entries for maps. Used by the ORC and Avro formats.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.parquet import int96 as parquet_int96

_EXACT = decimal.Context(prec=76)


def rebuilt(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The values in the type `wanted`; nested values are converted child by child."""
    there = array.type
    if there == wanted:
        return array
    if pa.types.is_map(wanted):
        return _map(array, wanted)
    if pa.types.is_list(wanted):
        values = rebuilt(_inner(array), wanted.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=wanted, mask=_nulls(array))
    if pa.types.is_struct(wanted):
        fields = list(wanted)
        children = [rebuilt(_child(array, f.name), f.type) for f in fields]
        if not fields:
            return array.cast(wanted)
        return pa.StructArray.from_arrays(children, fields=fields, mask=_nulls(array))
    if pa.types.is_decimal(wanted) and pa.types.is_binary(there):
        return decimals(array, wanted)
    if pa.types.is_timestamp(wanted) and pa.types.is_fixed_size_binary(there):
        return parquet_int96.timestamps(array, wanted)
    if pa.types.is_time(wanted) or pa.types.is_time(there):
        return array.cast(pa.int32()).cast(wanted)
    return array.cast(wanted)


def _map(array: pa.Array, wanted: pa.MapType) -> pa.Array:
    if pa.types.is_map(array.type):
        start, count = _span(array)
        keys, items = array.keys.slice(start, count), array.items.slice(start, count)
    else:  # a list of (key, value) entries
        entries = _inner(array)
        keys, items = _child(entries, "key"), _child(entries, "value")
    keys, items = rebuilt(keys, wanted.key_type), rebuilt(items, wanted.item_type)
    offsets = _offsets(array)
    if array.null_count:
        # a null offset means a null map
        offsets = pa.array(offsets.to_numpy(), pa.int32(), mask=np.r_[_null_mask(array), False])
    return pa.MapArray.from_arrays(offsets, keys, items, type=wanted)


def _child(array: pa.Array, name: str) -> pa.Array:
    """A struct's child with the struct's own offset applied."""
    i = array.type.get_field_index(name)
    return array.field(i)


def _span(array: pa.Array) -> tuple[int, int]:
    bounds = array.offsets.to_numpy(zero_copy_only=False)
    return int(bounds[0]), int(bounds[-1] - bounds[0])


def _inner(array: pa.Array) -> pa.Array:
    start, count = _span(array)
    return array.values.slice(start, count)


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets that begin at 0."""
    bounds = array.offsets.to_numpy(zero_copy_only=False)
    return pa.array((bounds - bounds[0]).astype(np.int32))


def _nulls(array: pa.Array) -> pa.Array | None:
    return pc.is_null(array) if array.null_count else None


def _null_mask(array: pa.Array) -> np.ndarray:
    return array.is_null().to_numpy(zero_copy_only=False)


def decimals(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Decimals of big-endian two's complement bytes of any length up to 16.

    Sums may have more digits than their type; as in Java such a value is read as NULL.
    """
    n = len(array)
    bounds = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + n + 1].astype(
        np.int64
    )
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(valid, np.diff(bounds), 0)
    if n and (lengths > 16).any():
        raise ValueError(f"a decimal of {int(lengths.max())} bytes, but 16 is the maximum")
    data = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)
    wide = np.zeros((n, 16), dtype=np.uint8)
    flat = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows = np.repeat(np.arange(n), lengths)
    wide[rows, 15 - (np.repeat(lengths, lengths) - 1 - flat)] = data[np.repeat(bounds[:-1], lengths) + flat]
    first = np.zeros(n, dtype=np.uint8)
    nonempty = np.flatnonzero(lengths)
    first[nonempty] = data[bounds[:-1][nonempty]]
    filler = np.arange(16)[None, :] < (16 - lengths)[:, None]
    wide[filler & (first >= 0x80)[:, None]] = 0xFF
    words = np.ascontiguousarray(wide[:, ::-1])  # little-endian
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    buffers = [bits, pa.py_buffer(words.tobytes())]
    widest = pa.Array.from_buffers(pa.decimal128(38, wanted.scale), n, buffers)
    largest = pa.scalar(decimal.Decimal(10**wanted.precision - 1).scaleb(-wanted.scale, _EXACT), widest.type)
    fits = pc.less_equal(pc.abs(widest), largest)
    return (widest if pc.all(fits).as_py() is not False else pc.if_else(fits, widest, None)).cast(wanted)


def decimal_bytes(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(16 uint8 a value that begin with its minimal big-endian two's complement, the length of that)."""
    words = np.frombuffer(array.buffers()[1], dtype=np.uint8)[
        16 * array.offset : 16 * (array.offset + len(array))
    ]
    big = words.reshape(-1, 16)[:, ::-1]
    sign = np.where(big[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    redundant = (big[:, :15] == sign[:, None]) & ((big[:, 1:] >= 0x80) == (sign == 0xFF)[:, None])
    skip = np.cumprod(redundant, axis=1).sum(axis=1)
    index = np.arange(16)[None, :] + skip[:, None]
    return np.take_along_axis(big, np.minimum(index, 15), axis=1), 16 - skip


def decimal_low_words(array: pa.Array) -> np.ndarray:
    """Unscaled int64 values of decimals up to 18 digits; undefined where null."""
    words = np.frombuffer(array.buffers()[1], dtype="<i8")
    return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]


def timestamps(array: pa.Array) -> Iterator[pa.Array]:
    """The timestamp arrays inside a column, at any depth."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        yield array
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            yield from timestamps(child)
    elif pa.types.is_map(kind):
        yield from timestamps(array.keys)
        yield from timestamps(array.items)
    elif pa.types.is_list(kind):
        yield from timestamps(array.flatten())
