"""What a scan of a log keeps of its buckets: how far each is, who is asked for it, what is not decoded;
and what it raises of one bucket: it stalls, its rows are gone, or others are in their place.

`ScanBatch` is what it gives. Values of one scan, which belongs to one thread. Used by `log_scan`.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tablestore.core.errors import NotFound, Unavailable
from tablestore.fluss.connection import FlussConnection, Pending
from tablestore.fluss.log_records import BatchHead, BatchMark
from tablestore.fluss.tables import TableBucket
from tablestore.io.fileio import FileIO


class LogStalled(Unavailable):
    """A bucket gives no rows although it has some: `bucket` says which, `offset` where the scan has come
    to."""

    def __init__(self, bucket: TableBucket, offset: int, message: str) -> None:
        self.bucket, self.offset = bucket, offset
        super().__init__(message)


class LogOffsetExpired(NotFound):
    """Rows that are asked for are no longer in the log: `bucket` says whose, `offset` from which on,
    `start` where the log begins now, if known."""

    def __init__(self, bucket: TableBucket, offset: int, start: int | None, message: str) -> None:
        self.bucket, self.offset, self.start = bucket, offset, start
        super().__init__(message)


class LogRewritten(NotFound):
    """A log does not have the rows any more that were read of it, and has others at their offsets: `bucket`
    says whose, `offset` up to where rows were read."""

    def __init__(self, bucket: TableBucket, offset: int, message: str) -> None:
        self.bucket, self.offset = bucket, offset
        super().__init__(message)


def rewritten(where: str, offset: int) -> str:
    """What there is to say of a log whose batch before an offset is another one by now."""
    return (
        f"{where}: the log was cut below offset {offset}, up to which its rows were read, and has others "
        "there now: a server that was killed lost rows which it had acknowledged"
    )


@dataclass(frozen=True, slots=True)
class ScanBatch:
    """Rows of one bucket: row i has the offset `base` + i, and `end` is the next one to read, which may be
    greater.

    `kinds` are int8 row kinds, None where all were appended (+I). `mark`: of the whole batch in the log.
    """

    bucket: TableBucket
    base: int
    end: int
    timestamp_ms: int
    kinds: np.ndarray | None
    rows: pa.RecordBatch
    mark: BatchMark


@dataclass(slots=True)
class BucketProgress:
    """How far a bucket has come, and why not farther. `last` is the batch before its offset; `compares`: the
    next answer has it again, to be compared."""

    bucket: TableBucket
    offset: int
    stop: int | None
    moved_at: float
    trouble: str = ""
    cause: Exception | None = None
    last: BatchMark | None = None
    compares: bool = False

    @property
    def done(self) -> bool:
        return self.stop is not None and self.offset >= self.stop


@dataclass(slots=True)
class BucketGroup:
    """Buckets of one leader that are asked for together; asked for again in another order, so that none
    waits for ever behind a full answer."""

    connection: FlussConnection
    buckets: list[TableBucket]
    pending: Pending | None = None


@dataclass(slots=True)
class SegmentFiles:
    """Segment files of a bucket that are still to be read; `at` is the place in the first."""

    io: FileIO
    files: list[tuple[str, int]]  # path, and the offset behind its last row
    at: int
    chunk_bytes: int
    chunk: Future[pa.Buffer]


@dataclass(slots=True)
class LogBatches:
    """Whole batches of a bucket that are not decoded yet."""

    bucket: TableBucket
    data: pa.Buffer
    heads: list[BatchHead]
    where: str
    projected: bool
    range: tuple[int, int] = field(default=(0, 0))
