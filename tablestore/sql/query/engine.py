"""Who computes a query: the engine that the session has set."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import Unsupported
from tablestore.sql import spark_engine
from tablestore.sql.query import embedded
from tablestore.sql.scope import Scope
from tablestore.sql.settings import LOCAL_TIME_ZONE


def rows_of(scope: Scope, tree: exp.Expression, text: str) -> pa.RecordBatchReader:
    """The rows of a query, by `execution.engine`. `tree` is not changed; `text` is the script it is of.

    Raises what the tree may not have, before anything is read, and what scans and the engine raise;
    MissingPackage where Spark is wanted and not installed.
    """
    if scope.settings["execution.runtime-mode"] == "streaming":
        raise Unsupported("a query in streaming mode", "SET 'execution.runtime-mode' = 'batch'")
    if scope.settings["execution.engine"] == "spark":
        rows = spark_engine.run_query(scope, tree, text)
    else:
        rows = embedded.run_query(scope, tree, text)
    return _in_zone(rows, scope.settings[LOCAL_TIME_ZONE])


def _in_zone(rows: pa.RecordBatchReader, zone: str) -> pa.RecordBatchReader:
    """The same rows; instants are those of the zone."""
    kinds = [
        pa.timestamp(t.unit, zone) if pa.types.is_timestamp(t) and t.tz else t for t in rows.schema.types
    ]
    if kinds == rows.schema.types:
        return rows
    schema = pa.schema([f.with_type(t) for f, t in zip(rows.schema, kinds, strict=True)])
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in rows))
