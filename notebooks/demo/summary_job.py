"""The pricing summary: one INSERT that goes on as long as line items change, a job of SQL."""

from __future__ import annotations

import time
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import SparkSession

import tablestore as ts
from notebooks.demo import tables
from tablestore.io.paths import is_object_location, join
from tablestore.sql.streaming.job_directory import DEFAULT_ROOT, JobDirectories

JOB = "ads_pricing_summary"
Q1 = f"""INSERT INTO {tables.SUMMARY} ({", ".join(tables.SUMMARY_SCHEMA.names)})
SELECT l_returnflag, l_linestatus,
  SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
  SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
  SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
  AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc,
  COUNT(*) AS count_order
FROM {tables.LINEITEM}
WHERE (l_year < 1998 OR (l_year = 1998 AND l_month <= 9)) AND l_shipdate <= DATE '1998-09-02'
GROUP BY l_returnflag, l_linestatus"""
_SETTINGS = {
    "execution.runtime-mode": "streaming",
    "execution.checkpointing.interval": "200 ms",
    "pipeline.name": JOB,
}


class SummaryJob:
    """The job at work; a killed one goes on where it was. Stopped and asked like a capture."""

    def __init__(self, spark: SparkSession, lake: ts.Lake) -> None:
        self._session = ts.sql_session(lake, spark=spark)
        for key, value in {**_SETTINGS, **_checkpoints(lake.warehouse)}.items():
            self._session.sql(f"SET '{key}' = '{value}'")
        self._session.sql(Q1)

    @property
    def error(self) -> BaseException | None:
        """What it failed with."""
        failed = self._session.jobs.failures()
        return None if not failed else ts.Unavailable(0, failed[0])

    def stop(self) -> None:
        """End it between two batches."""
        self._session.jobs.stop_all()


def reached(warehouse: str) -> int:
    """The snapshot of line items that the summary has reached; 0 before the first."""
    status = _directories(warehouse).status(JOB)
    offset: Any = status.parts[0].offset if status is not None and status.parts else None
    return 0 if offset is None else int(max(offset["sources"][0]["tables"].values()))


def newest_change(lineitem: ts.Table) -> int:
    """The newest snapshot of line items that holds changes; 0 before the first."""
    commits = lineitem.inspect.snapshots()
    appended = commits.filter(pc.equal(commits["commit_kind"], "APPEND"))
    return pc.max(appended["snapshot_id"]).as_py() or 0


def forget(warehouse: str) -> None:
    """Remove the job with its checkpoint and state, where it is there."""
    places = _directories(warehouse)
    if places.record(JOB) is not None:
        places.forget(JOB)


def _checkpoints(warehouse: str) -> dict[str, str]:
    """The setting that keeps the job in a warehouse of an object store, too."""
    if not is_object_location(warehouse):
        return {}
    return {"execution.checkpointing.dir": join(warehouse, DEFAULT_ROOT)}


def _directories(warehouse: str) -> JobDirectories:
    return JobDirectories.of("".join(_checkpoints(warehouse).values()), warehouse)


def newest_commit(table: ts.Table) -> float:
    """When the newest snapshot of a table was committed, in epoch seconds; now, if it has none."""
    newest = table.store.snapshots.latest()
    return time.time() if newest is None else newest.time_millis / 1000
