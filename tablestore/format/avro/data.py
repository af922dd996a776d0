"""Avro data files: an encoder, and batches in the exact types of the table schema (FORMAT.md 3.4).

Rows are encoded by whole columns (`avro/encode.py`), some thousand in a block, and read by `avro/read.py`.
Memory: one batch of rows. Used by `datafile`.
"""

from __future__ import annotations

import bz2
import contextlib
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tablestore.format.avro import encode as avro_encode
from tablestore.format.avro import read as avro_read
from tablestore.format.avro.blocks import AvroBlock, framed, header
from tablestore.format.avro.schema import file_schema
from tablestore.format.data_checksum import SummedSink
from tablestore.format.data_format import (
    codec,
    complaints,
    plain_rows,
    require_size,
    storing,
)
from tablestore.format.file_spec import FileSpec
from tablestore.format.file_stats import StatsCollector
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import DataField
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
        self,
        io: FileIO,
        path: str,
        columns: Sequence[DataField],
        spec: FileSpec,
        share: float | None = None,
    ) -> None:
        self._io, self._path = io, path
        self._columns = tuple(columns)
        self._codec = codec(spec.compression, _CODECS, form="Avro")
        self._compress = _compressor(self._codec, spec.zstd_level)
        self._schema = file_schema(columns)
        self._sync = hashlib.blake2b(path.encode(), digest_size=16).digest()  # its name is unique
        self._stats = StatsCollector(columns, form="avro")
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
    io: FileIO,
    path: str,
    columns: Sequence[DataField],
    *,
    file_size: int | None = None,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Batches of some columns of a file."""
    with complaints(path, "Avro"):
        source = io.open_input(path)
    with contextlib.closing(source):
        with complaints(path, "Avro"):
            require_size(source.size(), file_size, path)
        batches = avro_read.batches(source, columns, batch_rows=batch_rows, path=path)
        while True:
            with complaints(path, "Avro"):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch
