"""UPDATE, DELETE and TRUNCATE TABLE: rows changed or removed in one commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.predicates.predicate import Always, Predicate, all_of
from tablestore.sql.defaults import null_for_default, with_default
from tablestore.sql.filling import assigned
from tablestore.sql.form import Form, of_family
from tablestore.sql.problems import SqlProblem, start_of
from tablestore.sql.query.conditions import predicate_of, value_of
from tablestore.sql.query.row_query import POSITION, RowQuery
from tablestore.sql.result import Result
from tablestore.sql.session import Session
from tablestore.sql.statements.insert import changed
from tablestore.sql.statements.partitions import typed_partition
from tablestore.sql.text import Name, name_of
from tablestore.table.row_changes import RowChanges
from tablestore.table.table import Table
from tablestore.write.conform import fitted, require_present


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
