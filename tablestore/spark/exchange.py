"""Arrow as the engine has it ⇄ Arrow as Spark takes it: types, schemas, conditions. Pure."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from tablestore.core.errors import SchemaMismatch, Unsupported
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
)
from tablestore.format.types.arrow_types import DataType, to_arrow

_WIDE = Context(prec=76)
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's schema for columns of the engine."""
    return from_arrow_schema(pa.schema([_spark_field(f) for f in schema]))


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark requires of batches of `schema`."""
    return to_arrow_schema(schema, timezone="UTC")


def for_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch` with exactly the types and nullability of `schema` (columns by name).

    Raises SchemaMismatch where a value has no exact form there: nanoseconds in Spark's microseconds.
    """
    return pa.RecordBatch.from_arrays([_for_spark(batch, f) for f in schema], schema=schema)


def frame_of(rows: pa.Table, spark: SparkSession) -> DataFrame:
    """Rows that are here as a frame of Spark. Raises as `for_spark` does."""
    schema = spark_schema(rows.schema)
    if not rows.num_rows:
        return spark.createDataFrame([], schema)
    batches = [for_spark(batch, arrow_schema(schema)) for batch in rows.to_batches()]
    return spark.createDataFrame(pa.Table.from_batches(batches), schema)


def _for_spark(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    try:
        return batch.column(field.name).cast(field.type)
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(
            f"column {field.name!r} has values that Spark's types do not hold: {e}; leave the column out, or "
            "compute without Spark: SET 'execution.engine' = 'embedded'"
        ) from e


def spark_condition(p: Predicate) -> Column:
    """A bound predicate as a condition of Spark's."""
    if isinstance(p, Always):
        return F.lit(p.value)
    if isinstance(p, Compound):
        return reduce(and_ if isinstance(p, And) else or_, map(spark_condition, p.terms))
    if not isinstance(p, Leaf):
        raise Unsupported(f"{p!r} as a condition in Spark")
    value = column(p.column)
    if isinstance(p, IsNull):
        return value.isNotNull() if p.inverse else value.isNull()
    if isinstance(p, Compare):
        return _compared(value, p)
    if isinstance(p, In):
        listed = [_spark_literal(v, p.type) for v in p.values if not _below_micros(v, p.type)]
        condition = value.isin(listed) if listed else value.isNull() & F.lit(None)
    elif isinstance(p, StartsWith):
        condition = value.startswith(_spark_literal(p.prefix, p.type))
    elif isinstance(p, Like):
        condition = value.like(p.pattern)
    else:
        raise Unsupported(f"{p!r} as a condition in Spark")
    return ~condition if p.inverse else condition


_COMPARE = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def column(name: str) -> Column:
    """The column of this name."""
    return F.col("`" + name.replace("`", "``") + "`")


def _compared(value: Column, p: Compare) -> Column:
    """A comparison. Values in Spark are whole microseconds, so that one with a literal between two of them is
    one with the lower."""
    if not _below_micros(p.value, p.type):
        return _COMPARE[p.op](value, _spark_literal(p.value, p.type))
    if p.op in ("=", "!="):
        return value.isNotNull() & F.lit(p.op == "!=")
    return (le if p.op in ("<", "<=") else gt)(value, _spark_literal(p.value, p.type))


def _below_micros(raw: Any, t: DataType | None) -> bool:
    """Whether a raw value is a time with a part of a microsecond."""
    assert t is not None, "the predicate is bound"
    arrow = to_arrow(t)
    return pa.types.is_timestamp(arrow) and arrow.unit == "ns" and raw % 1000 != 0


def _spark_literal(raw: Any, t: DataType | None) -> Column:
    """A raw value of the engine as a literal of the column's type; of nanoseconds the whole microseconds.

    Dates and times go as counts since 1970, or as text: a Python date or datetime goes through Java's, whose
    calendar is the Julian one before 1582-10-15, and through the zone of the process.
    """
    assert t is not None, "the predicate is bound"
    arrow = to_arrow(t)
    if pa.types.is_decimal(arrow):
        return F.lit(Decimal(raw).scaleb(-t.scale, _WIDE))
    if pa.types.is_date(arrow):
        return F.date_from_unix_date(F.lit(raw))
    if pa.types.is_time(arrow):
        return F.lit(pa.scalar(raw, pa.int32() if arrow.bit_width == 32 else pa.int64()).cast(arrow).as_py())
    if pa.types.is_timestamp(arrow):
        micros = raw * _MICROS[arrow.unit] if arrow.unit != "ns" else raw // 1000
        if arrow.tz is not None:
            return F.timestamp_micros(F.lit(micros).cast("bigint"))
        return F.lit(str(np.datetime64(micros, "us"))).cast("timestamp_ntz")
    return F.lit(raw)


def _spark_type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", t.tz)
    if pa.types.is_time(t):
        return pa.time64("ns")
    if pa.types.is_list(t):
        return pa.list_(_spark_field(t.value_field))
    if pa.types.is_map(t):
        return pa.map_(_spark_field(t.key_field), _spark_field(t.item_field))
    return pa.struct([_spark_field(f) for f in t]) if pa.types.is_struct(t) else t


def _spark_field(field: pa.Field) -> pa.Field:
    return field.with_type(_spark_type(field.type))
