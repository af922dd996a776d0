"""Trees whose rows are changes: row kind and position travel as columns from the table to the result."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlglot import exp

from tablestore.sql.streaming.row_step import KIND, POSITION


def inlined(tree: exp.Expression) -> exp.Expression:
    """The query with the queries of WITH in the places of their names: each place is a stream of its own."""
    with_ = tree.args.get("with_")
    for node in list(tree.find_all(exp.Subquery)):
        if node.this.args.get("with_"):
            node.set("this", inlined(node.this))
    if with_ is None or with_.args.get("recursive"):
        return tree
    known: dict[str, exp.Expression] = {}
    for cte in with_.expressions:
        query = cte.this.copy()
        _replace(query, known)
        known[cte.alias] = _with_columns(query, cte)
    tree.set("with_", None)
    _replace(tree, known)
    return tree


def _with_columns(query: Any, cte: exp.CTE) -> Any:
    columns = cte.args["alias"].args.get("columns")
    if not columns:
        return query
    alias = exp.TableAlias(this=exp.to_identifier("__with"), columns=[c.copy() for c in columns])
    return exp.Select(expressions=[exp.Star()]).from_(exp.Subquery(this=query, alias=alias))


def _replace(tree: exp.Expression, known: dict[str, exp.Expression]) -> None:
    for node in list(tree.find_all(exp.Table)):
        if not node.args.get("db") and node.name in known:
            alias = node.args.get("alias") or exp.TableAlias(this=node.this.copy())
            node.replace(exp.Subquery(this=known[node.name].copy(), alias=alias.copy()))


def carrying(tree: exp.Expression, views: Collection[str]) -> None:
    """Let every SELECT between the views and the result give kind and position as its last columns."""
    done: set[int] = set()
    for node in [n for n in tree.find_all(exp.Table) if n.name in views]:
        climbing: Any = node
        while climbing is not None:
            select = climbing.find_ancestor(exp.Select)
            if select is None or id(select) in done:
                break
            done.add(id(select))
            alias = climbing.alias_or_name
            for star in _stars(select, alias):
                star.set("except_", [exp.to_identifier(n, quoted=True) for n in (KIND, POSITION)])
            for name in (KIND, POSITION):
                select.append("expressions", _column(name, alias))
            climbing = _subquery_around(select)


def _stars(select: exp.Select, alias: str) -> list[exp.Star]:
    found = []
    for shown in select.expressions:
        if isinstance(shown, exp.Star):
            found.append(shown)
        elif isinstance(shown, exp.Column) and isinstance(shown.this, exp.Star) and shown.table == alias:
            found.append(shown.this)
    return found


def _column(name: str, alias: str) -> exp.Expr:
    column = exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))
    return exp.alias_(column, name, quoted=True, copy=False)


def _subquery_around(select: exp.Select) -> exp.Subquery | None:
    """The subquery whose rows a SELECT gives, alone or as a side of UNION ALL."""
    node: Any = select.parent
    while isinstance(node, exp.Union) or (isinstance(node, exp.Subquery) and not _is_from(node)):
        node = node.parent
    return node if isinstance(node, exp.Subquery) else None


def _is_from(node: exp.Subquery) -> bool:
    return isinstance(node.parent, exp.From | exp.Join)
