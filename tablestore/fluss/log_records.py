"""Batches of a log, little-endian, one behind the other in answers and in segment files.

    V0, 48 bytes  int64 base offset | int32 length of what follows | int8 magic 0 | int64 commit timestamp, ms
                  | uint32 CRC-32C of what follows it | int16 schema id | int8 attributes (bit 0: append-only)
                  | int32 last offset − base | int64 writer id | int32 batch sequence | int32 rows
    V1, 52 bytes  the same with magic 1 and an int32 leader epoch before the CRC
    then          unless append-only, a change kind a row: 0 +A, 1 +I, 2 -U, 3 +U, 4 -D
                  one record batch as an encapsulated IPC message without its schema

A batch without rows still takes offsets. The last batch of an answer may be cut. Columns of a batch that was
projected by the server no longer fit its CRC.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tablestore.core.errors import Corrupt, Unsupported, brief
from tablestore.core.extras import required
from tablestore.fluss.apis import ROWS

_V0, _V1 = struct.Struct("<qibqIhbiqii"), struct.Struct("<qibqiIhbiqii")
_SIZE = struct.Struct("<8xib")
_SIZE_FROM = 12  # the length counts bytes behind itself
_APPEND_ONLY = 1
_KINDS = 5
_USER = "a log of Fluss"
NO_WRITER = -1


class BatchNumber(NamedTuple):
    """The writer of a batch, and the batch's place among those that it writes to the bucket."""

    writer_id: int = NO_WRITER
    sequence: int = -1


NO_NUMBER = BatchNumber()


class BatchMark(NamedTuple):
    """What tells a batch from any other that a log may have at its place: its first offset, when it was
    appended, the CRC of its rows."""

    base: int
    timestamp_ms: int
    crc: int


@dataclass(frozen=True, slots=True)
class BatchHead:
    """What the head of a batch says. `end`: the offset behind it. `at` and `size` are its place in the
    buffer, `body` and `checked` where its rows begin and what its CRC covers."""

    base: int
    end: int
    timestamp_ms: int
    rows: int
    schema_id: int
    append_only: bool
    crc: int
    at: int
    size: int
    body: int
    checked: int
    writer_id: int
    sequence: int

    @property
    def mark(self) -> BatchMark:
        """What tells the batch from any other."""
        return BatchMark(self.base, self.timestamp_ms, self.crc)


@dataclass(frozen=True, slots=True)
class LogRecords:
    """Rows of a batch: row i has the offset `base` + i; the next one to read is `end`, however many rows
    there are.

    `kinds` are int8 row kinds (`format.rowkind`), None where all rows were appended (+I).
    """

    base: int
    end: int
    timestamp_ms: int
    schema_id: int
    kinds: np.ndarray | None
    rows: pa.RecordBatch

    def between(self, start: int, stop: int) -> LogRecords:
        """Those rows whose offset is in [start, stop), without copies."""
        first = max(start - self.base, 0)
        count = max(min(stop - self.base, self.rows.num_rows) - first, 0)
        if not first and count == self.rows.num_rows:
            return self if self.end <= stop else _until(self, stop)
        kinds = None if self.kinds is None else self.kinds[first : first + count]
        end = min(self.end, stop)
        rows = self.rows.slice(first, count)
        return LogRecords(self.base + first, end, self.timestamp_ms, self.schema_id, kinds, rows)


def _until(batch: LogRecords, stop: int) -> LogRecords:
    return LogRecords(batch.base, stop, batch.timestamp_ms, batch.schema_id, batch.kinds, batch.rows)


def heads(data: pa.Buffer, where: str) -> Iterator[BatchHead]:
    """The batches in `data` that are whole. Raises Corrupt, naming `where`, for what is none."""
    at, size = 0, data.size
    while size - at >= _SIZE.size:
        length, magic = _SIZE.unpack_from(data, at)
        head = _V0 if magic == 0 else _V1
        if magic not in (0, 1):
            raise (
                Unsupported(f"log batches of format {magic}", where)
                if magic == 2
                else Corrupt(where, f"a log batch of format {magic} at byte {at}")
            )
        if not head.size - _SIZE_FROM <= length <= ROWS:
            raise Corrupt(where, f"a log batch of {length} bytes at byte {at}")
        if size - at < _SIZE_FROM + length:
            return
        base, _, _, timestamp, *rest = head.unpack_from(data, at)
        crc, schema_id, attributes, delta, writer_id, sequence, rows = rest[-7:]
        if delta < 0 or not 0 <= rows <= delta + 1:
            raise Corrupt(where, f"a log batch of {rows} rows over {delta + 1} offsets at byte {at}")
        if base < 0 or base + delta + 1 >= 1 << 63:
            raise Corrupt(where, f"a log batch at offset {base}, byte {at}")
        yield BatchHead(
            *(base, base + delta + 1, timestamp, rows, schema_id, bool(attributes & _APPEND_ONLY), crc),
            *(at, _SIZE_FROM + length, at + head.size, at + (25 if head is _V0 else 29), writer_id, sequence),
        )
        at += _SIZE_FROM + length


def bytes_needed(data: pa.Buffer) -> int:
    """How many bytes the first batch in `data` has; 0 where not even its length is there."""
    return _SIZE_FROM + _SIZE.unpack_from(data)[0] if data.size >= _SIZE.size else 0


def check(data: pa.Buffer, head: BatchHead, where: str) -> None:
    """Raise Corrupt, naming `where`, for a batch that does not fit its CRC."""
    crc32c = required("google_crc32c", by=_USER)
    checksum = crc32c.value(data.slice(head.checked, head.at + head.size - head.checked))
    if checksum != head.crc:
        raise Corrupt(
            where, f"the log batch at offset {head.base} has the CRC {checksum:08x}, not {head.crc:08x}"
        )


def decode(data: pa.Buffer, head: BatchHead, schema: pa.Schema, where: str) -> LogRecords:
    """The rows of a batch, with buffers in `data` where they are not compressed. `schema`: that of its
    columns. Raises Corrupt, naming `where`."""
    kinds, body = None, head.body
    if not head.append_only:
        if head.rows > head.at + head.size - body:
            raise Corrupt(where, f"the log batch at offset {head.base} has no room for {head.rows} rows")
        stored = np.frombuffer(data, np.uint8, head.rows, body) if head.rows else np.empty(0, np.uint8)
        if head.rows and stored.max() >= _KINDS:
            raise Corrupt(where, f"the log batch at offset {head.base} has the change kind {stored.max()}")
        kinds = (np.maximum(stored, 1) - 1).astype(np.int8)
        body += head.rows
    if not head.rows:
        rows = pa.RecordBatch.from_pylist([], schema)
    else:
        rows = _columns(data.slice(body, head.at + head.size - body), schema, head, where)
    return LogRecords(head.base, head.end, head.timestamp_ms, head.schema_id, kinds, rows)


def _columns(body: pa.Buffer, schema: pa.Schema, head: BatchHead, where: str) -> pa.RecordBatch:
    if body.address % 8:  # rows that are not compressed stay where they are, and Arrow wants them aligned
        body = pa.py_buffer(body.to_pybytes())
    try:
        rows = pa.ipc.read_record_batch(pa.ipc.read_message(body), schema)
        rows.validate(full=True)  # an offset outside its column would be read as memory of ours
    except (pa.ArrowException, OSError, EOFError) as e:
        raise Corrupt(where, f"the log batch at offset {head.base}: {brief(e)}") from e
    if rows.num_rows != head.rows:
        raise Corrupt(where, f"the log batch at offset {head.base} has {rows.num_rows} rows, not {head.rows}")
    return rows


def encode(
    rows: pa.RecordBatch,
    *,
    schema_id: int,
    kinds: np.ndarray | None = None,
    compression: str = "ZSTD",
    base: int = 0,
    timestamp_ms: int = 0,
    number: BatchNumber = NO_NUMBER,
) -> bytes:
    """A batch of rows, in format V0. `kinds`: int8 row kinds; None: appended rows.

    `rows` must have the columns of the table's schema. A server sets `base` and `timestamp_ms` itself; it
    projects batches only if they are compressed as the table says. Java does not read LZ4 as Arrow writes it
    here.
    """
    message = _message(rows, compression) if rows.num_rows else b""
    changes = b"" if kinds is None else (kinds.astype(np.uint8) + 1).tobytes()
    head = struct.pack(
        "<hbiqii",
        schema_id,
        _APPEND_ONLY if kinds is None else 0,
        max(rows.num_rows, 1) - 1,
        *number,
        rows.num_rows,
    )
    tail = b"".join((head, changes, message))
    return _framed(tail, base, timestamp_ms)


def _message(rows: pa.RecordBatch, compression: str) -> pa.Buffer:
    """The encapsulated message of a batch: what a stream holds between its schema and its end."""
    codec = None if compression == "NONE" else compression.removesuffix("_FRAME").lower()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as stream:
        stream.write_batch(rows)
    message = sink.getvalue()
    (schema,) = struct.unpack_from("<4xi", message)
    return message.slice(8 + schema, message.size - 8 - schema - 8)


def empty(base: int, end: int, timestamp_ms: int, *, schema_id: int) -> bytes:
    """A batch without rows that takes the offsets from `base` to `end`."""
    tail = struct.pack("<hbiqii", schema_id, 0, end - base - 1, *NO_NUMBER, 0)
    return _framed(tail, base, timestamp_ms)


def _framed(tail: bytes, base: int, timestamp_ms: int) -> bytes:
    crc = required("google_crc32c", by=_USER).value(tail)
    return struct.pack("<qibqI", base, 13 + len(tail), 0, timestamp_ms, crc) + tail
