"""`postgres-cdc`: a table of PostgreSQL, its rows as of now in batch mode, or followed through its log.

Options are those of Flink CDC's connector of this name. Each change comes once, an update with its row
before: a stream may be grouped and joined, whatever is read again after a failure. It needs REPLICA IDENTITY
FULL and a replication slot of its own. Columns may have other types than in the source, where its values
fit them. The password is `${env:NAME}` or in a file, and in nothing that is stored, shown or sent to tasks.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from tablestore.cdc.capture.computed import METADATA, METADATA_TYPES
from tablestore.cdc.databases.declared import DeclaredColumns
from tablestore.cdc.postgres.server import Connection
from tablestore.cdc.postgres.slot import Slot
from tablestore.cdc.postgres.stream import (
    AGAIN,
    INITIAL,
    SNAPSHOT,
    STARTUP_MODES,
    PostgresStream,
    all_rows,
    only,
    table_now,
)
from tablestore.core.errors import InvalidRequest, Unsupported
from tablestore.core.options.values import one_of
from tablestore.format.types.data_type import DataField
from tablestore.sql.connectors.connector import Connector, ConnectorOptions, Option, count
from tablestore.sql.connectors.source_databases import (
    CHUNK_OPTIONS,
    REFUSED,
    TIMEOUT,
    WITHOUT_EFFECT,
    address_of,
    chunks_of,
    require_keys,
    require_rows,
    where_options,
    without_effect,
    zone_option,
)

_METADATA = {"schema_name": "database_name", "table_name": "table_name", "op_ts": "op_ts"}
"""What a capture calls the metadata of this connector: a schema is its database."""
_OPTIONS = (
    *where_options(5432, "REPLICATION and SELECT; in batch mode SELECT"),
    Option("schema-name", "the schema; no pattern", required=True),
    Option("table-name", "the table; no pattern", required=True),
    Option(
        "slot.name",
        "the replication slot, which the stream makes and nothing else may read; batch mode has none. Drop "
        "it when the stream is over: the server keeps all log for it",
    ),
    Option("decoding.plugin.name", "pgoutput", one_of("pgoutput"), default="pgoutput"),
    Option(
        "tablestore.publication",
        "the publication that has the table; CREATE PUBLICATION makes it",
        default="tablestore",
    ),
    zone_option("timestamptz"),
    Option(
        "scan.startup.mode",
        "initial: the rows, then changes; latest-offset: changes from now on; committed-offset: from where "
        "the slot is; snapshot: the rows alone, in batch mode",
        one_of(*STARTUP_MODES),
        default=INITIAL,
    ),
    Option("changelog-mode", "all: an update has its row before", one_of("all"), default="all"),
    *CHUNK_OPTIONS,
    Option("tablestore.log-bytes", "about how much of the log a batch has", count, default=256 << 20),
    TIMEOUT,
    *without_effect(
        {
            "heartbeat.interval.ms": "a position moves on with the log, whatever table it is of",
            **WITHOUT_EFFECT,
            "scan.lsn-commit.checkpoints-num-delay": "the slot moves when the batch behind it is planned",
            "table-id.include-database": "a stream is one table",
        }
    ),
    Option("scan.startup.timestamp-millis", refused="the log is read from a place, not from a time"),
    *REFUSED,
)


def _declared(options: ConnectorOptions) -> DeclaredColumns:
    metadata = tuple((name, _METADATA[key]) for name, key in options.metadata)
    return DeclaredColumns(options.columns, options.values["server-time-zone"], metadata)


def _stream(options: ConnectorOptions) -> PostgresStream:
    """The table as the options say. Raises what they, it and its server refuse, naming it."""
    values = options.values
    if values["scan.startup.mode"] == SNAPSHOT:
        remedy = "SET 'execution.runtime-mode' = 'batch', or 'initial' for rows and changes"
        raise Unsupported("option 'scan.startup.mode' = 'snapshot' in streaming mode", remedy)
    if not values["slot.name"]:
        raise InvalidRequest("connector 'postgres-cdc' needs option 'slot.name' in streaming mode")
    source = PostgresStream.open(
        address_of(values),
        values["schema-name"],
        values["table-name"],
        Slot(values["slot.name"], values["tablestore.publication"], AGAIN),
        mode=values["scan.startup.mode"],
        columns=_declared(options),
        **chunks_of(values),
        log_bytes=values["tablestore.log-bytes"],
    )
    require_keys(options, source.table.primary_key, source.table.source)
    return source


def _columns(options: ConnectorOptions) -> tuple[tuple[DataField, ...], tuple[str, ...]]:
    """The columns of the source and its primary key, for a table that declares none."""
    values = options.values
    with Connection.open(address_of(values)) as connection:
        table = table_now(connection, values["schema-name"], values["table-name"])
    return tuple(DataField(0, c.name, c.type) for c in table.shape.columns), table.primary_key


class _PostgresRows:
    """The rows of a table as of when they are first asked for: a view that stays open has them."""

    def __init__(self, options: ConnectorOptions) -> None:
        values, mode = options.values, options.values["scan.startup.mode"]
        require_rows(mode, INITIAL, SNAPSHOT)
        self._address, self._columns = address_of(values), _declared(options)
        with Connection.open(self._address) as connection:
            self._table = table_now(connection, values["schema-name"], values["table-name"])
        self._columns.require(self._table)
        require_keys(options, self._table.primary_key, self._table.source)

    @cached_property
    def _moment(self) -> str:
        """The number of the view."""
        kept = Connection.open(self._address)
        weakref.finalize(self, kept.raw.close)
        kept.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return str(kept.rows("SELECT pg_export_snapshot()")[0][0])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows; the same ones each time. Raises Unsupported where the table was altered since."""
        moment = self._moment
        table = only(self._table, [name for name in columns if name in self._columns.of_table])
        with Connection.open(self._address) as connection, connection.view():
            connection.run(f"SET TRANSACTION SNAPSHOT '{moment}'")
            now = table_now(connection, table.schema_name, table.name, in_view=True)
            if now != self._table:
                raise Unsupported(f"rows of {table.source}, which was altered meanwhile", "ask again")
            for batch in all_rows(connection, table):
                yield self._columns.of(batch, self._table, columns)


def _metadata_type(key: str) -> tuple[str, Any]:
    text = "the schema in the source" if key == "schema_name" else METADATA[key]
    return text, METADATA_TYPES[_METADATA[key]]


CONNECTOR = Connector(
    "postgres-cdc",
    "a table of PostgreSQL",
    _OPTIONS,
    _PostgresRows,
    stream=_stream,
    columns=_columns,
    metadata={key: _metadata_type(key) for key in _METADATA},
)
