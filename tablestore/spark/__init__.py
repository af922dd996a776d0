"""Spark over tables: sessions, sources and sinks, captures, compaction jobs.

Spark plans, schedules and retries; the rows stay in Python workers. A name is imported when it is first used:
processes of Spark that only hand a stream on wait for no engine.
"""

from typing import TYPE_CHECKING, Any

from tablestore import doors
from tablestore.core.extras import required

required("pyspark", by="tablestore.spark")

if TYPE_CHECKING:
    from tablestore.spark.compaction import Compacted, compact
    from tablestore.spark.frames import arrow_schema, to_spark, write_df
    from tablestore.spark.sessions import register, session
    from tablestore.spark.stream_jobs import StreamJob, start_stream

_NAMES = {
    "compaction": "Compacted compact",
    "frames": "arrow_schema to_spark write_df",
    "sessions": "register session",
    "stream_jobs": "StreamJob start_stream",
}
"""The names by the module that has them; the block above says the same to checkers of types."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
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

if not TYPE_CHECKING:  # a name that is not above is an error to checkers of types

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'tablestore.spark' has no attribute {name!r}")
        return globals().setdefault(name, doors.public(f"spark.{name}", f"{__name__}.{_HOMES[name]}", name))
