"""ORC data files: an encoder, and batches in the exact types of the table schema (FORMAT.md 3.3).

ORC stores a TIME as an integer. Text of CHAR columns is read without trailing blanks, as in Java. Timestamps
that Arrow cannot handle are encoded and read row by row (`orc/rows.py`); values that readers of ORC would
change are refused. Memory: one stripe. Used by `datafile`.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc

from tablestore.core.errors import Corrupt, Unavailable, Unsupported
from tablestore.format import schema as schemas
from tablestore.format.checksums import SummedSink
from tablestore.format.data_format import (
    FileSpec,
    codec,
    complaints,
    fitting,
    plain_rows,
    require_columns,
    require_size,
    storing,
)
from tablestore.format.orc.rows import OrcRowWriter, library, read_stripe
from tablestore.format.parquet.schema import SYSTEM_COLUMNS
from tablestore.format.rebuild import rebuilt, timestamps
from tablestore.format.schema import TableSchema
from tablestore.format.stats import ColumnStats, StatsCollector
from tablestore.format.types.arrow_types import DataField, DataType
from tablestore.io import process
from tablestore.io.fileio import FileIO
from tablestore.io.process import ProcessLost

_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "lz4": "lz4",
    "zlib": "zlib",
    "none": "uncompressed",
    "uncompressed": "uncompressed",
}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_GREGORIAN = -12_219_292_800  # 1582-10-15, in seconds
_STRIPE_BYTES = 64 << 20
_DECODER = ("tablestore.format.orc.decoder", "answer_requests")
_ATTEMPTS = 2  # where others end the process
_FIRST_GUESS = 0.25  # encoded bytes per Arrow byte, before a stripe is measured


def require_storable(t: DataType) -> None:
    """Raise Unsupported for types that Paimon's ORC files do not have."""
    if t.root in ("VARIANT", "VECTOR", "BLOB"):
        raise Unsupported(f"{t.root} columns in ORC files", "file.format = parquet holds them")
    for f in t.children:
        require_storable(f.type)


class OrcEncoder:
    """Writes rows through an ORC writer, which buffers one stripe."""

    def __init__(
        self, io: FileIO, path: str, columns: Sequence[DataField], spec: FileSpec, share: float | None = None
    ) -> None:
        self.require(columns, spec)
        self._expected, self._size = _FIRST_GUESS if share is None else share, 0
        self._io, self._path = io, path
        self._codec = codec(spec, _CODECS, form="ORC")
        self._stripe_bytes = spec.block_bytes or _STRIPE_BYTES
        self._columns = tuple(columns)
        self._physical = pa.schema([pa.field(f.name, _stored(f.arrow.type)) for f in columns])
        self._stats = StatsCollector(columns, form="orc")
        self._sink: _GuardedFile | None = None
        self._writer: orc.ORCWriter | OrcRowWriter | None = None
        self._by_rows = any(_is_fine(f.type) for f in columns)
        self._arrow_bytes = 0

    @staticmethod
    def require(columns: Sequence[DataField], spec: FileSpec) -> None:
        """Raise Unsupported or InvalidOption for what cannot be written."""
        codec(spec, _CODECS, form="ORC")
        for f in columns:
            require_storable(f.type)
        if any(_is_fine(f.type) for f in columns):
            library()

    @property
    def bytes_written(self) -> int:
        """Bytes of the file so far; the stripe in memory is estimated."""
        if self._sink is None:
            return 0
        encoded = self._sink.tell()
        return int(max(encoded, self._expected * self._arrow_bytes))

    @property
    def share(self) -> float | None:
        """Encoded bytes for each byte of the rows in memory; None until the file is closed."""
        return self._size / self._arrow_bytes if self._size else None

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows of the physical columns."""
        rows = plain_rows(rows, self._columns)
        self._stats.update(rows)
        for f, column in zip(self._columns, rows.columns, strict=True):
            _require_kept(column, f)
        self._arrow_bytes += rows.nbytes
        with storing(self._path), fitting():
            if self._writer is None:
                self._open()
            assert self._writer is not None
            self._writer.write(rows if self._by_rows else self._stored(rows))
            self._require_written()

    def _open(self) -> None:
        self._summed = SummedSink(self._io.open_output(self._path))
        self._sink = _GuardedFile(self._summed)
        if self._by_rows:
            self._writer = OrcRowWriter(
                self._sink, self._columns, codec=self._codec, stripe_bytes=self._stripe_bytes
            )
            return
        self._writer = orc.ORCWriter(
            self._sink, compression=self._codec, stripe_size=self._stripe_bytes, file_version="0.12"
        )

    def _stored(self, rows: pa.RecordBatch) -> pa.Table:
        arrays = [_whole(rebuilt(c, f.type)) for c, f in zip(rows.columns, self._physical, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self._physical)

    def flush(self) -> None:
        """No effect: a stripe is written when it is full."""

    def close(self) -> int:
        """Finish the file; its size in bytes."""
        assert self._writer is not None, "a data file holds at least one row"
        assert self._sink is not None
        with storing(self._path):
            self._writer.close()
            self._require_written()
            size = self._size = self._sink.tell()
            self._sink.close()
        return size

    def _require_written(self) -> None:
        if self._sink is not None and self._sink.error is not None:
            raise self._sink.error

    @property
    def checksum(self) -> int | None:
        """CRC-32 of the file, once it is closed."""
        return self._summed.checksum

    def column_stats(self) -> Mapping[str, ColumnStats | None]:
        """Statistics of each column."""
        return self._stats.found()

    def abort(self) -> None:
        """Close the file without finishing it."""
        if self._sink is None:
            return
        self._sink.error = self._sink.error or OSError(
            "given up"
        )  # what the writer still buffers is discarded
        if self._writer is not None:
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()
        with contextlib.suppress(OSError):
            self._sink.close()
        self._writer = None


class _GuardedFile:
    """A file that stores its first error: Arrow's ORC writer would end the process when a write raises."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file, self._size = file, 0
        self.error: BaseException | None = None

    def write(self, data: Any) -> int:
        """Write the bytes; discard them after an error."""
        if self.error is None:
            try:
                self._file.write(data)
            except BaseException as e:  # raised again by the encoder's next check
                self.error = e
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        """Bytes so far."""
        return self._size

    def flush(self) -> None:
        """No effect: closing flushes."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _whole(array: pa.Array) -> pa.Array:
    """The array without offsets, which Arrow's ORC writer ignores inside nested slices."""
    return pa.concat_arrays([array.slice(0, 0), array]) if pa.types.is_nested(array.type) else array


def _stored(t: pa.DataType) -> pa.DataType:
    """The Arrow type of a column in ORC files: an integer for a TIME."""
    if pa.types.is_time(t):
        return pa.int32()
    if pa.types.is_list(t):
        return pa.list_(pa.field("element", _stored(t.value_type)))
    if pa.types.is_map(t):
        return pa.map_(_stored(t.key_type), _stored(t.item_type))
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _stored(f.type)) for f in t.fields])
    return t


def require_types(there: pa.Schema, wanted: pa.Schema) -> None:
    """Raise ValueError for a column that the file has in a type of another kind."""
    for f in wanted:
        there_type, stored = there.field(f.name).type, _stored(f.type)
        if not _is_of_kind(there_type, stored):
            raise ValueError(f"column {f.name!r} is {there_type}, its schema says {stored}")


def _is_of_kind(stored: pa.DataType, wanted: pa.DataType) -> bool:
    loose = (pa.types.is_timestamp, pa.types.is_decimal)  # unit, zone and digits may differ
    if any(is_one(stored) and is_one(wanted) for is_one in loose):
        return True
    if not pa.types.is_nested(wanted):
        return stored == wanted or (pa.types.is_fixed_size_binary(wanted) and stored == pa.binary())
    if stored.id != wanted.id or stored.num_fields != wanted.num_fields:
        return False
    return all(_is_of_kind(stored.field(i).type, wanted.field(i).type) for i in range(wanted.num_fields))


def _require_kept(column: pa.Array, f: DataField) -> None:
    """Raise Unsupported for timestamps that readers would change: those before the Gregorian calendar, and
    fractions of the last second before 1970."""
    for leaf in timestamps(column):
        ticks, per_second = leaf.cast(pa.int64()), _PER_SECOND[leaf.type.unit]
        lowest = pc.min(ticks).as_py()
        refused = None
        if lowest is not None and lowest < _GREGORIAN * per_second:
            refused = "timestamps before 1582-10-15"
        elif lowest is not None and leaf.type.unit != "ms":
            last = pc.and_(pc.less(ticks, 0), pc.greater(ticks, -per_second))
            refused = "fractions of the last second before 1970" if pc.any(last).as_py() else None
        if refused is not None:
            why = f"column {f.name!r}: readers change them; file.format = parquet or avro keeps them"
            raise Unsupported(f"{refused} in ORC files", why)


def _is_fine(t: DataType) -> bool:
    """Whether the type has timestamps of more than milliseconds: Java misreads Arrow's before 1970."""
    fine = t.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and t.precision > 3
    return fine or any(_is_fine(f.type) for f in t.children)


def read(
    io: FileIO,
    path: str,
    schema: TableSchema,
    wanted: pa.Schema,
    *,
    file_size: int | None = None,
    batch_rows: int,
    apart: bool,
) -> Iterator[pa.RecordBatch]:
    """Batches of the columns `wanted` of a file written with `schema`, stripe by stripe.

    `apart`, for a file without a checksum: it is decoded in a process beside this one (`orc/decoder.py`).
    Raises Corrupt, naming the file, for bytes on which that process ends. Memory: a stripe on either side.
    """
    with complaints(path, "ORC"):
        source = io.open_input(path)
    with contextlib.closing(source):
        with complaints(path, "ORC"):
            require_size(source.size(), file_size, path)
        if apart:
            yield from _read_apart(source, path, schema, wanted, batch_rows)
            return
        with complaints(path, "ORC"):
            reader = OrcReader.opened(source, path, schema, wanted, batch_rows)
        for number in range(reader.file.nstripes):
            yield from reader.batches(number)


def _read_apart(
    source: Any, path: str, schema: TableSchema, wanted: pa.Schema, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    request = {
        "path": path,
        "size": source.size(),
        "schema": schemas.to_json(schema).decode(),
        "wanted": base64.b64encode(wanted.serialize()).decode(),
        "batch_rows": batch_rows,
    }
    number, stripes = 0, 1
    while number < stripes:
        parts, stripes = _asked(source, path, {**request, "stripe": number})
        for part in parts:
            with complaints(path, "ORC"):
                rows = pa.ipc.read_record_batch(part, wanted)
            yield rows
        number += 1


def _asked(source: Any, path: str, request: Mapping[str, Any]) -> tuple[list[pa.Buffer], int]:
    """The batches of one stripe, encoded, and how many stripes there are."""

    def fetch(at: int, length: int) -> bytes:
        source.seek(at)
        data: bytes = source.read(length)
        return data

    for attempt in range(_ATTEMPTS):
        try:
            with process.borrowed(*_DECODER) as decoder:
                parts, end = decoder.ask(json.dumps(request).encode(), fetch)
        except ProcessLost as e:
            if not e.by_others:
                problem = f"stripe {request['stripe']} is damaged: its decoder ended by {e}"
                raise Corrupt(path, problem) from None
            if attempt + 1 == _ATTEMPTS:
                raise Unavailable(0, f"{path}: the process that decodes it was ended by {e}") from None
            continue
        answer = json.loads(end)
        if "stripes" in answer:
            return parts, answer["stripes"]
        if "unsupported" in answer:
            raise Unsupported(*answer["unsupported"])
        raise Corrupt(path, answer["damaged"])
    raise AssertionError("the last attempt returns or raises")


@dataclass(frozen=True, slots=True)
class OrcReader:
    """An open file, written with `schema`, of which the columns `wanted` are read stripe by stripe."""

    source: Any
    file: orc.ORCFile
    path: str
    schema: TableSchema
    wanted: pa.Schema
    batch_rows: int

    @classmethod
    def opened(
        cls, source: Any, path: str, schema: TableSchema, wanted: pa.Schema, batch_rows: int
    ) -> OrcReader:
        """Of a file that has all these columns; raises Corrupt or Arrow's error."""
        file = orc.ORCFile(source)
        require_columns(wanted.names, file.schema.names, path)
        return cls(source, file, path, schema, wanted, batch_rows)

    def batches(
        self, number: int, *, examine: Callable[[pa.RecordBatch], None] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Batches of one stripe; `examine` takes its columns as Arrow decodes them, without times if there
        are any that it cannot decode."""
        with complaints(self.path, "ORC"):
            rows = self._decoded(number)
            if examine is not None:
                examine(rows if rows is not None else self._without_times(number))
        if rows is None:
            yield from self._by_rows(number)
            return
        with complaints(self.path, "ORC"):
            rows = self._typed(rows)
        for start in range(0, rows.num_rows, self.batch_rows):
            yield rows.slice(start, self.batch_rows)

    def _decoded(self, number: int) -> pa.RecordBatch | None:
        """The columns of a stripe; None if it has times outside Arrow's nanoseconds."""
        try:
            return self.file.read_stripe(number, columns=self.wanted.names)
        except pa.ArrowInvalid as e:
            if "out of range for nanosecond" in str(e):
                return None
            raise

    def _without_times(self, number: int) -> pa.RecordBatch:
        """The columns of a stripe that hold no times."""
        names = [f.name for f in self.wanted if not _has_times(f.type)]
        if not names:
            return pa.RecordBatch.from_arrays([], names=[])
        return self.file.read_stripe(number, columns=names)

    def _by_rows(self, number: int) -> Iterator[pa.RecordBatch]:
        columns = {**SYSTEM_COLUMNS, **self.schema.by_name}
        self.source.seek(0)
        fields = [columns[n] for n in self.wanted.names]
        batches = read_stripe(self.source, number, fields, self.batch_rows)
        while True:
            with complaints(self.path, "ORC"):
                arrays = next(batches, None)
                if arrays is None:
                    return
                rows = self._typed(pa.RecordBatch.from_arrays(arrays, schema=self.wanted))
            yield rows

    def _typed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the table's types, without the trailing blanks of CHAR columns, which ORC pads."""
        arrays = [rebuilt(rows.column(f.name), f.type) for f in self.wanted]
        for i, name in enumerate(self.wanted.names):
            if name in self.schema.by_name and self.schema.by_name[name].type.root == "CHAR":
                arrays[i] = pc.utf8_rtrim(arrays[i], " ")
        return pa.RecordBatch.from_arrays(arrays, schema=self.wanted)


def _has_times(t: pa.DataType) -> bool:
    return pa.types.is_timestamp(t) or any(_has_times(t.field(i).type) for i in range(t.num_fields))
