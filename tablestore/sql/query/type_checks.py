"""What Flink SQL refuses for its types before anything runs: a condition that is no BOOLEAN, a number
compared with a text, a sum of texts. Types that are not known pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from tablestore.core.errors import InvalidRequest
from tablestore.format.types.data_type import DataType
from tablestore.sql.problems import placed, start_of
from tablestore.sql.query.numeric_types import NUMBERS
from tablestore.sql.query.type_inference import MISMATCH, type_of

_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_OF_NUMBERS = (exp.Sum, exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)
_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


def require_types(tree: exp.Expression, text: str) -> None:
    """Raise InvalidRequest, at its place, for operands of types that an operator does not take."""
    nodes: Any = tree.walk()
    for node in nodes:
        problem = _problem(node)
        if problem:
            raise placed(InvalidRequest(problem), text, start_of(node, start_of(node.parent)))


def _problem(node: exp.Expr) -> str:
    if isinstance(node, exp.Where | exp.Having | exp.And | exp.Or | exp.Not | exp.Case):
        return _no_condition(_conditions(node))
    if isinstance(node, _COMPARED):
        return _incomparable(node.this, node.expression)
    if isinstance(node, exp.Between):
        return _incomparable(node.this, node.args["low"]) or _incomparable(node.this, node.args["high"])
    if isinstance(node, _ARITHMETIC):
        return _no_numbers(node)
    if isinstance(node, _OF_NUMBERS):
        t = type_of(node.this)
        if t is not None and _family(t) not in ("number", ""):
            return f"{node.sql_name()} takes numbers, not {_shown(t)}"
    if isinstance(node, exp.SetOperation) and node.meta.get(MISMATCH):
        return f"the two sides of {node.key.upper()} differ in column {node.meta[MISMATCH]}: CAST one of them"
    return ""


def _conditions(node: exp.Expr) -> Sequence[Any]:
    if isinstance(node, exp.Where | exp.Having | exp.Not):
        return (node.this,)
    if isinstance(node, exp.And | exp.Or):
        return (node.this, node.expression)
    return () if node.this is not None else [i.this for i in node.args["ifs"]]


def _no_condition(nodes: Sequence[Any]) -> str:
    for node in nodes:
        t = type_of(node)
        if t is not None and t.root not in ("BOOLEAN", "NULL"):
            return f"a condition is expected, not {_shown(t)}"
    return ""


def _incomparable(a: Any, b: Any) -> str:
    left, right = type_of(a), type_of(b)
    if left is None or right is None or isinstance(b, exp.Query | exp.Any | exp.All):
        return ""
    family, other = _family(left), _family(right)
    literal = (isinstance(a, exp.Literal) and other == "time") or (
        isinstance(b, exp.Literal) and family == "time"
    )
    if family == other or "" in (family, other) or (literal and "text" in (family, other)):
        return ""
    return f"{_shown(left)} and {_shown(right)} are not compared: CAST one of them"


def _no_numbers(node: exp.Expr) -> str:
    types = [type_of(node.this), type_of(node.expression)]
    families = [_family(t) for t in types if t is not None]
    bad = [t for t in types if t is not None and _family(t) in ("text", "boolean", "bytes")]
    if len(families) == 2 and bad:
        sign = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}[node.key]
        return f"{sign} takes numbers, not {_shown(bad[0])}"
    return ""


def _family(t: DataType) -> str:
    if t.root in NUMBERS:
        return "number"
    if t.is_string:
        return "text"
    if t.is_binary:
        return "bytes"
    return "time" if t.root in _TIMES else "boolean" if t.root == "BOOLEAN" else ""


def _shown(t: DataType) -> str:
    return str(t.as_nullable())
