"""Columns that a statement computed → what a table's columns take: SQL's assignment of values.

A number becomes another kind of number where nothing but digits behind the point is lost, a time loses digits
that its column does not have, a row's fields are those of its column in their order; everything else is what
`Table.write` takes. A value that does not fit is refused by name, and a cast is the remedy.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import SchemaMismatch
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import from_arrow, to_arrow
from tablestore.format.types.data_type import DataField, DataType
from tablestore.format.types.nested import lists
from tablestore.sql.query.zones import instants


def assigned(array: pa.Array, field: DataField, zone: str | None = None) -> pa.Array:
    """The array as the column takes it; `zone` is that of times without one where instants are stored, and of
    instants where times are. Raises SchemaMismatch for numbers that do not fit, and for kinds of
    values that only a CAST makes its own."""
    target = to_arrow(field.type)
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(array.type):
        return _time(array, field.type, target, zone)
    if array.type == target or pa.types.is_null(array.type):
        return array.cast(target)
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        return _row(array, field, target, zone)
    if pa.types.is_list(target) and pa.types.is_list(array.type):
        return _list(array, field, target, zone)
    if pa.types.is_map(target) and pa.types.is_map(array.type):
        return _list(array, field, target, zone)
    if not (_is_number(array.type) and _is_number(target)):
        return array
    try:
        return _number(array, field.type, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        remedy = f"CAST({field.name} AS {field.type}) says what becomes of it"
        raise SchemaMismatch(
            f"column {field.name!r} is {field.type}, and a value does not fit: {e}; {remedy}"
        ) from None


def _row(array: pa.StructArray, field: DataField, target: pa.StructType, zone: str | None) -> pa.Array:
    """A row whose fields are those of the column, in their order."""
    children = field.type.children
    if array.type.num_fields != len(children):
        given = f"{array.type.num_fields} of {len(children)} fields"
        raise SchemaMismatch(f"column {field.name!r} is {field.type}, and a value has {given}")
    parts = [assigned(array.field(i), child, zone) for i, child in enumerate(children)]
    if any(part.type != t.type for part, t in zip(parts, target, strict=True)):
        return array
    return pa.StructArray.from_arrays(parts, fields=list(target), mask=array.is_null())


def _list(array: pa.Array, field: DataField, target: pa.DataType, zone: str | None) -> pa.Array:
    """A list or map whose elements are those of the column."""
    parts = lists(array)
    found = [assigned(c, f, zone) for c, f in zip(parts.children, field.type.children, strict=True)]
    if any(c.type != to_arrow(f.type) for c, f in zip(found, field.type.children, strict=True)):
        return array
    if pa.types.is_map(target):
        return pa.MapArray.from_arrays(parts.offsets, *found, mask=parts.nulls).cast(target)
    return pa.ListArray.from_arrays(parts.offsets, found[0], mask=parts.nulls).cast(target)


def _time(array: pa.Array, t: DataType, target: pa.DataType, zone: str | None) -> pa.Array:
    """A time with no more digits than the column has, as CAST makes it: cut as a local one."""
    if zone is None and (array.type.tz is None) != (target.tz is None):
        return array
    if target.tz is None and array.type.tz is not None:
        array = pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, zone)))
    source = from_arrow(array.type)
    cut = casts.cast(array.cast(to_arrow(source)), source, replace(t, root=source.root))
    return (instants(cut, zone) if zone and target.tz and not cut.type.tz else cut).cast(target)


def _is_number(t: pa.DataType) -> bool:
    return bool(pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t))


def _number(array: pa.Array, t: DataType, target: pa.DataType) -> pa.Array:
    if pa.types.is_floating(target):
        return (
            casts.nearest_floats(array, target)
            if pa.types.is_decimal(array.type)
            else array.cast(target, safe=False)
        )
    if pa.types.is_decimal(target):
        if pa.types.is_integer(array.type):
            array = array.cast(pa.decimal128(19 if array.type.bit_width == 64 else 10, 0))
        elif pa.types.is_floating(array.type):
            return _from_floats(array, t)
        if array.type.scale > target.scale:
            array = pc.round(array, target.scale, round_mode="half_towards_infinity")
            wide = pa.decimal256(76, target.scale)
            array = array.cast(wide, safe=False)
        return array.cast(target)
    return array.cast(target)


def _from_floats(array: pa.Array, t: DataType) -> pa.Array:
    """Floats as the decimals that they print as, rounded to the column's digits. Raises ArrowInvalid."""
    finite = pc.is_finite(array)
    found = casts.cast(pc.if_else(finite, array, None), DataType("DOUBLE"), t)
    lost = pc.index(pc.and_(array.is_valid(), found.is_null()), True).as_py()
    if lost >= 0:
        raise pa.ArrowInvalid(
            f"{array[lost]} is no number of {t.precision - t.scale} digits before the point"
        )
    return found
