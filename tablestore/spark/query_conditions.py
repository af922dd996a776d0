"""Conditions of Spark's plans as predicates of the engine, where both mean the same by them. Pure.

A condition is a list as `jvm/TablePlanning.java` makes it: the name of Spark's operator and its operands.
Values are Spark's own: a date is days since 1970, a time microseconds, so no calendar of Java's is between.
Floating point is left to Spark, whose NaN equals itself and is greater than all else; what has other types on
both sides has a cast in it, and is left, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, or_
from typing import Any

import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.format.predicates import like
from tablestore.format.predicates.predicate import Column, Predicate, bind, col
from tablestore.format.schema import TableSchema

Described = Sequence[Any]
_COMPARE = {
    "EqualTo": eq,
    "LessThan": lt,
    "LessThanOrEqual": le,
    "GreaterThan": gt,
    "GreaterThanOrEqual": ge,
}
_MIRRORED = {
    "EqualTo": eq,
    "LessThan": gt,
    "LessThanOrEqual": ge,
    "GreaterThan": lt,
    "GreaterThanOrEqual": le,
}
_JOINED = {"And": and_, "Or": or_}
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)


class _Left(Exception):
    """The condition is Spark's alone."""


def predicate_of(conditions: Sequence[Described], schema: TableSchema) -> Predicate | None:
    """The conjunction of those conditions that the engine answers exactly as Spark does; None if none is."""
    taken = []
    for condition in conditions:
        try:
            predicate = _predicate(condition, schema)
            bind(predicate, schema)
        except (_Left, InvalidRequest, OverflowError, ValueError):
            continue
        taken.append(predicate)
    return reduce(and_, taken) if taken else None


def _predicate(described: Described, schema: TableSchema) -> Predicate:
    operator, *operands = described
    if operator in _JOINED:
        return _JOINED[operator](*(_predicate(o, schema) for o in operands))
    if operator == "Not":
        return ~_predicate(operands[0], schema)
    if operator == "AttributeReference":
        named, kind = _column(described, schema)
        if pa.types.is_boolean(kind):
            return named == True  # noqa: E712  # a condition on the column
        raise _Left
    if operator in _COMPARE and operands[0][0] == "Literal":
        named, kind = _column(operands[1], schema)
        return _MIRRORED[operator](named, _value(operands[0], kind))
    return _of_column(operator, operands, schema)


def _of_column(operator: str, operands: Sequence[Described], schema: TableSchema) -> Predicate:
    """A condition whose first operand is a column."""
    named, kind = _column(operands[0], schema)
    if operator == "IsNull":
        return named.is_null()
    if operator == "IsNotNull":
        return named.is_not_null()
    values = [_value(o, kind) for o in operands[1:]]
    if operator in _COMPARE:
        return _COMPARE[operator](named, values[0])
    if operator == "In":
        return named.is_in(values)
    if operator == "StartsWith":
        return named.startswith(values[0])
    if operator == "EndsWith":
        return named.like("%" + like.literal(values[0]))
    if operator == "Contains":
        return named.like("%" + like.literal(values[0]) + "%")
    raise _Left


def _column(described: Described, schema: TableSchema) -> tuple[Column, pa.DataType]:
    """A column whose values the engine compares as Spark does, and its type."""
    field = schema.by_name.get(described[1]) if described[0] == "AttributeReference" else None
    if field is None:
        raise _Left
    kind = field.arrow.type
    usual = (
        pa.types.is_integer,
        pa.types.is_decimal,
        pa.types.is_string,
        pa.types.is_date,
        pa.types.is_boolean,
    )
    if any(test(kind) for test in usual) or (pa.types.is_timestamp(kind) and kind.unit != "ns"):
        return col(field.name), kind
    raise _Left


def _value(described: Described, kind: pa.DataType) -> Any:
    """A literal as a value of a column's type."""
    if described[0] != "Literal" or len(described) < 3:
        raise _Left
    value = described[2]
    if pa.types.is_date(kind):
        return date.fromordinal(value + _EPOCH_DAY)
    if pa.types.is_timestamp(kind):
        moment = _EPOCH + timedelta(microseconds=value)
        return moment if kind.tz is None else moment.replace(tzinfo=UTC)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    wanted = str if pa.types.is_string(kind) else bool if pa.types.is_boolean(kind) else int
    if type(value) is not wanted:
        raise _Left
    return value
