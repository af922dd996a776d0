"""SELECT, VALUES and WITH: queries, computed by the engine that the session has set; and EXPLAIN: what a
statement would do, of a query what each table is asked for, and how it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
from sqlglot import exp

from tablestore.cdc.change_feed import ChangeFeed
from tablestore.cdc.table_stream import TableStream
from tablestore.core.errors import Unsupported
from tablestore.log import offsets
from tablestore.sql import spark_engine
from tablestore.sql.dialect.parser import OwnForm, Parser, Ready
from tablestore.sql.form import Form, Statement, of_family
from tablestore.sql.query import embedded
from tablestore.sql.query.embedded import duck_plan
from tablestore.sql.query.planning import BoundQuery, TableOccurrence, prepared
from tablestore.sql.query.sources import Feed, feeds
from tablestore.sql.result import Result
from tablestore.sql.scope import Scope
from tablestore.sql.session import Session
from tablestore.sql.settings import LOCAL_TIME_ZONE
from tablestore.sql.streaming.follow import LiveRows
from tablestore.sql.streaming.lookups import Lookup
from tablestore.sql.streaming.plan import Input, StreamPlan, planned
from tablestore.table.scan import Scan
from tablestore.table.union_read import UnionState


def rows_of(scope: Scope, tree: exp.Expression, text: str) -> pa.RecordBatchReader:
    """The rows of a query, by `execution.engine`. `tree` is not changed; `text` is the script it is of.

    Raises what the tree may not have, before anything is read, and what scans and the engine raise;
    MissingPackage where Spark is wanted and not installed.
    """
    if scope.settings["execution.runtime-mode"] == "streaming":
        raise Unsupported("a query in streaming mode", "SET 'execution.runtime-mode' = 'batch'")
    if scope.settings["execution.engine"] == "spark":
        rows = spark_engine.run_query(scope, tree, text)
    else:
        rows = embedded.run_query(scope, tree, text)
    return _in_zone(rows, scope.settings[LOCAL_TIME_ZONE])


def _in_zone(rows: pa.RecordBatchReader, zone: str) -> pa.RecordBatchReader:
    """The same rows; instants are those of the zone."""
    kinds = [
        pa.timestamp(t.unit, zone) if pa.types.is_timestamp(t) and t.tz else t for t in rows.schema.types
    ]
    if kinds == rows.schema.types:
        return rows
    schema = pa.schema([f.with_type(t) for f, t in zip(rows.schema, kinds, strict=True)])
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in rows))


@dataclass(frozen=True, slots=True)
class Select:
    """A query; `text` is the script that it is of."""

    tree: exp.Expression
    text: str

    def run(self, session: Session) -> Result:
        if session.settings["execution.runtime-mode"] == "streaming":
            return Result(stream=LiveRows(session, self.tree, self.text))
        return Result(rows_of(session, self.tree, self.text))


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a query, or of another statement: then `line` says what that does."""

    query: Any
    line: str
    text: str

    @staticmethod
    def parse(p: Parser) -> Explain:
        p.accept("PLAN FOR")
        at = p.at
        form = next((f for f in p.forms if _begins(p, f)), None)
        explained = p.statement()
        p.finish()
        if explained is None:
            p.fail("a statement is expected", at)
        if isinstance(explained, exp.Query):
            return Explain(explained, "", p.piece.text)
        statement = explained.this if isinstance(explained, Ready) else explained
        written = " ".join(p.text(at, p.behind).split())
        does = form.text if form is not None else "carried out as it is written"
        return Explain(_query_of(statement), f"{written[:200]}: {does}", p.piece.text)

    def run(self, session: Session) -> Result:
        lines = [self.line] if self.line else []
        if self.query is not None:
            streaming = session.settings["execution.runtime-mode"] == "streaming"
            lines += (
                explained_stream(planned(session, self.query, self.text))
                if streaming
                else explained(session, self.query, self.text)
            )
        return Result.of_texts({"plan": lines})


def _begins(p: Parser, form: OwnForm) -> bool:
    words = form.words.split()
    return p.upcoming(len(words)) == words


def _query_of(statement: Statement | exp.Expression) -> Any:
    """The query within a statement, as in INSERT INTO … SELECT."""
    if isinstance(statement, exp.Expression):
        return statement.find(exp.Query)
    if not is_dataclass(statement):
        return None
    values: Iterator[Any] = (getattr(statement, f.name) for f in fields(statement))
    return next((v for v in values if isinstance(v, exp.Query) and not isinstance(v, exp.Table)), None)


def explained(session: Session, tree: exp.Expression, text: str) -> list[str]:
    """Lines about a query: its tables one by one, then the plan of DuckDB. No row is read."""
    query = prepared(session, tree, text)
    fed = feeds(query.sources)
    lines: list[str] = []
    for source in query.sources:
        lines += _table(source, next(f for f in fed if source.view in f.views))
    if query.direct is not None:
        how = "the scan" if query.direct.table is None else "a lookup by key"
        return [*lines, f"{how} answers the query alone"]
    return [*lines, *_engine(session, query, fed)]


def _table(source: TableOccurrence, feed: Feed) -> Iterator[str]:
    read, scan = source.read, source.scan()
    of = len(source.whole.schema.names)
    snapshot = getattr(scan, "snapshot", None)
    place = "" if snapshot is None else f" at snapshot {snapshot.id}"
    if isinstance(scan, Scan) and isinstance(scan.target, UnionState):
        place += f", with the log up to offsets {offsets.text(scan.target.stop)}"
    yield f"table {source.name}{place}"
    yield f"  columns: {', '.join(read.columns)} ({len(read.columns)} of {of})"
    yield f"  condition: {'none is pushed down' if read.where is None else read.where!r}"
    yield f"  limit: {'none is pushed down' if read.limit is None else f'{read.limit:,} rows'}"
    if read.why:
        yield f"  {read.why}"
    if isinstance(scan, Scan):
        yield from ("  " + line for line in repr(scan.explain()).splitlines())
    yield f"  {feed.text}" + (", once for all its places in the query" if len(feed.views) > 1 else "")


def _engine(session: Session, query: BoundQuery, fed: list[Feed]) -> Iterator[str]:
    yield "DuckDB"
    for line in duck_plan(session, query, fed).splitlines():
        yield "  " + line.rstrip()


def explained_stream(plan: StreamPlan) -> list[str]:
    """Lines about a stream. No row is read."""
    lines = [line for part in plan.inputs for line in _input(part)]
    lines += [line for part in plan.step.lookups for line in _lookup(part)]
    lines += ["each batch of changes: DuckDB computes", *_indented(plan.step.sql)]
    if plan.grouping is not None:
        lines += _grouping(plan)
    taken_back = plan.retracts or plan.grouping is not None
    kinds = "+I, −U, +U and −D: rows may be taken back" if taken_back else "+I: no row is taken back"
    return [*lines, f"the result has {kinds}"]


@runtime_checkable
class _Explained(Protocol):
    """A source that says in a line how it is read."""

    @property
    def explained(self) -> str: ...


def _input(source_input: Input) -> Iterator[str]:
    source = source_input.source
    if isinstance(source, TableStream):
        yield f"changes of {source_input.name}: {_start(source.feed)}"
    else:
        yield f"rows of {source_input.name}, as they come"
        if isinstance(source, _Explained):
            yield f"  {source.explained}"
    shown = ", ".join(source_input.columns)
    yield f"  columns: {shown} ({len(source_input.columns)} of {len(source.schema.names)})"
    yield f"  condition: {'none is pushed down' if source_input.where is None else repr(source_input.where)}"
    yield f"  {'rows are only added' if source.appends else 'rows may be taken back'}"
    if isinstance(source, TableStream) and source.feed.looks_up:
        yield "  what was before a change is looked up in the snapshot before"


def _start(feed: ChangeFeed) -> str:
    if feed.start == "latest":
        return "those that come from now on"
    if feed.start != "latest-full":
        return f"from those of snapshot {feed.start} on"
    at = "the newest snapshot" if feed.full is None else f"snapshot {feed.full}"
    return f"the rows of {at} first, then what changes"


def _lookup(lookup: Lookup) -> Iterator[str]:
    yield f"lookup in {lookup.name} by {', '.join(lookup.on)}: one snapshot a batch"
    yield f"  cache: {lookup.cache}"
    stored = len(lookup.store.schema.shown.names)
    yield f"  columns: {', '.join(lookup.columns)} ({len(lookup.columns)} of {stored})"
    yield f"  condition: {'none' if lookup.where is None else repr(lookup.where)}"
    yield "  keys of a batch"
    yield from _indented(lookup.keys, "    ")


def _grouping(plan: StreamPlan) -> Iterator[str]:
    grouping = plan.grouping
    assert grouping is not None, "asked for by the caller"
    yield f"groups by {', '.join(grouping.keys) or 'nothing: there is one'}; the state is a table"
    for aggregate in grouping.aggregates:
        of = ("DISTINCT " if aggregate.distinct else "") + (aggregate.argument or "*")
        yield f"  {aggregate.name} = {aggregate.function}({of}), {aggregate.type}"
    yield "each change of groups: DuckDB computes"
    yield from _indented(grouping.after.sql)


def _indented(text: str, by: str = "  ") -> Iterator[str]:
    for line in text.splitlines():
        yield by + line


FORMS = of_family(
    "queries",
    Form(
        "SELECT … FROM … [WHERE …] [GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT n]",
        "Rows of tables. In streaming mode changes as they come, with the kind of change as column `op`: "
        "the rows that are there first, unless `scan.*` or `consumer-id` say otherwise. What was before a "
        "change is looked up where commits do not hold it, of partial-update, aggregation and first-row too, "
        "which Flink refuses. `JOIN t FOR SYSTEM_TIME AS OF s.proc_time` looks rows up in `t` as it is then.",
        node=exp.Query,
        build=Select,
        example="SELECT * FROM shop.orders",
    ),
    Form(
        "WITH name AS (query), … SELECT …",
        "A query with named parts.",
        example="WITH big AS (SELECT * FROM shop.orders WHERE amount > 6) SELECT count(*) FROM big",
    ),
    Form(
        "VALUES (value, …), …",
        "Rows that are written out.",
        node=exp.Values,
        build=Select,
        example="VALUES (1, 'a'), (2, 'b')",
    ),
    Form(
        "EXPLAIN [PLAN FOR] statement",
        "What a statement would do: of a query the columns, conditions and limit that each table is asked "
        "for, which files are read and why, and how DuckDB goes on; in streaming mode where each source "
        "begins, what is looked up and grouped.",
        Explain.parse,
        example="EXPLAIN SELECT customer, sum(amount) FROM shop.orders WHERE order_id > 1 GROUP BY customer",
    ),
)
