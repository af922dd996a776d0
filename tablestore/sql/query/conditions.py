"""Literals and conditions of a tree → values and the engine's predicates, exactly or not at all.

`predicate_of` gives a predicate that selects the very rows that the condition selects, so UPDATE and DELETE
may go by it and a scan may leave out the others; what has no such predicate gives None. Pure.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from sqlglot import exp

from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.format.predicates import like
from tablestore.format.predicates.predicate import Always, Column, Predicate, all_of, any_of, bind, col
from tablestore.format.schema import TableSchema
from tablestore.format.types.data_type import DataType
from tablestore.table.lazy_read import table_schema

_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WHOLE_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_DOUBLE_DIGITS = 15  # decimal digits that every DOUBLE keeps
_TEXT_LENGTHS = {"DATE": (10,), "TIME": (8, 12, 15), "TIMESTAMP": (10, 19, 23, 26)}


def value_of(tree: exp.Expression) -> Any:
    """The Python value of a literal: None, bool, int, Decimal, float (1e0), str, bytes, date, datetime, time.

    A CAST of a literal to a type of the same kind is one, too. Raises InvalidRequest for everything else.
    """
    if isinstance(tree, exp.Paren):
        return value_of(tree.this)
    if isinstance(tree, exp.Null):
        return None
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Neg):
        value = value_of(tree.this)
        if isinstance(value, Decimal):  # its minus rounds to 28 digits
            return value.copy_negate() if value else value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value
    if isinstance(tree, exp.Literal):
        return tree.this if tree.is_string else _number(tree.this)
    if isinstance(tree, exp.HexString):
        return bytes.fromhex(tree.this)
    if isinstance(tree, exp.Cast):
        return _cast(value_of(tree.this), tree)
    raise InvalidRequest(f"{tree.sql('spark')} is no literal")


def _number(text: str) -> int | float | Decimal:
    if text.isdecimal():
        return int(text)
    return float(text) if "e" in text.lower() else Decimal(text)


def _cast(value: Any, tree: exp.Cast) -> Any:
    kind = tree.to.this
    try:
        if value is None:
            return None
        if isinstance(value, str):
            if kind in (exp.DType.DATE, exp.DType.DATE32):
                return dt.date.fromisoformat(value)
            if kind in (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ):
                return _datetime(value)
            if kind is exp.DType.TIME:
                return dt.time.fromisoformat(value)
            if kind in exp.DataType.TEXT_TYPES and not tree.to.expressions:
                return value
        if type(value) is int and kind is exp.DType.BIGINT and -(1 << 63) <= value < 1 << 63:
            return value
        if type(value) is int and kind is exp.DType.INT and -(1 << 31) <= value < 1 << 31:
            return value
        if type(value) in (int, float, Decimal) and kind is exp.DType.DOUBLE:
            return float(value)
    except ValueError:
        raise InvalidRequest(f"{value!r} is no {kind.value}") from None
    raise InvalidRequest(f"{tree.sql('spark')} is no literal")


def _datetime(text: str) -> dt.datetime | str:
    """A text with more than six digits of a second stays one: datetime has no more."""
    time = dt.datetime.fromisoformat(text)
    if time.tzinfo is not None:
        raise ValueError("it has a zone")
    return text if len(text.rpartition(".")[2]) in (7, 8, 9) and "." in text else time


def predicate_of(tree: exp.Expression, table: Any) -> Predicate | None:
    """The predicate that selects the rows for which a condition on the columns of `table` (a Table or a
    SystemTable) is true; None where no predicate selects exactly these."""
    store = getattr(table, "store", None)
    return predicate_over(tree, table_schema(table.schema) if store is None else store.schema)


def predicate_over(tree: exp.Expression, schema: TableSchema) -> Predicate | None:
    """The same, of a schema."""
    try:
        return _predicate(tree, schema)
    except (_NotExact, TablestoreError):
        return None


class _NotExact(Exception):
    """No predicate selects exactly the rows of the condition."""


def _predicate(tree: exp.Expression, schema: TableSchema) -> Predicate:
    if isinstance(tree, exp.Paren):
        return _predicate(tree.this, schema)
    if isinstance(tree, exp.And | exp.Or):
        join = all_of if isinstance(tree, exp.And) else any_of
        terms: Any = tree.flatten()
        return join(*(_predicate(term, schema) for term in terms))
    if isinstance(tree, exp.Not):
        return _predicate(tree.this, schema).negated()
    if isinstance(tree, exp.Boolean):
        return Always(bool(tree.this))
    predicate = _test(tree, schema)
    bind(predicate, schema)  # raises for what does not fit its column
    test = tree.this if isinstance(tree, exp.Escape) else tree
    return predicate.negated() if test.args.get("negate") else predicate  # `a NOT IN (…)`


def _test(tree: exp.Expression, schema: TableSchema) -> Predicate:
    if isinstance(tree, exp.Column):
        column, kind = _column(tree, schema)
        return column == _fitting(True, kind)
    operator = _COMPARISONS.get(type(tree))
    if operator is not None:
        return _compare(tree, operator, schema)
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        column, kind = _column(tree.this, schema)
        low, high = (_fitting(value_of(tree.args[part]), kind) for part in ("low", "high"))
        return column.between(low, high)
    if isinstance(tree, exp.In) and not tree.args.get("query") and not tree.args.get("unnest"):
        column, kind = _column(tree.this, schema)
        return column.is_in([_fitting(value_of(value), kind) for value in tree.expressions])
    if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
        return _column(tree.this, schema)[0].is_null()
    if isinstance(tree, exp.Like | exp.Escape):
        return _like(tree, schema)
    raise _NotExact


def _compare(tree: exp.Expression, operator: str, schema: TableSchema) -> Predicate:
    left, right = tree.this, tree.expression
    if not isinstance(left, exp.Column):
        left, right, operator = right, left, _TURNED[operator]
    column, kind = _column(left, schema)
    value = _fitting(value_of(right), kind)
    compared: Callable[[Any], Predicate] = {
        "=": column.__eq__,
        "!=": column.__ne__,
        "<": column.__lt__,
        "<=": column.__le__,
        ">": column.__gt__,
        ">=": column.__ge__,
    }[operator]
    return compared(value)


def _like(tree: exp.Expression, schema: TableSchema) -> Predicate:
    escape, escaped = "\\", isinstance(tree, exp.Escape)
    if escaped:
        escape, tree = value_of(tree.expression), tree.this
    if type(tree) is not exp.Like:
        raise _NotExact
    column, kind = _column(tree.this, schema)
    pattern = _fitting(value_of(tree.expression), kind)
    return column.like(pattern if escaped else like.without_escape(pattern), escape=escape)


def _column(tree: exp.Expression, schema: TableSchema) -> tuple[Column, DataType]:
    """A column of the table and its type; a part of a ROW is none."""
    if not isinstance(tree, exp.Column) or tree.args.get("db") or tree.table in schema.shown.by_name:
        raise _NotExact
    field = schema.shown.by_name.get(tree.name)
    if field is None or not field.type.is_scalar:
        raise _NotExact
    return col(tree.name), field.type


def _fitting(value: Any, kind: DataType) -> Any:
    """The literal, if a column of this type is compared with it without rounding either."""
    root = kind.root
    if root == "BOOLEAN":
        fits = isinstance(value, bool)
    elif kind.is_string:
        fits = isinstance(value, str)
    elif kind.is_binary:
        fits = isinstance(value, bytes)
    elif root in (*_WHOLE_NUMBERS, "DECIMAL"):
        fits = type(value) in (int, Decimal)
    elif root in ("FLOAT", "DOUBLE"):
        fits = _keeps(value, single=root == "FLOAT")
    elif isinstance(value, str):
        fits = len(value) in _TEXT_LENGTHS.get(root, ())
    elif root in ("DATE", "TIMESTAMP"):
        fits = isinstance(value, dt.date)
    else:
        fits = root == "TIME" and isinstance(value, dt.time)
    if not fits:
        raise _NotExact
    return value


def _keeps(value: Any, *, single: bool) -> bool:
    """Whether a FLOAT or DOUBLE can be this number, so that rounding cannot matter."""
    if type(value) is Decimal:
        digits = len(value.as_tuple().digits)
        return digits <= _DOUBLE_DIGITS and (not single or Decimal(float(np.float32(value))) == value)
    if type(value) is int:
        return abs(value) <= 1 << (24 if single else 53)
    return type(value) is float and (not single or float(np.float32(value)) == value)
