"""Tables planned anew for every query of a Spark session, and for each place in it by its own conditions.

Spark asks a Python source once for its partitions and keeps the answer with the relation: later queries see
old rows, and of two places of a relation both are read by the conditions of one. So a rule at the end of
Spark's optimizer (`jvm/TablePlanning.java`, compiled by the compiler that Spark has with it) asks this module
for a frame in place of each scan that is not planned. All places of a table in a query get one snapshot.
`sessions.register` installs it; without it a frame is planned once, and Spark applies the conditions.

Conditions become predicates of the engine where both mean the same by them. One is a list: the name of
Spark's operator and its operands. Values are Spark's own: a date is days since 1970, a time microseconds, so
no calendar of Java's is between. Floating point is left to Spark, whose NaN equals itself and is greater than
all else; what has other types on both sides has a cast in it, and is left, too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, or_
from typing import Any
from weakref import WeakSet

import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError
from tablestore.format.predicates import like
from tablestore.format.predicates.predicate import Column, Predicate, all_of, bind, col
from tablestore.format.schema import TableSchema
from tablestore.read.scan.scan_mode import SnapshotState
from tablestore.spark import jvm
from tablestore.spark.exchange import column, frame_of
from tablestore.spark.source_options import TABLE_SOURCE, lakes, scan_of, switched
from tablestore.spark.table_frames import frame_of_scan, is_newest
from tablestore.table.scan import Scan

Described = Sequence[Any]
_COMPARE = {
    "EqualTo": eq,
    "LessThan": lt,
    "LessThanOrEqual": le,
    "GreaterThan": gt,
    "GreaterThanOrEqual": ge,
}
_MIRRORED = {
    "EqualTo": eq,
    "LessThan": gt,
    "LessThanOrEqual": ge,
    "GreaterThan": lt,
    "GreaterThanOrEqual": le,
}
_JOINED = {"And": and_, "Or": or_}
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)
log = logging.getLogger(__name__)
_DATES = "spark.sql.datetime.java8API.enabled"
"""Else dates of conditions that Spark takes to Parquet pass through a calendar without 1582-10-05 to -14."""
_planning: WeakSet[SparkSession] = WeakSet()


class _Left(Exception):
    """The condition is Spark's alone."""


def predicate_of(conditions: Sequence[Described], schema: TableSchema) -> Predicate | None:
    """The conjunction of those conditions that the engine answers exactly as Spark does; None if none is."""
    taken = []
    for condition in conditions:
        try:
            predicate = _predicate(condition, schema)
            bind(predicate, schema)
        except (_Left, InvalidRequest, OverflowError, ValueError):
            continue
        taken.append(predicate)
    return reduce(and_, taken) if taken else None


def _predicate(described: Described, schema: TableSchema) -> Predicate:
    operator, *operands = described
    if operator in _JOINED:
        return _JOINED[operator](*(_predicate(o, schema) for o in operands))
    if operator == "Not":
        return ~_predicate(operands[0], schema)
    if operator == "AttributeReference":
        named, kind = _column(described, schema)
        if pa.types.is_boolean(kind):
            return named == True  # noqa: E712  # a condition on the column
        raise _Left
    if operator in _COMPARE and operands[0][0] == "Literal":
        named, kind = _column(operands[1], schema)
        return _MIRRORED[operator](named, _value(operands[0], kind))
    return _of_column(operator, operands, schema)


def _of_column(operator: str, operands: Sequence[Described], schema: TableSchema) -> Predicate:
    """A condition whose first operand is a column."""
    named, kind = _column(operands[0], schema)
    if operator == "IsNull":
        return named.is_null()
    if operator == "IsNotNull":
        return named.is_not_null()
    values = [_value(o, kind) for o in operands[1:]]
    if operator in _COMPARE:
        return _COMPARE[operator](named, values[0])
    if operator == "In":
        return named.is_in(values)
    if operator == "StartsWith":
        return named.startswith(values[0])
    if operator == "EndsWith":
        return named.like("%" + like.literal(values[0]))
    if operator == "Contains":
        return named.like("%" + like.literal(values[0]) + "%")
    raise _Left


def _column(described: Described, schema: TableSchema) -> tuple[Column, pa.DataType]:
    """A column whose values the engine compares as Spark does, and its type."""
    field = schema.by_name.get(described[1]) if described[0] == "AttributeReference" else None
    if field is None:
        raise _Left
    kind = field.arrow.type
    usual = (
        pa.types.is_integer,
        pa.types.is_decimal,
        pa.types.is_string,
        pa.types.is_date,
        pa.types.is_boolean,
    )
    if any(test(kind) for test in usual) or (pa.types.is_timestamp(kind) and kind.unit != "ns"):
        return col(field.name), kind
    raise _Left


def _value(described: Described, kind: pa.DataType) -> Any:
    """A literal as a value of a column's type."""
    if described[0] != "Literal" or len(described) < 3:
        raise _Left
    value = described[2]
    if pa.types.is_date(kind):
        return date.fromordinal(value + _EPOCH_DAY)
    if pa.types.is_timestamp(kind):
        moment = _EPOCH + timedelta(microseconds=value)
        return moment if kind.tz is None else moment.replace(tzinfo=UTC)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    wanted = str if pa.types.is_string(kind) else bool if pa.types.is_boolean(kind) else int
    if type(value) is not wanted:
        raise _Left
    return value


def plan_queries(spark: SparkSession) -> None:
    """Make the session plan tables for each query. Sessions of Spark Connect have no planner here: there a
    frame stays as it was planned first."""
    session = getattr(spark, "_jsparkSession", None)
    if session is None or spark in _planning:
        return
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]  # of PySpark
    jvm.new(spark, "TablePlanning").install(session, TABLE_SOURCE, _Planner(spark))
    spark.conf.set(_DATES, "true")
    _planning.add(spark)


class _Planner:
    """What the rule calls: a function of a request as JSON and the snapshots of the query so far."""

    class Java:
        implements = ("java.util.function.BiFunction",)

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def apply(self, request: str, pins: MutableMapping[str, int]) -> Any:
        """The frame, as Java has it; the text of an error if there is one."""
        try:
            return planned(self._spark, json.loads(request), pins)._jdf
        except TablestoreError as e:
            return f"{type(e).__name__}: {e}"


def planned(spark: SparkSession, request: dict[str, Any], pins: MutableMapping[str, int]) -> DataFrame:
    """The frame of one place of a table: the columns asked for, in the types of the relation; rows that the
    conditions leave out may be missing. The first place of a table puts its snapshot into `pins`."""
    options = request["options"]
    there = {field.name: field for field in StructType.fromJson(json.loads(request["schema"])).fields}
    wanted = StructType([there[name] for name in request["columns"]])
    if "system-table" in options:
        names = wanted.names or list(there)[:1]  # a row count needs a column
        rows = lakes[options["lake"]].table(options["system-table"]).scan(names).to_arrow()
        return frame_of(rows, spark).select(*map(column, wanted.names))
    scan = _pinned(scan_of(options, None, options.get("where")), options, pins)
    own = scan.where
    for name in wanted.names:
        if name not in scan.names:
            raise NotFound.among("column", name, scan.names)
    if switched(options, "pushdown", default=True):
        pushed = predicate_of(request["conditions"], scan.store.schema)
        narrowed = [p for p in (own, pushed) if p is not None]
        scan = replace(scan, where=all_of(*narrowed) if narrowed else None)
    return frame_of_scan(spark, scan, wanted, options=options, chosen=own)


def _pinned(scan: Scan, options: dict[str, str], pins: MutableMapping[str, int]) -> Scan:
    """The scan of the snapshot that the query has of this table. What options name stays what they name."""
    target, location = scan.target, scan.store.paths.root
    if not isinstance(target, SnapshotState) or not is_newest(scan) or "pinned" in options:
        return scan
    pinned_id = pins.get(location)
    if pinned_id is None:
        pins[location] = 0 if target.snapshot is None else target.snapshot.id
        return scan
    snapshot = scan.store.snapshots.get(pinned_id) if pinned_id else None
    return replace(scan, target=SnapshotState(snapshot))
