"""IcebergLakeWriter: the rows of one split → Parquet files in the directory of an Iceberg table.

Files are named in no snapshot before the commit. A split is of one partition, so every file is, too.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.core.env import SYSTEM
from tablestore.log.fluss_log import places_in_log
from tablestore.tiering.cluster import RowBatch
from tablestore.tiering.splits import TieringSplit

log = logging.getLogger(__name__)
_GROUP_ROWS = 131_072  # rows that wait for their row group
_FILE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class IcebergWriteResult:
    """Locations of the files of one writer."""

    files: tuple[str, ...]
    rows: int


class IcebergLakeWriter:
    """Writes one split. Memory: the rows of a row group, and Parquet's own. Belongs to one thread."""

    def __init__(self, table: Any, split: TieringSplit, columns: pa.Schema) -> None:
        self._io, self._places = table.io, table.location_provider()
        self._split, self._columns = split, columns
        self._files: list[str] = []
        self._waiting: list[pa.RecordBatch] = []
        self._count = self._rows = 0
        self._out: Any = None
        self._parquet: pq.ParquetWriter | None = None

    def write(self, batch: RowBatch) -> None:
        """Add rows, in the order of their offsets."""
        self._waiting.append(self._as_columns(batch))
        self._count += batch.rows.num_rows
        self._rows += batch.rows.num_rows
        if self._count >= _GROUP_ROWS:
            self._flush()

    def _as_columns(self, batch: RowBatch) -> pa.RecordBatch:
        first, count = batch.first_offset, batch.rows.num_rows
        there = set(batch.rows.schema.names)
        log_columns = {}
        if not there.issuperset(self._columns.names):
            log_columns = places_in_log(self._split.bucket, first, batch.timestamp_ms, count)
        arrays = []
        for field in self._columns:
            values = batch.rows.column(field.name) if field.name in there else log_columns[field.name]
            arrays.append(values if values.type == field.type else values.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def _flush(self) -> None:
        if not self._count:
            return
        rows, self._waiting, self._count = pa.Table.from_batches(self._waiting), [], 0
        if self._parquet is None:
            place = self._places.new_data_location(data_file_name=f"{SYSTEM.uuid()}.parquet")
            self._files.append(place)
            self._out = self._io.new_output(place).create()
            self._parquet = pq.ParquetWriter(self._out, self._columns, compression="zstd")
        self._parquet.write_table(rows, row_group_size=_GROUP_ROWS)
        if self._out.tell() >= _FILE_BYTES:
            self._end_file()

    def _end_file(self) -> None:
        if self._parquet is not None:
            self._parquet.close()
            self._out.close()
        self._parquet = self._out = None

    def complete(self) -> IcebergWriteResult:
        """Write what waits; where the files are."""
        self._flush()
        self._end_file()
        return IcebergWriteResult(tuple(self._files), self._rows)

    def abort(self) -> None:
        """Delete what was written."""
        self._waiting, self._count = [], 0
        self._end_file()
        deleted(self._io, self._files)


def deleted(io: Any, files: Any) -> None:
    """Delete files of no snapshot; one that cannot be deleted is logged and stays as an orphan."""
    for file in files:
        try:
            io.delete(file)
        except FileNotFoundError:
            pass
        except OSError as e:
            log.warning("left %s behind, which no snapshot names: %s", file, e)
