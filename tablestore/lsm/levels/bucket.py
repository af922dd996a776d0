"""One bucket of a table and its data files: new names, rolling writers, reads in the current schema.

`Bucket` is the argument of writers, compactions and lookups; `write.buckets.bucket_of` makes it from a
table's store. It is immutable, so safe to share. `BucketFiles` has what changes during the work. Nothing
points to a file until its metadata are committed, so a failed or aborted writer deletes the files it made,
with their indexes. Files end at multiples of 1,024 rows (of about as many as with Paimon), or of fewer where
rows are wide. All but `Bucket` belong to one thread.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from tablestore.core.env import Env
from tablestore.core.errors import CommitConflict, TablestoreError
from tablestore.core.options.table_options import TableOptions
from tablestore.format import checksums, datafile, evolution
from tablestore.format.binary_row import comparable_keys
from tablestore.format.commit_message import CommitMessage
from tablestore.format.data_format import FileRequest, FileSpec, counted
from tablestore.format.datafile import INDEX_SUFFIX, DataFileWriter, WrittenFile
from tablestore.format.manifests.index_manifest import IndexFileMeta
from tablestore.format.manifests.manifest import APPEND_SOURCE, DataFileMeta
from tablestore.format.schema import TableSchema
from tablestore.io.confined import roots_of
from tablestore.io.fileio import FileIO
from tablestore.io.paths import ExternalPaths, TablePaths, checked_external, inside, join, local_external
from tablestore.lsm.levels.sorted_run import KeyOrder, Levels
from tablestore.lsm.merge.groups import joined

log = logging.getLogger(__name__)
_ROLL_ROWS = 65_536  # maximum rows between two checks of the file's size
_FEW_ROWS = 16_384  # batches of fewer rows are joined before they are written
NEAR = 0.9  # share of the target size at which a file is full
_STEP_ROWS = 1 << 10
_STEP_BYTES = 1 << 20  # of a step, at most; more where that is an eighth of the target


def step_rows(row_bytes: float, *, target_bytes: int) -> int:
    """Rows between two places where a file may end; `row_bytes` are those of one row."""
    max_rows = max(_STEP_BYTES, target_bytes / 8) / max(row_bytes, 1.0)
    return _STEP_ROWS if max_rows >= _STEP_ROWS else 1 << max(int(max_rows).bit_length() - 1, 0)


def file_rows(row_bytes: float, *, target_bytes: int, file_bytes: float = 0.0) -> int:
    """Rows of a file at which the next one begins; `file_bytes` are those of a file without rows."""
    wanted = max(1.0, (NEAR * target_bytes - file_bytes) / row_bytes)
    step = step_rows(row_bytes, target_bytes=target_bytes)
    return -int(-wanted // step) * step


@dataclass(frozen=True)
class Bucket:
    """One bucket of one partition. New files are written in `schema`; `schema_of` gives a live file's schema
    by its id, `index_path` the path of an index file, or of a new one of that name.

    `files` and `index_files` are the live ones; empty where the work does not need them.
    """

    env: Env
    io: FileIO
    partition: bytes
    number: int
    total_buckets: int
    directory: str
    schema: TableSchema
    options: TableOptions
    schema_of: Callable[[int], TableSchema]
    index_path: Callable[[IndexFileMeta | str], str]
    files: tuple[DataFileMeta, ...] = ()
    index_files: tuple[IndexFileMeta, ...] = ()

    @cached_property
    def key_order(self) -> KeyOrder:
        """A function that makes serialized keys of the bucket comparable."""
        return comparable_keys([f.type for f in self.schema.key_fields])

    @cached_property
    def levels(self) -> Levels:
        """The live files by level."""
        return Levels.of(self.files, self.options.num_levels, self.key_order)

    @property
    def size(self) -> int:
        """Bytes of the live files."""
        return sum(f.file_size for f in self.files)

    def message(self, **changes: Any) -> CommitMessage:
        """The commit message of this bucket with these `changes`, fields of `CommitMessage`."""
        return CommitMessage(self.partition, self.number, self.total_buckets, **changes)


class BucketFiles:
    """The files of a bucket: paths, reads, and the files made since the last `hand_over`."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self._io, self._schema, self._options = bucket.io, bucket.schema, bucket.options
        self._placed: dict[str, str] = {}  # external paths of new files
        self._made: list[str] = []

    def path(self, file: str | DataFileMeta) -> str:
        """The path of a file; raises Corrupt for one outside the bucket and the table's external paths."""
        if isinstance(file, str):
            return local_external(self._placed[file]) if file in self._placed else self._inside(file)
        if file.external_path is None:
            return self._inside(file.file_name)
        allowed, option = roots_of(self._io), self._options.external_paths
        return checked_external(file.external_path, file.file_name, allowed=allowed, option=option)

    @cached_property
    def checksums_dir(self) -> str:
        """The table's folder of checksums, outside partitions and `data-file.path-directory`."""
        below = 1 + len(self._schema.partition_keys)
        below += len([d for d in self._options.data_directory.split("/") if d])
        return TablePaths("/".join(self.bucket.directory.split("/")[:-below])).checksums_dir

    def _inside(self, name: str) -> str:
        return join(self.bucket.directory, inside(name))

    @cached_property
    def _external(self) -> ExternalPaths:
        external = ExternalPaths.of(self._options)
        external.require(roots_of(self._io))
        return external

    @cached_property
    def _first_root(self) -> int:
        return int(self.bucket.env.uuid()[:8], 16)

    def place(self, name: str) -> str | None:
        """The external path of the new file `name`; None if it goes inside the table."""
        self._made.append(name)
        if not self._external.used:
            return None
        folders = self._options.data_directory.strip("/").split("/")
        levels = 1 + len(self._schema.partition_keys) + len(folders)
        tail = self.bucket.directory.split("/")[-levels if self._options.data_directory else 1 - levels :]
        number = self._first_root + len(self._placed)
        self._placed[name] = self._external.place(number, "/".join(tail), name)
        return self._placed[name]

    def hand_over(self) -> None:
        """Give up ownership of the files made so far: `drop` no longer deletes them."""
        self._made.clear()

    def drop(self) -> None:
        """Delete every file made since the last `hand_over`, finished or not."""
        self.delete(self._made)
        self._made.clear()

    def read(
        self,
        file: DataFileMeta,
        *,
        batch_rows: int = _ROLL_ROWS,
        columns: Sequence[str] | None = None,
        system: bool = True,
        extra: Sequence[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """kv batches of a file in the current schema (value columns only without `system`).

        Of `columns`, if given; `extra` are stored row-tracking columns that follow. Text stays
        dictionary-encoded where the file has it so.
        """
        own = self.bucket.schema_of(file.schema_id)
        if columns is None:
            self.require_known(own)
        mapping = evolution.projection(own, self._schema, self._schema.names if columns is None else columns)
        batches = datafile.read(
            self._io,
            self.path(file),
            own,
            FileRequest(
                (*mapping.file_columns, *extra), system=system, dictionary=True, batch_rows=batch_rows
            ),
            file_size=file.file_size,
            checksums_dir=self.checksums_dir,  # else damage would be rewritten with a valid checksum
        )
        for batch in counted(batches, file.row_count, self.path(file)):
            if not extra:
                yield evolution.evolve(batch, mapping)
                continue
            values = evolution.evolve(batch.drop_columns(list(extra)), mapping)
            for name in extra:
                values = values.append_column(batch.schema.field(name), batch.column(name))
            yield values

    def require_known(self, written: TableSchema) -> None:
        """Raise CommitConflict for rows with columns that this schema lacks: rewriting would lose them."""
        lost = evolution.unknown_columns(written, self._schema) if written.id > self._schema.id else []
        if lost:
            raise CommitConflict(
                f"the table was altered to schema {written.id}, which adds {', '.join(lost)}; a writer of "
                f"schema {self._schema.id} cannot rewrite its rows: refresh() the table and write again"
            )

    def delete(self, files: Iterable[str | DataFileMeta]) -> None:
        """Delete files that nothing points to, with their indexes. One that cannot be deleted is logged and
        stays as an orphan."""
        for file in files:
            try:
                path = self.path(file)
                self._io.delete(path)
                checksums.delete_sum(self._io, self.checksums_dir, path)
                if isinstance(file, DataFileMeta):
                    for name in file.extra_files:
                        self._io.delete(join(path.rsplit("/", 1)[0], inside(name)))
                elif self._indexed:
                    self._delete_indexes(path)
            except (OSError, TablestoreError) as e:
                name = file if isinstance(file, str) else file.file_name
                log.warning("could not delete %s/%s: %s", self.bucket.directory, name, e)

    def _delete_indexes(self, path: str) -> None:
        """Delete the indexes of a file that has no metadata yet."""
        folder, _, name = path.rpartition("/")
        for status in self._io.list(folder):
            if status.name.startswith(f"{name}.") and status.name.endswith(INDEX_SUFFIX):
                self._io.delete(join(folder, status.name))

    @cached_property
    def _indexed(self) -> bool:
        return any(key.startswith("file-index.") for key in self._schema.options)


class FileNames:
    """Names `data-<uuid>-<n>` and `changelog-<uuid>-<n>` with one counter for both, without the suffix."""

    def __init__(self, files: BucketFiles) -> None:
        bucket = files.bucket
        self._options, self._uuid, self._next = bucket.options, bucket.env.uuid(), 0

    def data(self) -> str:
        """A fresh name for a data file."""
        return self._name(self._options.data_file_prefix)

    def changelog(self) -> str:
        """A fresh name for a changelog file."""
        return self._name(self._options.changelog_file_prefix)

    def _name(self, prefix: str) -> str:
        number, self._next = self._next, self._next + 1
        return f"{prefix}{self._uuid}-{number}"


@dataclass(frozen=True, slots=True)
class AppendRows:
    """Rows of an append table: their sequence numbers count from `first_sequence` on, file after file.

    `tracking`: the row-tracking columns behind those of the table.
    """

    first_sequence: int
    tracking: tuple[str, ...] = ()


class RollingWriter:
    """Writes rows in order into as many files as the target size asks for: kv batches in key order, or the
    rows of an append table. `changelog`: write changelog files (FORMAT.md 9.4).

    A file ends near its target size by encoded bytes, not by an estimate: rows are written in parts that
    cannot exceed it by much, and buffered rows are encoded before a file counts as full.
    """

    def __init__(
        self,
        files: BucketFiles,
        name: Callable[[], str],
        *,
        level: int,
        source: int,
        append: AppendRows | None = None,
        changelog: bool = False,
    ) -> None:
        self._files, self._name, self._level, self._source = files, name, level, source
        options = files.bucket.options
        keyed, tracking = append is None, () if append is None else append.tracking
        self._next_sequence = 0 if append is None else append.first_sequence
        self._spec = FileSpec.of(options, level=level, changelog=changelog, keyed=keyed, extra=tracking)
        self._target = options.target_bytes(keyed=keyed)
        fresh = source == APPEND_SOURCE  # compaction rolls by size alone
        self._most_rows = max(options.target_file_rows, 1) if fresh else sys.maxsize
        self._writer: DataFileWriter | None = None
        self._unencoded = 0.0  # bytes of rows that may not be encoded yet
        self._share: float | None = None  # of the file before
        self._path_name = ""
        self._external: str | None = None
        self._done: list[DataFileMeta] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows in order."""
        start, row_bytes = 0, max(batch.nbytes / max(batch.num_rows, 1), 1.0)
        while start < batch.num_rows:
            if self._writer is not None and self._full(self._writer, row_bytes):
                self._finish()
            writer = self._writer or self._open()
            part = batch.slice(start, self._step(writer, row_bytes))
            writer.write(part)
            start += part.num_rows
            self._unencoded += part.num_rows * row_bytes

    def _step(self, writer: DataFileWriter, row_bytes: float) -> int:
        """Rows to the next check, where a file may end: half of those that fit if encoding did not shrink
        them."""
        room = max((self._target - writer.bytes_written) / 2, self._target / 16)
        step = step_rows(row_bytes, target_bytes=self._target)
        end = writer.rows + min(int(room / row_bytes), _ROLL_ROWS)
        end = max(end - end % step, writer.rows - writer.rows % step + step)
        return min(end, self._most_rows) - writer.rows

    def _full(self, writer: DataFileWriter, row_bytes: float) -> bool:
        """Whether the file has reached its target size; encodes buffered rows if that is needed to know."""
        if writer.rows >= self._most_rows:
            return True
        if writer.rows % step_rows(row_bytes, target_bytes=self._target):
            return False
        unknown = self._share is None and writer.share is None
        if writer.bytes_written < NEAR * self._target and self._unencoded < self._target * (
            0.5 if unknown else 4
        ):
            return False
        self.flush()
        return writer.bytes_written >= NEAR * self._target

    def flush(self) -> None:
        """Encode the buffered rows of the open file, as far as its format allows."""
        if self._writer is not None:
            self._writer.flush()
            self._unencoded = 0.0

    def _open(self) -> DataFileWriter:
        files, bucket = self._files, self._files.bucket
        self._path_name = self._name() + self._spec.suffix
        self._external = files.place(self._path_name)
        self._writer = DataFileWriter(
            bucket.io,
            files.path(self._path_name),
            bucket.schema,
            bucket.options,
            spec=self._spec,
            share=self._share,
            checksums_dir=files.checksums_dir,
        )
        return self._writer

    def _finish(self) -> None:
        assert self._writer is not None
        written = self._writer.close()
        self._done.append(self._meta(written))
        self._share = self._writer.share or self._share
        self._writer, self._unencoded = None, 0.0

    def _meta(self, written: WrittenFile) -> DataFileMeta:
        low, high = written.min_sequence, written.max_sequence
        if not self._spec.keyed:
            first, self._next_sequence = self._next_sequence, self._next_sequence + written.rows
            if not self._spec.extra:
                low, high = first, self._next_sequence - 1
        return DataFileMeta(
            file_name=self._path_name,
            file_size=written.size,
            row_count=written.rows,
            min_key=written.min_key,
            max_key=written.max_key,
            key_stats=written.key_stats,
            value_stats=written.value_stats,
            min_sequence=low,
            max_sequence=high,
            schema_id=self._files.bucket.schema.id,
            level=self._level,
            extra_files=written.extra_files,
            creation_time_ms=self._files.bucket.env.local_now_ms(),
            delete_count=written.delete_count,
            embedded_index=written.embedded_index,
            file_source=self._source,
            value_stats_cols=written.value_stats_cols,
            external_path=self._external,
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
                log.warning("could not delete %s/%s: %s", self._files.bucket.directory, self._path_name, e)
            self._writer = None
            self._files.delete([self._path_name])  # opening it may have failed in the middle
        self._files.delete(self._done)
        self._done = []


def write_all(writer: RollingWriter, batches: Iterable[pa.RecordBatch]) -> tuple[DataFileMeta, ...]:
    """The files with the rows of all batches; on an error all are deleted."""
    try:
        for batch in _joined(batches):
            writer.write(batch)
        return writer.close()
    except BaseException:
        writer.abort()
        raise


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows with small neighbouring batches joined, since each batch has a fixed cost."""
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
