"""The type of every expression of a query, as Flink SQL gives it, noted at the nodes of its tree.

What an operator means depends on its operands: `/` of whole numbers cuts, AVG of whole numbers is whole,
decimals have digits of their own. `note_types` finds the types from the columns of the tables up; where one
is not known there is none, and the engine's own meaning stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from tablestore.format.types.data_type import MAX_LENGTH, DataField, DataType, nested
from tablestore.sql.query.numeric_types import (
    NULL,
    NUMBERS,
    arithmetic,
    average_type,
    common,
    function_type,
    sum_type,
)

_TYPE = "type"  # key of a node's notes
MISMATCH = "mismatch"  # key of a UNION's notes: the first column whose types have nothing in common, from 1
Columns = Sequence[tuple[str, DataType | None]]
_ROOTS = {
    **{exp.DType.BOOLEAN: "BOOLEAN", exp.DType.TINYINT: "TINYINT", exp.DType.SMALLINT: "SMALLINT"},
    **{
        exp.DType.INT: "INT",
        exp.DType.BIGINT: "BIGINT",
        exp.DType.FLOAT: "FLOAT",
        exp.DType.DOUBLE: "DOUBLE",
    },
    **{exp.DType.DECIMAL: "DECIMAL", exp.DType.CHAR: "CHAR", exp.DType.VARCHAR: "VARCHAR"},
    **{exp.DType.TEXT: "VARCHAR", exp.DType.BINARY: "BINARY", exp.DType.VARBINARY: "VARBINARY"},
    **{exp.DType.DATE: "DATE", exp.DType.TIME: "TIME", exp.DType.TIMESTAMP: "TIMESTAMP"},
    **{exp.DType.TIMESTAMPNTZ: "TIMESTAMP", exp.DType.TIMESTAMPLTZ: "TIMESTAMP_LTZ"},
}
_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_TESTS = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Or, exp.Not, exp.In, exp.Between),
    *(exp.Like, exp.ILike, exp.Escape, exp.RegexpLike),
)
_SURE = (exp.Is, exp.Exists, exp.NullSafeEQ, exp.NullSafeNEQ)  # tests that are never NULL
_SAME = (
    exp.Paren,
    exp.Neg,
    exp.Alias,
    exp.Filter,
    exp.Window,
    exp.IgnoreNulls,
    exp.RespectNulls,
    exp.Distinct,
)
_OF_ARGUMENT = (exp.Min, exp.Max, exp.FirstValue, exp.LastValue, exp.NthValue, exp.Lag, exp.Lead)
_COUNTS = (exp.Count, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile)
_SPREADS = (exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)


def type_of(node: Any) -> DataType | None:
    """The type that `note_types` found for an expression."""
    kind: DataType | None = node.meta.get(_TYPE) if isinstance(node, exp.Expr) else None
    return kind


def note_types(tree: exp.Expression, tables: Mapping[str, Columns]) -> Columns:
    """Note the type of each expression at its node; gives the columns of the query. `tables` are columns by
    the names of tables in the tree."""
    return _query(tree, tables, None)


def columns_of(fields: Iterable[DataField]) -> Columns:
    """The columns of a table."""
    return [(f.name, f.type) for f in fields]


def cast_type(to: exp.DataType, *, nullable: bool = True) -> DataType | None:
    """The type that a CAST names; None for one that columns cannot have."""
    inner = [e for e in to.expressions if isinstance(e, exp.DataType)]
    if to.this in (exp.DType.ARRAY, exp.DType.MAP):
        types = [cast_type(e) for e in inner]
        present = [t for t in types if t is not None]
        wanted = 1 if to.this is exp.DType.ARRAY else 2
        return nested(to.this.value, *present, nullable=nullable) if len(present) == wanted else None
    if to.this is exp.DType.STRUCT:
        fields = [(e.name, cast_type(e.args["kind"])) for e in to.expressions if isinstance(e, exp.ColumnDef)]
        return _row(fields, nullable=nullable)
    root = _ROOTS.get(to.this)
    if root is None:
        return None
    numbers = [int(e.name) for e in to.expressions if e.name.isdecimal()]
    if root == "DECIMAL":
        return DataType(root, nullable, (numbers or [10])[0], scale=sum(numbers[1:]))
    usual = {"TIMESTAMP": 6, "TIMESTAMP_LTZ": 6, "CHAR": 1, "BINARY": 1}
    usual |= {"VARCHAR": MAX_LENGTH, "VARBINARY": MAX_LENGTH}
    return DataType(root, nullable, numbers[0] if numbers and root != "TIME" else usual.get(root, 0))


def _row(fields: Sequence[tuple[str, DataType | None]], *, nullable: bool) -> DataType | None:
    if any(t is None for _, t in fields):
        return None
    fields_of_row = tuple(DataField(i, name, t) for i, (name, t) in enumerate(fields) if t is not None)
    return DataType("ROW", nullable, children=fields_of_row)


class _SelectScope:
    """The sources that columns of one SELECT may be of, and those around it."""

    def __init__(self, outer: _SelectScope | None) -> None:
        self.outer = outer
        self.sources: dict[str, Columns] = {}

    def column(self, node: exp.Column) -> DataType | None:
        """The type of a column, or of a part of a ROW: `t.r.x`."""
        names = [part.name for part in node.parts]
        for scope in self._scopes():
            if len(names) > 1 and names[0] in scope.sources:
                kind = dict(scope.sources[names[0]]).get(names[1])
                return _parts(kind, names[2:])
            among = [dict(s)[names[0]] for s in scope.sources.values() if names[0] in dict(s)]
            if among:
                first = among[0]
                same = all(t is not None and first is not None and t.root == first.root for t in among)
                return _parts(first if same or len(among) == 1 else None, names[1:])
        return None

    def _scopes(self) -> Iterator[_SelectScope]:
        scope: _SelectScope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


def _parts(t: DataType | None, names: Sequence[str]) -> DataType | None:
    for name in names:
        if t is None or t.root != "ROW":
            return None
        fields = {f.name: f.type for f in t.children}
        kind = fields.get(name)
        t = kind.as_nullable() if kind is not None and t.nullable else kind
    return t


def _query(node: exp.Expr, tables: Mapping[str, Columns], outer: _SelectScope | None) -> Columns:
    """The columns of a query, a table or anything else that gives rows."""
    ctes = node.args.get("with_")
    if ctes is not None:
        tables = dict(tables)
        for cte in ctes.expressions:
            if ctes.args.get("recursive") and isinstance(cte.this, exp.SetOperation):
                first = _query(cte.this.this, tables, outer)
                tables[cte.alias] = _renamed(first, cte)
            tables[cte.alias] = _renamed(_query(cte.this, tables, outer), cte)
    if isinstance(node, exp.SetOperation):
        left, right = _query(node.this, tables, outer), _query(node.expression, tables, outer)
        columns: list[tuple[str, DataType | None]] = []
        for place, ((name, a), (_, b)) in enumerate(zip(left, right, strict=False), 1):
            both = None if a is None or b is None else common((a, b))
            if both is None and a is not None and b is not None:
                node.meta.setdefault(MISMATCH, place)
            columns.append((name, both))
        return columns
    if isinstance(node, exp.Subquery | exp.Paren):
        return _query(node.this, tables, outer)
    if isinstance(node, exp.Values):
        return _values(node, tables, outer)
    if isinstance(node, exp.Select):
        return _select(node, tables, outer)
    return []


def _renamed(columns: Columns, node: exp.Expr) -> Columns:
    alias = node.args.get("alias")
    names = [c.name for c in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
    return [(n, t) for n, (_, t) in zip(names, columns, strict=False)] if names else columns


def _values(node: exp.Values, tables: Mapping[str, Columns], outer: _SelectScope | None) -> Columns:
    scope = _SelectScope(outer)
    _note(node, scope, tables)
    rows = [r.expressions if isinstance(r, exp.Tuple) else [r] for r in node.expressions]
    columns = []
    for place, column in enumerate(zip(*rows, strict=False)):
        types = [type_of(cell) for cell in column]
        present = [t for t in types if t is not None]
        columns.append((f"EXPR${place}", common(present) if len(present) == len(types) else None))
    return columns


def _select(node: exp.Select, tables: Mapping[str, Columns], outer: _SelectScope | None) -> Columns:
    scope = _SelectScope(outer)
    start = node.args.get("from_")
    if start is not None:
        _add_source(scope, start.this, tables, nullable=False)
    for join in node.args.get("joins") or ():
        _add_join(scope, join, tables)
    _note(node, scope, tables)
    columns_of_all: list[tuple[str, DataType | None]] = []
    for place, shown in enumerate(node.expressions):
        star = shown.this if isinstance(shown, exp.Column) else shown
        if isinstance(star, exp.Star):
            wanted = shown.table if isinstance(shown, exp.Column) else ""
            for name, columns in scope.sources.items():
                columns_of_all += columns if wanted in ("", name) else ()
        else:
            columns_of_all.append((shown.alias_or_name or f"EXPR${place}", type_of(shown)))
    return columns_of_all


def _add_join(scope: _SelectScope, join: exp.Join, tables: Mapping[str, Columns]) -> None:
    side = join.side.upper()
    if side in ("RIGHT", "FULL"):
        scope.sources = {name: _with_null(columns) for name, columns in scope.sources.items()}
    _add_source(scope, join.this, tables, nullable=side in ("LEFT", "FULL"))


def _with_null(columns: Columns) -> Columns:
    return [(n, None if t is None else t.as_nullable()) for n, t in columns]


def _add_source(
    scope: _SelectScope, node: exp.Expr, tables: Mapping[str, Columns], *, nullable: bool
) -> None:
    if isinstance(node, exp.Unnest):
        _note(node, scope, tables)
        columns = _unnested(node)
    elif isinstance(node, exp.Table):
        columns = tables.get(node.name, []) if not node.args.get("db") else []
    else:
        columns = _query(node, tables, scope)
    columns = _renamed(columns, node)
    scope.sources[node.alias_or_name] = _with_null(columns) if nullable else columns
    for join in node.args.get("joins") or ():
        _add_join(scope, join, tables)


def _unnested(node: exp.Unnest) -> Columns:
    """The columns of UNNEST: fields of a ROW, key and value of a map, else the element."""
    t = type_of(node.expressions[0]) if node.expressions else None
    if t is None or not t.children:
        return []
    element = t.children[0].type
    if t.root == "ARRAY" and element.root == "ROW":
        return [(f.name, f.type) for f in element.children]
    return [(f"f{i}", f.type) for i, f in enumerate(t.children)]


def _note(root: exp.Expr, scope: _SelectScope, tables: Mapping[str, Columns]) -> None:
    """Note the types of the expressions of one SELECT, the innermost first. Queries within are done by
    themselves, in this scope."""
    inner = [
        n
        for n in (root.args.get("from_"), *(root.args.get("joins") or ()), root.args.get("with_"))
        if n is not None
    ]
    skipped = {id(n) for n in inner}
    nodes: list[exp.Expr] = []

    def stop(node: exp.Expr) -> bool:
        return node is not root and (id(node) in skipped or isinstance(node, exp.Query))

    walked: Any = root.walk(bfs=True, prune=stop)
    nodes += [n for n in walked if id(n) not in skipped]
    for join in root.args.get("joins") or ():
        if join.args.get("on") is not None:
            conditions: Any = join.args["on"].walk(bfs=True, prune=stop)
            nodes += list(conditions)
    for node in reversed(nodes):
        if node is root:
            continue
        if isinstance(node, exp.Query):
            columns = _query(node, tables, scope)
            kind = columns[0][1] if len(columns) == 1 else None
            kind = None if kind is None else kind.as_nullable()
        else:
            kind = _expression(node, scope)
        if kind is not None:
            node.meta[_TYPE] = kind


def _expression(node: exp.Expr, scope: _SelectScope) -> DataType | None:
    if isinstance(node, exp.Column):
        kind = scope.column(node)
        return function_type(node.name.upper(), (), ()) if kind is None and len(node.parts) == 1 else kind
    if isinstance(node, exp.Literal):
        return literal_type(node)
    if isinstance(node, exp.Boolean):
        return DataType("BOOLEAN", False)
    if isinstance(node, exp.Null):
        return NULL
    if isinstance(node, exp.HexString):
        return DataType("BINARY", False, max(len(node.name) // 2, 1))
    if isinstance(node, exp.Cast):
        inner = type_of(node.this)
        sure = inner is not None and not inner.nullable and not isinstance(node, exp.TryCast)
        return cast_type(node.to, nullable=not sure)
    if isinstance(node, _SURE):
        return DataType("BOOLEAN", False)
    if isinstance(node, _TESTS):
        return DataType("BOOLEAN", _nullable(node))
    if isinstance(node, exp.DPipe):
        return DataType("VARCHAR", _nullable(node), MAX_LENGTH)
    if isinstance(node, exp.CurrentTimestamp):
        return DataType("TIMESTAMP_LTZ", False, 3)
    if isinstance(node, exp.CurrentDate):
        return DataType("DATE", False)
    return _computed(node)


def _computed(node: exp.Expr) -> DataType | None:
    operator = _OPERATORS.get(type(node))
    if operator is not None:
        a, b = type_of(node.this), type_of(node.expression)
        return None if a is None or b is None else arithmetic(operator, a, b) or _moved(node, a, b)
    if isinstance(node, _SAME):
        inner = node.expressions[0] if isinstance(node, exp.Distinct) and node.expressions else node.this
        t = type_of(inner)
        if isinstance(node, exp.Neg):
            return t if t is not None and t.root in NUMBERS else None
        return t
    if isinstance(node, exp.Case | exp.If | exp.Coalesce):
        return _choice(node)
    if isinstance(node, exp.Array | exp.Bracket | exp.Dot):
        return _nested(node)
    if isinstance(node, exp.Extract):
        return DataType("BIGINT", _nullable(node))
    if isinstance(node, exp.Substring | exp.Trim | exp.Overlay):
        return DataType("VARCHAR", _nullable(node), MAX_LENGTH)
    if isinstance(node, exp.StrPosition):
        return DataType("INT", _nullable(node))
    if isinstance(node, exp.Ceil | exp.Floor):
        t = type_of(node.this)
        if t is None or node.args.get("to") is not None:
            return t
        return DataType(t.root, t.nullable, t.precision) if t.root in NUMBERS else None
    if isinstance(node, exp.Anonymous):
        arguments = [type_of(a) for a in node.expressions]
        return function_type(node.name.upper(), arguments, node.expressions)
    return _aggregate(node)


def _aggregate(node: exp.Expr) -> DataType | None:
    if isinstance(node, exp.PercentRank | exp.CumeDist):
        return DataType("DOUBLE", False)
    if isinstance(node, _COUNTS):
        return DataType("BIGINT", False)
    argument = type_of(node.this)
    if argument is None:
        return None
    if isinstance(node, exp.Sum):
        return sum_type(argument)
    if isinstance(node, (exp.Avg, *_SPREADS)):
        return average_type(argument)
    return argument.as_nullable() if isinstance(node, _OF_ARGUMENT) else None


def literal_type(node: exp.Literal) -> DataType | None:
    """INT, else BIGINT, DECIMAL with a point, DOUBLE with an exponent, CHAR of its length."""
    text = node.name
    if node.is_string:
        return DataType("CHAR", False, max(len(text), 1)) if text else DataType("VARCHAR", False, MAX_LENGTH)
    if "e" in text.lower():
        return DataType("DOUBLE", False)
    whole, _point, part = text.partition(".")
    if not part:
        value = int(whole or "0")
        negative = isinstance(node.parent, exp.Neg)
        for root, bits in (("INT", 31), ("BIGINT", 63)):
            if value < 1 << bits or (negative and value == 1 << bits):
                return DataType(root, False)
        return None
    digits = len(whole) + len(part)
    return DataType("DECIMAL", False, digits, len(part)) if digits <= 38 else None


def _moved(node: exp.Expr, a: DataType, b: DataType) -> DataType | None:
    """The type of a time and an interval."""
    for t, other in ((a, node.expression), (b, node.this)):
        if t.root in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ") and isinstance(other, exp.Interval):
            return t
    return None


def _choice(node: exp.Expr) -> DataType | None:
    if isinstance(node, exp.If):
        parts = [node.args["true"], node.args.get("false") or exp.Null()]
        if isinstance(node.parent, exp.Case):
            return type_of(parts[0])
    elif isinstance(node, exp.Coalesce):
        parts = [node.this, *node.expressions]
    else:
        parts = [i.args["true"] for i in node.args["ifs"]] + [node.args.get("default") or exp.Null()]
    types = [NULL if type(p) is exp.Null else type_of(p) for p in parts]
    present = [t for t in types if t is not None]
    kind = common(present) if len(present) == len(types) else None
    if kind is not None and isinstance(node, exp.Coalesce) and any(not t.nullable for t in present):
        return kind.not_null()
    return kind


def _nested(node: exp.Expr) -> DataType | None:
    if isinstance(node, exp.Array):
        types = [type_of(e) for e in node.expressions]
        present = [t for t in types if t is not None]
        element = common(present) if present and len(present) == len(types) else None
        return None if element is None else nested("ARRAY", element, nullable=False)
    if isinstance(node, exp.Dot):
        return _parts(type_of(node.this), [node.expression.name])
    this = node.this
    if isinstance(this, exp.Column) and this.name.upper() == "MAP" and not this.this.quoted:
        types = [type_of(e) for e in node.expressions]
        present = [t for t in types if t is not None]
        if not present or len(present) < len(types):
            return None
        key, value = common(present[::2]), common(present[1::2])
        return None if key is None or value is None else nested("MAP", key, value, nullable=False)
    t = type_of(this)
    if t is None or t.root not in ("ARRAY", "MAP"):
        return None
    return t.children[-1].type.as_nullable()


def _nullable(node: exp.Expr) -> bool:
    types = [type_of(child) for child in node.iter_expressions()]
    return any(t is None or t.nullable for t in types)


def note_type(tree: exp.Expr) -> exp.Expr:
    """Note the types of new nodes over such that have theirs; gives the tree."""
    nodes: Any = tree.walk(bfs=True, prune=lambda n: type_of(n) is not None)
    for node in reversed(list(nodes)):
        kind = _expression(node, _SelectScope(None)) if type_of(node) is None else None
        if kind is not None:
            node.meta[_TYPE] = kind
    return tree
