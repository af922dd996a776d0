"""Combining files of an append table: their rows in order into new files, without the deleted ones
(FORMAT.md 9.6).

The new files begin at the first file's sequence number and count rows, as Paimon does. With row tracking each
row keeps its id and sequence number as columns of the new file, which then has no first row id. One batch of
one file is in memory, and the open file. Used by the append writer and by `Table.compact`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.format.deletion_vector import DeletionVector, surviving
from tablestore.format.manifests.manifest import COMPACT_SOURCE, DataFileMeta
from tablestore.format.parquet.schema import ROW_TRACKING, SEQUENCE
from tablestore.lsm.compaction.compact_result import CompactResult
from tablestore.lsm.compaction.read_progress import ReadListener, reporting
from tablestore.lsm.levels.bucket_files import AppendRows, BucketFiles, RollingWriter, write_all


def combine(
    files: BucketFiles,
    name: Callable[[], str],
    before: Sequence[DataFileMeta],
    *,
    vectors: Mapping[str, DeletionVector] = MappingProxyType({}),
    on_read: ReadListener | None = None,
) -> CompactResult:
    """The result of replacing `before` by new files with their rows in order. No files remain if it fails.
    `on_read` is called with bytes as they are read."""
    tracked = files.bucket.options.row_tracking
    writer = RollingWriter(
        files,
        name,
        level=0,
        source=COMPACT_SOURCE,
        append=AppendRows(before[0].min_sequence, ROW_TRACKING if tracked else ()),
    )
    written = write_all(writer, _rows(files, before, vectors, tracked, on_read))
    if not tracked:
        return CompactResult(tuple(before), written)
    columns = (*files.bucket.schema.names, *ROW_TRACKING)
    low, high = min(f.min_sequence for f in before), max(f.max_sequence for f in before)
    after = (replace(f, write_cols=columns, min_sequence=low, max_sequence=high) for f in written)
    return CompactResult(tuple(before), tuple(after))


def _rows(
    files: BucketFiles,
    before: Sequence[DataFileMeta],
    vectors: Mapping[str, DeletionVector],
    tracked: bool,
    on_read: ReadListener | None,
) -> Iterator[pa.RecordBatch]:
    for file in before:
        batches = with_row_ids(files, file) if tracked else files.read(file, system=False)
        yield from surviving(reporting(batches, file, on_read), vectors.get(file.file_name))


def with_row_ids(files: BucketFiles, file: DataFileMeta) -> Iterator[pa.RecordBatch]:
    """Every row of a file, deleted or not, with its `_ROW_ID` and `_SEQUENCE_NUMBER`.

    In a file that was never rewritten row ids count from its first row id.
    """
    stored = set(ROW_TRACKING) & set(file.write_cols or ())
    if not stored and file.first_row_id is None:
        stored = set(ROW_TRACKING)
    at, names = file.first_row_id or 0, files.bucket.schema.names
    for batch in files.read(file, system=False, extra=tuple(c for c in ROW_TRACKING if c in stored)):
        ids = np.arange(at, at + batch.num_rows)
        at += batch.num_rows
        computed = {
            ROW_TRACKING[0]: pa.array(ids, pa.int64()),
            SEQUENCE: pa.repeat(pa.scalar(file.max_sequence, pa.int64()), batch.num_rows),
        }
        values = [batch.column(n) for n in names]
        system = [_known(batch, c, computed[c]) for c in ROW_TRACKING]
        yield pa.RecordBatch.from_arrays([*values, *system], names=[*names, *ROW_TRACKING])


def _known(batch: pa.RecordBatch, column: str, otherwise: pa.Array) -> pa.Array:
    """A stored system column with its NULLs filled from `otherwise`, which also replaces an absent column."""
    if column not in batch.schema.names:
        return otherwise
    stored = batch.column(column)
    return stored if not stored.null_count else pc.coalesce(stored, otherwise)
