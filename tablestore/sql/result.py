"""Result: what one statement gave: rows, or what it changed."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tablestore.core.errors import InvalidRequest
from tablestore.table.lazy_read import LazyRead


class Result(LazyRead):
    """The rows of a statement, in the forms that a scan has. `to_reader` and `to_batches` give rows as they
    come, once; the other forms keep them and may be asked again.

    `rows_affected` are rows written or marked as gone, None where a statement writes none; `snapshots` those
    that it made; `message` is what it did, in words; `statement` its text; `seconds` until it was done or its
    first rows were there.
    """

    def __init__(
        self,
        rows: pa.RecordBatchReader | pa.Table | None = None,
        *,
        rows_affected: int | None = None,
        snapshots: tuple[int, ...] = (),
        message: str = "",
    ) -> None:
        rows = pa.schema([]).empty_table() if rows is None else rows
        self._all = rows if isinstance(rows, pa.Table) else None
        self._coming = None if isinstance(rows, pa.Table) else rows
        self._schema = rows.schema
        self.rows_affected, self.snapshots, self.message = rows_affected, snapshots, message
        self.statement, self.seconds = "", 0.0

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows; no columns where a statement gives none."""
        return self._schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Rows as they come. Raises InvalidRequest if they were given as a stream before."""
        if self._all is not None:
            return iter(self._all.to_batches())
        if self._coming is None:
            raise InvalidRequest("the rows of this result were given as a stream: run the statement again")
        coming, self._coming = self._coming, None
        return iter(coming)

    def to_arrow(self) -> pa.Table:
        """All rows, as an Arrow table."""
        if self._all is None:
            self._all = pa.Table.from_batches(self.to_batches(), self.schema)
        return self._all

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __repr__(self) -> str:
        if not self.schema.names:
            return f"Result({self.message})"
        return f"Result({len(self):,} rows: {', '.join(self.schema.names)})"
