"""A topic in memory: a log whose transactions are read from the headers of its messages, as Kafka's are.

Another writer's transaction may be sent beside one (`beside`): in each bucket its rows lie before, behind or
between the rows of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tablestore.log.kafka.transactions import HEADER, TransactionMark, Transactions
from tablestore.log.log import Appended, CommitMark
from tablestore.log.offsets import Offsets
from tests.log.memory_log import MemoryLog

Parts = Sequence[tuple[int, pa.Array, pa.RecordBatch]]
BEFORE, BETWEEN, BEHIND = "before", "between", "behind"


@dataclass(frozen=True)
class SentMessage:
    """A message as a consumer gives it."""

    at: int
    header: bytes | None = None

    def offset(self) -> int:
        return self.at

    def headers(self) -> list[tuple[str, bytes]] | None:
        return None if self.header is None else [(HEADER, self.header)]

    def timestamp(self) -> tuple[int, int]:
        return 1, 7


@dataclass(frozen=True)
class Beside:
    """A transaction that is sent with the next one: its rows, its mark, the `order` in this, and where its
    rows lie in each bucket."""

    parts: Parts
    mark: CommitMark
    order: int
    places: Mapping[int, str]


@dataclass
class TopicLog(MemoryLog):
    """The log of one table; the next transaction has `order` in its mark."""

    order: int = 10
    beside: Beside | None = None
    messages: dict[int, list[SentMessage]] = field(default_factory=dict)

    def append(self, parts: Parts, mark: CommitMark | None) -> Appended | None:
        beside, self.beside = self.beside, None
        own = _Sent(self, mark, self.order, parts)
        other = None if beside is None else _Sent(self, beside.mark, beside.order, beside.parts)
        for bucket in range(self.buckets):
            place = beside.places.get(bucket) if beside is not None else None
            if other is not None and place == BEFORE:
                other.send(bucket)
            if other is not None and place == BETWEEN:
                own.send(bucket, rows=1)
                other.send(bucket)
            own.send(bucket)
            if other is not None and place == BEHIND:
                other.send(bucket)
        self.order += 10
        return own.appended()

    def put(self, part: tuple[int, pa.Array, pa.RecordBatch], header: bytes | None) -> Appended:
        """Rows of one bucket, the first with a header."""
        placed = super().append([part], None)
        assert placed is not None
        bucket = part[0]
        for offset in range(placed.start[bucket], placed.start[bucket] + part[2].num_rows):
            self.messages.setdefault(bucket, []).append(SentMessage(offset, header))
            header = None
        return placed

    def transactions(self, start: Offsets) -> Iterator[Appended]:
        actual = Transactions("t")
        for bucket, messages in self.messages.items():
            for message in messages:
                if message.at >= start.get(bucket, 0):
                    actual.take(bucket, message)
        yield from actual.appended(self.bounds().end)


class _Sent:
    """A transaction on its way."""

    def __init__(self, log: TopicLog, mark: CommitMark | None, order: int, parts: Parts) -> None:
        self._log, self._mark = log, mark
        rows: dict[int, pa.Table] = {}
        for bucket, kinds, some in parts:
            actual = pa.Table.from_batches([some]).append_column("kind of row", kinds)
            rows[bucket] = pa.concat_tables([rows[bucket], actual]) if bucket in rows else actual
        self._rows = rows
        self._counts = {bucket: messages.num_rows for bucket, messages in rows.items()}
        self._header = None
        if mark is not None:
            self._header = TransactionMark(f"{mark.user} {order}", order, 7, self._counts, mark).encode()
        self._start: dict[int, int] = {}
        self._end: dict[int, int] = {}

    def send(self, bucket: int, *, rows: int | None = None) -> None:
        """So many of the rows of a bucket that are not sent yet; None: all."""
        waiting = self._rows.get(bucket)
        if waiting is None or not waiting.num_rows:
            return
        now = waiting.slice(0, rows).combine_chunks().to_batches()[0]
        self._rows[bucket] = waiting.slice(now.num_rows)
        kinds, values = now.column("kind of row"), now.drop_columns(["kind of row"])
        header = None if bucket in self._start else self._header
        placed = self._log.put((bucket, kinds, values), header)
        self._start.setdefault(bucket, placed.start[bucket])
        self._end[bucket] = placed.end[bucket]

    def appended(self) -> Appended | None:
        """Where it is, as its writer knows it."""
        if not self._end:
            return None
        mixed = any(end - self._start[b] > self._counts[b] for b, end in self._end.items())
        rows = sum(self._counts.values())
        return Appended(self._start, self._end, 7, self._mark, row_count=rows, mixed=mixed)
