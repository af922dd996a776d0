"""INSERT INTO and INSERT OVERWRITE: rows of a query into a table, in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import NotFound, Unsupported
from tablestore.core.quantities import many
from tablestore.format.predicates import literal
from tablestore.format.predicates.predicate import Compare, bind, col
from tablestore.format.schema import TableSchema
from tablestore.format.types.data_type import DataField
from tablestore.sql.connectors.table import ConnectorTable
from tablestore.sql.dialect.hints import options_of
from tablestore.sql.form import Form
from tablestore.sql.names import Name
from tablestore.sql.problems import SqlProblem
from tablestore.sql.query.engine import rows_of
from tablestore.sql.result import Result
from tablestore.sql.statements.partitions import typed_partition
from tablestore.sql.stored_values import assigned
from tablestore.write.commit.committer import Committed
from tablestore.write.conform import conform

if TYPE_CHECKING:
    from tablestore.sql.dialect.parser import Parser
    from tablestore.sql.session import Session
    from tablestore.table.table import Table


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT {INTO | OVERWRITE}. `partition` has a value for each column of PARTITION (…), None where the
    query gives it; `columns` None means all, in their order."""

    target: Name
    query: exp.Expression
    text: str
    overwrite: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    partition: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    by_name: bool = False

    def run(self, session: Session) -> Result:
        temporary = session.temporary_table(self.target)
        if temporary is not None:
            return self._into_sink(
                session, ConnectorTable(str(self.target), temporary.with_options(self.options))
            )
        table = session.writable(self.target, dict(self.options))
        return replace(self, partition=typed_partition(table, self.partition))._run(session, table)

    def _run(self, session: Session, table: Table) -> Result:
        fields = self._fields(table.store.schema.shown)
        rows = rows_of(session, self.query, self.text)
        batches = self._shaped(rows, fields, table.store.schema)
        if not self.overwrite:
            committed = table.write(batches)
            return changed(committed, f"into {table.name}")
        static = {name: value for name, value in self.partition.items() if value is not None}
        dynamic = table.store.options.dynamic_partition_overwrite  # as in Flink, of a named partition too
        committed = table.overwrite(batches, partition=static or None, dynamic=dynamic)
        return changed(committed, f"into {table.name}, {committed.replaced_partitions} partitions replaced")

    def _into_sink(self, session: Session, table: ConnectorTable) -> Result:
        """Into a temporary table: rows go as they come, and are there together where that can be had."""
        if self.overwrite:
            raise Unsupported(f"INSERT OVERWRITE {self.target}", "a temporary table only takes more rows")
        if self.partition:
            raise Unsupported(f"INSERT INTO {self.target} PARTITION", "a temporary table has no partitions")
        schema = TableSchema(0, table.definition.columns, len(table.definition.columns))
        fields = self._fields(schema)
        rows = rows_of(session, self.query, self.text)
        sink, count = table.sink(), 0
        try:
            for batch in self._shaped(rows, fields, schema):
                sink.write(conform(batch, schema))
                count += batch.num_rows
            where = sink.finish()
        except BaseException:
            sink.abandon()
            raise
        return Result(rows_affected=count, message=f"{many(count, 'row')} into {table.name}: {where}")

    def _fields(self, schema: TableSchema) -> list[DataField]:
        """The columns that the query gives, in its order. Raises NotFound, SqlProblem."""
        given = [name for name, value in self.partition.items() if value is not None]
        dynamic = [name for name in self.partition if name not in given]  # they come last
        rest = [name for name in schema.names if name not in self.partition]
        names = list(self.columns) if self.columns is not None else [*rest, *dynamic]
        for name in names:
            if name not in schema.by_name:
                raise NotFound.among("column", name, schema.names)
            if name in given or names.count(name) > 1:
                raise SqlProblem(f"column {name!r} gets two values", self.text, self.target.at)
        return [schema.by_name[name] for name in names]

    def _shaped(
        self, rows: pa.RecordBatchReader, fields: list[DataField], schema: TableSchema
    ) -> Iterator[pa.RecordBatch]:
        """The rows with the names and types of the columns."""
        names = rows.schema.names
        if self.by_name:
            known = {f.name: f for f in fields}
            for name in names:
                if name not in known:
                    raise NotFound.among("column", name, known)
            fields = [known[name] for name in names]
        elif len(names) != len(fields):
            wanted = ", ".join(f.name for f in fields)
            problem = f"the query gives {len(names)} columns, and {len(fields)} are to be filled: {wanted}"
            raise SqlProblem(problem, self.text, self.target.at)
        static = [(n, v) for n, v in self.partition.items() if v is not None]
        constants = [(schema.by_name[n], fitted_value(n, v, schema)) for n, v in static]
        for batch in rows:
            arrays = [assigned(a, f) for a, f in zip(batch.columns, fields, strict=True)]
            arrays += [assigned(pa.repeat(v, batch.num_rows), f) for f, v in constants]
            filled = [*fields, *(f for f, _ in constants)]
            yield pa.RecordBatch.from_arrays(arrays, names=[f.name for f in filled])


def fitted_value(name: str, value: Any, schema: TableSchema) -> pa.Scalar:
    """A literal as a column has it; text of a date is one. Raises SchemaMismatch."""
    column = col(name)
    test = bind(column == value, schema)
    assert isinstance(test, Compare)
    return literal.array([test.value], schema.by_name[name].type)[0]


def changed(committed: Committed, where: str) -> Result:
    """What a commit did, as the result of a statement."""
    snapshots = ", ".join(map(str, committed.snapshots))
    made = f"snapshot {snapshots}" if committed.snapshots else "no snapshot"
    message = f"{many(committed.rows, 'row')} {where}: {made}"
    return Result(rows_affected=committed.rows, snapshots=committed.snapshots, message=message)


def _parse(p: Parser, *, overwrite: bool) -> Insert:
    p.accept("TABLE")
    target, options = p.name(), options_of(p.hints())
    partition: dict[str, Any] = {}
    columns = None
    by_name = False
    for _ in range(3):
        if not partition and p.accept("PARTITION"):
            partition = p.partition(partly=True)
        elif columns is None and p.next_text == "(" and not p.query_is_next():
            columns = tuple(p.listed(lambda: p.part("a column")))
        elif p.accept("BY NAME"):
            by_name = True
    if by_name and columns is not None:
        p.fail("a list of columns and BY NAME do not go together")
    query = p.query()
    p.finish()
    return Insert(target, query, p.piece.text, overwrite, options, partition, columns, by_name)


_SYNTAX = (
    "INSERT {} [TABLE] table [PARTITION (column [= value], …)] [(column, …)] [BY NAME] {{query | VALUES …}}"
)

FORMS = (
    Form(
        "INSERT INTO",
        _SYNTAX.format("INTO"),
        "Add rows, or replace those of the same primary key, in one commit. Columns that are left out get "
        "their default or NULL. `BY NAME` matches columns by name.",
        "writing",
        lambda p: _parse(p, overwrite=False),
        example="INSERT INTO shop.orders VALUES (4, 'dan', 1.5)",
    ),
    Form(
        "INSERT OVERWRITE",
        _SYNTAX.format("OVERWRITE"),
        "Replace the partitions that get rows (or those named), or the whole of an unpartitioned table, by "
        "the rows of a query, in one commit.",
        "writing",
        lambda p: _parse(p, overwrite=True),
        example="INSERT OVERWRITE shop.events PARTITION (day = DATE '2026-01-01') SELECT 7",
    ),
)
