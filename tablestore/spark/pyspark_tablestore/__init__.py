"""The module name under which Spark finds `format("tablestore")` by itself (it imports every `pyspark_…`
and looks for DefaultSource).
"""

from pyspark.sql.datasource import DataSource

from tablestore import doors

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Gives the source that Spark makes by name. Each session looks for it, so the engine is imported by what
    uses it."""

    def __new__(cls, options: dict[str, str]) -> DataSource:  # type: ignore[misc]  # of another class
        return doors.table_source(options)

    @classmethod
    def name(cls) -> str:
        return "tablestore"
