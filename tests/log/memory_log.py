"""A log in memory: the model of `tablestore.log.log.Log`, one list of rows a bucket.

Retention is by hand (`keep_from`). Offsets may have gaps (`gap`), as Kafka's have; a bucket may be lost, as
those of a partition of Fluss are that is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tablestore.core.env import SYSTEM, Env
from tablestore.log.log import Appended, CommitMark, LogBatch, LogBounds, LogExpired, RowsInBetween
from tablestore.log.offsets import Offsets


@dataclass
class _Rows:
    """Rows of one bucket that were appended together, at offsets from `start`."""

    start: int
    timestamp_ms: int
    kinds: pa.Array
    rows: pa.RecordBatch

    @property
    def end(self) -> int:
        return self.start + self.rows.num_rows


@dataclass
class MemoryLog:
    """The log of one table with so many buckets."""

    buckets: int
    env: Env = SYSTEM
    gap: int = 0
    _rows: dict[int, list[_Rows]] = field(default_factory=dict)
    _ends: dict[int, int] = field(default_factory=dict)
    _starts: dict[int, int] = field(default_factory=dict)
    _appended: list[Appended] = field(default_factory=list)
    _lost: set[int] = field(default_factory=set)

    @property
    def _numbers(self) -> list[int]:
        return [b for b in range(self.buckets) if b not in self._lost]

    def lose(self, bucket: int) -> None:
        """A bucket is gone, and its rows."""
        self._lost.add(bucket)

    def bounds(self) -> LogBounds:
        numbers = self._numbers
        return LogBounds(
            {b: self._starts.get(b, 0) for b in numbers}, {b: self._ends.get(b, 0) for b in numbers}
        )

    def appender(self) -> MemoryAppender:
        return MemoryAppender(self)

    def append(
        self, parts: Sequence[tuple[int, pa.Array, pa.RecordBatch]], mark: CommitMark | None
    ) -> Appended | None:
        parts = [p for p in parts if p[2].num_rows]
        if not parts:
            return None
        now, start, end = self.env.now_ms(), dict[int, int](), dict[int, int]()
        for bucket, kinds, rows in parts:
            at = self._ends.get(bucket, 0)
            self._rows.setdefault(bucket, []).append(_Rows(at, now, kinds, rows))
            self._ends[bucket] = at + rows.num_rows + self.gap
            start.setdefault(bucket, at)
            end[bucket] = self._ends[bucket]
        self._appended.append(Appended(start, end, now, mark))
        return self._appended[-1]

    def read(self, start: Offsets, stop: Offsets, columns: Sequence[str] | None = None) -> Iterator[LogBatch]:
        for bucket, end in stop.items():
            at = start.get(bucket, 0)
            if bucket in self._lost and at < end:
                raise LogExpired(f"bucket {bucket} of the log is gone")
            if at < min(self._starts.get(bucket, 0), end):
                raise LogExpired(f"bucket {bucket} of the log starts at {self._starts[bucket]}, not {at}")
            for some in self._rows.get(bucket, ()):
                low, high = max(at, some.start), min(end, some.end)
                if low >= high:
                    continue
                rows = some.rows.slice(low - some.start, high - low)
                yield LogBatch(
                    bucket,
                    np.arange(low, high),
                    np.full(high - low, some.timestamp_ms),
                    some.kinds.slice(low - some.start, high - low),
                    rows if columns is None else rows.select(list(columns)),
                    high,
                )

    def transactions(self, start: Offsets) -> Iterator[Appended]:
        for transaction in self._appended:
            if any(offset > start.get(bucket, 0) for bucket, offset in transaction.end.items()):
                yield transaction

    def at(self, timestamp_ms: int) -> dict[int, int]:
        actual = dict(self.bounds().end)
        for bucket in self._numbers:
            for batch in self._rows.get(bucket, ()):
                if batch.timestamp_ms >= timestamp_ms and batch.end > self._starts.get(bucket, 0):
                    actual[bucket] = max(batch.start, self._starts.get(bucket, 0))
                    break
        return actual

    def wait(self, offsets: Offsets, seconds: float) -> Offsets | None:
        if (actual := self._behind(offsets)) is None:
            self.env.sleep(seconds)
            actual = self._behind(offsets)
        return actual

    def _behind(self, offsets: Offsets) -> Offsets | None:
        ends = {b: self._ends.get(b, 0) for b in self._numbers}
        if not any(end > offsets.get(bucket, 0) for bucket, end in ends.items()):
            return None
        return {b: max(ends.get(b, 0), offsets.get(b, 0)) for b in sorted({*ends, *offsets})}

    def skip(self, offsets: int) -> None:
        """Spend so many offsets of each bucket without a row."""
        self._ends = {b: self._ends.get(b, 0) + offsets for b in range(self.buckets)}

    def keep_from(self, offsets: Mapping[int, int]) -> None:
        """Remove all rows before these offsets."""
        for bucket, offset in offsets.items():
            self._starts[bucket] = max(self._starts.get(bucket, 0), offset)
            kept = [r for r in self._rows.get(bucket, ()) if r.end > self._starts[bucket]]
            self._rows[bucket] = kept

    def expire(self, keep: Offsets, *, everywhere: Offsets | None = None) -> int:
        return 0

    def drop(self) -> None:
        self._rows, self._ends, self._starts, self._appended = {}, {}, {}, []

    def close(self) -> None:
        pass


class MemoryAppender:
    """Appends to a `MemoryLog`."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._waiting: list[tuple[int, pa.Array, pa.RecordBatch]] = []

    def write(self, bucket: int, kinds: pa.Array, rows: pa.RecordBatch) -> None:
        self._waiting.append((bucket, kinds, rows))

    def flush(self) -> Appended | None:
        parts, self._waiting = self._waiting, []
        return self._log.append(parts, None)

    def stage(self) -> bytes | None:
        raise NotImplementedError

    def commit(
        self, mark: CommitMark, staged: Sequence[bytes] = (), *, after: Offsets | None = None
    ) -> Appended | None:
        parts, self._waiting = self._waiting, []
        ends = self._log.bounds().end
        if after is not None and any(ends[b] > after.get(b, 0) for b, _, _ in parts):
            raise RowsInBetween("the log has rows of others")
        return self._log.append(parts, mark)

    def abort(self) -> None:
        self._waiting = []
