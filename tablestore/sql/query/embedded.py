"""The embedded engine: DuckDB in this process computes a query over rows that our scans read; its rows get
the types that tables have: it widens sums, renames elements, forgets zones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tablestore.core.errors import InvalidRequest
from tablestore.format.types.data_type import DataType, to_arrow
from tablestore.sql.query.connection import BATCH_ROWS, DuckConnection, errors
from tablestore.sql.query.numeric_types import FLOATS, WHOLE
from tablestore.sql.query.planning import BoundQuery, prepared
from tablestore.sql.query.sources import Feed, ScanRows, feeds
from tablestore.sql.query.translation import duck_sql
from tablestore.sql.query.type_inference import Columns
from tablestore.sql.scope import Scope
from tablestore.sql.settings import LOCAL_TIME_ZONE

_HUGE = "HUGEINT"


def sound_schema(schema: pa.Schema, types: Sequence[str], columns: Columns = ()) -> pa.Schema:
    """The schema of the result; `types` are DuckDB's own, `columns` those that the query was found to have.
    Columns of one name get numbers, as in Flink."""
    expected = [t for _, t in columns] if len(columns) == len(types) else [None] * len(types)
    fields = []
    for field, kind, wanted in zip(schema, types, expected, strict=True):
        sound = pa.int64() if kind == _HUGE else _sound(field.type)
        fields.append(sound if wanted is None else _wanted(sound, wanted))
    return pa.schema(list(zip(free_names(schema.names), fields, strict=True)))


def free_names(names: Sequence[str]) -> list[str]:
    """The names; one that was there before gets a number."""
    free: list[str] = []
    for name in names:
        numbered = (f"{name}{i}" for i in range(len(free) + 1))
        free.append(name if name not in free else next(n for n in numbered if n not in free))
    return free


def _wanted(computed: pa.DataType, wanted: DataType) -> pa.DataType:
    """The type that a column was found to have, where DuckDB only counts in more or fewer digits."""
    if wanted.root in FLOATS and pa.types.is_floating(computed):
        return to_arrow(wanted)
    if wanted.root in WHOLE and pa.types.is_integer(computed):
        return to_arrow(wanted)
    if wanted.root == "MULTISET" and pa.types.is_map(computed):
        return pa.map_(computed.key_type, pa.int32())
    if wanted.root == "DECIMAL" and (pa.types.is_decimal(computed) or pa.types.is_integer(computed)):
        return to_arrow(wanted)
    return computed


def _sound(t: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(t) and t.tz is not None:
        return pa.timestamp(t.unit, "UTC")
    if pa.types.is_time(t):
        return pa.time32("ms")
    if pa.types.is_list(t):
        return pa.list_(pa.field("element", _sound(t.value_type)))
    if pa.types.is_map(t):
        return pa.map_(_sound(t.key_type), _sound(t.item_type))
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _sound(f.type)) for f in t.fields])
    return t


def sound(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the types of the schema. Raises InvalidRequest for a sum beyond BIGINT."""
    columns = [_cast(c, f) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        return pc.cast(column, field.type, safe=not pa.types.is_time(field.type))
    except pa.ArrowInvalid:
        problem = f"{field.name} is beyond BIGINT: sum CAST(… AS DECIMAL(38, 0)) instead"
        raise InvalidRequest(problem) from None


def run_query(scope: Scope, tree: exp.Expression, text: str) -> pa.RecordBatchReader:
    """The rows of a query, as they are computed. `tree` is not changed; `text` is the script it is of.

    Raises what the tree may not have, before anything is read, and what scans and DuckDB raise.
    """
    query = prepared(scope, tree, text)
    direct = query.without_engine()
    if direct is not None:
        return direct
    fed = feeds(query.sources)
    files = tuple(f for feed in fed for f in feed.native)
    connection = connection_of(scope, files)
    try:
        sql = duck_sql(query.tree)

        def begin() -> tuple[list[str], pa.RecordBatchReader]:
            for feed in fed:
                feed.register(connection, joined=len(query.sources) > 1)
            relation = connection.relation(sql)
            return [str(kind) for kind in relation.types], relation.to_arrow_reader(BATCH_ROWS)

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
    with connection:
        for batch in connection.batches(rows, progress):
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
