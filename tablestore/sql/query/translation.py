"""Trees of our dialect as SQL of DuckDB, once every node and function of them is one that a query may have.

`require_allowed` is what keeps SQL text from the machine: only nodes and functions that are listed pass, and
a table is always a name that stands for rows of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError, Unsupported
from tablestore.format.predicates import like
from tablestore.sql.problems import placed, start_of
from tablestore.sql.query.duck_types import DuckArithmetic, cast_sql
from tablestore.sql.query.function import Calls, DuckSql
from tablestore.sql.query.functions import FUNCTIONS
from tablestore.sql.query.numeric_types import WHOLE
from tablestore.sql.query.time_functions import EXTRACTED, extract, interval, micros, overlaps, rounded
from tablestore.sql.query.type_inference import cast_type, type_of
from tablestore.sql.query.typed_sql import JOINED, TypedSql, typed_transforms
from tablestore.sql.text import literal_text, unicode_text

_PLAIN = (
    *(exp.Select, exp.Subquery, exp.Union, exp.Intersect, exp.Except, exp.With, exp.CTE, exp.TableAlias),
    *(exp.RecursiveWithSearch, exp.Table, exp.Values, exp.Tuple, exp.Unnest, exp.From, exp.Join, exp.Where),
    *(exp.Group, exp.Having, exp.Qualify, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Fetch),
    *(exp.LimitOptions, exp.Distinct, exp.Cube, exp.Rollup, exp.GroupingSets, exp.Version, exp.Hint),
    *(exp.Column, exp.Identifier, exp.Star, exp.Alias, exp.Aliases, exp.Literal, exp.Boolean, exp.Null),
    *(exp.HexString, exp.Paren, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
    *(
        exp.NullSafeEQ,
        exp.NullSafeNEQ,
        exp.Is,
        exp.JSON,
        exp.In,
        exp.Between,
        exp.Like,
        exp.ILike,
        exp.Escape,
    ),
    *(exp.SimilarTo, exp.UnicodeString, exp.Overlaps),
    *(exp.Exists, exp.Any, exp.All, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg),
    *(exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.Case, exp.If, exp.Cast),
    *(exp.TryCast, exp.DataType, exp.DataTypeParam, exp.ColumnDef, exp.Interval, exp.IntervalSpan, exp.Var),
    *(exp.Extract, exp.Substring, exp.Trim, exp.StrPosition, exp.Overlay, exp.Ceil, exp.Floor),
    *(exp.Array, exp.Bracket, exp.Dot, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls),
    *(exp.Window, exp.WindowSpec, exp.RegexpLike, exp.CurrentDate, exp.CurrentTimestamp, exp.Coalesce),
    *(exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Stddev, exp.StddevPop, exp.StddevSamp),
    *(exp.Variance, exp.VariancePop, exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist),
    *(exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue, exp.AnonymousAggFunc),
)
_NODES = frozenset(_PLAIN)
_BARE = ("LOCALTIMESTAMP", "LOCALTIME", "CURRENT_TIME")  # functions that are written without brackets
_WHOLE_TYPES = (exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT)
_TIMESTAMPS = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ)


def require_allowed(tree: exp.Expression, text: str) -> None:
    """Raise, at its place, for what a query may not have: Unsupported by name, NotFound for a function."""
    nodes: Any = tree.walk()
    for node in nodes:
        try:
            _require(node)
        except TablestoreError as e:
            placed(e, text, start_of(node, start_of(node.parent)))
            raise


def _require(node: exp.Expr) -> None:
    if isinstance(node, exp.Anonymous):
        name = node.name.upper()
        if isinstance(node.parent, exp.Table):
            raise Unsupported(f"the table function {node.name}()", "FROM takes tables, views and queries")
        if name not in FUNCTIONS:
            raise NotFound.among("function", name, FUNCTIONS)
    elif type(node) not in _NODES:
        if isinstance(node, exp.Placeholder):
            raise InvalidRequest(f"parameter :{node.name} has no value; give a mapping of names to values")
        raise Unsupported(f"{node.key.upper()} in a query")
    elif isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
        shown = node.this.sql("spark") if node.this is not None else "this"
        raise Unsupported(f"{shown} as a table", "FROM takes tables, views and queries")
    elif isinstance(node, exp.Extract) and node.name.upper() not in EXTRACTED:
        raise InvalidRequest(f"{node.name} is no unit of time: {', '.join(sorted(EXTRACTED))}")


def with_names(tree: exp.Expression) -> exp.Expression:
    """The query with names for the columns that have none, as Flink gives them: EXPR$0, by their place."""
    if isinstance(tree, exp.Values) and isinstance(tree.parent, exp.From | exp.Join | None):
        return _named_values(tree) if tree.parent is None else tree
    for select in list(tree.find_all(exp.Select)):
        if isinstance(select.parent, exp.Exists):
            continue
        for place, shown in enumerate(select.expressions):
            inner = shown.unnest()
            if not isinstance(inner, exp.Alias | exp.Aliases | exp.Column | exp.Star | exp.Dot):
                alias = exp.to_identifier(f"EXPR${place}", quoted=True)
                shown.replace(exp.Alias(this=shown.copy(), alias=alias))
    return tree


def _named_values(values: exp.Values) -> exp.Expression:
    width = len(values.expressions[0].expressions) if isinstance(values.expressions[0], exp.Tuple) else 1
    names = [exp.to_identifier(f"EXPR${place}", quoted=True) for place in range(width)]
    values.set("alias", exp.TableAlias(this=exp.to_identifier("rows"), columns=names))
    return exp.Select(expressions=[exp.Star()]).from_(values)


def duck_sql(tree: exp.Expression) -> DuckSql:
    """The tree as text for DuckDB, in the types that `note_types` has found. Raises InvalidRequest,
    Unsupported for arguments that do not fit."""
    generator: Any = _Embedded().generator(identify=True)
    sql = DuckSql(generator.generate(tree))
    sql.functions = tuple(generator.calls.found.values())
    return sql


_DuckGenerator: Any = DuckDB.Generator  # sqlglot builds these classes by a metaclass


class _OurDuckSql(TypedSql, _DuckGenerator):  # type: ignore[misc]  # likewise
    """DuckDB's SQL with our functions' meanings."""

    TRANSFORMS = {  # noqa: RUF012  # sqlglot's way to declare
        **typed_transforms(_DuckGenerator.TRANSFORMS),
        exp.Ceil: lambda self, e: self.ceil_sql(e),
        exp.FirstValue: lambda self, e: self.end_value(e, "any_value"),
        exp.Floor: lambda self, e: self.floor_sql(e),
        exp.LastValue: lambda self, e: self.end_value(e, "last"),
        exp.StrPosition: lambda self, e: (
            f"CAST({self.func('strpos', e.this, e.args.get('substr'))} AS INTEGER)"
        ),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls = Calls({})
        self.numbers = DuckArithmetic(self.calls)

    def untyped(self, expression: Any) -> str:
        """A date and days give a date."""
        sql = super().untyped(expression)
        return f"CAST({sql} AS DATE)" if _date(expression) else sql

    def end_value(self, expression: Any, name: str) -> str:
        """FIRST_VALUE and LAST_VALUE; as aggregates, of the values that are not NULL."""
        around: Any = expression.parent
        around = around.parent if isinstance(around, exp.IgnoreNulls | exp.RespectNulls) else around
        if isinstance(around, exp.Window):
            return str(self.function_fallback_sql(expression))
        value = self.sql(expression.this)
        if name == "any_value":  # the first that is not NULL
            return f"any_value({value})"
        more = f" AND {self.sql(around.expression.this)}" if isinstance(around, exp.Filter) else ""
        return f"last({value}) FILTER (WHERE ({value}) IS NOT NULL{more})"

    def unnest_sql(self, expression: exp.Unnest) -> str:
        """UNNEST of a map gives its keys and values."""
        only = expression.expressions[0] if len(expression.expressions) == 1 else None
        t = type_of(only)
        if t is None or t.root != "MAP":
            return str(super().unnest_sql(expression))
        text, alias = self.sql(only), expression.args.get("alias")
        columns = f"unnest(map_keys({text})) AS f0, unnest(map_values({text})) AS f1"
        return f"LATERAL (SELECT {columns})" + (f" AS {self.sql(alias)}" if alias is not None else "")

    def filter_sql(self, expression: exp.Filter) -> str:
        whole = isinstance(expression.this, exp.LastValue)
        return self.sql(expression.this) if whole else str(super().filter_sql(expression))

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        function = FUNCTIONS.get(expression.name.upper())
        if function is None:  # the generator's own; those of the query are all listed
            return str(super().anonymous_sql(expression))
        typed = self.function(expression)
        if typed is not None:
            return typed
        rendered = function.render(
            [self._argument(argument, function.name) for argument in _arguments(expression)]
        )
        return f"CAST({rendered} AS DATE)" if _date(expression) else rendered

    def _argument(self, argument: exp.Expression, function: str) -> str:
        """An argument; of a ROW that becomes JSON the fields have names."""
        if (
            function == "JSON_STRING"
            and isinstance(argument, exp.Anonymous)
            and argument.name.upper() == "ROW"
        ):
            fields = [f'"EXPR${i}" := {self.sql(e)}' for i, e in enumerate(argument.expressions)]
            return f"struct_pack({', '.join(fields)})"
        return self.as_text(argument) if function in JOINED else str(self.sql(argument))

    def column_sql(self, expression: exp.Column) -> str:
        if expression.name.upper() in _BARE and not expression.this.quoted and not expression.table:
            return FUNCTIONS[expression.name.upper()].render([])
        return str(super().column_sql(expression))

    def currenttimestamp_sql(self, expression: exp.CurrentTimestamp) -> str:
        return "now()"

    def substring_sql(self, expression: exp.Substring) -> str:
        parts = (expression.this, expression.args.get("start"), expression.args.get("length"))
        return FUNCTIONS["SUBSTRING"].render([self.sql(part) for part in parts if part is not None])

    def floor_sql(self, expression: exp.Floor) -> str:
        return self._rounded("floor", expression)

    def ceil_sql(self, expression: exp.Ceil) -> str:
        return self._rounded("ceil", expression)

    def _rounded(self, function: str, expression: exp.Expression) -> str:
        unit, value = expression.args.get("to"), expression.this
        if unit is None:
            t = type_of(value)
            return self.sql(value) if t is not None and t.root in WHOLE else f"{function}({self.sql(value)})"
        return rounded(function, unit.name.upper(), self.sql(value), _kind(value))

    def extract_sql(self, expression: exp.Extract) -> str:
        return extract(expression.name.upper(), self.sql(expression.expression))

    def interval_sql(self, expression: exp.Interval) -> str:
        return interval(expression) or str(super().interval_sql(expression))

    def overlaps_sql(self, expression: exp.Overlaps) -> str:
        periods = [_period(side) for side in (expression.this, expression.expression)]
        texts = [(self.sql(start), self.sql(end)) for start, end in periods]
        spans = (isinstance(periods[0][1], exp.Interval), isinstance(periods[1][1], exp.Interval))
        return overlaps(texts[0], texts[1], spans=spans)

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        kind, value = expression.to, expression.this
        source, target = type_of(value), cast_type(kind)
        if source is not None and target is not None and source.root != "NULL":
            sql = cast_sql(expression, self.sql(value), source, target, self.numbers, self.calls)
            if sql is not None:
                return sql
        if kind.this in _WHOLE_TYPES and _fraction(value):
            return f"{safe_prefix or ''}CAST(trunc({self.sql(value)}) AS {self.sql(kind)})"
        if kind.this in _TIMESTAMPS and not kind.expressions and _nanos(value):
            return f"{safe_prefix or ''}CAST({self.sql(value)} AS TIMESTAMP_NS)"
        if kind.this in _TIMESTAMPS and kind.expressions and not isinstance(value, exp.Literal):
            return _cut(self.sql(value), int(kind.expressions[0].name), safe=bool(safe_prefix))
        if kind.this in (exp.DType.CHAR, exp.DType.VARCHAR) and kind.expressions:
            text = f"{safe_prefix or ''}CAST({self.sql(value)} AS VARCHAR)"
            return f"left({text}, {self.sql(kind.expressions[0])})"
        return str(super().cast_sql(expression, safe_prefix))

    def datatype_sql(self, expression: exp.DataType) -> str:
        if expression.this is exp.DType.DECIMAL and not expression.expressions:
            return "DECIMAL(10, 0)"
        return str(super().datatype_sql(expression))

    def like_sql(self, expression: exp.Like) -> str:
        pattern = expression.expression
        if isinstance(expression.parent, exp.Escape) or not _may_escape(pattern):
            return str(super().like_sql(expression))
        if isinstance(pattern, exp.Literal):
            escaped = literal_text(like.without_escape(pattern.name))
        else:
            doubled = f"replace({self.sql(pattern)}, '\\', '\\\\')"
            escaped = f"replace(replace({doubled}, '\\\\%', '\\%'), '\\\\_', '\\_')"
        negated = "NOT " if expression.args.get("negate") else ""
        return f"{self.sql(expression.this)} {negated}LIKE {escaped} ESCAPE '\\'"

    def escape_sql(self, expression: exp.Escape) -> str:
        if isinstance(expression.this, exp.SimilarTo):
            return self._similar(expression.this, self.sql(expression.expression))
        return str(super().escape_sql(expression))

    def similarto_sql(self, expression: exp.SimilarTo) -> str:
        return self._similar(expression, "''")

    def _similar(self, expression: exp.SimilarTo, escape: str) -> str:
        pattern = f"own_similar({self.sql(expression.expression)}, {escape})"
        return f"regexp_full_match({self.sql(expression.this)}, {pattern})"

    def is_sql(self, expression: exp.Is) -> str:
        json = expression.expression
        if not isinstance(json, exp.JSON):
            return str(super().is_sql(expression))
        kind = f"own_json_kind({self.sql(expression.this)})"
        return f"({kind} <> '')" if json.this in (None, False, "VALUE") else f"({kind} = '{json.this}')"

    def unicodestring_sql(self, expression: exp.UnicodeString) -> str:
        escape = expression.args.get("escape")
        return literal_text(unicode_text(expression.name, escape.name if escape else "\\"))

    def bracket_sql(self, expression: exp.Bracket) -> str:
        this = expression.this
        if isinstance(this, exp.Column) and this.name.upper() == "MAP" and not this.this.quoted:
            values = [self.sql(e) for e in expression.expressions]
            return f"MAP([{', '.join(values[::2])}], [{', '.join(values[1::2])}])"
        return str(super().bracket_sql(expression))

    def hint_sql(self, expression: exp.Hint) -> str:
        return ""


class _Embedded(DuckDB):
    """The dialect that DuckDB gets."""

    Generator = _OurDuckSql


def _arguments(call: exp.Anonymous) -> Iterator[exp.Expression]:
    """The arguments; sqlglot puts all of `LISTAGG(DISTINCT a, ',')` under the DISTINCT."""
    for argument in call.expressions:
        if isinstance(argument, exp.Distinct) and len(argument.expressions) > 1:
            first, *rest = argument.expressions
            yield exp.Distinct(expressions=[first.copy()])
            yield from rest
        else:
            yield argument


def _cut(value: str, digits: int, *, safe: bool) -> str:
    """A time cut to so many digits of a second."""
    if digits > 6:
        return f"{'TRY_' if safe else ''}CAST({value} AS TIMESTAMP_NS)"
    at = micros(value, safe=safe)
    if digits > 3:
        return at
    unit, kind = ("second", "TIMESTAMP_S") if digits == 0 else ("milliseconds", "TIMESTAMP_MS")
    return f"CAST(date_trunc('{unit}', {at}) AS {kind})"


def _nanos(value: exp.Expression) -> bool:
    """Whether a literal time has digits behind the microseconds."""
    return (
        isinstance(value, exp.Literal) and value.is_string and len(value.name.partition(".")[2]) in (7, 8, 9)
    )


def _may_escape(pattern: Any) -> bool:
    return not (isinstance(pattern, exp.Literal) and "\\" not in pattern.name)


def _fraction(value: exp.Expression) -> bool:
    """Whether an expression is known to be a number with a fraction."""
    t = type_of(value)
    return t is not None and t.root in ("DECIMAL", "DOUBLE", "FLOAT")


def _kind(value: exp.Expression) -> str | None:
    """The name of the type of an expression, where it is known."""
    if _date(value):
        return "DATE"
    t = type_of(value)
    return None if t is None else t.root


def _date(value: exp.Expression) -> bool:
    """Whether an expression is known to be a DATE."""
    if isinstance(value, exp.Paren):
        return _date(value.this)
    if isinstance(value, exp.Add | exp.Sub):
        left, right = value.this, value.expression
        turned = isinstance(value, exp.Add) and _interval(left) and _date(right)
        return (_date(left) and _interval(right)) or turned
    if (
        isinstance(value, exp.Anonymous)
        and value.name.upper() == "TIMESTAMPADD"
        and len(value.expressions) == 3
    ):
        unit = value.expressions[0].name.upper().removeprefix("SQL_TSI_")
        return unit in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR") and _date(value.expressions[2])
    if isinstance(value, exp.Floor | exp.Ceil) and value.args.get("to") is not None:
        return _date(value.this)
    t = type_of(value)
    return t is not None and t.root == "DATE"


def _interval(value: exp.Expression) -> bool:
    """Whether an expression is an interval, or one times a number."""
    if isinstance(value, exp.Paren | exp.Neg):
        return _interval(value.this)
    if isinstance(value, exp.Mul):
        return _interval(value.this) or _interval(value.expression)
    return isinstance(value, exp.Interval)


def _period(side: exp.Expression) -> list[exp.Expression]:
    """Start and end of a period of OVERLAPS."""
    if not isinstance(side, exp.Tuple) or len(side.expressions) != 2:
        raise InvalidRequest("OVERLAPS compares two periods: (start, end) OVERLAPS (start, end)")
    return list(side.expressions)
