"""sql_session: a session that knows every statement."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tablestore.core.arguments import require_session
from tablestore.core.errors import InvalidRequest
from tablestore.io.confined import Roots
from tablestore.sql.forms import statement_of
from tablestore.sql.session import Session
from tablestore.table.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sql_session(
    lake: Lake | None = None,
    *,
    spark: SparkSession | None = None,
    roots: Sequence[str | os.PathLike[str]] | None = None,
) -> Session:
    """A session for SQL statements over a `lake`, or over catalogs that statements make. With a `spark`
    session, Spark computes its queries (`SET 'execution.engine' = 'embedded'` goes back to DuckDB).

    Statements can name any file that this process reaches, as its user can. `roots` confine them, for texts
    of others: beside the tables of the lake they then reach only what lies in these directories (and places
    in stores, `s3://bucket/path`), with links resolved. That holds for files of tables and connectors,
    warehouses of catalogs, checkpoints, certificates; variables of the environment, a Hive metastore and a
    database server as a catalog are then out of reach. What is beyond raises OutsideRoots. Without `roots`
    those of `connect(…, sql_roots=[…])` hold. Brokers and databases that statements name are reached all the
    same: networks are confined by other means.

    >>> ts.sql_session(lake).sql("SHOW DATABASES").to_arrow().to_pylist()
    [{'database name': 'shop'}]
    """
    if lake is not None and not isinstance(lake, Lake):
        raise InvalidRequest(f"{lake!r} is not a lake: ts.connect(path) gives one")
    if spark is not None:
        require_session(spark)
    confined = lake.sql_roots if roots is None and lake is not None else None
    return Session(lake, read=statement_of, spark=spark, roots=confined if roots is None else Roots.of(roots))
