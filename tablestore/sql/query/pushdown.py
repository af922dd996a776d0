"""What each table of a query must give: columns, rows, how many. Derived by sqlglot's optimizer from a copy.

The query that runs keeps all its conditions, so what is pushed down only has to select enough; only a limit
needs the exact condition. Pure, but that stars of the tree are spelled out where columns are left away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.pushdown_predicates import pushdown_predicates
from sqlglot.optimizer.pushdown_projections import pushdown_projections
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.optimizer.simplify import simplify

from tablestore.core.errors import NotFound
from tablestore.format.predicates.predicate import Predicate, all_of, any_of
from tablestore.format.schema import TableSchema
from tablestore.sql.dialect.parser import LakeSql
from tablestore.sql.problems import placed, start_of
from tablestore.sql.query.conditions import predicate_over

_MOST_NODES = 4_000  # of a tree that is worth the optimizer's time
_PLACE, _SELECT = "place", "select"  # keys of the tree's notes


@dataclass(frozen=True, slots=True)
class TableRead:
    """What a scan of one occurrence is asked for; `why` says what kept something from being pushed down,
    `exact` that these are just the rows of the query, `counted` that only their number matters."""

    columns: tuple[str, ...]
    where: Predicate | None = None
    limit: int | None = None
    why: str = ""
    exact: bool = False
    counted: bool = False


def reads(tree: exp.Expression, views: Sequence[str], schemas: Sequence[TableSchema]) -> list[TableRead]:
    """What each table must give, in the order of `views`, the names by which the tree knows them. Rows that
    are only counted are so by one small column."""
    pairs = zip(_reads(tree, views, schemas), schemas, strict=True)
    return [r if r.columns else replace(r, columns=(_smallest(s),), counted=True) for r, s in pairs]


def _smallest(schema: TableSchema) -> str:
    fields = schema.shown.fields
    small = [
        f.name for f in fields if f.type.root in ("TINYINT", "BOOLEAN", "SMALLINT", "INT", "DATE", "BIGINT")
    ]
    return next(iter([*(k for k in schema.shown.primary_keys if k in small), *small, fields[0].name]))


def _reads(tree: exp.Expression, views: Sequence[str], schemas: Sequence[TableSchema]) -> list[TableRead]:
    single = alone(tree)
    if single is not None:
        return [_single(single, schemas[0])]
    if sum(1 for _ in tree.walk()) > _MOST_NODES:
        return [TableRead(s.shown.names, why="the query is too long to plan") for s in schemas]
    try:
        return _optimized(tree, views, schemas)
    except (SqlglotError, RecursionError) as e:
        return [TableRead(s.shown.names, why=f"not planned: {type(e).__name__}") for s in schemas]


def require_columns(tree: exp.Expression, schemas: Sequence[TableSchema], text: str) -> None:
    """Raise NotFound, at its place, for a column that neither a table nor the query itself has, and for one
    of a table that the query does not name."""
    stored = list(dict.fromkeys(name for s in schemas for name in s.shown.names))
    names_within = {
        node.name for node in tree.find_all(exp.Identifier) if not isinstance(node.parent, exp.Column)
    }
    names_within |= {star.name for star in tree.find_all(exp.TableAlias)}
    if tree.find(exp.Values, exp.Unnest) is not None:
        return  # these name columns themselves
    for column in tree.find_all(exp.Column):
        names = [part.name for part in column.parts]
        if len(names) > 1 and names[0] not in names_within and names[0] not in stored:
            tables = {t.alias_or_name for t in tree.find_all(exp.Table, exp.Subquery)} - {""}
            raise placed(NotFound.among("table", names[0], sorted(tables)), text, start_of(column))
        wanted = names[-1:] + [n for n in names[:-1] if n in stored]  # the latter: a part of a ROW
        if isinstance(column.this, exp.Star) or any(n in names_within or n in stored for n in wanted):
            continue
        if len(names) == 1 and names[0].upper() in ("LOCALTIMESTAMP", "LOCALTIME", "CURRENT_TIME", "MAP"):
            continue
        raise placed(NotFound.among("column", names[-1], stored), text, start_of(column))


def alone(tree: exp.Expression) -> exp.Select | None:
    """A SELECT of one table and nothing else, for which no optimizer is needed."""
    if type(tree) is not exp.Select or tree.args.get("with_") or tree.args.get("joins"):
        return None
    if tree.args.get("laterals") or tree.args.get("from_") is None:
        return None
    source = tree.args["from_"].this
    if not isinstance(source, exp.Table) or source.args.get("joins"):
        return None
    inner = tree.find(exp.Subquery, exp.Exists, exp.Unnest, exp.Union)
    queries = [q for q in tree.find_all(exp.Query) if q is not tree and not isinstance(q, exp.Table)]
    return None if inner is not None or queries else tree


def _single(select: exp.Select, schema: TableSchema) -> TableRead:
    named = set()
    for column in select.find_all(exp.Column):
        named |= {part.name for part in column.parts}
    star = any(isinstance(e.find(exp.Star), exp.Star) and not e.find(exp.Count) for e in select.expressions)
    columns = tuple(n for n in schema.shown.names if star or n in named)
    where, alias = select.args.get("where"), select.args["from_"].this.alias_or_name
    exactly = implied = None
    if where is not None and all(c.table in ("", alias) for c in where.find_all(exp.Column)):
        exactly = predicate_over(where.this, schema)
        implied = _implied(where.this, None, schema) if exactly is None else exactly
    whole = where is None or exactly is not None
    limit = _limit(select) if whole else None
    rest = ("group", "having", "order", "distinct", "qualify", "windows", "offset", "sort", "cluster")
    exact = whole and not any(select.args.get(part) for part in rest)
    exact = exact and (select.args.get("limit") is None or limit is not None)
    return TableRead(columns, implied, limit, exact=exact)


def _limit(select: exp.Select) -> int | None:
    """How many rows are enough, where any will do."""
    limit, offset = select.args.get("limit"), select.args.get("offset")
    if not isinstance(limit, exp.Limit):
        return None
    if any(select.args.get(part) for part in ("group", "having", "order", "distinct", "qualify", "windows")):
        return None
    if any(e.find(exp.AggFunc, exp.Window, exp.Anonymous) for e in select.expressions):
        return None
    counts = [limit.expression, *([] if offset is None else [offset.expression])]
    if not all(isinstance(c, exp.Literal) and c.name.isdecimal() for c in counts):
        return None
    return sum(int(c.name) for c in counts)


def _optimized(tree: exp.Expression, views: Sequence[str], schemas: Sequence[TableSchema]) -> list[TableRead]:
    for place, select in enumerate(tree.find_all(exp.Select)):
        select.meta[_SELECT] = place
    _name_subqueries(tree)
    columns_of: dict[str, object] = {
        v: {f.name: "UNKNOWN" for f in s.shown.fields} for v, s in zip(views, schemas, strict=True)
    }
    copy: Any = tree.copy()
    _short_exists(copy)
    copy = qualify(copy, schema=columns_of, dialect=LakeSql, validate_qualify_columns=False)
    names = dict(zip(views, range(len(views)), strict=True))
    whole = _columns(copy, names)
    copy = pushdown_projections(copy)
    _spell_stars(tree, copy)
    written = {part.name for c in tree.find_all(exp.Column) for part in c.parts}
    # what runs is `tree`, so a column that nobody needs is read all the same where a subquery names it
    columns = [used | (of_all & written) for used, of_all in zip(_columns(copy, names), whole, strict=True)]
    copy = simplify(pushdown_predicates(copy, dialect=LakeSql), dialect=LakeSql)
    wheres: list[Predicate | None] = [None] * len(views)
    for scope, name, place in _sources(copy, names):
        terms = [_implied(c, name, schemas[place]) for c in _conditions(scope, name)]
        condition = all_of(*(t for t in terms if t is not None))
        wheres[place] = condition if any(t is not None for t in terms) else None
    ordered = [tuple(n for n in s.shown.names if n in c) for s, c in zip(schemas, columns, strict=True)]
    return [TableRead(c, w) for c, w in zip(ordered, wheres, strict=True)]


def _columns(tree: exp.Expression, names: dict[str, int]) -> list[set[str]]:
    """The columns of each table that a tree with whole names is of."""
    columns: list[set[str]] = [set() for _ in names]
    for scope, name, place in _sources(tree, names):
        columns[place] |= {c.name for c in scope.columns if c.table == name}
    return columns


def _name_subqueries(tree: exp.Expression) -> None:
    """A subquery in FROM that has no name gets one: columns that stars become are called by it."""
    for number, query in enumerate(tree.find_all(exp.Subquery)):
        if isinstance(query.parent, exp.From | exp.Join) and not query.alias:
            query.set("alias", exp.TableAlias(this=exp.to_identifier(f"_query_{number}", quoted=True)))


def _short_exists(tree: exp.Expression) -> None:
    """EXISTS asks whether there are rows, so it needs no columns: SELECT * becomes SELECT 1."""
    for exists in tree.find_all(exp.Exists):
        select = exists.this.unnest() if isinstance(exists.this, exp.Expression) else None
        if isinstance(select, exp.Select) and not select.args.get("group") and select.is_star:
            select.set("expressions", [exp.Literal.number(1)])


def _spell_stars(tree: exp.Expression, copy: exp.Expression) -> None:
    """Stars of the tree become the columns that the optimizer's copy needs of them."""
    spelled = {s.meta.get(_SELECT): s for s in copy.find_all(exp.Select)}
    for select in list(tree.find_all(exp.Select)):
        columns = spelled.get(select.meta.get(_SELECT))
        if not select.is_star or isinstance(select.parent, exp.Exists):
            continue
        if isinstance(select.parent, exp.Subquery) and isinstance(select.parent.parent, exp.Exists):
            continue
        if columns is not None:
            select.set("expressions", [e.copy() for e in columns.expressions])


def _sources(tree: exp.Expression, names: dict[str, int]) -> Iterator[tuple[Scope, str, int]]:
    """Every occurrence of a table: its scope, its name there, its place among the views."""
    for scope in traverse_scope(tree):
        for name, (_, source) in scope.selected_sources.items():
            if isinstance(source, exp.Table) and source.name in names:
                yield scope, name, names[source.name]


def _conditions(scope: Scope, name: str) -> Iterator[exp.Expression]:
    """Conditions that every row of the source must pass: WHERE, and ON of its own join, where no outer join
    could bring the row back."""
    select = scope.expression
    if not isinstance(select, exp.Select):
        return
    joins = select.args.get("joins") or []
    if any(j.side.upper() in ("RIGHT", "FULL") or j.args.get("method") for j in joins):
        return
    own = next((j for j in joins if j.alias_or_name == name), None)
    where = select.args.get("where")
    if where is not None and (own is None or not own.side):
        yield where.this
    if own is not None and own.args.get("on") is not None:
        yield own.args["on"]


def _implied(tree: Any, name: str | None, schema: TableSchema) -> Predicate | None:
    """A predicate on one table that is true wherever the condition is; None if nothing follows for it."""
    if isinstance(tree, exp.Paren):
        return _implied(tree.this, name, schema)
    if isinstance(tree, exp.And):
        terms = [t for t in (_implied(p, name, schema) for p in tree.flatten()) if t is not None]
        return all_of(*terms) if terms else None
    if isinstance(tree, exp.Or):
        either = [_implied(p, name, schema) for p in tree.flatten()]
        return None if any(t is None for t in either) else any_of(*(t for t in either if t is not None))
    columns = list(tree.find_all(exp.Column))
    if not columns or (name is not None and any(c.table != name for c in columns)):
        return None
    return predicate_over(tree, schema)
