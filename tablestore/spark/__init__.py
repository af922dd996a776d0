"""Spark over tables: sessions, sources and sinks, captures, compaction jobs.

Spark plans, schedules and retries; the rows stay in Python workers.
"""

from tablestore.core.extras import required

required("pyspark", by="tablestore.spark")

from tablestore.spark.compaction import Compacted, compact
from tablestore.spark.frames import arrow_schema, to_spark, write_df
from tablestore.spark.sessions import register, session
from tablestore.spark.stream_jobs import StreamJob, start_stream

__all__ = [
    "Compacted",
    "StreamJob",
    "arrow_schema",
    "compact",
    "register",
    "session",
    "start_stream",
    "to_spark",
    "write_df",
]
