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
    """A read that begins with a `to_…`. Subclasses give the columns and the batches."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Arrow schema of the result."""

    @abstractmethod
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The result, batch by batch."""

    def to_reader(self) -> pa.RecordBatchReader:
        """The result as an Arrow stream, read batch by batch: duckdb, polars and others take it.

        >>> orders.scan().to_reader().read_all().num_rows
        3
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """The whole result in memory, as an Arrow table.

        >>> orders.scan(["order_id"]).to_arrow()["order_id"].to_pylist()
        [1, 2, 3]
        """
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_pandas(self, **options: Any) -> Any:
        """The whole result as a pandas DataFrame; `options` are those of `pyarrow.Table.to_pandas`. Raises
        Unsupported where pandas is not installed.

        >>> float(orders.scan().to_pandas()["amount"].sum())
        40.0
        """
        required("pandas", by=f"{type(self).__name__}.to_pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> Any:
        """The whole result as a polars DataFrame. Raises Unsupported where polars is not installed.

        >>> orders.scan().to_polars().shape
        (3, 4)
        """
        polars = required("polars", by=f"{type(self).__name__}.to_polars")
        return polars.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_reader().__arrow_c_stream__(requested_schema)
