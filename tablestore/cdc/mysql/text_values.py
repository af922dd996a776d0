"""Values of the text protocol by columns: text in UTF-8 as the server writes each type → Arrow.

Numbers and ordinary dates are read by compiled loops, where numba is installed, else by Arrow's casts; a
column in which one of them fails is read digit by digit.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.cdc.databases import text_digits
from tablestore.cdc.databases.slices import Slices
from tablestore.cdc.mysql import calendar
from tablestore.cdc.mysql.columns import DATES, FAIL, SourceColumn
from tablestore.core.errors import InvalidRequest, SchemaMismatch

_NUMBERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "double", "year"}
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}


def column(slices: Slices, c: int, source: SourceColumn, type_: pa.DataType) -> pa.Array:
    """Column c as `type_`, the Arrow type of `source`; raises InvalidRequest for text that is none."""
    kind = source.kind
    if kind == "bit":
        return bits(slices, c, type_)
    digits = text_digits.column(slices, c, type_) if kind == "date" or kind in _NUMBERS else None
    if digits is not None:
        return digits
    if kind in ("date", "datetime", "timestamp"):
        return _dates(slices, c, source, type_)
    values = slices.binary(c)
    if kind in _BYTES:
        return values
    if kind == "float":
        return values.view(pa.string()).cast(pa.float64()).cast(pa.float32())
    if kind in _NUMBERS and not pa.types.is_string(type_):
        return values.view(pa.string()).cast(type_)
    return text(values, source)


def text(values: pa.Array, source: SourceColumn) -> pa.Array:
    """Bytes as text; raises InvalidRequest where they are not UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as e:
        raise InvalidRequest(f"column {source.name!r} has a value that is not UTF-8: {e}") from None


def bits(slices: Slices, c: int, type_: pa.DataType) -> pa.Array:
    """BIT columns, which both halves send as big-endian bytes."""
    if pa.types.is_boolean(type_):
        return pa.array(slices.numbers(c, "u1") != 0, mask=slices.nulls(c))
    return slices.binary(c)


def _dates(slices: Slices, c: int, source: SourceColumn, type_: pa.DataType) -> pa.Array:
    try:
        plain = slices.binary(c).view(pa.string())
        if source.kind == "date":
            return plain.cast(type_)
        micros = plain.cast(pa.timestamp("us"))
        return micros.cast(pa.int64()).cast(pa.timestamp("us", tz=type_.tz)).cast(type_, safe=False)
    except pa.ArrowInvalid:
        return _possible_dates(slices, c, source, type_)


def _possible_dates(slices: Slices, c: int, source: SourceColumn, type_: pa.DataType) -> pa.Array:
    def number(start: int, digits: int) -> calendar.Ints:
        value = np.zeros(slices.rows, np.int64)
        for i in range(start, start + digits):
            value = value * 10 + slices.numbers(c, "u1", i) - ord("0")
        return value

    nulls = slices.nulls(c)
    day, valid = calendar.days(number(0, 4), number(5, 2), number(8, 2))
    valid &= ~nulls
    if source.kind == "date":
        return calendar.dates(day, valid)
    fraction = (
        number(20, source.size) * 10 ** (6 - source.size) if source.size else np.zeros(len(day), np.int64)
    )
    micros = calendar.micros(day, number(11, 2), number(14, 2), number(17, 2), fraction)
    return calendar.timestamps(micros, valid, type_)


def batch(
    slices: Slices, columns: tuple[SourceColumn, ...], schema: pa.Schema, *, any_key: bool = False
) -> pa.RecordBatch:
    """All columns of the rows; `any_key` as in `checked`."""
    arrays = [
        column(slices, c, each, field.type)
        for c, (each, field) in enumerate(zip(columns, schema, strict=True))
    ]
    for c, each in enumerate(columns):
        require_dates(slices, c, arrays[c], each)
    return checked(arrays, columns, schema, any_key=any_key)


def require_dates(slices: Slices, c: int, dates: pa.Array, source: SourceColumn) -> None:
    """Raise SchemaMismatch where column c has a zero or impossible date and its column refuses them."""
    if source.kind in DATES and source.zero_dates == FAIL and not source.in_key:
        count = dates.null_count - int(np.count_nonzero(slices.nulls(c)))
        if count:
            raise SchemaMismatch(
                f"column {source.name!r} of type {source.spelled} has {count} zero or impossible dates in a "
                "batch of rows: mend them, or take zero_dates='null' (--zero-dates null), where they are NULL"
            )


def checked(
    arrays: list[pa.Array], columns: tuple[SourceColumn, ...], schema: pa.Schema, *, any_key: bool = False
) -> pa.RecordBatch:
    """The columns as a batch; raises InvalidRequest for an impossible date in a key, unless rows with
    `any_key` are wanted: it is NULL there."""
    for array, source in zip(arrays, columns, strict=True):
        if source.in_key and array.null_count and not any_key:
            row = pc.index(array.is_null(), True).as_py()
            raise InvalidRequest(
                f"key column {source.name!r} holds no possible date, in row {row} of a batch"
            )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
