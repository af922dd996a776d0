"""SELECT, VALUES and WITH: queries, computed by the engine that the session has set."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from tablestore.core.errors import Unsupported
from tablestore.sql import spark_engine
from tablestore.sql.form import Form, of_family
from tablestore.sql.query import embedded
from tablestore.sql.result import Result
from tablestore.sql.scope import Scope
from tablestore.sql.session import Session
from tablestore.sql.settings import LOCAL_TIME_ZONE
from tablestore.sql.streaming.follow import LiveRows


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


@dataclass(frozen=True, slots=True)
class Select:
    """A query; `text` is the script that it is of."""

    tree: exp.Expression
    text: str

    def run(self, session: Session) -> Result:
        if session.settings["execution.runtime-mode"] == "streaming":
            return Result(stream=LiveRows(session, self.tree, self.text))
        return Result(rows_of(session, self.tree, self.text))


FORMS = of_family(
    "queries",
    Form(
        "SELECT … FROM … [WHERE …] [GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT n]",
        "Rows of tables. In streaming mode changes as they come, with the kind of change as column `op`: "
        "the rows that are there first, unless `scan.*` or `consumer-id` say otherwise. What was before a "
        "change is looked up where commits do not hold it, of partial-update, aggregation and first-row too, "
        "which Flink refuses. `JOIN t FOR SYSTEM_TIME AS OF s.proc_time` looks rows up in `t` as it is then.",
        node=exp.Query,
        build=Select,
        example="SELECT * FROM shop.orders",
    ),
    Form(
        "WITH name AS (query), … SELECT …",
        "A query with named parts.",
        example="WITH big AS (SELECT * FROM shop.orders WHERE amount > 6) SELECT count(*) FROM big",
    ),
    Form(
        "VALUES (value, …), …",
        "Rows that are written out.",
        node=exp.Values,
        build=Select,
        example="VALUES (1, 'a'), (2, 'b')",
    ),
)
