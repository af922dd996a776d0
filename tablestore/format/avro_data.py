"""Avro data files: an encoder, and batches in the exact types of the table schema (format facts 3).

Writing encodes whole columns (`avro_encode`), one block a batch of rows. Reading is fastavro's, record by
record: the schema in the header is replaced by one without logical types, so that plain integers and bytes
come out, which become columns at once; columns not asked for are skipped. Memory holds one batch of rows.
Used by `datafile`.
"""

from __future__ import annotations

import bz2
import contextlib
import hashlib
import io as bytes_io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa

from tablestore.format import avro_encode, avro_guard
from tablestore.format.avro_schema import entry_types, file_schema
from tablestore.format.data_format import (
    codec,
    complaints,
    plain,
    require_columns,
    require_filled,
    require_size,
    unavailable,
)
from tablestore.format.file_spec import FileSpec
from tablestore.format.file_stats import Collector
from tablestore.format.rebuild import rebuilt
from tablestore.format.stats import ColumnStats
from tablestore.format.types import DataField, DataType
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
_MAGIC = b"Obj\x01"
_HEADER_BYTES = 1 << 20


class AvroEncoder:
    """Writes a block for some thousand rows at once."""

    def __init__(self, io: FileIO, path: str, columns: Sequence[DataField], spec: FileSpec) -> None:
        self._io, self._path = io, path
        self._columns = tuple(columns)
        self._codec = codec(spec.compression, _CODECS, form="Avro")
        self._compress = _compressor(self._codec, spec.zstd_level)
        self._schema = file_schema(columns)
        self._sync = hashlib.blake2b(path.encode(), digest_size=16).digest()  # its name is unique
        self._stats = Collector(columns, form="avro")
        self._sink: Any = None

    @staticmethod
    def require(columns: Sequence[DataField], spec: FileSpec) -> None:
        """Raise Unsupported or InvalidOption for what cannot be written."""
        codec(spec.compression, _CODECS, form="Avro")
        file_schema(columns)

    @property
    def bytes_written(self) -> int:
        """Bytes of the file so far."""
        return self._sink.tell() if self._sink is not None else 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows of the physical columns."""
        rows = pa.RecordBatch.from_arrays([plain(c) for c in rows.columns], names=rows.schema.names)
        require_filled(rows, self._columns)
        self._stats.update(rows)
        try:
            if self._sink is None:
                self._sink = self._io.open_output(self._path)
                self._sink.write(_header(self._schema, self._codec, self._sync))
            for start in range(0, rows.num_rows, _BLOCK_ROWS):
                self._block(rows.slice(start, _BLOCK_ROWS))
        except OSError as e:
            raise unavailable(self._path, e) from e

    def _block(self, rows: pa.RecordBatch) -> None:
        data = self._compress(avro_encode.records(rows, self._columns))
        self._sink.write(_long(rows.num_rows) + _long(len(data)))
        self._sink.write(data)
        self._sink.write(self._sync)

    def flush(self) -> None:
        """Nothing: rows are written as they come."""

    def close(self) -> int:
        """Finish the file; its size in bytes."""
        assert self._sink is not None, "a data file holds at least one row"
        try:
            size = self._sink.tell()
            self._sink.close()
        except OSError as e:
            raise unavailable(self._path, e) from e
        return size

    def column_stats(self) -> Mapping[str, ColumnStats | None]:
        """What was seen of each column."""
        return self._stats.found()

    def abort(self) -> None:
        """Let go of the file."""
        if self._sink is not None:
            with contextlib.suppress(OSError):
                self._sink.close()


def _header(schema: Any, name: str, sync: bytes) -> bytes:
    meta = {"avro.schema": json.dumps(schema, ensure_ascii=False).encode(), "avro.codec": name.encode()}
    body = b"".join(_text(k.encode()) + _text(v) for k, v in meta.items())
    return _MAGIC + _long(len(meta)) + body + _long(0) + sync


def _text(data: bytes) -> bytes:
    return _long(len(data)) + data


def _long(value: int) -> bytes:
    zigzag = value << 1
    made = bytearray()
    while zigzag > 0x7F:
        made.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes((*made, zigzag))


def _compressor(name: str, level: int) -> Callable[[bytes], bytes]:
    if name == "null":
        return bytes
    if name == "deflate":
        return lambda data: zlib.compress(data, wbits=-15)
    if name == "bzip2":
        return bz2.compress
    made = pa.Codec("zstd", compression_level=level) if name == "zstandard" else pa.Codec("snappy")
    if name == "zstandard":
        return lambda data: made.compress(data, asbytes=True)
    return lambda data: made.compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


def read(
    io: FileIO,
    path: str,
    columns: Sequence[DataField],
    *,
    file_size: int | None = None,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Batches of some columns of a file."""
    wanted = pa.schema([f.arrow for f in columns])
    with complaints(path, "Avro"):
        source = io.open_input(path)
    with contextlib.closing(source):
        with complaints(path, "Avro"):
            require_size(source.size(), file_size, path)
            records = _records(source, columns, path)
        while True:
            with complaints(path, "Avro"):
                some = list(islice(records, batch_rows))
                arrays = [_column([r[f.name] for r in some], f.type) for f in columns] if some else []
            if not some:
                return
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _records(source: Any, columns: Sequence[DataField], path: str) -> Iterator[dict[str, Any]]:
    """Records with the wanted fields, in plain numbers and bytes."""
    head = _Kept(source)
    there = fastavro.reader(head)
    avro_guard.require_sound(there.metadata["avro.schema"].encode(), path)
    schema = json.loads(there.metadata["avro.schema"])
    record = schema
    if isinstance(schema, list):  # older files have the record in a union with null
        record = next(s for s in schema if isinstance(s, dict))
    require_columns([f.name for f in columns], [f["name"] for f in record["fields"]], path)
    bare = _bare(record)
    names = {f.name for f in columns}
    pruned = bare | {"fields": [f for f in bare["fields"] if f["name"] in names]}
    union = isinstance(schema, list)
    header = _header(["null", bare] if union else bare, there.codec, bytes(head.data[-16:]))
    chained = _Chained(header, source)
    if len(pruned["fields"]) == len(bare["fields"]):
        return iter(fastavro.reader(chained))
    return iter(fastavro.reader(chained, reader_schema=["null", pruned] if union else pruned))


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
    """The Arrow type of what the decoder gives for `t`: integers for times, bytes for decimals."""
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


class _Kept:
    """A source that remembers what was read of it."""

    def __init__(self, source: Any) -> None:
        self._source, self.data = source, bytearray()

    def read(self, size: int) -> bytes:
        """The next bytes."""
        if len(self.data) + size > _HEADER_BYTES:
            raise ValueError(f"a header of more than {_HEADER_BYTES:,} bytes")
        part = self._source.read(size)
        self.data += part
        return part


class _Chained:
    """A header, then the rest of a source."""

    def __init__(self, header: bytes, source: Any) -> None:
        self._header, self._source = bytes_io.BytesIO(header), source

    def read(self, size: int) -> bytes:
        """The next bytes. No more than there are, whatever a damaged length says."""
        part = self._header.read(size)
        if len(part) < size:
            left = self._source.size() - self._source.tell()
            part += self._source.read(min(size - len(part), left))
        return part
