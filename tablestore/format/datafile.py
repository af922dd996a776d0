"""Data files: rows of a table ⇄ one file in Parquet, ORC or Avro (FORMAT.md 9.1).

A primary-key table's file takes kv batches in key order, an append table's (`keyed` false) plain rows in any
order. While rows pass, the writer collects what the manifest entry needs, and makes file indexes; the encoder
of the format does the rest (`parquet/data.py`, `orc/data.py`, `avro/data.py`). The reader chooses the format
by the suffix of the name, gives the exact types of the table schema and names the file in every error.
Memory: one row group, stripe or batch. Not thread-safe: one thread a writer or reader. Used by lsm and read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt, Unsupported
from tablestore.core.options.table_options import TableOptions
from tablestore.core.options.values import DATA_FORMATS
from tablestore.format import binary_row, checksums, rowkind, stats
from tablestore.format.avro import data as avro_data
from tablestore.format.avro.data import AvroEncoder
from tablestore.format.data_format import Encoder, FileRequest, FileSpec, chosen, complaints, plain
from tablestore.format.file_index.writing import FileIndexes, IndexSpec, index_specs
from tablestore.format.manifests.manifest import EMPTY_ROW, SimpleStats
from tablestore.format.orc import data as orc_data
from tablestore.format.orc.data import OrcEncoder
from tablestore.format.parquet import data as parquet_data
from tablestore.format.parquet.data import FooterSummary, ParquetEncoder, RowGroup, row_groups
from tablestore.format.parquet.pages import PageLayout
from tablestore.format.parquet.schema import (
    KEY_PREFIX,
    KIND,
    SEQUENCE,
    SYSTEM_COLUMNS,
    append_columns,
    keyed_columns,
)
from tablestore.format.schema import TableSchema
from tablestore.format.stats import StatsMode
from tablestore.format.types.arrow_types import DataField
from tablestore.io.fileio import FileIO
from tablestore.io.paths import file_format

__all__ = ["DataFileWriter", "FooterSummary", "RowGroup", "WrittenFile", "read", "row_groups"]
INDEX_SUFFIX = ".index"
_ENCODERS: dict[str, type[ParquetEncoder] | type[OrcEncoder] | type[AvroEncoder]] = {
    "parquet": ParquetEncoder,
    "orc": OrcEncoder,
    "avro": AvroEncoder,
}


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What a manifest entry needs of a finished file. Keys, counts and sequence range are exact.

    An append file without a `_SEQUENCE_NUMBER` column has no sequence range of its own: 0 and -1.
    """

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
    extra_files: tuple[str, ...] = ()
    embedded_index: bytes | None = None


@dataclass(slots=True)
class _Noted:
    """Counts, keys and sequence range of the rows so far."""

    rows: int = 0
    deletes: int = 0
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    min_sequence: int = 2**63 - 1
    max_sequence: int = -1


@dataclass(frozen=True, slots=True)
class _FileKind:
    """What all files of a kind have in common; cached, since small commits make many files."""

    columns: tuple[DataField, ...]
    sources: tuple[str, ...]  # where each is taken from in a batch
    names: tuple[str, ...]
    modes: Mapping[str, StatsMode]
    indexes: tuple[IndexSpec, ...]


@lru_cache(maxsize=64)
def _form(schema: TableSchema, spec: FileSpec, *, thin: bool, counted: int) -> _FileKind:
    """The form of files written with `schema`; `counted`: maximum number of columns with statistics."""
    columns = keyed_columns(schema, thin=thin) if spec.keyed else append_columns(schema, spec.extra)
    names = tuple(f.name for f in columns)
    modes = stats.modes(
        columns, schema, limit=counted, mode=spec.stats_mode, form=spec.format, keyed=spec.keyed
    )
    indexes = index_specs(schema) if spec.indexed else ()
    sources = tuple(n.removeprefix(KEY_PREFIX) for n in names) if spec.keyed else names
    return _FileKind(columns, sources, names, modes, indexes)


class DataFileWriter:
    """Writes one file: `write` batches in order, then `close`; or `abort`, which leaves nothing.

    `spec` is by default that of level 0; `share` are the expected encoded bytes per byte of the rows in
    memory, measured on an earlier file; the checksum of a file whose format has none goes to `checksums_dir`.
    """

    def __init__(
        self,
        io: FileIO,
        path: str,
        schema: TableSchema,
        options: TableOptions,
        *,
        spec: FileSpec | None = None,
        share: float | None = None,
        checksums_dir: str | None = None,
    ) -> None:
        self._io, self._path, self._schema, self._options = io, path, schema, options
        self._spec = spec = spec or FileSpec.of(options)
        self._checksums_dir = checksums_dir
        self._form = _form(schema, spec, thin=options.thin_mode, counted=options.stats_first_columns)
        self._encoder: Encoder = _ENCODERS[spec.format](io, path, self._form.columns, spec, share)
        self._indexes = FileIndexes(self._form.indexes) if self._form.indexes else None
        self._index_path: str | None = None  # once it is written
        self._noted = _Noted()

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return self._noted.rows

    @property
    def bytes_written(self) -> int:
        """Bytes of the file so far; what is not yet encoded is estimated."""
        return self._encoder.bytes_written

    @property
    def share(self) -> float | None:
        """Encoded bytes for each byte of the rows in memory, as measured so far; None: not yet."""
        return self._encoder.share

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows in order. Columns: the system ones first, then the table's."""
        for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            if not part.num_rows:
                continue
            self._note(part)
            if self._indexes is not None:
                self._indexes.update(part)
            arrays = [part.column(name) for name in self._form.sources]
            self._encoder.write(pa.RecordBatch.from_arrays(arrays, names=self._form.names))

    def _note(self, batch: pa.RecordBatch) -> None:
        noted = self._noted
        if self._spec.keyed:
            if not noted.rows:
                noted.min_key = self._key(batch, 0)
            noted.max_key = self._key(batch, batch.num_rows - 1)
            noted.deletes += int(np.count_nonzero(rowkind.retracts(batch.column(KIND).to_numpy())))
        noted.rows += batch.num_rows
        if SEQUENCE in self._form.sources:
            ends = pc.min_max(batch.column(SEQUENCE))
            noted.min_sequence = min(noted.min_sequence, ends["min"].as_py())
            noted.max_sequence = max(noted.max_sequence, ends["max"].as_py())

    def _key(self, batch: pa.RecordBatch, row: int) -> bytes:
        cells = [plain(batch.column(f.name).slice(row, 1)) for f in self._schema.key_fields]
        return binary_row.encode_many(cells, [f.type for f in self._schema.key_fields])[0]

    def flush(self) -> None:
        """Encode the buffered rows, as far as the format allows."""
        self._encoder.flush()

    def close(self) -> WrittenFile:
        """Finish the file. It must hold at least one row."""
        assert self._noted.rows, "a data file holds at least one row"
        size = self._encoder.close()
        checksum, folder = self._encoder.checksum, self._checksums_dir
        if checksum is not None and folder is not None:
            checksums.write_sum(self._io, folder, self._path, size=size, checksum=checksum)
        file_stats = stats.for_manifest(
            self._form.columns,
            self._schema,
            self._encoder.column_stats(),
            self._form.modes,
            dense=self._options.stats_dense,
            keyed=self._spec.keyed,
        )
        noted = self._noted
        embedded, extra = self._finish_indexes()
        return WrittenFile(
            path=self._path,
            size=size,
            rows=noted.rows,
            min_key=noted.min_key,
            max_key=noted.max_key,
            key_stats=file_stats.key,
            value_stats=file_stats.value,
            value_stats_cols=file_stats.columns,
            min_sequence=noted.min_sequence if SEQUENCE in self._form.sources else 0,
            max_sequence=noted.max_sequence,
            delete_count=noted.deletes,
            extra_files=extra,
            embedded_index=embedded,
        )

    def _finish_indexes(self) -> tuple[bytes | None, tuple[str, ...]]:
        """(the container if it goes into the manifest, the names of files that were written)."""
        if self._indexes is None:
            return None, ()
        data = self._indexes.finish()
        if len(data) <= self._options.file_index_threshold:
            return data, ()
        self._index_path = checksums.beside(self._path, data, INDEX_SUFFIX)
        self._io.write(self._index_path, data)
        return None, (self._index_path.rsplit("/", 1)[-1],)

    def abort(self) -> None:
        """Delete the file with its indexes. May be called at any time, also after a failure."""
        self._encoder.abort()
        self._io.delete(self._path)
        if self._checksums_dir is not None:
            checksums.delete_sum(self._io, self._checksums_dir, self._path)
        if self._index_path is not None:
            self._io.delete(self._index_path)


def require_storable(schema: TableSchema, options: TableOptions) -> None:
    """Raise Unsupported for a column that a format of the table's files does not hold, InvalidOption for
    formats and codecs that cannot be written."""
    for spec in FileSpec.all_of(options):
        _ENCODERS[spec.format].require(schema.fields, spec)
    index_specs(schema)


def read(
    io: FileIO,
    path: str,
    schema: TableSchema,
    request: FileRequest,
    *,
    file_size: int | None = None,
    checksums_dir: str | None = None,
    verified: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Batches of what `request` says of a file written with `schema`.

    With `checksums_dir` a file whose format has no checksums is verified with the one in that folder before
    it is decoded; `verified`: the caller has done that. ORC files that no checksum vouches for are decoded in
    a process beside this one. Raises Corrupt, naming the file, when it is missing, damaged, of another size
    or without a column.
    """
    form = file_format(path)
    if form not in DATA_FORMATS:
        raise Unsupported(f"data files such as {path!r}", f"formats read: {', '.join(DATA_FORMATS)}")
    if checksums_dir is not None:
        verified = checksums.require_sum(io, checksums_dir, path)
    names, batch_rows = request.names, request.batch_rows
    if form == "avro":
        fields = [_field(schema, name) for name in names]
        batches = avro_data.read(io, path, fields, file_size=file_size, batch_rows=batch_rows)
        return _sound(chosen(batches, request.rows, path), path)
    wanted = _wanted(schema, names)
    if form == "orc":
        batches = orc_data.read(
            io, path, schema, wanted, file_size=file_size, batch_rows=batch_rows, apart=not verified
        )
        return _sound(chosen(batches, request.rows, path), path)
    batches = parquet_data.read(io, path, schema, wanted, request, file_size=file_size)
    return _sound(batches, path)


def read_rows(
    io: FileIO,
    path: str,
    schema: TableSchema,
    names: tuple[str, ...],
    layout: PageLayout,
    group: int,
    places: np.ndarray,
) -> pa.RecordBatch | None:
    """Rows of one row group of a Parquet file at ascending places, in these columns; None where reading the
    whole group costs no more. Text stays dictionary-encoded where the file holds it so."""
    batch = parquet_data.read_rows(io, path, schema, _wanted(schema, names), layout, group, places)
    return None if batch is None else next(_sound(iter([batch]), path))


def _sound(batches: Iterator[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    """The batches, checked for valid text and row kinds, which decoders do not check; raises Corrupt."""
    for batch in batches:
        with complaints(path, "data"):
            batch.validate()
            for i in _fallible(batch.schema):
                if not _is_ascii(batch.column(i)):
                    batch.column(i).validate(full=True)
        if KIND in batch.schema.names and batch.num_rows:
            lowest, highest = pc.min_max(batch.column(KIND)).values()
            if not (lowest.is_valid and lowest.as_py() >= 0 and highest.as_py() < len(rowkind.TEXTS)):
                raise Corrupt(path, f"row kinds {lowest}..{highest}; 0 to 3 are known")
        yield batch


@lru_cache(maxsize=256)
def _fallible(schema: pa.Schema) -> tuple[int, ...]:
    """Columns in which damage may leave invalid values. Every number is valid; sums may have more digits than
    their DECIMAL, which Paimon does not check."""
    return tuple(i for i, t in enumerate(schema.types) if not any(is_one(t) for is_one in _ANY_BITS))


_ANY_BITS = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean),
    *(pa.types.is_date32, pa.types.is_timestamp, pa.types.is_decimal),
)


def _is_ascii(column: pa.Array) -> bool:
    """Whether this is text in ASCII only, which takes a tenth of the time of full validation."""
    if column.type != pa.string() or not len(column):
        return False
    _, ends, data = column.buffers()
    first, last = np.frombuffer(ends, dtype=np.int32, offset=4 * column.offset)[[0, len(column)]]
    return data is None or int(np.frombuffer(data, dtype=np.uint8)[first:last].max(initial=0)) < 0x80


@lru_cache(maxsize=256)
def _wanted(schema: TableSchema, names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([_field(schema, name).arrow for name in names])


def _field(schema: TableSchema, name: str) -> DataField:
    return schema.by_name[name] if name in schema.by_name else SYSTEM_COLUMNS[name]
