"""Who computes a query: the engine that the session has set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import Unsupported
from tablestore.sql import spark_engine
from tablestore.sql.query import embedded

if TYPE_CHECKING:
    from tablestore.sql.session import Session


def rows_of(session: Session, tree: exp.Expression, text: str) -> pa.RecordBatchReader:
    """The rows of a query, by `execution.engine`. `tree` is not changed; `text` is the script it is of.

    Raises what the tree may not have, before anything is read, and what scans and the engine raise;
    MissingPackage where Spark is wanted and not installed.
    """
    if session.settings["execution.runtime-mode"] == "streaming":
        raise Unsupported("a query in streaming mode", "SET 'execution.runtime-mode' = 'batch'")
    if session.settings["execution.engine"] == "spark":
        return spark_engine.run_query(session, tree, text)
    return embedded.run_query(session, tree, text)
