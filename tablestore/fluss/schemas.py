"""The columns of a table under each of its schemas, and rows of an older one as rows of the newest."""

from __future__ import annotations

import pyarrow as pa

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
