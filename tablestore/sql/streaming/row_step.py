"""A row-wise query as a step of a stream: batches of changes in, batches of changes out, each with its kind.

Projections, conditions, functions, UNION ALL and lookup joins look at one change at a time, so DuckDB
computes them batch by batch; row kind and position travel with each row as columns. A step is picklable: a
worker computes it as the session's process does. Memory: one batch, and what lookup joins keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.format import rowkind
from tablestore.sql.query.connection import Connection
from tablestore.sql.query.own_functions import relation_of
from tablestore.sql.query.result_types import sound
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
        self._lookups = [LookupRows(one) for one in step.lookups]
        self._connection = Connection(memory=memory)
        for view, schema in step.views.items():
            self._connection.duck.register(view, with_change(schema).empty_table())
        if at is not None:
            self.look_up_at(at)

    def look_up_at(self, at: Snapshots) -> None:
        """Join the changes that follow with these snapshots."""
        for one, rows in zip(self._step.lookups, self._lookups, strict=True):
            rows.at(at[one.place])

    def __enter__(self) -> RowSteps:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        for one in self._lookups:
            one.close()

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
            found = self._connection.run(self._computed)
        finally:
            duck.register(view, with_change(wanted).empty_table())
        rows = found.combine_chunks()
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
        for one in self._lookups:
            one.register(duck)
        return relation_of(duck, self._step.sql).to_arrow_table()


def whole_updates(found: pa.Array, kinds: pa.Array, positions: np.ndarray) -> pa.Array:
    """The kinds of results of changes: −D for −U, +I for +U where the update's other row has no result; −D
    also for a −U whose +U is not there, as where a batch ends between them.

    `found` are the kinds of the results, which come from these `positions` of changes of these `kinds`.
    """
    given = kinds.to_numpy(zero_copy_only=False)
    old = given == rowkind.UPDATE_BEFORE
    if not old.any() or not len(positions):
        return found
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
