"""Expressions and conditions of UPDATE, DELETE and MERGE, worked out over batches of a table's rows.

The batch is the view `__target` with the place of each row in `POSITION`; other tables and subqueries are
copied beside it once, in DuckDB's memory or spilled to its directory. Memory: one batch and these copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.sql.query.embedded import connection_of, run_query
from tablestore.sql.query.tables import occurrences, require_distinct
from tablestore.sql.query.translation import duck_sql, require_allowed
from tablestore.sql.scope import Scope

POSITION = "_KEY_position"  # which no column of a table may be called
_BATCH_ROWS = 65_536


class RowQuery:
    """SELECTs over batches of a target, whose columns are `columns` and whose name in the text is `alias`."""

    def __init__(self, scope: Scope, text: str, alias: str, columns: Iterable[str]) -> None:
        self._scope, self._text = scope, text
        self._columns, self._copies = list(columns), 0
        require_distinct([*self._columns, POSITION], alias)
        self._connection = connection_of(scope)
        self._duck = self._connection.duck
        self.target = view("__target", alias)

    def __enter__(self) -> RowQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def copy(self, rows: pa.RecordBatchReader, name: str | None = None) -> str:
        """Keep rows as a table of the connection; gives its name."""
        if name is None:
            self._copies += 1
            name = f"__copy_{self._copies}"
        require_distinct([*rows.schema.names, "__row"], "the source")
        self._duck.register("__coming", rows)
        self.execute(f"CREATE TEMP TABLE {name} AS SELECT *, row_number() OVER () AS __row FROM __coming")
        self._duck.unregister("__coming")
        return name

    def prepared(self, select: exp.Select) -> str:
        """The SQL of a SELECT over `target` and copies, its subqueries and other tables copied. Raises what a
        query may not have, with its place."""
        require_allowed(select, self._text)
        for subquery in list(select.find_all(exp.Subquery, exp.Exists, exp.In)):
            inner = subquery.args.get("query") if isinstance(subquery, exp.In) else subquery.this
            inner = inner.this if isinstance(inner, exp.Subquery) else inner
            if isinstance(inner, exp.Query) and not _over_ours(inner):
                self._once(inner)
        for occurrence in occurrences(self._scope, select, self._text):
            name = self.copy(occurrence.table.scan().to_reader())
            occurrence.node.replace(view(name, occurrence.node.alias_or_name))
        return duck_sql(select)

    def _once(self, query: Any) -> None:
        """Replace a subquery that does not look at the target by a table of its rows."""
        try:
            rows = run_query(self._scope, query, self._text)
        except (InvalidRequest, NotFound):
            return  # it names columns of the target, or is wrong: what binds it again says so
        name = self.copy(rows)
        columns = [exp.column(n, quoted=True) for n in rows.schema.names]
        query.replace(exp.select(*columns).from_(view(name, name)))

    def load(self, batch: pa.RecordBatch) -> None:
        """Make a batch of the target the one that SELECTs are over."""
        positions = pa.array(np.arange(batch.num_rows, dtype=np.int64))
        target = batch.select(self._columns).append_column(POSITION, positions)
        self.show(pa.Table.from_batches([target]), "__target")

    def show(self, rows: pa.Table, name: str) -> None:
        """Make rows a view of the connection, instead of those that had its name."""
        self._duck.register(name, rows)

    def over(self, sql: str) -> pa.Table:
        """The rows of a SELECT over the batch and copies."""
        return self._connection.run(lambda: self._connection.relation(sql).to_arrow_table())

    def rows(self, sql: str) -> pa.RecordBatchReader:
        """The rows of a SELECT over copies."""
        reader = self._connection.run(lambda: self._connection.relation(sql).to_arrow_reader(_BATCH_ROWS))
        batches = iter(lambda: self._connection.run(lambda: next(reader, None)), None)
        return pa.RecordBatchReader.from_batches(reader.schema, batches)

    def execute(self, sql: str) -> None:
        """Run a statement of our own."""
        self._connection.run(lambda: self._duck.execute(sql).fetchall())


def view(name: str, alias: str) -> exp.Table:
    """A node for a view of the connection; `occurrences` leaves it alone."""
    node = exp.Table(this=exp.to_identifier(name))
    node.meta["bound"] = True
    return cast("exp.Table", exp.alias_(node, exp.to_identifier(alias, quoted=True), table=True))


def _over_ours(query: exp.Query) -> bool:
    return any(table.meta.get("bound") for table in query.find_all(exp.Table))
