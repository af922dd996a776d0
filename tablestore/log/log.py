"""The interface of a log, of which there are two: `embedded` in the table's directory, and `kafka`.

Per bucket an ordered run of changes. The log is the order of a table's changes, and the table's files are
always a prefix of it (`offsets.PROPERTY` says which). Partitions of the table share the log of a bucket
number. A transaction becomes visible at once in all buckets or not at all. Readers take rows from offsets to
offsets; they never count rows, since offsets may have gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from tablestore.core.errors import CommitConflict, CommitUnknown, NotFound
from tablestore.log.offsets import Offsets
from tablestore.log.transaction_id import TransactionId

Milliseconds = int
Seconds = float


class LogExpired(NotFound):
    """Rows that are asked for are not in the log: they lie before its start, since retention took them, or
    behind its end, since files of it are missing."""


class RowsInBetween(CommitConflict):
    """The log has rows of others where a transaction was to begin: nothing was appended."""


class FilesBehindLog(CommitUnknown):
    """The rows of a commit are in the log of the table, and not yet in its files: the next writer brings
    them."""


@dataclass(frozen=True, slots=True)
class CommitMark:
    """Whose commit a transaction is: what a snapshot of the table says of it, so that any later writer can
    finish it. `identifier`: number of the batch in its stream."""

    user: str
    identifier: int
    position: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """Rows that were appended together: per bucket of them, the offset of the first and one behind the last,
    with no row of others between. `mark`: None for rows that were visible before their commit (eventual).
    `last`: the last transaction of them, None of a log that does not number these. `row_count`: None where
    each offset has a row. `mixed`: rows of others may lie among them, or before them in one bucket and behind
    them in another; `between`: where they lie among them, if that is known."""

    start: Offsets
    end: Offsets
    timestamp_ms: Milliseconds
    mark: CommitMark | None = None
    last: TransactionId | None = None
    row_count: int | None = None
    mixed: bool = False
    between: Mapping[int, tuple[range, ...]] = field(default_factory=dict, hash=False)

    @property
    def rows(self) -> int:
        """How many rows."""
        if self.row_count is not None:
            return self.row_count
        return sum(offset - self.start[bucket] for bucket, offset in self.end.items())


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Rows of one bucket in the order of the log.

    `offsets` (int64, ascending) and `timestamps` (int64, milliseconds) have a value for each row; `kinds` are
    int8 row kinds; `rows` has the table's columns as they are now. `end`: the offset behind the batch, which
    may lie behind `offsets[-1] + 1`.
    """

    bucket: int
    offsets: np.ndarray
    timestamps: np.ndarray
    kinds: pa.Array
    rows: pa.RecordBatch
    end: int


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Offsets per bucket: of the oldest row that is there, and behind the newest visible one. `written`:
    behind the newest row, be it in a transaction that is open; None: the same as `end`."""

    start: Offsets
    end: Offsets
    written: Offsets | None = None

    @property
    def last(self) -> Offsets:
        """Where the log ends, with rows that are not visible yet."""
        return self.end if self.written is None else self.written


class Appender(Protocol):
    """Appends rows of one writer. Belongs to one thread. Memory: rows above a limit wait in a file."""

    def write(self, bucket: int, kinds: pa.Array, rows: pa.RecordBatch) -> None:
        """Take rows of a bucket, in their order; nobody sees them yet."""
        ...

    def flush(self) -> Appended | None:
        """Make what was written visible now, without a mark; None if there was nothing."""
        ...

    def stage(self) -> bytes | None:
        """What was written as a message for `commit` in another process; None if there was nothing."""
        ...

    def commit(
        self, mark: CommitMark, staged: Sequence[bytes] = (), *, after: Offsets | None = None
    ) -> Appended | None:
        """Append what was written, and what others staged, as one transaction; None if there was nothing.

        With `after` only if nobody has appended rows behind these offsets in the buckets of the transaction.
        Raises RowsInBetween otherwise, CommitUnknown where it may be there or not."""
        ...

    def abort(self) -> None:
        """Forget what was written and not committed; staged parts of this appender go, too."""
        ...


class Log(Protocol):
    """The log of one table. Safe to share between threads."""

    def bounds(self) -> LogBounds:
        """Where the log starts and ends now."""
        ...

    def appender(self) -> Appender:
        """A new appender."""
        ...

    def read(self, start: Offsets, stop: Offsets, columns: Sequence[str] | None = None) -> Iterator[LogBatch]:
        """The rows from `start` up to but without `stop`, of each bucket in order. Raises LogExpired where
        rows behind `start` are no longer there, or rows before `stop` are missing. Memory: one batch a
        bucket."""
        ...

    def transactions(self, start: Offsets) -> Iterator[Appended]:
        """What was appended behind `start`, in the order of the log; adjacent rows without a mark may come
        as one."""
        ...

    def at(self, timestamp_ms: Milliseconds) -> dict[int, int]:
        """The offset of the first row of each bucket that is not older than a moment; the end, if none."""
        ...

    def wait(self, offsets: Offsets, seconds: Seconds) -> Offsets | None:
        """Wait until a bucket has rows behind `offsets`; then the end of each bucket, in no bucket before
        `offsets`, as far as it is known at once. None after that time without any rows."""
        ...

    def expire(self, keep: Offsets, *, everywhere: Offsets | None = None) -> int:
        """Remove old rows as the table's options say, none from `keep` on; how many bytes went.

        Where the newest row of a key is its state, only that one may remain below `everywhere`: every
        snapshot and consumer has the rows before it.
        """
        ...

    def drop(self) -> None:
        """Remove the log with all its rows."""
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...
