"""INSERT INTO and INSERT OVERWRITE: rows of a query into a table, in one commit; in streaming mode as jobs
that follow their tables: EXECUTE STATEMENT SET, SHOW JOBS, STOP JOB, DROP JOB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch, Unsupported
from tablestore.core.options.table_options import MergeEngine
from tablestore.core.quantities import many
from tablestore.flow.sink import TableSink
from tablestore.format import rowkind
from tablestore.format.schema import TableSchema
from tablestore.lsm.merge.merge_function import merge_function
from tablestore.lsm.merge.validate import update_kinds
from tablestore.sql.connectors.connector import ConnectorTable
from tablestore.sql.dialect.parser import Parser, Ready, options_of
from tablestore.sql.filling import Filling, with_defaults, with_nulls
from tablestore.sql.form import Form, FunctionStatement, doing, of_family
from tablestore.sql.problems import SqlProblem, concealed, placed
from tablestore.sql.query.embedded import run_query
from tablestore.sql.result import Result
from tablestore.sql.scope import TableDefinition
from tablestore.sql.session import Session
from tablestore.sql.settings import LOCAL_TIME_ZONE
from tablestore.sql.statements.partitions import typed_partition
from tablestore.sql.statements.queries import rows_of
from tablestore.sql.streaming.job_part import JobPart
from tablestore.sql.streaming.plan import StreamPlan, planned
from tablestore.sql.streaming.targets import require_takes, retracts
from tablestore.sql.text import Name, of_name
from tablestore.table.place import TablePlace
from tablestore.table.table import Table
from tablestore.write.commit.committer import Committed
from tablestore.write.conform import conform


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
    statement: str = ""

    def run(self, session: Session) -> Result:
        if session.settings["execution.runtime-mode"] == "streaming" and reads_tables(self.query):
            return started(session, [self])
        temporary = session.temporary_table(self.target)
        if temporary is not None:
            return self._into_sink(session, self._temporary(session, temporary))
        table = session.writable(self.target, dict(self.options))
        insert = replace(self, partition=typed_partition(table, self.partition))
        return insert._with_defaults(table.store.schema.shown)._run(session, table)

    def part(self, session: Session) -> JobPart:
        """What it is in a job. Raises Unsupported for what a stream cannot do."""
        if self.overwrite:
            raise placed(
                Unsupported("INSERT OVERWRITE in streaming mode", "a stream has no end to replace rows by"),
                self.text,
                self.target.at,
            )
        plan = planned(session, self.query, self.text)
        temporary = session.temporary_table(self.target)
        if temporary is not None:
            return self._part_of_sink(session, self._temporary(session, temporary), plan)
        table = session.writable(self.target, dict(self.options))
        insert = replace(self, partition=typed_partition(table, self.partition))
        filling = insert._filling(session, plan.schema.names, table.store.schema.shown)
        with of_name(self.target):
            require_takes(table, str(self.target), plan, filling)
            options = tuple(sorted(self.options.items()))
            kinds = written_kinds(table)
            sink = TableSink(TablePlace.of(table), options, before=rowkind.UPDATE_BEFORE in kinds)
        _, database, name = session.full_name(self.target)
        return JobPart(f"{database}.{name}", plan, filling, sink)

    def _temporary(self, session: Session, table: TableDefinition) -> ConnectorTable:
        return ConnectorTable(str(self.target), table.with_options(self.options), session.roots)

    def _part_of_sink(self, session: Session, table: ConnectorTable, plan: StreamPlan) -> JobPart:
        if self.partition:
            raise Unsupported(f"INSERT INTO {self.target} PARTITION", "a temporary table has no partitions")
        columns = table.definition.columns
        schema = TableSchema(0, columns, len(columns))
        filling = self._filling(session, plan.schema.names, schema)
        with of_name(self.target):
            sink = table.stream_sink(retracts=retracts(plan))
        return JobPart(str(self.target), plan, filling, sink, schema)

    def _with_defaults(self, schema: TableSchema) -> Insert:
        """The same with the defaults of NOT NULL columns."""
        if self.by_name:
            return self
        dynamic = [name for name, value in self.partition.items() if value is None]
        rest = [name for name in schema.names if name not in self.partition]
        names = self.columns if self.columns is not None else (*rest, *dynamic)
        columns = [schema.by_name[name] for name in names if name in schema.by_name]
        return replace(self, query=with_defaults(self.query, columns)) if len(columns) == len(names) else self

    def _run(self, session: Session, table: Table) -> Result:
        rows = self._rows(session)
        batches = map(self._filling(session, rows.schema.names, table.store.schema.shown).filled, rows)
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
        rows = self._rows(session)
        filling = self._filling(session, rows.schema.names, schema)
        sink, count = table.sink(), 0
        try:
            for batch in map(filling.filled, rows):
                sink.write(conform(batch, schema))
                count += batch.num_rows
            where = sink.finish()
        except BaseException:
            sink.abandon()
            raise
        return Result(rows_affected=count, message=f"{many(count, 'row')} into {table.name}: {where}")

    def _rows(self, session: Session) -> pa.RecordBatchReader:
        """The rows of the query; those that are written out are there at once, in streaming mode too."""
        if not reads_tables(self.query):
            return run_query(session, self.query, self.text)
        return rows_of(session, self.query, self.text)

    def _filling(self, session: Session, names: Sequence[str], schema: TableSchema) -> Filling:
        """How a query with columns of these names fills the table. Raises NotFound, SqlProblem."""
        try:
            return Filling.of(
                names,
                schema,
                partition=self.partition,
                columns=self.columns,
                by_name=self.by_name,
                zone=session.settings[LOCAL_TIME_ZONE],
            )
        except SchemaMismatch:
            raise
        except InvalidRequest as e:
            raise SqlProblem(str(e), self.text, self.target.at) from None


def reads_tables(query: exp.Expression) -> bool:
    """Whether a query reads a table, and not only rows that are written out."""
    return query.find(exp.Table) is not None


def started(session: Session, inserts: Sequence[Insert]) -> Result:
    """A job of these INSERTs, started; with `table.dml-sync` it has ended."""
    statements = tuple(concealed(insert.statement) for insert in inserts)
    job = session.jobs.start(session, tuple(insert.part(session) for insert in inserts), statements)
    targets = ", ".join(part.target for part in job.parts)
    if session.settings["table.dml-sync"] == "false":
        ways = f"SHOW JOBS shows how it gets on, STOP JOB '{job.name}' stops it"
        return Result(message=f"job {job.name!r} is running, into {targets}: {ways}")
    session.jobs.wait_for(job)
    rows = sum(part.rows for part in job.status.parts)
    return Result(
        rows_affected=rows, message=f"job {job.name!r} has ended: {many(rows, 'row')} into {targets}"
    )


def written_kinds(table: Table) -> tuple[int, ...]:
    """The row kinds in which an update is written to a table: before and after, or after only."""
    schema, options = table.store.schema, table.store.options
    keyed = bool(schema.shown.primary_keys)
    if not keyed or options.merge_engine is MergeEngine.FIRST_ROW:
        return rowkind.UPDATE_BEFORE, rowkind.UPDATE_AFTER
    return update_kinds(merge_function(schema, options), {})


def changed(committed: Committed, where: str) -> Result:
    """What a commit did, as the result of a statement."""
    snapshots = ", ".join(map(str, committed.snapshots))
    what = f"snapshot {snapshots}" if committed.snapshots else "no snapshot"
    message = f"{many(committed.rows, 'row')} {where}: {what}"
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
    query = with_nulls(p.query())
    statement = f"INSERT {'OVERWRITE' if overwrite else 'INTO'} {p.text(target.at, p.behind)}"
    return Insert(target, query, p.piece.text, overwrite, options, partition, columns, by_name, statement)


def _show_jobs(session: Session) -> Result:
    """SHOW JOBS."""
    return Result(session.jobs.rows(session))


def _stop_job(name: str, session: Session) -> Result:
    """STOP JOB 'name'."""
    job = session.jobs.stop(session, name)
    state = job.status.state
    return Result(message=f"job {name!r} is {state}; the same statement under its name goes on")


def _parse_stop_job(p: Parser) -> FunctionStatement:
    name = p.string("the name of a job, in single quotes")
    if p.comes("WITH DRAIN"):
        p.refuse("STOP JOB WITH DRAIN", "a job has no windows that wait for their end")
    p.accept("WITH SAVEPOINT")  # what was committed is where it goes on, always
    return doing(_stop_job, name)


def _drop_job(if_exists: bool, name: str, session: Session) -> Result:
    """DROP JOB [IF EXISTS] 'name'."""
    try:
        session.jobs.drop(session, name)
    except NotFound:
        if not if_exists:
            raise
        return Result(message=f"there is no job {name!r}")
    return Result(message=f"job {name!r} is forgotten")


@dataclass(frozen=True, slots=True)
class StatementSet:
    """EXECUTE STATEMENT SET BEGIN … END."""

    inserts: tuple[Insert, ...]

    @staticmethod
    def parse(p: Parser) -> StatementSet:
        p.expect("BEGIN")
        inserts: list[Insert] = []
        while not p.accept("END"):
            at = p.at
            statement = p.statement()
            if not isinstance(statement, Ready) or not isinstance(statement.this, Insert):
                p.fail("INSERT INTO or END is expected", at)
            inserts.append(statement.this)
            p.expect(";")
        if not inserts:
            p.fail("a statement set needs an INSERT", p.piece.start)
        return StatementSet(tuple(inserts))

    def run(self, session: Session) -> Result:
        streaming = session.settings["execution.runtime-mode"] == "streaming"
        if streaming and any(reads_tables(insert.query) for insert in self.inserts):
            return started(session, self.inserts)
        results = [insert.run(session) for insert in self.inserts]
        rows = sum(result.rows_affected or 0 for result in results)
        snapshots = tuple(s for result in results for s in result.snapshots)
        message = f"{many(len(results), 'INSERT')}: {'; '.join(result.message for result in results)}"
        return Result(rows_affected=rows, snapshots=snapshots, message=message)


_SYNTAX = (
    "INSERT {} [TABLE] table [PARTITION (column [= value], …)] [(column, …)] [BY NAME] {{query | VALUES …}}"
)

FORMS = (
    *of_family(
        "writing",
        Form(
            _SYNTAX.format("INTO"),
            "Add rows, or replace those of the same primary key, in one commit. Columns that are left out, "
            "or DEFAULT, get their default or NULL. `BY NAME` matches columns by name. In streaming mode a "
            "query over tables is a job, which follows them: see SHOW JOBS.",
            lambda p: _parse(p, overwrite=False),
            words="INSERT INTO",
            example="INSERT INTO shop.orders VALUES (4, 'dan', 1.5)",
        ),
        Form(
            _SYNTAX.format("OVERWRITE"),
            "Replace the partitions that get rows (or those named), or the whole of an unpartitioned table, "
            "by the rows of a query, in one commit.",
            lambda p: _parse(p, overwrite=True),
            words="INSERT OVERWRITE",
            example="INSERT OVERWRITE shop.events PARTITION (day = DATE '2026-01-01') SELECT 7",
        ),
    ),
    Form(
        "EXECUTE STATEMENT SET BEGIN INSERT …; [INSERT …; …] END",
        "Several INSERTs: in streaming mode one job, in batch mode one after another, each with a commit of "
        "its own.",
        StatementSet.parse,
        family="writing",
        words="EXECUTE STATEMENT SET",
        example="EXECUTE STATEMENT SET BEGIN INSERT INTO shop.orders VALUES (5, 'eve', 2); "
        "INSERT INTO shop.orders VALUES (6, 'fay', 3); END",
    ),
    Form(
        "SHOW JOBS",
        "The jobs that INSERTs in streaming mode made: whether they run, how far they came, why they failed.",
        lambda _: doing(_show_jobs),
        family="jobs",
        example="SHOW JOBS",
    ),
    Form(
        "STOP JOB 'name' [WITH SAVEPOINT]",
        "End a job behind the batch that it is in. The same statement under the same `pipeline.name` goes on "
        "where it was, always, so that a savepoint is nothing more.",
        _parse_stop_job,
        family="jobs",
    ),
    Form(
        "DROP JOB [IF EXISTS] 'name'",
        "Forget a job that does not run, with its checkpoints and state. Its target stays, and remembers how "
        "far the job came.",
        lambda p: doing(_drop_job, p.accept("IF EXISTS"), p.string("the name of a job, in single quotes")),
        family="jobs",
        example="DROP JOB IF EXISTS 'orders_by_day'",
    ),
)
