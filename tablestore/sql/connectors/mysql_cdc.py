"""`mysql-cdc`: a table of MariaDB or MySQL, its rows as of now in batch mode, or followed through its
binlog.

Options are those of Flink CDC's connector of this name. Each change comes once, an update with its row
before: a stream may be grouped and joined, whatever is read again after a failure. Columns may have other
types than in the source, where its values fit them. The password is `${env:NAME}` or in a file, and in
nothing that is stored, shown or sent to tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from tablestore.cdc.capture.computed import METADATA, METADATA_TYPES
from tablestore.cdc.databases.declared import DeclaredColumns
from tablestore.cdc.mysql.stream import (
    INITIAL,
    SNAPSHOT,
    SPECIFIC,
    STARTUP_MODES,
    TIMESTAMP,
    MysqlTable,
    StartPoint,
)
from tablestore.core.errors import InvalidOption
from tablestore.core.options.values import one_of
from tablestore.flow.source import Offset
from tablestore.format.types.data_type import DataField
from tablestore.sql.connectors.connector import (
    Connector,
    ConnectorOptions,
    Option,
    count,
    whole,
)
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

_OFFSET = "scan.startup.specific-offset"


_OPTIONS = (
    *where_options(3306, "SELECT, REPLICATION SLAVE and REPLICATION CLIENT"),
    Option("table-name", "the table; no pattern", required=True),
    zone_option("TIMESTAMP"),
    Option(
        "scan.startup.mode",
        "initial: the rows, then changes; snapshot: the rows alone; earliest-offset: what the binlog still "
        "has; latest-offset: changes from now on; specific-offset; timestamp",
        one_of(*STARTUP_MODES),
        default=INITIAL,
    ),
    Option(f"{_OFFSET}.file", "a file of the binlog, for the mode specific-offset"),
    Option(f"{_OFFSET}.pos", "where in it, between two transactions", count, default=4),
    Option(f"{_OFFSET}.gtid-set", "instead of file and pos: the transactions before; of MariaDB"),
    Option("scan.startup.timestamp-millis", "for the mode timestamp: from its first transaction on", whole),
    *CHUNK_OPTIONS,
    TIMEOUT,
    *without_effect(
        {
            "server-id": "each reader takes a number that no server has",
            "heartbeat.interval": "each batch goes to the end of the binlog, whatever table it is of",
            **WITHOUT_EFFECT,
            "use.legacy.json.format": "JSON comes as the server writes it",
        }
    ),
    Option(f"{_OFFSET}.skip-events", refused="a position is between two transactions"),
    Option(f"{_OFFSET}.skip-rows", refused="a position is between two transactions"),
    *REFUSED,
)


def _start(values: Mapping[str, Any]) -> StartPoint:
    mode = values["scan.startup.mode"]
    if mode == TIMESTAMP:
        millis = values["scan.startup.timestamp-millis"]
        if millis is None:
            raise InvalidOption(f"mode {mode!r} needs option 'scan.startup.timestamp-millis'")
        return StartPoint(mode, millis=millis)
    if mode == SPECIFIC:
        file, gtid = values[f"{_OFFSET}.file"], values[f"{_OFFSET}.gtid-set"]
        if bool(file) == bool(gtid):
            raise InvalidOption(f"mode {mode!r} needs option '{_OFFSET}.file' or '{_OFFSET}.gtid-set'")
        return StartPoint(mode, file=file or "", offset=values[f"{_OFFSET}.pos"], gtid=gtid or "")
    return StartPoint(mode)


def _opened(options: ConnectorOptions, columns: DeclaredColumns | None) -> MysqlTable:
    """The table as the options say. Raises what it and its server refuse, naming it."""
    values = options.values
    source = MysqlTable.open(
        address_of(values),
        values["table-name"],
        columns=columns,
        **chunks_of(values),
        start=_start(values),
    )
    require_keys(options, source.table.primary_key, source.table)
    return source


def _stream(options: ConnectorOptions) -> MysqlTable:
    declared = DeclaredColumns(options.columns, options.values["server-time-zone"], options.metadata)
    return _opened(options, declared)


def _columns(options: ConnectorOptions) -> tuple[tuple[DataField, ...], tuple[str, ...]]:
    """The columns of the source and its primary key, for a table that declares none."""
    table = _opened(options, None).table
    fields = (DataField(0, column.name, column.type) for column in table.columns)
    return tuple(fields), table.primary_key


class _MysqlRows:
    """The rows of a table as of when they are first asked for."""

    def __init__(self, options: ConnectorOptions) -> None:
        mode = _start(options.values).mode
        require_rows(mode, INITIAL, SNAPSHOT)
        self._table = _stream(options)

    @cached_property
    def _moment(self) -> Offset:
        return self._table.latest()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows; the same ones each time."""
        yield from self._table.rows(columns, self._moment)


CONNECTOR = Connector(
    "mysql-cdc",
    "a table of MariaDB or MySQL",
    _OPTIONS,
    _MysqlRows,
    stream=_stream,
    columns=_columns,
    metadata={key: (text, METADATA_TYPES[key]) for key, text in METADATA.items()},
)
