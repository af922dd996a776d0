"""The forms in which a lazy read gives its result: what scans of tables and of system tables share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tablestore.core.arguments import checked
from tablestore.core.extras import required


@checked
class LazyRead(ABC):
    """Nothing is read before a `to_…`. Subclasses say what the columns are and give the batches."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Arrow schema of the result."""

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The result, batch by batch."""

    def to_reader(self) -> pa.RecordBatchReader:
        """An Arrow stream for duckdb, polars and others."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """The whole result in memory."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_pandas(self, **options: Any) -> Any:
        """The whole result as a pandas DataFrame; raises Unsupported where pandas is not installed."""
        required("pandas", by=f"{type(self).__name__}.to_pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> Any:
        """The whole result as a polars DataFrame; raises Unsupported where polars is not installed."""
        polars = required("polars", by=f"{type(self).__name__}.to_polars")
        return polars.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)
