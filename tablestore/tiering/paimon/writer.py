"""PaimonLakeWriter: the rows of one split → files of one bucket of a lake table.

The table's own writer does it, with the bucket given instead of hashed: what it decides about levels, files
and compactions is decided as ever. A sample of each split is hashed, since a table of the cluster that was
made for another lake puts rows into other buckets. Small batches are put together before they are written.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Unsupported
from tablestore.core.options.table_options import ChangelogProducer, MergeEngine
from tablestore.format import hashing, rowkind
from tablestore.format.types.arrow_types import arrow_schema
from tablestore.log.fluss_log import places_in_log
from tablestore.table.table import Table
from tablestore.table.writer import EngineWriter
from tablestore.table.writes import table_write
from tablestore.tiering.cluster import ClusterTable, RowBatch
from tablestore.tiering.factory import COMMIT_USER
from tablestore.tiering.paimon.definition import has_log_columns
from tablestore.tiering.splits import TieringSplit
from tablestore.write.routing import routing
from tablestore.write.table_write import WriteSettings

_WRITTEN_ROWS = 131_072  # batches are put together up to so many rows
_SAMPLE = 16


@dataclass(frozen=True, slots=True)
class PaimonWriteResult:
    """Commit messages of one writer, as bytes."""

    messages: tuple[bytes, ...]
    rows: int


class PaimonLakeWriter:
    """Writes one split. `replaces`: as if the table were empty. Belongs to one thread."""

    def __init__(self, table: Table, source: ClusterTable, split: TieringSplit, *, replaces: bool) -> None:
        store = table.store
        fixed = store.options.bucket > 0
        self._bucket, self._split = split.bucket if fixed else routing.UNAWARE_BUCKET, split
        compact = not store.options.write_only and not replaces and fixed
        settings = WriteSettings(compact, ignore_live=replaces, bucket=self._bucket)
        self._target = table_write(store, settings, user=COMMIT_USER)
        self._writer = EngineWriter(self._target, store)
        self._schema, self._options = store.schema, store.options
        self._columns = arrow_schema(source.fields)
        self._log_columns = has_log_columns(table)
        inputs = store.options.changelog_producer is ChangelogProducer.INPUT
        newest_is_state = store.options.merge_engine is MergeEngine.DEDUPLICATE
        self._skips_before = bool(source.primary_keys) and not inputs and newest_is_state
        self._waiting: list[tuple[pa.RecordBatch, pa.Array | None]] = []
        self._rows = self._count = 0
        self._checked = not fixed

    def write(self, batch: RowBatch) -> None:
        """Add rows, in the order of their offsets."""
        rows = self._as_columns(batch)
        if not rows.num_rows:
            return
        if not self._checked:
            self._require_bucket(rows)
        self._waiting.append((rows, batch.kinds))
        self._count += rows.num_rows
        if self._count >= _WRITTEN_ROWS:
            self._flush()

    def _as_columns(self, batch: RowBatch) -> pa.RecordBatch:
        """The rows in the types of the table, with the columns of the log."""
        arrays = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.rows.columns, self._columns, strict=True)
        ]
        names = list(self._columns.names)
        if self._log_columns:
            first, count = batch.first_offset, batch.rows.num_rows
            places = places_in_log(self._split.bucket, first, batch.timestamp_ms, count)
            names += places
            arrays += places.values()
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _require_bucket(self, rows: pa.RecordBatch) -> None:
        """Raise Unsupported if the lake's hash says another bucket than the cluster."""
        fields = self._schema.columns(self._schema.bucket_keys)
        keys = [rows.slice(0, _SAMPLE).column(f.name) for f in fields]
        function = self._options.bucket_function
        by_lake = hashing.bucket_of(keys, [f.type for f in fields], self._options.bucket, function)
        if (by_lake != self._bucket).any():
            text = f"{self._split.table_path}: bucket {self._bucket} has rows of bucket {int(by_lake.max())}"
            why = "the cluster hashes for another lake: make the table with datalake.format = paimon"
            raise Unsupported(text, why)
        self._checked = True

    def _flush(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting, self._count = self._waiting, [], 0
        rows = pa.Table.from_batches([rows for rows, _ in waiting]).combine_chunks().to_batches()
        kinds = None
        if any(kinds is not None for _, kinds in waiting):
            parts = [
                pa.array(np.zeros(rows.num_rows, dtype=np.int8)) if kinds is None else kinds
                for rows, kinds in waiting
            ]
            kinds = pa.concat_arrays(parts)
        at = 0
        for batch in rows:
            own = None if kinds is None else kinds.slice(at, batch.num_rows)
            at += batch.num_rows
            if own is not None and self._skips_before:
                keep = pa.array(own.to_numpy(zero_copy_only=False) != rowkind.UPDATE_BEFORE)
                batch, own = batch.filter(keep), own.filter(keep)
            self._writer.write(batch, own)
            self._rows += batch.num_rows

    def complete(self) -> PaimonWriteResult:
        """Write what waits; the messages."""
        self._flush()
        try:
            return PaimonWriteResult(tuple(self._writer.prepare()), self._rows)
        finally:
            self._writer.close()

    def abort(self) -> None:
        """Delete what was written."""
        self._waiting = []
        self._writer.close()
