"""A query as a stream: its sources, the row-wise step over their changes, and what is grouped.

The whole query is checked when it is planned; what a stream cannot compute is refused by name and place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tablestore.cdc.change_feed import ChangeFeed
from tablestore.cdc.table_stream import TableStream
from tablestore.core.errors import Unsupported
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine
from tablestore.flow.source import RowsStream, StreamSource
from tablestore.format.predicates.predicate import Predicate
from tablestore.read.changes.stream_start import place_of_consumer
from tablestore.read.scan import scan_mode
from tablestore.sql.connectors.connector import ConnectorTable
from tablestore.sql.problems import placed, placing, start_of
from tablestore.sql.query.connection import DuckConnection, errors
from tablestore.sql.query.embedded import sound, sound_schema
from tablestore.sql.query.own_functions import relation_of
from tablestore.sql.query.planning import TableOccurrence, is_lookup, prepared
from tablestore.sql.query.tables import require_distinct
from tablestore.sql.query.translation import duck_sql
from tablestore.sql.query.type_inference import Columns
from tablestore.sql.scope import Scope
from tablestore.sql.settings import IGNORED, UPDATES
from tablestore.sql.streaming.group_columns import GROUPS, Aggregate, GroupColumns, Grouping
from tablestore.sql.streaming.grouped import from_of, grouped_parts, grouped_select, qualify, source_names
from tablestore.sql.streaming.lookups import Lookup, lookups_of, require_types
from tablestore.sql.streaming.row_step import KIND, POSITION, RowStep, carrying, inlined
from tablestore.table.table import Table

_VALUES = "__values_{}"


@dataclass(frozen=True, slots=True)
class Input:
    """A source of a stream: its rows of these columns that meet `where` are the changes of the view `view`;
    `name` is what the query calls it."""

    view: str
    source: StreamSource
    columns: tuple[str, ...]
    where: Predicate | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """`step` is computed over the changes of each of `inputs`. Without `grouping` it gives the result, whose
    columns are `schema`; else what is grouped. `steady`: a row is taken back as it was given, or the user
    says so. Picklable."""

    inputs: tuple[Input, ...]
    step: RowStep
    schema: pa.Schema
    grouping: Grouping | None = None
    steady: bool = True

    @property
    def retracts(self) -> bool:
        """Whether a source may take rows back."""
        return not all(i.source.appends for i in self.inputs)


def planned(scope: Scope, tree: exp.Expression, text: str) -> StreamPlan:
    """The stream of a query; `tree` is not changed, `text` is the script it is of.

    Raises Unsupported for what a stream cannot compute, and what a query may not have, with their places.
    """
    tree = inlined(tree.copy())
    _require_row_wise(tree, text)
    query = prepared(scope, tree, text, stream=True)
    tree = query.tree
    followed = [source for source in query.sources if not source.lookup]
    inputs = [*(_input(source, text) for source in followed), *_values_inputs(tree)]
    tables = {i.view: pa.schema([i.source.schema.field(n) for n in i.columns]) for i in inputs}
    lookups = lookups_of(tree, query.sources, text)
    retracts = not all(i.source.appends for i in inputs)
    steady = not (retracts and lookups) or scope.settings[UPDATES] == IGNORED
    views = dict(tables)
    for lookup in lookups:
        _require_types(lookup, views, query.sources, text)
        views[lookup.view] = lookup.schema
    select = grouped_select(tree, text)
    if select is None:
        schema = described(views, duck_sql(tree), query.columns)
        carrying(tree, tables)
        step = RowStep(duck_sql(tree), tables, schema, lookups)
        return StreamPlan(tuple(inputs), step, schema, steady=steady)
    if not steady:
        raise placed(unsteady("GROUP BY"), text, start_of(select))
    qualify(select, _columns_of_sources(select, views))
    parts = grouped_parts(tree, select, text)
    schema = described(views, duck_sql(tree), query.columns)
    types = described(views, duck_sql(parts.described))
    rows = described(views, duck_sql(parts.below))
    carrying(parts.below, tables)
    carrying(parts.above, {GROUPS})
    aggregates = tuple(
        Aggregate(
            a.name,
            a.function,
            a.column,
            a.distinct,
            types.field(a.name).type,
        )
        for a in parts.aggregates
    )
    after = RowStep(duck_sql(parts.above), {GROUPS: types}, schema)
    step = RowStep(duck_sql(parts.below), tables, rows, lookups)
    grouping = Grouping(parts.keys, aggregates, after)
    plan = StreamPlan(tuple(inputs), step, schema, grouping)
    GroupColumns.of(rows, grouping, retracts=plan.retracts)  # refuses what cannot be kept
    return plan


def unsteady(what: str) -> Unsupported:
    """The refusal of what takes rows of a lookup join back by their values: a row that changed in the table
    meanwhile would be subtracted from others than it was added to."""
    why = (
        "a row of it is taken back as the table that is looked up is then: INSERT the join into a table with "
        f"a primary key, and follow that, or SET '{UPDATES}' = '{IGNORED}' where nothing changes in the table"
    )
    return Unsupported(f"{what} of a lookup join of rows that change", why)


def _columns_of_sources(select: exp.Select, views: Mapping[str, pa.Schema]) -> dict[str, list[str]]:
    """The columns of each source of a SELECT, by its name."""
    columns = {}
    for name in source_names(select):
        all_of_it = exp.Column(this=exp.Star(), table=exp.to_identifier(name, quoted=True))
        columns[name] = described(views, duck_sql(from_of(select).select(all_of_it))).names
    return columns


def described(views: Mapping[str, pa.Schema], sql: str, columns: Columns = ()) -> pa.Schema:
    """The columns of DuckDB's SQL over these views, in the types of `columns`, where these are known; no row
    is read."""
    with DuckConnection() as connection, errors():
        for view, schema in views.items():
            connection.duck.register(view, schema.empty_table())
        relation = relation_of(connection.duck, sql)
        empty = relation.limit(0).to_arrow_table().schema
        fields = [f.with_name(name) for f, name in zip(empty, relation.columns, strict=True)]
        return sound_schema(pa.schema(fields), [str(kind) for kind in relation.types], columns)


def _input(source: TableOccurrence, text: str) -> Input:
    """The changes of a table. Raises Unsupported for one that cannot be followed."""
    name, table, read = str(source.name), source.table, source.read
    with placing(text, source.name.at):
        require_distinct([*read.columns, KIND, POSITION], name)
        if isinstance(table, ConnectorTable):
            return Input(source.view, table.stream(), read.columns, read.where, name)
        if not isinstance(table, Table):
            raise Unsupported(
                f"following {name}", "it is a system table; SET 'execution.runtime-mode' = 'batch'"
            )
        return Input(source.view, TableStream(feed_of(table)), read.columns, read.where, name)


def feed_of(table: Table) -> ChangeFeed:
    """The changes of a table from where its consumer or its `scan.*` options say, by default its rows first.

    What was before a change is looked up where commits do not hold it: of all merge engines. Raises
    Unsupported for a table of the past, and what the options of a stream may not be.
    """
    store = table.store
    if table.past:
        raise Unsupported(f"following {table.name} as it was", "scan.snapshot-id says where a stream begins")
    keyed = bool(store.schema.shown.primary_keys)
    unknown = keyed and store.options.changelog_producer is ChangelogProducer.NONE
    merged = store.options.merge_engine is not MergeEngine.DEDUPLICATE
    feed = ChangeFeed(table.location, normalize=True if unknown and merged else None, store=store)
    place = place_of_consumer(store, store.options.consumer_id)
    if place is not None:
        return replace(feed, start=str(place.next_snapshot))
    mode = scan_mode.mode_of(store)
    if mode in ("latest-full", "latest"):
        return replace(feed, start=mode)
    start = scan_mode.following(store)
    if start.made_since_ms is not None:
        raise Unsupported(f"scan.mode {mode!r} in a stream", "from-timestamp is there")
    if start.next_snapshot is not None:
        return replace(feed, start=str(start.next_snapshot))
    return replace(feed, full=None if start.full is None else start.full.id)


def _require_types(
    lookup: Lookup, views: Mapping[str, pa.Schema], sources: Sequence[TableOccurrence], text: str
) -> None:
    with placing(text, next(s.name.at for s in sources if s.view == lookup.view)):
        require_types(lookup, described(views, lookup.keys))


def _values_inputs(tree: exp.Expression) -> list[Input]:
    """VALUES, and SELECTs without FROM, as views of rows that are read once; they leave the tree."""
    inputs: list[Input] = []
    without = [s for s in tree.find_all(exp.Select) if s.args.get("from_") is None]
    for node in [*tree.find_all(exp.Values), *without]:
        view = _VALUES.format(len(inputs))
        query = (
            exp.Select(expressions=[exp.Star()]).from_(node.copy()) if isinstance(node, exp.Values) else node
        )
        rows = _computed(query)
        require_distinct([*rows.schema.names, KIND, POSITION], "VALUES")
        inputs.append(Input(view, RowsStream(rows), tuple(rows.schema.names), name="VALUES"))
        table = exp.Table(this=exp.to_identifier(view, quoted=True))
        if isinstance(node, exp.Values):
            alias = node.alias or view
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
            node.replace(table)
        else:
            node.set("expressions", [exp.Star()])
            node.set("from_", exp.From(this=table))
    return inputs


def _computed(tree: exp.Expression) -> pa.Table:
    """The rows of a query without tables."""
    with DuckConnection() as connection, errors():
        relation = relation_of(connection.duck, duck_sql(tree))
        types = [str(kind) for kind in relation.types]
        table = relation.to_arrow_table()
    schema = sound_schema(table.schema, types)
    return pa.Table.from_batches([sound(batch, schema) for batch in table.to_batches()], schema)


_REFUSED = {
    "order": "ORDER BY",
    "sort": "SORT BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
}


def _require_row_wise(tree: exp.Expression, text: str) -> None:
    """Raise Unsupported, at its place, for what needs more than one row, but GROUP BY."""
    nodes: Any = tree.walk()
    for node in nodes:
        problem = _problem(node)
        if problem is not None:
            raise placed(
                Unsupported(f"{problem[0]} in a stream", problem[1]),
                text,
                start_of(node, start_of(node.parent)),
            )


def _problem(node: Any) -> tuple[str, str] | None:
    if isinstance(node, exp.With):
        return "WITH RECURSIVE", "a stream has no end to wait for"
    if isinstance(node, exp.Window):
        return "a window function", "it would have to wait for rows that are still to come"
    if isinstance(node, exp.Intersect | exp.Except) or (
        isinstance(node, exp.Union) and node.args.get("distinct")
    ):
        return node.key.upper(), "UNION ALL is there"
    if isinstance(node, exp.Query):
        for part, name in _REFUSED.items():
            if node.args.get(part):
                return name, "a stream has no last row; the table that a job fills can be sorted"
    if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query")):
        return "a subquery as a condition", "lookup joins are there: JOIN t FOR SYSTEM_TIME AS OF s.proc_time"
    if isinstance(node, exp.Subquery) and not isinstance(node.parent, exp.From | exp.Join | exp.Union | None):
        return "a subquery as a value", "lookup joins are there: JOIN t FOR SYSTEM_TIME AS OF s.proc_time"
    if isinstance(node, exp.Join) and not _is_lookup(node):
        return "a join of two streams", "lookup joins are there: JOIN t FOR SYSTEM_TIME AS OF s.proc_time"
    return None


def _is_lookup(join: exp.Join) -> bool:
    if isinstance(join.this, exp.Unnest | exp.Lateral):
        return True  # of values of the same row
    return isinstance(join.this, exp.Table) and is_lookup(join.this)
