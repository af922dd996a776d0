"""Lookup joins of a step: tables whose rows are fetched for each batch of changes, by equality.

Found in the tree when a stream is planned; at work they hold a cache each (`Table.lookup`, options
`lookup.*`). All rows of a batch are joined with one snapshot of each table, which the driver names, so that a
batch that is computed again gives the same rows. DuckDB does the join; what is fetched only has to be enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.core.options.reading import LookupCacheMode
from tablestore.format.predicates.predicate import Predicate
from tablestore.meta.store import Store
from tablestore.sql.problems import placed, start_of
from tablestore.sql.query.own_functions import relation_of
from tablestore.sql.query.planning import TableOccurrence
from tablestore.sql.query.translation import duck_sql
from tablestore.table.lookup_join.join import JoinSettings, LookupJoin
from tablestore.table.lookup_join.source import identity_of, joinable, mode_of, pairs_of, source_of
from tablestore.table.table import Table

_KEY = "__lookup_{}"
Snapshots = Mapping[str, int]  # by `Lookup.place`; 0: the table had no snapshot yet


@dataclass(frozen=True, slots=True)
class Lookup:
    """One table of a lookup join. `keys` is DuckDB's SQL over the views of changes and those of lookups
    before this one: the values that its columns `on` must have. `view` gets the rows. Picklable."""

    view: str
    name: str
    store: Store
    on: tuple[str, ...]
    keys: str
    columns: tuple[str, ...]
    where: Predicate | None = None

    @property
    def place(self) -> str:
        """What the snapshots of the table go by: its directory, and its branch."""
        paths = self.store.paths
        return paths.root if paths.branch == "main" else f"{paths.root}$branch_{paths.branch}"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the view."""
        fields = self.store.schema.by_name
        return pa.schema([fields[name].arrow.with_nullable(True) for name in self.columns])

    @property
    def cache(self) -> str:
        """Which rows are kept, and how many keys at most where that is bounded."""
        on = pairs_of(self.store, self.name, self.on)
        source, _ = source_of(self.store, self.name, on, self.columns, self.where)
        mode = mode_of(source, None)
        keys = f", {self.store.options.lookup_cache_rows:,} keys at most"
        return mode.value + (keys if mode is LookupCacheMode.PARTIAL else "")

    def newest(self) -> int:
        """The newest snapshot of the table, 0 if there is none."""
        self.store.require_same()
        return self.store.snapshots.latest_id() or 0


class LookupRows:
    """A lookup at work: the rows of the table for the keys of a batch. Not thread-safe."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._join: LookupJoin | None = None
        self._snapshot = 0

    def at(self, snapshot: int) -> None:
        """Give rows of this snapshot from now on."""
        if snapshot == self._snapshot:
            return
        lookup = self._lookup
        if snapshot == 0:
            self.close()
        elif self._join is None:
            on = {name: _KEY.format(i) for i, name in enumerate(lookup.on)}
            at = lookup.store.snapshots.get(snapshot)
            settings = JoinSettings(on, lookup.columns, lookup.where, at=at)
            self._join = LookupJoin(lookup.store, lookup.name, settings)
        else:
            self._join.refresh(snapshot)
        self._snapshot = snapshot

    def register(self, duck: duckdb.DuckDBPyConnection) -> None:
        """Make the view, of the rows that the batch can be joined with."""
        lookup, schema = self._lookup, self._lookup.schema
        rows = schema.empty_table()
        if self._join is not None:
            keys = relation_of(duck, lookup.keys).to_arrow_table()
            if keys.num_rows:
                rows = self._join.join(self._fitted(keys), how="inner").select(schema.names)
        duck.register(lookup.view, rows)

    def _fitted(self, keys: pa.Table) -> pa.Table:
        """The keys, times and fractions in the digits of the table's columns. Keys that become one stay one:
        a row that is fetched twice would be joined twice."""
        for i, name in enumerate(self._lookup.on):
            kind, given = self._lookup.store.schema.by_name[name].arrow.type, keys.schema.field(i)
            if given.type != kind and (pa.types.is_timestamp(kind) or pa.types.is_floating(kind)):
                keys = keys.set_column(i, given.name, keys.column(i).cast(kind, safe=False))
                keys = keys.group_by(keys.schema.names, use_threads=False).aggregate([])
        return keys

    def close(self) -> None:
        """Drop the cache."""
        if self._join is not None:
            self._join.close()
        self._join, self._snapshot = None, 0


def lookups_of(tree: exp.Expression, sources: Sequence[TableOccurrence], text: str) -> tuple[Lookup, ...]:
    """The lookup joins of a tree, each behind those that its keys need. Raises Unsupported and
    InvalidRequest, with their places, for what is no lookup join."""
    by_view = {source.view: source for source in sources if source.lookup}
    nodes = [node for node in tree.find_all(exp.Table) if node.name in by_view]
    placed = [(_place(node), node) for node in nodes]
    return tuple(_lookup(node, by_view[node.name], text) for _, node in sorted(placed, key=lambda p: p[0]))


def _joined(node: exp.Table) -> Any:
    """What stands in the join: the table, or the subquery that adds its computed columns."""
    return node if isinstance(node.parent, exp.Join) else node.find_ancestor(exp.Subquery)


def _place(node: exp.Table) -> tuple[int, int]:
    """Inner queries first, then joins in their order."""
    join = _joined(node).parent
    depth, above = 0, join.parent
    while above is not None:
        depth, above = depth + 1, above.parent
    return -depth, join.parent.args["joins"].index(join) if join in join.parent.args.get("joins", ()) else 0


def _lookup(node: exp.Table, source: TableOccurrence, text: str) -> Lookup:
    if not isinstance(source.table, Table) or source.table.past:
        raise Unsupported(f"a lookup join with {source.name}", "tables of a catalog, as they are now, can be")
    joined = _joined(node)
    join, store = joined.parent, source.table.store
    select = join.parent
    plain = join.side.upper() in ("", "LEFT") and join.kind.upper() in ("", "INNER", "OUTER", "CROSS")
    if not plain or join.method or not isinstance(select, exp.Select):
        kind = " ".join(word for word in (join.method, join.side, join.kind) if word)
        raise _at(Unsupported(f"{kind} lookup join", "JOIN and LEFT JOIN are there"), joined, source, text)
    pairs = dict(_equalities(join, select, joined.alias_or_name, source))
    key = identity_of(store)
    if key and set(key) <= set(pairs):
        pairs = {name: pairs[name] for name in key}
    if not pairs:
        problem = (
            f"a lookup join needs an equality condition on a column of {source.name}: "
            f"ON … = {joined.alias_or_name}.{(key or store.schema.shown.names)[0]}"
        )
        raise _at(InvalidRequest(problem), joined, source, text)
    before = select.args["joins"][: next(i for i, other in enumerate(select.args["joins"]) if other is join)]
    keys = exp.Select(
        expressions=[exp.alias_(e.copy(), _KEY.format(i), quoted=True) for i, e in enumerate(pairs.values())],
        from_=select.args["from_"].copy(),
        joins=[j.copy() for j in before],
        laterals=[other.copy() for other in select.args.get("laterals") or ()],
        distinct=exp.Distinct(),
    )
    columns = tuple(dict.fromkeys((*source.read.columns, *pairs)))
    return Lookup(
        node.name,
        str(source.name),
        store,
        tuple(pairs),
        duck_sql(keys),
        columns,
        source.read.where,
    )


def _equalities(
    join: exp.Join, select: exp.Select, alias: str, source: TableOccurrence
) -> Iterator[tuple[str, exp.Expr]]:
    """Columns of the table, each with what it is equal to."""
    names = source.table.store.schema.shown.by_name
    for shared in join.args.get("using") or ():
        if shared.name in names:
            yield shared.name, exp.column(exp.to_identifier(shared.name, quoted=True))
    conditions: list[Any] = [join.args.get("on")]
    where = select.args.get("where")
    if where is not None and not join.side:
        conditions.append(where.this)
    for condition in conditions:
        terms = [] if condition is None else _terms(condition)
        for term in terms:
            if not isinstance(term, exp.EQ):
                continue
            left, right = term.left.unnest(), term.right.unnest()
            sides: list[tuple[Any, Any]] = [(left, right), (right, left)]
            for column, other in sides:
                if (
                    _is_of(column, alias, names)
                    and not any(_names(c, alias, names) for c in other.find_all(exp.Column))
                    and not names[column.name].type.is_nested
                ):
                    yield column.name, other
                    break


def _terms(condition: Any) -> list[Any]:
    condition = condition.unnest()
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def _is_of(node: Any, alias: str, names: Mapping[str, Any]) -> bool:
    """Whether the node is a stored column of the table."""
    return isinstance(node, exp.Column) and node.name in names and _names(node, alias, names)


def _names(column: exp.Column, alias: str, names: Mapping[str, Any]) -> bool:
    """Whether a column is the table's, or may be."""
    return column.table == alias if column.table else column.name in names


def require_types(lookup: Lookup, keys: pa.Schema) -> None:
    """Raise InvalidRequest for keys of other types than the columns that they are equal to."""
    for field, name in zip(keys, lookup.on, strict=True):
        kind = lookup.store.schema.by_name[name].arrow.type
        times = pa.types.is_timestamp(kind) and pa.types.is_timestamp(field.type)
        if not joinable(field.type, kind) and not (times and bool(kind.tz) == bool(field.type.tz)):
            problem = f"a lookup join of {field.type} with {lookup.name}.{name}, which is {kind}: CAST it"
            raise InvalidRequest(problem)


def _at(error: Any, node: Any, source: TableOccurrence, text: str) -> Any:
    placed(error, text, start_of(node, source.name.at))
    return error
