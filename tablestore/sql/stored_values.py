"""Columns that a statement computed → what a table's columns take: SQL's assignment of values.

A number becomes another kind of number where nothing but digits behind the point is lost; everything else is
what `Table.write` takes. A value that does not fit is refused by name, and a cast is the remedy.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch
from tablestore.format.types.arrow_types import to_arrow
from tablestore.format.types.data_type import DataField


def assigned(array: pa.Array, field: DataField) -> pa.Array:
    """The array as the column takes it. Raises SchemaMismatch for numbers that do not fit, and for kinds of
    values that only a CAST makes its own."""
    target = to_arrow(field.type)
    if array.type == target or pa.types.is_null(array.type):
        return array.cast(target)
    if not (_is_number(array.type) and _is_number(target)):
        return array
    try:
        return _number(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        remedy = f"CAST({field.name} AS {field.type}) says what becomes of it"
        raise SchemaMismatch(
            f"column {field.name!r} is {field.type}, and a value does not fit: {e}; {remedy}"
        ) from None


def _is_number(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def _number(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_floating(target):
        return array.cast(target, safe=False)
    if pa.types.is_decimal(target):
        if pa.types.is_integer(array.type):
            array = array.cast(pa.decimal128(19 if array.type.bit_width == 64 else 10, 0))
        elif pa.types.is_floating(array.type):
            array = pc.round(array, target.scale, round_mode="half_towards_infinity")
            return array.cast(target)
        if array.type.scale > target.scale:
            array = pc.round(array, target.scale, round_mode="half_towards_infinity")
            wide = pa.decimal256(76, target.scale)
            array = array.cast(wide, safe=False)
        return array.cast(target)
    return array.cast(target)
