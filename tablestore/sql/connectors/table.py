"""Temporary tables as queries read them: what a table of a catalog is to a query, made of a connector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tablestore import doors
from tablestore.core.errors import NotFound, Unsupported
from tablestore.flow.sink import StreamSink
from tablestore.flow.source import StreamSource
from tablestore.io.roots import Roots
from tablestore.sql.connectors.connector import (
    BoundedSource,
    Connector,
    ConnectorOptions,
    Sink,
    matching,
)
from tablestore.sql.temporary import TemporaryTable
from tablestore.table.lazy_read import SchemaScan, limited

_ABSENT = {
    "tpch-cdc": "it comes with `from notebooks import course` in a checkout of the workbench",
}


def connector_of(name: str) -> Connector:
    """The connector of a name. Raises Unsupported for one of other engines, NotFound naming the nearest."""
    if name in doors.connectors:
        return doors.connectors[name]()
    connectors = doors.connectors_of_sql()
    if name in _ABSENT:
        raise Unsupported(
            f"connector {name!r}", f"{_ABSENT[name]}; there are {', '.join(sorted(connectors))}"
        )
    if name not in connectors:
        raise NotFound.among("connector", name, connectors)
    return connectors[name]


class ConnectorTable:
    """A temporary table that is read or written; `definition` is what CREATE TEMPORARY TABLE said, `roots`
    are those of the session."""

    def __init__(self, name: str, definition: TemporaryTable, roots: Roots | None) -> None:
        self.name, self.definition = name, definition
        self._connector = connector_of(definition.connector)
        self.options: ConnectorOptions = self._connector.parsed(definition, roots)

    def scan(self) -> ConnectorScan:
        """All its rows, the same at each reading. Raises Unsupported where there are none to read, and what
        the connector refuses."""
        if self._connector.source is None and self._connector.stream is not None:
            return ConnectorScan(_Followed(self.name), self.options.schema)
        if self._connector.source is None:
            raise Unsupported(f"SELECT of {self.name}", f"connector {self._connector.name!r} only takes rows")
        return ConnectorScan(self._connector.source(self.options), self.options.schema)

    def without_rows(self) -> ConnectorScan:
        """A scan that has its columns only: nothing is asked of the connector."""
        return ConnectorScan(_NoRows(), self.options.schema)

    def stream(self) -> StreamSource:
        """Its rows as a stream. Raises Unsupported where a connector gives none, and what it refuses."""
        if self._connector.stream is None:
            raise Unsupported(f"following {self.name}", f"connector {self._connector.name!r} has no stream")
        return self._connector.stream(self.options)

    def sink(self) -> Sink:
        """Where rows that are inserted go. Raises Unsupported where a connector takes none."""
        if self._connector.sink is None:
            why = f"connector {self._connector.name!r} only gives rows"
            raise Unsupported(f"INSERT INTO {self.name}", why)
        return self._connector.sink(self.options)

    def stream_sink(self, *, retracts: bool) -> StreamSink:
        """Where the changes of a stream go; `retracts`: it may take rows back. Raises Unsupported where a
        connector takes none."""
        connector = self._connector
        if connector.stream_sink is None:
            raise Unsupported(
                f"INSERT INTO {self.name} in streaming mode", f"connector {connector.name!r} takes no streams"
            )
        if retracts and not connector.takes_retracts:
            why = f"connector {connector.name!r} only takes new rows, and rows of the query change"
            raise Unsupported(f"a stream of changes into {self.name}", why)
        return connector.stream_sink(self.options)


class _NoRows:
    """A source without rows."""

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """None."""
        return iter(())


@dataclass(frozen=True)
class _Followed:
    """The source of a table that can be followed only."""

    name: str

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        remedy = "its changes have no end: SET 'execution.runtime-mode' = 'streaming'"
        raise Unsupported(f"SELECT of {self.name} in batch mode", remedy)


@dataclass(frozen=True)
class ConnectorScan(SchemaScan):
    """A lazy read of a source; only columns that are asked for are made or read."""

    source: BoundedSource
    full: pa.Schema

    @property
    def full_schema(self) -> pa.Schema:
        """The columns of the source."""
        return self.full

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch."""
        return limited(matching(self.source, self.full, self.schema.names, self.where), self.limit)
