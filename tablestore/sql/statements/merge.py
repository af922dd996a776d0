"""MERGE INTO: rows of a source say which rows of a target are updated, deleted and inserted, in one commit.

The source is computed once. Batches of the target that may match, by the range of the source's keys, are
joined with it; the clauses are tried in their order, and the first whose condition is true acts. Memory: one
batch of the target, and 8 bytes for each row of the source that matches; the source spills.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import InvalidRequest, TablestoreError
from tablestore.format.predicates.predicate import Always, Predicate, all_of, bind, col
from tablestore.sql.filling import assigned, null_for_default, with_default
from tablestore.sql.form import Form, of_family
from tablestore.sql.problems import SqlProblem, start_of
from tablestore.sql.query.embedded import run_query
from tablestore.sql.query.translation import duck_sql
from tablestore.sql.result import Result
from tablestore.sql.session import Session
from tablestore.sql.statements.changing import (
    POSITION,
    RowQuery,
    Target,
    assignments,
    require_column,
    short_names,
    view,
    with_columns,
)
from tablestore.sql.statements.insert import changed
from tablestore.sql.text import name_of
from tablestore.table.row_changes import RowChanges
from tablestore.table.table import Table

MATCHED, BY_TARGET, BY_SOURCE = "MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"
_FEW = 1_000  # values of the source that are looked for one by one
_SOURCE, _MATCHED_ROWS, _ROW = "__source", "__matched", "__row"


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN. `action` is UPDATE, DELETE or INSERT; `values` are (column, expression), None for `*`."""

    kind: str
    action: str
    condition: exp.Expression | None
    values: tuple[tuple[str, exp.Expression], ...] | None = ()

    @classmethod
    def of(cls, when: exp.When, target: Target, text: str) -> Clause:
        kind = MATCHED if when.args.get("matched") else BY_SOURCE if when.args.get("source") else BY_TARGET
        then, condition = when.args["then"], when.args.get("condition")
        if isinstance(then, exp.Update):
            star = len(then.expressions) == 1 and isinstance(then.expressions[0], exp.Star)
            values = None if star else assignments(then.expressions, target.alias, text)
            clause = cls(kind, "UPDATE", condition, values)
        elif isinstance(then, exp.Insert):
            clause = cls(kind, "INSERT", condition, _inserted(then, text))
        elif then.name.upper() == "DELETE":
            clause = cls(kind, "DELETE", condition)
        else:
            raise SqlProblem("THEN is followed by UPDATE SET, DELETE or INSERT", text, start_of(when))
        if (clause.action == "INSERT") != (kind == BY_TARGET):
            raise SqlProblem(f"WHEN {kind} THEN {clause.action} is no clause of MERGE", text, start_of(when))
        if kind == BY_SOURCE and clause.values is None:
            raise SqlProblem(
                "WHEN NOT MATCHED BY SOURCE has no row of the source for *", text, start_of(when)
            )
        return clause

    def resolved(self, table: Table, source: list[str], alias: str) -> Clause:
        """The clause with `*` written out. Raises NotFound for columns that there are not."""
        values = self.values
        if values is None:
            keys = table.primary_key if self.action == "UPDATE" else ()
            names = [n for n in table.schema.names if n not in keys]
            values = tuple((n, _quoted(n, alias)) for n in names)
            missing = [n for n in names if n not in source]
            if missing:
                raise InvalidRequest(
                    f"{self.action} * needs every column, and the source lacks {missing[0]!r}"
                )
        for name, _ in values:
            require_column(name, table)
        by_name = table.store.schema.by_name
        filled = tuple((name, with_default(value, by_name[name])) for name, value in values)
        return Clause(self.kind, self.action, self.condition, filled)

    def select(self, *first: exp.Expression) -> exp.Select:
        """SELECT first, the values."""
        values = (exp.alias_(value, f"__value_{i}") for i, (_, value) in enumerate(self.values or ()))
        return exp.Select(expressions=[*(column.copy() for column in first), *values])


def _inserted(then: exp.Insert, text: str) -> tuple[tuple[str, exp.Expression], ...] | None:
    if isinstance(then.this, exp.Star):
        return None
    if not isinstance(then.this, exp.Tuple) or not isinstance(then.expression, exp.Tuple):
        raise SqlProblem("INSERT takes (column, …) VALUES (expression, …), or *", text, start_of(then))
    names, values = then.this.expressions, then.expression.expressions
    if len(names) != len(values):
        raise SqlProblem(f"{len(names)} columns get {len(values)} values", text, start_of(then))
    pairs = {name.name: null_for_default(value) for name, value in zip(names, values, strict=True)}
    if len(pairs) < len(names):
        raise SqlProblem("a column gets two values", text, start_of(then))
    return tuple(pairs.items())


def _quoted(name: str, table: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE INTO target USING source ON condition WHEN …."""

    target: Target
    source: exp.Expression
    on: exp.Expression
    clauses: tuple[Clause, ...]
    text: str

    @staticmethod
    def of(tree: exp.Merge, text: str) -> Merge:
        target, source = Target.of(tree.this, text), tree.args["using"]
        target.shorten(tree)
        if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
            short_names(tree, name_of(source), source.alias_or_name)
        clauses = tuple(Clause.of(when, target, text) for when in tree.args["whens"].expressions)
        for i, clause in enumerate(clauses[:-1]):
            if clause.condition is None and clause.kind in [later.kind for later in clauses[i + 1 :]]:
                problem = f"WHEN {clause.kind} without a condition leaves nothing to a later one"
                raise SqlProblem(problem, text, start_of(tree))
        if not source.alias_or_name:
            raise SqlProblem("the source needs a name: USING (query) AS name", text, start_of(source))
        if source.alias_or_name == target.alias:
            raise SqlProblem(f"target and source are both named {target.alias}", text, start_of(source))
        return Merge(target, source, tree.args["on"], clauses, text)

    @property
    def alias(self) -> str:
        return str(self.source.alias_or_name)

    def run(self, session: Session) -> Result:
        table = self.target.table(session)
        with RowQuery(session, self.text, self.target.alias, table.schema.names) as query:
            rows = run_query(session, exp.select("*").from_(self.source.copy()), self.text)
            columns = rows.schema.names
            query.copy(rows, _SOURCE)
            clauses = [c.resolved(table, columns, self.alias) for c in self.clauses]
            steps = _MergeSteps(query, self, clauses, table)
            alone = any(c.kind == BY_SOURCE for c in clauses)
            where = None if alone else self._range(query, table)
            names = sorted({n for c in clauses if c.action == "UPDATE" for n, _ in c.values or ()})
            committed = table.change_rows(
                steps.change, where=where, columns=names, inserts=steps.inserts, restart=steps.restart
            )
        return changed(committed, f"of {table.name}")

    def _range(self, query: RowQuery, table: Table) -> Predicate | None:
        """A condition on the target that rows which match meet: by values of the source, or between them."""
        terms: list[Any] = list(self.on.flatten()) if isinstance(self.on, exp.And) else [self.on]
        ranges = [p for term in terms if (p := self._range_of(term, query, table)) is not None]
        return all_of(*ranges) if ranges else None

    def _range_of(self, term: exp.Expression, query: RowQuery, table: Table) -> Predicate | None:
        if not isinstance(term, exp.EQ):
            return None
        for mine, other in ((term.this, term.expression), (term.expression, term.this)):
            of_target = isinstance(mine, exp.Column) and mine.table == self.target.alias
            tables = {column.table for column in other.find_all(exp.Column)}
            if of_target and tables == {self.alias} and mine.name in table.schema.names:
                return self._within(mine.name, other, query, table)
        return None

    def _within(self, name: str, value: exp.Expression, query: RowQuery, table: Table) -> Predicate | None:
        source, few = view(_SOURCE, self.alias), query.few.get(_SOURCE)
        column = few[value.name] if few is not None and value.name in few.schema.names else None
        if column is not None and isinstance(value, exp.Column) and not pa.types.is_nested(column.type):
            distinct = column.unique()[: _FEW + 1]
        else:
            select = exp.select(exp.alias_(value.copy(), "v")).distinct().from_(source).limit(_FEW + 1)
            distinct = query.over(duck_sql(select))["v"]
        values = [v for v in distinct.to_pylist() if v is not None]
        if not values:
            return Always(False)
        if len(values) > _FEW:
            ends = exp.select(exp.Min(this=value.copy()), exp.Max(this=value.copy())).from_(source)
            low, high = query.over(duck_sql(ends)).to_pylist()[0].values()
            predicate = col(name).between(low, high)
        else:
            predicate = col(name).is_in(values)
        try:
            bind(predicate, table.store.schema)
        except TablestoreError:  # values of another type: no help
            return None
        return predicate


class _MergeSteps:
    """What `Table.change_rows` asks for, in its order."""

    def __init__(self, query: RowQuery, merge: Merge, clauses: list[Clause], table: Table) -> None:
        self._query, self._table = query, table
        source = view(_SOURCE, merge.alias)
        on = merge.on
        matched = [c for c in clauses if c.kind == MATCHED]
        absent = [c for c in clauses if c.kind == BY_SOURCE]
        new = [c for c in clauses if c.kind == BY_TARGET]

        def joined(select: exp.Select) -> exp.Select:
            selected = select.from_(query.target.copy(), copy=False)
            return selected.join(source.copy(), on=on.copy(), copy=False)

        def unjoined(select: exp.Select) -> exp.Select:
            exists = exp.Exists(this=exp.select("1").from_(source).where(on))
            return select.from_(query.target.copy(), copy=False).where(exp.not_(exists), copy=False)

        position, row = _quoted(POSITION, merge.target.alias), _quoted(_ROW, merge.alias)
        # where every pair of rows that match is one of a clause, no query of its own asks for them
        covered = bool(new) and any(c.condition is None for c in matched)
        first = (position, row) if covered else (position,)
        changes = [_first_of(matched, c, joined(c.select(*first))) for c in matched]
        changes += [_first_of(absent, c, unjoined(c.select(position))) for c in absent]
        self._changes = [(c, query.prepared(s)) for c, s in zip([*matched, *absent], changes, strict=True)]
        pairs = joined(exp.select(row).distinct(copy=False)) if new and not covered else None
        self._matching = None if pairs is None else query.prepared(pairs)
        rows = [_first_of(new, c, c.select(row).from_(source)) for c in new]
        self._inserts = [(c, query.prepared(s)) for c, s in zip(new, rows, strict=True)]
        self._matched = list[np.ndarray]()

    def restart(self) -> None:
        """Forget which rows of the source matched."""
        self._matched = []

    def _note_matched(self, rows: pa.Table) -> None:
        if _ROW in rows.schema.names:
            self._matched.append(np.unique(rows[_ROW].to_numpy()))

    def change(self, batch: pa.RecordBatch) -> RowChanges:
        """What the clauses do to a batch of the target."""
        self._query.load(batch)
        if self._matching is not None:
            self._note_matched(self._query.over(self._matching))
        deleted, updated, rows = [], [], []
        for clause, sql in self._changes:
            matched = self._query.over(sql)
            self._note_matched(matched)
            positions = matched[POSITION].to_numpy()
            if clause.action == "DELETE":
                deleted.append(positions)
            elif len(positions):
                names = [name for name, _ in clause.values or ()]
                updated.append(positions)
                rows.append(with_columns(batch, matched, names, self._table))
        together = np.concatenate([*deleted, *updated]) if deleted or updated else np.empty(0, np.int64)
        if len(np.unique(together)) < len(together):
            raise InvalidRequest(
                "a row of the target matches more than one row of the source: which one counts is not said"
            )
        tables = [pa.Table.from_batches([batch]) for batch in rows]
        together_rows = pa.concat_tables(tables, promote_options="permissive") if tables else None
        all_rows = together_rows.combine_chunks().to_batches()[0] if together_rows is not None else None
        gone = np.concatenate(deleted) if deleted else np.empty(0, np.int64)
        return RowChanges(gone, np.concatenate(updated) if updated else np.empty(0, np.int64), all_rows)

    def inserts(self) -> Iterator[pa.RecordBatch]:
        """The rows of the source that matched none."""
        by_name = self._table.store.schema.by_name
        matched = np.concatenate([np.empty(0, np.int64), *self._matched])
        listed = ", ".join(map(str, [0, *matched.tolist()[:_FEW]]))  # no row is row 0
        if len(matched) > _FEW:
            self._query.show(pa.table({_ROW: matched}), _MATCHED_ROWS)
            listed = f"SELECT {_ROW} FROM {_MATCHED_ROWS}"
        for clause, sql in self._inserts:
            names = [name for name, _ in clause.values or ()]
            only = f"SELECT * FROM ({sql}) AS __new WHERE {_ROW} NOT IN ({listed})"
            for batch in self._query.rows(only):
                arrays = [assigned(batch[f"__value_{i}"], by_name[n]) for i, n in enumerate(names)]
                yield pa.RecordBatch.from_arrays(arrays, names=names)


def _first_of(clauses: list[Clause], clause: Clause, select: exp.Select) -> exp.Select:
    """Only the rows for which this clause is the first of its kind whose condition is true."""
    for clause_before in clauses:
        if clause_before is clause:
            break
        condition = clause_before.condition.copy() if clause_before.condition is not None else exp.true()
        select = select.where(exp.not_(exp.Coalesce(this=condition, expressions=[exp.false()])), copy=False)
    return select if clause.condition is None else select.where(clause.condition.copy(), copy=False)


FORMS = of_family(
    "writing",
    Form(
        "MERGE INTO table [AS alias] USING {table | (query)} AS alias ON condition\n"
        "  [WHEN MATCHED [AND condition] THEN {UPDATE SET {* | column = expression, …} | DELETE}] …\n"
        "  [WHEN NOT MATCHED [AND condition] THEN INSERT {* | (column, …) VALUES (expression, …)}] …\n"
        "  [WHEN NOT MATCHED BY SOURCE [AND condition] THEN {UPDATE SET column = expression, … | DELETE}] …",
        "Update, delete and insert rows by comparing a table with a source, in one commit. Of the clauses of "
        "a kind the first whose condition is true acts. A row of the table that two rows of the source would "
        "change is an error. DEFAULT stands for the default of a column, or NULL.",
        words="MERGE",
        node=exp.Merge,
        build=Merge.of,
        example="MERGE INTO shop.orders AS t USING (VALUES (1, 9.5), (7, 2.5)) AS s (id, amount)\n"
        "  ON t.order_id = s.id\n"
        "  WHEN MATCHED THEN UPDATE SET amount = s.amount\n"
        "  WHEN NOT MATCHED THEN INSERT (order_id, amount) VALUES (s.id, s.amount)",
    ),
)
