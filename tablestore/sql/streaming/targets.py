"""Which changes a target takes: whether rows that are taken back find the row that they stand for.

A keyed table replaces and deletes by its primary key, so each row of a source must keep its own key there:
the target's primary key holds every column of the source's, as it is. What the result's columns are made of
is read from the step's SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp

from tablestore.cdc.table_stream import TableStream
from tablestore.core.errors import Unsupported
from tablestore.flow.source import StreamSource
from tablestore.lsm.merge.aggregation import Aggregation
from tablestore.lsm.merge.merge_function import merge_function
from tablestore.sql.filling import Filling
from tablestore.sql.streaming.group_columns import GROUPS
from tablestore.sql.streaming.plan import StreamPlan, unsteady
from tablestore.table.lake import open_table
from tablestore.table.table import Table

Origin = tuple[str, str] | None  # a view and a column of it; None: computed
Columns = dict[str, Origin]
Views = Mapping[str, Sequence[str]]  # the columns of each view


def retracts(plan: StreamPlan) -> bool:
    """Whether the stream may take rows back."""
    return plan.grouping is not None or not all(i.source.appends for i in plan.inputs)


def require_takes(table: Table, name: str, plan: StreamPlan, filling: Filling) -> None:
    """Raise Unsupported for a table into which the changes of a stream cannot be written."""
    if not retracts(plan):
        return
    schema = table.store.schema
    if schema.row_count_field is not None:  # whole rows come and go
        if not plan.steady:
            raise unsteady(f"{name}, which counts whole rows,")
        return
    if not schema.primary_keys:
        why = (
            "the table only takes new rows, and rows of the query change; it needs a primary key, or option "
            "'write-mode' = 'change-log', with which rows come and go without one"
        )
        raise Unsupported(f"a stream of changes into {name}", why)
    if _adds_up(table, name, filling):
        if not plan.steady:
            raise unsteady(f"{name}, which adds rows up,")
        return
    step = plan.step if plan.grouping is None else plan.grouping.after
    names, keys = [f.name for f in filling.fields], _keys(plan)
    views = {view: columns.names for view, columns in step.views.items()}
    for view, columns in _branches(sqlglot.parse_one(step.sql, read="duckdb"), views):
        if view not in keys:
            continue
        origins = dict(zip(names, columns.values(), strict=False))
        kept = {origins.get(column) for column in schema.primary_keys}
        source, key = keys[view]
        keyless = not key and plan.grouping is None
        if keyless or any((view, column) not in kept for column in key):
            raise _refusal(name, schema.primary_keys, source, key)


def _adds_up(table: Table, name: str, filling: Filling) -> bool:
    """Whether the table adds rows of one key up, so that any of them can be taken back. Raises Unsupported
    for a column whose function takes nothing back."""
    function = merge_function(table.store.schema, table.store.options)
    if not isinstance(function, Aggregation):
        return False
    filled = {f.name for f in filling.fields} | {f.name for f, _ in filling.constants}
    used = [aggregate for aggregate in function.functions if aggregate.field.name in filled]
    for aggregate in used:
        if not aggregate.takes_retracts:
            raise Unsupported(f"a stream of changes into {name}", aggregate.remedy)
    return not function.removes and all(aggregate.subtracts for aggregate in used)


def _refusal(name: str, target: Sequence[str], source: str, key: Sequence[str]) -> Unsupported:
    if not key:
        why = f"rows of {source} change and have no primary key; GROUP BY gives rows one"
    else:
        why = (
            f"rows of {source} change, and two of them could become one: select {', '.join(key)} as they are "
            f"into columns of the primary key, which is ({', '.join(target)})"
        )
    return Unsupported(f"a stream of changes into {name}", why)


def _keys(plan: StreamPlan) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Of each view whose rows change, what it is called and its primary key."""
    if plan.grouping is not None:
        return {GROUPS: ("the groups", plan.grouping.keys)}
    return {i.view: (i.name, _primary_key(i.source)) for i in plan.inputs if not i.source.appends}


def _primary_key(source: StreamSource) -> tuple[str, ...]:
    if isinstance(source, TableStream):
        return open_table(source.feed.path, roots=source.feed.roots).store.schema.primary_keys
    return tuple(getattr(source, "primary_key", ()))


def _branches(tree: Any, views: Views) -> Iterator[tuple[str, Columns]]:
    """Which view a query reads, and where its columns come from, once for each side of UNION ALL."""
    if isinstance(tree, exp.Subquery):
        yield from _branches(tree.this, views)
    elif isinstance(tree, exp.Union):
        yield from _branches(tree.this, views)
        yield from _branches(tree.expression, views)
    elif isinstance(tree, exp.Select):
        start = tree.args["from_"].this
        for view, columns in _of_source(start, views):
            yield view, _selected(tree, start.alias_or_name, columns)


def _of_source(node: Any, views: Views) -> Iterator[tuple[str, Columns]]:
    if isinstance(node, exp.Table):
        yield node.name, {name: (node.name, name) for name in views.get(node.name, ())}
    elif isinstance(node, exp.Subquery):
        alias = node.args.get("alias")
        names = [c.name for c in alias.columns] if alias else []
        for view, selected in _branches(node.this, views):
            yield view, dict(zip(names, selected.values(), strict=False)) if names else selected


def _selected(select: exp.Select, alias: str, columns: Columns) -> Columns:
    selected: Columns = {}
    for shown in select.expressions:
        node = shown.this if isinstance(shown, exp.Alias) else shown
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            selected |= columns
        else:
            plain = isinstance(node, exp.Column) and node.table in ("", alias)
            selected[shown.alias_or_name] = columns.get(node.name) if plain else None
    return selected
