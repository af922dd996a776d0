"""What all data file formats share: in which form files of a kind are written (FORMAT.md 1.4, 9.3), encoders,
what is read of a file, and errors with the file's name.

A kind is a level of the LSM tree, or changelog files. An encoder takes physical columns in order, without
notion of keys or manifests. It opens its file at the first row. Not thread-safe. Implemented by
`parquet/data.py`, `orc/data.py` and `avro/data.py`.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.core.errors import (
    Corrupt,
    FileMissing,
    InvalidOption,
    SchemaMismatch,
    TablestoreError,
    Unavailable,
    brief,
)
from tablestore.core.options.table_options import TableOptions
from tablestore.core.options.values import DATA_FORMATS
from tablestore.format.parquet.schema import KIND, SEQUENCE
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import DataField

_COMPRESSION_SUFFIXES = {"gzip": "gz", "bzip2": "bz2", "zstd": "zst", "none": ""}


@dataclass(frozen=True, slots=True)
class FileSpec:
    """How files of one kind are written. `suffix` is the end of their names; `extra` are row-tracking columns
    of append tables, whose files are not `keyed`; `compression_option` says whence the codec."""

    format: str
    compression: str
    zstd_level: int
    block_bytes: int | None
    stats_mode: str
    suffix: str
    indexed: bool
    keyed: bool
    extra: tuple[str, ...] = ()
    compression_option: str = field(default="file.compression", compare=False)

    @classmethod
    def of(
        cls,
        options: TableOptions,
        *,
        level: int = 0,
        changelog: bool = False,
        keyed: bool = True,
        extra: tuple[str, ...] = (),
    ) -> FileSpec:
        """The form of files at `level`, or of changelog files; raises InvalidOption for unknown formats.

        Tables without primary key have no levels.
        """
        formats = dict(options.file_format_per_level) if keyed else {}
        codecs = dict(options.file_compression_per_level) if keyed else {}
        modes = dict(options.stats_mode_per_level) if keyed else {}
        form = formats.get(level, options.file_format)
        codec = codecs.get(level, options.file_compression)
        codec_option = "file.compression.per.level" if level in codecs else "file.compression"
        mode = modes.get(level, options.stats_mode)
        if changelog:
            form = options.changelog_file_format or form
            if options.changelog_file_compression:
                codec, codec_option = options.changelog_file_compression, "changelog-file.compression"
            mode = options.changelog_file_stats_mode or mode
        if form not in DATA_FORMATS:
            allowed = ", ".join(DATA_FORMATS)
            raise InvalidOption(f"option 'file.format' is {form!r}; it must be one of {allowed}")
        suffix = _suffix(form, options)
        rest = options.zstd_level, options.row_group_bytes, mode, suffix, not changelog, keyed, extra
        return cls(form, codec, *rest, codec_option)

    @classmethod
    def all_of(cls, options: TableOptions) -> set[FileSpec]:
        """The forms of all files that options speak of: of each level and of changelogs."""
        per_level = (*options.file_format_per_level, *options.file_compression_per_level)
        levels = {0, *(level for level, _ in per_level)}
        return {cls.of(options, level=n, changelog=c) for n in levels for c in (False, True)}


def _suffix(form: str, options: TableOptions) -> str:
    if not options.suffix_with_compression:
        return f".{form}"
    named = _COMPRESSION_SUFFIXES.get(options.file_compression, options.file_compression)
    return f".{named}.{form}" if named else f".{form}"


@dataclass(frozen=True, slots=True)
class FileRequest:
    """What is read of a file, and how: the system columns (unless `system` is false), then `columns`, which
    may name row-tracking columns.

    Row groups in which `predicate` (bound to the file's schema) selects nothing are left out: pass one only
    where that is correct. `rows` is a mask over all rows of the file that selects some; of a Parquet file
    with this `footer` only row `groups` are read. `dictionary` keeps text outside keys dictionary-encoded
    where the file has it so. Batches have at most `batch_rows` rows.
    """

    columns: Sequence[str]
    system: bool = True
    predicate: Predicate | None = None
    rows: np.ndarray | None = None
    footer: pq.FileMetaData | None = None
    groups: Sequence[int] | None = None
    dictionary: bool = False
    batch_rows: int = 65536

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the batches."""
        return (*((SEQUENCE, KIND) if self.system else ()), *self.columns)


class Encoder(Protocol):
    """The writer of one file in one format."""

    @property
    def bytes_written(self) -> int:
        """Bytes of the file so far; what is not yet encoded is estimated."""

    @property
    def share(self) -> float | None:
        """Encoded bytes for each byte of the rows in memory, as measured so far; None: not yet."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows of the physical columns; text may come in dictionaries."""

    def flush(self) -> None:
        """Encode the buffered rows, as far as the format allows."""

    def close(self) -> int:
        """Finish the file; its size in bytes."""

    @property
    def checksum(self) -> int | None:
        """CRC-32 of the file once it is closed; None if the format has checksums of its own."""

    def column_stats(self) -> Mapping[str, ColumnStats | None]:
        """Statistics of each column once the file is closed; None: unknown."""

    def abort(self) -> None:
        """Close the file without finishing it; the caller deletes it."""


def codec(spec: FileSpec, allowed: Mapping[str, str], *, form: str) -> str:
    """A format's name of the codec of files; raises InvalidOption, with the option that says so, for unknown
    ones."""
    if spec.compression not in allowed:
        raise InvalidOption(
            f"option {spec.compression_option!r} is {spec.compression!r}; for {form} files it must be one of "
            f"{', '.join(allowed)}"
        )
    return allowed[spec.compression]


@contextlib.contextmanager
def storing(path: str) -> Iterator[None]:
    """A context that turns errors of the store while a file is written into Unavailable, with the remedy."""
    try:
        yield
    except OSError as e:
        remedy = " (free some space, then retry: nothing was committed)" if e.errno == errno.ENOSPC else ""
        raise Unavailable(e.errno or 0, f"{path}: {e.strerror or e}{remedy}") from e


@contextlib.contextmanager
def fitting() -> Iterator[None]:
    """A context that turns Arrow's refusal of rows into SchemaMismatch."""
    try:
        yield
    except pa.ArrowInvalid as e:
        raise SchemaMismatch(f"rows do not fit the table's columns: {e}") from e


def plain_rows(rows: pa.RecordBatch, columns: Sequence[DataField]) -> pa.RecordBatch:
    """The rows without dictionaries; raises SchemaMismatch for a NULL in a NOT NULL column."""
    rows = pa.RecordBatch.from_arrays([plain(c) for c in rows.columns], names=rows.schema.names)
    for f, column in zip(columns, rows.columns, strict=True):
        if column.null_count and not f.type.nullable:
            raise SchemaMismatch(f"rows do not fit the table's columns: column {f.name!r} is NOT NULL")
    return rows


@contextlib.contextmanager
def complaints(path: str, form: str) -> Iterator[None]:
    """A context that turns any exception of a decoder about a missing or damaged file into Corrupt."""
    try:
        yield
    except FileNotFoundError as e:
        raise FileMissing(path) from e
    except TablestoreError:
        raise
    except Exception as e:  # damaged bytes may raise any exception
        raise Corrupt(path, f"not a readable {form} file: {brief(e)}") from e


def require_columns(wanted: Sequence[str], there: Sequence[str], path: str) -> None:
    """Raise Corrupt for a column the file does not have."""
    for name in wanted:
        if name not in there:
            raise Corrupt(path, f"it has no column {name!r}; columns: {', '.join(there)}")


def require_size(size: int, expected: int | None, path: str) -> None:
    """Raise Corrupt when the file has another size than the manifest says."""
    if expected is not None and size != expected:
        raise Corrupt(path, f"it has {size:,} bytes; the manifest says {expected:,}")


def chosen(batches: Iterable[pa.RecordBatch], rows: np.ndarray | None, path: str) -> Iterator[pa.RecordBatch]:
    """The rows that a mask over all batches selects, without empty batches; all of them for None.

    Raises Corrupt for more rows than the mask has.
    """
    at = 0
    for batch in batches:
        if rows is None:
            yield batch
            continue
        mask = rows[at : at + batch.num_rows]
        at += batch.num_rows
        if at > len(rows):
            raise Corrupt(path, f"it holds more than the {len(rows):,} rows its manifest says")
        if mask.all():
            yield batch
        elif mask.any():
            yield batch.filter(pa.array(mask))


def counted(batches: Iterable[pa.RecordBatch], rows: int, path: str) -> Iterator[pa.RecordBatch]:
    """All batches of a file; raises Corrupt at the end unless they hold `rows` rows."""
    rows_read = 0
    for batch in batches:
        rows_read += batch.num_rows
        yield batch
    if rows_read != rows:
        raise Corrupt(path, f"holds {rows_read:,} rows, its manifest says {rows:,}")


def plain(array: pa.Array) -> pa.Array:
    """The array with its dictionary resolved, if it has one."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
