"""The one SELECT of a stream that groups, cut in two: what is computed of each row, and of each group.

Columns get one name first, so that `t.a`, `a` and `"a"` are one key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.sql.problems import placed, start_of
from tablestore.sql.query.functions import FUNCTIONS
from tablestore.sql.streaming.group_columns import ARGUMENT, GROUPS, KEY, RESULT

Columns = Mapping[str, Sequence[str]]  # of each source of FROM, by its name

_FUNCTIONS: dict[Any, str] = {
    exp.Count: "COUNT",
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
}


@dataclass(frozen=True, slots=True)
class Computed:
    """An aggregate of a query: `node` is the whole of it; `argument` is computed as `column`, None where rows
    are counted."""

    name: str
    function: str
    column: str | None
    argument: exp.Expression | None
    distinct: bool
    node: exp.Expression


@dataclass(frozen=True, slots=True)
class GroupedParts:
    """`below` gives keys and arguments of each row, `above` the result of each group; `described` has keys
    and values of the aggregates, as a query over all rows would give them."""

    below: exp.Expression
    keys: tuple[str, ...]
    aggregates: tuple[Computed, ...]
    above: exp.Expression
    described: exp.Expression


def grouped_select(tree: exp.Expression, text: str) -> exp.Select | None:
    """The SELECT that groups, None where none does. Raises Unsupported for more than one, and for one that is
    a side of UNION ALL."""
    grouping = [select for select in tree.find_all(exp.Select) if _groups(select)]
    if not grouping:
        return None
    if len(grouping) > 1:
        raise _at(
            Unsupported(
                "a GROUP BY over a GROUP BY in a stream", "INSERT the inner one into a table, and follow that"
            ),
            grouping[0],
            text,
        )
    if grouping[0].find_ancestor(exp.Union) is not None:
        raise _at(Unsupported("GROUP BY as a side of UNION ALL in a stream"), grouping[0], text)
    return grouping[0]


def _groups(select: exp.Select) -> bool:
    if select.args.get("group") or select.args.get("distinct") or select.args.get("having"):
        return True
    return any(_aggregates(node) and _of(select, node) for node in select.walk())


def _aggregates(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        function = FUNCTIONS.get(node.name.upper())
        return function is not None and function.kind == "aggregate"
    return isinstance(node, exp.AggFunc)


def _of(select: exp.Select, node: exp.Expr) -> bool:
    return node.find_ancestor(exp.Select) is select and node.find_ancestor(exp.Window) is None


def grouped_parts(tree: exp.Expression, select: exp.Select, text: str) -> GroupedParts:
    """The two halves. Raises Unsupported for an aggregate that does not follow retractions, InvalidRequest
    for a column that is neither grouped nor aggregated."""
    keys = _keys(select, text)
    computed: dict[str, Computed] = {}
    for part in [*select.expressions, *([select.args["having"]] if select.args.get("having") else [])]:
        for node in list(part.walk()):
            if (
                isinstance(node, exp.Filter)
                or (_aggregates(node) and not isinstance(node.parent, exp.Filter))
            ) and _of(select, node):
                _note(node, computed, text)
    aggregates = tuple(computed.values())
    names = tuple(KEY.format(i) for i in range(len(keys)))
    shown = [_named(key.copy(), name) for key, name in zip(keys, names, strict=True)]
    by_column = {call.column: call.argument for call in aggregates if call.argument is not None}
    arguments = [_named(argument.copy(), str(column)) for column, argument in by_column.items()]
    below, described = from_of(select), from_of(select)
    below.set("expressions", [*shown, *arguments] or [_named(exp.Literal.number(1), ARGUMENT.format(0))])
    described.set(
        "expressions", [*(s.copy() for s in shown), *(_named(a.node.copy(), a.name) for a in aggregates)]
    )
    if keys:
        described.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    return GroupedParts(below, names, aggregates, _above(tree, select, keys, aggregates, text), described)


def from_of(select: exp.Select) -> exp.Select:
    """FROM, joins and WHERE of a SELECT."""
    joined = exp.Select()
    for part in ("from_", "joins", "laterals", "where"):
        value = select.args.get(part)
        if value is not None:
            joined.set(part, [v.copy() for v in value] if isinstance(value, list) else value.copy())
    return joined


def _keys(select: exp.Select, text: str) -> list[exp.Expression]:
    group = select.args.get("group")
    if group is None:
        return [_plain(e).copy() for e in select.expressions] if select.args.get("distinct") else []
    for name in ("grouping_sets", "cube", "rollup", "totals", "all"):
        if group.args.get(name):
            raise _at(Unsupported(f"GROUP BY {name.replace('_', ' ').upper()} in a stream"), select, text)
    aliases = {e.alias: _plain(e) for e in select.expressions if isinstance(e, exp.Alias)}
    stored = {c.name for c in select.find_all(exp.Column) if c.find_ancestor(exp.Group) is None}
    keys: list[exp.Expression] = []
    for key in group.expressions:
        if isinstance(key, exp.Tuple) and not key.expressions:
            continue  # GROUP BY (): one group
        if isinstance(key, exp.Literal) and not key.is_string:
            place = int(key.name)
            if not 1 <= place <= len(select.expressions):
                raise _at(InvalidRequest(f"GROUP BY {place}: there is no such column"), key, text)
            keys.append(_plain(select.expressions[place - 1]).copy())
        elif isinstance(key, exp.Column) and not key.table and key.name in aliases and key.name not in stored:
            keys.append(aliases[key.name].copy())
        else:
            keys.append(key.copy())
    return keys


def _plain(shown: exp.Expression) -> Any:
    return shown.this if isinstance(shown, exp.Alias) else shown


def _note(node: Any, computed: dict[str, Computed], text: str) -> None:
    """Add an aggregate, unless the same is there already."""
    whole, condition = node, None
    if isinstance(node, exp.Filter):
        node, condition = node.this, node.expression.this
    function = _FUNCTIONS.get(type(node))
    if function is None:
        raise _at(
            Unsupported(f"{_name(node)} in a stream", "COUNT, SUM, AVG, MIN and MAX follow retractions"),
            node,
            text,
        )
    argument, distinct = node.this, False
    if isinstance(argument, exp.Distinct):
        if len(argument.expressions) != 1:
            raise _at(Unsupported(f"{function}(DISTINCT) of several columns in a stream"), node, text)
        argument, distinct = argument.expressions[0], True
    if isinstance(argument, exp.Star):
        argument = None
    if condition is not None:
        then = exp.Literal.number(1) if argument is None else argument.copy()
        argument = exp.Case(ifs=[exp.If(this=condition.copy(), true=then)])
    key = whole.sql("duckdb")
    if key not in computed:
        place = len(computed)
        column = None if argument is None else _column(argument, computed.values(), place)
        computed[key] = Computed(RESULT.format(place), function, column, argument, distinct, whole.copy())


def _column(argument: exp.Expression, computed: Iterable[Computed], place: int) -> str:
    """The column of an argument: the same for every aggregate of it."""
    text = argument.sql("duckdb")
    for call in computed:
        if call.argument is not None and call.column is not None and call.argument.sql("duckdb") == text:
            return call.column
    return ARGUMENT.format(place)


def _name(node: Any) -> str:
    return str(node.name if isinstance(node, exp.Anonymous) else node.key).upper()


def _above(
    tree: exp.Expression,
    select: exp.Select,
    keys: list[exp.Expression],
    aggregates: tuple[Computed, ...],
    text: str,
) -> exp.Expression:
    """The whole query with the SELECT replaced by one over the groups."""
    by_text = {key.sql("duckdb"): KEY.format(i) for i, key in enumerate(keys)}
    by_text |= {call.node.sql("duckdb"): call.name for call in aggregates}

    def known(node: Any) -> Any:
        name = by_text.get(node.sql("duckdb")) if not isinstance(node, exp.Identifier) else None
        if name is None:
            return node
        column = exp.column(exp.to_identifier(name, quoted=True))
        column.meta.update(node.meta)  # with its type, on which arithmetic depends
        return column

    expressions = []
    for shown in select.expressions:
        outer = _plain(shown).copy().transform(known, copy=False)
        _require_known(outer, by_text, text)
        expressions.append(_named(outer, shown.alias_or_name))
    outer = exp.Select(expressions=expressions).from_(
        exp.Table(this=exp.to_identifier(GROUPS, quoted=True)), copy=False
    )
    having = select.args.get("having")
    if having is not None:
        condition = having.this.copy().transform(known, copy=False)
        _require_known(condition, by_text, text)
        outer.set("where", exp.Where(this=condition))
    if select is tree:
        return outer
    place = select.copy()  # find it again in a copy of the tree
    whole = tree.copy()
    for other in whole.find_all(exp.Select):
        if other == place:
            other.replace(outer)
            return whole
    raise AssertionError("the SELECT is part of the tree")


def _require_known(tree: Any, by_text: dict[str, str], text: str) -> None:
    names = set(by_text.values())
    for column in tree.find_all(exp.Column):
        if column.name not in names:
            raise _at(
                InvalidRequest(f"column {column.name!r} is neither grouped nor aggregated"), column, text
            )


def _named(node: exp.Expression, name: str) -> Any:
    return exp.alias_(node, name, quoted=True, copy=False)


def _at(error: Any, node: exp.Expression, text: str) -> Any:
    placed(error, text, start_of(node))
    return error


def source_names(select: exp.Select) -> list[str]:
    """What the sources of FROM are called."""
    start = select.args.get("from_")
    nodes = [] if start is None else [start.this, *(j.this for j in select.args.get("joins") or [])]
    return [name for name in dict.fromkeys(node.alias_or_name for node in nodes) if name]


def qualify(select: exp.Select, columns: Columns) -> None:
    """Let every column in the result, the keys and the condition of groups say which source it is of, a part
    of a ROW also of which column; functions are in capitals. The tree changes in place."""
    for part in _parts(select):
        for node in list(part.walk()):
            if isinstance(node, exp.Anonymous):
                node.set("this", node.name.upper())
            if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                _qualify(node, columns)


def _parts(select: exp.Select) -> Iterator[Any]:
    yield from select.expressions
    for name in ("group", "having"):
        if select.args.get(name) is not None:
            yield select.args[name]


def _qualify(column: exp.Column, columns: Columns) -> None:
    names = [part.name for part in column.parts]
    if names[0] in columns and len(names) > 1 and names[1] in columns[names[0]]:
        source, path = names[0], names[1:]
    else:
        sources = [name for name, some in columns.items() if names[0] in some]
        if len(sources) != 1:
            return  # the name of a result, or of several sources
        source, path = sources[0], names
    if len(path) == 1:
        column.this.set("quoted", True)
        column.set("table", _identifier(source))
        return
    path_expression: Any = exp.column(_identifier(path[0]), table=_identifier(source))
    for name in path[1:]:
        path_expression = exp.Dot(this=path_expression, expression=_identifier(name))
    path_expression.meta.update(column.meta)
    column.replace(path_expression)


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
