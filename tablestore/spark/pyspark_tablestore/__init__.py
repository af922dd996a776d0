"""The module name under which Spark finds `format("tablestore")` by itself (it imports every `pyspark_…`
and looks for DefaultSource).
"""

from tablestore.spark.datasource import TablestoreSource as DefaultSource

__all__ = ["DefaultSource"]
