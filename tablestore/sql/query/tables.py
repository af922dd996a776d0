"""The tables of a query: each place in its tree that names one, with its hints, its time travel, its view.

The hint `scan.partitions` (`dt=a,h=1;dt=b`, `max_pt()`) becomes a condition of the query.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from tablestore import doors
from tablestore.core.errors import InvalidRequest, NotFound, Unsupported
from tablestore.format.text import cast_text
from tablestore.format.types.data_type import DataType
from tablestore.sql.connectors.connector import ConnectorTable
from tablestore.sql.dialect.parser import options_of, read_expression, reader
from tablestore.sql.dialect.tokenizer import pieces
from tablestore.sql.problems import placed, placing
from tablestore.sql.query.conditions import value_of
from tablestore.sql.scope import Scope, TableDefinition, require_inside
from tablestore.sql.text import Name, name_of
from tablestore.table.table import Table

HINT = "scan.partitions"
_NEWEST = {"max_pt()": 1, "max_two_pt()": 2}
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")

_DEEPEST = 20  # views of views


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place of the tree where a table stands; a self-join has two. `table` is one that has `scan`."""

    node: exp.Table
    name: Name
    table: Any


def occurrences(scope: Scope, tree: exp.Expression, text: str) -> list[Occurrence]:
    """Every place where a query names a table of a catalog. Views among them become subqueries of the tree.
    Raises NotFound, and what time travel and hints refuse, with their places in the text."""
    places = _occurrences(scope, tree, text, 0)
    for place in places:
        _require_processing_time(tree, place, text)
    return places


def require_distinct(columns: Iterable[str], of: object) -> None:
    """Raise Unsupported for columns of a table that differ in case only, or that a query adds of its own."""
    folded: dict[str, str] = {}
    for name in columns:
        other = folded.setdefault(name.lower(), name)
        if other is not name:
            why = "the engine that computes takes them for one: rename one"
            raise Unsupported(f"columns {other!r} and {name!r} of {of}", why)


def _require_processing_time(tree: exp.Expression, place: Occurrence, text: str) -> None:
    """Raise Unsupported for FOR SYSTEM_TIME AS OF a column that is not the time at which its row is read:
    what a table held at another time is not looked up."""
    version = place.node.args.get("version")
    when = None if version is None else version.expression
    if not isinstance(when, exp.Column) or when.name in _processing_times(tree):
        return
    why = f"lookups go by processing time: {when.name} AS PROCTIME() as a column of the other side"
    raise placed(Unsupported(f"FOR SYSTEM_TIME AS OF {when.name}", why), text, place.name.at)


def _processing_times(tree: exp.Expression) -> set[str]:
    """Names of the columns that are PROCTIME() or another word for now, also where a subquery renames
    them."""
    aliases = [(a.alias, a.this.unnest()) for a in tree.find_all(exp.Alias)]
    names = {name for name, value in aliases if _is_now(value)}
    while True:
        more = {name for name, v in aliases if isinstance(v, exp.Column) and v.name in names} - names
        if not more:
            return names
        names |= more


def _occurrences(scope: Scope, tree: exp.Expression, text: str, depth: int) -> list[Occurrence]:
    places: list[Occurrence] = []
    for node in [n for n in tree.find_all(exp.Table) if not (n.meta.get("bound") or _is_cte(n))]:
        name = name_of(node)
        with placing(text, name.at):
            view = scope.view(name)
            if view is None:
                table = _table(scope, node, name)
                inner = _with_computed(tree, node, name, table)
                places.append(Occurrence(_of_partitions(inner, table), name, table))
                continue
            if depth == _DEEPEST:
                raise InvalidRequest(f"the view {name} is of more than {_DEEPEST} views of views")
            inner = _of_view(scope, view.query, name)
            alias = exp.TableAlias(
                this=exp.to_identifier(node.alias_or_name, quoted=True),
                columns=[exp.to_identifier(c, quoted=True) for c in view.columns],
            )
            places += _occurrences(scope, inner, view.query, depth + 1)
            node.replace(exp.Subquery(this=inner, alias=alias))
    return places


def _of_partitions(node: exp.Table, table: Any) -> exp.Table:
    """The node of the table itself: where a hint chooses partitions, a subquery of their rows stands around
    it."""
    chosen = hint_options(node).get(HINT)
    if chosen is None:
        return node
    if not isinstance(table, Table):
        raise InvalidRequest(f"{HINT} is a hint of a table of a catalog")
    inner = node.copy()
    inner.set("alias", None)
    alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
    rows = exp.select("*").from_(inner, copy=False).where(condition(table, chosen), copy=False)
    node.replace(exp.Subquery(this=rows, alias=alias.copy()))
    return inner


def _is_cte(node: exp.Table) -> bool:
    """Whether the name is that of a WITH around it."""
    if not isinstance(node.this, exp.Identifier) or node.args.get("db"):
        return False
    child: Any = node
    parent: Any = node.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            for cte in parent.expressions:
                if cte is child:
                    if parent.args.get("recursive") and cte.alias == node.name:
                        return True
                    break
                if cte.alias == node.name:
                    return True
        else:
            ctes = parent.args.get("with_")
            if ctes is not None and ctes is not child and node.name in [c.alias for c in ctes.expressions]:
                return True
        child, parent = parent, parent.parent
    return False


def _of_view(scope: Scope, query: str, name: Name) -> Any:
    """The tree of a view's query; its names without a database are of the view's."""
    tree: Any = reader(()).read(pieces(query)[0])
    catalog, database, _ = scope.full_name(name)
    for table in [t for t in tree.find_all(exp.Table) if not _is_cte(t)]:
        if not table.db:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True)))
            table.set("db", exp.to_identifier(database, quoted=True))
        if not table.catalog and catalog:
            table.set("catalog", exp.to_identifier(catalog, quoted=True))
    return tree


def _with_computed(tree: exp.Expression, node: exp.Table, name: Name, table: Any) -> exp.Table:
    """The node of the table itself: where the query may ask for computed columns, a subquery that computes
    them stands around it."""
    shape = TableDefinition.of_schema(table.store.schema) if isinstance(table, Table) else None
    if isinstance(table, ConnectorTable):
        shape = table.definition
    if shape is None or not shape.computed:
        return node
    asked = {part.name for part in tree.find_all(exp.Identifier)}
    natural = any(join.method == "NATURAL" for join in tree.find_all(exp.Join))
    if natural or any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        asked.update(shape.names)
    expressions = {c.name: c.expression for c in shape.computed if c.name in asked}
    if not expressions:
        return node
    columns = [_column(n, expressions.get(n)) for n in shape.names if n in asked]
    inner = node.copy()
    inner.set("alias", None)
    alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
    for column in tree.find_all(exp.Column) if not node.alias else ():
        whole = tuple(part.name for part in column.parts[:-1])
        if len(whole) > 1 and whole == name.parts[-len(whole) :]:
            column.set("db", None)
            column.set("catalog", None)
    node.replace(
        exp.Subquery(this=exp.Select(expressions=columns).from_(inner, copy=False), alias=alias.copy())
    )
    return inner


def _column(name: str, expression: str | None) -> Any:
    """A column of the subquery, stored or computed."""
    if expression is None:
        return exp.column(exp.to_identifier(name, quoted=True))
    tree = read_expression(expression).transform(_now, copy=False)
    for part in tree.walk():
        part.meta.clear()  # places in a text that is not the statement's
    return exp.alias_(exp.paren(tree, copy=False), name, quoted=True, copy=False)


def _is_now(value: exp.Expr) -> bool:
    called = isinstance(value, exp.Anonymous) and value.name.upper() in ("PROCTIME", "NOW")
    word = isinstance(value, exp.Column) and not value.table and value.name.upper() == "LOCALTIMESTAMP"
    return called or word or isinstance(value, exp.CurrentTimestamp)


def _now(node: Any) -> Any:
    return (
        exp.CurrentTimestamp()
        if isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME"
        else node
    )


def _table(scope: Scope, node: exp.Table, name: Name) -> Any:
    if node.args.get("sample") or node.args.get("pivots"):
        raise Unsupported("TABLESAMPLE and PIVOT")
    options = {k: v for k, v in hint_options(node).items() if k != HINT}
    temporary = scope.temporary_table(name)
    if temporary is not None:
        if node.args.get("version") is not None:
            raise InvalidRequest(f"{name} is a temporary table: it has no versions")
        return ConnectorTable(str(name), temporary.with_options(options), scope.roots)
    table = _with_hints(scope, name, options) if options else scope.table(name)
    version = node.args.get("version")
    return table if version is None else _at(table, version, name)


def _with_hints(scope: Scope, name: Name, options: dict[str, str]) -> Any:
    """The table with options of this use; of the system tables those of rows take them."""
    base, _, system = name.parts[-1].rpartition("$")
    of_rows = doors.system_tables_of_rows() if base else ()
    if system in of_rows:
        return scope.table(Name((*name.parts[:-1], base), name.at), options).system(system)
    require_inside(scope.roots, options)
    table: Any = scope.table(name)
    if not hasattr(table, "with_options"):
        raise InvalidRequest(
            f"{name} is a system table: it takes no options; those of rows do: {', '.join(of_rows)}"
        )
    return table.with_options(options)


def hint_options(node: exp.Table) -> dict[str, str]:
    """The options that `/*+ OPTIONS('key' = 'value') */` behind a table's name gives. Raises SqlProblem for
    another hint."""
    return options_of([str(text) for hint in node.args.get("hints") or () for text in hint.expressions])


def _at(table: Any, version: exp.Version, name: Name) -> Any:
    """The table as VERSION AS OF or TIMESTAMP AS OF say; of a time that a column gives, as it is now."""
    when = version.expression
    if version.args.get("kind") != "AS OF":
        raise Unsupported(f"{version.args.get('kind')} of a table", "AS OF is")
    if not hasattr(table, "at"):
        raise InvalidRequest(f"{name} is a system table: it has no versions")
    if isinstance(when, exp.Column):
        return table
    value = value_of(when)
    if version.name.upper() == "TIMESTAMP":
        if not isinstance(value, str | int | dt.date):
            raise InvalidRequest(f"{value!r} is no time")
        return table.at(timestamp=value)
    if isinstance(value, int):
        return table.at(snapshot=value)
    if not isinstance(value, str):
        raise InvalidRequest(f"{value!r} is no snapshot and no tag")
    return table.at(tag=value)


def condition(table: Table, text: str) -> exp.Expr:
    """What the rows of the partitions have. Raises InvalidRequest, NotFound for a column that is no partition
    column."""
    if not table.partition_by:
        raise InvalidRequest(f"{HINT}: table {table.name} is not partitioned")
    newest = _NEWEST.get(text.strip().lower())
    specs = _written(text) if newest is None else _greatest(table, newest)
    types = {f.name: f.type for f in table.store.schema.partition_fields}
    for name in (name for spec in specs for name in spec):
        if name not in types:
            raise NotFound.among("partition column", name, types)
    tests = [[_test(name, value, types[name]) for name, value in spec.items()] for spec in specs]
    return exp.or_(*(exp.and_(*terms) for terms in tests)) if tests else exp.false()


def _written(text: str) -> list[dict[str, str]]:
    partitions = []
    for spec in filter(str.strip, text.split(";")):
        pairs = [term.partition("=") for term in spec.split(",")]
        if any(not sign or not name.strip() for name, sign, _ in pairs):
            raise InvalidRequest(f"{HINT} is 'dt=a,h=1;dt=b', 'max_pt()' or 'max_two_pt()', not {text!r}")
        partitions.append({name.strip(): value.strip() for name, _, value in pairs})
    return partitions


def _greatest(table: Table, count: int) -> list[Mapping[str, str]]:
    """The greatest partitions that hold files."""
    store = table.store
    entries = store.manifests.live_entries(store.snapshots.latest())
    partitions = {store.partition_values(e.partition) for e in entries}
    chosen = sorted((values for values in partitions if None not in values), reverse=True)[:count]
    fields = store.schema.partition_fields
    return [{f.name: cast_text(v, f.type) for f, v in zip(fields, values, strict=True)} for values in chosen]


def _test(name: str, text: str, t: DataType) -> exp.Expr:
    value: exp.Expr = exp.Literal.string(text)
    if t.root in _WHOLE:
        value = exp.Literal.number(text)
    elif t.root in ("DATE", "BOOLEAN"):
        value = exp.Cast(this=value, to=exp.DataType.build(t.root))
    return exp.EQ(this=exp.column(exp.to_identifier(name, quoted=True)), expression=value)
