"""Data files of one bucket: fresh names, rolled writing, reading in the current schema.

Nothing points to a file until its metadata are committed, so a failed or aborted writer deletes what it made.
Used by the writer and the rewriter of a bucket; belongs to one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from tablestore.env import Env
from tablestore.errors import TablestoreError, Unsupported
from tablestore.format import datafile, evolution
from tablestore.format.datafile import DataFileWriter, WrittenFile
from tablestore.format.manifest import DataFileMeta
from tablestore.format.schema import TableSchema
from tablestore.io.fileio import FileIO
from tablestore.io.paths import inside, join
from tablestore.lsm.merge_function import joined
from tablestore.options import TableOptions

log = logging.getLogger(__name__)
_ROLL_ROWS = 65_536  # rows between two looks at the size of the file
_FEW_ROWS = 16_384  # batches below this are joined before they are written


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """Where the files of one bucket are and how they are read. `schema` is the one that new files are
    written in."""

    env: Env
    io: FileIO
    directory: str
    schema: TableSchema
    options: TableOptions
    schema_of: Callable[[int], TableSchema]

    def path(self, name: str) -> str:
        """Where a file of that name is; raises Corrupt for names that leave the bucket."""
        return join(self.directory, inside(name))

    def read(self, file: DataFileMeta, *, batch_rows: int = _ROLL_ROWS) -> Iterator[pa.RecordBatch]:
        """kv batches of a file in the current schema; text stays dictionary-encoded where the file has it
        so."""
        if file.external_path is not None:
            raise Unsupported("data files outside the table", file.external_path)
        own = self.schema_of(file.schema_id)
        mapping = evolution.projection(own, self.schema, self.schema.names)
        batches = datafile.read(
            self.io,
            self.path(file.file_name),
            own,
            mapping.file_columns,
            file_size=file.file_size,
            batch_rows=batch_rows,
            dictionary=True,
        )
        for batch in batches:
            yield evolution.evolve(batch, mapping)

    def delete(self, names: Iterable[str]) -> None:
        """Remove files that nothing points to. What cannot be removed is logged and left behind as an
        orphan."""
        for name in names:
            try:
                self.io.delete(self.path(name))
            except (OSError, TablestoreError) as e:
                log.warning("could not delete %s/%s: %s", self.directory, name, e)


class FileNames:
    """`data-<uuid>-<n>.parquet` and `changelog-<uuid>-<n>.parquet` with one counter for both."""

    def __init__(self, files: BucketFiles) -> None:
        self._options, self._uuid, self._next = files.options, files.env.uuid(), 0

    def data(self) -> str:
        """A fresh name for a data file."""
        return self._name(self._options.data_file_prefix)

    def changelog(self) -> str:
        """A fresh name for a changelog file."""
        return self._name(self._options.changelog_file_prefix)

    def _name(self, prefix: str) -> str:
        number, self._next = self._next, self._next + 1
        return f"{prefix}{self._uuid}-{number}.{self._options.file_format}"


class RollingWriter:
    """Writes kv batches in key order into as many files as the target size asks for."""

    def __init__(self, files: BucketFiles, name: Callable[[], str], *, level: int, source: int) -> None:
        self._files, self._name, self._level, self._source = files, name, level, source
        self._target = files.options.target_bytes(keyed=True)
        self._writer: DataFileWriter | None = None
        self._path_name = ""
        self._done: list[DataFileMeta] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows whose keys follow those before."""
        for start in range(0, batch.num_rows, _ROLL_ROWS):
            if self._writer is None:
                self._open()
            assert self._writer is not None
            self._writer.write(batch.slice(start, _ROLL_ROWS))
            if self._writer.bytes_written >= self._target:
                self._finish()

    def _open(self) -> None:
        files = self._files
        self._path_name = self._name()
        path = files.path(self._path_name)
        self._writer = DataFileWriter(files.io, path, files.schema, files.options)

    def _finish(self) -> None:
        assert self._writer is not None
        written = self._writer.close()
        self._done.append(self._meta(written))
        self._writer = None

    def _meta(self, written: WrittenFile) -> DataFileMeta:
        return DataFileMeta(
            file_name=self._path_name,
            file_size=written.size,
            row_count=written.rows,
            min_key=written.min_key,
            max_key=written.max_key,
            key_stats=written.key_stats,
            value_stats=written.value_stats,
            min_sequence=written.min_sequence,
            max_sequence=written.max_sequence,
            schema_id=self._files.schema.id,
            level=self._level,
            creation_time_ms=self._files.env.local_now_ms(),
            delete_count=written.delete_count,
            file_source=self._source,
            value_stats_cols=written.value_stats_cols,
        )

    def close(self) -> tuple[DataFileMeta, ...]:
        """Finish the last file; metadata of all of them, in key order. No rows, no file."""
        if self._writer is not None:
            self._finish()
        return tuple(self._done)

    def abort(self) -> None:
        """Delete every file this writer made."""
        if self._writer is not None:
            try:
                self._writer.abort()
            except (OSError, TablestoreError) as e:
                log.warning("could not delete %s/%s: %s", self._files.directory, self._path_name, e)
            self._writer = None
            self._files.delete([self._path_name])  # opening it may have failed half-way
        self._files.delete(f.file_name for f in self._done)
        self._done = []


def write_all(writer: RollingWriter, batches: Iterable[pa.RecordBatch]) -> tuple[DataFileMeta, ...]:
    """The files that hold all batches; none if anything goes wrong."""
    try:
        for batch in _joined(batches):
            writer.write(batch)
        return writer.close()
    except BaseException:
        writer.abort()
        raise


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows with small neighbouring batches made one: each batch costs, however few its rows."""
    few: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if few and rows + batch.num_rows > _ROLL_ROWS:
            yield joined(few)
            few, rows = [], 0
        if batch.num_rows >= _FEW_ROWS and not few:
            yield batch
            continue
        few.append(batch)
        rows += batch.num_rows
    if few:
        yield joined(few)
