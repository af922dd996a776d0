"""The columns of a scan: those that it returns, and those of its batches, which may have been written with an
older schema, or be projected by the server.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.schemas import TableSchemas
from tablestore.fluss.tables import FlussTable


class ScanColumns:
    """Which columns a scan returns, and which its batches have."""

    def __init__(self, cluster: Cluster, table: FlussTable, columns: Sequence[str] | None) -> None:
        self._schemas, schema = TableSchemas(cluster, table), table.arrow_schema
        for name in columns or ():
            if name not in schema.names:
                raise NotFound.among("column", name, schema.names)
        names = schema.names if columns is None else list(columns)
        self.schema = pa.schema([schema.field(name) for name in names])
        positions = sorted({schema.names.index(name) for name in names})
        self.positions = None if len(positions) == len(schema) else positions
        """Of the columns that the server is asked for; None: all."""
        self._projected: dict[int, pa.Schema] = {}

    def stored(self, schema_id: int, projected: bool) -> pa.Schema:
        """The columns of a batch."""
        schema = self._schemas.arrow_schema(schema_id)
        if not projected or self.positions is None:
            return schema
        if schema_id not in self._projected:
            named = [schema.field(i) for i in self.positions if i < len(schema)]
            self._projected[schema_id] = pa.schema(named)
        return self._projected[schema_id]
