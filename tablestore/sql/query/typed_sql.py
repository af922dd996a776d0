"""TypedSql: what the SQL generators of both engines share: arithmetic and aggregates in Flink's types.

Where the type of an operand is not known the engine's own meaning stays.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from tablestore.format.types.data_type import DataType
from tablestore.sql.query.aggregates import rendered
from tablestore.sql.query.arithmetic import Arithmetic, Operand
from tablestore.sql.query.numeric_types import FLOATS, NUMBERS
from tablestore.sql.query.type_inference import type_of

OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_NUMERIC = ("ABS", "MOD", "ROUND", "SIGN", "TRUNCATE")
JOINED = ("CONCAT", "CONCAT_WS")  # functions whose arguments become texts
_AGGREGATES = (exp.Sum, exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)


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
