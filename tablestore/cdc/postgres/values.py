"""Values of PostgreSQL's text, by columns: as the server writes each type → Arrow.

Numbers and dates are read by compiled loops where numba is installed, else by Arrow's casts. A value that
its type here does not have (infinity, a year BC) is NULL, and its row is marked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.databases.slices import Slices, digit_column
from tablestore.cdc.postgres.tables import PostgresColumn

Mask = npt.NDArray[np.bool_]
_WRITTEN = {
    "date": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "timestamp": r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(\.[0-9]{1,6})?$",
    "timestamptz": r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(\.[0-9]{1,6})?$",
    "numeric": r"^-?[0-9]+(\.[0-9]+)?$",
}
_HEX = np.zeros(256, np.uint8)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


def column(
    slices: Slices, c: int, source: PostgresColumn, type_: pa.DataType
) -> tuple[pa.Array, Mask | None]:
    """(column c as `type_`, the rows whose value it does not have; None: no row)."""
    kind = source.kind
    if kind == "bytea":
        return _bytes(slices, c), None
    if kind == "timestamptz":  # the session is in UTC, which is written as +00
        lengths = slices.lengths.copy()
        lengths[c] = np.where(lengths[c] < 0, lengths[c], np.maximum(lengths[c] - 3, 0))
        slices = replace(slices, lengths=lengths)
    digits = digit_column(slices, c, type_)
    if digits is not None:
        return digits, None
    text = slices.binary(c).cast(pa.string())
    if kind == "bpchar":
        return pc.utf8_rtrim(text, " "), None
    if kind == "bool":
        return pc.equal(text, "t"), None
    if kind == "money":
        return pc.replace_substring_regex(text, r"[$,]", "").cast(type_), None
    if pa.types.is_string(type_):
        return text, None
    try:
        return _cast(text, type_), None
    except pa.ArrowInvalid:
        if kind not in _WRITTEN:
            raise
    held = pc.match_substring_regex(text, _WRITTEN[kind])
    bad = pc.fill_null(pc.invert(held), False).to_numpy(zero_copy_only=False)
    return _cast(pc.if_else(held, text, None), type_), bad


def _cast(text: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(type_):
        micros = text.cast(pa.timestamp("us")).cast(pa.int64())
        return micros.cast(pa.timestamp("us", tz=type_.tz)).cast(type_, safe=False)
    return text.cast(type_)


def _bytes(slices: Slices, c: int) -> pa.Array:
    """Bytes that are written as \\x and two digits each."""
    offsets, lengths = slices.offsets.copy(), slices.lengths.copy()
    offsets[c] += 2
    lengths[c] = np.where(lengths[c] < 0, lengths[c], lengths[c] - 2)
    hex_texts = replace(slices, offsets=offsets, lengths=lengths).binary(c)
    _, edges, digits = hex_texts.buffers()
    places = np.frombuffer(edges, np.int32)[hex_texts.offset : hex_texts.offset + len(hex_texts) + 1]
    nibbles = _HEX[np.frombuffer(digits, np.uint8)[places[0] : places[-1]]]
    values = (nibbles[0::2] << 4) | nibbles[1::2]
    starts = ((places - places[0]) // 2).astype(np.int32)
    parts = [pa.array(~slices.nulls(c)).buffers()[1], pa.py_buffer(starts), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.binary(), len(hex_texts), parts)


def columns_of(
    slices: Slices, columns: tuple[PostgresColumn, ...], schema: pa.Schema
) -> tuple[pa.RecordBatch, dict[str, Mask]]:
    """(all columns of the rows, by column the rows whose value it does not have)."""
    arrays, bad = [], {}
    for c, (source, field) in enumerate(zip(columns, schema, strict=True)):
        array, wrong = column(slices, c, source, field.type)
        arrays.append(array)
        if wrong is not None and wrong.any():
            bad[source.name] = wrong
    fields = [pa.field(f.name, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), bad
