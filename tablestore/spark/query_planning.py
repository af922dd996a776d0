"""Tables planned anew for every query of a Spark session, and for each place in it by its own conditions.

Spark asks a Python source once for its partitions and keeps the answer with the relation: later queries see
old rows, and of two places of a relation both are read by the conditions of one. So a rule at the end of
Spark's optimizer (`jvm/TablePlanning.java`, compiled by the compiler that Spark has with it) asks this module
for a frame in place of each scan that is not planned. All places of a table in a query get one snapshot.
`sessions.register` installs it; without it a frame is planned once, and Spark applies the conditions.
"""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tablestore.core.errors import NotFound, TablestoreError
from tablestore.format.predicates.predicate import all_of
from tablestore.read.scan.scan_mode import SnapshotState
from tablestore.spark import jvm
from tablestore.spark.exchange import column, frame_of
from tablestore.spark.query_conditions import predicate_of
from tablestore.spark.source_options import TABLE_SOURCE, lakes, scan_of, switched
from tablestore.spark.table_frames import frame_of_scan, is_newest
from tablestore.table.scan import Scan

log = logging.getLogger(__name__)
_DATES = "spark.sql.datetime.java8API.enabled"
"""Else dates of conditions that Spark takes to Parquet pass through a calendar without 1582-10-05 to -14."""
_planning: WeakSet[SparkSession] = WeakSet()


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
