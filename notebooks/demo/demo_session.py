"""The Spark session of a demo: of this process, or of a cluster."""

from __future__ import annotations

from pyspark.sql import SparkSession

from notebooks.demo.journal import Places
from tablestore.cli.running import cluster_settings
from tablestore.spark.sessions import session


def demo_session(places: Places, cores: int | None, master: str | None = None) -> SparkSession:
    """A session whose processes print to the demo's log. On a cluster `cores` are those that it
    takes of it (None: all). Raises InvalidRequest for what is no address of a cluster."""
    log = str(places.spark_log)
    if master is None:
        return session("workbench demo", cores=cores, log_file=log, jobs_only=True)
    conf = cluster_settings(master, cores)
    return session("workbench demo", cores=cores, log_file=log, jobs_only=True, **conf)
