"""Aggregates as an engine's SQL with the results of Flink SQL: a sum and an average of whole numbers is
whole, of decimals it is exact, a variance is of the type of its argument.

An aggregate stands with its FILTER and OVER; what is made of it, a cast or a quotient, stands around these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from tablestore.format.types.data_type import DataType
from tablestore.sql.query.arithmetic import Arithmetic, Operand
from tablestore.sql.query.numeric_types import FLOATS, MOST_DIGITS, NUMBERS, WHOLE
from tablestore.sql.query.type_inference import note_type, type_of

AROUND = (exp.Filter, exp.Window)
_PLAIN = "plain"  # key of the notes of aggregates that the engine computes as they are
SHORT_DIGITS = 20  # of decimals whose sums stay far from 38 digits
_SPREADS = (exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)
_SQUARED = (exp.Variance, exp.VariancePop)
_OF_ALL = (exp.StddevPop, exp.VariancePop)
Render = Callable[[Any], str]


def aggregate_of(node: exp.Expr) -> exp.Expr:
    """The aggregate within its FILTER and OVER."""
    while isinstance(node, AROUND):
        node = node.this
    return node


def rendered(node: exp.Expr, render: Render, numbers: Arithmetic) -> str | None:
    """An aggregate with what stands around it; None where the engine's own is right."""
    inner = aggregate_of(node)
    if isinstance(node.parent, AROUND) and node.arg_key == "this":
        return None  # what stands around it does it all
    if inner.meta.get(_PLAIN):
        return None
    t = type_of(inner)
    argument = type_of(inner.this) if isinstance(inner.this, exp.Expr) else None
    if t is None or argument is None or argument.root not in NUMBERS:
        return None
    if isinstance(inner, exp.Sum):
        total = render(_instead(node, inner, exp.Sum, _roomy(inner, argument, numbers)))
        if t.root in WHOLE:
            return numbers.wrapped(total, t)
        return total if t.root == "DOUBLE" else f"CAST({total} AS {numbers.type_name(t)})"
    if isinstance(inner, exp.Avg):
        return _average(node, inner, t, argument, render, numbers)
    if isinstance(inner, _SPREADS):
        return _spread(node, inner, t, render, numbers)
    return None


def _instead(node: exp.Expr, inner: exp.Expr, kind: type[exp.Expr], argument: Any = None) -> Any:
    """What stands around an aggregate, around another one of the same or another argument."""
    aggregate = kind(this=(inner.this if argument is None else argument).copy())
    aggregate.meta[_PLAIN] = True
    if node is inner:
        return aggregate
    copied = node.copy()
    aggregate_of(copied).replace(aggregate)
    return copied


def _roomy(inner: exp.Expr, argument: DataType, numbers: Arithmetic) -> Any:
    """What SUM is of, wide enough that the sum of BIGINTs has room."""
    value = inner.this.copy()
    if argument.root != "BIGINT" or numbers.sums_in_128_bits:
        return value
    place = value.expressions[0] if isinstance(value, exp.Distinct) else value
    wide = exp.Cast(this=place.copy(), to=exp.DataType.build("DECIMAL(38, 0)"))
    if place is value:
        return wide
    place.replace(wide)
    return value


def _average(
    node: exp.Expr, inner: exp.Expr, t: DataType, argument: DataType, render: Render, numbers: Arithmetic
) -> str | None:
    if t.root in FLOATS:
        plain = render(_instead(node, inner, exp.Avg))
        return plain if t.root == "DOUBLE" else f"CAST({plain} AS FLOAT)"
    total = render(_instead(node, inner, exp.Sum, _roomy(inner, argument, numbers)))
    count = render(_instead(node, inner, exp.Count))
    summed = Operand(total, DataType("DECIMAL", precision=MOST_DIGITS, scale=argument.scale))
    short = argument.precision <= SHORT_DIGITS
    return numbers.mean(summed, Operand(count, DataType("BIGINT")), t, short=short)


def _spread(node: exp.Expr, inner: exp.Expr, t: DataType, render: Render, numbers: Arithmetic) -> str | None:
    """A variance or deviation from sums and squares, computed in the types that Flink computes them in."""
    kind = numbers.type_name(t)
    if t.root in FLOATS or isinstance(inner.this, exp.Distinct):
        return f"CAST({render(_instead(node, inner, type(inner)))} AS {kind})"
    value = exp.paren(inner.this.copy())
    count = _instead(node, inner, exp.Count)
    squares = _summed(node, inner, exp.Mul(this=value, expression=value.copy()))
    square = exp.Mul(this=_summed(node, inner, value), expression=_summed(node, inner, value))
    squared = exp.Div(this=exp.paren(square), expression=_not_0(count.copy()))
    less = exp.paren(exp.Sub(this=squares, expression=squared))
    one_less = exp.paren(exp.Sub(this=count.copy(), expression=exp.Literal.number(1)))
    number = count if isinstance(inner, _OF_ALL) else one_less
    text = render(note_type(exp.Div(this=less, expression=_not_0(number))))
    if isinstance(inner, _SQUARED):
        return f"CAST({text} AS {kind})"
    root = f"sqrt(CAST({text} AS DOUBLE))"
    return f"CAST({f'floor({root})' if t.root in WHOLE else root} AS {kind})"


def _summed(node: exp.Expr, inner: exp.Expr, value: exp.Expr) -> Any:
    total = _instead(node, inner, exp.Sum, note_type(value))
    aggregate_of(total).meta.pop(_PLAIN)
    return total


def _not_0(number: exp.Expr) -> exp.Expr:
    zero = exp.Literal.number(0)
    return exp.Anonymous(this="NULLIF", expressions=[number, zero])
