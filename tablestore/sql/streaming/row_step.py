"""A row-wise query as a step of a stream: batches of changes in, batches of changes out, each with its kind.

Projections, conditions, functions, UNION ALL and lookup joins look at one change at a time, so DuckDB
computes them batch by batch; row kind and position travel with each row as columns. A step is picklable: a
worker computes it as the session's process does. Memory: one batch, and what lookup joins keep.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tablestore.format import rowkind
from tablestore.sql.query.connection import DuckConnection
from tablestore.sql.query.embedded import sound
from tablestore.sql.query.own_functions import relation_of
from tablestore.sql.streaming.lookups import Lookup, LookupRows, Snapshots

KIND, POSITION = "__kind", "__position"


def with_change(schema: pa.Schema) -> pa.Schema:
    """The schema of a view of changes: rows, their kind and their position."""
    return schema.append(pa.field(KIND, pa.int8())).append(pa.field(POSITION, pa.int64()))


@dataclass(frozen=True, slots=True)
class RowStep:
    """`sql` (DuckDB's) over views of changes; `views` are their columns by name, `schema` the columns of the
    result. The result has kind and position as its last columns. `lookups` are views of tables that changes
    are joined with."""

    sql: str
    views: Mapping[str, pa.Schema]
    schema: pa.Schema
    lookups: tuple[Lookup, ...] = ()


class RowSteps:
    """A step at work, on one connection to DuckDB. `at` are the snapshots of the tables that it looks up.
    Not thread-safe."""

    def __init__(self, step: RowStep, *, memory: str = "", at: Snapshots | None = None) -> None:
        self._step = step
        self._lookups = [LookupRows(lookup) for lookup in step.lookups]
        self._connection = DuckConnection(memory=memory)
        for view, schema in step.views.items():
            self._connection.duck.register(view, with_change(schema).empty_table())
        if at is not None:
            self.look_up_at(at)

    def look_up_at(self, at: Snapshots) -> None:
        """Join the changes that follow with these snapshots."""
        for lookup, rows in zip(self._step.lookups, self._lookups, strict=True):
            rows.at(at[lookup.place])

    def __enter__(self) -> RowSteps:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        for lookup in self._lookups:
            lookup.close()

    def rows(self, view: str, batch: pa.RecordBatch, kinds: pa.Array) -> tuple[pa.RecordBatch, pa.Array]:
        """The changes that a batch of changes of one view gives, in their order, with their kinds.

        An update of whose rows only one is selected is a delete of the old row, or an insert of the new."""
        wanted = self._step.views[view]
        positions = pa.array(np.arange(batch.num_rows, dtype=np.int64))
        columns = [*batch.select(wanted.names).columns, kinds.cast(pa.int8()), positions]
        given = pa.Table.from_batches([pa.RecordBatch.from_arrays(columns, schema=with_change(wanted))])
        duck = self._connection.duck
        duck.register(view, given)
        try:
            computed = self._connection.run(self._computed)
        finally:
            duck.register(view, with_change(wanted).empty_table())
        rows = computed.combine_chunks()
        order = rows.column(rows.num_columns - 1).to_numpy()
        if len(order) > 1 and (np.diff(order) < 0).any():
            rows = rows.take(pa.array(np.argsort(order, kind="stable")))
            order = np.sort(order)
        arrays = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in rows.columns]
        plain = pa.RecordBatch.from_arrays(arrays[:-2], names=self._step.schema.names)
        return sound(plain, self._step.schema), whole_updates(arrays[-2], kinds, order)

    def _computed(self) -> pa.Table:
        """The result of the views as they are now."""
        duck = self._connection.duck
        for lookup in self._lookups:
            lookup.register(duck)
        return relation_of(duck, self._step.sql).to_arrow_table()


def whole_updates(result_kinds: pa.Array, kinds: pa.Array, positions: np.ndarray) -> pa.Array:
    """The kinds of results of changes: −D for −U, +I for +U where the update's other row has no result; −D
    also for a −U whose +U is not there, as where a batch ends between them.

    `result_kinds` are those of the results, which come from these `positions` of changes of these `kinds`.
    """
    given = kinds.to_numpy(zero_copy_only=False)
    old = given == rowkind.UPDATE_BEFORE
    if not old.any() or not len(positions):
        return result_kinds
    before = np.flatnonzero(old[:-1] & (given[1:] == rowkind.UPDATE_AFTER))
    there = np.zeros(len(given), bool)
    there[positions] = True
    new = given.copy()
    alone = old.copy()
    alone[before] = False
    new[alone] = rowkind.DELETE
    new[before[~there[before + 1]]] = rowkind.DELETE
    new[before[~there[before]] + 1] = rowkind.INSERT
    return pa.array(new[positions], pa.int8())


def inlined(tree: exp.Expression) -> exp.Expression:
    """The query with the queries of WITH in the places of their names: each place is a stream of its own."""
    with_ = tree.args.get("with_")
    for node in list(tree.find_all(exp.Subquery)):
        if node.this.args.get("with_"):
            node.set("this", inlined(node.this))
    if with_ is None or with_.args.get("recursive"):
        return tree
    queries: dict[str, exp.Expression] = {}
    for cte in with_.expressions:
        query = cte.this.copy()
        _replace(query, queries)
        queries[cte.alias] = _with_columns(query, cte)
    tree.set("with_", None)
    _replace(tree, queries)
    return tree


def _with_columns(query: Any, cte: exp.CTE) -> Any:
    columns = cte.args["alias"].args.get("columns")
    if not columns:
        return query
    alias = exp.TableAlias(this=exp.to_identifier("__with"), columns=[c.copy() for c in columns])
    return exp.Select(expressions=[exp.Star()]).from_(exp.Subquery(this=query, alias=alias))


def _replace(tree: exp.Expression, queries: dict[str, exp.Expression]) -> None:
    for node in list(tree.find_all(exp.Table)):
        if not node.args.get("db") and node.name in queries:
            alias = node.args.get("alias") or exp.TableAlias(this=node.this.copy())
            node.replace(exp.Subquery(this=queries[node.name].copy(), alias=alias.copy()))


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
    columns = []
    for shown in select.expressions:
        if isinstance(shown, exp.Star):
            columns.append(shown)
        elif isinstance(shown, exp.Column) and isinstance(shown.this, exp.Star) and shown.table == alias:
            columns.append(shown.this)
    return columns


def _column(name: str, alias: str) -> exp.Expr:
    column = exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))
    return exp.alias_(column, name, quoted=True, copy=False)


def _subquery_around(select: exp.Select) -> exp.Subquery | None:
    """The subquery whose rows a SELECT gives, alone or as a side of UNION ALL."""
    node: Any = select.parent
    while isinstance(node, exp.Union) or (
        isinstance(node, exp.Subquery) and not isinstance(node.parent, exp.From | exp.Join)
    ):
        node = node.parent
    return node if isinstance(node, exp.Subquery) else None
