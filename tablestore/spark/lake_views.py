"""All tables of a lake as temporary views of a Spark session, for a plain `spark.sql`."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.spark.frames import to_spark
from tablestore.spark.sessions import register
from tablestore.table.identifier import DEFAULT_DATABASE
from tablestore.table.lake import Lake

log = logging.getLogger(__name__)


def register_views(lake: Lake, spark: SparkSession) -> list[str]:
    """Make a view of the newest snapshot of every table; gives the names of the views, sorted.

    A temporary view has no database: `db.t` becomes `db_t`, and a table of database `default` just `t`.
    Raises InvalidRequest where two tables would get one name, before a view is made.
    """
    tables: dict[str, str] = {}
    for full in lake.tables():
        database, _, table = full.partition(".")
        name = table if database == DEFAULT_DATABASE else f"{database}_{table}"
        other = next((n for n in tables if n.casefold() == name.casefold()), None)
        if other is not None:
            raise InvalidRequest(f"{tables[other]} and {full} would both be the view {name}")
        tables[name] = full
    register(spark)
    found = []
    for name, full in sorted(tables.items()):
        try:
            frame = to_spark(lake.table(full), spark)
        except Unsupported as e:
            log.warning("%s is no view: %s", full, e)
            continue
        frame.createOrReplaceTempView(f"`{name}`")
        found.append(name)
    return found
