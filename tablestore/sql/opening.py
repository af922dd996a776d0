"""sql_session: a session that knows every statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tablestore.core.errors import InvalidRequest
from tablestore.sql.reading import statement_of
from tablestore.sql.session import Session
from tablestore.table.lake import Lake
from tablestore.table.reads import require_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sql_session(lake: Lake | None = None, *, spark: SparkSession | None = None) -> Session:
    """A session for SQL statements over a `lake`, or over catalogs that statements make. With a `spark`
    session, Spark computes its queries (`SET 'execution.engine' = 'embedded'` goes back to DuckDB).

    >>> ts.sql_session(lake).sql("SHOW DATABASES").to_arrow().to_pylist()
    [{'database name': 'shop'}]
    """
    if lake is not None and not isinstance(lake, Lake):
        raise InvalidRequest(f"{lake!r} is not a lake: ts.connect(path) gives one")
    if spark is not None:
        require_session(spark)
    return Session(lake, read=statement_of, spark=spark)
