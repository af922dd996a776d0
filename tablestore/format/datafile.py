"""Data files of primary-key tables: kv batches in key order ⇄ one Parquet file (format facts 3, 5, 9).

The writer makes Java's physical columns, one row group per so many bytes of Arrow data, so memory stays
bounded whatever the file's size, and takes the manifest's statistics from the footer it has just made.
The reader gives the exact types of the table schema and names the file in every complaint.
Not thread-safe: one thread a writer or reader. Used by lsm and read.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tablestore.errors import Corrupt, InvalidOption, SchemaMismatch, Unavailable, Unsupported
from tablestore.format import binary_row, encodings, file_stats, rowkind
from tablestore.format.manifest import SimpleStats
from tablestore.format.parquet_schema import KIND, SEQUENCE, kv_schema, physical_schema, source_names
from tablestore.format.predicate import Predicate, may_match
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats
from tablestore.io.fileio import FileIO
from tablestore.options import TableOptions

_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "none": "none",
    "uncompressed": "none",
}
_ROW_GROUP_BYTES = 64 << 20
_ROW_GROUP_ROWS = 1 << 20
_FIRST_GUESS = 0.2  # encoded bytes per Arrow byte, until the first row group tells


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What a finished file knows of itself. Keys, counts and sequence range are exact."""

    path: str
    size: int
    rows: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    value_stats_cols: tuple[str, ...] | None
    min_sequence: int
    max_sequence: int
    delete_count: int


@dataclass(slots=True)
class _Seen:
    """What is noted while rows pass, as no footer tells it."""

    rows: int = 0
    deletes: int = 0
    min_key: bytes = b""
    max_key: bytes = b""
    min_sequence: int = 2**63 - 1
    max_sequence: int = -1
    with_nan: set[str] = field(default_factory=set)


class DataFileWriter:
    """Writes one file: `write` kv batches in key order, then `close`; or `abort`, which leaves nothing."""

    def __init__(self, io: FileIO, path: str, schema: TableSchema, options: TableOptions) -> None:
        if options.file_format != "parquet":
            raise Unsupported(f"writing {options.file_format} data files", "only parquet so far")
        if options.file_compression not in _CODECS:
            allowed = ", ".join(_CODECS)
            raise InvalidOption(
                f"option 'file.compression' is {options.file_compression!r}; it must be one of {allowed}"
            )
        self._io, self._path, self._schema, self._options = io, path, schema, options
        self._physical = physical_schema(schema, thin=options.thin_mode)
        self._floats = [f.name for f in schema.fields if f.type.root in ("FLOAT", "DOUBLE")]
        self._limit = options.row_group_bytes or _ROW_GROUP_BYTES
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._pending_rows = self._flushed_bytes = 0
        self._sink: Any = None
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []
        self._seen = _Seen()

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return self._seen.rows

    @property
    def bytes_written(self) -> int:
        """Bytes of the file so far; what is not yet encoded is estimated."""
        encoded = self._sink.tell() if self._sink is not None else 0
        ratio = encoded / self._flushed_bytes if self._flushed_bytes else _FIRST_GUESS
        return int(encoded + ratio * self._pending_bytes)

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows whose keys follow those before. Columns: the two system ones, then the table's."""
        for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            pieces = max(-(-part.nbytes // self._limit), -(-part.num_rows // _ROW_GROUP_ROWS), 1)
            step = -(-part.num_rows // pieces)
            for start in range(0, part.num_rows, max(step, 1)):
                self._append(part.slice(start, step))

    def _append(self, batch: pa.RecordBatch) -> None:
        size = batch.nbytes
        full = (
            self._pending_bytes + size > self._limit or self._pending_rows + batch.num_rows > _ROW_GROUP_ROWS
        )
        if self._pending and full:
            self._flush()
        self._note(batch)
        self._pending.append(batch)
        self._pending_bytes += size
        self._pending_rows += batch.num_rows

    def _note(self, batch: pa.RecordBatch) -> None:
        seen = self._seen
        if not seen.rows:
            seen.min_key = self._key(batch, 0)
        seen.max_key = self._key(batch, batch.num_rows - 1)
        seen.rows += batch.num_rows
        seen.deletes += int(np.count_nonzero(rowkind.retracts(batch.column(KIND).to_numpy())))
        sequences = batch.column(SEQUENCE).to_numpy()
        seen.min_sequence = min(seen.min_sequence, int(sequences.min()))
        seen.max_sequence = max(seen.max_sequence, int(sequences.max()))
        for name in self._floats:
            if name not in seen.with_nan and pc.any(pc.is_nan(batch.column(name))).as_py():
                seen.with_nan.add(name)

    def _key(self, batch: pa.RecordBatch, row: int) -> bytes:
        cells = [_plain(batch.column(f.name).slice(row, 1)) for f in self._schema.key_fields]
        return binary_row.encode_many(cells, [f.type for f in self._schema.key_fields])[0]

    def _flush(self) -> None:
        """Encode what is pending as one row group."""
        rows = self._pending_table()
        try:
            if self._writer is None:
                self._writer = self._open(rows)
            self._writer.write_table(rows, row_group_size=rows.num_rows)
        except pa.ArrowInvalid as e:
            raise SchemaMismatch(f"rows do not fit the table's columns: {e}") from e
        except OSError as e:
            raise _unavailable(self._path, e) from e
        self._flushed_bytes += self._pending_bytes
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0

    def _pending_table(self) -> pa.Table:
        if self._writer is None:
            texts = {f.name for f in self._pending[0].schema if pa.types.is_dictionary(f.type)}
            kinds = [pa.dictionary(pa.int32(), f.type) if f.name in texts else f.type for f in self._physical]
            self._physical = pa.schema([f.with_type(t) for f, t in zip(self._physical, kinds, strict=True)])
        columns = list(zip(source_names(self._physical), self._physical, strict=True))
        batches = [
            pa.RecordBatch.from_arrays(
                [_conform(b.column(n), f.type) for n, f in columns], schema=self._physical
            )
            for b in self._pending
        ]
        rows = pa.Table.from_batches(batches, schema=self._physical)
        if any(pa.types.is_dictionary(f.type) for f in self._physical):
            # one dictionary a row group, or Parquet falls back to plain text
            rows = rows.unify_dictionaries()
        return rows

    def _open(self, first: pa.Table) -> pq.ParquetWriter:
        chosen = encodings.choose(first)
        codec = _CODECS[self._options.file_compression]
        self._sink = self._io.open_output(self._path)
        return pq.ParquetWriter(
            self._sink,
            self._physical,
            compression=codec,
            compression_level=self._options.zstd_level if codec == "zstd" else None,
            use_dictionary=list(chosen.dictionary),
            column_encoding=dict(chosen.other),
            store_schema=False,
            store_decimal_as_integer=True,
            write_time_adjusted_to_utc=True,
            metadata_collector=self._footers,
        )

    def close(self) -> WrittenFile:
        """Finish the file. It must hold at least one row."""
        assert self._seen.rows, "a data file holds at least one row"
        if self._pending:
            self._flush()
        assert self._writer is not None
        try:
            self._writer.close()
            size = self._sink.tell()
            self._sink.close()
        except OSError as e:
            raise _unavailable(self._path, e) from e
        seen = self._seen
        found = file_stats.for_manifest(self._schema, self._options, self._column_stats(self._footers[0]))
        return WrittenFile(
            path=self._path,
            size=size,
            rows=seen.rows,
            min_key=seen.min_key,
            max_key=seen.max_key,
            key_stats=found.key,
            value_stats=found.value,
            value_stats_cols=found.columns,
            min_sequence=seen.min_sequence,
            max_sequence=seen.max_sequence,
            delete_count=seen.deletes,
        )

    def _column_stats(self, footer: pq.FileMetaData) -> dict[str, ColumnStats]:
        """By value column. NaN makes bounds unknown, as in Java."""
        first = len(self._physical) - len(self._schema.fields)
        found = {
            f.name: file_stats.of_column(footer, first + i, f.type) for i, f in enumerate(self._schema.fields)
        }
        for name in self._seen.with_nan:
            found[name] = ColumnStats(None, None, found[name].null_count, found[name].rows)
        return found

    def abort(self) -> None:
        """Give up: nothing of the file stays. May be called at any time, also after a failure."""
        if self._writer is not None:
            self._writer.is_open = False  # or it writes a footer when it is collected
        self._pending, self._writer = [], None
        if self._sink is not None:
            with contextlib.suppress(OSError):  # what cannot be flushed is deleted next
                self._sink.close()
            self._io.delete(self._path)


def _unavailable(path: str, error: OSError) -> Unavailable:
    remedy = " (free some space, then retry: nothing was committed)" if error.errno == errno.ENOSPC else ""
    return Unavailable(error.errno or 0, f"{path}: {error.strerror or error}{remedy}")


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The array in the type its column has in this file; plain and dictionary forms of text may mix."""
    if array.type == wanted:
        return array
    if pa.types.is_dictionary(wanted):
        return _plain(array).cast(wanted.value_type).dictionary_encode()
    return _plain(array).cast(wanted)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: rows, bytes in the file, bytes before compression."""

    rows: int
    bytes: int
    raw_bytes: int


@dataclass(frozen=True, slots=True)
class FooterSummary:
    """What a file's footer says of it as a whole."""

    rows: int
    created_by: str
    columns: tuple[str, ...]
    groups: tuple[RowGroup, ...]


def row_groups(io: FileIO, path: str) -> FooterSummary:
    """The footer of a Parquet data file; raises Corrupt."""
    with _complaints(path), contextlib.closing(io.open_input(path)) as source:
        footer = pq.ParquetFile(source).metadata
        groups = []
        for g in range(footer.num_row_groups):
            part = footer.row_group(g)
            size = sum(part.column(c).total_compressed_size for c in range(part.num_columns))
            groups.append(RowGroup(part.num_rows, size, part.total_byte_size))
        return FooterSummary(footer.num_rows, footer.created_by, tuple(footer.schema.names), tuple(groups))


def read(
    io: FileIO,
    path: str,
    schema: TableSchema,
    columns: Sequence[str],
    *,
    file_size: int | None = None,
    batch_rows: int = 65536,
    predicate: Predicate | None = None,
    dictionary: bool = False,
    system: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Batches of a file written with `schema`: the system columns (unless `system` is false), then `columns`.

    Row groups in which `predicate` (bound to `schema`) selects nothing are left out: pass one only where that
    is right. `dictionary` leaves text, but for keys, in dictionaries where the file holds it so.
    Raises Corrupt, naming the file, when it is missing, damaged, of another size or without a column.
    """
    wanted = (
        kv_schema(schema, columns) if system else pa.schema([f.arrow for f in schema.columns(tuple(columns))])
    )
    with _complaints(path):
        source = io.open_input(path)
    with contextlib.closing(source):
        with _complaints(path):
            if file_size is not None and source.size() != file_size:
                raise Corrupt(path, f"it has {source.size():,} bytes; the manifest says {file_size:,}")
            footer = pq.ParquetFile(source).metadata
            positions = _positions(footer, path, wanted)
            groups = [
                g for g in range(footer.num_row_groups) if _may_match(footer, g, positions, schema, predicate)
            ]
            texts = _dictionary_columns(footer, groups, positions, schema, wanted) if dictionary else []
            file = pq.ParquetFile(source, metadata=footer, read_dictionary=texts)
            batches = file.iter_batches(
                batch_rows, row_groups=groups, columns=wanted.names, use_threads=False
            )
        while groups:
            with _complaints(path):
                batch = next(batches, None)
                if batch is None:
                    return
                batch = _typed(batch, wanted, path)
            yield batch


def _positions(footer: pq.FileMetaData, path: str, wanted: pa.Schema) -> dict[str, int]:
    positions = {name: i for i, name in enumerate(footer.schema.names)}
    for name in wanted.names:
        if name not in positions:
            raise Corrupt(path, f"it has no column {name!r}; columns: {', '.join(positions)}")
    return positions


def _may_match(
    footer: pq.FileMetaData,
    group: int,
    positions: dict[str, int],
    schema: TableSchema,
    predicate: Predicate | None,
) -> bool:
    if predicate is None:
        return True
    found = {
        name: file_stats.of_column(footer, positions[name], schema.by_name[name].type, group=group)
        for name in predicate.columns
        if name in positions
    }
    return may_match(predicate, found)


def _dictionary_columns(
    footer: pq.FileMetaData,
    groups: Sequence[int],
    positions: dict[str, int],
    schema: TableSchema,
    wanted: pa.Schema,
) -> list[str]:
    """Text columns, keys apart, of which every row group has a dictionary."""

    def held(position: int) -> bool:
        return all(footer.row_group(g).column(position).has_dictionary_page for g in groups)

    texts = [f.name for f in wanted if pa.types.is_string(f.type) and f.name not in schema.primary_keys]
    return [name for name in texts if held(positions[name])]


def _typed(batch: pa.RecordBatch, wanted: pa.Schema, path: str) -> pa.RecordBatch:
    """The batch with the table's exact types: other writers store some of them otherwise."""
    if batch.schema.equals(wanted):
        return batch
    columns, fields = [], []
    for f in wanted:
        array = batch.column(f.name)
        kept = pa.types.is_dictionary(array.type) and array.type.value_type == f.type
        columns.append(array if kept or array.type == f.type else array.cast(f.type))
        fields.append(f.with_type(array.type) if kept else f)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


@contextlib.contextmanager
def _complaints(path: str) -> Iterator[None]:
    """Turn what Parquet and the store say of a missing or damaged file into Corrupt."""
    try:
        yield
    except FileNotFoundError as e:
        raise Corrupt(path, "the file is missing") from e
    except Unavailable:
        raise
    except (pa.ArrowException, OSError) as e:
        raise Corrupt(path, f"not a readable Parquet file: {e}") from e
