"""Filling: the columns of a query → the columns of the table that an INSERT fills, by SQL's assignment.

A number becomes another kind of number where nothing but digits behind the point is lost, a time is what
CAST makes of it, a row's fields are those of its column in their order; all else is what `Table.write`
takes. A value that does not fit is refused by name, and a cast is the remedy.

DEFAULT as a value is a NULL, which gets the default of its column where it is written; for a column that
holds no NULL the default itself stands there once the column is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch
from tablestore.format.predicates import literal
from tablestore.format.predicates.predicate import Compare, bind, col
from tablestore.format.schema import TableSchema
from tablestore.format.types import casts
from tablestore.format.types.arrow_types import from_arrow, is_number, to_arrow
from tablestore.format.types.data_type import DataField, DataType
from tablestore.format.types.nested import lists
from tablestore.sql.dialect.parser import read_expression
from tablestore.sql.query.time_functions import instants
from tablestore.sql.text import literal_text

_MARK = "default"  # key of a NULL's notes: it stands for DEFAULT


def null_for_default(value: exp.Expression) -> exp.Expression:
    """The value, or a NULL that stands for DEFAULT."""
    if not isinstance(value, exp.Column | exp.Var) or value.sql().upper() != "DEFAULT":
        return value
    null = exp.Null()
    null.meta[_MARK] = True
    return null


def with_default(value: exp.Expression, column: DataField) -> exp.Expression:
    """The value; the default of a NOT NULL column in place of DEFAULT."""
    if not value.meta.get(_MARK) or column.type.nullable or column.default is None:
        return value
    kind = str(column.type.as_nullable())
    return read_expression(f"CAST({literal_text(str(column.default))} AS {kind})")


def cells_of(query: exp.Expression) -> Iterator[list[exp.Expression]]:
    """The expressions of each row that VALUES, a SELECT or a UNION of them gives, in the order of columns."""
    if isinstance(query, exp.Values):
        yield from (row.expressions if isinstance(row, exp.Tuple) else [row] for row in query.expressions)
    elif isinstance(query, exp.Select):
        yield query.expressions
    elif isinstance(query, exp.SetOperation):
        yield from cells_of(query.this)
        yield from cells_of(query.expression)


def with_nulls(query: exp.Expression) -> exp.Expression:
    """The query itself, in its rows a NULL that stands for DEFAULT in place of each."""
    for row in cells_of(query):
        for cell in list(row):
            cell.replace(null_for_default(cell))
    return query


def with_defaults(query: exp.Expression, columns: Sequence[DataField]) -> exp.Expression:
    """The query for these columns, the default of a NOT NULL column in place of DEFAULT. Behind a star the
    column is not known."""
    copied = query.copy()
    for row in cells_of(copied):
        for cell, column in zip(list(row), columns, strict=False):
            if cell.is_star:
                break
            cell.replace(with_default(cell, column))
    return copied


@dataclass(frozen=True, slots=True)
class Filling:
    """Each column of the query fills the column of the same place in `fields`; `constants` are the values of
    further columns. `zone` is that of times without one that become instants. Picklable."""

    fields: tuple[DataField, ...]
    constants: tuple[tuple[DataField, pa.Scalar], ...] = ()
    zone: str = "UTC"

    @staticmethod
    def of(
        names: Sequence[str],
        schema: TableSchema,
        *,
        partition: Mapping[str, Any],
        columns: Sequence[str] | None = None,
        by_name: bool = False,
        zone: str = "UTC",
    ) -> Filling:
        """That of a query with columns of these names. `partition` has a value for each column of
        PARTITION (…), None where the query gives it, behind its other columns; `columns` None means all.

        Raises NotFound for a column that there is not, InvalidRequest where one gets two values or the query
        has too many columns or too few.
        """
        given = [name for name, value in partition.items() if value is not None]
        dynamic = [name for name in partition if name not in given]
        rest = [name for name in schema.names if name not in partition]
        wanted = list(columns) if columns is not None else [*rest, *dynamic]
        for name in wanted:
            if name not in schema.by_name:
                raise NotFound.among("column", name, schema.names)
            if name in given or wanted.count(name) > 1:
                raise InvalidRequest(f"column {name!r} gets two values")
        if by_name:
            for name in names:
                if name not in wanted:
                    raise NotFound.among("column", name, wanted)
            wanted = list(names)
        elif len(names) != len(wanted):
            listed = ", ".join(wanted)
            raise InvalidRequest(
                f"the query gives {len(names)} columns, and {len(wanted)} are to be filled: {listed}"
            )
        constants = tuple((schema.by_name[n], fitted_value(n, partition[n], schema)) for n in given)
        return Filling(tuple(schema.by_name[name] for name in wanted), constants, zone)

    def filled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the names and types of the columns. Raises SchemaMismatch for values that do not
        fit."""
        arrays = [assigned(a, f, self.zone) for a, f in zip(batch.columns, self.fields, strict=True)]
        arrays += [assigned(pa.repeat(v, batch.num_rows), f) for f, v in self.constants]
        names = [f.name for f in self.fields] + [f.name for f, _ in self.constants]
        return pa.RecordBatch.from_arrays(arrays, names=names)


def fitted_value(name: str, value: Any, schema: TableSchema) -> pa.Scalar:
    """A literal as a column has it; text of a date is one. Raises SchemaMismatch."""
    column = col(name)
    test = bind(column == value, schema)
    assert isinstance(test, Compare)
    return literal.array([test.value], schema.by_name[name].type)[0]


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
    if not (is_number(array.type) and is_number(target)):
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
    children = [assigned(c, f, zone) for c, f in zip(parts.children, field.type.children, strict=True)]
    if any(c.type != to_arrow(f.type) for c, f in zip(children, field.type.children, strict=True)):
        return array
    if pa.types.is_map(target):
        return pa.MapArray.from_arrays(parts.offsets, *children, mask=parts.nulls).cast(target)
    return pa.ListArray.from_arrays(parts.offsets, children[0], mask=parts.nulls).cast(target)


def _time(array: pa.Array, t: DataType, target: pa.DataType, zone: str | None) -> pa.Array:
    """A time with no more digits than the column has, as CAST makes it: cut as a local one."""
    if zone is None and (array.type.tz is None) != (target.tz is None):
        return array
    if target.tz is None and array.type.tz is not None:
        array = pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, zone)))
    source = from_arrow(array.type)
    cut = casts.cast(array.cast(to_arrow(source)), source, replace(t, root=source.root))
    return (instants(cut, zone) if zone and target.tz and not cut.type.tz else cut).cast(target)


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
    decimals = casts.cast(pc.if_else(finite, array, None), DataType("DOUBLE"), t)
    lost = pc.index(pc.and_(array.is_valid(), decimals.is_null()), True).as_py()
    if lost >= 0:
        raise pa.ArrowInvalid(
            f"{array[lost]} is no number of {t.precision - t.scale} digits before the point"
        )
    return decimals
