"""Arrow as the engine has it ⇄ Arrow as Spark takes it: types, schemas, filters. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import datasource as pushed
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from tablestore.core.errors import InvalidRequest, SchemaMismatch, Unsupported
from tablestore.format.predicates import like
from tablestore.format.predicates.predicate import (
    Always,
    And,
    Compare,
    Compound,
    In,
    IsNull,
    Leaf,
    Like,
    Predicate,
    StartsWith,
    bind,
    col,
)
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataType, to_arrow

_WIDE = Context(prec=76)
_EXACT = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_string, pa.types.is_date, pa.types.is_boolean)


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's schema for columns of the engine."""
    return from_arrow_schema(pa.schema([f.with_type(_spark_type(f.type)) for f in schema]))


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark requires of batches of `schema`."""
    return to_arrow_schema(schema, timezone="UTC")


def for_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch` with exactly the types and nullability of `schema` (columns by name).

    Raises SchemaMismatch where a value has no exact form there: nanoseconds in Spark's microseconds.
    """
    try:
        columns = [batch.column(f.name).cast(f.type) for f in schema]
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"a value does not fit Spark's types: {e}") from e
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def predicate_of(
    filters: Sequence[pushed.Filter], schema: TableSchema
) -> tuple[Predicate | None, list[pushed.Filter]]:
    """The conjunction of the filters that this engine answers exactly as Spark does, and the others.

    Floating point is left to Spark, whose NaN equals itself and is greater than all else.
    """
    taken: list[Predicate] = []
    left: list[pushed.Filter] = []
    for one in filters:
        found = _predicate(one, schema)
        if found is None:
            left.append(one)
        else:
            taken.append(found)
    return (reduce(and_, taken) if taken else None), left


def spark_condition(p: Predicate) -> Column:
    """A bound predicate as a condition of Spark's."""
    if isinstance(p, Always):
        return F.lit(p.value)
    if isinstance(p, Compound):
        return reduce(and_ if isinstance(p, And) else or_, map(spark_condition, p.terms))
    if not isinstance(p, Leaf):
        raise Unsupported(f"{p!r} as a condition in Spark")
    column = F.col("`" + p.column.replace("`", "``") + "`")
    if isinstance(p, IsNull):
        return column.isNotNull() if p.inverse else column.isNull()
    if isinstance(p, Compare):
        return _COMPARE[p.op](column, _spark_literal(p.value, p.type))
    if isinstance(p, In):
        found = column.isin([_spark_literal(v, p.type) for v in p.values])
    elif isinstance(p, StartsWith):
        found = column.startswith(_spark_literal(p.prefix, p.type))
    elif isinstance(p, Like):
        found = column.like(p.pattern)
    else:
        raise Unsupported(f"{p!r} as a condition in Spark")
    return ~found if p.inverse else found


_COMPARE = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def _spark_literal(raw: Any, t: DataType | None) -> Column:
    """A raw value of the engine as a literal of the column's type."""
    assert t is not None, "the predicate is bound"
    arrow = to_arrow(t)
    if pa.types.is_decimal(arrow):
        return F.lit(Decimal(raw).scaleb(-t.scale, _WIDE))
    if pa.types.is_temporal(arrow):
        return F.lit(pa.scalar(raw, pa.int32() if arrow.bit_width == 32 else pa.int64()).cast(arrow).as_py())
    return F.lit(raw)


def _predicate(one: pushed.Filter, schema: TableSchema) -> Predicate | None:
    names: tuple[str, ...] = getattr(one, "attribute", ())
    field = schema.by_name.get(names[0]) if len(names) == 1 else None
    if field is None or not any(test(field.arrow.type) for test in _EXACT):
        return None
    column = col(names[0])
    if isinstance(one, pushed.EqualTo):
        made = column == one.value
    elif isinstance(one, pushed.GreaterThan):
        made = column > one.value
    elif isinstance(one, pushed.GreaterThanOrEqual):
        made = column >= one.value
    elif isinstance(one, pushed.LessThan):
        made = column < one.value
    elif isinstance(one, pushed.LessThanOrEqual):
        made = column <= one.value
    elif isinstance(one, pushed.In):
        made = column.is_in([v for v in one.value if v is not None])
    elif isinstance(one, pushed.IsNull):
        made = column.is_null()
    elif isinstance(one, pushed.IsNotNull):
        made = column.is_not_null()
    elif isinstance(one, pushed.StringStartsWith):
        made = column.startswith(one.value)
    elif isinstance(one, pushed.StringEndsWith):
        made = column.like("%" + like.literal(one.value))
    elif isinstance(one, pushed.StringContains):
        made = column.like("%" + like.literal(one.value) + "%")
    else:
        return None
    try:
        bind(made, schema)
    except InvalidRequest:
        return None
    return made


def _spark_type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    if pa.types.is_time(t):
        return pa.time64("ns")
    return t
