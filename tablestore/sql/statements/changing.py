"""UPDATE, DELETE, TRUNCATE: changed rows, and the expressions of these and of MERGE over batches of a table.

The batch is the view `__target` with the place of each row in `POSITION`; other tables and subqueries are
copied beside it once, in DuckDB's memory or spilled to its directory. Memory: one batch and these copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.predicates.predicate import Always, Predicate, all_of
from tablestore.sql.filling import assigned, null_for_default, with_default
from tablestore.sql.form import Form, of_family
from tablestore.sql.problems import SqlProblem, start_of
from tablestore.sql.query.conditions import predicate_of, value_of
from tablestore.sql.query.connection import BATCH_ROWS
from tablestore.sql.query.embedded import connection_of, run_query
from tablestore.sql.query.tables import occurrences, require_distinct
from tablestore.sql.query.translation import duck_sql, require_allowed
from tablestore.sql.result import Result
from tablestore.sql.scope import Scope
from tablestore.sql.session import Session
from tablestore.sql.statements.insert import changed
from tablestore.sql.statements.partitions import typed_partition
from tablestore.sql.text import Name, name_of
from tablestore.table.row_changes import RowChanges
from tablestore.table.table import Table
from tablestore.write.conform import fitted, require_present

POSITION = "_KEY_position"  # which no column of a table may be called


class RowQuery:
    """SELECTs over batches of a target, whose columns are `columns` and whose name in the text is `alias`."""

    def __init__(self, scope: Scope, text: str, alias: str, columns: Iterable[str]) -> None:
        self._scope, self._text = scope, text
        self._columns, self._copies = list(columns), 0
        self.few: dict[str, pa.Table] = {}  # copies of few rows, by name
        require_distinct([*self._columns, POSITION], alias)
        self._connection = connection_of(scope)
        self._duck = self._connection.duck
        self.target = view("__target", alias)

    def __enter__(self) -> RowQuery:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def copy(self, rows: pa.RecordBatchReader, name: str | None = None) -> str:
        """Keep rows as a table of the connection, few of them as they are; gives its name."""
        if name is None:
            self._copies += 1
            name = f"__copy_{self._copies}"
        require_distinct([*rows.schema.names, "__row"], "the source")
        first, count = list[pa.RecordBatch](), 0
        for batch in rows:
            first.append(batch)
            count += batch.num_rows
            if count > BATCH_ROWS:
                self._spilling(pa.RecordBatchReader.from_batches(rows.schema, chain(first, rows)), name)
                return name
        numbers = pa.array(np.arange(1, count + 1, dtype=np.int64))
        self.few[name] = pa.Table.from_batches(first, rows.schema).append_column("__row", numbers)
        self.show(self.few[name], name)
        return name

    def _spilling(self, rows: pa.RecordBatchReader, name: str) -> None:
        self._duck.register("__coming", rows)
        self.execute(f"CREATE TEMP TABLE {name} AS SELECT *, row_number() OVER () AS __row FROM __coming")
        self._duck.unregister("__coming")

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
        reader = self._connection.run(lambda: self._connection.relation(sql).to_arrow_reader(BATCH_ROWS))
        return pa.RecordBatchReader.from_batches(reader.schema, self._connection.batches(reader))

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


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a statement changes; `alias` is its name in the statement."""

    name: Name
    alias: str

    @classmethod
    def of(cls, node: Any, text: str) -> Target:
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise SqlProblem("a table's name is expected", text, start_of(node))
        return cls(name_of(node), node.alias_or_name)

    def table(self, session: Session) -> Table:
        return session.writable(self.name)

    def shorten(self, tree: exp.Expression) -> None:
        """Columns of `tree` that name the table whole, `catalog.db.table.column`, name it by its alias."""
        short_names(tree, self.name, self.alias)


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE t SET column = expression, … [WHERE condition]."""

    target: Target
    values: tuple[tuple[str, exp.Expression], ...]
    where: exp.Expression | None
    text: str

    @staticmethod
    def of(tree: exp.Update, text: str) -> Update:
        for part in ("from_", "order", "limit", "returning"):
            if tree.args.get(part):
                raise SqlProblem(
                    f"UPDATE takes no {part.strip('_').upper()}", text, start_of(tree.args[part])
                )
        target = Target.of(tree.this, text)
        target.shorten(tree)
        values = assignments(tree.expressions, target.alias, text)
        where = tree.args.get("where")
        return Update(target, values, where.this if where else None, text)

    def run(self, session: Session) -> Result:
        table = self.target.table(session)
        for name, _ in self.values:
            require_column(name, table)
        by_name = table.store.schema.by_name
        values = [(name, with_default(value, by_name[name])) for name, value in self.values]
        where = conditions(self.where, table)
        constants = _constants(values, table)
        if constants is not None and where.exact:
            return changed(table.update(constants, where=where.predicate), f"of {table.name}")
        names = [name for name, _ in self.values]
        with RowQuery(session, self.text, self.target.alias, table.schema.names) as query:
            select = exp.select(exp.column(POSITION)).from_(query.target)
            for i, (_, value) in enumerate(values):
                select = select.select(exp.alias_(value.copy(), f"__value_{i}"))
            if self.where is not None:
                select = select.where(self.where.copy())
            sql = query.prepared(select)

            def change(batch: pa.RecordBatch) -> RowChanges:
                query.load(batch)
                changed = query.over(sql).sort_by(POSITION)
                rows = with_columns(batch, changed, names, table)
                return RowChanges(updated=changed[POSITION].to_numpy(), rows=rows)

            committed = table.change_rows(change, where=where.predicate, columns=names)
        return changed(committed, f"of {table.name}")


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM t [WHERE condition]."""

    target: Target
    where: exp.Expression | None
    text: str

    @staticmethod
    def of(tree: exp.Delete, text: str) -> Delete:
        for part in ("using", "limit", "order", "returning", "tables"):
            if tree.args.get(part):
                raise SqlProblem(f"DELETE takes no {part.upper()}", text, start_of(tree))
        target, where = Target.of(tree.this, text), tree.args.get("where")
        target.shorten(tree)
        return Delete(target, where.this if where else None, text)

    def run(self, session: Session) -> Result:
        table = self.target.table(session)
        where = conditions(self.where, table)
        if where.exact:
            return changed(table.delete(where.predicate), f"of {table.name}")
        assert self.where is not None
        with RowQuery(session, self.text, self.target.alias, table.schema.names) as query:
            select = exp.select(exp.column(POSITION)).from_(query.target).where(self.where.copy())
            sql = query.prepared(select)

            def change(batch: pa.RecordBatch) -> RowChanges:
                query.load(batch)
                return RowChanges(deleted=np.sort(query.over(sql)[POSITION].to_numpy()))

            return changed(table.change_rows(change, where=where.predicate), f"of {table.name}")


@dataclass(frozen=True, slots=True)
class Truncate:
    """TRUNCATE TABLE t [PARTITION (k = v, …)]."""

    name: Name
    partition: dict[str, Any]

    @staticmethod
    def of(tree: exp.TruncateTable, text: str) -> Truncate:
        if len(tree.expressions) != 1 or tree.args.get("is_database"):
            raise SqlProblem("TRUNCATE TABLE takes one table", text, start_of(tree))
        partition = {}
        for term in (tree.args.get("partition") or exp.Partition()).expressions:
            if not isinstance(term, exp.EQ):
                raise SqlProblem("a partition is column = value", text, start_of(term))
            partition[term.this.name] = value_of(term.expression)
        return Truncate(name_of(tree.expressions[0]), partition)

    def run(self, session: Session) -> Result:
        table = session.writable(self.name)
        committed = table.truncate(partition=typed_partition(table, self.partition) or None)
        what = ", ".join(f"{k} = {v}" for k, v in self.partition.items()) or "all"
        message = f"{table.name} is empty ({what}): snapshot {committed.snapshot}"
        return Result(snapshots=committed.snapshots, message=message)


def _constants(values: list[tuple[str, exp.Expression]], table: Table) -> dict[str, Any] | None:
    """The values, if all are literals."""
    try:
        constants = {name: value_of(value) for name, value in values}
    except InvalidRequest:
        return None
    fields = table.store.schema.by_name
    return {name: assigned(pa.array([value]), fields[name])[0].as_py() for name, value in constants.items()}


@dataclass(frozen=True, slots=True)
class Conditions:
    """What of a WHERE the engine decides: `predicate` selects at least its rows, with `exact` just these."""

    predicate: Predicate
    exact: bool


def conditions(where: exp.Expression | None, table: Table) -> Conditions:
    """The terms of a condition on a table's own columns that the engine decides by files and statistics."""
    if where is None:
        return Conditions(Always(True), True)
    terms: list[exp.Expression] = list(where.flatten()) if isinstance(where, exp.And) else [where]  # type: ignore[arg-type]  # expressions
    predicates = [predicate_of(term, table) for term in terms]
    pushed = [p for p in predicates if p is not None]
    return Conditions(all_of(*pushed) if pushed else Always(True), len(pushed) == len(predicates))


def assignments(terms: list[exp.Expression], alias: str, text: str) -> tuple[tuple[str, exp.Expression], ...]:
    """`SET column = expression, …`: each column once, of the target; DEFAULT is a NULL that stands for it."""
    assigned: dict[str, exp.Expression] = {}
    for term in terms:
        if not isinstance(term, exp.EQ) or not isinstance(term.this, exp.Column):
            raise SqlProblem("SET takes column = expression", text, start_of(term))
        if term.this.table not in ("", alias) or term.this.args.get("db"):
            whole = ".".join(part.name for part in term.this.parts[:-1])
            raise SqlProblem(f"{whole!r} is not what is changed: {alias} is", text, start_of(term))
        if term.this.name in assigned:
            raise SqlProblem(f"column {term.this.name!r} gets two values", text, start_of(term))
        assigned[term.this.name] = null_for_default(term.expression)
    return tuple(assigned.items())


def short_names(tree: exp.Expression, name: Name, alias: str) -> None:
    """Columns that name a table as the statement does, or by less, `db.table.column`, name its alias."""
    for column in tree.find_all(exp.Column) if alias == name.parts[-1] else ():
        named = tuple(part.name for part in column.parts[:-1])
        if len(named) > 1 and named == name.parts[-len(named) :]:
            column.set("db", None)
            column.set("catalog", None)


def require_column(name: str, table: Table) -> None:
    """Raise NotFound for what is no column of the table."""
    if name not in table.schema.names:
        raise NotFound.among("column", name, table.schema.names)


def with_columns(batch: pa.RecordBatch, computed: pa.Table, names: list[str], table: Table) -> pa.RecordBatch:
    """The rows of the batch that `computed` names by their place, its columns `__value_<i>` as `names`."""
    rows = batch.take(computed[POSITION].combine_chunks())
    by_name = table.store.schema.by_name
    for i, name in enumerate(names):
        column = by_name[name]
        value = assigned(computed[f"__value_{i}"].combine_chunks(), column)
        value = fitted(value, column.type, f"column {name!r}")
        require_present(value, column.type, f"column {name!r}")
        at = rows.schema.get_field_index(name)
        column_field = rows.schema.field(at)
        field = (
            column_field
            if value.type == column_field.type and not value.null_count
            else pa.field(name, value.type)
        )
        rows = rows.set_column(at, field, value)
    return rows


FORMS = of_family(
    "writing",
    Form(
        "UPDATE table [AS alias] SET column = {expression | DEFAULT}, … [WHERE condition]",
        "Change rows, in one commit; columns of the primary key cannot be set. DEFAULT stands for the "
        "default of a column, or NULL. Writes -U/+U pairs, so that who follows the table can retract.",
        node=exp.Update,
        build=Update.of,
        example="UPDATE shop.orders SET amount = amount * 2 WHERE order_id = 1",
    ),
    Form(
        "DELETE FROM table [AS alias] [WHERE condition]",
        "Remove rows, in one commit; whole partitions by metadata alone.",
        words="DELETE",
        node=exp.Delete,
        build=Delete.of,
        example="DELETE FROM shop.orders WHERE amount > 10",
    ),
    Form(
        "TRUNCATE TABLE table [PARTITION (column = value, …)]",
        "Remove all rows, or those of a partition, in one commit that reads no data file.",
        node=exp.TruncateTable,
        build=Truncate.of,
        example="TRUNCATE TABLE shop.events PARTITION (day = '2026-01-01')",
    ),
)
