"""The bytes of a log file: a header, then chunks of rows (FORMAT.md 25.11). Pure.

    0    8   magic `TSLOG`, two zeros, version 1
    8    4   length of the header, little-endian (as the next)
    12   4   CRC-32 of the header
    16   …   header: JSON, see `LogHeader`
    …    …   chunks, one after another: each an Arrow IPC stream with the column `_VALUE_KIND` in front (and
             `_OFFSET`, where offsets have gaps), then the columns of its schema

A single file `<number>.log` holds one transaction, a segment `<first>-<last>.log` those of a range of
numbers. Numbers have 20 digits. Chunks may lie in part files (`parts/<uuid>.arrow`, chunk after chunk
without a header) instead, which tasks staged or which did not fit memory. Each chunk has its own CRC-32.

A file whose end a loss of power took is torn: it is shorter than it says, or ends in zeros, which no whole
file does. Any other file that does not match its checksums is damaged.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tablestore.core.errors import Corrupt, brief
from tablestore.log.log import Appended, CommitMark
from tablestore.log.transaction_id import TransactionId

MAGIC = b"TSLOG\0\0\1"
PREFIX = 16  # bytes before the header
CUT = 1 << 32
"""Offsets of each bucket that a torn file spends."""
REMEDY = "table.log.repair() goes on without it"
KIND, OFFSET = "_VALUE_KIND", "_OFFSET"
_NAME = re.compile(r"(\d{20})(?:-(\d{20}))?\.log")
_BATCH_ROWS = 1 << 16
_TINY = 4096  # bytes that are not worth compressing
TAIL = 8
_END = b"\xff\xff\xff\xff\0\0\0\0"  # the last bytes of an Arrow stream

Range = tuple[int, int]


class LostEnd(Corrupt):
    """A file whose end is not there: a loss of power came before its bytes were on the disk."""


@dataclass(frozen=True, slots=True)
class LogTransaction:
    """What was appended at once; `uuid` tells the appender that it was its own doing. `ranges`: bucket →
    (offset of the first row, offset behind the last)."""

    number: int
    uuid: str
    timestamp_ms: int
    ranges: Mapping[int, Range]
    mark: CommitMark | None = None

    @property
    def appended(self) -> Appended:
        """The same as readers of the log see it."""
        start = {bucket: first for bucket, (first, _) in self.ranges.items()}
        end = {bucket: behind for bucket, (_, behind) in self.ranges.items()}
        return Appended(start, end, self.timestamp_ms, self.mark, self.id)

    @property
    def id(self) -> TransactionId:
        """What a snapshot says of it."""
        return TransactionId(self.number, self.uuid)


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Rows of one bucket and one schema: `length` bytes at `position` behind the header, or in `part`.

    Offsets are dense from `start` on; where `sparse`, they are in a column.
    """

    bucket: int
    schema_id: int
    start: int
    end: int
    rows: int
    position: int
    length: int
    crc: int
    part: str | None = None
    sparse: bool = False

    def at(self, start: int) -> LogChunk:
        """The same rows from another offset on."""
        return replace(self, start=start, end=start + self.rows)


@dataclass(frozen=True, slots=True)
class LogHeader:
    """What a log file holds. `start`: the offsets of all buckets before it. `length`: bytes of its own
    chunks. `cut`: numbers right before its first transaction whose files are torn, so nothing of them
    counts. `table`: uuid of the table whose log it is, None if it has none."""

    first: int
    last: int
    start: Mapping[int, int]
    transactions: Sequence[LogTransaction]
    chunks: Sequence[LogChunk]
    length: int
    cut: tuple[int, ...] = ()
    table: str | None = None

    @property
    def end(self) -> dict[int, int]:
        """The offsets of all buckets behind it, those that torn files between its transactions spent among
        them."""
        end, number = dict(self.start), self.first + len(self.cut_inside)
        for transaction in self.transactions:
            if transaction.number > number:
                spent = CUT * (transaction.number - number)
                end = {bucket: offset + spent for bucket, offset in end.items()}
            end.update({bucket: behind for bucket, (_, behind) in transaction.ranges.items()})
            number = transaction.number + 1
        return end

    @property
    def cut_inside(self) -> tuple[int, ...]:
        """The torn numbers before its first transaction that are its own."""
        return tuple(number for number in self.cut if number >= self.first)

    @property
    def timestamp_ms(self) -> int:
        """When its last transaction was appended."""
        return self.transactions[-1].timestamp_ms

    @property
    def parts(self) -> list[str]:
        """The part files that it names."""
        return sorted({chunk.part for chunk in self.chunks if chunk.part is not None})

    def chunks_between(self, start: Mapping[int, int], stop: Mapping[int, int]) -> Iterator[LogChunk]:
        """Chunks with rows at or behind `start` and before `stop`."""
        for chunk in self.chunks:
            low, high = start.get(chunk.bucket, 0), stop.get(chunk.bucket, 0)
            if low < high and chunk.start < high and chunk.end > low:
                yield chunk


def file_name(first: int, last: int) -> str:
    """The name of a single file (`first` = `last`) or segment."""
    return f"{first:020}.log" if first == last else f"{first:020}-{last:020}.log"


def numbers(name: str) -> Range | None:
    """(first, last) of the name of a log file; None for any other name."""
    match = _NAME.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2] or match[1]))


def encode(header: LogHeader, body: Sequence[bytes | pa.Buffer] = ()) -> bytes:
    """The bytes of a file; `body`: its chunks in order."""
    text = json.dumps(_to_json(header), separators=(",", ":")).encode()
    return b"".join([MAGIC, struct.pack("<II", len(text), zlib.crc32(text)), text, *body])


def header_end(prefix: bytes) -> int:
    """Where the header ends of a file that starts so, as far as that can be believed."""
    return PREFIX + int.from_bytes(prefix[8:12], "little")


def decode(data: bytes, path: str, size: int, tail: bytes) -> LogHeader:
    """`decode_header` of a file that has all its bytes. Raises LostEnd where the file is torn, Corrupt where
    it is damaged."""
    header, end = decode_header(data, path, size, tail), header_end(data)
    if size < end + header.length:
        raise LostEnd(
            path, f"it has {size} bytes, not {end + header.length}: the file is torn", remedy=REMEDY
        )
    if size > end + header.length:
        raise Corrupt(path, f"it has {size} bytes, not {end + header.length}", remedy=REMEDY)
    return header


def decode_header(data: bytes, path: str, size: int, tail: bytes) -> LogHeader:
    """The header of a file of `size` bytes that starts with `data`, up to its `header_end`, and ends with
    `tail`, whatever lies behind the header. Raises LostEnd where the header is torn, Corrupt where it is
    damaged."""
    end = header_end(data)
    text = data[PREFIX:end]
    sound = data[:8] == MAGIC and len(text) == end - PREFIX
    if not sound or zlib.crc32(text) != int.from_bytes(data[12:16], "little"):
        raise _headless(data, path, size, tail)
    try:
        return _from_json(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as e:
        raise Corrupt(path, f"its header cannot be read: {brief(e)}", remedy=REMEDY) from None


def _headless(data: bytes, path: str, size: int, tail: bytes) -> Corrupt:
    """The error of a file without a sound header."""
    complete = header_end(data) <= size or tail == _END or (len(data) == size and _is_json(data[PREFIX:]))
    if size < PREFIX or not any(tail) or not complete:
        return LostEnd(
            path, f"it ends within its header, after {size} bytes: the file is torn", remedy=REMEDY
        )
    if data[:8] != MAGIC:
        newer = data[:7] == MAGIC[:7]
        text = f"version {data[7]} of log files is not known" if newer else "no log file"
        return Corrupt(path, text, remedy=REMEDY)
    return Corrupt(path, "its header does not match its checksum: the file is damaged", remedy=REMEDY)


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _to_json(header: LogHeader) -> dict[str, Any]:
    return {
        "first": header.first,
        "last": header.last,
        "start": header.start,
        "length": header.length,
        "cut": header.cut,
        "transactions": [
            [t.number, t.uuid, t.timestamp_ms, t.ranges, _mark(t.mark)] for t in header.transactions
        ],
        "chunks": [chunk_to_json(chunk) for chunk in header.chunks],
        "table": header.table,
    }


def _from_json(body: Any) -> LogHeader:
    transactions = [
        LogTransaction(
            number,
            uuid,
            timestamp,
            {int(bucket): (first, behind) for bucket, (first, behind) in ranges.items()},
            mark and CommitMark(**mark),
        )
        for number, uuid, timestamp, ranges, mark in body["transactions"]
    ]
    return LogHeader(
        body["first"],
        body["last"],
        {int(bucket): offset for bucket, offset in body["start"].items()},
        transactions,
        [LogChunk(*chunk) for chunk in body["chunks"]],
        body["length"],
        tuple(body["cut"]),
        body.get("table"),
    )


def _mark(mark: CommitMark | None) -> dict[str, Any] | None:
    if mark is None:
        return None
    return {
        "user": mark.user,
        "identifier": mark.identifier,
        "position": mark.position,
        "properties": dict(mark.properties),
        "watermark": mark.watermark,
    }


def chunk_to_json(chunk: LogChunk) -> list[Any]:
    """The fields of a chunk in their order."""
    return [getattr(chunk, name) for name in LogChunk.__slots__]


def encode_rows(batches: Sequence[pa.RecordBatch], compression: str | None) -> pa.Buffer:
    """The bytes of a chunk; batches are joined or cut to a size that suits readers."""
    table = pa.Table.from_batches(batches).combine_chunks()
    codec = compression if table.nbytes > _TINY else None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec, unify_dictionaries=True)
    ) as writer:
        writer.write_table(table, max_chunksize=_BATCH_ROWS)
    return sink.getvalue()


def require_intact(data: bytes, chunk: LogChunk, path: str) -> None:
    """Raise Corrupt where the bytes of a chunk do not match their checksum."""
    if len(data) != chunk.length or zlib.crc32(data) != chunk.crc:
        text = f"rows {chunk.start} to {chunk.end} of bucket {chunk.bucket} are torn or damaged"
        raise Corrupt(path, text, remedy=REMEDY)


def require_follows(header: LogHeader, before: LogHeader, path: str) -> None:
    """Raise Corrupt where a file does not begin where the one before it ends."""
    end, torn = before.end, CUT * len(header.cut)
    for bucket in sorted({*end, *header.start}):
        start, expected = header.start.get(bucket, 0), end.get(bucket, 0) + torn
        if start != expected:
            text = f"it starts at offset {start} of bucket {bucket}; the file before it ends at {expected}"
            raise Corrupt(path, text, remedy=REMEDY)


def decode_rows(data: bytes, chunk: LogChunk, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The batches of a chunk: kinds, offsets where it is sparse, then those columns."""
    front = (KIND, OFFSET) if chunk.sparse else (KIND,)
    with pa.ipc.open_stream(data) as reader:
        names = reader.schema.names
    wanted = [names.index(name) for name in (*front, *columns)]
    options = pa.ipc.IpcReadOptions(included_fields=sorted(wanted))
    with pa.ipc.open_stream(data, options=options) as reader:
        for batch in reader:
            yield batch.select([*front, *columns])
