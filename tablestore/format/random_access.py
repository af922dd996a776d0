"""RandomFile: reads of single row groups and single rows of a data file of any format.

Of files that are not Parquet, and where pages cannot be read alone, all rows of the wanted columns are read.
What is cached of a file never changes, so it can be cached under the file's path and shared between threads.
Memory: one row group, or one batch and the wanted rows. Used by lookups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Corrupt
from tablestore.format import checksums, datafile, stats
from tablestore.format.data_format import FileRequest
from tablestore.format.parquet import data as parquet_data
from tablestore.format.parquet.checked_file import leaf_positions
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats
from tablestore.io.fileio import FileIO
from tablestore.io.paths import file_format

_FEW_ROWS = 32_768  # a smaller row group is read as a whole when its keys are searched


class RandomFile:
    """One file, written with `schema`: its row groups (one, if it is not Parquet) and rows by position.

    A file whose format has no checksums is verified once, when it is opened, with the one in `checksums_dir`.
    """

    def __init__(
        self,
        io: FileIO,
        path: str,
        schema: TableSchema,
        *,
        rows: int,
        file_size: int,
        checksums_dir: str | None = None,
    ) -> None:
        self._path, self._schema, self._size = path, schema, file_size
        parquet = file_format(path) == "parquet"
        self._verified = False
        if checksums_dir is not None and not parquet:
            self._verified = checksums.require_sum(io, checksums_dir, path)
        self._layout = parquet_data.layout(io, path, file_size=file_size) if parquet else None
        self.starts = self._layout.starts if self._layout is not None else np.array([0, rows])
        if self.starts[-1] != rows:
            raise Corrupt(path, f"holds {self.starts[-1]:,} rows, its manifest says {rows:,}")

    @property
    def nbytes(self) -> int:
        """Approximate bytes in memory."""
        return self._layout.nbytes if self._layout is not None else 1_024

    def bounds(self, column: str) -> list[ColumnStats] | None:
        """Statistics of a column in each row group; None: unknown."""
        if self._layout is None:
            return None
        footer, t = self._layout.footer, self._schema.by_name[column].type
        at = leaf_positions(footer).get(column)
        if at is None:
            raise Corrupt(self._path, f"it has no column {column!r}")
        return [stats.of_column(footer, at, t, group=g) for g in range(footer.num_row_groups)]

    def page_bounds(
        self, io: FileIO, group: int, column: str
    ) -> tuple[np.ndarray, list[object], list[object]] | None:
        """(first rows of the pages of a column in a row group with the number of rows at the end, minimum,
        maximum of each page); None where they are unknown without reading values."""
        if self._layout is None or self.group_rows(group) < _FEW_ROWS:
            return None
        t = self._schema.by_name[column].type
        return parquet_data.page_bounds(io, self._path, self._layout, group, column, t)

    def group_rows(self, group: int) -> int:
        """Rows of a row group."""
        return int(self.starts[group + 1] - self.starts[group])

    def group_bytes(self, group: int) -> int:
        """Bytes of a row group before compression; 0 if unknown."""
        return self._layout.footer.row_group(group).total_byte_size if self._layout is not None else 0

    def group(
        self,
        io: FileIO,
        group: int,
        columns: Sequence[str],
        *,
        system: bool = False,
        dictionary: bool = False,
    ) -> list[pa.RecordBatch]:
        """All rows of a row group, with the columns of `datafile.read`."""
        request = FileRequest(columns, system=system, dictionary=dictionary)
        if self._layout is not None:
            request = replace(request, footer=self._layout.footer, groups=(group,))
        group_batches = self._read(io, request)
        count, wanted = sum(b.num_rows for b in group_batches), self.group_rows(group)
        if count != wanted:
            raise Corrupt(self._path, f"row group {group} holds {count:,} rows, not {wanted:,}")
        return group_batches

    def rows(
        self, io: FileIO, group: int, places: np.ndarray, columns: Sequence[str], *, system: bool = True
    ) -> pa.RecordBatch | None:
        """kv rows (values only without `system`) of a row group at ascending positions; None where reading
        all of it costs no more. Text stays dictionary-encoded where the file holds it so."""
        if self._layout is None:
            return None
        names = FileRequest(columns, system=system).names
        return datafile.read_rows(io, self._path, self._schema, names, self._layout, group, places)

    def chosen(
        self, io: FileIO, group: int, places: np.ndarray, columns: Sequence[str]
    ) -> list[pa.RecordBatch]:
        """The rows at these positions in any case, if necessary by reading all batches."""
        mask = np.zeros(int(self.starts[-1]), dtype=bool)
        mask[places + self.starts[group]] = True
        return self._read(io, FileRequest(columns, rows=mask, dictionary=True))

    def _read(self, io: FileIO, request: FileRequest) -> list[pa.RecordBatch]:
        size, verified = self._size, self._verified
        return list(datafile.read(io, self._path, self._schema, request, file_size=size, verified=verified))
