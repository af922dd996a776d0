"""The columns of a table under each of its schemas, rows of an older one as rows of the newest, and the
columns of a scan: those that it returns, and those of its batches, which the server may have projected.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tablestore.core.errors import NotFound
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.tables import FlussColumn, FlussTable


class TableSchemas:
    """The schemas of one table; an older one is asked for when rows of it are found."""

    def __init__(self, cluster: Cluster, table: FlussTable) -> None:
        self._cluster, self._table = cluster, table
        self._columns: dict[int, tuple[FlussColumn, ...]] = {table.schema_id: table.columns}
        self._arrow: dict[int, pa.Schema] = {}

    def columns(self, schema_id: int) -> tuple[FlussColumn, ...]:
        """The columns under a schema. Raises FlussError 9 if there is none."""
        if schema_id not in self._columns:
            self._columns[schema_id] = Admin(self._cluster).columns(self._table.path, schema_id)
        return self._columns[schema_id]

    def arrow_schema(self, schema_id: int) -> pa.Schema:
        """Their form in log batches."""
        if schema_id not in self._arrow:
            self._arrow[schema_id] = pa.schema([column.arrow for column in self.columns(schema_id)])
        return self._arrow[schema_id]


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with the columns of `schema`, in its order; one that they do not have is NULL."""
    if rows.schema.names == schema.names:
        return rows
    arrays = [
        rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


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
