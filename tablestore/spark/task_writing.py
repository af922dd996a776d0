"""The rows of one task of Spark as files that are written but not committed. Called by sinks and frames."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tablestore.format import rowkind
from tablestore.table.table import Table


def written(
    table: Table, batches: Iterator[pa.RecordBatch], sequence_base: int, row_kind_column: str | None
) -> list[bytes]:
    """The commit messages of rows that are written but not committed; if it fails their files are deleted."""
    writer = table.open_writer(sequence_base=sequence_base, compact=False)
    try:
        for batch in batches:
            kinds = None
            if row_kind_column is not None:
                at = batch.schema.get_field_index(row_kind_column)
                batch, kinds = batch.remove_column(at), rowkind.parse(batch.column(at))
            writer.write(batch, kinds=kinds)
        return writer.prepare()
    finally:
        writer.close()
