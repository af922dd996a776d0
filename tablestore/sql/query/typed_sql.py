"""Arithmetic and aggregates as an engine's SQL with the results of Flink SQL; `TypedSql` is the part of them
in the generators of both engines.

Whole numbers wrap, decimals are exact and NULL where they do not fit, numbers of floating point divided by 0
are infinite, others an error. A sum and an average of whole numbers is whole, of decimals it is exact, a
variance is of the type of its argument. Where the type of an operand is not known the engine's own meaning
stays.

`Arithmetic` is what the two engines have in common; each has a class of its own for how it says things. An
aggregate stands with its FILTER and OVER; what is made of it, a cast or a quotient, stands around these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from tablestore.core.errors import InvalidRequest
from tablestore.format.types.data_type import DataType
from tablestore.sql.query.numeric_types import FLOATS, MOST_DIGITS, NUMBERS, WHOLE, arithmetic
from tablestore.sql.query.type_inference import note_type, type_of

AROUND = (exp.Filter, exp.Window)
_PLAIN = "plain"  # key of the notes of aggregates that the engine computes as they are
SHORT_DIGITS = 20  # of decimals whose sums stay far from 38 digits
_SPREADS = (exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)
_SQUARED = (exp.Variance, exp.VariancePop)
_OF_ALL = (exp.StddevPop, exp.VariancePop)
Render = Callable[[Any], str]
OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_NUMERIC = ("ABS", "MOD", "ROUND", "SIGN", "TRUNCATE")
JOINED = ("CONCAT", "CONCAT_WS")  # functions whose arguments become texts
_AGGREGATES = (exp.Sum, exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)


@dataclass(frozen=True, slots=True)
class Operand:
    """An expression as SQL; `wide` is the same not yet wrapped, `constant` the number that a literal is,
    `steady` that it is computed row by row, of no aggregate and no query."""

    text: str
    type: DataType
    steady: bool = True
    wide: str = ""
    constant: float | None = None


class Arithmetic(ABC):
    """How one engine says arithmetic of numbers. `sums_in_128_bits` that its SUM of BIGINTs has that room."""

    sums_in_128_bits: bool

    def computed(self, operator: str, a: Operand, b: Operand) -> Operand:
        """`a operator b` of two numbers. Raises InvalidRequest for a literal divided by 0."""
        result = arithmetic(operator, a.type, b.type)
        assert result is not None
        steady = a.steady and b.steady
        if a.type.root in WHOLE and b.type.root in WHOLE:
            text, wide = self._whole(operator, a, b, result)
            return Operand(text, result, steady, wide)
        if result.root in FLOATS:
            return Operand(self._floating(operator, a, b, result), result, steady)
        return Operand(self._decimal(operator, a, b, result), result, steady)

    def negated(self, o: Operand) -> str:
        """−a; of the least whole number it is that number."""
        if o.type.root in WHOLE:
            return self.wrapped(f"(-CAST({o.text} AS {self._wide(o.type)}))", o.type)
        return f"(-{o.text})"

    def absolute(self, o: Operand) -> str:
        """ABS; of the least whole number it is that number."""
        if o.type.root in WHOLE:
            return self.wrapped(f"abs(CAST({o.text} AS {self._wide(o.type)}))", o.type)
        return f"abs({o.text})"

    @abstractmethod
    def rounded(self, name: str, o: Operand, places: list[str], result: DataType) -> str:
        """ROUND or TRUNCATE to so many places, none for 0; a half of the number as shown goes away from 0."""

    @abstractmethod
    def type_name(self, t: DataType) -> str:
        """The type as the engine writes it."""

    @abstractmethod
    def wrapped(self, text: str, t: DataType) -> str:
        """A whole number of more bits, in those of the type: the highest ones go."""

    @abstractmethod
    def mean(self, total: Operand, count: Operand, result: DataType, *, short: bool) -> str:
        """A sum by its count, cut for whole numbers, rounded half up for decimals; `short` that the sum is
        far from 38 digits."""

    def _remainder(self, left: str, right: str, kind: str) -> str:
        """What is left of a division of floating point of this type; by 0 it is NaN."""
        return f"({left} % {right})"

    @abstractmethod
    def _wide(self, t: DataType) -> str:
        """A type that holds every sum and product of two whole numbers of the type."""

    @abstractmethod
    def _decimal(self, operator: str, a: Operand, b: Operand, result: DataType) -> str: ...

    @abstractmethod
    def _whole_quotient(self, left: str, right: str) -> str: ...

    def _whole(self, operator: str, a: Operand, b: Operand, result: DataType) -> tuple[str, str]:
        kind = self._wide(result)
        if operator == "%":  # as long as its divisor; the dividend may be longer
            return f"CAST({a.text} % {b.text} AS {self.type_name(result)})", ""
        chained = operator in "+-" and a.wide and a.type.root == result.root
        left, right = a.wide if chained else f"CAST({a.text} AS {kind})", f"CAST({b.text} AS {kind})"
        if operator == "/":
            return self.wrapped(self._whole_quotient(left, right), result), ""
        result_text = f"({left} {operator} {right})"
        return self.wrapped(result_text, result), result_text if operator in "+-" else ""

    def _floating(self, operator: str, a: Operand, b: Operand, result: DataType) -> str:
        kind = self.type_name(result)
        left, right = (o.text if o.type.root == result.root else f"CAST({o.text} AS {kind})" for o in (a, b))
        quotient = self._remainder(left, right, kind) if operator == "%" else f"({left} {operator} {right})"
        if operator == "/" and not b.constant:
            if b.constant is not None and a.constant is not None:
                raise InvalidRequest("Division by zero")
            quotient = (
                f"(CASE WHEN {right} = 0 THEN {left} * CAST('inf' AS {kind}) ELSE {left} / {right} END)"
            )
        return quotient if result.root == "DOUBLE" else f"CAST({quotient} AS {kind})"


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


def typed_transforms(usual: dict[Any, Any]) -> dict[Any, Any]:
    """An engine's transforms of nodes, with those of `TypedSql` instead where there are such."""
    transforms = dict(usual)
    transforms |= {kind: lambda self, e: self.computed(e) for kind in OPERATORS}
    for kind in _AGGREGATES:
        transforms[kind] = lambda self, e, kind=kind: self.aggregate(e, usual.get(kind))
    return transforms


class TypedSql:
    """A part of a generator of sqlglot's."""

    numbers: Arithmetic
    sql: Any
    binary: Any
    function_fallback_sql: Any

    def computed(self, expression: Any) -> str:
        """Arithmetic, from the innermost operand on the left out, so that a long sum needs no recursion."""
        spine, node = [], expression
        while type(node) in OPERATORS and are_numbers(node.this, node.expression):
            spine.append(node)
            node = node.this
        if not spine:
            return self.untyped(expression)
        left = self.operand(node)
        for outer in reversed(spine):
            left = self.numbers.computed(OPERATORS[type(outer)], left, self.operand(outer.expression))
        return left.text

    def untyped(self, expression: Any) -> str:
        """Arithmetic of what is no number, or not known to be one."""
        return str(self.binary(expression, OPERATORS[type(expression)]))

    def operand(self, node: Any) -> Operand:
        t = type_of(node)
        assert t is not None
        steady = node.find(exp.AggFunc, exp.Query, exp.Window, exp.Anonymous) is None
        return Operand(self.sql(node), t, steady, constant=_constant(node))

    def neg_sql(self, expression: exp.Neg) -> str:
        inner = expression.this
        if isinstance(inner, exp.Literal) and "e" in inner.name.lower() and not float(inner.name):
            return self.sql(inner)  # a literal 0 has no sign
        if are_numbers(inner) and not isinstance(inner, exp.Literal):
            return self.numbers.negated(self.operand(inner))
        return str(super().neg_sql(expression))  # type: ignore[misc]  # the generator's

    def function(self, expression: exp.Anonymous) -> str | None:
        """A function of numbers in its type; None where the engine's own is right."""
        t, name = type_of(expression), expression.name.upper()
        if t is None:
            return None
        arguments = expression.expressions
        if name == "TYPEOF":
            argument = type_of(arguments[0]) if len(arguments) == 1 else None
            return None if argument is None else f"'{shown_type(argument)}'"
        if name not in _NUMERIC or not are_numbers(*arguments) or not 1 <= len(arguments) <= 2:
            return None
        if name == "MOD":
            return self.numbers.computed("%", *map(self.operand, arguments)).text
        first = self.operand(arguments[0])
        if name == "ABS":
            return self.numbers.absolute(first)
        if name == "SIGN":
            sign = f"CAST(sign({first.text}) AS {self.numbers.type_name(t)})"
            itself = f"isnan({first.text}) OR {first.text} = 0"  # NaN, and 0 with its sign
            return f"(CASE WHEN {itself} THEN {first.text} ELSE {sign} END)" if t.root in FLOATS else sign
        return self.numbers.rounded(name, first, [self.sql(a) for a in arguments[1:]], t)

    def overlay_sql(self, expression: exp.Overlay) -> str:
        parts = ("this", "expression", "from_", "for_")
        text, by, start, length = (self.sql(expression, part) for part in parts)
        rest = f"({start}) + " + (f"({length})" if length else f"length({by})")
        behind = f"substring({text}, {rest})"
        behind = f"CASE WHEN ({length}) > 0 THEN {behind} ELSE '' END" if length else behind
        outside = f"({start}) <= 0 OR ({start}) > length({text})"
        overlaid = f"left({text}, ({start}) - 1) || {by} || {behind}"
        return f"(CASE WHEN ({by}) IS NULL THEN NULL WHEN {outside} THEN {text} ELSE {overlaid} END)"

    def dpipe_sql(self, expression: exp.DPipe) -> str:
        """Texts joined; what is no text is cast to one."""
        return " || ".join(self.as_text(node) for node in (expression.this, expression.expression))

    def as_text(self, node: Any) -> str:
        """An expression as text, by a CAST where it is known to be no text."""
        t = type_of(node)
        if t is None or t.is_string or t.is_binary or t.is_nested or t.root == "NULL":
            return str(self.sql(node))
        return str(self.sql(exp.Cast(this=node.copy(), to=exp.DataType.build("TEXT"))))

    def aggregate(self, expression: Any, usual: Any) -> str:
        """An aggregate; `usual` is how the engine says it by itself."""
        sql = rendered(expression, self.sql, self.numbers)
        if sql is not None:
            return sql
        return str(self.function_fallback_sql(expression) if usual is None else usual(self, expression))

    def filter_sql(self, expression: exp.Filter) -> str:
        sql = rendered(expression, self.sql, self.numbers)
        return str(super().filter_sql(expression)) if sql is None else sql  # type: ignore[misc]  # likewise

    def window_sql(self, expression: exp.Window) -> str:
        sql = rendered(expression, self.sql, self.numbers)
        return str(super().window_sql(expression)) if sql is None else sql  # type: ignore[misc]  # likewise


def shown_type(t: DataType) -> str:
    """The type as TYPEOF shows it."""
    if t.root in ("TIMESTAMP_LTZ", "TIME", "TIMESTAMP"):
        return f"{t.root}({t.precision})" + ("" if t.nullable else " NOT NULL")
    if t.root == "ROW":
        inner = ", ".join(f"`{f.name}` {shown_type(f.type)}" for f in t.children)
    else:
        inner = ", ".join(shown_type(f.type) for f in t.children)
    text = f"{t.root}<{inner}>" if t.children else str(t.as_nullable())
    return text + ("" if t.nullable else " NOT NULL")


def are_numbers(*nodes: Any) -> bool:
    """Whether all these are known to be numbers."""
    return all((t := type_of(node)) is not None and t.root in NUMBERS for node in nodes)


def _constant(node: Any) -> float | None:
    """The number that a literal is."""
    if isinstance(node, exp.Paren):
        return _constant(node.this)
    if isinstance(node, exp.Neg):
        inner = _constant(node.this)
        return None if inner is None else -inner
    return float(node.name) if isinstance(node, exp.Literal) and not node.is_string else None
