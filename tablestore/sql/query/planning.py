"""A query made ready: checked, its tables found and named, and what each of them must give.

What Flink SQL refuses for its types is refused before anything runs: a condition that is no BOOLEAN, a number
compared with a text, a sum of texts. Types that are not known pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import InvalidRequest
from tablestore.format.predicates.predicate import Compare, conjuncts
from tablestore.format.schema import TableSchema
from tablestore.format.types.data_type import DataType, to_arrow
from tablestore.sql.connectors.connector import ConnectorTable
from tablestore.sql.filling import cells_of
from tablestore.sql.problems import placed, placing, start_of
from tablestore.sql.query.conditions import value_of
from tablestore.sql.query.numeric_types import NUMBERS
from tablestore.sql.query.pushdown import TableRead, alone, reads, require_columns
from tablestore.sql.query.tables import Occurrence, occurrences, require_distinct
from tablestore.sql.query.translation import require_allowed, with_names
from tablestore.sql.query.type_inference import MISMATCH, Columns, columns_of, note_types, type_of
from tablestore.sql.scope import Scope
from tablestore.sql.text import Name
from tablestore.table.lazy_read import table_schema
from tablestore.table.lookup import one_key
from tablestore.table.scan import Scan, snapshot_scan
from tablestore.table.table import Table

_VIEW = "__table_{}"


@dataclass(frozen=True, slots=True)
class TableOccurrence:
    """One occurrence of a table: `view` is its name in the tree, `read` what it must give; `lookup`: it is
    joined FOR SYSTEM_TIME AS OF a column of the other side."""

    view: str
    name: Name
    whole: Any
    read: TableRead
    table: Any
    lookup: bool = False

    def scan(self) -> Any:
        """The rows, as a scan; `whole` is the scan of all of them."""
        scan = self.whole.select(list(self.read.columns))
        scan = scan if self.read.where is None else scan.filter(self.read.where)
        return scan if self.read.limit is None else scan.head(self.read.limit)


@dataclass(frozen=True, slots=True)
class ScanResult:
    """A query that a scan answers alone: `columns` of it under other `names`, in this order. With a `table` a
    lookup by the key that the condition names does."""

    scan: Any
    columns: tuple[str, ...]
    names: tuple[str, ...]
    table: Any = None

    def rows(self) -> pa.RecordBatchReader:
        """The rows, as they are read."""
        fields = [
            self.scan.schema.field(c).with_name(n) for c, n in zip(self.columns, self.names, strict=True)
        ]
        schema = pa.schema(fields)
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for batch in self.scan.to_batches() if self.table is None else self._looked_up():
            yield pa.RecordBatch.from_arrays([batch.column(c) for c in self.columns], schema=schema)

    def _looked_up(self) -> Iterator[pa.RecordBatch]:
        key = one_key(self.scan, self.scan.where)
        rows = () if key is None else self.table.get_many(key, list(dict.fromkeys(self.columns))).to_batches()
        yield from rows


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A tree whose tables are `sources`; `direct` where a scan answers it, `literals` where its rows are
    written out: no engine is needed then. `columns` are those of its rows, with their types where these are
    known."""

    tree: exp.Expression
    sources: tuple[TableOccurrence, ...]
    direct: ScanResult | None = None
    columns: Columns = ()
    literals: pa.Table | None = None

    def without_engine(self) -> pa.RecordBatchReader | None:
        """The rows, where no engine is needed."""
        if self.literals is not None:
            return self.literals.to_reader()
        return None if self.direct is None else self.direct.rows()


def prepared(scope: Scope, tree: exp.Expression, text: str, *, stream: bool = False) -> BoundQuery:
    """The query, ready to run; `tree` is not changed. For a `stream` the scans say which columns there are,
    and no snapshot is chosen. Raises what a query may not have, and NotFound, with their places in the text.
    """
    require_allowed(tree, text)
    tree = tree.copy()
    places = occurrences(scope, tree, text)
    require_allowed(tree, text)  # views as well
    scans = [_columns_of(place.table) for place in places] if stream else _scans(places)
    schemas = [schema_of(scan) for scan in scans]
    if places:
        require_columns(tree, schemas, text)
    hinted = any(place.node.args.get("hints") for place in places)
    lookups = [is_lookup(place.node) for place in places]
    views = [_VIEW.format(number) for number in range(len(places))]
    for view, place in zip(views, places, strict=True):
        _rename(tree, place, view)
    fields = [columns_of(schema.shown.fields) for schema in schemas]
    columns = note_types(tree, dict(zip(views, fields, strict=True)))
    require_types(tree, text)
    literals = _literal_rows(tree, columns) if isinstance(tree, exp.Values) else None
    tree = with_names(tree)
    asked = reads(tree, views, schemas) if places else []
    parts = zip(views, places, scans, asked, lookups, strict=True)
    sources = tuple(
        TableOccurrence(view, place.name, scan, read, place.table, by)
        for view, place, scan, read, by in parts
    )
    direct = None if stream else _direct(tree, sources, schemas)
    if direct is None:
        _require_distinct(tree, sources, text)
    if direct is not None and not hinted and _names_a_key(direct.scan):
        direct = replace(direct, table=places[0].table)
    return BoundQuery(tree, sources, direct, columns, literals)


def _literal_rows(values: exp.Values, columns: Columns) -> pa.Table | None:
    """The rows of VALUES as they are written; None where they are more than literals of one kind a column."""
    cells = list(zip(*cells_of(values), strict=False))
    ragged = any(len(row) != len(cells) for row in cells_of(values))
    if (
        ragged
        or len(cells) != len(columns)
        or any(values.args.get(part) for part in ("order", "limit", "offset"))
    ):
        return None
    arrays = [_literal_column(column, t) for column, (_, t) in zip(cells, columns, strict=True)]
    whole = all(array is not None for array in arrays)
    return pa.table(arrays, names=[name for name, _ in columns]) if whole else None


def _literal_column(cells: Sequence[exp.Expression], t: DataType | None) -> pa.Array | None:
    try:
        values = [value_of(cell) for cell in cells]
    except InvalidRequest:
        return None
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values))
    if t is None or any(isinstance(cell, exp.Cast) for cell in cells):
        return None
    if kinds == {str} and t.is_string:
        return pa.array(values, pa.string())
    exact = t.root == "DECIMAL" and Decimal in kinds and kinds <= {int, Decimal}
    if exact or (kinds == {int} and t.root in ("INT", "BIGINT")):
        return pa.array(values, to_arrow(t))
    return pa.array(values) if kinds == {bool} else None


def _require_distinct(tree: exp.Expression, sources: Sequence[TableOccurrence], text: str) -> None:
    """Raise Unsupported, with its place, for columns of a table or of a query in FROM that differ in case
    only: the engine would read one for the other."""
    for source in sources:
        with placing(text, source.name.at):
            require_distinct(source.read.columns, source.name)
    queries: Any = tree.find_all(exp.Subquery, exp.CTE, exp.Values)
    for node in queries:
        query = None if isinstance(node, exp.Values) else node.this
        names = node.alias_column_names or ([] if query is None else query.named_selects)
        with placing(text, start_of(node)):
            require_distinct(dict.fromkeys(names), node.alias or "a query")


def is_lookup(node: exp.Table) -> bool:
    """Whether a table is read as of a column of the other side."""
    version = node.args.get("version")
    return version is not None and isinstance(version.expression, exp.Column)


def _names_a_key(scan: Any) -> bool:
    """Whether the condition of a scan of a whole snapshot is one value for each column of the primary key."""
    if not isinstance(scan, Scan) or scan.where is None or not scan.whole or scan.other is not None:
        return False
    schema, parts = scan.store.schema, conjuncts(scan.where)
    exact = all(isinstance(p, Compare) and p.op == "=" for p in parts)
    kinds = {f.type.root for f in schema.columns(schema.primary_keys)}
    named = sorted(name for p in parts for name in p.columns)
    stored = any(name.startswith(("scan.", "incremental-")) for name in schema.options)
    return (
        bool(named)
        and exact
        and not stored
        and named == sorted(schema.primary_keys)
        and scan.limit is None
        and not kinds & {"FLOAT", "DOUBLE"}  # 0.0 and −0.0 are two keys, and equal
    )


def _direct(
    tree: exp.Expression, sources: Sequence[TableOccurrence], schemas: Sequence[TableSchema]
) -> ScanResult | None:
    """The query as a scan, if it only chooses columns, and rows by a condition that the scan can test."""
    select = alone(tree)
    if select is None or not sources[0].read.exact:
        return None
    source, names = sources[0], schemas[0].shown.names
    alias = select.args["from_"].this.alias_or_name
    chosen: list[tuple[str, str]] = []
    for shown in select.expressions:
        column = shown.this if isinstance(shown, exp.Alias) else shown
        if isinstance(shown, exp.Star) and not any(shown.args.values()):
            chosen += [(name, name) for name in names]
        elif isinstance(column, exp.Column) and column.name in names and column.table in ("", alias):
            chosen.append((column.name, shown.alias_or_name))
        else:
            return None
    shown_names = [name for _, name in chosen]
    if not chosen or len(set(shown_names)) < len(shown_names) or any(not n for n in shown_names):
        return None
    return ScanResult(source.scan(), tuple(c for c, _ in chosen), tuple(shown_names))


def _scans(places: Sequence[Occurrence]) -> list[Any]:
    """A scan of every occurrence; those of one table see one snapshot."""
    by_name: dict[tuple[str, ...], Any] = {}
    scans = []
    for place in places:
        as_it_is = not place.node.args.get("version") and not place.node.args.get("hints")
        scan = by_name.get(place.name.parts) if as_it_is else None
        scan = place.table.scan() if scan is None else scan
        if as_it_is:
            by_name[place.name.parts] = scan
        scans.append(scan)
    return scans


def _columns_of(table: Any) -> Any:
    """A scan that knows the columns of a table, and has no rows."""
    if isinstance(table, Table):
        return snapshot_scan(table.store, None)
    return table.without_rows() if isinstance(table, ConnectorTable) else table.scan()


def schema_of(scan: Any) -> TableSchema:
    """The columns that a scan can give."""
    return scan.store.schema if isinstance(scan, Scan) else table_schema(scan.schema)


def _rename(tree: exp.Expression, place: Occurrence, view: str) -> None:
    """The occurrence under the name of its view; columns that name its database no longer do."""
    node, parts = place.node, place.name.parts
    alias = node.alias_or_name
    for column in tree.find_all(exp.Column) if not node.alias and len(parts) > 1 else ():
        named = tuple(p.name for p in column.parts[:-1])
        if len(named) > 1 and named == parts[-len(named) :]:
            column.set("db", None)
            column.set("catalog", None)
    for part in ("db", "catalog", "version", "hints"):
        node.set(part, None)
    node.set("this", exp.to_identifier(view, quoted=True))
    if not node.alias:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_OF_NUMBERS = (exp.Sum, exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)
_TIMES = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


def require_types(tree: exp.Expression, text: str) -> None:
    """Raise InvalidRequest, at its place, for operands of types that an operator does not take."""
    nodes: Any = tree.walk()
    for node in nodes:
        problem = _problem(node)
        if problem:
            raise placed(InvalidRequest(problem), text, start_of(node, start_of(node.parent)))


def _problem(node: exp.Expr) -> str:
    if isinstance(node, exp.Where | exp.Having | exp.And | exp.Or | exp.Not | exp.Case):
        return _no_condition(_conditions(node))
    if isinstance(node, _COMPARED):
        return _incomparable(node.this, node.expression)
    if isinstance(node, exp.Between):
        return _incomparable(node.this, node.args["low"]) or _incomparable(node.this, node.args["high"])
    if isinstance(node, _ARITHMETIC):
        return _no_numbers(node)
    if isinstance(node, _OF_NUMBERS):
        t = type_of(node.this)
        if t is not None and _family(t) not in ("number", ""):
            return f"{node.sql_name()} takes numbers, not {_shown(t)}"
    if isinstance(node, exp.SetOperation) and node.meta.get(MISMATCH):
        return f"the two sides of {node.key.upper()} differ in column {node.meta[MISMATCH]}: CAST one of them"
    return ""


def _conditions(node: exp.Expr) -> Sequence[Any]:
    if isinstance(node, exp.Where | exp.Having | exp.Not):
        return (node.this,)
    if isinstance(node, exp.And | exp.Or):
        return (node.this, node.expression)
    return () if node.this is not None else [i.this for i in node.args["ifs"]]


def _no_condition(nodes: Sequence[Any]) -> str:
    for node in nodes:
        t = type_of(node)
        if t is not None and t.root not in ("BOOLEAN", "NULL"):
            return f"a condition is expected, not {_shown(t)}"
    return ""


def _incomparable(a: Any, b: Any) -> str:
    left, right = type_of(a), type_of(b)
    if left is None or right is None or isinstance(b, exp.Query | exp.Any | exp.All):
        return ""
    family, other = _family(left), _family(right)
    literal = (isinstance(a, exp.Literal) and other == "time") or (
        isinstance(b, exp.Literal) and family == "time"
    )
    if family == other or "" in (family, other) or (literal and "text" in (family, other)):
        return ""
    return f"{_shown(left)} and {_shown(right)} are not compared: CAST one of them"


def _no_numbers(node: exp.Expr) -> str:
    types = [type_of(node.this), type_of(node.expression)]
    families = [_family(t) for t in types if t is not None]
    bad = [t for t in types if t is not None and _family(t) in ("text", "boolean", "bytes")]
    if len(families) == 2 and bad:
        sign = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}[node.key]
        return f"{sign} takes numbers, not {_shown(bad[0])}"
    return ""


def _family(t: DataType) -> str:
    if t.root in NUMBERS:
        return "number"
    if t.is_string:
        return "text"
    if t.is_binary:
        return "bytes"
    return "time" if t.root in _TIMES else "boolean" if t.root == "BOOLEAN" else ""


def _shown(t: DataType) -> str:
    return str(t.as_nullable())
