"""Parquet data files: an encoder, and batches in the exact types of the table schema (FORMAT.md 3.2).

A row group has a maximum of Arrow bytes, so memory is bounded whatever the file's size. Timestamps of more
than microseconds are written as INT64 nanoseconds; INT96 ones are read too, and refused where 64 bits cannot
hold them. Used by `datafile`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.core.errors import Corrupt, Unsupported
from tablestore.format import stats
from tablestore.format.data_format import (
    FileRequest,
    FileSpec,
    chosen,
    codec,
    complaints,
    fitting,
    plain,
    require_columns,
    require_size,
    storing,
)
from tablestore.format.parquet import encodings
from tablestore.format.parquet.checked_file import (
    CheckedSink,
    leaf_positions,
    open_again,
    open_checked,
    open_pages,
    require_sound_chunks,
    sound_metadata,
)
from tablestore.format.parquet.int96 import as_bytes, has_int96
from tablestore.format.parquet.pages import PageLayout
from tablestore.format.parquet.schema import KEY_PREFIX, arrow_with_ids
from tablestore.format.predicates.evaluate import may_match
from tablestore.format.rebuild import rebuilt
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import DataField, DataType
from tablestore.format.types.nested import presentable
from tablestore.io.fileio import FileIO

_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "brotli": "brotli",
    "none": "none",
    "uncompressed": "none",
}
_ROW_GROUP_BYTES = 64 << 20
_ROW_GROUP_ROWS = 1 << 20
_PAGE_ROWS = 8_192  # of a page: what a lookup decodes of a column; half as many make scans a tenth slower
_FEW_ROWS = 2 * _PAGE_ROWS  # a smaller row group is read as a whole
_SMALL_DICTIONARY = 16 << 10  # bytes in the file; writers abandon a dictionary at 1 MB
_FIRST_GUESS = 0.2  # encoded bytes per Arrow byte, before the first row group is measured


class ParquetEncoder:
    """Buffers rows up to a row group, then encodes them. `share`: expected encoded bytes per byte in
    memory."""

    def __init__(
        self, io: FileIO, path: str, columns: Sequence[DataField], spec: FileSpec, share: float | None = None
    ) -> None:
        self._expected = _FIRST_GUESS if share is None else share
        self._io, self._path, self._spec = io, path, spec
        self._codec = codec(spec, _CODECS, form="Parquet")
        self._physical = arrow_with_ids(columns)
        self._keys = [i for i, f in enumerate(columns) if f.name.startswith(KEY_PREFIX)]
        self._limit = spec.block_bytes or _ROW_GROUP_BYTES
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._pending_rows = self._flushed_bytes = self._encoded = 0
        self._sink: Any = None
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []
        self._stats = stats.FooterStats(columns)

    @staticmethod
    def require(columns: Sequence[DataField], spec: FileSpec) -> None:
        """Raise Unsupported or InvalidOption for what cannot be written."""
        codec(spec, _CODECS, form="Parquet")

    @property
    def bytes_written(self) -> int:
        """Bytes of the file so far; what is not yet encoded is estimated."""
        share = self.share
        expected = self._expected if share is None else share
        return int(self._encoded + expected * self._pending_bytes)

    @property
    def share(self) -> float | None:
        """Encoded bytes for each byte of the rows in memory; None before the first row group."""
        return self._encoded / self._flushed_bytes if self._flushed_bytes else None

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows of the physical columns."""
        self._stats.update(rows)
        size = self._bytes(rows)
        pieces = max(-(-size // self._limit), -(-rows.num_rows // _ROW_GROUP_ROWS), 1)
        if pieces == 1:
            self._append(rows, size)
            return
        step = -(-rows.num_rows // pieces)
        for start in range(0, rows.num_rows, max(step, 1)):
            part = rows.slice(start, step)
            self._append(part, self._bytes(part))

    def _bytes(self, rows: pa.RecordBatch) -> int:
        """Bytes of the rows in memory; key columns are the same buffers as the value columns."""
        return rows.nbytes - sum(rows.column(i).nbytes for i in self._keys)

    def _append(self, batch: pa.RecordBatch, size: int) -> None:
        full = (
            self._pending_bytes + size > self._limit or self._pending_rows + batch.num_rows > _ROW_GROUP_ROWS
        )
        if self._pending and full:
            self._flush()
        self._pending.append(batch)
        self._pending_bytes += size
        self._pending_rows += batch.num_rows

    def _flush(self, *, last: bool = False) -> None:
        """Encode the buffered rows as one row group; `last`: it ends the file."""
        with storing(self._path), fitting():
            rows = self._pending_table()
            if self._writer is None:
                self._writer = self._open(rows, self._pending_bytes if last else None)
            self._writer.write_table(rows, row_group_size=rows.num_rows)
            self._encoded = self._sink.tell()
        self._flushed_bytes += self._pending_bytes
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0

    def _pending_table(self) -> pa.Table:
        if self._writer is None:
            self._keep_dictionaries(self._pending[0].schema.types)
        types = self._physical.types
        batches = [
            pa.RecordBatch.from_arrays(
                [_conform(c, t) for c, t in zip(b.columns, types, strict=True)], schema=self._physical
            )
            for b in self._pending
        ]
        rows = pa.Table.from_batches(batches, schema=self._physical)
        if any(map(pa.types.is_dictionary, types)):
            # one dictionary a row group, or Parquet falls back to plain text
            rows = rows.unify_dictionaries()
        return rows

    def _keep_dictionaries(self, first: Sequence[pa.DataType]) -> None:
        """Record the columns that come dictionary-encoded first, so that they stay so."""
        for i, t in enumerate(first):
            if pa.types.is_dictionary(t):
                f = self._physical.field(i)
                self._physical = self._physical.set(i, f.with_type(pa.dictionary(pa.int32(), f.type)))

    def _open(self, first: pa.Table, whole_bytes: int | None) -> pq.ParquetWriter:
        chosen = encodings.choose(first, whole_bytes=whole_bytes)
        level = self._spec.zstd_level if self._codec == "zstd" else None
        some = chosen.compressed
        self._sink = CheckedSink(self._io.open_output(self._path))
        return pq.ParquetWriter(
            self._sink,
            self._physical,
            compression=self._codec if some is None else dict.fromkeys(some, self._codec),
            compression_level=level if some is None or level is None else dict.fromkeys(some, level),
            use_dictionary=list(chosen.dictionary),
            column_encoding=dict(chosen.other),
            store_schema=False,
            store_decimal_as_integer=True,
            write_time_adjusted_to_utc=True,
            metadata_collector=self._footers,
            max_rows_per_page=_PAGE_ROWS,
            write_page_checksum=True,
            write_page_index=False,  # Java Paimon 2.0.0 then loses rows of delta-encoded pages in filters
        )

    def flush(self) -> None:
        """Encode the buffered rows as a row group."""
        if self._pending:
            self._flush()

    def close(self) -> int:
        """Finish the file; its size in bytes."""
        if self._pending:
            self._flush(last=True)
        assert self._writer is not None, "a data file holds at least one row"
        with storing(self._path):
            self._sink.ends()
            self._writer.close()
            size = self._sink.finish()
            self._sink.close()
        return size

    @property
    def checksum(self) -> int | None:
        """None: the file has checksums of its own."""
        return None

    def column_stats(self) -> Mapping[str, ColumnStats | None]:
        """Statistics of each column, from the footer."""
        return self._stats.found(self._footers[0])

    def abort(self) -> None:
        """Close the file without finishing it. May be called at any time, also after a failure."""
        if self._writer is not None:
            self._writer.is_open = False  # else it would write a footer when it is collected
        self._pending, self._writer = [], None
        if self._sink is not None:
            with contextlib.suppress(OSError):  # the file is deleted next
                self._sink.close()


def _conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The array in the type its column has in this file; plain and dictionary forms of text may mix."""
    if pa.types.is_nested(wanted):
        return presentable(array if array.type == wanted else array.cast(wanted))
    if array.type == wanted:
        return array
    if pa.types.is_dictionary(wanted):
        return plain(array).cast(wanted.value_type).dictionary_encode()
    return plain(array).cast(wanted)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: rows, bytes in the file, bytes before compression."""

    rows: int
    bytes: int
    raw_bytes: int


@dataclass(frozen=True, slots=True)
class FooterSummary:
    """The whole-file facts of a footer."""

    rows: int
    created_by: str
    columns: tuple[str, ...]
    groups: tuple[RowGroup, ...]


def row_groups(io: FileIO, path: str) -> FooterSummary:
    """The footer of a Parquet data file; raises Corrupt."""
    with complaints(path, "Parquet"), contextlib.closing(open_checked(io, path)) as source:
        footer = sound_metadata(source)
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
    wanted: pa.Schema,
    request: FileRequest,
    *,
    file_size: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of what `request` says of a file written with `schema`, in the columns `wanted`."""
    footer, groups, rows = request.footer, request.groups, request.rows
    predicate, dictionary = request.predicate, request.dictionary
    with complaints(path, "Parquet"):
        source = open_checked(io, path)
    with contextlib.closing(source):
        with complaints(path, "Parquet"):
            require_size(source.size(), file_size, path)
            texts = _texts(schema, wanted)
            first = pq.ParquetFile(source, metadata=footer, page_checksum_verification=True)
            if footer is None and (texts or predicate is not None):  # it reads chunks
                require_sound_chunks(source)
            footer = plain = first.metadata
            require_columns(wanted.names, first.schema_arrow.names, path)
            _refuse_shredded(first.schema_arrow, schema, wanted, path)
            positions = leaf_positions(footer)
            groups = range(footer.num_row_groups) if groups is None else groups
            if predicate is not None:
                names = predicate.columns
                groups = [g for g in groups if may_match(predicate, group_stats(footer, g, schema, names))]
            if rows is not None:
                groups, rows = _with_rows(footer, groups, rows, path)
            texts = _dictionary_columns(footer, groups, positions, texts)
            if not dictionary:
                texts = [t for t in texts if _few_values(footer, groups, positions[t])]
            if any(has_int96(footer, f.name) for f in wanted if _may_hold_times(f.type)):
                footer = as_bytes(source)
            file = first
            if texts or footer is not plain:
                file = pq.ParquetFile(
                    source, metadata=footer, read_dictionary=texts, page_checksum_verification=True
                )
            batches = file.iter_batches(
                request.batch_rows, row_groups=groups, columns=wanted.names, use_threads=False
            )
        if groups:
            yield from chosen(_each(batches, wanted, path, dictionary=dictionary), rows, path)


def layout(io: FileIO, path: str, *, file_size: int | None = None) -> PageLayout:
    """The layout of a file: where its row groups and pages are; raises Corrupt."""
    with complaints(path, "Parquet"), contextlib.closing(open_pages(io, path)) as source:
        require_size(source.size(), file_size, path)
        return PageLayout(source)


def read_rows(
    io: FileIO,
    path: str,
    schema: TableSchema,
    wanted: pa.Schema,
    layout: PageLayout,
    group: int,
    places: np.ndarray,
) -> pa.RecordBatch | None:
    """The rows of a row group at `places`, ascending; None where whole columns must be read for them, or
    nearly so. Text stays dictionary-encoded where the file holds it so."""
    if layout.group_rows(group) < _FEW_ROWS:
        return None
    with complaints(path, "Parquet"), contextlib.closing(open_again(io, path, layout.headers)) as source:
        if not layout.reads(wanted.names):
            return None
        begins, ends = layout.stretches(source, group, places, wanted.names)
        if 2 * int((ends - begins).sum()) > layout.group_rows(group):
            return None
        names = tuple(wanted.names)
        if (group, names) not in layout.encoded:
            positions = leaf_positions(layout.footer)
            texts = _dictionary_columns(layout.footer, [group], positions, _texts(schema, wanted))
            layout.encoded[group, names] = texts
        texts, last = layout.encoded[group, names], int(places[-1] - begins[-1] + 1)
        batch = layout.read(source, group, (begins, ends), wanted.names, dictionary=texts, last=last)
        skipped = begins - np.concatenate([[0], np.cumsum(ends - begins)[:-1]])
        at = places - skipped[np.searchsorted(begins, places, side="right") - 1]
        return _typed(batch.take(pa.array(at)), wanted, path, dictionary=True)


def page_bounds(
    io: FileIO, path: str, layout: PageLayout, group: int, name: str, t: DataType
) -> tuple[np.ndarray, list[object], list[object]] | None:
    """(first rows of a column's pages with the number of rows at the end, minimum, maximum raw values of the
    pages) in a row group; None where the page headers lack bounds."""
    with complaints(path, "Parquet"), contextlib.closing(open_again(io, path, layout.headers)) as source:
        if not layout.reads([name]):
            return None
        pages = layout.page_bounds(source, group, name)
    if pages is None:
        return None
    at = leaf_positions(layout.footer)[name]
    physical = layout.footer.schema.column(at).physical_type
    bounds = [stats.raw_value(b, t, physical=physical) for pair in pages[1] for b in pair]
    return None if None in bounds else (pages[0], bounds[::2], bounds[1::2])


def _each(
    batches: Iterator[pa.RecordBatch], wanted: pa.Schema, path: str, *, dictionary: bool
) -> Iterator[pa.RecordBatch]:
    while True:
        with complaints(path, "Parquet"):
            batch = next(batches, None)
            if batch is None:
                return
            batch = _typed(batch, wanted, path, dictionary=dictionary)
        yield batch


def _with_rows(
    footer: pq.FileMetaData, groups: Sequence[int], rows: np.ndarray, path: str
) -> tuple[list[int], np.ndarray]:
    """(row groups with rows that the mask `rows` selects, the mask over these groups)."""
    counts = [footer.row_group(g).num_rows for g in range(footer.num_row_groups)]
    ends = np.cumsum(counts)
    if sum(counts) != len(rows):
        raise Corrupt(path, f"it holds {sum(counts):,} rows, its manifest says {len(rows):,}")
    parts = {g: rows[ends[g] - counts[g] : ends[g]] for g in groups}
    kept = [g for g in groups if parts[g].any()]
    return kept, np.concatenate([np.zeros(0, dtype=bool), *(parts[g] for g in kept)])


def _refuse_shredded(there: pa.Schema, schema: TableSchema, wanted: pa.Schema, path: str) -> None:
    for name in wanted.names:
        field = schema.by_name.get(name)
        if field is not None and field.type.root == "VARIANT":
            kind = there.field(name).type
            if pa.types.is_struct(kind) and kind.get_field_index("typed_value") >= 0:
                raise Unsupported("shredded VARIANT columns", f"column {name!r} of {path}")


def _may_hold_times(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_nested(kind)


def group_stats(
    footer: pq.FileMetaData, group: int, schema: TableSchema, columns: Iterable[str]
) -> dict[str, ColumnStats]:
    """A row group's statistics of these columns, which decide whether it is read."""
    positions = leaf_positions(footer)
    return {
        name: stats.of_column(footer, positions[name], schema.by_name[name].type, group=group)
        for name in columns
        if name in positions
    }


def _texts(schema: TableSchema, wanted: pa.Schema) -> list[str]:
    """Text columns outside the keys."""
    return [f.name for f in wanted if pa.types.is_string(f.type) and f.name not in schema.primary_keys]


def _dictionary_columns(
    footer: pq.FileMetaData, groups: Sequence[int], positions: dict[str, int], names: Sequence[str]
) -> list[str]:
    """The columns that have a dictionary in every row group."""

    def has_dictionary(position: int) -> bool:
        return all(footer.row_group(g).column(position).has_dictionary_page for g in groups)

    return [name for name in names if has_dictionary(positions[name])]


def _few_values(footer: pq.FileMetaData, groups: Sequence[int], position: int) -> bool:
    """Whether a text column's dictionaries are so small that decoding through them is faster, and that no
    writer can have abandoned them."""
    chunks = [footer.row_group(g).column(position) for g in groups]
    return all(c.data_page_offset - c.dictionary_page_offset <= _SMALL_DICTIONARY for c in chunks)


def _typed(batch: pa.RecordBatch, wanted: pa.Schema, path: str, *, dictionary: bool) -> pa.RecordBatch:
    """The batch in the table's exact types, which other writers may store differently; with `dictionary` text
    may stay dictionary-encoded."""
    if batch.schema.equals(wanted):
        return batch
    columns, fields = [], []
    for f in wanted:
        array = batch.column(f.name)
        kept = dictionary and pa.types.is_dictionary(array.type) and array.type.value_type == f.type
        if not kept and array.type != f.type:
            try:
                array = rebuilt(array, f.type) if _has_bytes(array.type) else array.cast(f.type)
            except Unsupported as e:
                raise Unsupported(e.feature, f"column {f.name!r} of {path}") from e
            except pa.ArrowException as e:
                raise Corrupt(path, f"column {f.name!r} holds {array.type}, not {f.type}: {e}") from e
        columns.append(array)
        fields.append(f.with_type(array.type) if kept else f)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _has_bytes(t: pa.DataType) -> bool:
    """Whether the type has INT96 values as bytes, at any depth."""
    return t == pa.binary(12) or any(_has_bytes(t.field(i).type) for i in range(t.num_fields))
