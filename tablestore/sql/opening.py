"""sql_session: a session that knows every statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tablestore.sql.reading import statement_of
from tablestore.sql.session import Session
from tablestore.table.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sql_session(lake: Lake | None = None, *, spark: SparkSession | None = None) -> Session:
    """A session for SQL statements over a `lake`, or over catalogs that statements make. With a `spark`
    session, Spark computes its queries (`SET 'execution.engine' = 'embedded'` goes back to DuckDB).

    >>> ts.sql_session(lake).sql("SHOW DATABASES").to_arrow().to_pylist()
    [{'database name': 'shop'}]
    """
    return Session(lake, read=statement_of, spark=spark)
