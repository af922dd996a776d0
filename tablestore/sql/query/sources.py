"""Rows of our scans as DuckDB takes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tablestore.sql.query.connection import Connection


class Rows:
    """The rows of a scan as an Arrow stream that can be read more than once; reading begins with its first
    batch."""

    def __init__(self, scan: Any, connection: Connection | None = None) -> None:
        self._scan, self._connection = scan, connection

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        batches = self._scan.to_batches()
        if self._connection is not None:
            batches = self._connection.watched(batches)
        reader = pa.RecordBatchReader.from_batches(self._scan.schema, batches)
        return reader.__arrow_c_stream__(requested_schema)
