"""Mutants of a module: its source with one small fault in one function.

A bound moves by the equal case, a whole number by 1. These change places: `and` and `or`, `max` and `min`,
`+` and `-`, `*` and `//`, `==` and `!=`, `is` and `is not`, `in` and `not in`, `True` and `False`. A
condition is negated, one argument of `max` or `min` is taken alone, a statement is dropped.

Texts, annotations, defaults, assertions, `strict=` of zip and lines of the log stay as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    first: second
    for pair in (
        (ast.Lt, ast.LtE),
        (ast.Gt, ast.GtE),
        (ast.Eq, ast.NotEq),
        (ast.Is, ast.IsNot),
        (ast.In, ast.NotIn),
        (ast.And, ast.Or),
        (ast.Add, ast.Sub),
        (ast.Mult, ast.FloorDiv),
    )
    for first, second in (pair, pair[::-1])
}
EXTREMES = {"max": "min", "min": "max"}
TEXTS = (ast.JoinedStr, ast.Assert)
"""What holds no decision: f-strings, whose parts have no places before Python 3.12, and assertions."""
ENDS_INSIDE = (ast.If, ast.With, ast.Try, ast.Match, ast.match_case, ast.ExceptHandler)
"""Statements whose last statement is the last of the function, if they are."""
DROPPED = (ast.Raise, ast.Continue, ast.Break, ast.AugAssign, ast.Delete)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault. `function`: the outermost one that has it, by its qualified name; `source`: the module."""

    module: str
    function: str
    line: int
    before: str
    after: str
    source: str

    @property
    def diff(self) -> str:
        """The lines that differ, as a difference shows them."""
        head = f"{self.module}:{self.line} in {self.function}"
        return "\n".join((head, *_marked("-", self.before), *_marked("+", self.after)))

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names the mutant as long as its lines stay as they are, wherever they move to."""
        return self.module, self.function, _joined(self.before), _joined(self.after)


def _marked(sign: str, text: str) -> list[str]:
    return [f"  {sign} {line.strip()}" for line in text.split("\n")]


def _joined(text: str) -> str:
    return " ".join(text.split())


def mutants(module: str, source: str) -> list[Mutant]:
    """All mutants of a source, in its order; no two are alike."""
    text = _SourceText(source)
    unique: dict[str, Mutant] = {}
    for function, body in functions(ast.parse(source)):
        for node, replacement in _of_statements(body, last=True):
            mutated, line, before, after = text.replaced(node, replacement)
            unique.setdefault(mutated, Mutant(module, function, line, before, after, mutated))
    return sorted(unique.values(), key=lambda each: each.line)


def functions(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    """(qualified name, body) of the functions of a module and the methods of its classes."""
    open_scopes: list[tuple[str, list[ast.stmt]]] = [("", tree.body)]
    while open_scopes:
        prefix, body = open_scopes.pop(0)
        for node in body:
            if isinstance(node, ast.ClassDef):
                open_scopes.append((f"{prefix}{node.name}.", node.body))
            elif isinstance(node, ast.FunctionDef):
                yield f"{prefix}{node.name}", node.body


class _SourceText:
    """A source whose nodes can be replaced; the columns of `ast` count bytes."""

    def __init__(self, source: str) -> None:
        self._source = source.encode()
        self._starts = [0]
        for line in self._source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def replaced(self, node: ast.expr | ast.stmt, text: str) -> tuple[str, int, str, str]:
        """(source, first line, lines before, lines after) with `text` in the place of the node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        mutated = self._source[:start] + text.encode() + self._source[end:]
        first, after = self._starts[node.lineno - 1], len(self._source) - self._starts[node.end_lineno]
        before = self._source[first : self._starts[node.end_lineno]].decode().rstrip("\n")
        return (
            mutated.decode(),
            node.lineno,
            before,
            mutated[first : len(mutated) - after].decode().rstrip("\n"),
        )


Faults = Iterator[tuple[ast.expr | ast.stmt, str]]
"""Nodes, each with the text that replaces it."""


def _of_statements(body: list[ast.stmt], *, last: bool) -> Faults:
    """Faults of the statements of a block; `last`: it ends its function, which returns there anyhow."""
    for n, statement in enumerate(body):
        ends = last and n == len(body) - 1
        if _can_be_dropped(statement, ends=ends):
            yield statement, "pass"
        yield from _of(statement, ends=ends)


def _can_be_dropped(statement: ast.stmt, *, ends: bool) -> bool:
    """Whether the function still makes sense without it: a name that nobody sets would show at once."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log")))):
            return False
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.Return():
            return not ends
    return isinstance(statement, DROPPED)


def _of(node: ast.AST, *, ends: bool = False) -> Faults:
    """Faults of a node and all that is in it."""
    if isinstance(node, TEXTS) or _decides_nothing(node):
        return
    if isinstance(node, ast.expr):
        yield from ((node, text if text.isalnum() else f"({text})") for text in _of_expression(node))
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(
        node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant
    ):
        yield node.test, f"(not {_inner(node.test)})"
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            last = isinstance(node, ast.FunctionDef) or (ends and isinstance(node, ENDS_INSIDE))
            yield from _of_statements(value, last=last)
        else:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _of(child)


def _decides_nothing(node: ast.AST) -> bool:
    match node:
        case ast.keyword(arg="strict"):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="log")))):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
    return False


def _of_expression(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=right):
            for n, op in enumerate(ops):
                others = [*ops[:n], OPPOSITES[type(op)](), *ops[n + 1 :]] if type(op) in OPPOSITES else []
                if others:
                    yield ast.unparse(ast.Compare(left, others, right))
        case ast.BoolOp(op=op, values=values):
            yield ast.unparse(ast.BoolOp(OPPOSITES[type(op)](), values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPPOSITES and not _is_text(left, right):
            yield ast.unparse(ast.BinOp(left, OPPOSITES[type(op)](), right))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield ast.unparse(operand)
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield from (str(value + 1), str(value - 1))
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=arguments, keywords=keywords):
            yield ast.unparse(ast.Call(ast.Name(EXTREMES[name]), arguments, keywords))
            if len(arguments) > 1 and not any(isinstance(each, ast.Starred) for each in arguments):
                yield from map(ast.unparse, arguments)


def _is_text(*sides: ast.expr) -> bool:
    """Whether a sum joins texts, lists or tuples, of which nothing can be taken away."""
    for side in sides:
        match side:
            case ast.JoinedStr() | ast.List() | ast.Tuple() | ast.ListComp() | ast.Constant(value=str()):
                return True
            case ast.BinOp(left=left, right=right) if _is_text(left, right):
                return True
    return False


def _inner(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"
