"""The embedded engine: DuckDB in this process computes a query over rows that our scans read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import duckdb
import pyarrow as pa
from sqlglot import exp

from tablestore.sql.query.connection import DuckConnection, errors
from tablestore.sql.query.planning import BoundQuery, prepared
from tablestore.sql.query.result_types import sound, sound_schema
from tablestore.sql.query.sources import Feed, ScanRows, feeds
from tablestore.sql.query.translation import duck_sql
from tablestore.sql.scope import Scope
from tablestore.sql.settings import LOCAL_TIME_ZONE

_BATCH_ROWS = 65_536


def run_query(scope: Scope, tree: exp.Expression, text: str) -> pa.RecordBatchReader:
    """The rows of a query, as they are computed. `tree` is not changed; `text` is the script it is of.

    Raises what the tree may not have, before anything is read, and what scans and DuckDB raise.
    """
    query = prepared(scope, tree, text)
    if query.direct is not None:
        return query.direct.rows()
    fed = feeds(query.sources)
    files = tuple(f for feed in fed for f in feed.native)
    connection = connection_of(scope, files)
    try:
        sql = duck_sql(query.tree)

        def begin() -> tuple[list[str], pa.RecordBatchReader]:
            for feed in fed:
                feed.register(connection, joined=len(query.sources) > 1)
            relation = connection.relation(sql)
            return [str(kind) for kind in relation.types], relation.to_arrow_reader(_BATCH_ROWS)

        types, rows = connection.run(begin, scope.on_progress)
    except BaseException:
        connection.close()
        raise
    schema = sound_schema(rows.schema, types, query.columns)
    return pa.RecordBatchReader.from_batches(schema, _batches(connection, rows, schema, scope.on_progress))


def _batches(
    connection: DuckConnection,
    rows: pa.RecordBatchReader,
    schema: pa.Schema,
    progress: Callable[[float], None] | None,
) -> Iterator[pa.RecordBatch]:
    def following() -> pa.RecordBatch | None:
        try:
            return rows.read_next_batch()
        except StopIteration:
            return None

    with connection:
        while (batch := connection.run(following, progress)) is not None:
            if batch.num_rows:
                yield sound(batch, schema)


def duck_plan(scope: Scope, query: BoundQuery, fed: Sequence[Feed]) -> str:
    """DuckDB's plan of a query; no row is read."""
    files = tuple(f for feed in fed for f in feed.native)
    with connection_of(scope, files) as connection, errors():
        for feed in fed:
            feed.register(connection, joined=False, planning=True)
        sql = duck_sql(query.tree)
        connection.know(sql)
        rows = connection.duck.sql(f"EXPLAIN {sql}").fetchall()
    return "\n".join(str(row[-1]) for row in rows)


def result_schema(scope: Scope, query: BoundQuery) -> pa.Schema:
    """The columns of a query's rows; no row is read."""
    fed = feeds(query.sources)
    files = tuple(f for feed in fed for f in feed.native)
    with connection_of(scope, files) as connection, errors():
        for feed in fed:
            feed.register(connection, joined=False, planning=True)
        relation = connection.relation(duck_sql(query.tree))
        empty = relation.limit(0).to_arrow_table().schema
        fields = [f.with_name(name) for f, name in zip(empty, relation.columns, strict=True)]
        return sound_schema(pa.schema(fields), [str(kind) for kind in relation.types], query.columns)


def connection_of(scope: Scope, files: tuple[str, ...] = ()) -> DuckConnection:
    """A connection with the memory and the zone that the session has set."""
    memory, zone = scope.settings["execution.memory-limit"], scope.settings[LOCAL_TIME_ZONE]
    return DuckConnection(memory=memory, files=files, zone=zone, kept=scope.on_progress is None)


def bound(
    connection: duckdb.DuckDBPyConnection, scope: Scope, tree: exp.Expression, text: str
) -> exp.Expression:
    """A copy of a tree whose tables are views of the connection, to be run as `duck_sql` has it. Raises what
    the tree may not have, NotFound with its place."""
    query = prepared(scope, tree, text)
    for source in query.sources:
        connection.register(source.view, ScanRows(source.scan()))
    return query.tree
