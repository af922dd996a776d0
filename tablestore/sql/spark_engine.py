"""The Spark engine: a query computed by Spark over frames of our tables, its rows back as Arrow.

The query is checked, planned and named as for the embedded engine, and its rows get the types that the
embedded engine gives, so both answer alike. A function passes where Spark means by it what we do; others are
refused by name. Numbers are computed in the same types on both sides. Spark is loaded with the first query
that it computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from tablestore import doors
from tablestore.core.env import SYSTEM
from tablestore.core.errors import InvalidRequest, Unavailable, Unsupported
from tablestore.core.extras import required
from tablestore.flow.restarts import first_line, innermost_line, raised_within
from tablestore.sql.problems import placed, placing, start_of
from tablestore.sql.query.duck_types import require_castable
from tablestore.sql.query.embedded import result_schema
from tablestore.sql.query.numeric_types import FLOATS, WHOLE
from tablestore.sql.query.planning import TableOccurrence, prepared
from tablestore.sql.query.spark_functions import (
    SparkArithmetic,
    date_format,
    is_same,
    rounded_time,
    spark_call,
    spark_cast,
    whole_number,
)
from tablestore.sql.query.type_inference import cast_type, type_of
from tablestore.sql.query.typed_sql import JOINED, TypedSql, typed_transforms
from tablestore.sql.scope import Scope
from tablestore.sql.settings import LOCAL_TIME_ZONE
from tablestore.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ZONE = "spark.sql.session.timeZone"
_TIME = "spark.sql.timeType.enabled"
_WHOLE = "('tinyint', 'smallint', 'int', 'bigint')"
_EXTRACTED = {
    unit: unit for unit in "YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND DOW DAYOFWEEK DOY".split()
}
_EXTRACTED |= {"ISOYEAR": "YEAROFWEEK", "ISODOW": "DAYOFWEEK_ISO", "DAYOFYEAR": "DOY"}


def run_query(scope: Scope, tree: exp.Expression, text: str) -> pa.RecordBatchReader:
    """The rows of a query. `tree` is not changed; `text` is the script it is of. Spark computes them all
    before the first is given. Raises what the tree may not have, and what scans and Spark raise."""
    query = prepared(scope, tree, text)
    prefix = f"tablestore_{SYSTEM.uuid().replace('-', '_')}"
    names = {source.view: f"{prefix}_{number}" for number, source in enumerate(query.sources)}
    sql = spark_text(query.tree, text, names)
    spark = session_of(scope)
    direct = query.without_engine()
    schema = result_schema(scope, query) if direct is None else direct.schema
    settings = {_ZONE: scope.settings[LOCAL_TIME_ZONE], _TIME: "true"}
    with _views(spark, query.sources, names), _set(spark, settings), _errors():
        with _interrupted(spark):
            rows = spark.sql(sql).toArrow()
        batches = [_typed(batch, schema) for batch in rows.to_batches()]
    return pa.RecordBatchReader.from_batches(schema, batches)


def spark_text(tree: exp.Expression, text: str, names: Mapping[str, str]) -> str:
    """A prepared tree as Spark reads it, over views of these names; `text` is the script it is of. Raises
    Unsupported, at its place, for what Spark lacks or means otherwise."""
    _require_same(tree, text)
    with placing(text, start_of(tree)):
        return _spark_sql(tree, names)


@contextmanager
def _interrupted(spark: SparkSession) -> Iterator[None]:
    """Ctrl-C ends what Spark does within, and nothing else that it does."""
    tag = f"tablestore-{SYSTEM.uuid()}"
    spark.addTag(tag)
    try:
        yield
    except KeyboardInterrupt:
        spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)


def session_of(scope: Scope) -> SparkSession:
    """The Spark session of a session: the one that it was given, else the one that runs or a new one."""
    if scope.spark is None:
        scope.spark = doors.spark_session()
    return doors.register_sources(scope.spark)


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Spark with these settings."""
    before = {key: spark.conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            spark.conf.set(key, str(old))


@contextmanager
def _views(
    spark: SparkSession, sources: Sequence[TableOccurrence], names: Mapping[str, str]
) -> Iterator[None]:
    """Frames of the tables as temporary views of these names. A table that stands there more than once is
    read at one snapshot."""
    try:
        for source in sources:
            several = sum(other.whole is source.whole for other in sources) > 1
            frame = _frame(spark, source, several=several)
            frame.createOrReplaceTempView(names[source.view])
        yield
    finally:
        for name in names.values():
            spark.catalog.dropTempView(name)


def _frame(spark: SparkSession, source: TableOccurrence, *, several: bool) -> DataFrame:
    """What the query needs of a table, chosen by us: its columns, and rows by its condition. `several`: it
    stands in the query more than once."""
    table, read = source.table, source.read
    if not isinstance(table, Table) or not source.whole.whole:  # changes and differences are ours to read
        return doors.frame_of(source.scan().to_arrow(), spark)
    snapshot = source.whole.snapshot if several and not table.past else None
    table = table if snapshot is None else table.at(snapshot=snapshot.id)
    return doors.to_spark(table, spark, columns=list(read.columns), where=read.where)


def _spark_sql(tree: exp.Expression, names: Mapping[str, str]) -> str:
    """The tree as text for Spark, over these views."""
    tree = tree.copy()
    for node in list(tree.find_all(exp.Table)):
        if node.name in names and not node.args.get("db"):
            node.set("this", exp.to_identifier(names[node.name], quoted=True))
    for select in tree.find_all(exp.Select):
        if select.args.get("distinct") and select.args.get("order"):
            _order_by_names(select)
    return str(tree.sql(_Ours, identify=True))


def _order_by_names(select: exp.Select) -> None:
    """What ORDER BY has of a SELECT DISTINCT by the names of its columns: Spark knows these alone there."""
    shown = {e.this: e.alias for e in select.expressions if isinstance(e, exp.Alias)}
    for node in list(select.args["order"].walk()):
        if node in shown and not isinstance(node, exp.Literal):
            node.replace(exp.column(shown[node], quoted=True))


_SparkGenerator: Any = Spark.Generator  # sqlglot builds these classes by a metaclass


class _OurSparkSql(TypedSql, _SparkGenerator):  # type: ignore[misc]  # likewise
    """Spark's SQL with our meaning of numbers."""

    TRANSFORMS = {  # noqa: RUF012  # sqlglot's way to declare
        **typed_transforms(_SparkGenerator.TRANSFORMS),
        exp.Ceil: lambda self, e: self.ceil_sql(e),
        exp.Floor: lambda self, e: self.floor_sql(e),
        exp.StrPosition: lambda self, e: f"locate({self.sql(e.args['substr'])}, {self.sql(e.this)})",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.numbers = SparkArithmetic()

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        typed, name = self.function(expression), expression.name.upper()
        if typed is not None:
            return typed
        if name == "DATE_FORMAT":
            value, pattern = expression.expressions
            return date_format(self.sql(value), pattern.name, type_of(value))
        shown = self.as_text if name in JOINED else self.sql
        call = spark_call(name, [shown(argument) for argument in expression.expressions])
        return str(super().anonymous_sql(expression)) if call is None else call

    def ceil_sql(self, expression: exp.Ceil) -> str:
        return self._rounded("ceil", expression)

    def floor_sql(self, expression: exp.Floor) -> str:
        return self._rounded("floor", expression)

    def _rounded(self, function: str, expression: exp.Expression) -> str:
        unit, value, t = expression.args.get("to"), self.sql(expression.this), type_of(expression.this)
        if unit is not None:
            rounded = rounded_time(function, unit.name.upper(), value, t)
            if rounded is None:
                raise _refused(f"{function.upper()} of {t} to {unit.name.upper()}")
            return rounded
        if t is not None and t.root in WHOLE:
            return value
        if t is not None and t.root in FLOATS:
            return whole_number(function, value, t.root)
        return f"{function}({value})"

    def extract_sql(self, expression: exp.Extract) -> str:
        unit = expression.name.upper()
        if unit not in _EXTRACTED:
            raise _refused(f"EXTRACT({unit})")
        return f"EXTRACT({_EXTRACTED[unit]} FROM {self.sql(expression.expression)})"

    def bracket_sql(self, expression: exp.Bracket) -> str:
        """An element, NULL where there is none; a map of keys and values."""
        this, inner = expression.this, [self.sql(e) for e in expression.expressions]
        if isinstance(this, exp.Column) and this.name.upper() == "MAP" and not this.this.quoted:
            return f"map({', '.join(inner)})"
        t = type_of(this)
        if t is None or t.root != "ARRAY":
            return f"{self.sql(this)}[{inner[0]}]"
        array, place = (
            self.sql(this),
            self.sql(self.bracket_offset_expressions(expression, index_offset=1)[0]),
        )
        behind = f"IF(({place}) < 0, cardinality({array}) + ({place}), ({place}) - 1)"
        return f"get({array}, CAST({behind} AS INT))"

    def is_sql(self, expression: exp.Is) -> str:
        if isinstance(expression.expression, exp.JSON):
            raise _refused("IS JSON")
        return str(super().is_sql(expression))

    def similarto_sql(self, expression: exp.SimilarTo) -> str:
        raise _refused("SIMILAR TO")

    def overlaps_sql(self, expression: exp.Overlaps) -> str:
        raise _refused("OVERLAPS")

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        """A CAST with Flink's result; what Spark refuses is refused."""
        source, target = type_of(expression.this), cast_type(expression.to)
        usual = str(super().cast_sql(expression, safe_prefix))
        if source is None or target is None:
            return usual
        require_castable(source, target)
        if source.is_nested and target.is_string:
            raise _refused(f"CAST of {source.root} to {target.root}")
        value = self.sql(expression.this)
        if safe_prefix and source.is_string and target.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            value = f"try_cast({value} AS TIMESTAMP_NTZ)"
        return spark_cast(value, source, target, self.numbers) or usual

    def datatype_sql(self, expression: exp.DataType) -> str:
        return "TIME(6)" if expression.this is exp.DType.TIME else str(super().datatype_sql(expression))

    def untyped(self, expression: Any) -> str:
        """Whole numbers divided are whole, others are divided as DOUBLEs."""
        if not isinstance(expression, exp.Div):
            return super().untyped(expression)
        left, right = self.sql(expression, "this"), self.sql(expression, "expression")
        whole = f"typeof({left}) IN {_WHOLE} AND typeof({right}) IN {_WHOLE}"
        count = f"CAST({left} AS BIGINT) DIV CAST({right} AS BIGINT)"
        return f"IF({whole}, {count}, CAST({left} AS DOUBLE) / CAST({right} AS DOUBLE))"


class _Ours(Spark):
    """The dialect that Spark gets."""

    Generator = _OurSparkSql


def _refused(what: str) -> Unsupported:
    return Unsupported(f"{what} by Spark", "the embedded engine has it")


def _require_same(tree: exp.Expression, text: str) -> None:
    """Raise Unsupported, at its place, for a call that Spark lacks or means otherwise."""
    calls: Any = tree.find_all(exp.Anonymous, exp.Substring)
    for call in calls:
        if isinstance(call, exp.Substring):
            name, parts = "SUBSTRING", [call.this, call.args.get("start"), call.args.get("length")]
            arguments = [part for part in parts if part is not None]
        else:
            name, arguments = call.name.upper(), call.expressions
        if not is_same(name, arguments):
            raise placed(_refused(f"{name}()"), text, start_of(call))


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the types of the schema; digits that these have no room for go."""
    columns = [a.cast(f.type, safe=False) for a, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@contextmanager
def _errors() -> Iterator[None]:
    """Spark's errors as ours, in one line; one of ours that a process of Spark raised is itself."""
    spark_error = required("pyspark.errors", by="SELECT by Spark").PySparkException
    protocol = required("py4j.protocol", by="SELECT by Spark")
    try:
        yield
    except protocol.Py4JNetworkError as e:
        raise Unavailable(0, f"Spark: its process ended ({first_line(e)}); begin a new session") from e
    except protocol.Py4JJavaError as e:
        raise raised_within(e) or InvalidRequest(f"Spark: {innermost_line(e)}") from e
    except (spark_error, protocol.Py4JError) as e:
        raise raised_within(e) or InvalidRequest(f"Spark: {first_line(e)}") from e
