"""One name for one column within a SELECT that groups, so that `t.a`, `a` and `"a"` are one key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

Columns = Mapping[str, Sequence[str]]  # of each source of FROM, by its name


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
    made: Any = exp.column(_identifier(path[0]), table=_identifier(source))
    for name in path[1:]:
        made = exp.Dot(this=made, expression=_identifier(name))
    made.meta.update(column.meta)
    column.replace(made)


def _identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
