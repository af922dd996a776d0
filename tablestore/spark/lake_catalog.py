"""The tables of a lake by name in a Spark session: a catalog of Spark that asks the lake for each query.

Spark's analyzer asks for a table, so one that was made or altered since is there as it is, and one that was
dropped is not. Tables are read and written by path, as `format("tablestore")` does; system tables are rows
that the engine makes when a query is planned (`query_planning.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError
from tablestore.io.routed import reach_of
from tablestore.spark import jvm
from tablestore.spark.exchange import spark_schema
from tablestore.spark.sessions import register
from tablestore.spark.source_options import TABLE_SOURCE, lakes
from tablestore.table.lake import Lake
from tablestore.table.table import Table

_RESERVED = ("spark_catalog", "system", "session", "builtin")


def register_lake(lake: Lake, spark: SparkSession, catalog: str) -> list[str]:
    """Make the lake the catalog `catalog` of the session and the current one; gives the names of its tables.

    Raises InvalidRequest for names that no catalog of Spark can have."""
    if not catalog.isidentifier() or catalog.casefold() in _RESERVED:
        raise InvalidRequest(f"{catalog!r} cannot be a catalog of Spark: give a plain name, such as 'lake'")
    register(spark)
    lakes[catalog] = lake
    session: Any = spark
    jvm.new(spark, "LakeCatalog").install(
        session._jsparkSession, catalog, TABLE_SOURCE, _Answers(lake, catalog)
    )
    spark.catalog.setCurrentCatalog(catalog)
    return lake.tables()


class _Answers:
    """What the catalog calls: a function of a verb and its arguments as JSON."""

    class Java:
        implements = ("java.util.function.BiFunction",)

    def __init__(self, lake: Lake, catalog: str) -> None:
        self._lake, self._catalog = lake, catalog

    def apply(self, verb: str, arguments: str) -> str:
        """The answer as JSON, with the text of an error in `error`."""
        asked = json.loads(arguments)
        try:
            return json.dumps(getattr(self, f"_{verb}")(asked))
        except TablestoreError as e:
            return json.dumps({"error": f"{type(e).__name__}: {e}"})

    def _databases(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return {"names": self._lake.databases()}

    def _tables(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if asked["database"] not in self._lake.databases():
            return {}
        return {"names": self._lake.tables(asked["database"])}

    def _table(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The schema and the options of the source; nothing where there is no such table."""
        name = f"{asked['database']}.{asked['table']}"
        try:
            table = self._lake.table(name)
        except NotFound:
            return {}
        if not isinstance(table, Table):
            return _described(table.schema, {"path": name, "system-table": name, "lake": self._catalog})
        options = {"path": table.location, **reach_of(table.store.io)}
        if "version" in asked:
            return _travelled(table, asked["version"], options)
        if "timestamp" in asked:
            table = table.at(timestamp=asked["timestamp"])
            options["timestamp"] = str(asked["timestamp"])
        return _described(table.schema, options)


def _travelled(table: Table, version: str, options: dict[str, str]) -> dict[str, Any]:
    """The table at a version: the id of a snapshot, or the name of a tag."""
    if version.isdigit():
        return _described(table.at(snapshot=int(version)).schema, options | {"snapshot-id": version})
    return _described(table.at(tag=version).schema, options | {"scan.tag-name": version})


def _described(schema: pa.Schema, options: dict[str, str]) -> dict[str, Any]:
    return {"schema": spark_schema(schema).json(), "options": options}
