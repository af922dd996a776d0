"""Avro data files: an encoder, and batches in the exact types of the table schema (FORMAT.md 3.4).

Rows are encoded by whole columns (`avro/encode.py`), some thousand in a block. For reading, blocks are
decompressed and put behind a header whose schema has no logical types, so that decoding gives plain numbers
and bytes; other columns are skipped. Polars decodes records of plain values twenty times as fast as fastavro,
which decodes nested values, small files, and everything on which Polars fails. Memory: one batch of rows, and
its blocks. Used by `datafile`.
"""

from __future__ import annotations

import bz2
import contextlib
import hashlib
import io as bytes_io
import json
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa

from tablestore.core.errors import Corrupt
from tablestore.format.avro import blocks as avro_blocks
from tablestore.format.avro import encode as avro_encode
from tablestore.format.avro.blocks import AvroBlock, framed, header
from tablestore.format.avro.container import by_polars
from tablestore.format.avro.encode import entry_types, file_schema
from tablestore.format.checksums import SummedSink
from tablestore.format.data_format import (
    FileSpec,
    codec,
    complaints,
    plain_rows,
    require_columns,
    require_size,
    storing,
)
from tablestore.format.rebuild import rebuilt
from tablestore.format.stats import ColumnStats, StatsCollector
from tablestore.format.types.arrow_types import DataField, DataType
from tablestore.io.fileio import FileIO

_CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "none": "null",
    "null": "null",
    "uncompressed": "null",
    "deflate": "deflate",
    "gzip": "deflate",
    "bzip2": "bzip2",
    "snappy": "snappy",
}
_BLOCK_ROWS = 8192


class AvroEncoder:
    """Encodes and writes rows in blocks of some thousand."""

    share = None  # rows are encoded at once

    def __init__(
        self, io: FileIO, path: str, columns: Sequence[DataField], spec: FileSpec, share: float | None = None
    ) -> None:
        self._io, self._path = io, path
        self._columns = tuple(columns)
        self._codec = codec(spec, _CODECS, form="Avro")
        self._compress = _compressor(self._codec, spec.zstd_level)
        self._schema = file_schema(columns)
        self._sync = hashlib.blake2b(path.encode(), digest_size=16).digest()  # its name is unique
        self._stats = StatsCollector(columns, form="avro")
        self._sink: Any = None

    @staticmethod
    def require(columns: Sequence[DataField], spec: FileSpec) -> None:
        """Raise Unsupported or InvalidOption for what cannot be written."""
        codec(spec, _CODECS, form="Avro")
        file_schema(columns)

    @property
    def bytes_written(self) -> int:
        """Bytes of the file so far."""
        return self._sink.tell() if self._sink is not None else 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows of the physical columns."""
        rows = plain_rows(rows, self._columns)
        self._stats.update(rows)
        with storing(self._path):
            if self._sink is None:
                self._sink = SummedSink(self._io.open_output(self._path))
                schema = json.dumps(self._schema, ensure_ascii=False).encode()
                self._sink.write(header(schema, self._codec, self._sync))
            for start in range(0, rows.num_rows, _BLOCK_ROWS):
                self._block(rows.slice(start, _BLOCK_ROWS))

    def _block(self, rows: pa.RecordBatch) -> None:
        data = self._compress(avro_encode.records(rows, self._columns))
        self._sink.write(framed(AvroBlock(rows.num_rows, data), self._sync))

    def flush(self) -> None:
        """No effect: rows are written at once."""

    def close(self) -> int:
        """Finish the file; its size in bytes."""
        assert self._sink is not None, "a data file holds at least one row"
        with storing(self._path):
            size = self._sink.tell()
            self._sink.close()
        return size

    @property
    def checksum(self) -> int | None:
        """CRC-32 of the file, once it is closed."""
        return self._sink.checksum

    def column_stats(self) -> Mapping[str, ColumnStats | None]:
        """Statistics of each column."""
        return self._stats.found()

    def abort(self) -> None:
        """Close the file without finishing it."""
        if self._sink is not None:
            with contextlib.suppress(OSError):
                self._sink.close()


def _compressor(name: str, level: int) -> Callable[[bytes], bytes]:
    if name == "null":
        return bytes
    if name == "deflate":
        return lambda data: zlib.compress(data, wbits=-15)
    if name == "bzip2":
        return bz2.compress
    codec = pa.Codec("zstd", compression_level=level) if name == "zstandard" else pa.Codec("snappy")
    if name == "zstandard":
        return lambda data: codec.compress(data, asbytes=True)
    return lambda data: codec.compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


def read(
    io: FileIO, path: str, columns: Sequence[DataField], *, file_size: int | None = None, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Batches of some columns of a file."""
    with complaints(path, "Avro"):
        source = io.open_input(path)
    with contextlib.closing(source):
        with complaints(path, "Avro"):
            require_size(source.size(), file_size, path)
        decoded = _batches(source, columns, batch_rows=batch_rows, path=path)
        while True:
            with complaints(path, "Avro"):
                batch = next(decoded, None)
            if batch is None:
                return
            yield batch


_HEADER_BYTES = 1 << 20
_CHUNK_BYTES = 32 << 20  # decompressed bytes of blocks that are decoded at once
_WORTH_POLARS = 1 << 18  # file size from which loading Polars pays
_FLAT = ("boolean", "int", "long", "float", "double", "string", "bytes")


def _batches(
    source: Any, columns: Sequence[DataField], *, batch_rows: int, path: str
) -> Iterator[pa.RecordBatch]:
    """Batches of some columns of the file `source`; a damaged file may raise any exception."""
    head: Any = _KeepingSource(source)
    there = fastavro.reader(head)
    text = there.metadata["avro.schema"]
    avro_blocks.require_sound(text.encode(), path)
    record, union = _record(json.loads(text))
    require_columns([f.name for f in columns], [f["name"] for f in record["fields"]], path)
    decode = _Decoder(record, columns, union=union, large=source.size() > _WORTH_POLARS)
    wanted = pa.schema([f.arrow for f in columns])
    for blocks in _gathered(_blocks(source, there.codec, bytes(head.data[-16:]), path), batch_rows):
        arrays = decode.columns(blocks)
        rows = pa.RecordBatch.from_arrays(arrays, schema=wanted)
        for start in range(0, rows.num_rows, batch_rows):
            yield rows.slice(start, batch_rows)


def _record(schema: Any) -> tuple[dict[str, Any], bool]:
    """(the record, whether it is in a union with null, as in older files)."""
    if isinstance(schema, list):
        return next(s for s in schema if isinstance(s, dict)), True
    return schema, False


def _blocks(source: Any, codec: str, sync: bytes, path: str) -> Iterator[AvroBlock]:
    """The blocks from the source's position on, decompressed."""
    size = source.size()
    while (at := source.tell()) < size:
        head = source.read(min(20, size - at))
        rows, first = avro_blocks.read_long(head, 0, path)
        length, first = avro_blocks.read_long(head, first, path)
        end = at + first + length
        if rows < 0 or length < 0 or end + 16 > size:
            raise Corrupt(path, f"byte {at}: a block of {rows} rows and {length} bytes does not fit the file")
        source.seek(at + first)
        data = source.read(length)
        if source.read(16) != sync:
            raise Corrupt(path, f"byte {end}: no sync marker after a block")
        yield avro_blocks.plain_block(AvroBlock(rows, data), codec, path)


def _gathered(blocks: Iterator[AvroBlock], batch_rows: int) -> Iterator[list[AvroBlock]]:
    """Groups of blocks with at least `batch_rows` rows, fewer where the blocks are large."""
    some: list[AvroBlock] = []
    rows = size = 0
    for block in blocks:
        some.append(block)
        rows, size = rows + block.rows, size + len(block.data)
        if rows >= batch_rows or size > _CHUNK_BYTES:
            yield some
            some, rows, size = [], 0, 0
    if rows:
        yield some


class _Decoder:
    """Turns groups of blocks into columns."""

    def __init__(
        self, record: dict[str, Any], columns: Sequence[DataField], *, union: bool, large: bool
    ) -> None:
        bare = _bare(record)
        names = {f.name for f in columns}
        pruned = bare | {"fields": [f for f in bare["fields"] if f["name"] in names]}
        self._columns = columns
        self._schema = json.dumps(["null", bare] if union else bare).encode()
        self._pruned = None if pruned == bare else ["null", pruned] if union else pruned
        flat = not union and all(_is_flat(f["type"]) for f in bare["fields"])
        self._polars = flat and (large or "polars" in sys.modules) and bool(columns)

    def columns(self, blocks: Sequence[AvroBlock]) -> list[pa.Array]:
        """The values of the wanted columns."""
        data = avro_blocks.joined(self._schema, blocks)
        rows = sum(b.rows for b in blocks)
        if self._polars:
            table = by_polars(data, [f.name for f in self._columns])
            if table is not None and table.num_rows == rows:
                return [_typed(table.column(f.name), f.type) for f in self._columns]
        records: list[Any] = list(fastavro.reader(bytes_io.BytesIO(data), reader_schema=self._pruned))
        if len(records) != rows:
            raise ValueError(f"{len(records)} records where {rows} are promised")
        return [_column([r[f.name] for r in records], f.type) for f in self._columns]


def _is_flat(kind: Any) -> bool:
    if isinstance(kind, list):
        return len(kind) == 2 and kind[0] == "null" and _is_flat(kind[1])
    return (kind["type"] if isinstance(kind, dict) else kind) in _FLAT


def _typed(column: pa.ChunkedArray, t: DataType) -> pa.Array:
    whole = column.combine_chunks()
    return rebuilt(whole.cast(_decoded(t)), DataField(0, "", t).arrow.type)


def _bare(schema: Any) -> Any:
    """The schema without logical types."""
    if isinstance(schema, list):
        return [_bare(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: v for k, v in schema.items() if k not in ("logicalType", "precision", "scale")}
    for key in ("type", "items", "values", "fields"):
        if key in kept:
            kept[key] = _bare(kept[key])
    return kept


def _column(values: list[Any], t: DataType) -> pa.Array:
    """Decoded cells as a column."""
    return rebuilt(pa.array(values, _decoded(t)), DataField(0, "", t).arrow.type)


def _decoded(t: DataType) -> pa.DataType:
    """The Arrow type of decoded values of `t`: integers for times, bytes for decimals."""
    if t.root in ("DATE", "TIME"):
        return pa.int32()
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return pa.int64()
    if t.root == "DECIMAL":
        return pa.binary()
    if t.root == "ARRAY":
        return pa.list_(_decoded(t.element))
    if t.root == "ROW":
        return pa.struct([pa.field(f.name, _decoded(f.type)) for f in t.children])
    if t.root in ("MAP", "MULTISET"):
        key, value = (_decoded(part) for part in entry_types(t))
        if entry_types(t)[0].is_string:
            return pa.map_(key, value)
        return pa.list_(pa.struct([pa.field("key", key), pa.field("value", value)]))
    return DataField(0, "", t).arrow.type


class _KeepingSource:
    """A source that keeps the bytes that were read from it."""

    def __init__(self, source: Any) -> None:
        self._source, self.data = source, bytearray()

    def read(self, size: int) -> bytes:
        """The next bytes; raises for a header larger than any valid one."""
        if len(self.data) + size > _HEADER_BYTES:
            raise ValueError(f"a header of more than {_HEADER_BYTES:,} bytes")
        part = self._source.read(size)
        self.data += part
        return part
